//! First in, first out, calculated by hand: CS is 6 us.

use policy::Span;
use rowlock_sim::{Error, run};
use scenario::{Attributes, Job, JobKind, Machine, Scheduler, Setting};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Fifo, ..Machine::with_cpus(cpus) }
}

#[test]
fn a_thread_runs_until_it_ends_however_long_others_wait() {
    let setting = setting(vec![cpu("a", Some(us(5_000))), cpu("b", Some(us(10)))]);
    let (text, outcome) = timeline(&machine(1), &setting, "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         5.006 ms cpu0: a ends, then b
         5.012 ms cpu0: b
         5.022 ms cpu0: b ends, then idle",
    );
    assert_eq!(outcome.jobs[0].involuntary_switches, Some(0));
}

#[test]
fn a_woken_thread_goes_to_the_tail_and_preempts_no_thread() {
    // b is the last to arrive, at 22 us, and continues. a, woken behind x, runs when both have left
    // the CPU.
    let jobs = vec![barrier("crew", 2, us(10), 2, "always-block"), cpu("x", Some(us(50)))];
    let (text, _) = timeline(&machine(1), &setting(jobs), "abx", "abx");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         16 us cpu0: a blocks, then b
         22 us cpu0: b
         42 us cpu0: b blocks, then x
         48 us cpu0: x
         98 us cpu0: x ends, then a
         104 us cpu0: a
         114 us cpu0: a ends, then b
         120 us cpu0: b
         120 us cpu0: b ends, then idle",
    );
}

#[test]
fn a_yield_goes_to_the_tail() {
    let jobs = vec![barrier("crew", 2, us(10), 1, "always-yield"), cpu("x", Some(us(50)))];
    let (text, _) = timeline(&machine(1), &setting(jobs), "abx", "axb");
    // A yield takes 500 ns. At 72.5 us b has its first turn, behind x.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         16.5 us cpu0: a yields, then x
         22.5 us cpu0: x
         72.5 us cpu0: x ends, then b
         78.5 us cpu0: b
         88.5 us cpu0: b ends, then a
         94.5 us cpu0: a
         94.5 us cpu0: a ends, then idle",
    );
}

fn bound(job: Job, cpus: &str) -> Job {
    Job { attributes: Attributes { cpus: cpus.parse().ok(), ..Attributes::default() }, ..job }
}

#[test]
fn other_cpus_skip_a_bound_thread_and_it_starts_on_an_idle_one_of_its_set() {
    for scheduler in [Scheduler::Fifo, Scheduler::Rr] {
        let machine = Machine { scheduler, quantum: us(1_000), ..machine(2) };
        let jobs =
            vec![bound(cpu("a", Some(us(100))), "1"), bound(cpu("b", Some(us(30))), "1"), cpu("c", Some(us(10)))];
        let (text, _) = timeline(&machine, &setting(jobs), "abc", "abc");
        assert_timeline(
            &text,
            "0 ns cpu0: idle, then c
             0 ns cpu1: idle, then a
             6 us cpu0: c
             6 us cpu1: a
             16 us cpu0: c ends, then idle
             22 us cpu0: idle
             106 us cpu1: a ends, then b
             112 us cpu1: b
             142 us cpu1: b ends, then idle",
        );
    }
}

#[test]
fn threads_without_end_that_keep_all_others_from_running_are_an_error() {
    let spinners = barrier("crew", 2, us(10), 1, "always-spin");
    for setting in [setting(vec![cpu("x", None), cpu("a", Some(us(10)))]), setting(vec![spinners])] {
        // Under some of these seeds the first thread is the one that keeps the CPU.
        let errors: Vec<Error> = (1..9).filter_map(|seed| run(&machine(1), &setting, seed).err()).collect();
        assert!(!errors.is_empty() && errors.iter().all(|why| matches!(why, Error::Hogged { .. })), "{errors:?}");
    }
}

#[test]
fn a_job_that_keeps_running_and_keeps_its_cpu_is_an_error() {
    let jobs = vec![cpu("a", Some(us(100_000))), cpu("b", Some(us(100_000)))];
    let machine = Machine { tick: us(1), slice: us(1), quantum: us(1), ..machine(1) };
    let why = run(&machine, &Setting { keep_running: true, ..setting(jobs) }, 1).unwrap_err();
    assert!(matches!(why, Error::NoHeadway { .. }), "{why}");
    assert!(why.to_string().contains("fifo"), "{why}");
}

#[test]
fn a_thread_that_keeps_running_before_another_of_its_job_has_run_is_an_error() {
    let jobs = vec![Job::new("a", 1, JobKind::Cpu { threads: 2, work: Some(us(100).into()) })];
    let why = run(&machine(1), &Setting { keep_running: true, ..setting(jobs) }, 1).unwrap_err();
    assert!(matches!(why, Error::NoHeadway { .. }), "{why}");
}
