//! Linux 2.4, calculated by hand: CS is 6 us, a tick 10 us, an allocation 200 us, the penalty 150,
//! bonus and threshold 10.

use policy::wakeup::Scheme;
use policy::{Instant, Span};
use rowlock_sim::{Error, Limit, run, run_until};
use scenario::{Accounting, Attributes, Job, Linux24, Machine, MachineKeys, Scheduler};

use crate::timeline::{assert_timeline, barrier, cpu, setting, timeline};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn machine(cpus: u32) -> Machine {
    let keys = MachineKeys { scheduler: Some(Scheduler::Linux24), step: Some(us(1)), ..MachineKeys::default() };
    keys.complete(&Machine::with_cpus(cpus))
}

fn with(machine: Machine, change: impl FnOnce(&mut Linux24)) -> Machine {
    let mut linux_2_4 = machine.linux_2_4;
    change(&mut linux_2_4);
    Machine { linux_2_4, ..machine }
}

#[test]
fn a_thread_is_charged_for_the_switch_to_it_and_stays_when_a_new_epoch_finds_it_level() {
    let setting = setting(vec![cpu("a", Some(us(450))), cpu("b", Some(us(500)))]);
    let (text, _) = timeline(&machine(1), &setting, "ab", "ab");
    assert_timeline(
        &text,
        // At 400 us both are spent: a new epoch begins, and b, which runs, also has the bonus of
        // its own memory.
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         200 us cpu0: a preempted, then b
         206 us cpu0: b
         600 us cpu0: b preempted, then a
         606 us cpu0: a
         862 us cpu0: a ends, then b
         868 us cpu0: b
         974 us cpu0: b ends, then idle",
    );
    let free = with(machine(1), |linux| linux.charge_switch = false);
    let (text, _) = timeline(&free, &setting, "ab", "ab");
    assert!(text.contains("206 us cpu0: a preempted, then b"), "the switch is free:\n{text}");
}

#[test]
fn with_the_allocation_of_2_4_a_thread_is_preempted_after_five_ticks() {
    let short = with(machine(1), |linux| linux.allocation = 5);
    let setting = setting(vec![cpu("a", Some(us(100))), cpu("b", Some(us(100)))]);
    let (text, _) = timeline(&short, &setting, "ab", "ab");
    assert_timeline(
        &text,
        // At 100 us and at 200 us both are spent, and the running thread continues.
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         50 us cpu0: a preempted, then b
         56 us cpu0: b
         150 us cpu0: b preempted, then a
         156 us cpu0: a
         212 us cpu0: a ends, then b
         218 us cpu0: b
         224 us cpu0: b ends, then idle",
    );
}

#[test]
fn threads_of_a_job_follow_each_other_on_a_cpu_and_enter_the_queue_at_its_head() {
    let linux = with(machine(1), |linux| linux.charge_switch = false);
    let setting = setting(vec![barrier("pair", 2, us(10), 3, "always-block"), cpu("hog", Some(us(2_000)))]);
    let (text, outcome) = timeline(&linux, &setting, "abh", "ahb");
    assert_timeline(
        &text,
        // a blocks. The hog is nearer to the head than b, has the same counter, and does not share
        // a's memory. When b meets a, both have smaller counters than the hog but a larger
        // goodness, because they last ran here.
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         16 us cpu0: a blocks, then b
         22 us cpu0: b
         42 us cpu0: b blocks, then a
         48 us cpu0: a
         68 us cpu0: a blocks, then b
         74 us cpu0: b
         84 us cpu0: b ends, then a
         90 us cpu0: a
         90 us cpu0: a ends, then h
         96 us cpu0: h
         2.096 ms cpu0: h ends, then idle",
    );
    assert_eq!(outcome.jobs[0].rounds, Some(3));
}

#[test]
fn a_woken_thread_preempts_if_it_beats_the_running_one_by_more_than_the_threshold() {
    // a waits for b, which has all of CPU 1, while the hog uses up its counter on CPU 0.
    let crew = |compute: u64| barrier("crew", 2, us(compute), 2, "always-block");
    let (text, _) = timeline(&machine(2), &setting(vec![crew(150), cpu("hog", Some(us(1_000)))]), "abh", "hab");
    let preempted =
        text.lines().any(|line| line.ends_with("h preempted, then a") || line.ends_with("h preempted, then b"));
    assert!(preempted, "{text}");
}

