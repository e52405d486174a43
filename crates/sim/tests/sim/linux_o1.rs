//! The O(1) scheduler, calculated by hand, with one case for each rule.
//!
//! Switches are free, the tick is 1 ms, and a timeslice at nice 0 has four ticks. A thread that has
//! not slept has its nice value's priority plus five: 25 at nice 0. A computation that ends at a
//! tick ends before the tick. A tick is charged to no thread if the CPU switches at that moment.

use policy::{CpuId, Span};
use scenario::{Job, Machine, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn machine(cpus: u32) -> Machine {
    let scheduler = Scheduler::LinuxO1;
    Machine { scheduler, tick: ms(1), timeslice: 4, context_switch: Span::ZERO, ..Machine::with_cpus(cpus) }
}

#[test]
fn a_thread_that_has_used_up_its_timeslice_waits_until_all_have() {
    // At 8 ms both have expired, and the arrays are swapped.
    let jobs = vec![cpu("a", Some(ms(6))), cpu("b", Some(ms(6)))];
    let (text, _) = timeline(&machine(1), &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         4 ms cpu0: a preempted, then b
         4 ms cpu0: b
         8 ms cpu0: b preempted, then a
         8 ms cpu0: a
         10 ms cpu0: a ends, then b
         10 ms cpu0: b
         12 ms cpu0: b ends, then idle",
    );
}

fn niced(name: &str, nice: i8, work: Span) -> Job {
    let mut job = cpu(name, Some(work));
    job.attributes.nice = nice;
    job
}

#[test]
fn a_nice_thread_comes_later_and_has_a_shorter_timeslice() {
    // Nice 10 is a priority of 35 and two ticks.
    let jobs = vec![niced("a", 10, ms(4)), niced("b", 0, ms(8))];
    let (text, _) = timeline(&machine(1), &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         4 ms cpu0: b preempted, then a
         4 ms cpu0: a
         6 ms cpu0: a preempted, then b
         6 ms cpu0: b
         10 ms cpu0: b ends, then a
         10 ms cpu0: a
         12 ms cpu0: a ends, then idle",
    );
}

#[test]
fn a_thread_that_has_slept_preempts_and_the_preempted_one_keeps_its_place() {
    // At 2 ms `a` has slept for 1 ms, which counts ten times and gives a bonus of 2. It wakes with
    // priority 23. `b` is still the first of its list when `a` blocks again.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-block"), cpu("x", None)];
    let (text, _) = timeline(&machine(1), &setting(jobs), "abx", "abx");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         1 ms cpu0: a blocks, then b
         1 ms cpu0: b
         2 ms cpu0: b preempted, then a
         2 ms cpu0: a
         3 ms cpu0: a blocks, then b
         3 ms cpu0: b
         4 ms cpu0: b ends, then a
         4 ms cpu0: a
         4 ms cpu0: a ends, then x",
    );
}

#[test]
fn a_yielding_thread_waits_until_all_others_have_used_up_their_timeslices() {
    // `a` yields at 1.0005 ms. `b` completes the barrier, but `x` first has the ticks of 3, 4, 5
    // and 6 ms.
    let jobs = vec![barrier("crew", 2, ms(1), 1, "always-yield"), cpu("x", None)];
    let (text, _) = timeline(&machine(1), &setting(jobs), "abx", "abx");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         1.0005 ms cpu0: a yields, then b
         1.0005 ms cpu0: b
         2.0005 ms cpu0: b ends, then x
         2.0005 ms cpu0: x
         6 ms cpu0: x preempted, then a
         6 ms cpu0: a
         6 ms cpu0: a ends, then x",
    );
}

