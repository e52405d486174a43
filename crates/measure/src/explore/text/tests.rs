use std::time::Duration;

use pipeline::structure::Structure;
use policy::priority::StageKind;

use super::super::double::double;
use super::super::json::{self, Subject};
use super::super::variants::{Change, variants};
use super::super::{Outcome, Runner, Settings, explore};
use super::*;

const SETTINGS: Settings = Settings { pairs: 4, limit: None, seed: 1 };

/// A program whose time follows from its structure, and from how often it was run.
struct Fake {
    runs: u32,
    stop_after: u32,
}

impl Runner for Fake {
    fn run(&mut self, structure: &Structure) -> Outcome {
        if self.runs == self.stop_after {
            return Outcome::Stopped;
        }
        self.runs += 1;
        let text = structure.to_string();
        let factor = |word: &str, factor: f64| if text.contains(word) { factor } else { 1.0 };
        let seconds = 2.0 * factor("fork=compress*4", 0.7) * factor("buffers=16", 0.9) * factor("fuse", 1.3);
        let seconds = seconds * factor("double=io", 1.4) + f64::from(self.runs % 5) * 0.01;
        match text.as_str() {
            "threads=each" => Outcome::Failed("exit status: 1; its last words: no more threads".into()),
            "block=32KiB" => Outcome::Done { seconds: 0.1, output: "other".into() },
            _ => Outcome::Done { seconds, output: "same".into() },
        }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(2 * u64::from(self.runs))
    }
}

fn profile() -> Profile {
    let stage = |name: &str, kind| Stage {
        name: name.to_owned(),
        kind,
        can_fork: kind == StageKind::Compute,
        copies: if kind == StageKind::Compute { 2 } else { 1 },
        is_fused: false,
        is_junction: false,
        repeated: Some(0),
    };
    let stages =
        vec![stage("read", StageKind::Io), stage("compress", StageKind::Compute), stage("write", StageKind::Io)];
    Profile { pipelines: vec![Line { name: "compress".into(), buffers: 8, block: 128 << 10, stages }] }
}

fn explored(settings: Settings, stop_after: u32) -> Exploration {
    let all = variants(&profile(), 2, &Change::ALL);
    explore(all, (2.0, "same".into()), settings, &mut Fake { runs: 0, stop_after })
}

fn subject(profile: &Profile) -> Subject<'_> {
    let command = ["./compress", "big file"].map(str::to_owned).to_vec();
    Subject::new(command, "workers=2".parse().unwrap(), Some("sync".into()), profile)
}

#[test]
fn an_exploration_is_told() {
    insta::assert_snapshot!(exploration(&profile(), &"workers=2".parse().unwrap(), &explored(SETTINGS, u32::MAX)));
}

#[test]
fn an_exploration_that_was_interrupted_tells_what_it_has() {
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(SETTINGS, 30)));
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(SETTINGS, 0)));
}

#[test]
fn an_exploration_without_time_tells_so() {
    let settings = Settings { limit: Some(Duration::from_secs(40)), ..SETTINGS };
    insta::assert_snapshot!(exploration(&profile(), &Structure::default(), &explored(settings, u32::MAX)));
}

#[test]
fn a_final_that_tells_nothing_apart_says_so_and_one_that_is_lost_too() {
    let told = |text: &str| {
        let all = vec![text.parse().unwrap()];
        exploration(
            &profile(),
            &Structure::default(),
            &explore(all, (2.0, "same".into()), SETTINGS, &mut Fake { runs: 0, stop_after: u32::MAX }),
        )
    };
    insta::assert_snapshot!(format!("{}\n{}\n{}", told("workers=1"), told("fuse=read+compress"), told("threads=each")));
}

#[test]
fn an_exploration_as_json_has_all_of_it() {
    let found = explored(SETTINGS, u32::MAX);
    insta::assert_snapshot!(json::exploration(&subject(&profile()), SETTINGS, &found).unwrap());
}

#[test]
fn doubling_is_told_for_people_and_for_programs() {
    let found = double(&[StageKind::Io], SETTINGS, &mut Fake { runs: 0, stop_after: u32::MAX });
    insta::assert_snapshot!(doubling(&profile(), &found));
    insta::assert_snapshot!(json::doubling(&subject(&profile()), SETTINGS, &found).unwrap());
}

#[test]
fn what_doubling_says_of_a_kind_depends_on_the_interval() {
    let told = |pairs: &[(f64, f64)]| bound(&Doubled { kind: StageKind::Io, pairs: pairs.to_vec(), why_not: None });
    assert_eq!(told(&[(2.0, 1.0), (1.9, 1.0), (2.1, 1.0)]), "Bound by io: doubling it takes nearly twice as long.");
    assert!(told(&[(1.3, 1.0), (1.31, 1.0), (1.32, 1.0)]).starts_with("Bound by io in part: "));
    assert_eq!(
        told(&[(1.0, 1.0), (1.01, 1.0), (0.99, 1.0)]),
        "Not bound by io: the other stages hide it, doubled as well."
    );
    assert!(told(&[(1.5, 1.0), (0.8, 1.0), (1.0, 1.0)]).ends_with("may turn out to take up to 2.35 times as long."));
    assert_eq!(told(&[(2.0, 1.0)]), "Of io nothing can be said: there are too few runs.");
    let why_not = Some("no stage knows how.".to_owned());
    let told = bound(&Doubled { kind: StageKind::Io, pairs: Vec::new(), why_not });
    assert_eq!(told, "Of io nothing can be said: no stage knows how.");
}

#[test]
fn every_field_of_the_json_is_documented() {
    let documented = include_str!("../../../../../docs/output.md");
    let part = documented.split("## `rowlock pipeline explore").nth(1).unwrap_or_default();
    let (explored, doubled) =
        (explored(SETTINGS, u32::MAX), double(&[StageKind::Io], SETTINGS, &mut Fake { runs: 0, stop_after: u32::MAX }));
    let profile = profile();
    let subject = subject(&profile);
    for text in [json::exploration(&subject, SETTINGS, &explored), json::doubling(&subject, SETTINGS, &doubled)] {
        let value: serde_json::Value = serde_json::from_str(&text.unwrap()).unwrap();
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::Object(fields) => left.extend(fields.into_iter().map(|(name, value)| {
                    let is_named = part.contains(&format!("`{name}")) || part.contains(&format!(".{name}"));
                    assert!(is_named, "docs/output.md does not tell of {name}");
                    // Estimates are told of elsewhere.
                    if matches!(name.as_str(), "speedup" | "slowdown") { serde_json::Value::Null } else { value }
                })),
                serde_json::Value::Array(items) => left.extend(items),
                _ => {}
            }
        }
    }
}
