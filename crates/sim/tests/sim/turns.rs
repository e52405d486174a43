//! Turns on cells: when cells act, what that costs, and settings in which jobs never get a turn.

use policy::gang::{Gang, Lowering};
use policy::layout::Request;
use policy::slices::Movement;
use policy::{CpuId, Instant, Span, ThreadId};
use rowlock_sim::observer::{CpuState, Observer};
use rowlock_sim::{Error, run, run_observed};
use scenario::coscheduling::Reschedule;
use scenario::message::Pattern;
use scenario::result::{CoschedulingOutcome, Outcome};
use scenario::{Arrival, Coscheduling, Job, JobKind, Machine, Message, Scheduler, Setting};

use crate::coscheduling::{cells, copies, elapsed, ms, ranks, shape, shared, us};
use crate::timeline::cpu;

/// Changes the rules of a setting.
fn with(mut setting: Setting, change: impl FnOnce(&mut Coscheduling)) -> Setting {
    change(setting.coscheduling.as_mut().unwrap());
    setting
}

fn kernel(machine: Machine, scheduler: Scheduler) -> Machine {
    Machine { scheduler, ..machine }
}

/// So many jobs on all of 2 x 1 cells that spin, for so many rounds of 100 us.
fn spinning(how: Gang, jobs: u32, rounds: u64) -> Setting {
    shared(how, copies(jobs, ranks(shape(2, 1), us(100), rounds, "always-spin")))
}

fn turns(machine: &Machine, setting: &Setting) -> (CoschedulingOutcome, Outcome) {
    let outcome = run(machine, setting, 1).unwrap();
    (outcome.machine.coscheduling.unwrap(), outcome)
}

#[test]
fn jobs_side_by_side_run_in_the_same_way_whatever_happens_to_others() {
    let outcome = |how| {
        let jobs = copies(4, ranks(shape(2, 2), us(300), 200, "always-spin"));
        run(&cells(8, 2), &shared(how, jobs), 1).unwrap().jobs
    };
    for how in Gang::ALL.into_iter().filter(|how| !matches!(how, Gang::CellOs | Gang::Original | Gang::Implicit)) {
        assert_eq!(outcome(how), outcome(Gang::None), "{how}");
    }
}

#[test]
fn a_job_that_waits_for_cells_which_are_never_released_is_an_error() {
    let endless = |how| {
        let mut jobs = vec![cpu("endless", None)];
        jobs.extend(copies(2, ranks(shape(2, 1), us(100), 10, "always-spin")));
        shared(how, jobs)
    };
    let Err(Error::NeverPlaced { at, job }) = run(&cells(2, 1), &endless(Gang::CellOs), 1) else { panic!() };
    assert_eq!((at, job.as_str()), (Instant::ZERO, "job.0"));
    assert!(run(&cells(2, 1), &endless(Gang::Strict), 1).is_ok());
    // A job that computes leaves the slices, so that another one is placed.
    let limited = |how, jobs| with(shared(how, jobs), |rules| rules.most_slices = Some(1));
    let two = || vec![cpu("endless", None), cpu("short", Some(ms(10)))];
    let machine = Machine { tick: ms(50), ..cells(1, 1) };
    assert!(matches!(run(&cells(1, 1), &limited(Gang::Strict, two()), 1), Err(Error::NeverPlaced { .. })));
    assert!(run(&cells(1, 1), &limited(Gang::Adaptive, two()), 1).is_ok());
    let late = |name, work| Job { arrival: Arrival { at: ms(1_100_000), every: None }, ..cpu(name, work) };
    let three = vec![cpu("endless", None), late("second", None), late("short", Some(ms(10)))];
    let outcome = run(&machine, &limited(Gang::Adaptive, three), 1);
    assert!(outcome.is_ok(), "also after a long time without changes: {:?}", outcome.err());
    let token = Message { pattern: Pattern::Ring, ..ranks(shape(2, 1), ms(50), 10, "always-spin") };
    let runs_on = Setting { keep_running: true, ..limited(Gang::Adaptive, copies(2, token)) };
    assert!(matches!(run(&cells(2, 1), &runs_on, 1), Err(Error::NeverPlaced { .. })));
    let runs_on = |how| Setting { keep_running: true, ..spinning(how, 2, 100) };
    assert!(matches!(run(&cells(2, 1), &runs_on(Gang::CellOs), 1), Err(Error::Conflict(_))));
    let outcome = run(&cells(2, 1), &runs_on(Gang::Strict), 1).unwrap();
    assert!(outcome.jobs.iter().all(|job| job.completion_ns.is_some()));
}

