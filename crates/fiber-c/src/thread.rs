//! Threads: what C knows them by, how they begin and how they end.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use fiber::foreign::{self, Id};
use fiber::{Builder, Condvar, JoinError, JoinHandle, Mutex};

use crate::arch::{self, Kept, Modes};
use crate::runtime::{me, status};

/// What a thread is known by: never zero, and not used again.
type Thread = u64;

/// A function that a thread runs.
type Function = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// What C asks for with a new thread.
#[repr(C)]
pub struct Attributes {
    stack_size: usize,
    name: *const c_char,
    detached: c_int,
}

/// What goes into a thread and comes out of it.
struct Value(*mut c_void);

// SAFETY: what it points to is the program's affair, and there is one kernel thread.
unsafe impl Send for Value {}

/// Who may wait for a thread's end.
enum End {
    /// Nobody yet: it was not made to its end.
    Making,
    /// Who comes first.
    Open(JoinHandle<Value>),
    /// Somebody does.
    Awaited,
    /// Nobody, ever.
    Nobody,
}

/// A thread that has not ended, or whose end nobody has waited for.
struct Entry {
    generation: u32,
    end: End,
    /// Where its function's [frame](arch::call) is noted, while that runs.
    frame: *const *mut u8,
}

/// The threads by the numbers of their fibers, how many of them run, and whether the main one waits for that to be none.
struct Threads {
    entries: RefCell<Vec<Option<Entry>>>,
    running: Cell<usize>,
    awaited: Cell<bool>,
}

thread_local! {
    static THREADS: Threads =
        const { Threads { entries: RefCell::new(Vec::new()), running: Cell::new(0), awaited: Cell::new(false) } };
}

/// Where the main thread waits that has left.
static LAST: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

fn number(id: Id) -> Thread {
    (u64::from(id.generation) << 32) | (u64::from(id.number) + 1)
}

/// The entry of a thread, if it is there yet.
fn with<R>(thread: Thread, then: impl FnOnce(&mut Option<Entry>) -> R) -> Option<R> {
    let index = (thread & u64::from(u32::MAX)).checked_sub(1)? as usize;
    THREADS.with(|threads| {
        let entries = &mut *threads.entries.borrow_mut();
        let entry = entries.get_mut(index)?;
        let is_it = entry.as_ref().is_some_and(|entry| u64::from(entry.generation) == thread >> 32);
        is_it.then(|| then(entry))
    })
}

/// The entry of a new thread: both the one that makes it and the thread itself may be the first to need it.
fn with_new<R>(id: Id, then: impl FnOnce(&mut Option<Entry>) -> R) -> R {
    THREADS.with(|threads| {
        let entries = &mut *threads.entries.borrow_mut();
        let index = id.number as usize;
        if index >= entries.len() {
            entries.resize_with(index + 1, || None);
        }
        let entry = &mut entries[index];
        if entry.as_ref().is_none_or(|entry| entry.generation != id.generation) {
            *entry = Some(Entry { generation: id.generation, end: End::Making, frame: std::ptr::null() });
        }
        then(entry)
    })
}

