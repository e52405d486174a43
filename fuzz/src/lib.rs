//! Fuzz targets: one function for every reader of bytes that others may have written.
//!
//! A target panics if it finds a defect. Most readers need more than not to panic: a value that was
//! read is written, read again, and compared.
//!
//! `.ci/fuzz` runs a target with libFuzzer. The test of this crate runs each target on its corpus:
//! put every input that found a defect into `fuzz/corpora/TARGET`, and the gate replays it.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![forbid(unsafe_code)]
#![allow(clippy::panic, clippy::expect_used, reason = "a target reports a defect by a panic")]

mod files;
mod machine;
mod mpi;
mod objects;
mod records;
mod scenarios;
mod texts;

/// A reader to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Reads the bytes.
    ///
    /// # Panics
    /// If the reader has a defect.
    pub read: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 23] = [
    Target { name: "scenario", read: scenarios::scenario },
    Target { name: "rt-app", read: scenarios::rt_app },
    Target { name: "scheduling-events", read: scenarios::scheduling_events },
    Target { name: "rules", read: texts::rules },
    Target { name: "structure", read: texts::structure },
    Target { name: "variants", read: texts::variants },
    Target { name: "thread-scheduling", read: texts::thread_scheduling },
    Target { name: "sort-keys", read: records::sort_keys },
    Target { name: "sorted-file", read: records::sorted_file },
    Target { name: "observations", read: texts::observations },
    Target { name: "pipeline-report", read: texts::pipeline_report },
    Target { name: "calibration", read: files::calibration },
    Target { name: "statistics", read: files::statistics },
    Target { name: "values", read: texts::values },
    Target { name: "environment", read: texts::environment },
    Target { name: "program", read: files::program },
    Target { name: "process", read: files::process },
    Target { name: "machine", read: machine::machine },
    Target { name: "control-groups", read: machine::control_groups },
    Target { name: "shared-object", read: objects::shared_object },
    Target { name: "result-folder", read: files::result_folder },
    Target { name: "table", read: files::table },
    Target { name: "process-management", read: mpi::process_management },
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
