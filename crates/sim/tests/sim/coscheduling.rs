//! Jobs that share cells: small cases, and the fluid model as an oracle.

use policy::gang::Gang;
use policy::layout::{Mesh, Request, Shape};
use policy::slices::Movement;
use policy::{CpuId, Instant, Span, ThreadId};
use rowlock_sim::observer::{CpuState, Observer};
use rowlock_sim::{run, run_observed};
use scenario::coscheduling::Reschedule;
use scenario::message::Pattern;
use scenario::result::Outcome;
use scenario::{Arrival, Coscheduling, Distribution, Empirical, Job, JobKind, Machine, Message, Scheduler, Setting};

use crate::timeline::{cpu, setting};

pub(crate) const fn us(n: u64) -> Span {
    Span::from_micros(n)
}

pub(crate) const fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

pub(crate) const fn shape(columns: u32, rows: u32) -> Shape {
    Shape { columns, rows }
}

/// Cells of one CPU each under EEVDF, with free switches and messages that arrive at once.
pub(crate) fn cells(columns: u32, rows: u32) -> Machine {
    let machine =
        Machine { cells: Mesh::new(shape(columns, rows)), context_switch: Span::ZERO, ..Machine::with_cpus(1) };
    let network = scenario::Network { latency: us(1), ..machine.network };
    Machine { network, scheduler: Scheduler::Eevdf, ..machine }
}

/// Ranks that compute for `compute` between messages to their neighbours.
pub(crate) fn ranks(cells: Shape, compute: Span, rounds: u64, waiting: &str) -> Message {
    Message {
        request: Request::Rectangle(cells),
        pattern: Pattern::Exchange,
        bytes: 10,
        rounds,
        compute: Some(compute.into()),
        sleep: None,
        waiting: waiting.parse().unwrap(),
        weight: 1,
    }
}

pub(crate) fn copies(count: u32, of: Message) -> Vec<Job> {
    vec![Job::new("job", count, JobKind::Message(of))]
}

pub(crate) fn shared(how: Gang, jobs: Vec<Job>) -> Setting {
    Setting { coscheduling: Some(Coscheduling { how, slice: ms(50), ..Coscheduling::default() }), ..setting(jobs) }
}

/// The longest completion time in milliseconds.
pub(crate) fn elapsed(outcome: &Outcome) -> f64 {
    outcome.jobs.iter().filter_map(|job| job.completion_ns).max().unwrap().as_secs_f64() * 1e3
}

/// The fluid model: all jobs together need the number of slices times the time of one. If they may
/// move, they need no more cells than they have. Jobs end up to a round of slices apart.
#[test]
fn strict_turns_take_as_long_as_in_the_fluid_model() {
    let machine = cells(8, 2);
    for cells in [shape(1, 1), shape(2, 2), shape(4, 2), shape(8, 2)] {
        let job = |jobs| match cells.cells() {
            1 => vec![Job { copies: jobs, ..cpu("job", Some(ms(400))) }],
            _ => copies(jobs, ranks(cells, ms(40), 10, "always-spin")),
        };
        let of = |jobs, movement| {
            let mut setting = shared(Gang::Strict, job(jobs));
            setting.coscheduling.as_mut().unwrap().movement = movement;
            run(&machine, &setting, 1).unwrap()
        };
        let alone = elapsed(&of(1, Movement::Never));
        for jobs in 1..=12 {
            for movement in Movement::ALL {
                let outcome = of(jobs, movement);
                let (slices, load) = (jobs.div_ceil(16 / cells.cells()), f64::from(jobs * cells.cells()) / 16.0);
                let most = outcome.machine.coscheduling.as_ref().unwrap().slices_most;
                let times = if movement == Movement::Never { f64::from(slices) } else { load.max(1.0) };
                let (expected, took) = (times * alone, elapsed(&outcome));
                let round = if most == 1 { 0.0 } else { 50.0 * f64::from(most) };
                assert!(
                    (-0.01 * expected..0.01 * expected + round).contains(&(took - expected)),
                    "{jobs} of {cells}, {movement}: {took} instead of {expected}"
                );
                assert!(most == slices || movement == Movement::WithinNode, "{jobs} of {cells}: {most}");
            }
        }
    }
}

