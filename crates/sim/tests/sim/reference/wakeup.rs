//! The wakeup schemes: loops over the woken threads and over all CPUs.

use policy::wakeup::{Awakened, Scheme};
use policy::{CpuId, CpuSet, Instant};

use crate::reference::linux_2_4::Linux24;
use crate::reference::world::{Cpu, Thread, World};

/// Marks CPUs for threads that have become ready together, in this order.
pub(crate) fn mark(kernel: &mut Linux24, world: &World, scheme: Scheme, threads: &[Thread]) {
    let is_alone = threads.len() == 1;
    match scheme {
        Scheme::Original => one_by_one(kernel, world, threads, |_| true),
        Scheme::Ap => one_by_one(kernel, world, threads, |is_marked| !is_marked),
        Scheme::Gv if is_alone => one_by_one(kernel, world, threads, |is_marked| !is_marked),
        Scheme::Gv => all_at_once(kernel, world, threads),
    }
}

fn one_by_one(kernel: &mut Linux24, world: &World, threads: &[Thread], may_have: impl Fn(bool) -> bool) {
    for &thread in threads {
        let candidates: Vec<Cpu> = all_cpus(world)
            .filter(|&cpu| may_have(kernel.marked[cpu]) && kernel.affinity.is_allowed(thread, cpu))
            .collect();
        if let Some(cpu) = reschedule_idle(kernel, world, thread, &candidates) {
            kernel.marked[cpu] = true;
        }
    }
}

/// The rules determine the largest sum, but not which of several pairings with this sum is taken.
/// So the policy is asked, and its answer is compared with all pairings.
fn all_at_once(kernel: &mut Linux24, world: &World, threads: &[Thread]) {
    let unmarked: Vec<Cpu> = all_cpus(world).filter(|&cpu| !kernel.marked[cpu]).collect();
    let chosen = what_the_policy_says(kernel, world, threads);
    assert!(chosen.iter().all(|cpu| unmarked.contains(cpu)), "a CPU that is marked already: {chosen:?}");
    let (largest, reached) =
        (largest_sum(kernel, world, threads, &unmarked), largest_sum(kernel, world, threads, &chosen));
    assert_eq!(largest, reached, "the sum of gains over {unmarked:?} and over {chosen:?}");
    for cpu in chosen {
        kernel.marked[cpu] = true;
    }
}

fn what_the_policy_says(kernel: &Linux24, world: &World, threads: &[Thread]) -> Vec<Cpu> {
    let now = Instant::from_nanos(world.now);
    let allowed = |&thread: &Thread| -> CpuSet {
        all_cpus(world).filter(|&cpu| kernel.affinity.is_allowed(thread, cpu)).map(|cpu| CpuId(cpu as u32)).collect()
    };
    let sets: Vec<CpuSet> = threads.iter().map(allowed).collect();
    let of_thread = |(&thread, set)| kernel.awakened(world, thread, Some(set));
    let awakened: Vec<Awakened<'_>> = threads.iter().zip(&sets).map(of_thread).collect();
    let cpus: Vec<policy::wakeup::Cpu> = all_cpus(world).map(|cpu| kernel.as_policy_sees(world, cpu)).collect();
    let mut chosen = Vec::new();
    Scheme::Gv.mark(&kernel.weights(), now, &awakened, &mut cpus.into(), |cpu| chosen.push(cpu.index()));
    chosen
}

/// The CPU on which the thread last ran if that is idle, else the one that has been idle longest,
/// else the one whose thread it beats by most, if by more than the threshold. Of equal CPUs, the
/// one with the lowest number.
fn reschedule_idle(kernel: &Linux24, world: &World, thread: Thread, candidates: &[Cpu]) -> Option<Cpu> {
    if let Some(last) = kernel.last_cpu(thread)
        && candidates.contains(&last)
        && is_idle(world, last)
    {
        return Some(last);
    }
    let mut longest_idle: Option<Cpu> = None;
    for &cpu in candidates {
        let is_longer = |than: Cpu| world.cpus[cpu].idle_since < world.cpus[than].idle_since;
        if is_idle(world, cpu) && longest_idle.is_none_or(is_longer) {
            longest_idle = Some(cpu);
        }
    }
    if longest_idle.is_some() {
        return longest_idle;
    }
    let mut best = None;
    for &cpu in candidates {
        let gain = preemption_gain(kernel, world, thread, cpu);
        if gain > best.map(|(gain, _)| gain) {
            best = gain.map(|gain| (gain, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// The value of an idle CPU beyond the goodness of the thread there: more than all preemptions
/// together.
const IDLE: u64 = 1 << 40;

/// The largest sum of gains over all ways to give some of the threads a CPU each.
fn largest_sum(kernel: &Linux24, world: &World, threads: &[Thread], free: &[Cpu]) -> u64 {
    let Some((&thread, others)) = threads.split_first() else { return 0 };
    let mut largest = largest_sum(kernel, world, others, free);
    for &cpu in free.iter().filter(|&&cpu| kernel.affinity.is_allowed(thread, cpu)) {
        let gain = if is_idle(world, cpu) {
            Some(IDLE + kernel.goodness(world, thread, cpu))
        } else {
            preemption_gain(kernel, world, thread, cpu)
        };
        if let Some(gain) = gain {
            let left: Vec<Cpu> = free.iter().copied().filter(|&other| other != cpu).collect();
            largest = largest.max(gain + largest_sum(kernel, world, others, &left));
        }
    }
    largest
}

/// By how much a thread beats the one that a busy CPU runs or is switching to, if by more than the
/// threshold.
fn preemption_gain(kernel: &Linux24, world: &World, thread: Thread, cpu: Cpu) -> Option<u64> {
    let current = world.thread_on(cpu)?;
    let gain = kernel.goodness(world, thread, cpu).checked_sub(kernel.goodness(world, current, cpu))?;
    (gain > kernel.threshold).then_some(gain)
}

/// A CPU that switches to idleness is idle.
fn is_idle(world: &World, cpu: Cpu) -> bool {
    world.thread_on(cpu).is_none()
}

fn all_cpus(world: &World) -> impl Iterator<Item = Cpu> {
    0..world.cpus.len()
}
