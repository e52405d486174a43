//! Probes of the machine. They leave nothing changed: settings are tried on a temporary thread, and
//! control groups that are created are removed.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use cosched::StopMechanism;
use cosched::pds::JobTable;
use cosched::pmix::LoadError;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};
use serde::Serialize;
use sys::futex::{self, Scope, WaitResult};
use sys::load::CpuTime;
use sys::perf::{Counter, probe};
use sys::priorities;
use sys::process_memory::ProcessMemory;
use sys::rseq::{Rseq, rseq};
use sys::scheduling::{Thread, is_grouped_by_session, nice};
use sys::task_group::TaskGroup;

use super::cgroups::Cgroups;
use super::kernel::Kernel;
use crate::error::Error;
use crate::machine::Machine;
use crate::procfs::{number, read};

/// The result of a trial: what was granted, or the kind of error.
pub(super) type Trial<T> = Result<T, ErrorKind>;

/// The timeslice to try. Kernels grant 0.1 to 100 ms.
const TIMESLICE: Duration = Duration::from_micros(500);

/// The privileges of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Privileges {
    /// The user's id; 0 is root.
    pub(super) user: u32,
    /// The effective ones among the capabilities `SYS_NICE`, `SYS_ADMIN`, `PERFMON` and `BPF`.
    pub(super) capabilities: Vec<&'static str>,
    /// Whether this is a user namespace, in which root and capabilities are valid only inside.
    pub(super) in_a_user_namespace: bool,
}

/// The layers between this program and the machine's CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Virtualization {
    /// The name of the hypervisor, or `unknown`. `None` if the CPUs are not virtual.
    pub(super) hypervisor: Option<String>,
    /// The share of time since the boot during which the hypervisor kept the CPUs from running, in
    /// percent.
    pub(super) stolen_percent: Option<f64>,
    /// The kind of container in which this program runs, if any.
    pub(super) container: Option<String>,
}

/// The events that perf can count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Perf {
    /// `kernel.perf_event_paranoid`.
    pub(super) paranoid: Option<i32>,
    pub(super) own_switches: Trial<()>,
    pub(super) cycles: Trial<()>,
    /// Events of other processes on a CPU.
    pub(super) others: Trial<()>,
}

/// The best mechanism by which `rowlock prun` could stop a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobStops {
    pub(super) mechanism: StopMechanism,
    /// Why it is not a better one, in sentences.
    pub(super) obstacles: Vec<String>,
    /// The table in which jobs would take turns, in a clause, or why there can be none.
    pub(super) table: Result<String, String>,
}

impl JobStops {
    fn current() -> JobStops {
        let (mechanism, obstacles) = cosched::find_stop_mechanism();
        let obstacles = obstacles.iter().map(ToString::to_string).collect();
        JobStops { mechanism, obstacles, table: table() }
    }
}

/// The table in which a `rowlock prun` with this environment would let a job take turns, in a
/// clause, or why it would fail.
fn table() -> Result<String, String> {
    match JobTable::find().map_err(|why| why.to_string())? {
        JobTable::OfAll(mut pds) => {
            pds.table().map_err(|why| why.to_string())?;
            Ok(format!(
                "`rowlock pds` answers, by messages of version {}: it coordinates the jobs of all users, and stops them by \
                 signals",
                cosched::pds::VERSION
            ))
        }
        JobTable::OfUser(why) => {
            let place = cosched::place();
            let unusable = |why| format!("the table of jobs cannot be in {}: {why}", place.display());
            fs::read_dir(&place).map_err(unusable)?;
            Ok(format!("{why}: jobs take turns only with those of this user in {}", place.display()))
        }
    }
}

/// How far processes may read the memory of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryReads {
    /// Whether this process may read its own memory so.
    pub(super) of_itself: bool,
    /// `kernel.yama.ptrace_scope`. `None` if the kernel lacks it.
    pub(super) scope: Option<u32>,
    /// Whether the capability SYS_PTRACE is effective.
    pub(super) is_privileged: bool,
}

impl MemoryReads {
    fn current() -> MemoryReads {
        let (from, mut to) = ([1], [0]);
        let own = ProcessMemory { pid: std::process::id() };
        let read = own.read(from.as_ptr().expose_provenance() as u64, &mut to);
        let sets = capabilities(None);
        MemoryReads {
            of_itself: read.is_ok() && to == from,
            scope: number("/proc/sys/kernel/yama/ptrace_scope"),
            is_privileged: sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_PTRACE)),
        }
    }
}