#[test]
fn shares_follow_weights() {
    let job = |name, weight| {
        let of = Message { weight, ..ranks(shape(2, 1), us(100), 10_000, "always-spin") };
        Job::new(name, 1, JobKind::Message(of))
    };
    let outcome = run(&cells(2, 1), &shared(Gang::Strict, vec![job("heavy", 3), job("light", 1)]), 1).unwrap();
    let [heavy, light] = [0, 1].map(|job| outcome.jobs[job].completion_ns.unwrap().as_secs_f64());
    // Three quarters of the time until the heavy one has ended, then all of it.
    assert!((heavy / light - 2.0 / 3.0).abs() < 0.06, "{heavy} {light}");
}

/// Which job of two with a rank on each of two cells runs where.
#[derive(Default)]
struct Together {
    jobs: [Option<u32>; 2],
    /// How long the cells ran different jobs, and the same one.
    apart: Span,
    together: Span,
    at: Instant,
}

impl Observer for Together {
    fn cpu_changed(&mut self, at: Instant, cpu: CpuId, state: CpuState) {
        let span = at.since(self.at);
        match self.jobs {
            [Some(one), Some(other)] if one == other => self.together += span,
            [Some(_), Some(_)] => self.apart += span,
            _ => {}
        }
        self.at = at;
        self.jobs[cpu.index()] = match state {
            CpuState::Running(ThreadId(thread)) => Some(thread / 2),
            _ => None,
        };
    }
}

#[test]
fn cells_run_the_same_job_if_jobs_take_turns_and_different_ones_if_they_do_not() {
    let apart = |how, seed| {
        let mut together = Together::default();
        let jobs = copies(2, ranks(shape(2, 1), us(400), 1_250, "always-spin"));
        run_observed(&cells(2, 1), &shared(how, jobs), seed, &mut together).unwrap();
        together.apart.as_secs_f64() / (together.apart + together.together).as_secs_f64()
    };
    let mean = |how| (0..8).map(|seed| apart(how, seed)).sum::<f64>() / 8.0;
    let [none, moderate] = [Gang::None, Gang::Moderate].map(mean);
    assert!(none > 0.25 && moderate < 0.1, "{none} {moderate}");
    assert_eq!([Gang::Strict, Gang::Adaptive].map(mean), [0.0, 0.0]);
}

#[test]
fn a_job_that_blocks_is_left_alone_beside_jobs_that_take_turns() {
    let coarse = Message {
        pattern: Pattern::Ring,
        compute: Some(ms(1).into()),
        sleep: Some(ms(2).into()),
        ..ranks(shape(2, 1), ms(1), 300, "50 us")
    };
    let jobs = || {
        let mut jobs = copies(2, ranks(shape(2, 1), us(100), 8_000, "always-spin"));
        jobs.push(Job::new("coarse", 1, JobKind::Message(coarse.clone())));
        jobs
    };
    let time = |how| run(&cells(2, 1), &shared(how, jobs()), 1).unwrap().jobs[2].completion_ns.unwrap().as_secs_f64();
    let alone = 300.0 * 2.0 * 3e-3;
    let (adaptive, strict) = (time(Gang::Adaptive), time(Gang::Strict));
    assert!(adaptive < 1.45 * alone && strict > 1.8 * alone, "{adaptive} {strict}");
}

#[test]
fn cellos_runs_one_job_at_a_time_in_order_of_arrival() {
    let mut setting = shared(Gang::CellOs, copies(3, ranks(shape(2, 1), us(100), 100, "always-spin")));
    setting.coscheduling.as_mut().unwrap().start = ms(7);
    let outcome = run(&cells(4, 2), &setting, 1).unwrap();
    let ends: Vec<f64> = outcome.jobs.iter().map(|job| job.completion_ns.unwrap().as_secs_f64() * 1e3).collect();
    for (number, (job, end)) in outcome.jobs.iter().zip(&ends).enumerate() {
        let before = if number == 0 { 0.0 } else { ends[number - 1] };
        let start = job.start_ns.unwrap().as_secs_f64() * 1e3;
        assert!((start - before - 7.0).abs() < 0.1 && *end > start + 10.0, "{number}: {ends:?}");
    }
}

