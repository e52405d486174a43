//! Threads: their numbers, how they start and how they end.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use fiber::foreign::{self, Id};
use fiber::{Builder, Condvar, JoinError, JoinHandle, Mutex};

use crate::arch::{self, Modes};
use crate::runtime::{enter, me};

/// A thread's number: never 0, and never reused.
type Thread = u64;

/// A thread's function.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The attributes of a new thread.
#[repr(C)]
pub struct Attributes {
    stack_size: usize,
    name: *const c_char,
    detached: c_int,
}

/// A thread's argument or result.
struct Value(*mut c_void);

// SAFETY: the program decides what it points to, and there is one kernel thread.
unsafe impl Send for Value {}

/// Whether a thread can be joined.
enum JoinState {
    /// Not yet: its creation is not complete.
    Creating,
    /// Yes, by any thread.
    Joinable(JoinHandle<Value>),
    /// No: another thread is joining it.
    Awaited,
    /// No.
    Detached,
}

/// A thread that has not ended, or has not been joined.
struct ThreadEntry {
    generation: u32,
    join: JoinState,
    /// The address of the [frame](arch::call) of its function, while that runs.
    frame: *const *mut u8,
}

/// The threads by the numbers of their fibers, how many of them run, and whether the main thread
/// waits until there are none.
struct Threads {
    entries: RefCell<Vec<Option<ThreadEntry>>>,
    running: Cell<usize>,
    awaited: Cell<bool>,
}

thread_local! {
    static THREADS: Threads =
        const { Threads { entries: RefCell::new(Vec::new()), running: Cell::new(0), awaited: Cell::new(false) } };
}

/// The main thread waits here after it has exited.
static LAST: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

fn number(id: Id) -> Thread {
    (u64::from(id.generation) << 32) | (u64::from(id.number) + 1)
}

/// Calls a function with the entry of a thread, if it still exists.
fn with<R>(thread: Thread, then: impl FnOnce(&mut Option<ThreadEntry>) -> R) -> Option<R> {
    let index = (thread & u64::from(u32::MAX)).checked_sub(1)? as usize;
    THREADS.with(|threads| {
        let entries = &mut *threads.entries.borrow_mut();
        let entry = entries.get_mut(index)?;
        let is_it = entry.as_ref().is_some_and(|entry| u64::from(entry.generation) == thread >> 32);
        is_it.then(|| then(entry))
    })
}

/// Calls a function with the entry of a new thread. Both its creator and the thread itself may be
/// the first to need it.
fn with_new<R>(id: Id, then: impl FnOnce(&mut ThreadEntry) -> R) -> R {
    THREADS.with(|threads| {
        let entries = &mut *threads.entries.borrow_mut();
        let index = id.number as usize;
        if index >= entries.len() {
            entries.resize_with(index + 1, || None);
        }
        let entry = &mut entries[index];
        entry.take_if(|entry| entry.generation != id.generation);
        let new = || ThreadEntry { generation: id.generation, join: JoinState::Creating, frame: std::ptr::null() };
        then(entry.get_or_insert_with(new))
    })
}

/// The function of a thread, with its argument and floating-point modes.
struct Job {
    function: Function,
    argument: Value,
    modes: Modes,
}

