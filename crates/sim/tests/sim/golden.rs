//! Outcomes of whole runs, to the nanosecond. A change here changes predictions, and needs a line
//! in the CHANGELOG.

use std::fmt::Write;

use policy::Span;
use policy::gang::{Gang, Lowering};
use policy::layout::{Mesh, Request, Shape};
use policy::slices::Movement;
use rowlock_sim::run;
use scenario::coscheduling::Reschedule;
use scenario::message::Pattern;
use scenario::{
    Arrival, Compute, Coscheduling, Distribution, Granularity, Job, JobKind, Machine, Message, Scheduler, Setting,
};

use crate::messages::message;
use crate::timeline::{barrier, cpu, setting, short, time_sharing};

/// The work of threads that only add load: without end, unless otherwise no other thread would run.
fn work_beside(scheduler: Scheduler) -> Option<Span> {
    (!scheduler.shares_time()).then_some(Span::from_millis(2))
}

/// One line for each job, and one for the machine.
fn outcome(scheduler: Scheduler, waiting: &str, seed: u64) -> String {
    let crew = JobKind::Barrier {
        threads: 5,
        compute: Compute::Granularity(Granularity::Fine),
        rounds: 2_000,
        waiting: waiting.parse().unwrap(),
    };
    let crowd = JobKind::Cpu { threads: 6, work: work_beside(scheduler).map(Distribution::from) };
    let jobs = vec![
        Job::new("crew", 2, crew),
        barrier("pair", 2, Span::from_micros(40), 500, waiting),
        Job::new("crowd", 1, crowd),
    ];
    let machine =
        Machine { scheduler, tick: Span::from_micros(400), slice: Span::from_micros(300), ..Machine::with_cpus(4) };
    let machine = short(machine);
    let outcome = match run(&machine, &setting(jobs), seed) {
        Ok(outcome) => outcome,
        Err(why) => return format!("{} {waiting} seed {seed}: {why}\n", scheduler.name()),
    };
    let mut text = format!("{} {waiting} seed {seed}: {:?}\n", scheduler.name(), outcome.machine);
    outcome.jobs.iter().for_each(|job| text += &format!("  {job:?}\n"));
    text
}

#[test]
fn outcomes_are_those_of_the_golden_file() {
    let arms = Scheduler::ALL.into_iter().flat_map(|scheduler| {
        ["always-block", "always-yield", "cs", "2cs+", "always-spin"].map(|waiting| outcome(scheduler, waiting, 1))
    });
    insta::assert_snapshot!(arms.collect::<String>());
}

#[test]
fn outcomes_of_locks_are_those_of_the_golden_file() {
    let lengths = |mean, sd| Distribution::Normal { mean: Span::from_micros(mean), sd: Span::from_micros(sd) };
    let arms = Scheduler::ALL.into_iter().flat_map(|scheduler| {
        ["always-block", "cs", "always-spin", "owner-running", "variable-competitive"].map(|waiting| {
            let (compute, critical) = (lengths(20, 5), lengths(6, 2));
            let waiting = waiting.parse().unwrap();
            let kind = JobKind::Lock { threads: 5, compute, critical, rounds: 500, waiting };
            let jobs = vec![Job::new("bank", 1, kind), cpu("x", work_beside(scheduler))];
            let machine = Machine { scheduler, tick: Span::from_micros(400), ..Machine::with_cpus(4) };
            match run(&short(machine), &setting(jobs), 1) {
                Ok(outcome) => {
                    format!("{} {waiting}: {:?}\n  {:?}\n", scheduler.name(), outcome.machine, outcome.jobs[0])
                }
                Err(why) => format!("{} {waiting}: {why}\n", scheduler.name()),
            }
        })
    });
    insta::assert_snapshot!(arms.collect::<String>());
}

#[test]
fn outcomes_of_pipelines_are_those_of_the_golden_file() {
    let text = include_str!("../../../../scenarios/pipeline.toml");
    let scenario = scenario::read("pipeline.toml", text.as_bytes()).unwrap();
    let outcomes = scenario.arms.iter().flat_map(|arm| {
        time_sharing().into_iter().map(|scheduler| {
            let machine = Machine { scheduler, device_depth: 2, ..Machine::with_cpus(2) };
            let mut setting = arm.setting.clone();
            if let JobKind::Pipeline(pipeline) = &mut setting.jobs[0].kind {
                pipeline.rounds = 40;
            }
            let outcome = run(&machine, &setting, 1).unwrap();
            let arm: Vec<String> = arm.factors.iter().map(|(_, value)| value.to_string()).collect();
            let job = &outcome.jobs[0];
            let stages = job.stages.iter().map(|stage| format!("    {stage:?}\n")).collect::<String>();
            let job = scenario::result::JobOutcome { stages: Vec::new(), ..job.clone() };
            format!("{} {}: {:?}\n  {job:?}\n{stages}", scheduler.name(), arm.join(" "), outcome.machine)
        })
    });
    insta::assert_snapshot!(outcomes.collect::<String>());
}

