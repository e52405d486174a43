//! Arrivals at a barrier that wait for cache lines, calculated by hand: CS is 6 us.

use policy::Span;
use rowlock_sim::run;
use scenario::{Arrivals, Machine, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(cpus: u32, arrivals: Arrivals, line_transfer: u64) -> Machine {
    Machine { scheduler: Scheduler::Rr, arrivals, line_transfer: us(line_transfer), ..Machine::with_cpus(cpus) }
}

/// When a team with a CPU for each thread has computed for 10 us and met, and has done so again.
fn meetings(threads: u32, arrivals: Arrivals, line_transfer: u64) -> [Option<Span>; 2] {
    let machine = machine(threads, arrivals, line_transfer);
    [1, 2].map(|rounds| {
        let team = setting(vec![barrier("a", threads, us(10), rounds, "always-spin")]);
        run(&machine, &team, 1).unwrap().jobs[0].completion_ns
    })
}

#[test]
fn arrivals_at_one_counter_wait_for_its_line_in_turn() {
    // The first to arrive finds the line in no other cache. In the second round all must fetch it,
    // except for the thread that had it last, and that is behind the others in the order of CPUs.
    assert_eq!(meetings(4, Arrivals::Counter, 1), [Some(us(6 + 10 + 3)), Some(us(19 + 10 + 4))]);
    assert_eq!(meetings(16, Arrivals::Counter, 1)[0], Some(us(16 + 15)));
    assert_eq!(meetings(16, Arrivals::BySize, 1)[0], Some(us(16 + 15)));
}

#[test]
fn arrivals_at_a_tree_wait_for_the_lines_of_its_levels() {
    // Two leaves of 8, and a root that the second of their last arrivals fetches.
    assert_eq!(meetings(16, Arrivals::Tree, 1)[0], Some(us(16 + 7 + 1)));
    // 8 leaves of 8, and a root of 8.
    assert_eq!(meetings(64, Arrivals::BySize, 1)[0], Some(us(16 + 7 + 7)));
    assert_eq!(meetings(64, Arrivals::Counter, 1)[0], Some(us(16 + 63)));
}

#[test]
fn lines_that_take_no_time_make_the_shape_irrelevant() {
    for arrivals in Arrivals::ALL {
        assert_eq!(meetings(40, arrivals, 0), [Some(us(16)), Some(us(26))]);
    }
}

#[test]
fn a_thread_that_arrives_alone_pays_for_each_level() {
    // Of 9 threads the one with CPU 8 to itself in a leaf goes on to the root at once. The last of
    // the other leaf fetches the root from it.
    assert_eq!(meetings(9, Arrivals::Tree, 1)[0], Some(us(16 + 7 + 1)));
    assert_eq!(meetings(9, Arrivals::Counter, 1)[0], Some(us(16 + 8)));
}

#[test]
fn a_thread_occupies_its_cpu_while_it_waits_for_a_line_and_may_lose_it() {
    let jobs = vec![barrier("a", 2, us(8), 1, "always-block"), cpu("c", Some(us(100))), cpu("d", Some(us(14)))];
    let machine = Machine { quantum: us(10), ..machine(2, Arrivals::Counter, 4) };
    let (text, outcome) = timeline(&machine, &setting(jobs), "abcd", "abcd");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         14 us cpu0: a blocks, then c
         16 us cpu1: b preempted, then d
         20 us cpu0: c
         22 us cpu1: d
         30 us cpu0: c preempted, then b
         36 us cpu0: b
         36 us cpu1: d ends, then c
         38 us cpu0: b ends, then a
         42 us cpu1: c
         44 us cpu0: a
         44 us cpu0: a ends, then idle
         50 us cpu0: idle
         132 us cpu1: c ends, then idle",
    );
    // The computation of both, and a transfer of 4 us, of which no part is work.
    assert_eq!(outcome.jobs[0].delivered_work_ns, Some(us(16)));
}
