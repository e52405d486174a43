//! EEVDF, calculated by hand, with one case for each rule: switches are free, the slice is 3 ms,
//! the tick 4 ms.

use policy::{CpuId, Span};
use rowlock_sim::run;
use scenario::Scheduler::Eevdf;
use scenario::{Attributes, Job, JobKind, Machine};

use crate::timeline::{assert_timeline, barrier, cpu, machine, setting, timeline};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

#[test]
fn at_a_tick_the_eligible_thread_with_the_earliest_deadline_gets_the_cpu() {
    // At 4 ms `a` is at virtual 4 and the average at 2, so only `b` is eligible. At 8 ms both are
    // at 4 with deadline 7, and the current thread has used up its request, so the waiting one goes
    // first.
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
    // At 2 ms `b` is at virtual 1 of its first request (to 1.5) and eligible when it wakes `a`,
    // which returns with its lag of -0.5 ms. `b` keeps the CPU.
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
    // `a` shares CPU 0 with `x`, and `b` CPU 1 with `y`. `x` and `y` run until 4 ms. `a` blocks at
    // 5 ms with a lag of +1.5 ms and `x` continues. At the same moment `b` wakes `a`. It is placed
    // at 1, and `x` is at 4 and not eligible. The next round does the same with a lag of +1 ms.
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
    // CPU 0 has `a`, `x` and `y`. At 6.5 ms `b` wakes `a` there. `y` is at virtual 2.5, beyond its
    // first request (to 1.5), so it gets its next deadline, 5.5. The deadline of `x`, at virtual
    // 1.5, is 4.5, so it runs before the tick. `a` returns at virtual 4.5 and has to wait.
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
    // From 1 ms on, `a` waits for `b`, which gets CPU 1 only at 4 ms. At its first yield it is not
    // eligible, and `x` runs until the tick. Its second yield, at 4 ms, forfeits its request (to
    // 1.5), but it is still eligible. The third forfeits the next request (to 4.5), and it is not
    // eligible: `x` runs until the next tick although the barrier completes at 5 ms. `y` on CPU 1
    // is protected at that tick, at virtual 6 of its request to 7.
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
    // CPU 0 has `a` and `c`, CPU 1 has `b` and `d`. At 2 ms CPU 0 runs out of work. `d` has not run
    // yet.
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
    // `d` has CPU 1 from 4 ms, `b` again from 8 ms. When CPU 0 becomes free at 8.3 ms, `d` ran 0.3
    // ms ago and is left alone. At the tick of 12 ms, CPU 0 is asked to help and takes it.
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
fn of_two_idle_cpus_the_one_whose_choice_is_cold_helps_at_a_tick() {
    // `a` and `b` alternate on CPU 1, `c` and `d` on CPU 3, and the others are idle from 2.5 ms on.
    // At the tick of 4 ms both queues are equally long. CPU 0 comes to CPU 1 first, where `a` ran
    // 0.22 ms ago. CPU 2 comes to CPU 3 first, where `c`, awake since 3.8 ms, last ran at 1.9 ms.
    let us = Span::from_micros;
    let jobs = vec![
        barrier("fast", 2, us(180), 20, "always-block"),
        barrier("slow", 2, us(1_900), 2, "always-block"),
        cpu("w", Some(us(2_500))),
        cpu("x", Some(us(2_500))),
        cpu("y", Some(Span::ZERO)),
        cpu("z", Some(Span::ZERO)),
    ];
    let machine = Machine { slice: ms(12), ..machine(4, Eevdf) };
    let (text, _) = timeline(&machine, &setting(jobs), "abcdwxyz", "waxcybzd");
    assert!(text.contains("4 ms cpu2: idle, then c"), "{text}");
}

/// The job with these attributes.
fn asking(job: Job, attributes: Attributes) -> Job {
    Job { attributes, ..job }
}

fn on_cpu(cpu: u32) -> Attributes {
    Attributes { cpus: Some([CpuId(cpu)].into_iter().collect()), ..Attributes::default() }
}

fn with_slice(slice: Span) -> Attributes {
    Attributes { slice: Some(slice), ..Attributes::default() }
}

#[test]
fn a_woken_thread_goes_to_an_idle_cpu_if_its_own_is_busy() {
    // `y` is bound to CPU 0, and `z` to CPU 1 until it ends at 4.5 ms. `a` gets CPU 0 at 4 ms and
    // blocks at 6 ms with virtual 2 against 4. `b` wakes it at that moment from CPU 1. CPU 2 has
    // been idle since 5.5 ms.
    let jobs = vec![
        barrier("crew", 2, ms(1), 3, "always-block"),
        asking(cpu("y", None), on_cpu(0)),
        cpu("x", Some(Span::from_micros(5_500))),
        asking(cpu("z", Some(Span::from_micros(3_500))), on_cpu(1)),
    ];
    let (text, _) = timeline(&machine(3, Eevdf), &setting(jobs), "abyxz", "ybxaz");
    assert!(text.contains("6 ms cpu0: a blocks, then y"), "{text}");
    assert!(text.contains("6 ms cpu2: idle, then a"), "{text}");
}

#[test]
fn a_thread_that_blocks_ahead_of_its_queue_stays_in_it_and_wakes_there() {
    // `a` blocks at 1 ms with virtual 1 against an average of 0.5. At 2 ms `b` wakes it. Although
    // CPU 1 has been idle since 1.6 ms, `a` waits in its queue until `b` blocks.
    let jobs = vec![barrier("crew", 2, ms(1), 2, "always-block"), cpu("x", Some(Span::from_micros(1_600)))];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abx", "axb");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then x
         0 ns cpu0: a
         0 ns cpu1: x
         1 ms cpu0: a blocks, then b
         1 ms cpu0: b
         1.6 ms cpu1: x ends, then idle
         1.6 ms cpu1: idle
         3 ms cpu0: b blocks, then a
         3 ms cpu0: a
         4 ms cpu0: a ends, then b
         4 ms cpu0: b
         4 ms cpu0: b ends, then idle",
    );
}

