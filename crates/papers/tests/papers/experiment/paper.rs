//! Papers: their files are consistent, and their results are counted as documented.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use crate::experiment::contract::{documented, fields, written};
use crate::experiment::mock::{CREW, Mock, read};
use measure::experiment;
use measure::folder::Folder;
use measure::manifest::Manifest;
use measure::results::ExperimentReport;
use measure::timestamp::Timestamp;
use measure::two_worlds::TwoWorlds;
use report::WIDTH;
use rowlock_papers::figure::changes::Changes;
use rowlock_papers::figure::evidence::Evidence;
use rowlock_papers::figure::expected::{ArmGroup, Expected, Measure};
use rowlock_papers::figure::judgement::{BandResult, Judgement};
use rowlock_papers::figure::{FigureFiles, text};
use rowlock_papers::{PAPERS, Paper, Study};
use scenario::result::World;
use scenario::{JobKind, Scenario};

const SIM: &[World] = &[World::Sim];
const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// The figure's measure in [`EXPECTED`].
const SPEED_UP: &str = "measure = \"speed-up\", against = { \"job.crew.waiting\" = \"always-block\" }";

/// Bands of a fictitious paper on the mock's barrier job.
const EXPECTED: &str = r#"
figure = { job = "crew", measure = "speed-up", against = { "job.crew.waiting" = "always-block" } }

[[band]]
what = "speed-up of cs"
measure = "speed-up"
against = { "job.crew.waiting" = "always-block" }
of.select = { "job.crew.waiting" = ["cs"] }
at_least = 1.6
at_most = 1.7
paper = "5/3"
source = "section 1"

[[band]]
what = "speed-up of cs over always-spin, four threads"
measure = "speed-up"
against = { "job.crew.waiting" = "always-spin" }
of = { select = { "job.crew.waiting" = ["cs"] }, threads = { above = 3 } }
above = 2.5
source = "section 2"

[[band]]
what = "SSR points, always-spin less cs"
measure = "ssr"
of.select = { "job.crew.waiting" = ["always-spin"] }
minus.select = { "job.crew.waiting" = ["cs"] }
above = 0
source = "section 3"
"#;

/// A barrier job whose threads run together once the others have ended, if it has to share CPUs
/// with them.
const OVERLOADED_THEN_ALONE: &str = r#"
machine = { scheduler = "rr" }
job = [
    { name = "crew", kind = "barrier", threads = 3, granularity = "fine", rounds = 1500, waiting = "2cs+" },
    { name = "crowd", kind = "cpu", threads = 6, work = "1 ms" },
]
experiment = { repeat = 1, sweep = { "machine.cpus" = [3, 9] } }
"#;

/// Two threads that take turns on one CPU, and run together on two.
const ALTERNATING: &str = r#"
machine = { scheduler = "rr" }
job = [{ name = "crew", kind = "barrier", threads = 2, compute = "9 us", rounds = 100, waiting = "cs" }]
experiment = { repeat = 1, sweep = { "machine.cpus" = [1, 2] } }
"#;

/// A fictitious paper with this scenario.
fn mock(scenario: &'static str) -> Paper {
    let study = Study::Figure(FigureFiles { name: "mock.toml", scenario, bands: EXPECTED });
    Paper { name: "mock", source: "a paper, section 1", shows: "Spinning is faster.", takes: "1 s", study }
}

/// All simulated figures with bands.
fn figures() -> impl Iterator<Item = (&'static Paper, FigureFiles)> {
    PAPERS.iter().filter_map(|paper| Some((paper, paper.figure()?)))
}

