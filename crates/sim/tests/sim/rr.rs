//! Round robin and the machine's own rules, calculated by hand: CS is 6 us, the quantum 100 us.

use policy::Span;
use scenario::{Machine, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(cpus) }
}

#[test]
fn a_quantum_is_fresh_at_each_dispatch_and_does_not_cover_the_switch() {
    let setting = setting(vec![cpu("a", Some(us(150))), cpu("b", Some(us(150)))]);
    let (text, outcome) = timeline(&machine(1), &setting, "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         106 us cpu0: a preempted, then b
         112 us cpu0: b
         212 us cpu0: b preempted, then a
         218 us cpu0: a
         268 us cpu0: a ends, then b
         274 us cpu0: b
         324 us cpu0: b ends, then idle",
    );
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(268)));
    assert_eq!(outcome.jobs[1].completion_ns, Some(us(324)));
    assert_eq!(outcome.jobs[0].involuntary_switches, Some(1));
    assert_eq!(outcome.jobs[0].delivered_work_ns, Some(us(150)));
    // Two switches came before its two parts of the computation.
    assert_eq!(outcome.jobs[0].cpu_ns, Some(us(162)));
}

#[test]
fn without_a_waiting_thread_the_end_of_a_quantum_is_no_switch() {
    let (text, outcome) = timeline(&machine(1), &setting(vec![cpu("a", Some(us(250)))]), "a", "a");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         256 us cpu0: a ends, then idle",
    );
    assert_eq!(outcome.jobs[0].involuntary_switches, Some(0));
}

#[test]
fn an_idle_cpu_pays_for_its_wakeup_beside_the_switch() {
    let machine = Machine { wakeup_cost: us(10), ..machine(1) };
    let (text, outcome) = timeline(&machine, &setting(vec![cpu("a", Some(us(20)))]), "a", "a");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         16 us cpu0: a
         36 us cpu0: a ends, then idle",
    );
    assert_eq!(outcome.jobs[0].cpu_ns, Some(us(26)), "the wakeup is not the thread's CPU time");
}

#[test]
fn a_barrier_that_completes_during_the_switch_away_wakes_at_its_end_for_two_switches() {
    let crew = barrier("crew", 2, us(10), 2, "always-block");
    let (text, outcome) = timeline(&machine(2), &setting(vec![crew]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         16 us cpu0: a blocks, then idle
         22 us cpu0: idle
         22 us cpu0: idle, then a
         26 us cpu1: b blocks, then idle
         28 us cpu0: a
         32 us cpu1: idle
         38 us cpu0: a ends, then b
         44 us cpu0: b
         44 us cpu0: b ends, then idle",
    );
    assert_eq!(outcome.jobs[0].completion_ns, Some(us(44)));
    assert_eq!(outcome.jobs[0].rounds, Some(2));
    assert_eq!(outcome.jobs[0].ssr_percent, None, "no thread has spun");
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(2));
}

/// `a` arrives at 16 us. `b` has to wait for `x` and arrives at 26 us.
fn ssr_when_the_other_comes_10_us_later(waiting: &str) -> (String, Option<f64>) {
    let jobs = vec![barrier("crew", 2, us(10), 1, waiting), cpu("x", Some(us(4)))];
    let (text, outcome) = timeline(&machine(2), &setting(jobs), "abx", "axb");
    (text, outcome.jobs[0].ssr_percent)
}

#[test]
fn an_arrival_at_the_very_end_of_a_spin_finds_the_spinner_spinning() {
    let (text, ssr) = ssr_when_the_other_comes_10_us_later("10 us");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then x
         6 us cpu0: a
         6 us cpu1: x
         10 us cpu1: x ends, then b
         16 us cpu1: b
         26 us cpu0: a ends, then idle
         26 us cpu1: b ends, then idle",
    );
    assert_eq!(ssr, Some(100.0));
}

#[test]
fn a_spin_that_ends_a_nanosecond_earlier_has_failed() {
    let (text, ssr) = ssr_when_the_other_comes_10_us_later("9.999 us");
    assert!(text.contains("25.999 us cpu0: a blocks, then idle"), "{text}");
    assert_eq!(ssr, Some(0.0));
}

#[test]
fn woken_threads_go_to_the_tail_and_preempt_no_thread() {
    let jobs = vec![barrier("crew", 2, us(10), 2, "always-block"), cpu("x", None)];
    let (text, _) = timeline(&machine(1), &setting(jobs), "abx", "abx");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         16 us cpu0: a blocks, then b
         22 us cpu0: b
         42 us cpu0: b blocks, then x
         48 us cpu0: x
         148 us cpu0: x preempted, then a
         154 us cpu0: a
         164 us cpu0: a ends, then x
         170 us cpu0: x
         270 us cpu0: x preempted, then b
         276 us cpu0: b
         276 us cpu0: b ends, then x",
    );
}

#[test]
fn a_yield_ends_the_quantum() {
    let crew = barrier("crew", 2, us(10), 1, "always-yield");
    let (text, outcome) = timeline(&machine(1), &setting(vec![crew]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         16.5 us cpu0: a yields, then b
         22.5 us cpu0: b
         32.5 us cpu0: b ends, then a
         38.5 us cpu0: a
         38.5 us cpu0: a ends, then idle",
    );
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(0));
    assert_eq!(outcome.jobs[0].involuntary_switches, Some(1));
}

#[test]
fn a_spinner_that_was_preempted_succeeds_off_its_cpu() {
    let crew = barrier("crew", 2, us(90), 1, "always-spin");
    let (text, outcome) = timeline(&machine(1), &setting(vec![crew]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         106 us cpu0: a preempted, then b
         112 us cpu0: b
         202 us cpu0: b ends, then a
         208 us cpu0: a
         208 us cpu0: a ends, then idle",
    );
    assert_eq!(outcome.jobs[0].ssr_percent, Some(100.0));
    assert_eq!(outcome.jobs[0].spin_ns, Some(us(10)));
}
