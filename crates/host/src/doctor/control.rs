//! Findings about control: preferring some threads over others, and letting jobs take turns. Most
//! costs are what users cannot do from outside, such as `nice -n -10 rowlock run`.

use std::io::ErrorKind;

use cosched::StopMechanism;

use super::findings::Capability::{Control, Runs};
use super::findings::State::{No, Partly, Unknown, Yes};
use super::findings::Verdict;
use super::probes::Probes;
use super::text::span;

/// How to raise a resource limit. File capabilities are not an option: a program that has them is
/// not killed when its parent ends, but jobs must end with their run.
fn limit(probes: &Probes, option: &str, line: &str) -> String {
    let shell = format!("for this shell: sudo prlimit --pid $$ {option}");
    match probes.virtualization.container {
        Some(_) => format!("{shell}; the container's root may do so after docker run --cap-add SYS_NICE"),
        None => format!("{shell}; for good: the line `USER - {line}` in /etc/security/limits.conf, and log in again"),
    }
}

pub(super) fn nice(probes: &Probes) -> Verdict {
    let (now, best) = match (probes.nice, probes.best_nice) {
        (Ok(now), Ok(best)) => (now, best),
        (Err(why), _) | (_, Err(why)) => {
            return Unknown.seen(format!("it could not be tried: {why}")).costs(Control, "none is known");
        }
    };
    let state = match best {
        -20 => return Yes.seen(format!("from {now} to -20, the best value")),
        _ if best < 0 => Partly,
        _ => No,
    };
    let seen = if best < now {
        format!("from {now} to {best}, but not lower")
    } else {
        format!("it is {now}, and no lower value is allowed")
    };
    state
        .seen(seen)
        .costs(Control, "threads can be given less weight than others, permanently, but not more")
        .costs(Runs, "a measurement cannot have priority over other programs (nice -n -10 rowlock run)")
        .remedy(limit(probes, "--nice=40:40", "nice -20"))
}

pub(super) fn real_time(probes: &Probes) -> Verdict {
    match probes.real_time {
        Ok(()) => {
            let limit = probes.real_time_runtime.filter(|us| *us >= 0);
            let most = limit.map_or(String::new(), |us| {
                format!(", with a share of at most {us} us in each period (kernel.sched_rt_runtime_us)")
            });
            Yes.seen(format!("SCHED_FIFO is allowed{most}"))
        }
        Err(why) => {
            let refused = No
                .seen(format!("SCHED_FIFO is refused: {why}"))
                .costs(Control, "no thread can run before all ordinary threads");
            if why == ErrorKind::PermissionDenied
                && probes.privileges.user == 0
                && probes.privileges.capabilities.contains(&"SYS_NICE")
                && !probes.privileges.in_a_user_namespace
            {
                refused.remedy("the group of this process has no real-time budget: write to cpu.rt_runtime_us in its cgroup, or boot with rt_group_sched=0")
            } else {
                refused.remedy(limit(probes, "--rtprio=99:99", "rtprio 99"))
            }
        }
    }
}

pub(super) fn timeslice(probes: &Probes) -> Verdict {
    let lost = "no thread can have shorter slices than others and so run sooner";
    match probes.timeslice {
        Ok(Some(slice)) => Yes.seen(format!("a thread that requested its own slice got {}", span(slice.into()))),
        Ok(None) => No
            .seen("the kernel accepts a request for a slice and ignores it")
            .costs(Control, lost)
            .remedy("Linux 6.12 or later"),
        Err(why) => No.seen(format!("sched_setattr is refused: {why}")).costs(Control, lost).remedy(
            "allow the system calls sched_setattr and sched_getattr in the filter that this program runs under",
        ),
    }
}