/// The results of all probes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probes {
    pub(super) machine: Machine,
    /// The kernel's scheduler for ordinary threads.
    pub(super) scheduler: String,
    pub(super) privileges: Privileges,
    pub(super) kernel: Kernel,
    pub(super) virtualization: Virtualization,
    pub(super) cgroups: Cgroups,
    pub(super) job_stops: JobStops,
    /// The mechanism by which `rowlock prun` could lower a job, or why it could not.
    pub(super) job_lowering: Result<&'static str, String>,
    /// Whether threads can block on a futex, both within a process and across processes.
    pub(super) futexes: bool,
    pub(super) rseq: Rseq,
    pub(super) memory_reads: MemoryReads,
    /// The text of libpmix about its version, or why it cannot be used.
    pub(super) pmix: Result<String, String>,
    pub(super) nice: Trial<i32>,
    /// The lowest nice value that is allowed.
    pub(super) best_nice: Trial<i32>,
    /// Whether real-time priorities are allowed.
    pub(super) real_time: Trial<()>,
    /// How much of each second real-time threads may run, in microseconds. Negative if there is no
    /// limit.
    pub(super) real_time_runtime: Option<i64>,
    /// The timeslice that a request resulted in. `None` if the kernel ignores the request.
    pub(super) timeslice: Trial<Option<Duration>>,
    /// Whether the kernel groups threads by session.
    pub(super) autogroup: Option<bool>,
    /// Whether this process is in none of those groups.
    pub(super) is_outermost: bool,
    /// Whether the kernel can load a scheduler.
    pub(super) sched_ext: bool,
    pub(super) perf: Perf,
    /// The folder of the kernel's tracing files, if they are mounted.
    pub(super) tracefs: Option<PathBuf>,
    /// Whether this program may enable the scheduler's events there.
    pub(super) tracing: Trial<()>,
    /// Whether the kernel counts how long this thread has waited for a CPU.
    pub(super) run_delay: bool,
    /// `kernel.sched_schedstats`. `None` if the kernel lacks it.
    pub(super) schedstats: Option<bool>,
    /// Whether the kernel reports how much of the time threads wait for CPUs, machine-wide.
    pub(super) pressure: Trial<()>,
}

impl Probes {
    /// Probes this machine with the privileges of this process.
    ///
    /// # Errors
    /// If the kernel does not report the allowed CPUs. Any other refusal is a result of a probe.
    pub(super) fn take() -> Result<Probes, Error> {
        let machine = Machine::current()?;
        let scheduler = machine.scheduler();
        let kernel = Kernel::current(&machine.kernel);
        let cpu = machine.cpus_allowed.first().copied().unwrap_or(0);
        let tracefs = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
        // Only access mounted folders: access to the second folder could mount it.
        let tracefs = tracefs.into_iter().find(|folder| is_mounted(folder, &read("/proc/self/mountinfo")));
        let tracing = tracefs.as_ref().map_or(Err(ErrorKind::NotFound), |folder| {
            kind_of_error(access(folder.join("events/sched/sched_switch/enable"), Access::WRITE_OK).map_err(Into::into))
        });
        Ok(Probes {
            machine,
            scheduler,
            kernel,
            privileges: Privileges::own(),
            virtualization: Virtualization::current(),
            cgroups: Cgroups::current(),
            job_stops: JobStops::current(),
            job_lowering: cosched::find_lower_mechanism().map(|by| by.name()).map_err(|why| why.to_string()),
            futexes: [Scope::Process, Scope::Shared]
                .into_iter()
                .all(|scope| futex::wait(&AtomicU32::new(1), 0, None, scope) == WaitResult::Changed),
            rseq: rseq(),
            memory_reads: MemoryReads::current(),
            pmix: cosched::pmix::library_version().map_err(|why| match why {
                LoadError::NotFound(why) => format!("there is no libpmix ({why})"),
                why => why.to_string(),
            }),
            nice: kind_of_error(nice(Thread::current())),
            best_nice: kind_of_error(priorities::best_nice()),
            real_time: kind_of_error(priorities::check_real_time()),
            real_time_runtime: number("/proc/sys/kernel/sched_rt_runtime_us"),
            timeslice: kind_of_error(priorities::try_timeslice(TIMESLICE)),
            autogroup: is_grouped_by_session(),
            is_outermost: TaskGroup::of(std::process::id()) == Some(TaskGroup::Root),
            sched_ext: fs::exists("/sys/kernel/sched_ext/state").unwrap_or(false),
            perf: Perf {
                paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
                own_switches: kind_of_error(probe(Counter::OwnSwitches)),
                cycles: kind_of_error(probe(Counter::OwnCycles)),
                others: kind_of_error(probe(Counter::SwitchesOfCpu(cpu))),
            },
            tracefs,
            tracing,
            run_delay: counts_running_time(&read("/proc/self/schedstat")),
            schedstats: number("/proc/sys/kernel/sched_schedstats").map(|on: u32| on > 0),
            // If pressure stall information is disabled, the file exists but cannot be read.
            pressure: kind_of_error(fs::read("/proc/pressure/cpu").map(drop)),
        })
    }
}

