//! How CPU-bound threads that begin on one CPU spread over nodes, cores and hardware threads: the
//! simulated kernels, and a real one on a machine that QEMU emulates. The placements that both
//! reach in the end have the same properties. No time of the emulated machine is compared.
//!
//! A node of the simulator is a set of cores that share their last cache, which is a socket of the
//! emulated machine.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, mpsc};
use std::thread::{available_parallelism, scope, sleep};
use std::time::{Duration, Instant};

use policy::{CpuId, Span, ThreadId};
use scenario::{Distribution, Job, JobKind, Machine, MachineKeys, Scheduler, Setting, Topology};
use sim::observer::{CpuState, Observer};
use sys::identity::Stat;
use testing::guest::{self, with_topology};

const EMULATED: guest::Topology = guest::Topology { sockets: 2, cores: 2, threads: 2, has_nodes: false };

/// The same as a simulated machine.
fn topology() -> Topology {
    Topology::new(EMULATED.sockets, EMULATED.cores, EMULATED.threads).unwrap()
}

/// Whether the nodes of the machine, the cores of each node and the CPUs of each core have equally
/// many threads, or one more.
fn is_balanced(topology: Topology, cpus: &[u32]) -> bool {
    let sizes = [topology.cpus(), topology.cpus_of_node(), topology.cpus_of_core(), 1];
    sizes.windows(2).all(|sizes| {
        (0..topology.cpus()).step_by(sizes[0] as usize).all(|domain| {
            let groups = (domain..domain + sizes[0]).step_by(sizes[1] as usize);
            let threads = |first| cpus.iter().filter(|&&cpu| (first..first + sizes[1]).contains(&cpu)).count();
            let (fewest, most) = (groups.clone().map(threads).min(), groups.map(threads).max());
            most <= fewest.map(|fewest| fewest + 1)
        })
    })
}

#[test]
fn a_placement_is_balanced_if_no_node_core_or_cpu_has_two_threads_more_than_another() {
    let is_balanced = |cpus: &[u32]| is_balanced(topology(), cpus);
    assert!(is_balanced(&[2, 4]) && is_balanced(&[0, 3, 4, 6]) && is_balanced(&[0, 1, 2, 4, 6]));
    assert!(!is_balanced(&[0, 2]), "two nodes");
    assert!(!is_balanced(&[0, 1, 4, 6]), "two cores");
    assert!(!is_balanced(&[0, 0, 2, 4, 6]), "two CPUs");
    assert!(!is_balanced(&[0, 1, 2, 3, 4, 6]), "two nodes");
}

/// The CPUs on which threads first and last ran until a time.
struct Seen {
    until: policy::Instant,
    first: BTreeMap<ThreadId, CpuId>,
    last: BTreeMap<ThreadId, CpuId>,
}

impl Seen {
    /// Simulates threads that have this much work each.
    fn simulate(machine: &Machine, works: &[Span], seed: u64, until: Span) -> Seen {
        let job = |(number, work): (usize, &Span)| {
            Job::new(format!("{number}"), 1, JobKind::Cpu { threads: 1, work: Some(Distribution::from(*work)) })
        };
        let jobs = works.iter().enumerate().map(job).collect();
        let setting = Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false };
        let until = policy::Instant::ZERO + until;
        let mut seen = Seen { until, first: BTreeMap::new(), last: BTreeMap::new() };
        sim::run_observed(machine, &setting, seed, &mut seen).unwrap();
        seen
    }
}

impl Observer for Seen {
    fn cpu_changed(&mut self, at: policy::Instant, cpu: CpuId, state: CpuState) {
        if let CpuState::Running(thread) = state
            && at <= self.until
        {
            self.first.entry(thread).or_insert(cpu);
            self.last.insert(thread, cpu);
        }
    }
}

