//! A fiber's backtrace.
//!
//! The fiber need not run for it: a function is called [as if from where its stack was
//! left](crate::arch::as_if_called_from), and walks up the stack like any other function. So the
//! fiber's stack needs no room for it, and its next turn starts as if nothing had happened.
//!
//! # Nothing waits during the walk
//! If the calling fiber waits in the kernel, an interrupted fiber may run on its [donated
//! timeslice](crate::preempt). If the stack of that fiber is being walked, it changes during the
//! walk. So the walk takes no lock, and writes to memory that was allocated before.
//! `std::backtrace::Backtrace` does neither: it takes a lock of the whole process, and allocates
//! while it walks. Names are looked up when the trace is shown. (Finding a function's tables takes
//! no lock since glibc 2.35. Before, it may wait for a thread that loads a library.)

use std::ffi::c_void;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::arch::as_if_called_from;
use crate::record::Fiber;

/// The maximum number of functions in a backtrace.
const MOST: usize = 1024;

/// The functions that a fiber was in, innermost first and at most 1024, with files and lines if the
/// program has them. A kernel thread looks them up when the trace is shown; if none can be started,
/// the trace shows addresses.
#[derive(Clone)]
pub struct Trace(Arc<[usize]>);

impl Trace {
    /// Of the calling fiber.
    #[inline(never)]
    pub(crate) fn here() -> Trace {
        let mut callers = Vec::with_capacity(MOST);
        walk((&raw mut callers).cast());
        Trace(callers.into())
    }

    /// Of another fiber.
    ///
    /// # Safety
    /// Its stack was left, and only the calling thread may continue there.
    pub(crate) unsafe fn of(fiber: Fiber) -> Trace {
        let mut callers: Vec<usize> = Vec::with_capacity(MOST);
        // The allocator may have waited while the fiber ran and was left elsewhere, so the context
        // is read only now. SAFETY: the caller's promise, and nothing waits until the walk is over;
        // the function gets what it expects.
        unsafe { as_if_called_from(fiber.context.get(), walk, (&raw mut callers).cast()) };
        Trace(callers.into())
    }
}

impl Trace {
    /// Looks up the functions on a kernel thread, because that takes more stack than many fibers
    /// have. Without a thread there are only addresses.
    fn functions(&self) -> Vec<Frame> {
        let addresses = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("rowlock-names".into()).spawn(move || look_up(&addresses));
        let found = thread.ok().and_then(|thread| thread.join().ok());
        found.unwrap_or_else(|| nameless(&self.0))
    }
}

/// Adds the addresses of all callers, as far as there is room. Neither allocates nor waits.
extern "C" fn walk(callers: *mut ()) {
    // SAFETY: the caller has passed one.
    let callers = unsafe { &mut *callers.cast::<Vec<usize>>() };
    let add = |frame: &backtrace::Frame| {
        callers.push(frame.ip().addr());
        callers.len() < callers.capacity()
    };
    // SAFETY: the lock that this does without is for Windows, whose walk has state.
    unsafe { backtrace::trace_unsynchronized(add) };
}

/// A function of a backtrace, as it is shown, and its place: file, line and column, or nothing.
struct Frame {
    name: String,
    place: String,
}

/// The functions at these addresses, including inlined ones.
fn look_up(addresses: &[usize]) -> Vec<Frame> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut frames = Vec::new();
    for &address in addresses.iter().filter(|&&address| address != 0) {
        let known = frames.len();
        backtrace::resolve(address as *mut c_void, |symbol| {
            let name = symbol.name().map_or_else(|| UNKNOWN.to_owned(), |name| format!("{name:#}"));
            let place = symbol.filename().zip(symbol.lineno()).map(|(file, line)| {
                let file = file.strip_prefix(&here).map_or_else(|_| file.to_owned(), |file| Path::new(".").join(file));
                let column = symbol.colno().map_or_else(String::new, |column| format!(":{column}"));
                format!("{}:{line}{column}", file.display())
            });
            frames.push(Frame { name, place: place.unwrap_or_default() });
        });
        if frames.len() == known {
            frames.push(Frame { name: UNKNOWN.to_owned(), place: String::new() });
        }
    }
    frames
}

/// The addresses in place of the functions.
fn nameless(addresses: &[usize]) -> Vec<Frame> {
    let known = addresses.iter().filter(|&&address| address != 0);
    known.map(|address| Frame { name: format!("{address:#x}"), place: String::new() }).collect()
}