impl Privileges {
    fn own() -> Privileges {
        let known = [
            ("SYS_NICE", CapabilitySet::SYS_NICE),
            ("SYS_ADMIN", CapabilitySet::SYS_ADMIN),
            ("PERFMON", CapabilitySet::PERFMON),
            ("BPF", CapabilitySet::BPF),
        ];
        let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let has = |&(_, capability): &(&str, CapabilitySet)| effective.contains(capability);
        // Outside of user namespaces, all of the 2^32 - 1 user ids map to themselves.
        let all = ["0", "0", "4294967295"];
        let map = read("/proc/self/uid_map");
        Privileges {
            user: geteuid().as_raw(),
            capabilities: known.into_iter().filter(has).map(|(name, _)| name).collect(),
            in_a_user_namespace: !map.is_empty() && !map.split_ascii_whitespace().eq(all),
        }
    }
}

impl Virtualization {
    fn current() -> Virtualization {
        Virtualization {
            hypervisor: hypervisor(
                &read("/proc/cpuinfo"),
                &read("/sys/hypervisor/type"),
                &read("/sys/class/dmi/id/sys_vendor"),
                &read("/sys/devices/system/clocksource/clocksource0/available_clocksource"),
            ),
            stolen_percent: CpuTime::parse(&read("/proc/stat"), "cpu").and_then(CpuTime::stolen_percent),
            container: container(&read("/proc/self/cgroup"), &read("/proc/version"), |path| {
                fs::exists(path).unwrap_or(false)
            })
            .or_else(|| Some(read("/run/systemd/container").trim().to_owned()).filter(|kind| !kind.is_empty())),
        }
    }
}

fn kind_of_error<T>(trial: std::io::Result<T>) -> Trial<T> {
    trial.map_err(|why| why.kind())
}

fn is_mounted(folder: &std::path::Path, mountinfo: &str) -> bool {
    mountinfo.lines().any(|line| line.split(' ').nth(4).is_some_and(|mount| std::path::Path::new(mount) == folder))
}

/// Whether the kernel counts running time, the first number. This thread has already run.
fn counts_running_time(schedstat: &str) -> bool {
    let running = schedstat.split_ascii_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok());
    running.is_some_and(|nanos| nanos > 0)
}

/// The hypervisor's name, or `unknown` if only the processor's flag indicates one.
fn hypervisor(cpuinfo: &str, kind: &str, vendor: &str, clocks: &str) -> Option<String> {
    let vendors = [("QEMU", "KVM"), ("VMware", "VMware"), ("innotek", "VirtualBox"), ("Microsoft", "Hyper-V")];
    let by_vendor = || vendors.into_iter().find(|(start, _)| vendor.starts_with(start));
    let by_clock =
        || [("kvm-clock", "KVM"), ("hyperv", "Hyper-V")].into_iter().find(|(clock, _)| clocks.contains(clock));
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let is_virtual = flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    match kind.trim() {
        "" if is_virtual => Some(by_vendor().or_else(by_clock).map_or("unknown", |(_, name)| name).to_owned()),
        // Processors of some architectures have no such flag, but the vendor of the virtual machine
        // may be known.
        "" if flags.is_none() && vendor.starts_with("QEMU") => Some("KVM".to_owned()),
        "" => None,
        kind => Some(kind.to_owned()),
    }
}

/// The kind of container, recognized by its files or its cgroups.
fn container(own_cgroups: &str, version: &str, exists: impl Fn(&str) -> bool) -> Option<String> {
    let files = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/proc/vz", "openvz")];
    if version.contains("gVisor") {
        return Some("gVisor".to_owned());
    }
    // The OpenVZ host has the same folder as its containers, and `/proc/bc` as well.
    let by_file = files.into_iter().find(|&(file, _)| exists(file) && !exists("/proc/bc")).map(|(_, kind)| kind);
    let by_group = || own_cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find_map(container_of_group);
    by_file.or_else(by_group).map(str::to_owned)
}

