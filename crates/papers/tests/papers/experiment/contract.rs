//! docs/output.md lists exactly the fields of the output.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::experiment::mock::{BOTH, CREW, Mock, read};
use measure::regress::{Question, regress};
use serde::Serialize;
use serde_json::Value;

/// The first column of the table in the document's section on a file.
pub(crate) fn documented(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/output.md");
    let document = fs::read_to_string(path).unwrap();
    let sections = document.split("\n## ");
    let section = sections.into_iter().find(|section| section.starts_with(&format!("`{file}`\n"))).unwrap();
    let fields = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    fields.map(str::to_owned).collect()
}

/// A result as `--format json` prints it.
pub(crate) fn written(result: &impl Serialize) -> Value {
    serde_json::from_str(&report::json::render(result).unwrap()).unwrap()
}

/// The paths of all values in a document. Values that the table describes as a whole are not
/// divided.
pub(crate) fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let name = path.rsplit('.').next().unwrap_or(path);
    let is_estimate = |object: &serde_json::Map<String, Value>| object.contains_key("low");
    match value {
        Value::Object(object)
            if !is_estimate(object) && !["factors", "largest_gap_factors", "machine", "report"].contains(&name) =>
        {
            inner(object, path, found);
        }
        Value::Object(object) if path == "runs[].machine" => inner(object, path, found),
        Value::Array(items) => {
            let path = format!("{path}[]");
            if items.iter().all(|item| !item.is_object()) {
                found.insert(path);
            } else {
                items.iter().for_each(|item| fields(item, &path, found));
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn inner(object: &serde_json::Map<String, Value>, path: &str, found: &mut BTreeSet<String>) {
    for (key, value) in object {
        fields(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
    }
}

#[test]
fn exactly_the_fields_of_the_files_are_documented() {
    let folder = tempfile::tempdir().unwrap();
    let timeline = r#"[{ "at_ns": 7000, "job": 1, "runnable": 2, "sleeping": 1 }]"#;
    let pipeline = "stages = [{ name = \"read\", kind = \"io\", device = \"1 ms\" }]\nbuffers = 1\nrounds = 1";
    let fibers = "groups = [{ name = \"all\", fibers = 3, compute = \"1 us\" }]";
    let ranks = "ranks = 2\npattern = \"ring\"\nbytes = 1\nrounds = 1\nwaiting = \"cs\"";
    let jobs = [("line", "pipeline", pipeline), ("fibers", "fibers", fibers), ("ranks", "message", ranks)];
    let job = |(name, kind, of)| format!("\n[[job]]\nname = \"{name}\"\nkind = \"{kind}\"\n{of}\n");
    let scenario = CREW.to_owned() + &jobs.map(job).concat();
    Mock { timeline, ..Mock::new() }.experiment(read(&scenario), BOTH, folder.path());
    for file in ["report.json", "manifest.json"] {
        let mut found = BTreeSet::new();
        fields(&serde_json::from_slice(&fs::read(folder.path().join(file)).unwrap()).unwrap(), "", &mut found);
        assert_eq!(found, documented(file), "{file}");
    }
    for file in ["runs.csv", "timeline.csv"] {
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        let columns = text.lines().next().unwrap().split(',').filter(|column| !column.contains('.'));
        assert_eq!(columns.map(str::to_owned).collect::<BTreeSet<_>>(), documented(file), "{file}");
    }
}

#[test]
fn exactly_the_fields_of_a_regression_are_documented() {
    let question = Question { on: "y".into(), from: vec!["x".into()], with_intercept: true };
    let found = regress("x,y\n1,2\n2,3\n3,5\n".as_bytes(), &question).unwrap();
    let value = written(&found);
    let mut found: BTreeSet<String> = value.as_object().unwrap().keys().cloned().collect();
    found.remove("intercept");
    found.remove("coefficients");
    found.extend(
        fields_of(&value["intercept"], "intercept")
            .into_iter()
            .chain(fields_of(&value["coefficients"][0], "coefficients[]")),
    );
    assert_eq!(found, documented("rowlock regress --format json"));
}

fn fields_of(value: &Value, path: &str) -> Vec<String> {
    value.as_object().unwrap().keys().map(|key| format!("{path}.{key}")).collect()
}

#[test]
fn an_estimate_has_the_documented_fields() {
    let estimate = stats::mean(&[1.0, 2.0]).unwrap();
    let Value::Object(object) = serde_json::to_value(estimate).unwrap() else { panic!("no object") };
    assert_eq!(object.keys().collect::<Vec<_>>(), ["high", "low", "mean", "samples"]);
}