/// A smaller scenario of the same kind: only some loads, and few rounds.
fn reduced(figure: FigureFiles) -> Scenario {
    let mut scenario = figure.scenario().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let loads = |arm: &scenario::Arm| arm.factors.iter().find(|(path, _)| path == "job.crowd.threads").cloned();
    let all: BTreeSet<i64> = scenario.arms.iter().filter_map(|arm| loads(arm)?.1.as_integer()).collect();
    let kept: Vec<i64> = all.iter().step_by(6).copied().collect();
    scenario.arms.retain(|arm| loads(arm).is_none_or(|(_, load)| kept.contains(&load.as_integer().unwrap())));
    let has_cells = scenario.arms.iter().any(|arm| arm.setting.machine.cells.is_some());
    if kept.is_empty() && scenario.arms.len() > 1 && !has_cells {
        // These scenarios sweep the machine or the job. Large machines are slow to simulate and
        // behave like small ones.
        scenario.arms.retain(|arm| arm.setting.machine.cpus == Some(32) && arm.setting.threads(32) <= 96);
    }
    for job in scenario.arms.iter_mut().flat_map(|arm| &mut arm.setting.jobs) {
        match &mut job.kind {
            JobKind::Barrier { rounds, .. } => *rounds = if kept.is_empty() { 2 } else { 20 },
            JobKind::Message(message) => message.rounds = 3,
            _ => {}
        }
    }
    scenario.experiment.repeat = 2;
    scenario
}

/// The report on a scenario in the simulator.
fn simulated(scenario: &Scenario) -> ExperimentReport {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Manifest::begin("paper", SIM, Timestamp::of(std::time::UNIX_EPOCH));
    let (worlds, cancel) = (TwoWorlds::new(None, TWO), AtomicBool::new(false));
    let mut folder = Folder::create(folder.path()).unwrap();
    let finished =
        experiment::run(scenario.clone(), None, &worlds, &mut folder, manifest, &mut |_| (), &cancel).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    finished.report
}

#[test]
fn the_table_in_the_documents_names_every_paper() {
    let document = include_str!("../../../../../docs/papers.md");
    let rows = document.lines().skip_while(|line| !line.starts_with("| paper |")).skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>());
}

#[test]
fn every_band_has_arms_and_every_speed_up_has_a_reference() {
    for (paper, files) in figures() {
        let scenario = files.scenario().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let expected = files.expected().unwrap_or_else(|error| panic!("{}: {error}", paper.name));
        let evidence = Evidence::new(&scenario, &[]);
        let figure = &expected.figure;
        let check = |what: &str, group: &ArmGroup, measure: Measure, against: &BTreeMap<String, toml::Value>| {
            let (what, arms) = (format!("{}: {what}", paper.name), evidence.arms(group));
            let jobs = if group.job.is_empty() { &figure.job } else { &group.job };
            assert!(!arms.is_empty() && !jobs.is_empty(), "{what}");
            for arm in arms {
                let is_there = |name: &String| {
                    scenario.arms[arm].setting.jobs.iter().any(|job| job.name == *name && job.copies > 0)
                };
                let is_of_all_jobs = measure == Measure::Throughput;
                assert!(is_of_all_jobs || jobs.iter().all(is_there), "{what}: {jobs:?}");
                if is_of_all_jobs {
                    let mut there = scenario.arms[arm].setting.jobs.iter().filter(|job| job.copies > 0);
                    assert!(there.all(|job| evidence.arm_alone(arm, &job.name, against).is_some()), "{what}");
                }
                if measure.has_reference() {
                    let reference = evidence.reference_arm(arm, against);
                    assert!(
                        reference.is_some_and(|reference| {
                            measure != Measure::SpeedUp
                                || reference != arm && evidence.load(reference) == evidence.load(arm)
                        }),
                        "{what}"
                    );
                }
            }
        };
        for line in &figure.line {
            check(&line.name, &line.of, figure.measure, &figure.against);
        }
        for band in &expected.band {
            band.of.iter().chain(&band.minus).for_each(|group| check(&band.what, group, band.measure, &band.against));
            assert!(band.is_judged() || band.paper.is_none(), "{}: a value of the paper needs a band", band.what);
            assert!(band.is_judged() || band.known_miss.is_none(), "{}: a known miss needs a band", band.what);
        }
    }
}

