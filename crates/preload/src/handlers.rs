//! Signal handlers of the program, counted: then it is known that none has run during a call.
//!
//! In a job of `rowlock prun` the kernel gets a *counting* function in place of each handler. That
//! function counts, and calls the handler. There is one for each handler, and it is never for
//! another. So a change of a handler remains one step, and the program, which asks for its handlers
//! by the same functions, always sees its own.
//!
//! A handler that is installed in another way is not counted, such as by a system call of the
//! program. The kernel tells whether there is one ([`may_have_run`]). The C library itself has two,
//! which are for cancellation and for `setuid`. They change nothing that the program waits for.
//!
//! No function here allocates or locks: signal handlers may call all of them.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

use libc::{sighandler_t, siginfo_t};

use crate::real_symbols::real_symbols;
use crate::{preserve_errno, sandbox};

real_symbols! {
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// The most handlers that are counted.
const MOST: usize = 64;
/// The values that are no handlers: `SIG_DFL`, `SIG_IGN`, `SIG_HOLD` and `SIG_ERR`.
const NO_HANDLERS: [sighandler_t; 4] = [libc::SIG_DFL, libc::SIG_IGN, 2, libc::SIG_ERR];

/// How many handlers have run.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The handler that each counting function calls. Zero until it has one, which it keeps.
static HANDLERS: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// There were more handlers.
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Lists the counting functions with these numbers.
macro_rules! counting {
    ($($number:literal)*) => { [$(run_counted::<$number> as Handler),*] };
}
#[rustfmt::skip]
static COUNTING: [Handler; MOST] = counting![
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
];

/// The handler that the kernel calls.
///
/// # Safety
/// The arguments are those of the kernel: the last two may have any value if the program has not
/// asked for them. The handler with this number is there.
unsafe extern "C-unwind" fn run_counted<const NUMBER: usize>(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    COUNT.fetch_add(1, SeqCst);
    let handler = HANDLERS[NUMBER].load(Relaxed);
    // SAFETY: this function was installed after the program's handler was stored, which may take
    // fewer arguments. They are those of the kernel.
    unsafe { std::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
}

/// Whether this process belongs to a job of `rowlock prun`. The first call is before the program
/// begins.
pub(crate) fn is_in_job() -> bool {
    const YES: u8 = 1;
    const NO: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    let known = match KNOWN.load(Relaxed) {
        // SAFETY: the name is a C string, and no thread changes the environment yet.
        0 if unsafe { libc::getenv(c"ROWLOCK_JOB".as_ptr()) }.is_null() => NO,
        0 => YES,
        known => known,
    };
    KNOWN.store(known, Relaxed);
    known == YES
}

/// How many handlers have run in all threads.
pub(crate) fn count() -> u64 {
    COUNT.load(SeqCst)
}

/// Whether a handler may have run since so many had. If not, none has. Preserves `errno`.
pub(crate) fn may_have_run(since: u64) -> bool {
    // A program that has forbidden itself system calls may not ask for handlers. A filter from
    // before it began is mostly that of a container, which lets programs do that.
    count() != since || TOO_MANY.load(Relaxed) || sandbox::is_requested() || preserve_errno(has_uncounted)
}

/// Whether a signal has a handler that is not counted.
fn has_uncounted() -> bool {
    (1..=libc::SIGRTMAX()).any(|signal| {
        let mut now = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: there is room for the answer, which is there if the call succeeds. It fails for
        // the signals of the C library.
        let is_known = unsafe { real::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) } == 0;
        // SAFETY: as above.
        is_known && is_uncounted(unsafe { now.assume_init() }.sa_sigaction)
    })
}

fn is_uncounted(handler: sighandler_t) -> bool {
    !NO_HANDLERS.contains(&handler) && number_of(handler).is_none()
}

/// The number of a counting function.
fn number_of(handler: sighandler_t) -> Option<usize> {
    COUNTING.iter().position(|&counting| counting as usize == handler)
}

/// The function for the kernel that counts and calls this handler.
fn to_counting(handler: sighandler_t) -> sighandler_t {
    if !is_uncounted(handler) {
        return handler;
    }
    let is_for_it = |place: &AtomicUsize| {
        let found = place.compare_exchange(0, handler, SeqCst, SeqCst);
        found.map_or_else(|other| other == handler, |_| true)
    };
    HANDLERS.iter().position(is_for_it).map_or_else(
        || {
            TOO_MANY.store(true, SeqCst);
            handler
        },
        |number| COUNTING[number] as usize,
    )
}

/// The handler of the program that the kernel has as this one.
fn to_own(handler: sighandler_t) -> sighandler_t {
    number_of(handler).map_or(handler, |number| HANDLERS[number].load(Relaxed))
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller's own call, with a copy of what it passes; both may be the same. The old
    // one is there if the call succeeds.
    unsafe {
        if !is_in_job() {
            return real::sigaction(signal, new, old);
        }
        let counted = new.as_ref().map(|new| {
            let mut counted = *new;
            counted.sa_sigaction = to_counting(new.sa_sigaction);
            counted
        });
        let result = real::sigaction(signal, counted.as_ref().map_or(std::ptr::null(), std::ptr::from_ref), old);
        if result == 0 && !old.is_null() {
            (*old).sa_sigaction = to_own((*old).sa_sigaction);
        }
        result
    }
}

/// Replaces functions that install a handler and return the one before.
macro_rules! signal_functions {
    ($($name:ident)*) => {
        $(
            /// # Safety
            /// As for the real symbol.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
                let handler = if is_in_job() { to_counting(handler) } else { handler };
                // SAFETY: the caller's own call.
                to_own(unsafe { real::$name(signal, handler) })
            }
        )*
    };
}
signal_functions! { signal sysv_signal __sysv_signal }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_keeps_its_counting_function_and_the_last_ones_are_not_counted() {
        for handler in NO_HANDLERS {
            assert_eq!((to_counting(handler), to_own(handler)), (handler, handler));
        }
        let first = to_counting(4096);
        assert!(number_of(first).is_some() && to_own(first) == 4096);
        let counting: Vec<_> = (1..=MOST).map(|handler| to_counting(4096 * handler)).collect();
        for (number, &function) in counting.iter().enumerate() {
            assert_eq!(to_own(function), 4096 * (number + 1));
            assert_eq!(to_counting(function), function, "a program may have asked the kernel for it");
        }
        assert_eq!((counting[0], TOO_MANY.load(SeqCst)), (first, false));
        assert_eq!((to_counting(1), to_counting(4097), TOO_MANY.load(SeqCst)), (1, 4097, true));
        assert!(may_have_run(count()));
    }
}
