//! Findings about what the kernel reports of a run. `--trace` needs none of it: it uses what the
//! threads observe.

use std::io::ErrorKind;

use super::findings::Capability::Inspection;
use super::findings::State::{No, Partly, Yes};
use super::findings::Verdict;
use super::probes::{Probes, Trial};

pub(super) fn tracefs(probes: &Probes) -> Verdict {
    let (verdict, remedy) = match (&probes.tracefs, probes.tracing) {
        (Some(folder), Ok(())) => {
            return Yes.seen(format!("the scheduler's events can be switched on in {}", folder.display()));
        }
        (Some(folder), Err(why)) => {
            let seen = format!("mounted at {}, but its events are not for this user: {why}", folder.display());
            (Partly.seen(seen), "as root, beside the run: trace-cmd record -e sched")
        }
        (None, _) => {
            (No.seen("not mounted"), "mount -t tracefs tracefs /sys/kernel/tracing (root, outside of containers)")
        }
    };
    let unseen = "traces show only what a scenario's threads observe; other programs on the CPUs, and each context switch, need the kernel's events";
    verdict.costs(Inspection, unseen).remedy(remedy)
}

pub(super) fn perf(probes: &Probes) -> Verdict {
    let perf = &probes.perf;
    let parts = [
        ("context switches of own threads", perf.own_switches),
        ("cycles of own threads", perf.cycles),
        ("other programs on a CPU", perf.others),
    ];
    let names = |wanted: bool| {
        let some = parts.iter().filter(|(_, trial)| trial.is_ok() == wanted);
        some.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (counted, refused) = (names(true), names(false));
    let told = [("counted", &counted), ("refused", &refused)].into_iter().filter(|(_, names)| !names.is_empty());
    let mut seen = told.map(|(how, names)| format!("{how}: {names}")).collect::<Vec<_>>().join("; ");
    if let Some(paranoid) = perf.paranoid {
        seen = format!("{seen} (kernel.perf_event_paranoid={paranoid})");
    }
    let state = match (counted.is_empty(), refused.is_empty()) {
        (_, true) => Yes,
        (true, false) => No,
        (false, false) => Partly,
    };
    let mut verdict = state.seen(seen);
    if state == Yes {
        return verdict;
    }
    if perf.cycles.is_err() {
        verdict = verdict.costs(Inspection, "perf stat cannot distinguish computing from waiting for memory");
    }
    if perf.others.is_err() {
        verdict = verdict.costs(Inspection, "perf sched cannot show which other programs had a CPU");
    }
    if perf.own_switches.is_err() {
        verdict = verdict.costs(Inspection, "switches are known from getrusage alone, without their times");
    }
    let is_forbidden = |trial: Trial<()>| trial == Err(ErrorKind::PermissionDenied);
    verdict.remedy(if parts.iter().any(|&(_, trial)| is_forbidden(trial)) {
        "sysctl kernel.perf_event_paranoid=0 (root); in a container also --cap-add PERFMON and a seccomp profile that \
         allows perf_event_open"
    } else if perf.own_switches.is_err() {
        "a kernel built with CONFIG_PERF_EVENTS, and no filter that refuses perf_event_open"
    } else if probes.virtualization.hypervisor.is_some() {
        "cycles need a virtual machine that is given the processor's counters (a virtual PMU)"
    } else {
        "a kernel that knows this processor's counters"
    })
}

pub(super) fn run_delay(probes: &Probes) -> Verdict {
    let details = match probes.schedstats {
        Some(true) => "; schedstats are on",
        Some(false) => "; schedstats are off (sysctl kernel.sched_schedstats=1 switches them on, at some cost)",
        None => "; the kernel lacks schedstats",
    };
    if probes.run_delay {
        return Yes.seen(format!("/proc/PID/schedstat says how long a thread has waited for a CPU{details}"));
    }
    No.seen(format!("the kernel does not say how long a thread has waited for a CPU{details}"))
        .costs(
            Inspection,
            "only its switches and the variation of its figures show whether a run was slow because others had the CPUs",
        )
        .remedy("a kernel built with CONFIG_SCHED_INFO, as with CONFIG_SCHEDSTATS or CONFIG_TASK_DELAY_ACCT")
}

pub(super) fn pressure(probes: &Probes) -> Verdict {
    let (seen, remedy) = match probes.pressure {
        Ok(()) => {
            let seen = "/proc/pressure/cpu says how much of the time threads wait for CPUs";
            return Yes.seen(seen.to_owned());
        }
        Err(ErrorKind::NotFound) => (
            "the kernel has no pressure stall information".to_owned(),
            "a kernel built with CONFIG_PSI, or psi=1 on its command line",
        ),
        Err(why) => (format!("/proc/pressure/cpu cannot be read: {why}"), "psi=1 on the kernel's command line"),
    };
    let lost =
        "whether threads wait for CPUs, on the whole machine or in a group, is unknown; rowlock itself uses idle time";
    No.seen(seen).costs(Inspection, lost).remedy(remedy)
}