/// Functions that take a trace: neither they nor what they call belongs to the fiber.
const LOOKS: [&str; 3] = ["as_if_called_from", "snapshot_all_fibers", "handle_deadlock"];

/// The files in which a fiber stops.
const STOPS: [&str; 8] = [
    "src/control_block.rs",
    "src/worker.rs",
    "src/change.rs",
    "src/start.rs",
    "src/arch/",
    "src/preempt.rs",
    "src/preempt/",
    "src/tick.rs",
];

/// Shown for a function without a name.
const UNKNOWN: &str = "<unknown>";

/// Where the kernel or the C library makes a signal handler return to, if it has a name. It looks
/// as if the interrupted function had called it.
const RETURNS: [&str; 3] = [UNKNOWN, "__restore_rt", "__kernel_rt_sigreturn"];

/// The first function on a stack, and its file.
const BEGINS: (&str, &str) = ("begin", "src/start.rs");

/// The files of functions between that and the fiber's function.
const CALLS: [&str; 7] = [
    "src/start.rs",
    "src/fiber_thread.rs",
    "src/task.rs",
    "std/src/panicking.rs",
    "std/src/panic.rs",
    "core/src/panic/unwind_safe.rs",
    "core/src/ops/function.rs",
];

impl Frame {
    fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.place.contains(place))
    }
}

/// The functions that belong to the fiber's own work.
fn essence(mut frames: Vec<Frame>) -> Vec<Frame> {
    let looks = |frame: &Frame| LOOKS.iter().any(|name| frame.name.contains(name));
    let first = frames.iter().rposition(looks).map_or(0, |last| last + 1);
    let stops = frames[first..].iter().take_while(|frame| frame.is_in(&STOPS)).count();
    let returns = |frame: &Frame| frame.place.is_empty() && RETURNS.contains(&frame.name.as_str());
    let first = first + stops + usize::from(stops > 0 && frames.get(first + stops).is_some_and(returns));
    let begins = frames.iter().rposition(|frame| frame.name.ends_with(BEGINS.0) && frame.is_in(&[BEGINS.1]));
    let calls = |frame: &Frame| frame.is_in(&CALLS) || frame.name.contains("__rust_try");
    let last = begins
        .map_or(frames.len(), |begins| begins - frames[..begins].iter().rev().take_while(|frame| calls(frame)).count());
    frames.drain(first..last.max(first)).collect()
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, frame) in essence(self.functions()).iter().enumerate() {
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

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace(\n{self}\n)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(frames: &[(&str, &str)]) -> Vec<String> {
        let frame = |&(name, place): &(&str, &str)| Frame { name: name.to_owned(), place: place.to_owned() };
        essence(frames.iter().map(frame).collect()).into_iter().map(|frame| frame.name).collect()
    }

    #[test]
    fn functions_that_take_a_trace_or_start_a_fiber_are_left_out() {
        let waits = [
            ("backtrace::trace_unsynchronized", ""),
            ("walk", "./src/trace.rs:1:2"),
            ("rowlock_fiber::arch::x86_64::as_if_called_from", ""),
            ("change", "./src/change.rs:3:4"),
            ("block", "./src/worker.rs:3:4"),
            ("lock", "./src/lock.rs:5:6"),
            ("parse", "./parser.rs:7:8"),
            ("__rust_try", ""),
            ("run", "./src/task.rs:9:1"),
            ("begin", "./src/start.rs:9:1"),
            ("entry", ""),
        ];
        assert_eq!(names(&waits), ["lock", "parse"]);
        let interrupted = [
            ("as_if_called_from", ""),
            ("handle_tick", "./src/preempt.rs:1:2"),
            ("run", "./src/tick.rs:3:4"),
            (UNKNOWN, ""),
            ("compute", "./parser.rs:5:6"),
        ];
        assert_eq!(names(&interrupted), ["compute"]);
        assert_eq!(names(&[("alone", ""), ("again", "")]).len(), 2);
    }

    #[test]
    fn a_trace_names_functions_and_places() {
        let text = Trace::here().to_string();
        assert!(text.contains("a_trace_names_functions_and_places"), "{text}");
        assert!(text.contains("src/trace.rs:"), "{text}");
    }
}
