//! Parses one line of a trace: thread, CPU, time and event.
//!
//! `perf script`, `trace-cmd report` and tracefs print the same payload after different headers:
//!
//! ```text
//!     a name-29410   (  29409) [000] d..2.  3615.478643: sched_switch: prev_comm=a name ...
//!     a name 29409/29410 [000]  3616.441505:       sched:sched_switch: prev_comm=a name ...
//!     a name-29410 [000]  3616.441505: sched_switch: a name:29410 [120] S ==> swapper/0:0 [120]
//! ```
//!
//! Names may contain blanks, brackets and colons. So the header ends at the first `[CPU]` that is
//! followed by a time and an event, and payloads are parsed from their ends.

use policy::Instant;

/// A line with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    /// The time.
    pub at: Instant,
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran on the CPU, and its process if the line contains it.
    pub current: Option<(u32, Option<u32>)>,
    /// The event.
    pub event: Event<'t>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'t> {
    /// The CPU switched from one thread to another.
    Switch {
        /// The previous thread.
        from: Task<'t>,
        /// The state in which it left the CPU.
        how: SwitchOut,
        /// The next thread.
        to: Task<'t>,
    },
    /// A thread was woken.
    Wakeup(Task<'t>),
    /// A thread was created.
    New(Task<'t>),
    /// Any other event.
    Other,
}

/// A thread as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'t> {
    /// The name, of which the kernel writes at most 15 bytes.
    pub name: &'t str,
    /// The id; 0 for all idle threads.
    pub id: u32,
    /// The priority: 100 to 139 for nice -20 to 19, less for real-time threads.
    pub priority: i32,
}

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchOut {
    /// Ready to run.
    Ready,
    /// Asleep.
    Asleep,
    /// Asleep without adding to the load, which only kernel threads do.
    Idle,
    /// Ended.
    Ended,
}

/// The result of parsing a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedLine<'t> {
    /// An event.
    Event(Line<'t>),
    /// A number of events is missing here.
    Lost(u64),
    /// The number of CPUs.
    Cpus(u32),
    /// A comment or a blank line.
    Blank,
    /// Not a valid event; may be truncated.
    Broken,
}

/// Parses a line.
pub fn parse(line: &str) -> ParsedLine<'_> {
    let text = line.trim();
    if text.is_empty() {
        return ParsedLine::Blank;
    }
    if let Some(comment) = text.strip_prefix('#') {
        let cpus = comment.rsplit_once("#P:").and_then(|(_, cpus)| cpus.trim().parse().ok());
        return cpus.map_or(ParsedLine::Blank, ParsedLine::Cpus);
    }
    if let Some(line) = bracket_pairs(text).find_map(|(open, close)| event(text, open, close)) {
        return line;
    }
    lost(text).map_or(ParsedLine::Broken, ParsedLine::Lost)
}

/// Parses `CPU:1 [LOST 12 EVENTS]`, `CPU 1: 12 EVENTS DROPPED`, `PERF_RECORD_LOST lost 12`.
fn lost(text: &str) -> Option<u64> {
    let upper = text.to_ascii_uppercase();
    let is_lost =
        (upper.contains("LOST") || upper.contains("DROPPED")) && (upper.contains("EVENT") || upper.contains("PERF_"));
    let number =
        || upper.split(|c: char| !c.is_ascii_alphanumeric() && c != ':').rev().find_map(|word| word.parse().ok());
    is_lost.then(|| number().unwrap_or(1))
}

/// The positions of each `[` and the `]` after it.
fn bracket_pairs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.match_indices('[').filter_map(|(open, _)| Some((open, open + text.get(open..)?.find(']')?)))
}

