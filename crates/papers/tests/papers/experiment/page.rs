//! The HTML page of a report: what is on it, and what must not be.

use std::fs;

use crate::experiment::mock::{BOTH, CREW, Mock, read};
use measure::folder;
use measure::manifest::{Ending, Manifest, ScenarioFile};
use measure::results::{ExperimentReport, html, text};
use scenario::Scenario;
use scenario::result::World;

/// Two samples of the barrier job's two threads.
const TIMELINE: &str = r#"[
    { "at_ns": 10000000, "job": 0, "runnable": 2, "sleeping": 0 },
    { "at_ns": 150000000, "job": 0, "runnable": 1, "sleeping": 1 }
]"#;

/// A title from an attacker.
const MALICIOUS: &str = "<script>alert('1')</script> & \\\"onload=\\\"`";

/// The page of an experiment, as written into the folder.
fn page(scenario: Scenario, worlds: &[World]) -> (String, ExperimentReport) {
    let folder = tempfile::tempdir().unwrap();
    let report = Mock { timeline: TIMELINE, ..Mock::new() }.experiment(scenario, worlds, folder.path()).report;
    (fs::read_to_string(folder.path().join(folder::PAGE)).unwrap(), report)
}

fn parse(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|why| panic!("{why}: {page}"))
}

/// A manifest that does not depend on the machine.
fn manifest() -> Manifest {
    Manifest {
        program_sha256: None,
        rowlock_version: "1.2.3",
        study: "run".into(),
        arguments: vec!["rowlock".into(), "run".into(), "mock.toml".into()],
        started: "2026-11-21T05:42:45Z".into(),
        ending: Ending::Complete,
        error: None,
        planned_runs: 36,
        runs: 36,
        worlds: BOTH.to_vec(),
        seed: 40,
        repeat: 3,
        scenario: Some(ScenarioFile::new("mock.toml", CREW.as_bytes(), &read(CREW))),
        settings: None,
        machine: None,
        calibration: None,
    }
}

/// The page without its style sheet.
fn without_style(page: &str) -> String {
    let (before, rest) = page.split_once("<style>").unwrap();
    format!("{before}{}", rest.split_once("</style>").unwrap().1)
}

#[test]
fn the_page_matches_the_snapshot_and_is_reproducible() {
    let with_axis = || read(&CREW.replace("[experiment]", "[experiment]\nx = \"job.crowd.threads\""));
    let (_, report) = page(with_axis(), BOTH);
    let rendered = html::render(None, &report, &manifest(), &[]);
    let (_, again) = page(with_axis(), BOTH);
    assert_eq!(rendered, html::render(None, &again, &manifest(), &[]));
    insta::assert_snapshot!("page", without_style(&rendered));
}

#[test]
fn an_axis_that_counts_threads_has_all_their_numbers() {
    let labels = |axis: &str| {
        let axis = format!("[experiment]\nx = \"{axis}\"");
        let (page, report) = page(read(&CREW.replace("[experiment]", &axis)), BOTH);
        let document = parse(&page);
        let texts: Vec<String> = document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
            .filter_map(|node| node.text().map(str::to_owned))
            .collect();
        let captions = document.descendants().filter(|node| node.has_tag_name("figcaption")).count();
        (texts, captions, report)
    };
    let (texts, captions, report) = labels("load");
    assert!(texts.iter().any(|text| text == "load"), "{texts:?}");
    for summary in &report.summaries {
        assert_eq!(summary.x, Some(toml::Value::Float(summary.load)));
        assert!(texts.contains(&summary.load.to_string()), "{} {texts:?}", summary.load);
    }
    // There is one drawing for each figure, as with the swept number.
    assert_eq!(captions, labels("job.crowd.threads").1);
}

#[test]
fn the_page_has_the_sentences_of_the_text() {
    let (page, report) = page(read(CREW), BOTH);
    let sentences: Vec<String> = parse(&page)
        .descendants()
        .filter(|node| node.has_tag_name("li"))
        .map(|node| node.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect())
        .collect();
    let text = text::render(&report).replace('`', "");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdicts: Vec<&str> = text.split(" Verdict - ").nth(1).unwrap().split(" - ").collect();
    assert_eq!(verdicts.len(), 3);
    for verdict in verdicts.iter().copied().chain(report.notes.iter().map(String::as_str)) {
        assert!(sentences.iter().any(|sentence| sentence == verdict), "{verdict}: {sentences:?}");
    }
}