pub(super) fn cgroups(probes: &Probes) -> Verdict {
    let lost = "jobs cannot be given shares or CPUs, or be stopped, as a whole";
    let groups = &probes.cgroups;
    let (Some(version), Some(folder)) = (groups.version, &groups.folder) else {
        return No
            .seen("none are mounted")
            .costs(Control, lost)
            .remedy("mount -t cgroup2 cgroup2 /sys/fs/cgroup (root, outside of containers)");
    };
    let names = |writable: bool| {
        let of = groups.controllers.iter().filter(|controller| controller.writable == writable);
        of.map(|controller| controller.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (open, closed) = (names(true), names(false));
    let mut seen = format!("version {version} at {}", folder.display());
    for (names, how) in [(&open, "writable"), (&closed, "not writable")] {
        if !names.is_empty() {
            seen.push_str(&format!("; {how}: {names}"));
        }
    }
    let can = |name: &str| groups.controllers.iter().any(|controller| controller.name == name && controller.writable);
    let state = match (can("cpu"), can("cpuset")) {
        (true, true) => return Yes.seen(seen),
        (false, false) => No,
        _ => Partly,
    };
    let delegation = "systemd-run --user --scope -p Delegate=yes rowlock ... gives you your own group; for cpuset also, as root: systemctl edit user@.service with [Service] Delegate=cpu cpuset io memory pids";
    state.seen(seen).costs(Control, lost).remedy(match (&probes.virtualization.container, version) {
        (Some(_), _) => "a container that may write its own groups: docker run --privileged --cgroupns=private",
        (None, 1) => "be root: version 1 cannot delegate groups safely",
        (None, _) => delegation,
    })
}

pub(super) fn job_stops(probes: &Probes) -> Verdict {
    let stops = &probes.job_stops;
    let mut seen = format!("`rowlock prun` stops jobs by the mechanism `{}`", stops.mechanism.name());
    stops.obstacles.iter().for_each(|why| seen.push_str(&format!("; {why}")));
    let table = match &stops.table {
        Ok(table) => table,
        Err(why) => {
            return No
                .seen(format!("`rowlock prun` would fail: {why}"))
                .costs(Control, "no job starts")
                .remedy("ROWLOCK_TABLE that names a folder of this user, and ROWLOCK_PDS that names the socket of pds or `none`");
        }
    };
    seen.push_str(&format!("; {table}"));
    match stops.mechanism {
        StopMechanism::Freeze | StopMechanism::Freezer => Yes.seen(seen),
        StopMechanism::Signals => Partly
            .seen(seen)
            .costs(
                Control,
                "each process of a job in turns takes some 50 us of a CPU at both ends of a turn, and one that is started \
                 just before the end runs on for a moment",
            )
            .remedy("a control group that rowlock may use: see cgroups"),
    }
}

pub(super) fn job_lowering(probes: &Probes) -> Verdict {
    let lowered = |by| format!("`rowlock prun --how moderate` lowers jobs by the mechanism `{by}`");
    match &probes.job_lowering {
        Err(why) => No
            .seen(why)
            .costs(Control, "a job with `--how moderate` is refused: jobs are stopped in the turns of others")
            .remedy("a control group that rowlock may use, or the right to better nice values: see cgroups and nice"),
        Ok(by) if *by == "weight" => Yes.seen(lowered(by)),
        Ok(by) => Partly
            .seen(lowered(by))
            .costs(
                Control,
                "each thread is lowered for itself, and only jobs of one session and control group are compared",
            )
            .remedy("a control group with the controller cpu that rowlock may use: see cgroups"),
    }
}

pub(super) fn sched_ext(probes: &Probes) -> Verdict {
    let lost = "custom schedulers cannot be loaded";
    let may = ["SYS_ADMIN", "BPF"].iter().any(|capability| probes.privileges.capabilities.contains(capability));
    match (probes.sched_ext, may && !probes.privileges.in_a_user_namespace) {
        (true, true) => Yes.seen("the kernel accepts schedulers as BPF programs"),
        (true, false) => Partly
            .seen("the kernel accepts schedulers as BPF programs, but not from this user")
            .costs(Control, lost)
            .remedy("load the scheduler as root"),
        (false, _) => No
            .seen("the kernel accepts no schedulers as BPF programs")
            .costs(Control, lost)
            .remedy("Linux 6.12 or later, built with CONFIG_SCHED_CLASS_EXT"),
    }
}