/// What a thread does.
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
            with_new(id, |entry| {
                if let Some(entry) = entry {
                    entry.frame = &raw const frame;
                }
            });
            number(id)
        });
        // SAFETY: C passed the function and its argument for that.
        let value = unsafe { arch::call(self.function, self.argument.0, &raw mut frame) };
        with(me, |entry| {
            if let Some(Entry { end: End::Nobody, .. }) = entry {
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_create(
    thread: Option<&mut MaybeUninit<Thread>>,
    attributes: Option<&Attributes>,
    function: Option<Function>,
    argument: *mut c_void,
) -> c_int {
    let _kept = Kept::now();
    status(me().and_then(|_| {
        let (thread, function) = (thread.ok_or(libc::EINVAL)?, function.ok_or(libc::EINVAL)?);
        let mut builder = Builder::new();
        if let Some(attributes) = attributes {
            if attributes.stack_size > 0 {
                builder = builder.stack_size(attributes.stack_size);
            }
            if !attributes.name.is_null() {
                // SAFETY: C passes a text or NULL.
                builder = builder.name(unsafe { CStr::from_ptr(attributes.name) }.to_string_lossy());
            }
        }
        let job = Job { function, argument: Value(argument), modes: Modes::current() };
        THREADS.with(|threads| threads.running.set(threads.running.get() + 1));
        // The whole job, not its parts.
        let handle = builder.spawn(move || { job }.run()).map_err(|_| {
            THREADS.with(|threads| threads.running.set(threads.running.get() - 1));
            libc::EAGAIN
        })?;
        let id = foreign::id(&handle);
        thread.write(number(id));
        let unused = with_new(id, |entry| match entry {
            Some(Entry { end: end @ End::Making, .. }) if attributes.is_none_or(|asked| asked.detached == 0) => {
                *end = End::Open(handle);
                None
            }
            Some(entry) => {
                entry.end = End::Nobody;
                Some(handle)
            }
            None => Some(handle),
        });
        if let Some(handle) = unused {
            detach(id, handle);
        }
        Ok(())
    }))
}

/// Leaves a thread to itself, whose entry says so.
fn detach(id: Id, handle: JoinHandle<Value>) {
    if handle.is_finished() {
        with(number(id), |entry| *entry = None);
    }
    handle.detach();
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_yield() -> c_int {
    let _kept = Kept::now();
    status(me().map(|_| fiber::yield_now()))
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_self() -> Thread {
    me().map_or(0, number)
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_equal(one: Thread, other: Thread) -> c_int {
    (one == other).into()
}

/// Takes the right to wait for a thread's end, and says what remains. EINVAL where another has it.
fn take(thread: Thread, rest: End) -> Result<JoinHandle<Value>, c_int> {
    with(thread, |entry| {
        let Some(entry) = entry else { return Err(libc::ESRCH) };
        match std::mem::replace(&mut entry.end, rest) {
            End::Open(handle) => Ok(handle),
            other => {
                entry.end = other;
                Err(if matches!(entry.end, End::Making) { libc::EAGAIN } else { libc::EINVAL })
            }
        }
    })
    .unwrap_or(Err(libc::ESRCH))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_join(thread: Thread, value: Option<&mut *mut c_void>) -> c_int {
    let _kept = Kept::now();
    status(me().and_then(|me| {
        if thread == number(me) {
            return Err(libc::EDEADLK);
        }
        let handle = loop {
            match take(thread, End::Awaited) {
                // Who makes it was interrupted, and goes on soon.
                Err(libc::EAGAIN) => fiber::yield_now(),
                result => break result?,
            }
        };
        let id = foreign::id(&handle);
        let result = handle.join();
        match result {
            Ok(Value(result)) => {
                with(number(id), |entry| *entry = None);
                if let Some(value) = value {
                    *value = result;
                }
                Ok(())
            }
            Err(JoinError::Itself | JoinError::Cycle(_)) => {
                with(number(id), |entry| entry.iter_mut().for_each(|entry| entry.end = End::Nobody));
                Err(libc::EDEADLK)
            }
            Err(_) => {
                with(number(id), |entry| *entry = None);
                Err(libc::EAGAIN)
            }
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_detach(thread: Thread) -> c_int {
    status(me().and_then(|_| match take(thread, End::Nobody) {
        Ok(handle) => {
            detach(foreign::id(&handle), handle);
            Ok(())
        }
        // Its maker sees to it.
        Err(libc::EAGAIN) => {
            with(thread, |entry| entry.iter_mut().for_each(|entry| entry.end = End::Nobody));
            Ok(())
        }
        Err(error) => Err(error),
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_exit(value: *mut c_void) -> ! {
    let me = me().map_or(0, number);
    let frame = with(me, |entry| entry.as_ref().map(|entry| entry.frame)).flatten();
    if let Some(frame) = frame.filter(|frame| !frame.is_null()) {
        // SAFETY: it is this thread's own, whose function has not returned, and between here and there are functions of C alone.
        unsafe { arch::leave(*frame, value) }
    }
    // The main thread: the process lasts as long as others run.
    THREADS.with(|threads| {
        if let Ok(mut alone) = LAST.0.lock() {
            threads.awaited.set(true);
            while threads.running.get() > 0 {
                match LAST.1.wait(alone) {
                    Ok(again) => alone = again,
                    Err(_) => break,
                }
            }
        }
    });
    // SAFETY: as where `main` returns.
    unsafe { libc::exit(0) }
}
