//! Jobs of pipelines.

use policy::Span;
use policy::priority::{self, StageKind};
use policy::table::{PRIORITY, WAITING};
use policy::waiting::WaitingRule;
use scenario::draw::{Normal, Stream};
use scenario::pipeline::{Stage, StageTurn, Structure};
use scenario::result::JobOutcome;
use scenario::{Distribution, Job, JobKind, Setting};

use crate::runs::{self, hogs, job, setting};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("a_pipeline_runs_with_every_priority_rule_and_structure", every_priority_rule),
    ("a_pipeline_runs_with_every_waiting_rule", every_waiting_rule),
    ("a_pipeline_delivers_the_drawn_work_in_every_structure", drawn_work_is_delivered),
    ("a_pipeline_that_keeps_running_is_counted_once", keep_running),
    ("pipelines_run_beside_others", beside_others),
];

fn lengths(micros: u64) -> Option<Distribution> {
    Some(Distribution::Normal { mean: Span::from_micros(micros), sd: Span::from_nanos(micros * 100) })
}

/// A pipeline that reads, computes in two copies, sends, and writes.
fn line(rounds: u64) -> scenario::Pipeline {
    let stage =
        |name: &str, kind, compute, device| Stage { name: name.into(), kind, compute, device, fork: 1, nice: 0 };
    scenario::Pipeline {
        stages: vec![
            stage("read", StageKind::Io, lengths(5), lengths(50)),
            Stage { fork: 2, ..stage("work", StageKind::Compute, lengths(20), None) },
            stage("send", StageKind::Communicate, None, lengths(30)),
            stage("write", StageKind::Io, None, lengths(50)),
        ],
        buffers: 4,
        rounds,
        structure: Structure::Workers,
        shared: Vec::new(),
        priority: priority::PriorityRule::Default,
        waiting: WaitingRule::Adaptive,
    }
}

fn run(of: scenario::Pipeline) -> JobOutcome {
    let setting = setting(vec![job("line", JobKind::Pipeline(of))]);
    runs::run(&setting).unwrap().outcome.jobs.remove(0)
}

fn every_priority_rule() {
    let shared = vec![vec![StageTurn { stage: 0, times: 2 }, StageTurn { stage: 3, times: 2 }]];
    for structure in Structure::ALL {
        for shared in [Vec::new(), shared.clone()] {
            for entry in PRIORITY {
                let of = scenario::Pipeline { structure, shared: shared.clone(), priority: entry.example, ..line(20) };
                let outcome = run(of);
                assert_eq!(outcome.rounds, Some(20), "{}: {outcome:?}", entry.form);
                assert!(outcome.completion_ns > Some(Span::ZERO) && outcome.cpu_ns > Some(Span::ZERO), "{outcome:?}");
                let names: Vec<&str> = outcome.stages.iter().map(|stage| stage.stage.as_str()).collect();
                assert_eq!(names, ["read", "work", "send", "write"]);
            }
        }
    }
}

fn every_waiting_rule() {
    for entry in WAITING {
        assert_eq!(run(scenario::Pipeline { waiting: entry.example, ..line(20) }).rounds, Some(20), "{}", entry.form);
    }
}

fn drawn_work_is_delivered() {
    let drawn = |stage: &str, mean: f64| {
        let draw = |round| {
            let mut stream = Stream::named(1, &format!("stage {stage} of line"), round);
            Normal { mean, sd: mean / 10.0 }.draw(&mut stream, Span::from_nanos(1))
        };
        (0..100).map(draw).sum::<Span>()
    };
    for structure in Structure::ALL {
        let outcome = run(scenario::Pipeline { structure, ..line(100) });
        for (stage, expected) in [(0, drawn("read", 5_000.0)), (1, drawn("work", 20_000.0)), (2, Span::ZERO)] {
            let computed = outcome.stages[stage].computed_ns.unwrap();
            // Each draw is rounded to iterations of two nanoseconds.
            assert!(expected.as_nanos().abs_diff(computed.as_nanos()) <= 101, "{computed} of {expected}");
        }
        // A sleep may take longer than requested, and the device may have other requests first.
        assert!(outcome.stages[2].device_ns.unwrap() >= drawn("send", 30_000.0));
        assert!(outcome.stages[1].device_ns == Some(Span::ZERO));
    }
}

fn keep_running() {
    let jobs = vec![job("short", JobKind::Pipeline(line(5))), job("long", JobKind::Pipeline(line(200)))];
    let setting = Setting { keep_running: true, ..setting(jobs) };
    let run = runs::run(&setting).unwrap();
    let rounds: Vec<_> = run.outcome.jobs.iter().map(|job| job.rounds).collect();
    assert_eq!(rounds, [Some(5), Some(200)]);
}

fn beside_others() {
    let jobs = vec![Job { copies: 2, ..job("line", JobKind::Pipeline(line(20))) }, job("hog", hogs(1))];
    let run = runs::run(&setting(jobs)).unwrap();
    let completed = run.outcome.jobs.iter().map(|job| job.completion_ns.is_some());
    assert_eq!(completed.collect::<Vec<_>>(), [true, true, false]);
}
