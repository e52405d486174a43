//! Threads: their numbers, how they start and how they end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use fiber::foreign::{self, Id};
use fiber::{Builder, JoinError, JoinHandle, Permit, Semaphore};

use crate::arch::{self, Modes};
use crate::key;
use crate::runtime::{Here, State, enter, visit};

/// A thread's number: never 0, and never reused.
pub(crate) type Thread = u64;

/// A function of the program.
pub(crate) type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The attributes of a new thread.
#[repr(C)]
pub struct Attributes {
    stack_size: usize,
    name: *const c_char,
    /// Negative if the attributes were destroyed.
    detached: c_int,
}

/// A thread's argument or result.
struct Value(*mut c_void);

// SAFETY: the program decides what it points to, and there is one worker.
unsafe impl Send for Value {}

/// A thread that has not ended, or can be joined, or was detached and is still known: to join it
/// is EINVAL even if it has ended, until another thread has its fiber's record.
pub(crate) struct ThreadEntry {
    /// `None` if it is detached, or another thread is joining it.
    handle: Option<JoinHandle<Value>>,
    has_ended: bool,
}

/// The threads, and how many others than the main thread have not ended.
struct Threads {
    entries: BTreeMap<Thread, ThreadEntry>,
    running: usize,
}

static THREADS: State<Threads> = State::new(Threads { entries: BTreeMap::new(), running: 0 });

/// The main thread waits here after it has exited. There is a permit for each time at which no
/// other thread was left.
static ALONE: Semaphore = Semaphore::new(0);

pub(crate) fn number(id: Id) -> Thread {
    (u64::from(id.generation) << 32) | (u64::from(id.number) + 1)
}

impl Threads {
    /// Takes the handle of a thread, which is detached then. ESRCH if there is no such thread,
    /// EINVAL if it cannot be joined.
    fn detach(&mut self, thread: Thread) -> Result<JoinHandle<Value>, c_int> {
        let entry = self.entries.get_mut(&thread).ok_or(libc::ESRCH)?;
        let handle = entry.handle.take().ok_or(libc::EINVAL)?;
        if entry.has_ended {
            self.entries.remove(&thread);
        }
        Ok(handle)
    }
}

/// Adds the main thread, which no thread has created.
pub(crate) fn add_main(here: Here) {
    THREADS.with(here, |threads| threads.entries.insert(here.me, ThreadEntry { handle: None, has_ended: false }));
}

/// Whether this thread, which has called this library, has not ended.
pub(crate) fn is_running(here: Here, thread: Thread) -> bool {
    THREADS.with(here, |threads| threads.entries.get(&thread).is_some_and(|entry| !entry.has_ended))
}

thread_local! {
    /// The [frame](arch::call) of the function of the program that the thread runs.
    static FRAME: Cell<*mut u8> = const { Cell::new(null_mut()) };
}

/// Calls a function of the program, from which [`my_pthread_exit`] returns with a value.
pub(crate) fn call(function: Function, argument: *mut c_void) -> *mut c_void {
    // SAFETY: the program guarantees it.
    let value = unsafe { arch::call(function, argument, FRAME.with(Cell::as_ptr)) };
    FRAME.set(null_mut());
    value
}

/// A thread that counts as running until this is dropped, even if it never runs.
struct Running;

impl Running {
    fn new(here: Here) -> Running {
        THREADS.with(here, |threads| threads.running += 1);
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        enter(|here| {
            let running = THREADS.with(here, |threads| {
                threads.running -= 1;
                threads.running
            });
            if running == 0 {
                ALONE.release(1);
            }
            Ok(())
        });
    }
}

/// The function of a thread, with its argument and floating-point modes.
struct Job {
    function: Function,
    argument: Value,
    modes: Modes,
    running: Running,
}

impl Job {
    fn run(self) -> Value {
        self.modes.set();
        let value = call(self.function, self.argument.0);
        key::destroy_values();
        enter(|here| {
            THREADS.with(here, |threads| {
                threads.entries.get_mut(&here.me).into_iter().for_each(|entry| entry.has_ended = true);
            });
            Ok(())
        });
        drop(self.running);
        Value(value)
    }
}

/// # Safety
/// The name in the attributes is null or a C string. `function` may be called with `argument`, once
/// and at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_create(
    thread: Option<&mut MaybeUninit<Thread>>,
    attributes: Option<&Attributes>,
    function: Option<Function>,
    argument: *mut c_void,
) -> c_int {
    let status = enter(|here| {
        let (thread, function) = thread.zip(function).ok_or(libc::EINVAL)?;
        let mut builder = Builder::new();
        if let Some(attributes) = attributes {
            if attributes.detached < 0 {
                return Err(libc::EINVAL);
            }
            if attributes.stack_size > 0 {
                builder = builder.stack_size(attributes.stack_size);
            }
            if !attributes.name.is_null() {
                // SAFETY: the caller guarantees it.
                builder = builder.name(unsafe { CStr::from_ptr(attributes.name) }.to_string_lossy());
            }
        }
        let job = Job { function, argument: Value(argument), modes: Modes::current(), running: Running::new(here) };
        // Moves the whole job, not its parts.
        let handle = foreign::spawn(builder, move || { job }.run()).map_err(|_| libc::EAGAIN)?;
        let number = number(foreign::id(&handle));
        thread.write(number);
        let detached = THREADS.with(here, |threads| {
            let (kept, detached) = match attributes {
                Some(Attributes { detached: 1.., .. }) => (None, Some(handle)),
                _ => (Some(handle), None),
            };
            // The thread before, with the same record, was detached if it is still there.
            threads.entries.remove(&number.wrapping_sub(1 << 32));
            threads.entries.insert(number, ThreadEntry { handle: kept, has_ended: false });
            detached
        });
        detached.into_iter().for_each(JoinHandle::detach);
        fiber::checkpoint();
        Ok(())
    });
    // There is no memory for the runtime either.
    if status == libc::ENOMEM { libc::EAGAIN } else { status }
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_self() -> Thread {
    visit(|here| Ok(here.me)).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_equal(one: Thread, other: Thread) -> c_int {
    (one == other).into()
}

exports! { enter:
    fn my_pthread_join(thread: Thread, value: Option<&mut *mut c_void>) = |here| {
        if thread == here.me {
            return Err(libc::EDEADLK);
        }
        let result = THREADS.with(here, |threads| threads.detach(thread))?.join();
        if let Err(JoinError::Itself | JoinError::Cycle(_)) = result {
            return Err(libc::EDEADLK);
        }
        THREADS.with(here, |threads| threads.entries.remove(&thread));
        let Value(result) = result.map_err(|_| libc::EAGAIN)?;
        value.into_iter().for_each(|value| *value = result);
        Ok(())
    };
    fn my_pthread_detach(thread: Thread) = |here| {
        Ok(THREADS.with(here, |threads| threads.detach(thread))?.detach())
    };
}

/// # Safety
/// The frames between the function of the thread and this call have nothing to clean up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_exit(value: *mut c_void) -> ! {
    let frame = FRAME.get();
    if !frame.is_null() {
        // SAFETY: it is this thread's own frame. Its function has not returned, and the caller
        // guarantees the rest.
        unsafe { arch::leave(frame, value) }
    }
    // The main thread: the process lasts as long as other threads run.
    key::destroy_values();
    while visit(|here| Ok(THREADS.with(here, |threads| threads.running))).is_ok_and(|running| running > 0) {
        enter(|_| Ok(Permit::forget(ALONE.acquire())));
    }
    // SAFETY: as when `main` returns.
    unsafe { libc::exit(0) }
}
