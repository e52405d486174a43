//! rt-app's JSON: tasks, and what each of them does again and again.
//!
//! Source: scheduler-tools/rt-app at commit 55cb0c0 of 2026, `doc/tutorial.txt` for what keys mean, `src/rt-app_parse_config.c` and
//! `src/rt-app.c` where it is silent: an event is whatever key *begins* with an event's name (`run`, `run0`, `run_read`), in the order of
//! the file; numbers are C's `int`, times in microseconds but for `duration` in seconds; without `phases` a `loop` repeats the
//! events, without a `loop` they are repeated for ever.
//!
//! What rt-app and its filter workgen take and strict JSON does not is taken here too: keys that come twice, comments, commas before a
//! closing bracket. What a scenario cannot honour is refused, with its place. Deviations:
//!
//! * The file's first comment is the scenario's title, as there is no other place for one.
//! * Two tasks of one name are two jobs, the second with a number, as by workgen; rt-app alone would keep the last.
//! * Of what says how rt-app measures and where it logs, nothing is kept; a note says so.
//! * A task that runs for ever becomes a job that ends when the others have ended; rt-app would go on.
//! * A task's instances are threads of one job where they compute, meet or lock, and copies of a job where they sleep.

mod convert;
mod task;
mod write;

use scenario::{Diagnostic, Diagnostics, Scenario};

use crate::{ImportError, Imported, json, quoted_toml};

pub use write::{Refusals, write};

/// Reads a file for rt-app; `name` is what its diagnostics call it.
///
/// # Errors
///
/// [`ImportError::Refused`] with everything that is wrong with it, or that a scenario cannot say.
pub fn read(name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => {
            let start = why.valid_up_to();
            let text = String::from_utf8_lossy(bytes);
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
        let diagnostic =
            Diagnostic::new(task.place.clone(), "all tasks run for ever, so that the scenario would not end");
        found.push(diagnostic.help("write a `loop` in one of them"));
    }
    if !found.is_empty() {
        return Err(refused(found));
    }
    let mut notes = file.notes;
    for task in file.tasks.iter().filter(|task| is_endless(task)) {
        notes.push(format!("task `{}` runs for ever in rt-app; its job ends when the others have ended", task.name));
    }
    Imported::checked(toml, notes)
}

/// Whether a scenario's experiment is what [`read`] gives to all: rt-app has nothing like it.
fn has_plain_experiment(scenario: &Scenario) -> bool {
    let experiment = &scenario.experiment;
    experiment.repeat == 3 && experiment.seed == 1
}
