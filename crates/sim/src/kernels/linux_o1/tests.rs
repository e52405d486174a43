//! Rules for which cases with timestamps would be long.

use super::*;
use scenario::Attributes;

const CPU: CpuId = CpuId(0);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

/// Threads with these nice values on one CPU with a tick of 1 ms and timeslices of 20. The first of
/// the best runs.
fn started(nice: &[i8]) -> LinuxO1 {
    let machine = Machine { tick: Span::from_millis(1), timeslice: 20, ..Machine::with_cpus(1) };
    let mut roster = Roster::default();
    nice.iter().for_each(|nice| roster.enter(1, Attributes { nice: *nice, ..Attributes::default() }, false));
    let mut linux = LinuxO1::new(&machine, &roster);
    let mut marks = Marks::new(1);
    (0..nice.len() as u32).for_each(|thread| linux.ready(ThreadId(thread), ReadyReason::New, at(0), &mut marks));
    linux.pick(CPU, None, at(0));
    linux
}

/// Sets a thread's sleep, as of its last wakeup.
fn set_sleep(linux: &mut LinuxO1, thread: u32, millis: u64) {
    linux.queues[0].remove(ThreadId(thread), &mut linux.tasks);
    let task = &mut linux.tasks[thread as usize];
    task.sleep = millis * 1_000_000;
    task.update_priority(&linux.tuning);
    linux.queues[0].push(ThreadId(thread), 0, &mut linux.tasks);
}

/// Ends the current thread's timeslice with a tick at `millis`.
fn end_slice(linux: &mut LinuxO1, millis: u64) {
    let current = linux.queues[0].current.unwrap();
    linux.tasks[current.index()].slice = 1;
    assert!(linux.alarmed(CPU, at(millis), &Marks::new(1)).this_cpu);
}

#[test]
fn an_interactive_thread_does_not_expire() {
    let mut linux = started(&[0, 0]);
    // A bonus of 7 is a priority of 18, two better than that of nice 0.
    set_sleep(&mut linux, 0, 7 * 20);
    end_slice(&mut linux, 20);
    assert_eq!(linux.tasks[0].array, Some(0));
    assert_eq!(linux.pick(CPU, Some(ThreadId(0)), at(20)), Some(ThreadId(0)));
    // It has run for 20 ms, of which a seventh is charged. That leaves less than seven timeslices
    // of sleep.
    assert_eq!(linux.tasks[0].sleep, 140_000_000 - 20_000_000 / 7);
    end_slice(&mut linux, 40);
    assert_eq!(linux.tasks[0].array, Some(1), "expired");
}

#[test]
fn an_interactive_thread_expires_if_others_have_waited_for_too_long() {
    let mut linux = started(&[0, 0]);
    linux.queues[0].expired_since = Some(1);
    set_sleep(&mut linux, 0, 200);
    // Ten timeslices for each of two threads, and one tick.
    end_slice(&mut linux, 1 + 400);
    assert_eq!(linux.tasks[0].array, Some(0));
    end_slice(&mut linux, 1 + 401);
    assert_eq!(linux.tasks[0].array, Some(1));
}

#[test]
fn an_interactive_thread_expires_if_a_better_nice_value_has() {
    let mut linux = started(&[0, 1]);
    end_slice(&mut linux, 20);
    assert_eq!(linux.queues[0].best_expired, 20);
    assert_eq!(linux.pick(CPU, Some(ThreadId(0)), at(20)), Some(ThreadId(1)));
    set_sleep(&mut linux, 1, 200);
    end_slice(&mut linux, 40);
    assert_eq!(linux.tasks[1].array, Some(1));
}

#[test]
fn interactive_equals_take_turns_within_their_timeslices() {
    let mut linux = started(&[0, 0]);
    // At a bonus of 10, turns last two ticks. They end when the used ticks are a multiple of that.
    set_sleep(&mut linux, 0, 200);
    set_sleep(&mut linux, 1, 200);
    let turns: Vec<bool> = (1..=20).map(|tick| linux.alarmed(CPU, at(tick), &Marks::new(1)).this_cpu).collect();
    let expected: Vec<bool> = (1..=20).map(|tick| tick % 2 == 0).collect();
    assert_eq!(turns, expected);
}