#[test]
fn every_paper_runs_and_is_judged_at_a_reduced_size() {
    for (paper, files) in figures() {
        let (scenario, expected) = (reduced(files), files.expected().unwrap());
        let arms = Evidence::new(&scenario, &[]);
        // A band whose value is a load may lose its arms: those of large machines are left out.
        for band in expected.band.iter().filter(|band| band.combine.counted().is_none()) {
            let has_arms = band.of.iter().chain(&band.minus).all(|group| !arms.arms(group).is_empty());
            assert!(has_arms, "`reduced` left no arm for this band: {}: {}", paper.name, band.what);
        }
        let report = simulated(&scenario);
        let cancel = AtomicBool::new(false);
        let mut evidence = Evidence::new(&scenario, &report.runs);
        if expected.figure.measure.is_of_patterns() {
            evidence = evidence.with_patterns(&expected.figure.job, TWO, &cancel).unwrap();
        }
        let judgement = Judgement::new(paper, &expected, &evidence, &Changes::default(), &report);
        assert_eq!(judgement.bands.len(), expected.band.len());
        // A run need not have a pattern or a turn, and a short one may never be above a level.
        let needs_a_pattern = |measure| {
            use Measure::{AlternatingRounds, CleanGroups, Delay, DelayDeviation, SsrAfter, SsrBefore};
            matches!(measure, SsrBefore | SsrAfter | AlternatingRounds | CleanGroups | Delay | DelayDeviation)
        };
        let is_always_there = |band: &&BandResult| band.counted.is_none() && !needs_a_pattern(band.measure);
        for band in judgement.bands.iter().filter(is_always_there) {
            assert_eq!(band.ours.map(|ours| ours.samples), Some(2), "{}: {}", paper.name, band.what);
        }
        let text = text::render(&judgement, &expected, &evidence);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(expected.band.iter().all(|band| text.contains(&band.what)), "{text}");
        // A job alone has the unit of work, so no arm of several jobs is left out as a reference.
        let shows_none = |line: &str| line.contains(" none ") && line.contains(" adaptive");
        assert!(paper.name != "ap/mixes" || text.lines().filter(|line| shows_none(line)).count() == 2, "{text}");
    }
}

#[test]
fn bands_are_judged_by_runs_with_the_same_seed_and_load() {
    let (folder, scenario, expected) = (tempfile::tempdir().unwrap(), read(CREW), toml::from_str(EXPECTED).unwrap());
    let report = Mock::new().experiment(scenario.clone(), SIM, folder.path()).report;
    let paper = mock(CREW);
    let evidence = Evidence::new(&scenario, &report.runs);
    let judgement = Judgement::new(&paper, &expected, &evidence, &Changes::default(), &report);

    // Computed by hand from the runs.
    let completion = |waiting: &str, crowd: i64, repeat: u32| {
        let factors = BTreeMap::from([
            ("job.crew.waiting".to_owned(), waiting.into()),
            ("job.crowd.threads".to_owned(), crowd.into()),
        ]);
        let run = report.runs.iter().find(|run| run.factors == factors && run.repeat == repeat).unwrap();
        run.outcome.jobs[0].completion_ns.unwrap().as_secs_f64()
    };
    let speedup =
        |reference: &str, crowd, repeat| completion(reference, crowd, repeat) / completion("cs", crowd, repeat);
    let over = |crowds: &[i64], reference: &str| {
        let each = crowds.iter().flat_map(|&crowd| (0..3).map(move |repeat| (crowd, repeat)));
        each.map(|(crowd, repeat)| speedup(reference, crowd, repeat)).sum::<f64>() / (3 * crowds.len()) as f64
    };
    let ours: Vec<f64> = judgement.bands.iter().map(|band| band.ours.unwrap().mean).collect();
    assert!((ours[0] - over(&[1, 2], "always-block")).abs() < 1e-12);
    assert!((ours[1] - over(&[2], "always-spin")).abs() < 1e-12);
    // SSR is 100 for threads that always spin and 74 to 76 for the others.
    assert!((ours[2] - 25.0).abs() <= 1.0);
    // 5/3 is inside, 400/180 is not above 2.5.
    assert_eq!(
        judgement.bands.iter().map(|band| band.inside).collect::<Vec<_>>(),
        [Some(true), Some(false), Some(true)]
    );
    assert!(judgement.holds == Some(false) && judgement.missed() == 1);
    insta::assert_snapshot!("paper", text::render(&judgement, &expected, &evidence));
}

