//! The files that environment variables ask for. The test runs in a process with these variables.

use std::process::Command;

use rowlock_pipeline::{Flow, Pipeline, environment};
use serde_json::Value;

fn zip_and_ask() {
    Pipeline::new("trace")
        .rounds(2000)
        .io("zip", |_, _| Ok(Flow::Convey))
        .io("ask", |_, _| Ok(Flow::Convey))
        .fused()
        .run()
        .unwrap();
}

#[test]
fn with_several_runs_the_trace_holds_one_and_the_report_all() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, report] = ["trace.json", "report.json"].map(|name| folder.path().join(name));
    let start = |mut command: Command| {
        testing::expect_pass(command.env(environment::TRACE, &trace).env(environment::REPORT, &report));
        let read: Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), 4000);
        // Fused stages have one row, named after all of them in order.
        let rows = events.iter().filter(|event| event["name"] == "thread_name");
        assert_eq!(rows.map(|row| row["args"]["name"].as_str().unwrap()).collect::<Vec<_>>(), ["zip+ask"]);
        assert_eq!(std::fs::read_to_string(report).unwrap().lines().count(), 8);
    };
    testing::isolated_by(start, || {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(zip_and_ask);
            }
        });
    });
}
