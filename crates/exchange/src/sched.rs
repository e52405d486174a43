//! Traces of the kernel's scheduling events, as text: who ran when on which CPU becomes a scenario.
//!
//! What a trace shows of a thread is how long it ran between two sleeps and how long it slept, not why. So
//!
//! * a thread that never slept, or ran but once, is a `cpu` job of the work that it did; those of one process that began together are
//!   the threads of one job;
//! * a thread that slept is a `pipeline` of one buffer and one stage of kind `communicate`: it computes as long as a burst was, then
//!   pauses, as often as it did. Nobody but the thread waits for such a stage. Bursts and pauses are empirical distributions of
//!   what was seen; threads of one name that began together and ran as often are copies of one job.
//!
//! Locks and barriers are not in a trace: who waited for whom comes out as pauses. Sources of the format: the kernel's
//! `include/trace/events/sched.h` (Linux 6.18), `Documentation/trace/ftrace.rst`, and what perf 6.1 and a kernel 6.18 print;
//! `trace-cmd report` and older perf print the payloads of libtraceevent's plugin, which are taken as well.
//!
//! Deviations, all of them told in notes where they come up:
//!
//! * Idleness, kernel threads and real-time threads are left out. A kernel thread shows by its name, or by leaving its CPU as `I`, which
//!   only kernel threads do.
//! * A burst or a pause that was not seen whole does not count: at both ends of the trace, where events were lost, and where a thread
//!   turns up or is gone without a word (a trace of a few threads only has gaps where it switches to others).
//! * A pause without its wakeup is taken to end where the thread runs again.
//! * A thread ends with a pause in the scenario, whether it did or not.
//! * More than [`MOST_VALUES`] different lengths are thinned to so many quantiles.

mod history;
pub mod line;
mod scenario;

use self::history::History;
use self::line::ParsedLine;
use crate::{ImportError, Imported};

pub use self::scenario::MOST_VALUES;

/// Whether a text looks like such a trace.
pub fn is_likely(text: &str) -> bool {
    text.lines().take(10_000).any(|line| matches!(line::parse(line), ParsedLine::Event(_)))
}

/// Reads a trace; `name` is what the scenario's title calls it. Any bytes will do.
///
/// # Errors
///
/// [`ImportError::Empty`] where there is no thread in it of which a scenario could be made.
pub fn read(name: &str, bytes: &[u8]) -> Result<Imported, ImportError> {
    let text = String::from_utf8_lossy(bytes);
    let mut history = History::default();
    let mut notes = Vec::new();
    let mut cpus = None;
    let mut broken: Option<(usize, usize)> = None;
    let mut lost = 0_u64;
    for (number, line) in (1..).zip(text.lines()) {
        match line::parse(line) {
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
        notes.push(format!("left out: {count} without an event that can be read, the first of them line {first}"));
    }
    if lost > 0 {
        let lost = scenario::count_of(usize::try_from(lost).unwrap_or(usize::MAX), "event");
        notes.push(format!("the trace has lost {lost}: what was under way then does not count"));
    }
    let toml = scenario::write(name, &history, cpus, &mut notes).ok_or_else(|| {
        let found = if history.extent.is_none() { "no scheduling event" } else { "no thread that could be seen from one sleep to the next" };
        let why = if notes.is_empty() { String::new() } else { format!("\n  {}", notes.join("\n  ")) };
        ImportError::Empty(format!(
            "there is {found} in {name}: is it the output of `perf script`, `trace-cmd report` or tracefs, with sched_switch and \
             sched_waking?{why}"
        ))
    })?;
    Imported::checked(toml, notes)
}
