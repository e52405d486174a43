//! The completely fair scheduler, calculated by hand, with one case for each rule.
//!
//! Switches are free, the latency is 6 ms, the granularity 0.75 ms, the wakeup granularity 1 ms,
//! and the tick 4 ms.

use policy::Span;
use scenario::{Attributes, Cfs, Job, Machine, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn machine(cpus: u32) -> Machine {
    Machine { cfs: Cfs::with_cpus(1), ..crate::timeline::machine(cpus, Scheduler::Cfs) }
}

/// A job that may only run on these CPUs.
fn bound(job: Job, cpus: &str) -> Job {
    Job { attributes: Attributes { cpus: Some(cpus.parse().unwrap()), ..Attributes::default() }, ..job }
}

#[test]
fn at_a_tick_after_its_slice_the_thread_with_the_least_virtual_time_gets_the_cpu() {
    // `a` starts a slice of 6 ms from 0, `b` one of 3 ms, so `b` runs first. Slices are 3 ms, so
    // that each tick ends one.
    let jobs = vec![cpu("a", Some(ms(10))), cpu("b", Some(ms(10)))];
    let (text, _) = timeline(&machine(1), &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         4 ms cpu0: b preempted, then a
         4 ms cpu0: a
         8 ms cpu0: a preempted, then b
         8 ms cpu0: b
         12 ms cpu0: b preempted, then a
         12 ms cpu0: a
         16 ms cpu0: a preempted, then b
         16 ms cpu0: b
         18 ms cpu0: b ends, then a
         18 ms cpu0: a
         20 ms cpu0: a ends, then idle",
    );
}

#[test]
fn a_slice_is_a_share_of_the_latency_by_weight() {
    // `heavy` weighs 3121 of 4145 and gets 4.5 ms of 6. It starts at virtual 1.97, which is such a
    // slice in its time, and `light` at 1.48. So `light` runs first, to the tick and to virtual
    // 5.48. `heavy` is at virtual 3.28 at the next tick, within its slice. It is at 4.59 at 12 ms,
    // when its slice is over but no thread is behind it, and at 5.91 at 16 ms.
    let heavy = Job { attributes: Attributes { nice: -5, ..Attributes::default() }, ..cpu("heavy", None) };
    let (text, _) = timeline(&machine(1), &setting(vec![heavy, cpu("light", Some(ms(7)))]), "hl", "hl");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then l
         0 ns cpu0: l
         4 ms cpu0: l preempted, then h
         4 ms cpu0: h
         16 ms cpu0: h preempted, then l
         16 ms cpu0: l
         19 ms cpu0: l ends, then h",
    );
}

#[test]
fn cpu_time_is_divided_by_weight() {
    for (nice, weight) in [(0, 1024.0), (5, 335.0), (19, 15.0), (-5, 3121.0)] {
        let other = Job { attributes: Attributes { nice, ..Attributes::default() }, ..cpu("other", None) };
        let jobs = vec![cpu("job", Some(ms(10_000))), other];
        let outcome = rowlock_sim::run(&machine(1), &setting(jobs), 1).unwrap();
        let (share, expected) =
            (10.0 / outcome.jobs[0].completion_ns.unwrap().as_secs_f64(), 1024.0 / (1024.0 + weight));
        assert!((share - expected).abs() < 0.002, "nice {nice}: {share} for {expected}");
    }
}

