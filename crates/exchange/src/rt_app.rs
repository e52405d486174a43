//! rt-app's JSON format: tasks and their repeated events.
//!
//! Source: scheduler-tools/rt-app at commit 55cb0c0 of 2026: `doc/tutorial.txt` for the meaning of
//! keys, and `src/rt-app_parse_config.c` and `src/rt-app.c` for details. Any key that *begins* with
//! the name of an event is an event (`run`, `run0`, `run_read`), in the order of the file. Numbers
//! are C's `int`; times are in microseconds, but `duration` is in seconds. Without `phases`, a
//! `loop` repeats the events; without a `loop`, they are repeated forever.
//!
//! The reader accepts what rt-app and its filter workgen accept beyond strict JSON: repeated keys,
//! comments, and commas before a closing bracket. It rejects everything that a scenario cannot
//! express, with its place. Deviations:
//!
//! * The first comment of the file is the scenario's title, as there is no other place for one.
//! * Two tasks with the same name become two jobs, the second with a number, as in workgen. rt-app
//!   alone would keep the last one.
//! * Settings for measuring and logging are ignored, with a note.
//! * A task that runs forever becomes a job that ends when the others end. rt-app would continue.
//! * A task's instances become threads of one job if they compute, meet or lock, and copies of a
//!   job if they sleep.

mod convert;
mod task;
mod write;

use scenario::{Diagnostic, Diagnostics, Scenario};

use crate::{ImportError, Imported, json, quoted_toml};

pub use write::{Refusals, write};

/// Reads a file for rt-app. `name` is its name in diagnostics.
///
/// # Errors
///
/// Returns [`ImportError::Refused`] with all problems: errors in the file and features that a
/// scenario cannot express.
pub fn read(name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => {
            let start = why.valid_up_to();
            // The text after that place is not needed, and could take three times its memory.
            let text = String::from_utf8_lossy(&bytes[..=start]);
            let found = Diagnostic::new(start..start + 1, "this is not UTF-8 text").help("is this a file for rt-app?");
            return Err(ImportError::Refused(Diagnostics::new(name, &text, vec![found])));
        }
    };
    let refused = |found| ImportError::Refused(Diagnostics::new(name, text, found));
    let document = json::read(text).map_err(|diagnostic| refused(vec![*diagnostic]))?;
    let mut found = Vec::new();
    let file = task::read(&document, &mut found);
    let title = document.comment.unwrap_or_else(|| format!("From {name}"));
    let mut toml = format!("title = {}\n\n[machine]\nlike = \"host\"\n", quoted_toml(&title));
    convert::jobs(&file.tasks, &mut toml, &mut found);
    let is_endless =
        |task: &task::Task| task.loops.times.is_none() || task.phases.iter().any(|phase| phase.loops.times.is_none());
    if let (true, Some(task)) = (found.is_empty() && file.tasks.iter().all(is_endless), file.tasks.first()) {
        let diagnostic = Diagnostic::new(task.place.clone(), "all tasks run forever, so the scenario would never end");
        found.push(diagnostic.help("write a `loop` in one of them"));
    }
    if !found.is_empty() {
        return Err(refused(found));
    }
    let mut notes = file.notes;
    for task in file.tasks.iter().filter(|task| is_endless(task)) {
        notes.push(format!("task `{}` runs forever in rt-app; its job ends when the others end", task.name));
    }
    Imported::checked(toml, notes)
}

/// Whether the experiment equals the one that [`read`] adds, since rt-app has no experiments.
fn has_plain_experiment(scenario: &Scenario) -> bool {
    let experiment = &scenario.experiment;
    experiment.repeat == 3 && experiment.seed == 1
}
