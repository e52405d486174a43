//! Where a fiber is: its backtrace.
//!
//! A fiber that does not run is asked for nothing: a function is called [as if from where its stack was left](crate::arch::as_if_called_from), and it looks for its callers
//! as any other does. So it need not have room for that on its stack, and its next turn begins as if nobody had looked.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::sync::Arc;

use crate::arch::{Context, as_if_called_from};

/// How a backtrace is taken: always, or as `RUST_BACKTRACE` says.
pub(crate) type Take = fn() -> Backtrace;

/// The functions that a fiber was in, the innermost first, with files and lines where the program has them. They are looked up when it is shown.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Backtrace>);

impl Trace {
    /// Of the fiber that asks. None where backtraces are not taken, or cannot be.
    #[inline(never)]
    pub(crate) fn here(take: Take) -> Option<Trace> {
        let trace = take();
        (trace.status() == BacktraceStatus::Captured).then(|| Trace(Arc::new(trace)))
    }

    /// Of a stack that was left.
    ///
    /// # Safety
    /// Nobody goes on there meanwhile.
    pub(crate) unsafe fn of(context: Context, take: Take) -> Option<Trace> {
        let mut asked = Asked { take, trace: None };
        // SAFETY: the caller's promise; the function takes what it is given here. A panic in it would end the program.
        unsafe { as_if_called_from(context, look, std::ptr::from_mut(&mut asked).cast()) };
        asked.trace
    }
}

struct Asked {
    take: Take,
    trace: Option<Trace>,
}

extern "C" fn look(asked: *mut ()) {
    // SAFETY: it is what `Trace::of` passes.
    let asked = unsafe { &mut *asked.cast::<Asked>() };
    asked.trace = Trace::here(asked.take);
}

/// A function of a backtrace, as it is shown, and its place.
struct Frame<'a> {
    name: &'a str,
    place: &'a str,
}

/// What looks: all that is inside of these is not the fiber's doing.
const LOOKS: [&str; 3] = ["as_if_called_from", "all_fibers_as_they_are", "nobody_can_go_on"];

/// Where a fiber stops, whatever it stops for.
const STOPS: [&str; 9] = [
    "src/block.rs",
    "src/worker.rs",
    "src/change.rs",
    "src/start.rs",
    "src/arch/",
    "src/unwinding.rs",
    "src/preempt.rs",
    "src/preempt/",
    "src/tick.rs",
];

/// What the kernel or the C library has a signal's handler return to, where it has a name. It is what a fiber was interrupted at that called it, so to speak.
const RETURNS: [&str; 3] = ["<unknown>", "__restore_rt", "__kernel_rt_sigreturn"];

/// What a stack begins with, and its place.
const BEGINS: (&str, &str) = ("begin", "src/start.rs");

/// What is between that and the fiber's function.
const CALLS: [&str; 7] = [
    "src/start.rs",
    "src/guest.rs",
    "src/task.rs",
    "std/src/panicking.rs",
    "std/src/panic.rs",
    "core/src/panic/unwind_safe.rs",
    "core/src/ops/function.rs",
];

impl Frame<'_> {
    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.place.contains(place))
    }
}

/// What a fiber does by itself.
fn essence<'a>(text: &'a str) -> Vec<Frame<'a>> {
    let mut frames: Vec<Frame<'a>> = Vec::new();
    for line in text.lines().map(str::trim) {
        match (line.strip_prefix("at "), frames.last_mut()) {
            (Some(place), Some(frame)) => frame.place = place,
            _ => frames.push(Frame { name: line.split_once(": ").map_or(line, |(_, name)| name), place: "" }),
        }
    }
    let looks = |frame: &Frame<'_>| LOOKS.iter().any(|name| frame.name.contains(name));
    let first = frames.iter().rposition(looks).map_or(0, |last| last + 1);
    let stops = frames[first..].iter().take_while(|frame| frame.is_in(&STOPS)).count();
    let returns = |frame: &Frame<'_>| frame.place.is_empty() && RETURNS.contains(&frame.name);
    let first = first + stops + usize::from(stops > 0 && frames.get(first + stops).is_some_and(returns));
    let begins = frames.iter().rposition(|frame| frame.name.ends_with(BEGINS.0) && frame.is_in(&[BEGINS.1]));
    let calls = |frame: &Frame<'_>| frame.is_in(&CALLS) || frame.name.contains("__rust_try");
    let last = begins
        .map_or(frames.len(), |begins| begins - frames[..begins].iter().rev().take_while(|frame| calls(frame)).count());
    frames.drain(first..last.max(first)).collect()
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        for (number, frame) in essence(&text).iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{number:>8}: {}", frame.name)?;
            if !frame.place.is_empty() {
                write!(f, "\n              at {}", frame.place)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_and_what_begins_a_fiber_is_left_out() {
        let text = "   0: std::backtrace::Backtrace::force_capture\n   1: here\n             at ./src/trace.rs:1:2\n   \
                    2: rowlock_fiber::arch::x86_64::as_if_called_from\n   3: change\n             at ./src/change.rs:3:4\n   \
                    4: block\n             at ./src/worker.rs:3:4\n   5: lock\n             at ./src/lock.rs:5:6\n   6: parse\n             at ./parser.rs:7:8\n   \
                    7: __rust_try\n   8: run\n             at ./src/task.rs:9:1\n   9: begin\n             at ./src/start.rs:9:1\n  10: entry";
        let names: Vec<_> = essence(text).iter().map(|frame| frame.name).collect();
        assert_eq!(names, ["lock", "parse"]);
        let text = "   0: as_if_called_from\n   1: is_interrupted\n             at ./src/preempt.rs:1:2\n   2: run\n             at ./src/tick.rs:3:4\n   3: \
                    <unknown>\n   4: compute\n             at ./parser.rs:5:6";
        assert_eq!(essence(text).iter().map(|frame| frame.name).collect::<Vec<_>>(), ["compute"]);
        assert_eq!(essence("   0: alone\n   1: again").len(), 2);
    }
}
