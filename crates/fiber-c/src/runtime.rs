//! The runtime, which the first call starts, and its configuration.

use std::cell::Cell;
use std::ffi::{c_int, c_uint};

use fiber::foreign::{self, Id};
use fiber::{Config, Runtime};
use policy::Span;
use policy::feedback::{Boost, FeedbackRules};

use crate::arch::SavedModes;

thread_local! {
    /// The rules that were configured before the runtime started.
    static RULES: Cell<Option<FeedbackRules>> = const { Cell::new(None) };
}

/// Whether this is the main thread of the process.
fn is_main() -> bool {
    // SAFETY: both only return numbers.
    unsafe { libc::getpid() == libc::gettid() }
}

/// The calling fiber; starts the runtime if there is none yet. EPERM on another thread, EAGAIN if
/// there is no memory.
#[inline(always)]
pub(crate) fn me() -> Result<Id, c_int> {
    match foreign::current() {
        Some(id) => Ok(id),
        None => begin(),
    }
}

#[cold]
fn begin() -> Result<Id, c_int> {
    if !is_main() {
        return Err(libc::EPERM);
    }
    let config = Config { rules: RULES.get().unwrap_or_default(), ..Config::default() };
    // SAFETY: the main thread lasts as long as the process.
    unsafe { Runtime::new(config).adopt() }.map_err(|_| libc::EAGAIN)?;
    foreign::current().ok_or(libc::EAGAIN)
}

/// Runs the body of a C function with the calling fiber, and returns its status. Afterwards the
/// thread has its floating-point modes again, although others may have run.
#[inline(always)]
pub(crate) fn enter(body: impl FnOnce(Id) -> Result<(), c_int>) -> c_int {
    let _modes = SavedModes::now();
    status(me().and_then(body))
}

/// The return value of a C function.
fn status(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_configure(levels: c_uint, running_time_us: c_uint) -> c_int {
    status(if levels == 0 || levels > FeedbackRules::MOST_LEVELS || running_time_us == 0 {
        Err(libc::EINVAL)
    } else if foreign::current().is_some() {
        Err(libc::EBUSY)
    } else if !is_main() {
        Err(libc::EPERM)
    } else {
        let running_time = Span::from_micros(running_time_us.into());
        // As in the default rules: a boost every hundred running times.
        let boost = Boost::Every(Span::from_micros(u64::from(running_time_us) * 100));
        RULES.set(Some(FeedbackRules { levels, running_time, boost }));
        Ok(())
    })
}
