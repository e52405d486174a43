//! Findings about the needs of barriers and locks.

use policy::Span;
use sys::rseq::Rseq;

use super::findings::Capability::{Runs, Waiting};
use super::findings::State::{No, Partly, Unknown, Yes};
use super::findings::Verdict;
use super::kernel::Preemption;
use super::probes::Probes;
use super::text::span;
use crate::machine::cpu_set;

pub(super) fn futexes(probes: &Probes) -> Verdict {
    if probes.futexes {
        return Yes.seen("threads sleep in the kernel until they are woken, also across processes");
    }
    No.seen("the kernel, or a filter of system calls, refuses them")
        .costs(Waiting, "nothing can block: barriers and locks do not work")
        .costs(Runs, "jobs of kind barrier do not work")
        .remedy("allow the system call futex in the filter that this program runs under (docker run --security-opt seccomp=unconfined)")
}

pub(super) fn cpu_number(probes: &Probes) -> Verdict {
    let slow = "rules that look at occupancy ask for the CPU of a thread at each wait, which takes longer, up to a system call";
    match probes.rseq {
        Rseq::Registered => {
            Yes.seen("a thread reads the number of its CPU from memory (rseq, registered by the C library)")
        }
        Rseq::Unregistered => {
            Partly.seen("the kernel has rseq, but the C library has not registered it").costs(Waiting, slow).remedy(
                "run with glibc 2.35 or later, linked dynamically, and without glibc.pthread.rseq=0 in GLIBC_TUNABLES",
            )
        }
        Rseq::Absent => No
            .seen("the kernel lacks rseq, or a filter of system calls forbids it")
            .costs(Waiting, slow)
            .remedy("run a kernel built with CONFIG_RSEQ, and allow the system call rseq in filters"),
    }
}

pub(super) fn several_cpus(probes: &Probes) -> Verdict {
    let machine = &probes.machine;
    let (allowed, online) = (machine.cpus_allowed.len(), machine.cpus_online as usize);
    let cpus = cpu_set(&machine.cpus_allowed);
    let seen = format!("{allowed} of {online} CPUs are allowed by the affinity mask: {cpus}");
    let more =
        format!("taskset -pc 0-{} $$ in the shell, before rowlock, unless a cpuset forbids it", online.max(1) - 1);
    if allowed <= 1 {
        let one = No
            .seen(seen)
            .costs(
                Waiting,
                "no two threads run at the same time: spinning only keeps others from running, so use rules that block \
                 immediately",
            )
            .costs(Runs, "there is no sleeping CPU to wake, so cs is the cost of a switch");
        return if allowed < online { one.remedy(more) } else { one };
    }
    if allowed < online {
        let cost = "jobs, and the simulated twin of this machine, have no more CPUs than that";
        return Partly.seen(seen).costs(Runs, cost).remedy(more);
    }
    Yes.seen(seen)
}

pub(super) fn whole_cpus(probes: &Probes) -> Verdict {
    let Some(quota) = &probes.cgroups.quota else {
        return Yes.seen("no quota limits the running time");
    };
    let (time, period) = (span(quota.time.into()), span(quota.period.into()));
    let file = quota.file.display();
    let seen =
        format!("{time} of running time in each {period}, which is {:.2} CPUs, according to {file}", quota.cpus());
    // A group's quota may exceed the machine.
    if quota.cpus() >= probes.machine.cpus_allowed.len() as f64 {
        return Yes.seen(seen);
    }
    let none = if probes.cgroups.version == Some(1) { "-1" } else { "max" };
    let count = probes.machine.cpus;
    Partly.seen(seen)
        .costs(
            Waiting,
            format!(
                "when the time is used up, all threads stop until the next {period} begin, including those that hold a lock; \
                 spinning uses it up; rules that count CPUs count {count}"
            ),
        )
        .costs(Runs, format!("completion times vary by the period, and the simulated twin has {count} of the CPUs"))
        .remedy(match &probes.virtualization.container {
            Some(_) => format!(
                "start the container without a limit of CPUs, or with --cpuset-cpus instead of --cpus; if its root \
                 may: echo {none} > {file}"
            ),
            None => format!("echo {none} > {file} (root), or CPUQuota= in the unit that set it"),
        })
}

pub(super) fn short_tick(probes: &Probes) -> Verdict {
    let Some(tick) = probes.kernel.tick else {
        return Unknown
            .seen("the coarse clock does not report the tick")
            .costs(Waiting, "none is known; rowlock calibrate measures the tick");
    };
    let tickless = probes.kernel.tickless.map_or(String::new(), |option| format!(", {option}"));
    let seen = format!("{}, HZ={}{tickless}", span(tick), 1_000_000_000 / tick.as_nanos().max(1));
    if tick <= Span::from_millis(1) {
        return Yes.seen(seen);
    }
    Partly.seen(seen)
        .costs(Waiting, format!("a yield beside a CPU-bound program can cost {}: always-yield collapses there, and so do libraries that yield", span(tick)))
        .remedy("a kernel built with CONFIG_HZ_1000; or waiting rules that stop yielding, as adaptive does")
}

pub(super) fn kernel_preemption(probes: &Probes) -> Verdict {
    let Some(preemption) = probes.kernel.preemption else {
        return Unknown
            .seen("neither /proc nor /boot has the kernel's configuration")
            .costs(Waiting, "none is known")
            .remedy("as root: cat /sys/kernel/debug/sched/preempt");
    };
    let seen = format!("the kernel's own code can be preempted: {}", preemption.word());
    let until = match preemption {
        Preemption::Full | Preemption::RealTime => return Yes.seen(seen),
        Preemption::Lazy => "until that program leaves the kernel or the next tick comes",
        Preemption::None | Preemption::Voluntary => "until that program leaves the kernel",
    };
    let remedy = if probes.kernel.preemption_is_dynamic {
        "echo full > /sys/kernel/debug/sched/preempt (root, with debugfs mounted), or preempt=full on the kernel's command \
         line"
    } else {
        "a kernel built with CONFIG_PREEMPT or CONFIG_PREEMPT_DYNAMIC"
    };
    Partly
        .seen(seen)
        .costs(
            Waiting,
            format!("a thread that is woken on a CPU where another program is in the kernel may wait {until}"),
        )
        .remedy(remedy)
}
