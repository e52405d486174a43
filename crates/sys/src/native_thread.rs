//! Threads of the C library alone.
//!
//! Those of the standard library take locks of it when they start and when they end, for the
//! message about a stack that overflows. And a thread can tell here when nothing of it will run any
//! more.

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::mem::{MaybeUninit, forget, transmute};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::reservation::page_size;

/// A thread, which is detached when this is dropped.
#[derive(Debug)]
pub struct NativeThread(libc::pthread_t);

// SAFETY: any thread may join or detach another one.
unsafe impl Send for NativeThread {}
// SAFETY: there is nothing to do with a reference.
unsafe impl Sync for NativeThread {}

/// The largest stack.
const MOST: usize = 1 << 40;

fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

impl NativeThread {
    /// Starts a thread with this much stack, or more if the C library needs more. It calls the
    /// function. The process aborts if that panics.
    pub fn start<F: FnOnce() + Send + 'static>(stack: usize, run: F) -> io::Result<NativeThread> {
        extern "C" fn start<F: FnOnce()>(run: *mut c_void) -> *mut c_void {
            // SAFETY: it is the box below.
            let run = unsafe { Box::from_raw(run.cast::<F>()) };
            run();
            null_mut()
        }

        let run = Box::into_raw(Box::new(run));
        let mut size = stack.max(4 * page_size()).next_multiple_of(page_size());
        loop {
            let mut attributes = MaybeUninit::uninit();
            let mut thread = MaybeUninit::uninit();
            // SAFETY: the attributes are initialized first, and destroyed last; the function gets
            // what it expects.
            let started = unsafe {
                check(libc::pthread_attr_init(attributes.as_mut_ptr())).and_then(|()| {
                    let attributes = attributes.as_mut_ptr();
                    let started = check(libc::pthread_attr_setstacksize(attributes, size)).and_then(|()| {
                        check(libc::pthread_create(thread.as_mut_ptr(), attributes, start::<F>, run.cast()))
                    });
                    libc::pthread_attr_destroy(attributes);
                    started
                })
            };
            match started {
                // SAFETY: the call has written it.
                Ok(()) => return Ok(NativeThread(unsafe { thread.assume_init() })),
                // It is too small, for example for the program's thread-locals.
                Err(why) if why.raw_os_error() == Some(libc::EINVAL) && size < MOST => size *= 2,
                Err(why) => {
                    // SAFETY: the thread does not exist.
                    drop(unsafe { Box::from_raw(run) });
                    return Err(why);
                }
            }
        }
    }

    /// Waits until the thread is gone.
    pub fn join(self) {
        // SAFETY: it has not been joined or detached.
        unsafe { libc::pthread_join(self.0, null_mut()) };
        forget(self);
    }
}

impl Drop for NativeThread {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// The stack of the calling thread without its guard, which is below.
pub fn stack_of_this_thread() -> io::Result<Range<usize>> {
    let mut attributes = MaybeUninit::uninit();
    let (mut low, mut size) = (null_mut(), 0);
    // SAFETY: the first call initializes the attributes, if it succeeds.
    unsafe {
        check(libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()))?;
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    Ok(low.addr()..low.addr() + size)
}

/// How often the C library calls the destructor of a key that sets another value each time, at
/// least (`PTHREAD_DESTRUCTOR_ITERATIONS`), without the last time: by then, sanitizers have
/// forgotten the thread.
const ROUNDS: usize = 3;

thread_local! {
    static ROUND: Cell<usize> = const { Cell::new(1) };
}

/// The key whose destructor calls the function that is its value.
fn key() -> io::Result<libc::pthread_key_t> {
    static KEY: OnceLock<Result<libc::pthread_key_t, libc::c_int>> = OnceLock::new();
    let new = || {
        let mut key = 0;
        // SAFETY: there is room for the key.
        let error = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) };
        if error == 0 { Ok(key) } else { Err(error) }
    };
    KEY.get_or_init(new).map_err(io::Error::from_raw_os_error)
}

/// Calls a function when the calling thread ends, after the destructors of its thread-locals and of
/// its values of keys. Only a destructor that has set a value of a key again, and again, comes
/// later. The function must not panic.
pub fn call_at_end(call: fn()) -> io::Result<()> {
    // SAFETY: the key exists, and its values are such functions.
    check(unsafe { libc::pthread_setspecific(key()?, call as *mut c_void) })
}

/// # Safety
/// The C library calls it, with a value of the key.
unsafe extern "C" fn end(call: *mut c_void) {
    let round = ROUND.get();
    // SAFETY: only `call_at_end` sets values.
    let call = unsafe { transmute::<*mut c_void, fn()>(call) };
    if round >= ROUNDS {
        return call();
    }
    ROUND.set(round + 1);
    // There was room for a value before.
    let _ = call_at_end(call);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::{AtomicUsize, fence};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_thread_has_the_stack_that_it_asks_for() {
        for asked in [1, 64 << 10, 8 << 20] {
            let size = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&size);
            let thread = NativeThread::start(asked, move || {
                let (stack, local) = (stack_of_this_thread().unwrap(), 0_u8);
                assert!(stack.contains(&(&raw const local).addr()));
                theirs.store(stack.len(), SeqCst);
            });
            thread.unwrap().join();
            // Some C libraries count the guard.
            assert!(size.load(SeqCst) + page_size() >= asked);
        }
    }

    #[test]
    fn what_a_thread_calls_at_its_end_comes_after_destructors_of_thread_locals() {
        static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

        struct Drops(&'static str);

        impl Drop for Drops {
            fn drop(&mut self) {
                CALLS.lock().unwrap().push(self.0);
            }
        }

        thread_local! {
            static ONE: Drops = const { Drops("one") };
        }

        let run = || {
            call_at_end(|| CALLS.lock().unwrap().push("end")).unwrap();
            ONE.with(|_| fence(SeqCst));
        };
        NativeThread::start(0, run).unwrap().join();
        assert_eq!(*CALLS.lock().unwrap(), ["one", "end"]);
    }
}
