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

    /// Looks up the functions on a kernel thread, because that takes more stack than many fibers
    /// have. Without a thread there are only addresses.
    fn functions(&self) -> Vec<Function> {
        let addresses = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("rowlock-names".into()).spawn(move || look_up(&addresses, true));
        thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| look_up(&self.0, false))
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

/// A function of a backtrace, or its address if its name is unknown, and its place: file, line and
/// column, or nothing.
struct Function {
    name: String,
    place: String,
    /// It belongs to the library, or to what takes a trace.
    is_ours: bool,
}

/// The functions at these addresses, including inlined ones.
fn look_up(addresses: &[usize], with_names: bool) -> Vec<Function> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut functions = Vec::new();
    for &address in addresses.iter().filter(|&&address| address != 0) {
        let known = functions.len();
        let add = |symbol: &backtrace::Symbol| {
            let name = symbol.name().map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
            let is_ours = is_ours(&name, symbol.filename().unwrap_or(Path::new("")));
            let place = symbol.filename().zip(symbol.lineno()).map(|(file, line)| {
                let file = file.strip_prefix(&here).map_or_else(|_| file.to_owned(), |file| Path::new(".").join(file));
                let column = symbol.colno().map_or_else(String::new, |column| format!(":{column}"));
                format!("{}:{line}{column}", file.display())
            });
            functions.push(Function { name, place: place.unwrap_or_default(), is_ours });
        };
        if with_names {
            backtrace::resolve(address as *mut c_void, add);
        }
        if functions.len() == known {
            functions.push(Function { name: format!("{address:#x}"), place: String::new(), is_ours: false });
        }
    }
    functions
}

/// Whether a function of this name in this file belongs to the library, or to what takes a trace.
/// Names of inlined functions have no paths, and without debugging information there are no files.
fn is_ours(name: &str, file: &Path) -> bool {
    let file = file.to_string_lossy();
    let files = [file!().trim_end_matches("debug/trace.rs"), "src/tick.rs", "/backtrace-"];
    let name = name.trim_start_matches(['<', '&']);
    let names = ["rowlock_fiber::", "rowlock_sys::tick::", "backtrace::"];
    files.iter().any(|part| file.contains(part)) || names.iter().any(|start| name.starts_with(start))
}

impl Function {
    /// Whether this is where a signal handler returns to, in the kernel or the C library. It looks
    /// as if the interrupted function had called it.
    fn is_return(&self) -> bool {
        self.place.is_empty()
            && ["0x", "__restore_rt", "__kernel_rt_sigreturn"].iter().any(|n| self.name.starts_with(n))
    }
}

/// The functions that belong to the fiber's own work.
fn essence(functions: &[Function]) -> &[Function] {
    let begins = |function: &Function| function.name.contains("__rust_begin_short_backtrace");
    let functions = &functions[..functions.iter().position(begins).unwrap_or(functions.len())];
    let ours = functions.iter().take_while(|function| function.is_ours).count();
    let returns = ours > 0 && functions.get(ours).is_some_and(Function::is_return);
    &functions[ours + usize::from(returns)..]
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Function { name, place, .. }) in essence(&self.functions()).iter().enumerate() {
            write!(f, "{}{number:>8}: {name}", if number > 0 { "\n" } else { "" })?;
            if !place.is_empty() {
                write!(f, "\n              at {place}")?;
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

    #[test]
    fn functions_that_take_a_trace_or_start_a_fiber_are_left_out() {
        let names = |names: &[&str]| {
            let function = |&name: &&str| {
                let is_ours = is_ours(name, Path::new(""));
                Function { name: name.to_owned(), place: String::new(), is_ours }
            };
            let functions: Vec<_> = names.iter().map(function).collect();
            essence(&functions).iter().map(|function| function.name.clone()).collect::<Vec<_>>()
        };
        let begin = "rowlock_fiber::task::__rust_begin_short_backtrace";
        let waits = ["backtrace::trace", "<rowlock_fiber::lock::Lock>::lock", "parse", "core::f", begin, "run"];
        assert_eq!(names(&waits), ["parse", "core::f"]);
        let interrupted = ["rowlock_fiber::preempt::tick", "rowlock_sys::tick::run", "0x1234", "compute"];
        assert_eq!(names(&interrupted), ["compute"]);
        assert_eq!(names(&["alone", "again"]), ["alone", "again"]);
    }
}
