//! The multi-level feedback queue, calculated by hand: CS is 6 us, with three levels of 100 us and
//! no boost unless one is given.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use scenario::{Attributes, Job, Machine, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(cpus: u32, boost: Boost) -> Machine {
    let feedback = FeedbackRules { levels: 3, running_time: us(100), boost };
    Machine { scheduler: Scheduler::Feedback, feedback, ..Machine::with_cpus(cpus) }
}

#[test]
fn threads_fall_together_and_take_turns_at_the_lowest_level() {
    let setting = setting(vec![cpu("a", Some(us(320))), cpu("b", Some(us(150)))]);
    let (text, _) = timeline(&machine(1, Boost::Never), &setting, "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         106 us cpu0: a preempted, then b
         112 us cpu0: b
         212 us cpu0: b preempted, then a
         218 us cpu0: a
         318 us cpu0: a preempted, then b
         324 us cpu0: b
         374 us cpu0: b ends, then a
         380 us cpu0: a
         500 us cpu0: a ends, then idle",
    );
}

#[test]
fn a_woken_thread_of_a_higher_level_preempts_and_the_preempted_one_keeps_the_rest_of_its_turn() {
    // At 106 us x falls a level and continues, since no thread waits. At 132 us c, the last of the
    // crew, wakes b, which has 40 us left at the top level. x is preempted with 26 us used. At 172
    // us c falls and x has its CPU for 74 us. At 178 us b falls, and c has its CPU.
    let jobs = vec![barrier("crew", 2, us(60), 2, "always-block"), cpu("x", Some(us(200)))];
    let (text, _) = timeline(&machine(2, Boost::Never), &setting(jobs), "bcx", "xbc");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then x
         0 ns cpu1: idle, then b
         6 us cpu0: x
         6 us cpu1: b
         66 us cpu1: b blocks, then c
         72 us cpu1: c
         132 us cpu0: x preempted, then b
         138 us cpu0: b
         172 us cpu1: c preempted, then x
         178 us cpu1: x
         178 us cpu0: b preempted, then c
         184 us cpu0: c
         204 us cpu0: c blocks, then b
         210 us cpu0: b
         230 us cpu0: b ends, then c
         236 us cpu0: c
         236 us cpu0: c ends, then idle
         242 us cpu0: idle
         252 us cpu1: x ends, then idle",
    );
}

#[test]
fn a_boost_raises_threads_of_lower_levels() {
    // At 150 us the waiting a rises to the top level. So it has its turn at 212 us, like a thread
    // that has not run yet. At 300 us the same happens to b.
    let boost = Boost::Every(us(150));
    let jobs = vec![cpu("a", Some(us(300))), cpu("b", Some(us(120)))];
    let (text, _) = timeline(&machine(1, boost), &setting(jobs), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         106 us cpu0: a preempted, then b
         112 us cpu0: b
         212 us cpu0: b preempted, then a
         218 us cpu0: a
         318 us cpu0: a preempted, then b
         324 us cpu0: b
         344 us cpu0: b ends, then a
         350 us cpu0: a
         450 us cpu0: a ends, then idle",
    );
}

#[test]
fn other_cpus_skip_a_bound_thread() {
    // At 106 us the turns of both x and y are over. s waits at a higher level, and may only run on
    // CPU 1.
    let bound = Attributes { cpus: "1".parse().ok(), ..Attributes::default() };
    let jobs = vec![
        Job { attributes: bound, ..barrier("solo", 1, us(30), 1, "always-block") },
        cpu("x", Some(us(150))),
        cpu("y", Some(us(150))),
    ];
    let (text, _) = timeline(&machine(2, Boost::Never), &setting(jobs), "sxy", "xys");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then x
         0 ns cpu1: idle, then y
         6 us cpu0: x
         6 us cpu1: y
         106 us cpu1: y preempted, then s
         112 us cpu1: s
         142 us cpu1: s ends, then y
         148 us cpu1: y
         156 us cpu0: x ends, then idle
         162 us cpu0: idle
         198 us cpu1: y ends, then idle",
    );
}