#[test]
fn a_known_miss_is_shown_as_a_miss_and_fails_only_if_the_band_holds() {
    let (folder, scenario) = (tempfile::tempdir().unwrap(), read(CREW));
    let report = Mock::new().experiment(scenario.clone(), SIM, folder.path()).report;
    let (paper, evidence) = (mock(CREW), Evidence::new(&scenario, &report.runs));
    // The second band is missed and the first one holds.
    let judged = |section: &str| {
        let source = format!("source = \"section {section}\"");
        let bands = EXPECTED.replace(&source, &format!("{source}\nknown_miss = \"clocks do not drift\""));
        let expected = toml::from_str(&bands).unwrap();
        let judgement = Judgement::new(&paper, &expected, &evidence, &Changes::default(), &report);
        let text = text::render(&judgement, &expected, &evidence);
        (judgement.holds, judgement.missed(), judgement.surprises(), text)
    };
    let (holds, missed, surprises, text) = judged("2");
    assert_eq!((holds, missed, surprises), (Some(true), 1, 0));
    let said = "Missed: 1 of 3 bands, as known.\n\
                Known miss: speed-up of cs over always-spin, four threads: clocks do not drift.\n";
    assert!(text.ends_with(said) && text.contains("  outside, as known\n"), "{text}");
    let (holds, missed, surprises, text) = judged("1");
    assert_eq!((holds, missed, surprises), (Some(false), 1, 2));
    let said = "Missed: 1 of 3 bands. Known to be missed, but held: 1. Remove `known_miss`.\n";
    assert!(text.ends_with(said) && text.contains("  INSIDE, a known miss\n"), "{text}");
}

#[test]
fn results_with_changes_are_shown_and_not_judged() {
    let (folder, mut scenario, expected) =
        (tempfile::tempdir().unwrap(), read(CREW), toml::from_str(EXPECTED).unwrap());
    let changes = Changes {
        scheduler: Some(scenario::Scheduler::Rr),
        waiting: Some("0.54 cs".parse().unwrap()),
        ..Changes::default()
    };
    changes.apply(&mut scenario, &expected);
    let report = Mock::new().experiment(scenario.clone(), SIM, folder.path()).report;
    let paper = mock(CREW);
    let evidence = Evidence::new(&scenario, &report.runs);
    let judgement = Judgement::new(&paper, &expected, &evidence, &changes, &report);
    assert!(judgement.holds.is_none() && judgement.missed() == 0);
    let text = text::render(&judgement, &expected, &evidence);
    assert!(text.contains("0.54 cs") && !text.contains("inside"), "{text}");
    let told = "Not judged: the bands are those of the paper's machine, and this is --scheduler rr --waiting 0.54";
    assert!(text.contains(told), "{text}");
}

#[test]
fn results_of_an_interrupted_paper_are_shown_and_not_judged() {
    let text = |expected: &Expected, evidence: &Evidence<'_>, report: &ExperimentReport| {
        let paper = mock(CREW);
        let judgement = Judgement::new(&paper, expected, evidence, &Changes::default(), report);
        assert_eq!((judgement.complete, judgement.holds, judgement.judged()), (false, None, 0));
        let text = text::render(&judgement, expected, evidence);
        assert!(!text.contains("inside") && !text.contains("OUTSIDE"), "{text}");
        text
    };
    // While runs are made.
    let (folder, scenario) = (tempfile::tempdir().unwrap(), read(CREW));
    let mut report = Mock::new().experiment(scenario.clone(), SIM, folder.path()).report;
    report.runs.truncate(1);
    report.complete = false;
    let said = text(&toml::from_str(EXPECTED).unwrap(), &Evidence::new(&scenario, &report.runs), &report);
    let why = format!("Not judged: only 1 of {} runs were made.\n", report.planned_runs);
    assert!(said.contains(&why), "{said}");
    // While they are searched.
    let (scenario, cancel) = (read(OVERLOADED_THEN_ALONE), AtomicBool::new(true));
    let report = simulated(&scenario);
    let expected = EXPECTED.replace(SPEED_UP, "measure = \"transition\", line = [{ name = \"crew\" }]");
    let evidence = Evidence::new(&scenario, &report.runs).with_patterns(&["crew".to_owned()], TWO, &cancel).unwrap();
    let said = text(&toml::from_str(&expected).unwrap(), &evidence, &report);
    assert!(said.contains("Not judged: not all runs were searched for patterns.\n"), "{said}");
}

