//! Converts textual traces of the kernel's scheduling events to scenarios.
//!
//! A trace shows how long a thread ran between two sleeps and how long it slept, but not why.
//! Therefore:
//!
//! * A thread that never slept, or ran only once, becomes a `cpu` job with the work that it did.
//!   Threads of one process that began together become the threads of one job.
//! * A thread that slept becomes a `pipeline` with one buffer and one stage of kind `communicate`:
//!   it computes for the length of a burst, then pauses, as often as it did. Only the thread itself
//!   waits for such a stage. Bursts and pauses become empirical distributions. Threads with the
//!   same name that began together and ran equally often become copies of one job.
//!
//! A trace does not contain locks and barriers: waiting for another thread appears as a pause.
//! Sources of the format: the kernel's `include/trace/events/sched.h` (Linux 6.18),
//! `Documentation/trace/ftrace.rst`, and the output of perf 6.1 and Linux 6.18. `trace-cmd report`
//! and older perf print the payloads of libtraceevent's plugin, which are accepted as well.
//!
//! Deviations, each reported in a note when it occurs:
//!
//! * Idle threads, kernel threads and real-time threads are omitted. A kernel thread is
//!   recognizable by its name, or because it leaves its CPU in state `I`, which only kernel threads
//!   do.
//! * A burst or pause counts only if all of it was recorded. It does not count at both ends of the
//!   trace, at lost events, and if a thread appears or disappears without an event. A trace of only
//!   some threads has such gaps when it switches to others.
//! * A pause without a wakeup is assumed to end when the thread runs again.
//! * In the scenario a thread always ends with a pause.
//! * More than [`MOST_VALUES`] different lengths are reduced to as many quantiles.

mod history;
pub mod line;
mod scenario;

use std::borrow::Cow;

use self::history::History;
use self::line::ParsedLine;
use crate::{ImportError, Imported};

pub use self::scenario::MOST_VALUES;

/// The longest line, in bytes. The kernel's are shorter. The rest of a longer one is ignored.
const LONGEST_LINE: usize = 64 << 10;

/// Whether a file looks like such a trace.
pub fn is_likely(bytes: &[u8]) -> bool {
    lines(bytes).take(10_000).any(|line| matches!(line::parse(&line), ParsedLine::Event(_)))
}

/// The lines of a file. Names of threads need not be valid text, which takes up to three times the
/// memory after it is replaced: so that is done line by line.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    bytes.split(|&byte| byte == b'\n').map(|line| String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]))
}

/// Reads a trace with any content. `name` appears in the scenario's title.
///
/// # Errors
///
/// Returns [`ImportError::Empty`] if no thread in the trace can become a job.
pub fn read(name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    let mut history = History::default();
    let mut notes = Vec::new();
    let mut cpus = None;
    let mut broken: Option<(usize, usize)> = None;
    let mut lost = 0_u64;
    for (number, line) in (1..).zip(lines(bytes)) {
        match line::parse(&line) {
            ParsedLine::Event(line) => history.add(&line),
            ParsedLine::Lost(events) => {
                lost = lost.saturating_add(events);
                history.lose_track();
            }
            ParsedLine::Cpus(number) => cpus = Some(number),
            ParsedLine::Blank => {}
            ParsedLine::Broken => broken = Some(broken.map_or((1, number), |(count, first)| (count + 1, first))),
        }
    }
    history.finish();
    if let Some((count, first)) = broken {
        let count = scenario::count_of(count, "line");
        notes.push(format!("left out: {count} without a readable event; the first is line {first}"));
    }
    if lost > 0 {
        let lost = scenario::count_of(usize::try_from(lost).unwrap_or(usize::MAX), "event");
        notes.push(format!("the trace has lost {lost}: bursts and pauses at that time do not count"));
    }
    let toml = scenario::write(name, &history, cpus, &mut notes).ok_or_else(|| {
        let found = if history.extent.is_none() { "no scheduling event" } else { "no thread that was recorded from one sleep to the next" };
        let why = if notes.is_empty() { String::new() } else { format!("\n  {}", notes.join("\n  ")) };
        ImportError::Empty(format!(
            "there is {found} in {name}: is it the output of `perf script`, `trace-cmd report` or tracefs, with sched_switch and \
             sched_waking?{why}"
        ))
    })?;
    Imported::checked(toml, notes)
}
