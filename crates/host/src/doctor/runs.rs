//! Findings about what makes figures of this machine hard to repeat or compare.

use super::findings::Capability::{Control, Runs, Waiting};
use super::findings::State::{No, Partly, Yes};
use super::findings::Verdict;
use super::probes::Probes;

pub(super) fn bare_metal(probes: &Probes) -> Verdict {
    let Some(hypervisor) = &probes.virtualization.hypervisor else {
        return Yes.seen("no hypervisor was detected");
    };
    let name = if hypervisor == "unknown" { "a hypervisor".to_owned() } else { format!("a hypervisor ({hypervisor})") };
    let stolen = probes.virtualization.stolen_percent;
    let stolen =
        stolen.map_or(String::new(), |share| format!(", which has kept them from running {share:.1} % of the time"));
    No.seen(format!("the CPUs are those of {name}{stolen}"))
        .costs(Runs, "waking an idle CPU takes the hypervisor's time, so cs is larger than the processor's own; and the hypervisor can take a CPU away unnoticed, so figures vary")
        .costs(Waiting, "spinning for a thread whose CPU was taken away is wasted")
        .remedy("no setting inside helps; measure on the kind of machine that you will use")
}

pub(super) fn outside_containers(probes: &Probes) -> Verdict {
    match &probes.virtualization.container {
        None => Yes.seen("no container was detected"),
        Some(kind) => Partly.seen(format!("this is a container of kind {kind}"))
            .costs(Runs, "other containers compete for the CPUs unnoticed, and limits can change from outside while a scenario runs")
            .remedy("run outside, or give the container CPUs of its own: --cpuset-cpus=0-3 and no other container on them"),
    }
}

pub(super) fn one_session(probes: &Probes) -> Verdict {
    match probes.autogroup {
        None => Yes.seen("the kernel does not group programs by session (no autogroup)"),
        Some(false) => Yes.seen("autogroup is switched off"),
        Some(true) if probes.cgroups.has_a_share => {
            Yes.seen("autogroup is on but does not matter: this program's cgroup has a share of its own")
        }
        Some(true) if probes.is_outermost => {
            Partly.seen("autogroup is on, and this program is outside of all sessions: none of its ancestors has begun one")
                .costs(Runs, "each thread competes with whole sessions and not with each of their threads")
                .remedy("sysctl kernel.sched_autogroup_enabled=0 (root)")
        }
        Some(true) => Partly.seen("autogroup is on: each session, such as a terminal, has an equal share of the CPUs")
            .costs(Runs, "programs of other sessions compete with a whole scenario and not with each of its threads")
            .costs(Control, "nice values only count inside a session: nice -n -10 rowlock run has no priority over other sessions")
            .remedy("sysctl kernel.sched_autogroup_enabled=0 (root); or, for this session only, echo -10 > /proc/self/autogroup in its shell (root)"),
    }
}

pub(super) fn simulated_scheduler(probes: &Probes) -> Verdict {
    let seen = format!("ordinary threads are scheduled by {}", probes.scheduler);
    if probes.scheduler == "eevdf" {
        return Yes.seen(seen);
    }
    let remedy =
        if probes.scheduler.starts_with("sched_ext") { "end the loaded scheduler" } else { "Linux 6.6 or later" };
    Partly
        .seen(seen)
        .costs(Runs, "the simulated twin of this machine schedules by eevdf, so its predictions are of another kernel")
        .remedy(remedy)
}