#[test]
fn a_long_sleep_makes_a_thread_just_interactive_and_a_short_one_counts_more_the_less_there_is() {
    let mut linux = started(&[0]);
    let (task, tuning) = (&mut linux.tasks[0], &linux.tuning);
    task.slept(Span::from_millis(2), tuning);
    assert_eq!(task.sleep, 20_000_000, "ten times");
    task.slept(Span::from_millis(2), tuning);
    assert_eq!(task.sleep, 38_000_000, "nine times, with a bonus of 1");
    // Longer than eight timeslices less a tick.
    task.slept(Span::from_millis(159), tuning);
    assert_eq!(task.sleep, 200_000_000, "the maximum");
    task.slept(Span::from_millis(160), tuning);
    assert_eq!((task.sleep, task.priority), (180_000_000, 16));
}

#[test]
fn a_woken_threads_time_in_the_queue_counts_in_part_until_it_has_a_cpu() {
    let mut linux = started(&[0, 0]);
    let mut marks = Marks::new(1);
    linux.leave(CPU, ThreadId(0), at(1));
    assert_eq!(linux.pick(CPU, None, at(1)), Some(ThreadId(1)));
    set_sleep(&mut linux, 1, 200);
    linux.ready(ThreadId(0), ReadyReason::Woken, at(2), &mut marks);
    assert_eq!(linux.tasks[0].sleep, 10_000_000);
    linux.leave(CPU, ThreadId(1), at(6));
    assert_eq!(linux.pick(CPU, None, at(6)), Some(ThreadId(0)));
    // 38/128 of 4 ms.
    assert_eq!(linux.tasks[0].sleep, 10_000_000 + 10 * 1_187_500);
}

#[test]
fn a_new_nice_value_is_a_priority_at_once_wherever_the_thread_is() {
    let mut linux = started(&[0, 0]);
    let mut marks = Marks::new(1);
    linux.set_nice(ThreadId(1), -5, at(1), &mut marks);
    assert_eq!((linux.tasks[1].priority, marks.is_marked(CPU)), (15, true));
    assert_eq!(linux.pick(CPU, Some(ThreadId(0)), at(1)), Some(ThreadId(1)));
    marks.clear(CPU);
    linux.ready(ThreadId(0), ReadyReason::Preempted, at(1), &mut marks);
    linux.set_nice(ThreadId(0), 5, at(1), &mut marks);
    assert!(!marks.is_marked(CPU), "worse, and it waits");
    linux.set_nice(ThreadId(1), 19, at(1), &mut marks);
    assert!(marks.is_marked(CPU), "worse, and it runs");
    assert_eq!(linux.pick(CPU, Some(ThreadId(1)), at(1)), Some(ThreadId(0)));
}

#[test]
fn a_thread_that_moves_goes_where_it_wants_if_it_may_run_there() {
    let machine = Machine { scheduler: scenario::Scheduler::LinuxO1, ..Machine::with_cpus(3) };
    let mut roster = Roster::default();
    let cpus = Some([CpuId(0), CpuId(1)].into_iter().collect());
    roster.enter(1, Attributes { cpus, ..Attributes::default() }, false);
    let (mut linux, mut marks) = (LinuxO1::new(&machine, &roster), Marks::new(3));
    linux.ready(ThreadId(0), ReadyReason::New, at(0), &mut marks);
    for (to, expected) in [(CpuId(1), CpuId(1)), (CpuId(2), CpuId(1)), (CpuId(0), CpuId(0))] {
        let cpu = linux.tasks[0].cpu;
        linux.pick(cpu, None, at(0));
        linux.leave(cpu, ThreadId(0), at(0));
        linux.pick(cpu, None, at(0));
        linux.ready(ThreadId(0), ReadyReason::Moved(to), at(0), &mut marks);
        assert_eq!(linux.tasks[0].cpu, expected);
    }
}