impl Job {
    fn run(self) -> Value {
        self.modes.set();
        let mut frame = null_mut();
        let me = foreign::current().map_or(0, |id| {
            with_new(id, |entry| entry.frame = &raw const frame);
            number(id)
        });
        // SAFETY: the creator guarantees it.
        let value = unsafe { arch::call(self.function, self.argument.0, &raw mut frame) };
        with(me, |entry| {
            if let Some(ThreadEntry { join: JoinState::Detached, .. }) = entry {
                *entry = None;
            }
        });
        THREADS.with(|threads| {
            threads.running.set(threads.running.get() - 1);
            if threads.running.get() == 0 && threads.awaited.get() {
                let _alone = LAST.0.lock();
                LAST.1.notify_all();
            }
        });
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
    enter(|_| {
        let (thread, function) = (thread.ok_or(libc::EINVAL)?, function.ok_or(libc::EINVAL)?);
        let mut builder = Builder::new();
        if let Some(attributes) = attributes {
            if attributes.stack_size > 0 {
                builder = builder.stack_size(attributes.stack_size);
            }
            if !attributes.name.is_null() {
                // SAFETY: the caller guarantees it.
                builder = builder.name(unsafe { CStr::from_ptr(attributes.name) }.to_string_lossy());
            }
        }
        let job = Job { function, argument: Value(argument), modes: Modes::current() };
        THREADS.with(|threads| threads.running.set(threads.running.get() + 1));
        // Moves the whole job, not its parts.
        let handle = builder.spawn(move || { job }.run()).map_err(|_| {
            THREADS.with(|threads| threads.running.set(threads.running.get() - 1));
            libc::EAGAIN
        })?;
        let id = foreign::id(&handle);
        thread.write(number(id));
        let is_joinable = attributes.is_none_or(|asked| asked.detached == 0);
        let unused = with_new(id, |entry| {
            if is_joinable && matches!(entry.join, JoinState::Creating) {
                entry.join = JoinState::Joinable(handle);
                return None;
            }
            entry.join = JoinState::Detached;
            Some(handle)
        });
        if let Some(handle) = unused {
            detach(handle);
        }
        Ok(())
    })
}

/// Drops the handle of a detached thread.
fn detach(handle: JoinHandle<Value>) {
    if handle.is_finished() {
        with(number(foreign::id(&handle)), |entry| *entry = None);
    }
    handle.detach();
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_yield() -> c_int {
    enter(|_| {
        fiber::yield_now();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_self() -> Thread {
    me().map_or(0, number)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_equal(one: Thread, other: Thread) -> c_int {
    (one == other).into()
}

/// Takes the handle of a joinable thread, and leaves it in the state `rest`. EAGAIN if it is being
/// created, EINVAL if it cannot be joined.
fn take(thread: Thread, rest: JoinState) -> Result<JoinHandle<Value>, c_int> {
    with(thread, |entry| {
        let Some(entry) = entry else { return Err(libc::ESRCH) };
        match std::mem::replace(&mut entry.join, rest) {
            JoinState::Joinable(handle) => Ok(handle),
            other => {
                entry.join = other;
                Err(if matches!(entry.join, JoinState::Creating) { libc::EAGAIN } else { libc::EINVAL })
            }
        }
    })
    .unwrap_or(Err(libc::ESRCH))
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_join(thread: Thread, value: Option<&mut *mut c_void>) -> c_int {
    enter(|me| {
        if thread == number(me) {
            return Err(libc::EDEADLK);
        }
        let handle = loop {
            match take(thread, JoinState::Awaited) {
                // Its creator was interrupted, and will soon continue.
                Err(libc::EAGAIN) => fiber::yield_now(),
                result => break result?,
            }
        };
        let result = handle.join();
        if let Err(JoinError::Itself | JoinError::Cycle(_)) = result {
            with(thread, |entry| entry.iter_mut().for_each(|entry| entry.join = JoinState::Detached));
            return Err(libc::EDEADLK);
        }
        with(thread, |entry| *entry = None);
        let Value(result) = result.map_err(|_| libc::EAGAIN)?;
        if let Some(value) = value {
            *value = result;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_detach(thread: Thread) -> c_int {
    enter(|_| match take(thread, JoinState::Detached) {
        Ok(handle) => {
            detach(handle);
            Ok(())
        }
        // Its creator completes it.
        Err(libc::EAGAIN) => {
            with(thread, |entry| entry.iter_mut().for_each(|entry| entry.join = JoinState::Detached));
            Ok(())
        }
        Err(error) => Err(error),
    })
}

/// # Safety
/// The frames between the function of the thread and this call have nothing to clean up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_exit(value: *mut c_void) -> ! {
    let me = me().map_or(0, number);
    let frame = with(me, |entry| entry.as_ref().map(|entry| entry.frame)).flatten();
    if let Some(frame) = frame.filter(|frame| !frame.is_null()) {
        // SAFETY: it is this thread's own frame. Its function has not returned, and the caller
        // guarantees the rest.
        unsafe { arch::leave(*frame, value) }
    }
    // The main thread: the process lasts as long as other threads run.
    THREADS.with(|threads| {
        if let Ok(alone) = LAST.0.lock() {
            threads.awaited.set(true);
            drop(LAST.1.wait_while(alone, |()| threads.running.get() > 0));
        }
    });
    // SAFETY: as when `main` returns.
    unsafe { libc::exit(0) }
}