#[test]
fn jobs_are_created_one_after_another_and_an_implicit_wait_is_bounded() {
    let mut setting = shared(Gang::Implicit, copies(3, ranks(shape(2, 1), us(100), 200, "always-spin")));
    setting.coscheduling.as_mut().unwrap().create = ms(20);
    let outcome = run(&cells(2, 1), &setting, 1).unwrap();
    let starts: Vec<u64> = outcome.jobs.iter().map(|job| job.start_ns.unwrap().as_nanos() / 20_000_000).collect();
    assert_eq!(starts, [1, 2, 3]);
    setting.jobs[0].arrival = Arrival { at: ms(5), every: None };
    let later = run(&cells(2, 1), &setting, 1).unwrap();
    assert_eq!(later.jobs.iter().map(|job| job.start_ns.unwrap().as_nanos() / 20_000_000).collect::<Vec<_>>(), starts);
    // Beside a job that computes on one of the cells, a wait is too long to spin.
    let beside = |how| {
        let mut jobs = copies(1, ranks(shape(2, 1), us(100), 500, "always-spin"));
        jobs.push(cpu("x", None));
        run(&cells(2, 1), &shared(how, jobs), 1).unwrap().jobs[0].voluntary_switches.unwrap()
    };
    assert!(beside(Gang::Implicit) > 5 && beside(Gang::None) == 0);
}

#[test]
fn a_cell_acts_on_a_boundary_when_its_clock_its_tick_or_its_scheduler_says_so() {
    let delays = |reschedule, clock_skew| {
        let mut setting = shared(Gang::Strict, copies(2, ranks(shape(4, 2), ms(1), 500, "always-spin")));
        let rules = setting.coscheduling.as_mut().unwrap();
        (rules.reschedule, rules.clock_skew) = (reschedule, clock_skew);
        let of = run(&cells(4, 2), &setting, 1).unwrap().machine.coscheduling.unwrap();
        assert!(of.turns >= 8 * 15, "{of:?}");
        [of.delay_mean_ns, of.delay_sd_ns].map(|span| span.unwrap().as_nanos() / 1_000)
    };
    assert_eq!(delays(Reschedule::Boundary, Span::ZERO), [0, 0]);
    let [skewed, _] = delays(Reschedule::Boundary, us(500));
    assert!((1..1_000).contains(&skewed), "{skewed}");
    // The tick is 4 ms, and its phases are drawn.
    let [mean, deviation] = delays(Reschedule::Tick, Span::ZERO);
    assert!((1_000..3_000).contains(&mean) && (500..2_000).contains(&deviation), "{mean} {deviation}");
}

/// A job that meets every 500 us for `phase` in the mean, and then waits for as long, for example
/// for input: one of its ranks sleeps, and the others block.
fn alternating(phase: Span, meetings: u64) -> Message {
    let chance = 1.0 / (2.0 * phase.as_secs_f64() / 500e-6);
    let sleeps = Empirical::new(vec![Span::ZERO, phase], Some(vec![1.0 - chance, chance])).unwrap();
    Message { sleep: Some(Distribution::Empirical(sleeps)), ..ranks(shape(2, 1), us(500), meetings, "2 ms") }
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn jobs_that_spin_and_wait_in_phases_do_as_much_as_by_the_better_of_no_turns_and_strict_ones() {
    for (phase, meetings, seeds) in [(ms(100), 4_000, 4), (ms(1_000), 20_000, 4), (ms(10_000), 120_000, 2)] {
        // The phases are drawn, but they are the same by all policies.
        let time = |how| {
            let elapsed = |seed| {
                let mut setting = shared(how, copies(2, alternating(phase, meetings)));
                setting.coscheduling.as_mut().unwrap().slice = ms(20);
                let jobs = run(&cells(2, 1), &setting, seed).unwrap().jobs;
                jobs.iter().map(|job| job.completion_ns.unwrap().as_secs_f64()).sum::<f64>()
            };
            (1..=seeds).map(elapsed).sum::<f64>()
        };
        let [none, strict, adaptive] = [Gang::None, Gang::Strict, Gang::Adaptive].map(time);
        assert!(adaptive <= none.min(strict) / 0.9, "{phase}: {none} {strict} {adaptive}");
    }
}
