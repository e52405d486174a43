use std::time::Duration;

use pipeline::structure::Structure;
use policy::priority::StageKind;

use super::super::double::double;
use super::super::fake::FakeProgram;
use super::super::json::{self, ExploredProgram};
use super::super::variants::{StructureChange, variants};
use super::super::{ExplorationSettings, ProgramRunner, RunOutcome, explore};
use super::*;

const SETTINGS: ExplorationSettings = ExplorationSettings { pairs: 4, limit: None, seed: 1 };

/// A program whose duration depends on its structure and on the number of its runs.
fn program(stop_after: usize) -> impl ProgramRunner {
    let outcome = |run: usize, text: &str| {
        let factor = |word: &str, factor: f64| if text.contains(word) { factor } else { 1.0 };
        let seconds = 2.0 * factor("fork=compress*4", 0.7) * factor("buffers=16", 0.9) * factor("fuse", 1.3);
        let seconds = seconds * factor("double=io", 1.4) + (run % 5) as f64 * 0.01;
        match text {
            "threads=each" => RunOutcome::Failed("exit status: 1; its last words: no more threads".into()),
            "block=32KiB" => RunOutcome::Done { seconds: 0.1, output: "other".into() },
            _ => RunOutcome::Done { seconds, output: "same".into() },
        }
    };
    FakeProgram { run_seconds: Some(2.0), stop_after, ..FakeProgram::new(outcome) }
}

fn profile() -> Profile {
    let compress = StageProfile { can_fork: true, copies: 2, ..StageProfile::plain("compress", StageKind::Compute) };
    let io = |name| StageProfile::plain(name, StageKind::Io);
    let stages = vec![io("read"), compress, io("write")];
    Profile { pipelines: vec![PipelineProfile { name: "compress".into(), buffers: 8, block: 128 << 10, stages }] }
}

fn explored(settings: ExplorationSettings, stop_after: usize) -> Exploration {
    let all = variants(&profile(), 2, &StructureChange::ALL);
    explore(all, (2.0, "same".into()), settings, &mut program(stop_after))
}

fn explored_program(profile: &Profile) -> ExploredProgram<'_> {
    let command = ["./compress", "big file"].map(str::to_owned).to_vec();
    let (base, prepare) = ("workers=2".parse().unwrap(), Some("sync".into()));
    ExploredProgram { command, base, prepare, pipelines: &profile.pipelines }
}

#[test]
fn an_exploration_as_text() {
    insta::assert_snapshot!(exploration(&profile(), &"workers=2".parse().unwrap(), &explored(SETTINGS, usize::MAX)));
}

#[test]
fn an_interrupted_exploration_reports_the_results_so_far() {
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(SETTINGS, 30)));
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(SETTINGS, 0)));
}

#[test]
fn an_exploration_reports_that_the_time_limit_ended_it() {
    let settings = ExplorationSettings { limit: Some(Duration::from_secs(40)), ..SETTINGS };
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(settings, usize::MAX)));
}

#[test]
fn an_insignificant_final_and_a_lost_one_are_reported() {
    let report = |text: &str| {
        let all = vec![text.parse().unwrap()];
        exploration(
            &profile(),
            &Structure::default(),
            &explore(all, (2.0, "same".into()), SETTINGS, &mut program(usize::MAX)),
        )
    };
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}",
        report("workers=1"),
        report("fuse=read+compress"),
        report("threads=each")
    ));
}

#[test]
fn an_exploration_as_json() {
    let found = explored(SETTINGS, usize::MAX);
    insta::assert_snapshot!(json::exploration(&explored_program(&profile()), SETTINGS, &found).unwrap());
}

#[test]
fn doubling_as_text_and_as_json() {
    let found = double(&[StageKind::Io], SETTINGS, &mut program(usize::MAX));
    insta::assert_snapshot!(doubling(&profile(), &found));
    insta::assert_snapshot!(json::doubling(&explored_program(&profile()), SETTINGS, &found).unwrap());
}

#[test]
fn the_sentence_about_a_doubled_kind_depends_on_the_interval() {
    let say = |pairs: &[(f64, f64)], why_not: Option<&str>| {
        bound(&DoubledKind { kind: StageKind::Io, pairs: pairs.to_vec(), why_not: why_not.map(str::to_owned) })
    };
    for (pairs, sentence) in [
        (&[(2.0, 1.0), (1.9, 1.0), (2.1, 1.0)][..], "Bound by io: doubling it takes nearly twice as long."),
        (
            &[(1.3, 1.0), (1.31, 1.0), (1.32, 1.0)],
            "Bound by io in part: doubling it takes longer, but not nearly twice as long.",
        ),
        (&[(1.0, 1.0), (1.01, 1.0), (0.99, 1.0)], "Not bound by io: the other stages hide it even if it is doubled."),
        (
            &[(1.5, 1.0), (0.8, 1.0), (1.0, 1.0)],
            "Not significantly bound by io, but more runs may show that doubling it takes up to 2.35 times as long.",
        ),
        (&[(2.0, 1.0)], "No result for io: there are too few runs."),
    ] {
        assert_eq!(say(pairs, None), sentence);
    }
    assert_eq!(say(&[], Some("no stage knows how.")), "No result for io: no stage knows how.");
}

#[test]
fn every_field_of_the_json_is_documented() {
    let documented = include_str!("../../../../../docs/output.md");
    let part = documented.split("## `rowlock pipeline explore").nth(1).unwrap_or_default();
    let (explored, doubled) =
        (explored(SETTINGS, usize::MAX), double(&[StageKind::Io], SETTINGS, &mut program(usize::MAX)));
    let profile = profile();
    let program = explored_program(&profile);
    for text in [json::exploration(&program, SETTINGS, &explored), json::doubling(&program, SETTINGS, &doubled)] {
        let value: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::Object(fields) => left.extend(fields.into_iter().map(|(name, value)| {
                    let is_named = part.contains(&format!("`{name}")) || part.contains(&format!(".{name}"));
                    assert!(is_named, "docs/output.md does not list {name}");
                    // Estimates are documented elsewhere.
                    if matches!(name.as_str(), "speedup" | "slowdown") { serde_json::Value::Null } else { value }
                })),
                serde_json::Value::Array(items) => left.extend(items),
                _ => {}
            }
        }
    }
}