#[test]
fn a_cell_whose_scheduler_never_chooses_again_is_an_error() {
    let of = |how, scheduler| {
        let setting = with(spinning(how, 2, 3_000), |rules| rules.reschedule = Reschedule::Choice);
        run(&kernel(cells(2, 1), scheduler), &setting, 1)
    };
    for how in [Gang::Strict, Gang::Adaptive] {
        for scheduler in [Scheduler::Fifo, Scheduler::LinuxO1, Scheduler::Cfs, Scheduler::Eevdf] {
            assert!(matches!(of(how, scheduler), Err(Error::Conflict(_))), "{how} {scheduler}");
        }
        for scheduler in [Scheduler::Rr, Scheduler::Linux24, Scheduler::Feedback] {
            let turns = of(how, scheduler).unwrap().machine.coscheduling.unwrap();
            // The turns of `rr` and `feedback` end at each boundary.
            let is_late = turns.delay_mean_ns.unwrap() > ms(1);
            assert!(turns.turns > 4 && is_late == (scheduler == Scheduler::Linux24), "{how} {scheduler}: {turns:?}");
        }
    }
}

#[test]
fn classification_keeps_no_run_alive_that_a_thread_without_end_hogs() {
    let mut jobs = vec![cpu("endless", None)];
    jobs.push(cpu("short", Some(us(100))));
    // It is found to compute, and leaves the slices, before the first turn is over.
    let setting = with(shared(Gang::Adaptive, jobs), |rules| rules.slice = ms(1_000));
    let outcomes = (0..4).map(|seed| run(&kernel(cells(1, 1), Scheduler::Fifo), &setting, seed));
    let hogged = outcomes.filter(|outcome| matches!(outcome, Err(Error::Hogged { .. }))).count();
    assert!(hogged > 0, "in some of four orders the endless one comes first");
    // It has left the slices when two jobs arrive that take turns on its cell.
    let arrives = |mut job: Job| {
        job.arrival.at = ms(300);
        job
    };
    let mut jobs = vec![cpu("endless", None)];
    jobs.extend(copies(2, ranks(shape(2, 1), us(20), 300, "always-block")).into_iter().map(arrives));
    let outcome = run(&kernel(cells(2, 1), Scheduler::Fifo), &shared(Gang::Adaptive, jobs), 1);
    assert!(matches!(outcome, Err(Error::Hogged { .. })), "{outcome:?}");
}

#[test]
fn a_job_larger_than_the_machine_is_an_error() {
    let jobs = copies(1, ranks(shape(3, 1), us(100), 10, "always-spin"));
    let error = run(&cells(2, 2), &shared(Gang::Strict, jobs), 1).unwrap_err().to_string();
    assert!(error.contains("`job`: 3x1 cells fit into a mesh of 2x2 in neither orientation"), "{error}");
}

#[test]
fn a_cell_waits_for_its_tick_also_if_jobs_are_classified() {
    let delay = |how| {
        let jobs = copies(2, ranks(shape(2, 1), ms(1), 1_500, "always-spin"));
        let setting = with(shared(how, jobs), |rules| rules.reschedule = Reschedule::Tick);
        let delay = |seed| run(&cells(2, 1), &setting, seed).unwrap().machine.coscheduling.unwrap().delay_mean_ns;
        (0..8).map(|seed| delay(seed).unwrap().as_secs_f64()).sum::<f64>() / 8.0
    };
    let (strict, adaptive) = (delay(Gang::Strict), delay(Gang::Adaptive));
    assert!((strict / adaptive - 1.0).abs() < 0.05 && strict > 1e-3, "{strict} {adaptive}");
}

#[test]
fn delays_count_clocks_that_are_ahead_and_clocks_that_lag() {
    let jobs = copies(2, ranks(shape(16, 2), us(500), 200, "always-spin"));
    let setting = with(shared(Gang::Strict, jobs), |rules| rules.clock_skew = us(400));
    let (of, _) = turns(&cells(16, 2), &setting);
    // The mean distance of a normal distribution is 0.8 of its deviation.
    let mean = of.delay_mean_ns.unwrap();
    assert!((us(270)..us(370)).contains(&mean), "{mean}");
}

#[test]
fn cells_pay_for_each_turn_and_so_do_all_cells_if_jobs_move() {
    let of = |movement, cost| {
        let jobs = copies(5, ranks(shape(2, 2), ms(2), 250, "always-spin"));
        let rules = |rules: &mut Coscheduling| (rules.movement, rules.switch_cost) = (movement, cost);
        turns(&cells(8, 2), &with(shared(Gang::Strict, jobs), rules))
    };
    for movement in [Movement::Never, Movement::WithinNode] {
        let ((free, free_run), (paid, paid_run)) = (of(movement, Span::ZERO), of(movement, ms(10)));
        assert_eq!(free.delay_mean_ns, Some(Span::ZERO), "{movement}");
        // A cell may be idle: its job has just ended, or has moved away.
        assert!((ms(8)..=ms(10)).contains(&paid.delay_mean_ns.unwrap()), "{movement}: {paid:?}");
        // If jobs stay, two of them share four cells. If they move, at a boundary one job leaves
        // its cells to the one that has missed a slice.
        let (boundaries, cost) = (elapsed(&free_run) / 50.0, elapsed(&paid_run) - elapsed(&free_run));
        let (of_cells, expected) =
            (free.turns as f64 / boundaries, if movement == Movement::Never { 4.0 } else { 7.0 });
        assert!((of_cells - expected).abs() < 0.5, "{movement}: {of_cells} turns at a boundary");
        let per_turn = cost / paid.turns as f64 * if movement == Movement::Never { 4.0 } else { 16.0 };
        assert!((9.0..11.0).contains(&per_turn), "{movement}: {cost} ms for {paid:?}");
    }
}

