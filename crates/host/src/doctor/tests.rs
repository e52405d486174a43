//! Findings about invented machines.

use std::io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
use std::path::PathBuf;
use std::time::Duration;

use cosched::StopMechanism;
use policy::Span;
use sys::cgroups::Quota;
use sys::rseq::Rseq;

use super::cgroups::{Cgroups, Controller};
use super::findings::State;
use super::kernel::{Kernel, Preemption};
use super::probes::{JobStops, MemoryReads, Perf, Privileges, Virtualization};
use super::*;
use crate::machine::Machine;

/// A machine that allows everything.
fn workstation() -> Probes {
    let controllers = ["cpu", "cpuset", "freezer", "memory", "io", "pids"];
    Probes {
        machine: Machine {
            cpu_model: "A Processor".to_owned(),
            kernel: "6.18.1".to_owned(),
            cpus_online: 8,
            cpus_allowed: (0..8).collect(),
            cpus: 8,
        },
        scheduler: "eevdf".to_owned(),
        privileges: Privileges {
            user: 0,
            capabilities: vec!["SYS_NICE", "SYS_ADMIN", "PERFMON", "BPF"],
            in_a_user_namespace: false,
        },
        kernel: Kernel {
            tick: Some(Span::from_millis(1)),
            tickless: Some("NO_HZ_FULL"),
            preemption: Some(Preemption::Full),
            preemption_is_dynamic: true,
        },
        virtualization: Virtualization { hypervisor: None, stolen_percent: Some(0.0), container: None },
        cgroups: Cgroups {
            version: Some(2),
            folder: Some(PathBuf::from("/sys/fs/cgroup/user.slice")),
            controllers: controllers.map(|name| Controller { name: name.to_owned(), writable: true }).to_vec(),
            quota: None,
            has_a_share: true,
        },
        job_stops: JobStops {
            mechanism: StopMechanism::Freeze,
            obstacles: vec![],
            table: Ok("jobs of different users are coordinated only by `rowlock pds`, which does not run".to_owned()),
        },
        job_lowering: Ok("weight"),
        futexes: true,
        rseq: Rseq::Registered,
        memory_reads: MemoryReads { of_itself: true, scope: Some(1), is_privileged: true },
        pmix: Ok("OpenPMIx 4.2.2".to_owned()),
        nice: Ok(0),
        best_nice: Ok(-20),
        real_time: Ok(()),
        real_time_runtime: Some(950_000),
        timeslice: Ok(Some(Duration::from_micros(500))),
        autogroup: Some(true),
        is_outermost: false,
        sched_ext: true,
        perf: Perf { paranoid: Some(-1), own_switches: Ok(()), cycles: Ok(()), others: Ok(()) },
        tracefs: Some(PathBuf::from("/sys/kernel/tracing")),
        tracing: Ok(()),
        run_delay: true,
        schedstats: Some(false),
        pressure: Ok(()),
    }
}