#[test]
fn simulated_threads_of_one_cpu_spread_over_nodes_then_cores_then_cpus() {
    let topology = topology();
    for scheduler in [Scheduler::Cfs, Scheduler::Eevdf] {
        let machine = Machine { scheduler, topology: Some(topology), ..Machine::with_cpus(topology.cpus()) };
        for seed in 1..=5 {
            // Each CPU has as many threads as there are CPUs. Nothing moves them.
            let all = vec![Span::from_millis(200); (topology.cpus() * topology.cpus()) as usize];
            let seen = Seen::simulate(&machine, &all, seed, Span::from_millis(150));
            let of_first: Vec<ThreadId> = seen.first.keys().copied().filter(|id| seen.first[id] == CpuId(0)).collect();
            assert_eq!((seen.first.len(), of_first.len()), (all.len(), topology.cpus() as usize));
            // Only some threads of the first CPU have much to do.
            for threads in 2..=topology.cpus() as usize {
                let long = &of_first[..threads];
                let mut works = vec![Span::from_millis(1); all.len()];
                long.iter().for_each(|thread| works[thread.index()] = Span::from_millis(2_000));
                let seen = Seen::simulate(&machine, &works, seed, Span::from_millis(1_000));
                let cpus: Vec<u32> = long.iter().map(|thread| seen.last[thread].0).collect();
                assert!(is_balanced(topology, &cpus), "{scheduler}, seed {seed}: {cpus:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn threads_of_one_cpu_spread_over_sockets_then_cores_then_cpus_under_a_real_kernel() {
    testing::isolated_by(with_topology(EMULATED), || spread(2));
}

/// If sockets are NUMA nodes, Linux leaves two threads in one of them (`adjust_numa_imbalance`).
#[test]
#[ignore = "needs QEMU and a kernel, and takes a while; ./check --full runs it"]
fn four_threads_of_one_cpu_spread_over_nodes_then_cores_then_cpus_under_a_real_kernel() {
    testing::isolated_by(with_topology(guest::Topology { has_nodes: true, ..EMULATED }), || spread(4));
}

/// Lets so many threads or more spread from the first CPU, until they are balanced.
fn spread(fewest: usize) {
    let topology = topology();
    assert_eq!(available_parallelism().unwrap().get(), topology.cpus() as usize);
    assert_domains(topology);
    for threads in fewest..=topology.cpus() as usize {
        let (start, ends) = (Barrier::new(threads), AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let pinned = sys::cpus::pin(0).unwrap();
                    start.wait();
                    // The thread is on that CPU now, and may leave it from here on.
                    drop(pinned);
                    sender.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
                    while !ends.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let folders: Vec<_> = receiver.iter().take(threads).collect();
            let cpus = || -> Vec<u32> {
                let stat = |folder| fs::read(std::path::Path::new("/proc").join(folder).join("stat")).unwrap();
                folders.iter().map(|folder| Stat::parse(&stat(folder)).unwrap().cpu.unwrap()).collect()
            };
            // A look may come while another program's thread has pushed one of them away.
            let (began, mut looks, mut seen) = (Instant::now(), 0, Vec::new());
            while looks < 5 && began.elapsed() < testing::child::limit() {
                sleep(Duration::from_millis(20));
                seen = cpus();
                looks = if is_balanced(topology, &seen) { looks + 1 } else { 0 };
            }
            ends.store(true, Relaxed);
            eprintln!("{threads} threads: {seen:?} after {:?}", began.elapsed());
            assert_eq!(looks, 5, "{threads} threads do not spread: {seen:?}");
        });
    }
}

/// Expects that the kernel balances within the cores, the nodes and the machine that the simulator
/// has, too.
fn assert_domains(topology: Topology) {
    let text = fs::read_to_string("/proc/schedstat").unwrap();
    let mut cpu = CpuId(0);
    let mut domains = BTreeMap::<CpuId, Vec<u64>>::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some(number) = first.strip_prefix("cpu") {
            cpu = CpuId(number.parse().unwrap());
        } else if first.starts_with("domain") {
            // The set of its CPUs. Newer kernels write its name before.
            let set = words.find_map(|word| u64::from_str_radix(word, 16).ok());
            domains.entry(cpu).or_default().push(set.unwrap());
        }
    }
    let set = |cpus: std::ops::Range<u32>| cpus.map(|cpu| 1 << cpu).sum::<u64>();
    let expected = |cpu| vec![set(topology.core(cpu)), set(topology.node(cpu)), set(0..topology.cpus())];
    assert_eq!(domains, (0..topology.cpus()).map(CpuId).map(|cpu| (cpu, expected(cpu))).collect());
}