#[test]
fn a_sleeper_returns_with_half_a_latency_and_preempts() {
    // `b` blocks at virtual 4. When `a`, at virtual 7, also arrives at 2 ms, it wakes `b` at 4,
    // which is at most 3 ms behind.
    let crew = barrier("crew", 2, ms(1), 2, "always-block");
    let (text, _) = timeline(&machine(1), &setting(vec![crew.clone()]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         1 ms cpu0: b blocks, then a
         1 ms cpu0: a
         2 ms cpu0: a preempted, then b
         2 ms cpu0: b
         3 ms cpu0: b blocks, then a
         3 ms cpu0: a
         4 ms cpu0: a ends, then b
         4 ms cpu0: b
         4 ms cpu0: b ends, then idle",
    );
    // With a granularity of 3 ms it has to wait.
    let wakeup_granularity = ms(3);
    let patient = Machine { cfs: Cfs { wakeup_granularity, ..Cfs::with_cpus(1) }, ..machine(1) };
    let (text, _) = timeline(&patient, &setting(vec![crew]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         1 ms cpu0: b blocks, then a
         1 ms cpu0: a
         3 ms cpu0: a blocks, then b
         3 ms cpu0: b
         4 ms cpu0: b ends, then a
         4 ms cpu0: a
         4 ms cpu0: a ends, then idle",
    );
}

#[test]
fn a_yielding_thread_is_skipped_unless_the_next_one_is_too_far_ahead() {
    // From 1 ms on, `b` waits at virtual 4 for `a`, which is at 6. Its yields take 0.3 ms each. The
    // fourth one, at 2.2 ms, finds `a` within a granularity.
    let jobs = vec![barrier("crew", 2, ms(1), 1, "always-yield")];
    let machine = Machine { yield_cost: Span::from_micros(300), ..machine(1) };
    let (text, _) = timeline(&machine, &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         2.2 ms cpu0: b yields, then a
         2.2 ms cpu0: a
         3.2 ms cpu0: a ends, then b
         3.2 ms cpu0: b
         3.2 ms cpu0: b ends, then idle",
    );
}

#[test]
fn a_cpu_without_work_takes_half_of_the_threads_of_the_busiest() {
    // CPU 0 has `a` and `c`. CPU 1 has `b`, `d`, and `e`, which is bound to it. At 2 ms CPU 0 runs
    // out of work. `d`, which started last of the two that may move, runs or waits after `e`. The
    // one that has waited longest is `b`.
    let short = |name| cpu(name, Some(ms(1)));
    let long = |name| cpu(name, Some(ms(9)));
    let jobs = vec![short("a"), long("b"), short("c"), long("d"), bound(long("e"), "1")];
    let (text, _) = timeline(&machine(2), &setting(jobs), "abcde", "abcde");
    assert_timeline(
        text.split_once("4 ms").unwrap().0,
        "0 ns cpu0: idle, then c
         0 ns cpu1: idle, then e
         0 ns cpu0: c
         0 ns cpu1: e
         1 ms cpu0: c ends, then a
         1 ms cpu0: a
         2 ms cpu0: a ends, then b
         2 ms cpu0: b
         ",
    );
}

#[test]
fn three_threads_on_two_cpus_change_places() {
    // Without balancing, one would have a CPU to itself and end after 2 s, and the others after 3
    // s.
    let jobs = ["a", "b", "c"].map(|name| cpu(name, Some(ms(2_000)))).into();
    let outcome = rowlock_sim::run(&machine(2), &setting(jobs), 1).unwrap();
    for job in outcome.jobs {
        let end = job.completion_ns.unwrap();
        assert!((ms(2_700)..ms(3_100)).contains(&end), "{} ends at {end}", job.job);
    }
}

#[test]
fn a_waker_with_less_load_attracts_the_woken_thread() {
    // `x` and `y` are bound to CPU 0, on which `a` is too. `b` is alone on CPU 1 and wakes `a`
    // there. Then that CPU has two threads.
    let compute = Span::from_micros(500);
    let crew = barrier("crew", 2, compute, 2, "always-block");
    let jobs = vec![crew, bound(cpu("x", None), "0"), bound(cpu("y", None), "0")];
    let (text, _) = timeline(&machine(2), &setting(jobs), "abxy", "abxy");
    assert!(text.contains("cpu1: b preempted, then a") || text.contains("cpu1: b blocks, then a"), "{text}");
}

#[test]
fn no_thread_runs_on_a_cpu_on_which_it_may_not_run() {
    let jobs = vec![bound(cpu("a", Some(ms(50))), "1"), bound(cpu("b", Some(ms(50))), "1-2"), cpu("c", Some(ms(200)))];
    let jobs = [jobs, vec![bound(barrier("crew", 3, ms(1), 20, "cs"), "0,2")]].concat();
    let (text, _) = timeline(&machine(3), &setting(jobs), "abcxyz", "abcxyz");
    let runs = |name: &str, cpu: u32| text.contains(&format!("cpu{cpu}: {name}\n"));
    assert!(runs("a", 1) && !runs("a", 0) && !runs("a", 2));
    assert!(runs("b", 2) && !runs("b", 0));
    for name in ["x", "y", "z"] {
        assert!((runs(name, 0) || runs(name, 2)) && !runs(name, 1), "{name}");
    }
}