/// Parses the line if these brackets enclose its CPU.
fn event(text: &str, open: usize, close: usize) -> Option<ParsedLine<'_>> {
    let cpu = text.get(open + 1..close)?.parse().ok()?;
    let (first, rest) = word(text.get(close + 1..)?)?;
    let (at, rest) = match time(first) {
        Some(at) => (at, rest),
        // Skips the flags for interrupts and preemption.
        None => {
            let (second, rest) = word(rest)?;
            (time(second)?, rest)
        }
    };
    let (name, payload) = word(rest)?;
    let name = name.strip_suffix(':')?;
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let event = match name {
        "sched_switch" => switch(payload),
        "sched_waking" | "sched_wakeup" => task(payload).map(Event::Wakeup),
        "sched_wakeup_new" => task(payload).map(Event::New),
        // The thread will leave its CPU soon.
        "sched_process_exit" => task(payload).map(|_| Event::Other),
        _ => Some(Event::Other),
    };
    let line = |event| {
        ParsedLine::Event(Line { at, cpu, current: current_thread(text.get(..open).unwrap_or_default()), event })
    };
    Some(event.map_or(ParsedLine::Broken, line))
}

/// The next word and the text after it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses `SECONDS.FRACTION:`.
fn time(word: &str) -> Option<Instant> {
    let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(seconds) || !all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    Some(Instant::from_nanos(seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?))
}

/// Parses thread and process before the CPU: `name-TID`, `name-TID (TGID)`, `name TID`, `name
/// TGID/TID`.
fn current_thread(head: &str) -> Option<(u32, Option<u32>)> {
    let head = head.trim_end();
    let (head, process) = match head.strip_suffix(')').and_then(|head| head.rsplit_once('(')) {
        Some((head, process)) => (head.trim_end(), process.trim().parse().ok()),
        None => (head, None),
    };
    let last = head.rsplit(char::is_whitespace).next()?;
    if let Some((process, thread)) = last.split_once('/')
        && let (Ok(process), Ok(thread)) = (process.parse(), thread.parse())
    {
        return Some((thread, Some(process)));
    }
    let thread = last.parse().or_else(|_| last.rsplit('-').next().unwrap_or_default().parse()).ok()?;
    Some((thread, process))
}

fn switch(payload: &str) -> Option<Event<'_>> {
    let (left, right) = payload.rsplit_once(" ==> ")?;
    if left.trim_start().starts_with("prev_comm=") {
        let (before, state) = left.rsplit_once(" prev_state=")?;
        let from = fields(before, ["prev_comm=", " prev_pid=", " prev_prio="])?;
        let to = fields(right, ["next_comm=", " next_pid=", " next_prio="])?;
        return Some(Event::Switch { from, how: switch_out(state)?, to });
    }
    let (before, state) = left.trim_end().rsplit_once(' ')?;
    Some(Event::Switch { from: short(before)?, how: switch_out(state)?, to: short(right)? })
}

/// Parses the thread of an event other than a switch.
fn task(payload: &str) -> Option<Task<'_>> {
    if payload.trim_start().starts_with("comm=") {
        return fields(payload, ["comm=", " pid=", " prio="]);
    }
    // More text follows: `name:ID [PRIORITY] success=1 CPU:000`.
    let end = payload.rfind(']')?;
    short(payload.get(..=end)?)
}

/// Parses `comm=a name pid=12 prio=120` with optional text after it.
fn fields<'t>(text: &'t str, [name, id, priority]: [&str; 3]) -> Option<Task<'t>> {
    let (before, rest) = text.trim_start().strip_prefix(name)?.rsplit_once(priority)?;
    let (name, id) = before.rsplit_once(id)?;
    Some(Task { name, id: id.trim().parse().ok()?, priority: word(rest)?.0.parse().ok()? })
}

/// Parses `a name:12 [120]`.
fn short(text: &str) -> Option<Task<'_>> {
    let (head, priority) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    let (name, id) = head.rsplit_once(':')?;
    Some(Task { name, id: id.parse().ok()?, priority: priority.parse().ok()? })
}

/// Parses `S`, `R+`, `X|Z`: letters of `TASK_STATE_TO_CHAR_STR`, and a `+` after a preemption.
fn switch_out(state: &str) -> Option<SwitchOut> {
    match state.trim().chars().next()? {
        'R' => Some(SwitchOut::Ready),
        'X' | 'Z' | 'x' => Some(SwitchOut::Ended),
        'I' => Some(SwitchOut::Idle),
        'S' | 'D' | 'T' | 't' | 'P' | 'K' | 'W' | 'N' => Some(SwitchOut::Asleep),
        _ => None,
    }
}
