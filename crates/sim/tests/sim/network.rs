//! Messages between cells and the hardware barrier, by hand: CS is 6 us, a message of 100 bytes
//! occupies a link for 4 us and arrives 5 us later, and the barrier takes 1 us.

use policy::layout::{Mesh, Shape};
use scenario::message::Pattern;
use scenario::{Job, JobKind, Machine, Message, Scheduler, Span};

use crate::messages::{job, message, us};
use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

/// Cells of one CPU each, under round robin.
fn cells(columns: u32, rows: u32) -> Machine {
    let cells = Mesh::new(Shape { columns, rows });
    Machine { cells, scheduler: Scheduler::Rr, ..Machine::with_cpus(1) }
}

#[test]
fn the_link_of_the_sender_carries_one_message_after_another() {
    let setting = setting(vec![job(message(Pattern::OneToAll, 4, 1, "always-spin"))]);
    let (text, outcome) = timeline(&cells(2, 2), &setting, "abcd", "abcd");
    // The messages of a leave from 16, 20 and 24 on, the answers at once, from links of their own.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         0 ns cpu2: idle, then c
         0 ns cpu3: idle, then d
         6 us cpu0: a
         6 us cpu1: b
         6 us cpu2: c
         6 us cpu3: d
         25 us cpu1: b ends, then idle
         29 us cpu2: c ends, then idle
         31 us cpu1: idle
         33 us cpu3: d ends, then idle
         35 us cpu2: idle
         39 us cpu3: idle
         42 us cpu0: a ends, then idle",
    );
    assert_eq!((outcome.jobs[0].spin_ns, outcome.jobs[0].ssr_percent), (Some(us(26 + 19 + 23 + 27)), Some(100.0)));
}

#[test]
fn a_message_within_a_cell_arrives_at_once() {
    let setting = setting(vec![job(message(Pattern::Ring, 3, 1, "always-block"))]);
    let (text, outcome) = timeline(&cells(2, 1), &setting, "abc", "abc");
    // a and c share a cell. The message of a arrives at 25, that of b at 50, and that of c at 66.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         6 us cpu1: b blocks, then idle
         12 us cpu1: idle
         16 us cpu0: a blocks, then c
         22 us cpu0: c
         22 us cpu0: c blocks, then idle
         25 us cpu1: idle, then b
         28 us cpu0: idle
         31 us cpu1: b
         41 us cpu1: b ends, then idle
         47 us cpu1: idle
         50 us cpu0: idle, then c
         56 us cpu0: c
         66 us cpu0: c ends, then a
         72 us cpu0: a
         72 us cpu0: a ends, then idle",
    );
    assert_eq!(outcome.jobs[0].voluntary_switches, Some(3));
}

#[test]
fn a_message_that_arrives_during_the_switch_away_from_its_receiver_wakes_it() {
    // Both send and begin to wait at 7, and the messages arrive at 10.
    let message =
        Message { bytes: 25, compute: Some(us(1).into()), ..message(Pattern::Exchange, 2, 1, "always-block") };
    let machine = cells(2, 1);
    let machine = Machine { network: scenario::Network { latency: us(2), ..machine.network }, ..machine };
    let (text, _) = timeline(&machine, &setting(vec![job(message)]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         7 us cpu0: a blocks, then idle
         7 us cpu1: b blocks, then idle
         13 us cpu0: idle
         13 us cpu0: idle, then a
         13 us cpu1: idle
         13 us cpu1: idle, then b
         19 us cpu0: a
         19 us cpu0: a ends, then idle
         19 us cpu1: b
         19 us cpu1: b ends, then idle",
    );
}

#[test]
fn all_threads_wait_for_the_hardware_barrier() {
    let setting = setting(vec![barrier("crew", 2, us(10), 2, "always-spin")]);
    let (text, outcome) = timeline(&cells(2, 1), &setting, "ab", "ab");
    // They arrive at 16 and at 27.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         28 us cpu0: a ends, then idle
         28 us cpu1: b ends, then idle",
    );
    let crew = &outcome.jobs[0];
    assert_eq!((crew.rounds, crew.spin_ns, crew.ssr_percent), (Some(2), Some(us(4)), Some(100.0)));
}

#[test]
fn the_last_thread_waits_by_its_rule_and_its_spin_is_not_counted() {
    let compute = scenario::Compute::Drawn(us(10).into());
    let kind = JobKind::Barrier { threads: 2, compute, rounds: 1, waiting: "1500 ns".parse().unwrap() };
    let jobs = vec![cpu("x", Some(us(90))), Job::new("crew", 1, kind)];
    let (text, outcome) = timeline(&cells(2, 1), &setting(jobs), "xab", "xab");
    // The spin of b fails. a arrives at 112.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then x
         0 ns cpu1: idle, then b
         6 us cpu0: x
         6 us cpu1: b
         17.5 us cpu1: b blocks, then idle
         23.5 us cpu1: idle
         96 us cpu0: x ends, then a
         102 us cpu0: a
         113 us cpu0: a ends, then idle
         113 us cpu1: idle, then b
         119 us cpu0: idle
         119 us cpu1: b
         119 us cpu1: b ends, then idle",
    );
    assert_eq!((outcome.jobs[1].ssr_percent, outcome.jobs[1].spin_ns), (Some(0.0), Some(Span::from_nanos(2_500))));
}