#[test]
fn a_blocked_thread_that_would_be_picked_leaves_the_queue_without_lag() {
    // `a` blocks at 1 ms with virtual 1 against an average of 0.5. At 4 ms `x` is at virtual 3 and
    // the CPU would pick `a`, which leaves the queue and loses its lag of 1 ms. When `b` wakes it
    // at 5 ms, it is placed beside `x`, at virtual 4 with the later deadline.
    let crew = barrier("crew", 2, ms(1), 2, "always-block");
    let jobs = vec![crew, asking(cpu("x", None), on_cpu(0)), asking(cpu("y", None), on_cpu(1))];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abxy", "ayxb");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then y
         0 ns cpu0: a
         0 ns cpu1: y
         1 ms cpu0: a blocks, then x
         1 ms cpu0: x
         4 ms cpu1: y preempted, then b
         4 ms cpu1: b
         6 ms cpu1: b blocks, then y
         6 ms cpu1: y
         8 ms cpu0: x preempted, then a
         8 ms cpu0: a
         9 ms cpu0: a ends, then x
         9 ms cpu1: y preempted, then b
         9 ms cpu0: x
         9 ms cpu1: b
         9 ms cpu1: b ends, then y",
    );
}

#[test]
fn a_long_slice_is_protected_no_longer_than_a_short_one_beside_it() {
    // `a` asks for 20 ms, of which the first request has half. Protected until 10 ms, it continues
    // until the tick of 12 ms. Beside requests of 2 ms it is protected for 2 ms, and the thread
    // behind the average has the CPU from tick to tick.
    let run = |slice| {
        let long = asking(cpu("a", Some(ms(16))), with_slice(ms(20)));
        let jobs = vec![long, asking(cpu("b", Some(ms(8))), with_slice(slice))];
        timeline(&machine(1, Eevdf), &setting(jobs), "ab", "ab").0
    };
    assert_timeline(
        &run(ms(20)),
        "0 ns cpu0: idle, then a
         0 ns cpu0: a
         12 ms cpu0: a preempted, then b
         12 ms cpu0: b
         20 ms cpu0: b ends, then a
         20 ms cpu0: a
         24 ms cpu0: a ends, then idle",
    );
    assert_timeline(
        &run(ms(2)),
        "0 ns cpu0: idle, then b
         0 ns cpu0: b
         4 ms cpu0: b preempted, then a
         4 ms cpu0: a
         8 ms cpu0: a preempted, then b
         8 ms cpu0: b
         12 ms cpu0: b ends, then a
         12 ms cpu0: a
         24 ms cpu0: a ends, then idle",
    );
}

#[test]
fn a_busy_cpu_takes_a_thread_that_is_heavier_than_the_imbalance_after_two_failures() {
    // On average a CPU has the load of one and a half threads, so half a thread should move. At 28
    // ms (with two CPUs every 32 ms, less a tick) a whole thread is too much. At 56 ms it counts
    // half, but the waiting thread has just run. At 84 ms that does not matter any more. `a` is
    // placed at the average with its lag, and `b` is protected until the next tick.
    let jobs = vec![cpu("a", Some(ms(50))), cpu("b", Some(ms(100))), cpu("c", Some(ms(100)))];
    let (text, _) = timeline(&machine(2, Eevdf), &setting(jobs), "abc", "abc");
    let cpu1: Vec<&str> = text.lines().filter(|line| line.contains("cpu1")).collect();
    assert_eq!(cpu1[2], "88 ms cpu1: b preempted, then a", "{text}");
}

#[test]
fn threads_that_are_bound_to_one_cpu_leave_the_other_idle() {
    let jobs = vec![asking(cpu("a", Some(ms(10))), on_cpu(1)), asking(cpu("b", Some(ms(10))), on_cpu(1))];
    let (text, outcome) = timeline(&machine(2, Eevdf), &setting(jobs), "ab", "ab");
    assert!(!text.contains("cpu0"), "{text}");
    assert_eq!(outcome.jobs.iter().filter_map(|job| job.completion_ns).max(), Some(ms(20)));
}

#[test]
fn jobs_that_are_groups_share_the_machine_equally() {
    // One thread beside three: a quarter of the CPU without groups, half of it with groups.
    let jobs = || vec![cpu("one", Some(ms(300))), Job::new("three", 1, JobKind::Cpu { threads: 3, work: None })];
    let completion = |groups| {
        let machine = Machine { groups, ..machine(1, Eevdf) };
        run(&machine, &setting(jobs()), 1).unwrap().jobs[0].completion_ns.unwrap().as_secs_f64() / 0.3
    };
    assert!((completion(false) - 4.0).abs() < 0.1, "{}", completion(false));
    assert!((completion(true) - 2.0).abs() < 0.1, "{}", completion(true));
}

#[test]
fn a_group_on_more_cpus_has_no_larger_share_of_the_machine() {
    // Two groups on two CPUs, of one thread and of seven, all bound to both CPUs. The one thread
    // can have at most a CPU, and gets all of it.
    let jobs = vec![cpu("one", Some(ms(1_000))), Job::new("seven", 1, JobKind::Cpu { threads: 7, work: None })];
    let machine = Machine { groups: true, ..machine(2, Eevdf) };
    let completion = run(&machine, &setting(jobs), 1).unwrap().jobs[0].completion_ns.unwrap();
    assert!(completion < ms(1_250), "{completion}");
}