/// The kind of container whose cgroup this is. Other groups can contain the same words, such as
/// `docker.service`.
fn container_of_group(path: &str) -> Option<&'static str> {
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut before = "";
    path.split('/').find_map(|name| {
        let parent = std::mem::replace(&mut before, name);
        let is_of = |runtime: &str| {
            let rest = name.strip_prefix(runtime).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| is_id(rest.trim_end_matches(".scope")))
        };
        if name == "kubepods" || name.starts_with("kubepods.") || name.starts_with("kubepods-") {
            Some("kubernetes")
        } else if is_of("docker") || (parent == "docker" && is_id(name)) {
            Some("docker")
        } else if is_of("libpod") {
            Some("podman")
        } else if parent == "lxc" || name.starts_with("lxc.payload") {
            Some("lxc")
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_of_this_machine_are_equal() {
        let (mut first, mut second) = (Probes::take().unwrap(), Probes::take().unwrap());
        // These change with time.
        (first.virtualization.stolen_percent, second.virtualization.stolen_percent) = (None, None);
        assert_eq!(first, second);
        assert!(first.futexes);
    }

    #[test]
    fn only_cpus_that_the_calling_thread_may_use_are_seen() {
        let cpu = *sys::cpus::allowed().unwrap().last().unwrap();
        let _pinned = sys::cpus::pin(cpu).unwrap();
        assert_eq!(Probes::take().unwrap().machine.cpus_allowed, [cpu]);
    }

    #[test]
    fn a_hypervisor_is_recognised_by_its_processor_flag() {
        let x86 = "processor : 0\nflags\t\t: fpu sse hypervisor lahf_lm\n";
        assert_eq!(hypervisor(x86, "", "", ""), Some("unknown".into()));
        assert_eq!(hypervisor(x86, "", "", "tsc kvm-clock acpi_pm\n"), Some("KVM".into()));
        assert_eq!(hypervisor(x86, "", "VMware, Inc.\n", ""), Some("VMware".into()));
        assert_eq!(hypervisor(x86, "xen\n", "", ""), Some("xen".into()));
        assert_eq!(hypervisor("flags : fpu sse\n", "", "QEMU\n", ""), None);
        assert_eq!(hypervisor("CPU part : 0xd0c\n", "", "QEMU\n", ""), Some("KVM".into()));
        assert_eq!(hypervisor("", "", "", ""), None);
    }

    #[test]
    fn containers_are_recognised_by_their_files() {
        let nothing = |_: &str| false;
        assert_eq!(container("0::/user.slice/session-2.scope\n", "Linux", nothing), None);
        assert_eq!(container("4:cpu:/kubepods/besteffort/pod1\n", "Linux", nothing), Some("kubernetes".into()));
        assert_eq!(container("0::/\n", "Linux", |path| path == "/.dockerenv"), Some("docker".into()));
        let id = "0123456789abcdef".repeat(4);
        for (path, kind) in [
            (format!("/docker/{id}"), Some("docker")),
            (format!("/system.slice/docker-{id}.scope/init"), Some("docker")),
            (format!("/machine.slice/libpod-{id}.scope"), Some("podman")),
            ("/kubepods.slice/kubepods-burstable.slice".into(), Some("kubernetes")),
            ("/lxc.payload.web/system.slice".into(), Some("lxc")),
            ("/lxc/web".into(), Some("lxc")),
            ("/system.slice/docker.service".into(), None),
            ("/user.slice/docker-tests.slice/docker".into(), None),
            ("/lxc.monitor.web".into(), None),
        ] {
            assert_eq!(container(&format!("0::{path}\n"), "Linux", nothing).as_deref(), kind, "{path}");
        }
        assert_eq!(container("", "Linux version 4.4.0 (gVisor)", nothing), Some("gVisor".into()));
        assert_eq!(container("0::/\n", "", |path| path.starts_with("/proc")), None);
    }

    #[test]
    fn a_running_time_of_zero_means_that_it_is_not_counted() {
        assert!(counts_running_time("815 4711 3\n"));
        assert!(!counts_running_time("0 0 0\n"));
        assert!(!counts_running_time(""));
    }
}
