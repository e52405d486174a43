//! Nodes, cores and hardware threads, calculated by hand. Switches are free, and the tick is 4 ms.

use policy::Span;
use scenario::{Arrival, Attributes, Job, Machine, Scheduler};

use crate::timeline::{assert_timeline, cpu, setting, timeline};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn machine(topology: &str, scheduler: Scheduler) -> Machine {
    let topology: scenario::Topology = topology.parse().unwrap();
    Machine { topology: Some(topology), ..crate::timeline::machine(topology.cpus(), scheduler) }
}

/// The lines of a timeline that contain this text.
fn lines(text: &str, with: &str) -> String {
    text.lines().filter(|line| line.contains(with)).map(|line| format!("{line}\n")).collect()
}

const FAIR: [Scheduler; 2] = [Scheduler::Cfs, Scheduler::Eevdf];

#[test]
fn new_threads_are_spread_over_nodes_then_over_cores() {
    for scheduler in FAIR {
        let jobs = ["a", "b", "c", "d", "e"].map(|name| cpu(name, Some(ms(1)))).to_vec();
        let (text, _) = timeline(&machine("2x2x2", scheduler), &setting(jobs), "abcde", "abcde");
        let running: Vec<&str> =
            text.lines().filter(|line| line.starts_with("0 ns") && !line.contains("then")).collect();
        assert_eq!(running, ["0 ns cpu0: a", "0 ns cpu1: e", "0 ns cpu2: c", "0 ns cpu4: b", "0 ns cpu6: d"]);
    }
}

#[test]
fn an_idle_cpu_takes_a_thread_of_its_node_first() {
    // `a`, `c` and `e` are in the first node, and `b`, `d`, `f` and `g` in the second. When `c`
    // ends on CPU 1, a thread waits on CPU 0, and two on CPU 2, which comes next and weighs more.
    for (scheduler, waiting) in [(Scheduler::Cfs, "a"), (Scheduler::Eevdf, "e")] {
        let works = [("a", 9), ("b", 9), ("c", 1), ("d", 9), ("e", 9), ("f", 9)];
        let mut jobs = works.map(|(name, work)| cpu(name, Some(ms(work)))).to_vec();
        let attributes = Attributes { cpus: Some("2".parse().unwrap()), ..Attributes::default() };
        jobs.push(Job { attributes, ..cpu("g", Some(ms(9))) });
        let (text, _) = timeline(&machine("2x2x1", scheduler), &setting(jobs), "abcdefg", "abcdefg");
        assert_timeline(
            &lines(&text, "1 ms "),
            &format!(
                "1 ms cpu1: c ends, then {waiting}
                 1 ms cpu1: {waiting}"
            ),
        );
    }
}

#[test]
fn a_thread_of_a_shared_core_is_pushed_to_an_idle_core_after_four_failures() {
    // `b` and `d` leave the second core at 1 ms. From 4 ms on, its CPUs are asked at each tick, and
    // no thread waits. `cfs` asks the second idle CPU first, `eevdf` the first one.
    for (scheduler, to) in [(Scheduler::Cfs, 3), (Scheduler::Eevdf, 2)] {
        let works = [("a", 30), ("b", 1), ("c", 30), ("d", 1)];
        let jobs = works.map(|(name, work)| cpu(name, Some(ms(work)))).to_vec();
        let (text, _) = timeline(&machine("1x2x2", scheduler), &setting(jobs), "abcd", "abcd");
        let later: String =
            text.lines().skip_while(|line| !line.starts_with("16 ms")).map(|l| format!("{l}\n")).collect();
        let between = text.lines().filter(|line| ["4 ms", "8 ms", "12 ms"].iter().any(|at| line.starts_with(at)));
        assert_eq!(between.count(), 0, "{text}");
        assert_timeline(
            &later,
            &format!(
                "16 ms cpu0: a preempted, then idle
                 16 ms cpu0: idle
                 16 ms cpu{to}: idle, then a
                 16 ms cpu{to}: a
                 30 ms cpu1: c ends, then idle
                 30 ms cpu1: idle
                 30 ms cpu{to}: a ends, then idle"
            ),
        );
    }
}

#[test]
fn a_running_thread_is_pushed_away_from_threads_that_may_run_nowhere_else() {
    // `x` outweighs the others and has long slices, so it always runs at a tick.
    for scheduler in FAIR {
        let nice = |nice, cpus: Option<&str>, job| {
            let cpus = cpus.map(|cpus| cpus.parse().unwrap());
            Job { attributes: Attributes { nice, cpus, ..Attributes::default() }, ..job }
        };
        let bound = |name| nice(19, Some("0"), cpu(name, Some(ms(9))));
        let jobs = vec![nice(-20, None, cpu("x", Some(ms(20)))), bound("y"), bound("z")];
        let (text, _) =
            timeline(&Machine { slice: ms(100), ..machine("1x2x1", scheduler) }, &setting(jobs), "xyz", "xyz");
        assert_timeline(
            &lines(&text, "x"),
            "0 ns cpu0: idle, then x
             0 ns cpu0: x
             16 ms cpu0: x preempted, then y
             16 ms cpu1: idle, then x
             16 ms cpu1: x
             20 ms cpu1: x ends, then idle",
        );
    }
}

#[test]
fn a_thread_that_has_moved_fills_its_cache_and_pays_for_it() {
    // At 1 ms `a` goes from CPU 0 to CPU 1, which is in another core or in another node.
    for (topology, at, work) in [("1x1x2", "1 ms", 2_000), ("1x2x1", "1.02 ms", 2_020), ("2x1x1", "1.07 ms", 2_070)] {
        let (cache_refill, node_refill) = (Span::from_micros(20), Span::from_micros(50));
        let quantum = ms(1);
        let machine = Machine { cache_refill, node_refill, quantum, ..machine(topology, Scheduler::Rr) };
        let jobs = [("a", 2), ("b", 2), ("c", 1)].map(|(name, work)| cpu(name, Some(ms(work)))).to_vec();
        let (text, outcome) = timeline(&machine, &setting(jobs), "abc", "abc");
        assert!(text.contains("1 ms cpu1: b preempted, then a\n"), "{text}");
        assert!(text.contains(&format!("{at} cpu1: a\n")), "{text}");
        assert_eq!(outcome.jobs[0].cpu_ns, Some(Span::from_micros(work)));
        assert_eq!(outcome.jobs[0].delivered_work_ns, Some(ms(2)));
    }
}

#[test]
fn cpus_of_a_core_slow_each_other_down_while_both_are_busy() {
    // If `b` begins at once, both compute at half speed until it ends at 2 ms, and `a` has half of
    // its work left. If `b` arrives at 1 ms, both have 1 ms of work left, which takes until 3 ms:
    // 2 ms after the arrival.
    for scheduler in Scheduler::ALL {
        for arrives in [0, 1] {
            let machine = Machine { smt_speed: 50, ..machine("1x1x2", scheduler) };
            let arrival = Arrival { at: ms(arrives), every: None };
            let jobs = vec![cpu("a", Some(ms(2))), Job { arrival, ..cpu("b", Some(ms(1))) }];
            let (_, outcome) = timeline(&machine, &setting(jobs), "ab", "ab");
            let completions: Vec<_> = outcome.jobs.iter().map(|job| job.completion_ns.unwrap()).collect();
            assert_eq!(completions, [3, 2].map(ms), "{scheduler}, {arrives} ms");
        }
    }
}