#[test]
fn outcomes_of_messages_are_those_of_the_golden_file() {
    let mesh = Mesh::new(Shape { columns: 2, rows: 2 });
    let mut text = String::new();
    for scheduler in time_sharing() {
        for (pattern, waiting) in Pattern::ALL.into_iter().zip(["cs", "always-block", "adaptive"]) {
            for cells in [None, mesh] {
                let compute = Distribution::Exponential { mean: Span::from_micros(50) };
                let sleep = (pattern == Pattern::Ring).then(|| Span::from_micros(20).into());
                let message = Message { compute: Some(compute), sleep, ..message(pattern, 4, 200, waiting) };
                let jobs = vec![Job::new("ranks", 2, JobKind::Message(message)), cpu("x", None)];
                let cpus = if cells.is_some() { 1 } else { 3 };
                let tick = Span::from_micros(400);
                let machine = short(Machine { scheduler, tick, cells, ..Machine::with_cpus(cpus) });
                let outcome = run(&machine, &setting(jobs), 1).unwrap();
                let cells = if cells.is_some() { ", 2x2" } else { "" };
                let events = outcome.machine.events.unwrap();
                writeln!(text, "{} {} {waiting}{cells}: {events} events", scheduler.name(), pattern.name()).unwrap();
                for job in &outcome.jobs {
                    let times = [job.completion_ns, job.cpu_ns, job.spin_ns, job.delivered_work_ns];
                    let switches = (job.voluntary_switches.unwrap(), job.involuntary_switches.unwrap());
                    let times = times.map(|time| time.map_or("-".to_owned(), |time| time.to_string()));
                    writeln!(text, "  {}: {} {:?} {switches:?}", job.job, times.join(", "), job.ssr_percent).unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!(text);
}

/// Two jobs that spin and one that blocks on 2 x 2 cells, lowered or stopped by these rules. `None`
/// if the kernel cannot do that.
fn outcome_on_cells(scheduler: Scheduler, rules: Coscheduling) -> Option<String> {
    // Jobs are classified after 100 ms.
    let rounds = if rules.how == Gang::Adaptive { 400 } else { 120 };
    let ranks = |shape, waiting| Message {
        request: Request::Rectangle(shape),
        compute: Some(Distribution::Exponential { mean: Span::from_micros(50) }),
        ..message(Pattern::Exchange, 2, rounds, waiting)
    };
    let blocks = Message {
        sleep: Some(Span::from_micros(100).into()),
        weight: 2,
        ..ranks(Shape { columns: 2, rows: 2 }, "always-block")
    };
    let spins = ranks(Shape { columns: 2, rows: 1 }, "always-spin");
    let jobs = vec![
        Job::new("spins", 3, JobKind::Message(spins)),
        Job {
            arrival: Arrival { at: Span::from_millis(3), every: None },
            ..Job::new("blocks", 1, JobKind::Message(blocks))
        },
    ];
    let groups = matches!(rules.lower, Lowering::Weight(_));
    let cells = Mesh::new(Shape { columns: 2, rows: 2 });
    let machine = short(Machine { scheduler, tick: Span::from_micros(50), groups, cells, ..Machine::with_cpus(1) });
    let setting = Setting { coscheduling: Some(rules), ..setting(jobs) };
    if !setting.conflicts_on(&machine).is_empty() {
        return None;
    }
    let Coscheduling { how, reschedule, movement, lower, .. } = rules;
    let mut text = format!("{how}, {}, {reschedule}, {movement}, {lower}", scheduler.name());
    match run(&machine, &setting, 1) {
        Ok(outcome) => {
            writeln!(text, ": {} events", outcome.machine.events.unwrap()).unwrap();
            writeln!(text, "  {:?}", outcome.machine.coscheduling.unwrap()).unwrap();
            for job in &outcome.jobs {
                let times = [job.start_ns, job.completion_ns, job.cpu_ns, job.spin_ns].map(Option::unwrap);
                let switches = (job.voluntary_switches.unwrap(), job.involuntary_switches.unwrap());
                writeln!(text, "  {}: {} {switches:?}", job.job, times.map(|time| time.to_string()).join(", "))
                    .unwrap();
            }
        }
        Err(why) => writeln!(text, ": {why}").unwrap(),
    }
    Some(text)
}

#[test]
fn outcomes_of_jobs_that_share_cells_are_those_of_the_golden_file() {
    let ways = [
        (Reschedule::Boundary, Movement::Never, Lowering::default()),
        (Reschedule::Boundary, Movement::WithinNode, Lowering::default()),
        (Reschedule::Tick, Movement::WithinNode, Lowering::default()),
        (Reschedule::Tick, Movement::Never, Lowering::Weight(2)),
        (Reschedule::Choice, Movement::Never, Lowering::default()),
    ];
    let (skew, cost) = (Span::from_micros(30), Span::from_micros(7));
    let arms = Gang::ALL.into_iter().flat_map(|how| {
        // Without turns, the rules of turns make no difference.
        let different = if how.has_table() || how == Gang::Original { ways.len() } else { 1 };
        let of_kernel = move |scheduler| {
            ways.into_iter().take(different).filter_map(move |(reschedule, movement, lower)| {
                let slice = Span::from_millis(2);
                let rules = Coscheduling {
                    how,
                    slice,
                    reschedule,
                    movement,
                    lower,
                    clock_skew: skew,
                    ..Coscheduling::default()
                };
                outcome_on_cells(scheduler, Coscheduling { switch_cost: cost, start: cost, create: cost, ..rules })
            })
        };
        Scheduler::ALL.into_iter().flat_map(of_kernel)
    });
    insta::assert_snapshot!(arms.collect::<String>());
}

#[test]
fn another_seed_gives_another_outcome() {
    for scheduler in Scheduler::ALL {
        let body = |seed| outcome(scheduler, "cs", seed).split_once(':').map(|(_, rest)| rest.to_owned());
        assert_ne!(body(1), body(2));
    }
}
