//! Tests that docs/scenario.md matches the code: its examples are valid, and its tables are those
//! of the code.

use policy::table::{GANG, PARTITION, PRIORITY, PolicyEntry, WAITING, WAKEUP};
use rowlock_scenario::keys::{self, Key, KeyDefault, TABLES};
use rowlock_scenario::read;

const DOCUMENT: &str = include_str!("../../../../docs/scenario.md");

/// A table as it must appear in the document.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = head.map(|_| "---".to_owned());
    let rows: String = rows.into_iter().map(|row| line(&row)).collect();
    line(&head.map(str::to_owned)) + &line(&rule) + &rows
}

fn of_keys(keys: &[Key]) -> String {
    table(
        ["key", "value", "default", "example", "meaning"],
        keys.iter().map(|key| {
            let default = match key.default {
                KeyDefault::Required => "required",
                KeyDefault::Is(text) => text,
            };
            let code = |text| format!("`{text}`");
            [code(key.name), key.value.to_string(), default.to_owned(), code(key.example), key.meaning.to_owned()]
        }),
    )
}

fn of_policies<P>(what: &str, policies: &[PolicyEntry<P>]) -> String {
    let row =
        |policy: &PolicyEntry<P>| [format!("`{}`", policy.form), policy.meaning.to_owned(), policy.source.to_owned()];
    table([what, "meaning", "source"], policies.iter().map(row))
}

fn of_limits() -> String {
    let days = |span: policy::Span| span.as_secs_f64() / 86_400.0;
    let years = days(keys::MOST_WORK) / 365.0;
    let rows = [
        ("length of a file", format!("{} KiB", keys::LONGEST_FILE / 1024)),
        ("length of a job's name", format!("{} characters", keys::LONGEST_NAME)),
        ("a span of time", format!("{} days", days(keys::LONGEST_SPAN))),
        ("a multiple of CS", (keys::LARGEST_MULTIPLE / 1000).to_string()),
        ("threads of all jobs together", keys::MOST_THREADS.to_string()),
        ("computation of all threads together", format!("{years} years")),
        ("CPUs of all cells together", keys::MOST_CPUS_OF_CELLS.to_string()),
        ("turns of a round", policy::turn::LONGEST_ROUND.to_string()),
        ("fibers of a job", keys::MOST_THREADS.to_string()),
        ("bursts of a job's fibers together", keys::MOST_BURSTS.to_string()),
        ("what is counted in ticks", keys::MOST_TICKS.to_string()),
        ("swept paths", keys::MOST_FACTORS.to_string()),
        ("arms", keys::MOST_ARMS.to_string()),
        ("arms times length of the file", format!("{} MiB", keys::MOST_TEXT >> 20)),
        ("arms times `repeat`", keys::MOST_RUNS.to_string()),
    ];
    table(["what", "at most"], rows.map(|(what, most)| [what.to_owned(), most]))
}

/// The tables of the document, each with the last heading above it.
fn tables_in_the_document() -> Vec<(&'static str, String)> {
    let mut heading = "";
    let mut tables: Vec<(&str, String)> = Vec::new();
    let mut last = "";
    for line in DOCUMENT.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else if line.starts_with('|') {
            match tables.last_mut() {
                Some((_, table)) if last.starts_with('|') => table.extend([line, "\n"]),
                _ => tables.push((heading, format!("{line}\n"))),
            }
        }
        last = line;
    }
    tables
}

#[test]
fn the_tables_of_the_document_match_the_code() {
    let mut expected: Vec<(&str, String)> = TABLES.iter().map(|(heading, keys)| (*heading, of_keys(keys))).collect();
    expected.push(("`waiting`", of_policies("rule", WAITING)));
    expected.push(("`priority`", of_policies("rule", PRIORITY)));
    expected.push(("`wakeup`", of_policies("scheme", WAKEUP)));
    expected.push(("`how`", of_policies("how", GANG)));
    expected.push(("`partition`", of_policies("algorithm", PARTITION)));
    expected.push(("Limits", of_limits()));
    let found = tables_in_the_document();
    for (heading, table) in &expected {
        let there = found.iter().find(|(there, _)| there == heading);
        assert_eq!(
            there.map(|(_, table)| table.as_str()),
            Some(table.as_str()),
            "under {heading} there must be\n{table}"
        );
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn every_example_in_the_documents_is_a_valid_scenario() {
    let tutorial = include_str!("../../../../docs/tutorial.md");
    for (name, document, examples) in [("docs/scenario.md", DOCUMENT, 10), ("docs/tutorial.md", tutorial, 1)] {
        let found: Vec<&str> =
            document.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(found.len() >= examples, "{name}");
        for example in found {
            read(name, example.as_bytes()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        }
    }
}

#[test]
fn every_scenario_of_the_repository_is_valid() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let name = file.display().to_string();
        read(&name, &std::fs::read(&file).unwrap()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    }
}