#[test]
fn a_tick_is_charged_to_the_thread_that_runs_when_the_timer_interrupts() {
    let by_tick = with(machine(1), |linux| linux.accounting = Accounting::Tick);
    // Each computation is over before the tick, so the pair is only charged for the ticks that fall
    // into it.
    let setting = setting(vec![cpu("a", Some(us(1_000))), cpu("b", Some(us(1_000)))]);
    let (text, _) = timeline(&by_tick, &setting, "ab", "ab");
    // From 0 to 200 us there are 20 ticks, the last of them at 200 us.
    assert!(text.contains("200 us cpu0: a preempted, then b"), "{text}");
    // The tick at 200 us was charged to a. b has all of its 20 ticks from 210 to 400 us, and
    // continues in the next epoch.
    assert!(text.contains("600 us cpu0: b preempted, then a"), "{text}");
}

#[test]
fn the_original_scheme_leaves_cpus_idle_that_the_others_use() {
    let crew = barrier("crew", 8, us(20), 200, "always-block");
    let jobs = setting(vec![crew, cpu("hog", None), cpu("other", None)]);
    let completion = |scheme: Scheme| {
        let machine = with(machine(8), |linux| linux.wakeup = scheme);
        run(&machine, &jobs, 1).unwrap().jobs[0].completion_ns.unwrap()
    };
    let [original, ap, gv] = Scheme::ALL.map(completion);
    assert!(ap < original, "ap {ap}, original {original}");
    assert!(gv < original, "gv {gv}, original {original}");
}

#[test]
fn options_about_other_threads_do_not_change_a_thread_that_is_alone() {
    let alone = setting(vec![cpu("a", Some(us(5_000)))]);
    let expected = run(&machine(2), &alone, 1).unwrap();
    for changed in [
        with(machine(2), |linux| linux.accounting = Accounting::Tick),
        with(machine(2), |linux| linux.charge_switch = false),
        with(machine(2), |linux| linux.tail = false),
        with(machine(2), |linux| linux.penalty = 0),
        with(machine(2), |linux| linux.wakeup = Scheme::Gv),
    ] {
        assert_eq!(run(&changed, &alone, 1).unwrap().jobs, expected.jobs);
    }
}

#[test]
fn a_bound_thread_that_is_starved_by_the_epochs_of_another_cpu_is_an_error() {
    // One hog is alone on CPU 0 and begins an epoch whenever it is spent, which refills the other
    // hog before or as that is spent. So whenever that is weighed, it has 200, and 150 because it
    // last ran there. A thread of nice 10 has at most 200.
    let attributes = Attributes { nice: 10, cpus: "1".parse().ok(), ..Attributes::default() };
    let bound = Job { attributes, ..cpu("bound", Some(us(1_000))) };
    let setting = setting(vec![cpu("a", None), cpu("b", None), bound]);
    let error = run(&machine(2), &setting, 1).unwrap_err();
    assert!(matches!(&error, Error::NoHeadway { job, .. } if job == "bound"), "{error}");
    assert!(error.to_string().contains("an epoch begins for all"), "{error}");
    // A run with a limit reaches it: the thread is starved for so long.
    let limit = Limit { at: Instant::MAX, events: 3_000_000 };
    let (outcome, _) = run_until(&machine(2), &setting, 1, limit).unwrap();
    assert_eq!((outcome.machine.events, outcome.jobs[2].completion_ns), (Some(limit.events), None));
}

#[test]
fn a_nice_thread_starved_by_others_that_are_spent_at_the_same_tick_is_an_error() {
    // At each third tick both hogs are spent. CPU 0 switches to the nice thread, which has one
    // tick. CPU 1 finds no other thread and begins an epoch. So the hog of CPU 0 has three ticks
    // again when the switch is over, and preempts the nice thread before it has run.
    let machine = with(machine(2), |linux| {
        (linux.allocation, linux.penalty, linux.bonus, linux.threshold) = (3, 0, 0, 1);
        linux.accounting = Accounting::Tick;
    });
    let beside_hogs = |nice| {
        let attributes = Attributes { nice, ..Attributes::default() };
        vec![cpu("a", None), cpu("b", None), Job { attributes, ..cpu("nice", Some(us(50))) }]
    };
    let error = run(&machine, &setting(beside_hogs(7)), 1).unwrap_err();
    assert!(matches!(&error, Error::NoHeadway { job, .. } if job == "nice"), "{error}");
    assert!(error.to_string().contains("nice thread"), "{error}");
    assert!(run(&machine, &setting(beside_hogs(0)), 1).is_ok(), "it has three ticks, too");
}