#[test]
fn a_woken_thread_goes_to_the_first_idle_cpu_if_its_own_is_busy() {
    // `a` and `b` share CPU 0. CPUs 1 and 2 are idle from 1 ms. `b` wakes `a` at 2 ms from the CPU
    // where `a` was.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-block"), cpu("x", Some(ms(1))), cpu("y", Some(ms(1)))];
    let mut bound = jobs.clone();
    let (text, _) = timeline(&machine(3), &setting(jobs), "abxy", "axyb");
    assert!(text.contains("2 ms cpu1: idle, then a"), "{text}");
    // Unless it may not run there.
    bound[0].attributes.cpus = Some([CpuId(0), CpuId(2)].into_iter().collect());
    let (text, _) = timeline(&machine(3), &setting(bound), "abxy", "axyb");
    assert!(!text.contains("cpu1: idle, then a") && !text.contains("cpu1: idle, then b"), "{text}");
}

#[test]
fn bound_threads_share_their_cpu_even_if_another_is_idle() {
    let mut jobs = vec![cpu("a", Some(ms(70))), cpu("b", Some(ms(70)))];
    jobs.iter_mut().for_each(|job| job.attributes.cpus = Some([CpuId(1)].into_iter().collect()));
    let (text, outcome) = timeline(&machine(2), &setting(jobs), "ab", "ab");
    assert!(!text.contains("cpu0"), "{text}");
    assert_eq!(outcome.jobs[1].completion_ns, Some(ms(140)));
}

#[test]
fn a_cpu_that_would_become_idle_takes_a_cold_thread() {
    // CPU 0 has `a` and `c`, CPU 1 has `b` and `d`. At 2 ms CPU 0 runs out of work. `d` has not run
    // yet.
    let jobs = vec![cpu("a", Some(ms(1))), cpu("b", Some(ms(9))), cpu("c", Some(ms(1))), cpu("d", Some(ms(1)))];
    let (text, _) = timeline(&machine(2), &setting(jobs), "abcd", "abcd");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         0 ns cpu0: a
         0 ns cpu1: b
         1 ms cpu0: a ends, then c
         1 ms cpu0: c
         2 ms cpu0: c ends, then d
         2 ms cpu0: d
         3 ms cpu0: d ends, then idle
         3 ms cpu0: idle
         9 ms cpu1: b ends, then idle",
    );
}

#[test]
fn a_hot_thread_stays_until_an_idle_cpu_ticks() {
    // On CPU 1 `b` has expired at 4 ms, so it is hot when CPU 0 becomes idle at 5.3 ms, and until
    // 6.5 ms. At 6 ms CPU 0 is idle and takes it anyway.
    let jobs = vec![
        cpu("a", Some(Span::from_micros(5_300))),
        cpu("b", Some(ms(20))),
        cpu("c", Some(Span::ZERO)),
        cpu("d", Some(ms(20))),
    ];
    let (text, _) = timeline(&machine(2), &setting(jobs), "abcd", "abcd");
    assert!(text.contains("5.300001 ms cpu0: a ends, then idle"), "{text}");
    assert!(text.contains("6 ms cpu0: idle, then b"), "{text}");
}

#[test]
fn a_busy_cpu_looks_for_an_imbalance_at_the_sixty_fourth_tick() {
    // CPU 0 has `a`, `c` and `e`, of which `a` is left at 6 ms. CPU 1 has three. The averages are 1
    // and 3 threads at 64 ms, so one moves: `f`, the last in its list, which ran until 60 ms. `a`
    // has its timeslices from 6 ms on, and expires at 66 ms.
    let jobs = vec![
        cpu("a", Some(ms(80))),
        cpu("b", Some(ms(100))),
        cpu("c", Some(ms(1))),
        cpu("d", Some(ms(100))),
        cpu("e", Some(ms(1))),
        cpu("f", Some(ms(100))),
    ];
    let (text, _) = timeline(&machine(2), &setting(jobs), "abcdef", "abcdef");
    let mut on_cpu0 = text.lines().filter(|line| line.contains("cpu0"));
    assert!(on_cpu0.any(|line| line == "6 ms cpu0: e ends, then a"), "{text}");
    assert_eq!(on_cpu0.nth(1), Some("66 ms cpu0: a preempted, then f"), "{text}");
}