#[test]
fn the_transition_point_is_where_the_other_threads_end() {
    let (scenario, cancel) = (read(OVERLOADED_THEN_ALONE), AtomicBool::new(false));
    let report = simulated(&scenario);
    let found = |workers| {
        let looked = Evidence::new(&scenario, &report.runs).with_patterns(&["crew".to_owned()], workers, &cancel);
        looked.unwrap().patterns().map(|(arm, _, found)| (arm, found.transition)).collect::<Vec<_>>()
    };
    let [(0, Some(transition)), (1, None)] = found(TWO)[..] else { panic!("{:?}", found(TWO)) };
    // The other job ends when each of its six threads has had one millisecond of three CPUs.
    let millis = transition.at_ns.as_secs_f64() * 1e3;
    assert!((2.0..5.0).contains(&millis), "{transition:?}");
    assert!(transition.before_percent < 90.0 && transition.after_percent > 95.0, "{transition:?}");
    assert_eq!(found(NonZeroUsize::MIN), found(TWO));
}

#[test]
fn threads_that_share_a_cpu_alternate_and_threads_with_a_cpu_each_do_not() {
    let scenario = read(ALTERNATING);
    let report = simulated(&scenario);
    let evidence = Evidence::new(&scenario, &report.runs)
        .with_patterns(&["crew".to_owned()], TWO, &AtomicBool::new(false))
        .unwrap();
    let found: Vec<_> = evidence.patterns().map(|(_, _, found)| found.alternation.clone()).collect();
    let [Some(alternation), None] = &found[..] else { panic!("{found:?}") };
    assert_eq!((alternation.groups, alternation.clean_percent), ([1.0, 1.0], 100.0));
    let paper = Paper::named("barrier/fig2").unwrap();
    let expected = paper.figure().unwrap().expected().unwrap();
    let judgement = Judgement::new(paper, &expected, &evidence, &Changes::default(), &report);
    let said = text::render(&judgement, &expected, &evidence);
    assert!(said.contains("1.0 and 1.0") && said.contains("none"), "{said}");
}

#[test]
fn exactly_the_fields_of_a_judgement_are_documented() {
    let mut found = BTreeSet::new();
    for (text, measure) in [(OVERLOADED_THEN_ALONE, "transition"), (ALTERNATING, "alternation")] {
        let expected = EXPECTED.replace(SPEED_UP, &format!("measure = \"{measure}\", line = [{{ name = \"crew\" }}]"));
        let expected: Expected = toml::from_str(&expected).unwrap();
        let paper = mock(text);
        let scenario = paper.figure().unwrap().scenario().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let report = simulated(&scenario);
        let evidence =
            Evidence::new(&scenario, &report.runs).with_patterns(&["crew".to_owned()], TWO, &AtomicBool::new(false));
        let judgement = Judgement::new(&paper, &expected, &evidence.unwrap(), &Changes::default(), &report);
        fields(&written(&judgement), "", &mut found);
    }
    assert!(found.remove("transitions[].transition"), "a run without a transition point");
    assert!(found.remove("transitions[]") && found.remove("alternations[]"), "papers that are not about them");
    assert!(found.remove("alternations[].alternation"), "a run whose threads do not alternate");
    assert_eq!(found, documented("rowlock paper --format json"));
}
