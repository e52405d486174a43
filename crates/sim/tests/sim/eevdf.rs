//! EEVDF by hand, one case a rule: switches are free, the slice is 3 ms, the tick 4 ms.

use policy::Span;
use scenario::Scheduler::Eevdf;

use crate::timeline::{assert_timeline, barrier, cpu, machine, setting, timeline};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

#[test]
fn at_a_tick_the_cpu_goes_to_whom_is_eligible_with_the_earliest_deadline() {
    // At 4 ms `a` is at virtual 4, the average at 2: only `b` is eligible. At 8 ms both are at 4 with deadline 7, and
    // the current thread has used up its request: the one that waits goes first.
    let jobs = vec![cpu("a", Some(ms(10))), cpu("b", Some(ms(10)))];
    let (text, _) = timeline(&machine(1, Eevdf), &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         4 ms cpu0: a preempted, then b
         4 ms cpu0: b
         8 ms cpu0: b preempted, then a
         8 ms cpu0: a
         12 ms cpu0: a preempted, then b
         12 ms cpu0: b
         16 ms cpu0: b preempted, then a
         16 ms cpu0: a
         18 ms cpu0: a ends, then b
         18 ms cpu0: b
         20 ms cpu0: b ends, then idle",
    );
}

#[test]
fn a_thread_within_its_request_is_protected_from_the_one_that_it_wakes() {
    // At 2 ms `b` is at virtual 1 of its first request (to 1.5) and eligible when it wakes `a`, which comes back with
    // its lag of -0.5 ms: `b` keeps the CPU.
    let crew = barrier("crew", 2, ms(1), 2, "always-block");
    let (text, _) = timeline(&machine(1, Eevdf), &setting(vec![crew]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         1 ms cpu0: a blocks, then b
         1 ms cpu0: b
         3 ms cpu0: b blocks, then a
         3 ms cpu0: a
         4 ms cpu0: a ends, then b
         4 ms cpu0: b
         4 ms cpu0: b ends, then idle",
    );
}

#[test]
fn a_woken_thread_with_lag_preempts_a_thread_that_is_not_eligible() {
    // `a` shares CPU 0 with `x`, and `b` CPU 1 with `y`; the latter have them to 4 ms. `a` blocks at 5 ms with a lag of
    // +1.5 ms, `x` goes on, and `b` wakes `a` in the same moment: placed at 1 against `x` at 4, so that `x` is not
    // eligible. The next round does the same with a lag of +1 ms.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-block"), cpu("x", None), cpu("y", None)];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abxy", "xyab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then x
         0 ns cpu1: idle, then y
         0 ns cpu0: x
         0 ns cpu1: y
         4 ms cpu0: x preempted, then a
         4 ms cpu0: a
         4 ms cpu1: y preempted, then b
         4 ms cpu1: b
         5 ms cpu0: a blocks, then x
         5 ms cpu0: x
         5 ms cpu0: x preempted, then a
         5 ms cpu0: a
         6 ms cpu0: a blocks, then x
         6 ms cpu0: x
         6 ms cpu1: b ends, then y
         6 ms cpu0: x preempted, then a
         6 ms cpu0: a
         6 ms cpu0: a ends, then x",
    );
}

#[test]
fn a_thread_that_joins_a_queue_makes_the_cpu_pick_again_when_a_request_is_over() {
    // CPU 0 has `a`, `x` and `y`. At 6.5 ms `b` wakes `a` there: `y` is at virtual 2.5, beyond its first request (to 1.5),
    // so it gets its next deadline, 5.5. That of `x`, at virtual 1.5, is 4.5: it goes on before the tick. `a` itself comes
    // back at virtual 4.5 and has to wait.
    let jobs = vec![
        barrier("crew", 2, Span::from_micros(2_500), 1, "always-block"),
        cpu("x", None),
        cpu("y", None),
        cpu("z", None),
    ];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abxyz", "azxby");
    assert_timeline(
        text.split_once("12 ms").unwrap().0,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then z
         0 ns cpu0: a
         0 ns cpu1: z
         2.5 ms cpu0: a blocks, then x
         2.5 ms cpu0: x
         4 ms cpu0: x preempted, then y
         4 ms cpu0: y
         4 ms cpu1: z preempted, then b
         4 ms cpu1: b
         6.5 ms cpu1: b ends, then z
         6.5 ms cpu0: y preempted, then x
         6.5 ms cpu0: x
         6.5 ms cpu1: z",
    );
}

#[test]
fn a_yield_beside_a_cpu_bound_thread_costs_the_time_to_a_tick() {
    // `a` waits from 1 ms for `b`, which gets CPU 1 only at 4 ms. Its first yield finds it not eligible: `x` runs to the
    // tick. Its second, at 4 ms, forfeits its request (to 1.5), but it is still eligible; the third forfeits the next
    // (to 4.5) and is not: `x` runs to the next tick although the barrier completes at 5 ms. `y` on CPU 1 is protected at
    // that tick, at virtual 6 of its request to 7.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-yield"), cpu("x", None), cpu("y", None)];
    let (text, outcome) = timeline(&machine(2, Eevdf), &setting(jobs), "abxy", "ayxb");
    assert_timeline(
        text.split_once("9 ms").unwrap().0,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then y
         0 ns cpu0: a
         0 ns cpu1: y
         1.0005 ms cpu0: a yields, then x
         1.0005 ms cpu0: x
         4 ms cpu0: x preempted, then a
         4 ms cpu0: a
         4 ms cpu1: y preempted, then b
         4 ms cpu1: b
         4.001 ms cpu0: a yields, then x
         4.001 ms cpu0: x
         6.0005 ms cpu1: b yields, then y
         6.0005 ms cpu1: y
         8 ms cpu0: x preempted, then a
         8 ms cpu0: a
         ",
    );
    assert_eq!(outcome.jobs[0].spin_ns, Some(Span::ZERO));
}

#[test]
fn a_cpu_without_work_takes_a_cold_thread_from_the_longest_queue() {
    // CPU 0 has `a` and `c`, CPU 1 `b` and `d`. At 2 ms CPU 0 is through; `d` has not run yet.
    let jobs = vec![cpu("a", Some(ms(1))), cpu("b", Some(ms(9))), cpu("c", Some(ms(1))), cpu("d", Some(ms(1)))];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abcd", "abcd");
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
fn a_thread_whose_cache_is_hot_stays_until_a_tick_finds_it_cold() {
    // `d` has CPU 1 from 4 ms, `b` again from 8 ms, when CPU 0 comes free at 8.3 ms: `d` ran 0.3 ms ago and is left
    // alone. At the tick of 12 ms, CPU 0 is asked to help and takes it.
    let jobs = vec![
        cpu("a", Some(Span::from_micros(8_300))),
        cpu("b", Some(ms(20))),
        cpu("c", Some(Span::ZERO)),
        cpu("d", Some(ms(20))),
    ];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abcd", "abcd");
    let cpu0: Vec<&str> = text.lines().filter(|line| line.contains("cpu0")).collect();
    assert!(text.contains("8.300001 ms cpu0: idle"), "{text}");
    assert!(cpu0.contains(&"12 ms cpu0: idle, then d"), "{text}");
}

#[test]
fn an_awakened_thread_goes_to_an_idle_cpu_when_its_own_is_taken() {
    // `a` and `b` share CPU 0; CPU 1 falls idle at 1 ms. `b` wakes `a` at 2 ms from the CPU where `a` was.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-block"), cpu("x", Some(Span::from_micros(1_600)))];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abx", "axb");
    assert!(text.contains("2 ms cpu1: idle, then a"), "{text}");
}