/// The same machine for a user without privileges, logged in under systemd.
fn unprivileged() -> Probes {
    let mut probes = workstation();
    let denied = Err(PermissionDenied);
    probes.privileges = Privileges { user: 1000, capabilities: vec![], in_a_user_namespace: false };
    probes.cgroups.folder = Some(PathBuf::from("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
    probes.cgroups.controllers.retain(|controller| controller.name != "cpuset" && controller.name != "io");
    probes.cgroups.controllers.iter_mut().for_each(|controller| controller.writable = false);
    probes.cgroups.has_a_share = false;
    let why = "jobs cannot be stopped by the mechanism `freeze`, because this user may not create groups";
    probes.job_stops = JobStops {
        mechanism: StopMechanism::Signals,
        obstacles: vec![why.to_owned()],
        table: Ok("`rowlock pds` coordinates the jobs of all users, and stops them by signals".to_owned()),
    };
    probes.job_lowering = Err("the job cannot be lowered: this user may do nothing".to_owned());
    (probes.best_nice, probes.real_time) = (Ok(0), denied);
    probes.memory_reads.is_privileged = false;
    probes.perf = Perf { paranoid: Some(2), own_switches: denied, cycles: Ok(()), others: denied };
    probes.tracing = denied;
    probes.kernel =
        Kernel { tick: Some(Span::from_millis(4)), preemption: Some(Preemption::Voluntary), ..probes.kernel };
    probes
}

/// A container with 1.5 CPUs, in a virtual machine with an old kernel.
fn container() -> Probes {
    let mut probes = unprivileged();
    probes.machine.kernel = "5.15.0-91-generic".to_owned();
    probes.scheduler = "cfs".to_owned();
    probes.machine.cpus = 1;
    probes.virtualization = Virtualization {
        hypervisor: Some("KVM".to_owned()),
        stolen_percent: Some(3.25),
        container: Some("docker".to_owned()),
    };
    probes.cgroups.folder = Some(PathBuf::from("/sys/fs/cgroup"));
    probes.cgroups.has_a_share = true;
    probes.cgroups.quota = quota(150, "/sys/fs/cgroup/cpu.max");
    probes.kernel = Kernel { preemption: None, preemption_is_dynamic: false, ..probes.kernel };
    probes.rseq = Rseq::Unregistered;
    probes.memory_reads.of_itself = false;
    probes.pmix = Err("there is no libpmix (libpmix.so.2: cannot open shared object file)".to_owned());
    probes.timeslice = Ok(None);
    (probes.tracefs, probes.tracing) = (None, Err(NotFound));
    (probes.pressure, probes.sched_ext) = (Err(Unsupported), false);
    (probes.nice, probes.best_nice) = (Ok(5), Ok(5));
    probes
}

/// A sandbox with one CPU that refuses unknown system calls.
fn sandbox() -> Probes {
    let refused = Err(Unsupported);
    let mut probes = container();
    probes.machine = Machine {
        cpu_model: "unknown".to_owned(),
        kernel: "4.4.0".to_owned(),
        cpus_online: 4,
        cpus_allowed: vec![2],
        cpus: 1,
    };
    probes.privileges.in_a_user_namespace = true;
    probes.virtualization =
        Virtualization { hypervisor: Some("unknown".into()), stolen_percent: None, container: Some("gVisor".into()) };
    probes.cgroups = Cgroups::default();
    probes.kernel = Kernel { tick: None, tickless: None, preemption: None, preemption_is_dynamic: false };
    probes.futexes = false;
    probes.rseq = Rseq::Absent;
    (probes.nice, probes.best_nice, probes.real_time, probes.timeslice) =
        (Err(Unsupported), Err(Unsupported), refused, Err(Unsupported));
    (probes.autogroup, probes.schedstats, probes.run_delay) = (None, None, false);
    probes.perf = Perf { paranoid: None, own_switches: refused, cycles: refused, others: refused };
    probes.pressure = Err(NotFound);
    probes
}

fn machines() -> [(&'static str, Probes); 4] {
    [
        ("workstation", workstation()),
        ("unprivileged", unprivileged()),
        ("container", container()),
        ("sandbox", sandbox()),
    ]
}

#[track_caller]
fn verdict(probes: &Probes, name: &str) -> Verdict {
    report(probes).findings.into_iter().find(|finding| finding.name == name).unwrap().verdict
}

#[test]
fn reports_match_their_snapshots() {
    for (name, probes) in machines() {
        insta::assert_snapshot!(name, report(&probes));
    }
}

#[test]
fn only_missing_features_have_costs() {
    for (machine, probes) in machines() {
        for finding in report(&probes).findings {
            let Verdict { state, costs, remedy, .. } = &finding.verdict;
            let exists = *state == State::Yes;
            assert_eq!(costs.is_empty(), exists, "{machine}: {finding:?}");
            assert!(!exists || remedy.is_none(), "{machine}: {finding:?}");
            assert!(*state != State::Partly || remedy.is_some(), "{machine}: {finding:?}");
        }
    }
}

#[test]
fn every_finding_is_explained_in_the_documents() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    let text = std::fs::read_to_string(path).unwrap();
    for (name, ..) in FEATURES {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}

fn quota(millis: u64, file: &str) -> Option<Quota> {
    let period = Duration::from_millis(100);
    Some(Quota { time: Duration::from_millis(millis), period, file: PathBuf::from(file) })
}

#[test]
fn states_follow_from_the_probes() {
    // A quota beyond the machine is no limit.
    for (cpus, state) in [(7, State::Partly), (8, State::Yes), (9, State::Yes)] {
        let mut probes = workstation();
        probes.cgroups.quota = quota(100 * cpus, "f");
        assert_eq!(verdict(&probes, "whole-cpus").state, state, "{cpus}");
    }
    // Autogroup matters only if no group has its own share.
    for (autogroup, has_a_share, state) in [
        (None, false, State::Yes),
        (Some(false), false, State::Yes),
        (Some(true), true, State::Yes),
        (Some(true), false, State::Partly),
    ] {
        let mut probes = workstation();
        (probes.autogroup, probes.cgroups.has_a_share) = (autogroup, has_a_share);
        assert_eq!(verdict(&probes, "one-session").state, state);
    }
    let mut outermost = unprivileged();
    outermost.is_outermost = true;
    let about = [unprivileged(), outermost].map(|probes| verdict(&probes, "one-session").costs.pop().unwrap().what);
    assert!(about[0].contains("no priority over other sessions"), "{about:?}");
    assert!(about[1].contains("each thread competes with whole sessions"), "{about:?}");
    // A restriction to descendants does not bind root, and the last one binds all.
    for (scope, is_privileged, state) in [
        (None, false, State::Yes),
        (Some(0), false, State::Yes),
        (Some(1), false, State::No),
        (Some(2), true, State::Yes),
        (Some(3), true, State::No),
    ] {
        let mut probes = workstation();
        probes.memory_reads = MemoryReads { of_itself: true, scope, is_privileged };
        assert_eq!(verdict(&probes, "memory-reads").state, state, "{scope:?} {is_privileged}");
    }
    let mut without_table = workstation();
    without_table.job_stops.table = Err("there is no folder".to_owned());
    let Verdict { state, seen, .. } = verdict(&without_table, "job-stops");
    assert_eq!((state, seen.as_str()), (State::No, "`rowlock prun` would fail: there is no folder"));
    // Only a fully preemptible kernel meets the need.
    for (preemption, state) in [
        (None, State::Unknown),
        (Some(Preemption::None), State::Partly),
        (Some(Preemption::Voluntary), State::Partly),
        (Some(Preemption::Lazy), State::Partly),
        (Some(Preemption::Full), State::Yes),
        (Some(Preemption::RealTime), State::Yes),
    ] {
        let mut probes = workstation();
        probes.kernel.preemption = preemption;
        assert_eq!(verdict(&probes, "kernel-preemption").state, state);
    }
    // A nice value that can be improved is partly enough.
    for (now, best, state) in [(0, -20, State::Yes), (0, -5, State::Partly), (0, 0, State::No), (10, 0, State::No)] {
        let probes = Probes { nice: Ok(now), best_nice: Ok(best), ..workstation() };
        assert_eq!(verdict(&probes, "nice").state, state, "{now}, {best}");
    }
}

#[test]
fn one_allowed_cpu_is_worse_than_a_quota_of_one_cpu() {
    let mut probes = workstation();
    for (allowed, cpus, state) in [(1, 1, State::No), (2, 1, State::Partly), (8, 1, State::Yes)] {
        (probes.machine.cpus_allowed, probes.machine.cpus) = ((0..allowed).collect(), cpus);
        assert_eq!(verdict(&probes, "several-cpus").state, state, "{allowed}");
    }
    (probes.machine.cpus_online, probes.machine.cpus_allowed) = (1, vec![0]);
    assert_eq!(verdict(&probes, "several-cpus").remedy, None);
}

#[test]
fn the_remedy_for_a_quota_depends_on_the_cgroup_version() {
    let mut probes = workstation();
    probes.cgroups.quota = quota(50, "/g/quota");
    for (version, start) in [(1, "echo -1 > /g/quota"), (2, "echo max > /g/quota")] {
        probes.cgroups.version = Some(version);
        assert!(verdict(&probes, "whole-cpus").remedy.unwrap().starts_with(start));
    }
}

#[test]
fn the_remedy_for_real_time_is_the_group_for_root_and_a_limit_for_others() {
    let mut probes = workstation();
    probes.real_time = Err(PermissionDenied);
    assert!(verdict(&probes, "real-time").remedy.unwrap().contains("cpu.rt_runtime_us"));
    probes.privileges.in_a_user_namespace = true;
    assert!(verdict(&probes, "real-time").remedy.unwrap().contains("prlimit"));
}

#[test]
fn missing_counters_of_a_virtual_machine_are_not_a_permission_problem() {
    let mut probes = container();
    probes.perf = Perf { paranoid: Some(-1), own_switches: Ok(()), cycles: Err(NotFound), others: Ok(()) };
    assert!(verdict(&probes, "perf").remedy.unwrap().contains("virtual PMU"));
    probes.perf.others = Err(PermissionDenied);
    assert!(verdict(&probes, "perf").remedy.unwrap().contains("perf_event_paranoid"));
}

#[test]
fn the_text_is_as_wide_as_its_format_says_but_for_long_words() {
    let report = report(&unprivileged());
    for width in [70, 80, 100] {
        let text = format!("{report:width$}");
        let too_long = |line: &&str| line.len() > width && line.trim_start().contains(' ');
        let long: Vec<&str> = text.lines().filter(too_long).collect();
        assert!(long.iter().all(|line| line.rsplit(' ').next().unwrap().len() > 20), "{width}: {long:?}");
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>(),
            report.to_string().split_whitespace().collect::<Vec<_>>()
        );
    }
    assert_eq!(report.to_string(), format!("{report:100}"));
}