#[test]
fn a_job_that_moves_leaves_its_low_weight_behind() {
    let time = |jobs, lower| {
        let machine = Machine { groups: matches!(lower, Lowering::Weight(_)), ..cells(8, 2) };
        let jobs = copies(jobs, ranks(shape(2, 2), ms(2), 750, "always-spin"));
        let rules = |rules: &mut Coscheduling| (rules.movement, rules.lower) = (Movement::WithinNode, lower);
        elapsed(&run(&machine, &with(shared(Gang::Moderate, jobs), rules), 1).unwrap())
    };
    let [by_weight, by_nice] = [Lowering::Weight(2), Lowering::Nice(39)].map(|lower| time(5, lower) / time(1, lower));
    assert!((by_weight - by_nice).abs() < 0.01 && by_nice < 1.35, "{by_weight} {by_nice}");
}

/// The threads that the first CPU runs, and when they begin.
#[derive(Debug, Default, PartialEq)]
struct FirstCpu(Vec<(Instant, ThreadId)>);

impl Observer for FirstCpu {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        if let (CpuId(0), CpuState::Running(thread)) = (cpu, state) {
            self.0.push((at, thread));
        }
    }
}

#[test]
fn under_the_original_scheduler_the_other_cells_follow_the_first_one_when_they_are_told() {
    let network = scenario::Network { latency: ms(3), ..cells(2, 1).network };
    let machine = Machine { network, ..kernel(cells(2, 1), Scheduler::Linux24) };
    let rules = |rules: &mut Coscheduling| rules.switch_cost = us(50);
    // One thread each that computes: they are not slowed down by their messages.
    let job = |name: &str| Job::new(name, 1, JobKind::Cpu { threads: 2, work: Some(ms(2_000).into()) });
    let mut jobs = vec![job("a"), job("b"), job("c")];
    jobs[2].arrival.at = ms(701);
    let setting = with(shared(Gang::Original, jobs), rules);
    let run_on_first = |setting: &Setting| {
        let mut first = FirstCpu::default();
        (run_observed(&machine, setting, 1, &mut first).unwrap(), first)
    };
    let (outcome, first) = run_on_first(&setting);
    assert_eq!(first, run_on_first(&with(setting, |rules| rules.how = Gang::None)).1, "it decides alone");
    let of = outcome.machine.coscheduling.unwrap();
    let (mean, deviation) = (of.delay_mean_ns.unwrap(), of.delay_sd_ns.unwrap());
    assert!(mean >= ms(3) && mean <= ms(3) + us(50) && deviation <= us(50), "{mean} {deviation}");
    assert!(of.turns > 3, "{of:?}");
}

#[test]
fn a_message_prefers_its_receiver_only_under_dynamic_coscheduling() {
    let of = |how| {
        let token = Message { pattern: Pattern::Ring, ..ranks(shape(2, 1), us(1_500), 100, "always-block") };
        let mut jobs = copies(1, token);
        jobs.push(Job::new("beside", 1, JobKind::Cpu { threads: 2, work: None }));
        elapsed(&run(&cells(2, 1), &shared(how, jobs), 1).unwrap())
    };
    let (none, dynamic) = (of(Gang::None), of(Gang::Dynamic));
    // Alone, 100 rounds of two ranks take 300 ms.
    assert!(dynamic < 330.0 && none > 1.15 * dynamic, "{none} {dynamic}");
}

/// The CPUs on which each thread ran.
struct Places(Vec<Option<CpuId>>);

impl Observer for Places {
    fn cpu_changed(&mut self, _: Instant, cpu: CpuId, state: CpuState) {
        if let CpuState::Running(ThreadId(thread)) = state {
            let before = self.0[thread as usize].replace(cpu);
            assert!(before.is_none_or(|before| before == cpu), "thread {thread} on {before:?} and {cpu}");
        }
    }
}

#[test]
fn ranks_beyond_the_cells_begin_with_the_first_cell_again() {
    for how in [Gang::None, Gang::Strict, Gang::Adaptive, Gang::CellOs, Gang::Original] {
        let of = Message { request: Request::Ranks(11), ..ranks(shape(2, 2), us(50), 20, "50 us") };
        let mut places = Places(vec![None; 11]);
        run_observed(&cells(2, 2), &shared(how, copies(1, of)), 1, &mut places).unwrap();
        let expected: Vec<_> = (0..11).map(|rank| Some(CpuId(rank % 4))).collect();
        assert_eq!(places.0, expected, "{how}");
    }
}