#[test]
fn the_page_is_well_formed_and_loads_nothing_whatever_the_scenario_contains() {
    let scenario =
        CREW.replace("A crew against a crowd", MALICIOUS).replace("\"cs\", \"always-spin\"", "\"3 us\", \"cs\"");
    for text in [scenario.clone(), scenario.replace("compare = \"job.crew.waiting\"\n", "")] {
        let (page, report) = page(read(&text), BOTH);
        assert_eq!(report.title, MALICIOUS.replace('\\', ""));
        let document = parse(&page);
        let title = document.descendants().find(|node| node.has_tag_name("h1")).unwrap().text().unwrap();
        assert_eq!(title, report.title);
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("script")).count(), 1);
        for reference in ["http://", "https://", "<script src", "<link", "<img", "<iframe", "@import", "url(", "xmlns"]
        {
            assert!(!page.contains(reference), "{reference}");
        }
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            for attribute in node.attributes() {
                let is_link = ["src", "href", "data", "action", "srcset"].contains(&attribute.name());
                assert!(!is_link || attribute.value().starts_with('#'), "{attribute:?}");
                assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            }
        }
    }
}

#[test]
fn heading_levels_have_no_gaps_and_references_have_one_target() {
    let (page, _) = page(read(CREW), BOTH);
    let document = parse(&page);
    let elements = || document.descendants().filter(roxmltree::Node::is_element);
    let level = |name: &str| name.strip_prefix('h').and_then(|level| level.parse::<u32>().ok());
    let levels: Vec<u32> = elements().filter_map(|node| level(node.tag_name().name())).collect();
    assert!(levels[0] == 1 && levels.windows(2).all(|pair| 1 < pair[1] && pair[1] <= pair[0] + 1), "{levels:?}");

    let mut ids: Vec<&str> = elements().filter_map(|node| node.attribute("id")).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    let links = elements().filter_map(|node| node.attribute("href")?.strip_prefix('#'));
    let labels = elements().filter_map(|node| node.attribute("aria-labelledby")).flat_map(str::split_whitespace);
    for id in links.chain(labels) {
        assert!(ids.contains(&id), "{id}");
    }
    for drawing in elements().filter(|node| node.attribute("role") == Some("img")) {
        assert_eq!(
            drawing.children().filter(|node| node.has_tag_name("title") || node.has_tag_name("desc")).count(),
            2
        );
    }
    for table in elements().filter(|node| node.has_tag_name("table")) {
        assert!(table.children().any(|node| node.has_tag_name("caption")));
        let headers = table.descendants().filter(|node| node.has_tag_name("th"));
        assert!(headers.into_iter().all(|node| node.attribute("scope").is_some()));
    }
}

#[test]
fn the_states_of_the_hosts_threads_are_drawn_for_the_first_repetition_of_each_arm() {
    let (page, _) = page(read(CREW), BOTH);
    let drawings = page.matches("class=\"course\"").count();
    assert_eq!(drawings, 6, "an arm each");
    assert!(page.contains("host, crowd.threads = 1, crew.waiting = always-block, seed 40"), "{page}");
}

#[test]
fn an_experiment_without_a_run_has_a_page_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mock = Mock { fault: crate::experiment::mock::Fault::Cancel(0), ..Mock::new() };
    mock.experiment(read(CREW), BOTH, folder.path());
    let page = fs::read_to_string(folder.path().join(folder::PAGE)).unwrap();
    parse(&page);
    assert!(page.contains("0 of 36 runs were made") && page.contains("interrupted"), "{page}");
}

#[test]
fn the_baseline_does_not_depend_on_the_number_of_completed_runs() {
    for runs in 2..12 {
        let folder = tempfile::tempdir().unwrap();
        let mock = Mock { fault: crate::experiment::mock::Fault::Cancel(runs), ..Mock::new() };
        let report = mock.experiment(read(CREW), BOTH, folder.path()).report;
        assert_eq!(report.baseline, Some("always-block".into()));
        let page = fs::read_to_string(folder.path().join(folder::PAGE)).unwrap();
        let over = page.matches("Speed-up over ").count();
        assert_eq!(page.matches("Speed-up over always-block").count(), over, "after {runs} runs");
        assert!(!text::render(&report).lines().any(|line| line.contains("cs  ") && line.contains("baseline")));
    }
}
