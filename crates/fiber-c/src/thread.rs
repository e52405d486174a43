//! Threads: their numbers, how they start and how they end.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

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
pub(crate) struct ThreadEntry {
    generation: u32,
    join: JoinState,
    has_ended: bool,
    /// The address of the [frame](arch::call) of the function of the program that it runs.
    frame: *const *mut u8,
    /// Its values by their keys.
    pub(crate) values: Vec<key::Value>,
}

/// The threads by the numbers of their fibers, and how many others than the main thread have not
/// ended.
struct Threads {
    entries: Vec<Option<ThreadEntry>>,
    running: usize,
}

static THREADS: State<Threads> = State::new(Threads { entries: Vec::new(), running: 0 });

/// The main thread waits here after it has exited. There is a permit for each time at which no
/// other thread was left.
static ALONE: Semaphore = Semaphore::new(0);

pub(crate) fn number(id: Id) -> Thread {
    (u64::from(id.generation) << 32) | (u64::from(id.number) + 1)
}

/// The index of the main thread's fiber, the first.
const MAIN: usize = 0;

/// The index and the generation of a thread's fiber.
fn parts(thread: Thread) -> (usize, u32) {
    ((thread as u32).wrapping_sub(1) as usize, (thread >> 32) as u32)
}

impl Threads {
    /// The entry of a thread, if it still exists.
    fn get(&mut self, thread: Thread) -> Option<&mut ThreadEntry> {
        let (index, generation) = parts(thread);
        self.entries.get_mut(index)?.as_mut().filter(|entry| entry.generation == generation)
    }

    /// The entry of a thread that exists. Both the thread and its creator may be the first to need
    /// it, and the main thread has no creator.
    fn get_or_insert(&mut self, thread: Thread) -> &mut ThreadEntry {
        let (index, generation) = parts(thread);
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        let entry = &mut self.entries[index];
        entry.take_if(|entry| entry.generation != generation);
        let join = if index == MAIN { JoinState::Detached } else { JoinState::Creating };
        entry.get_or_insert(ThreadEntry { generation, join, has_ended: false, frame: null(), values: Vec::new() })
    }

    fn remove(&mut self, thread: Thread) {
        if self.get(thread).is_some() {
            self.entries[parts(thread).0] = None;
        }
    }

    /// Makes a thread detached that is being created or joined.
    fn make_detached(&mut self, thread: Thread) {
        if let Some(entry) = self.get(thread) {
            entry.join = JoinState::Detached;
        }
    }

    /// Takes the handle of a joinable thread, and leaves it in the state `rest`. ESRCH if there is
    /// no such thread, EAGAIN if it is being created, EINVAL if it cannot be joined.
    fn take_handle(&mut self, thread: Thread, rest: JoinState) -> Result<JoinHandle<Value>, c_int> {
        let entry = self.get(thread).ok_or(libc::ESRCH)?;
        match std::mem::replace(&mut entry.join, rest) {
            JoinState::Joinable(handle) => Ok(handle),
            other => {
                entry.join = other;
                Err(if matches!(entry.join, JoinState::Creating) { libc::EAGAIN } else { libc::EINVAL })
            }
        }
    }
}

/// Calls a function with the entry of the calling thread.
pub(crate) fn with_own<R>(here: Here, then: impl FnOnce(&mut ThreadEntry) -> R) -> R {
    THREADS.with(here, |threads| then(threads.get_or_insert(here.me)))
}

/// Whether this thread, which has run once, has not ended.
pub(crate) fn is_running(here: Here, thread: Thread) -> bool {
    parts(thread).0 == MAIN || THREADS.with(here, |threads| threads.get(thread).is_some_and(|entry| !entry.has_ended))
}

/// Calls a function of the program, from which [`my_pthread_exit`] returns with a value.
pub(crate) fn call(function: Function, argument: *mut c_void) -> *mut c_void {
    let mut frame = null_mut();
    let set_frame = |frame| enter(|here| Ok(with_own(here, |entry| entry.frame = frame)));
    set_frame(&raw const frame);
    // SAFETY: the program guarantees it.
    let value = unsafe { arch::call(function, argument, &raw mut frame) };
    set_frame(null());
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
            let is_detached = with_own(here, |entry| {
                entry.has_ended = true;
                entry.values = Vec::new();
                matches!(entry.join, JoinState::Detached)
            });
            if is_detached {
                THREADS.with(here, |threads| threads.remove(here.me));
            }
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
    enter(|here| {
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
        let handle = builder.spawn(move || { job }.run()).map_err(|_| libc::EAGAIN)?;
        let number = number(foreign::id(&handle));
        thread.write(number);
        let is_joinable = attributes.is_none_or(|asked| asked.detached == 0);
        // The thread may have been detached, and may have ended: then the handle is not kept.
        let unused = THREADS.with(here, |threads| {
            let entry = threads.get_or_insert(number);
            if is_joinable && matches!(entry.join, JoinState::Creating) {
                entry.join = JoinState::Joinable(handle);
                return None;
            }
            entry.join = JoinState::Detached;
            Some(handle)
        });
        unused.into_iter().for_each(|handle| detach(here, handle));
        Ok(())
    })
}

/// Drops the handle of a detached thread.
fn detach(here: Here, handle: JoinHandle<Value>) {
    if handle.is_finished() {
        THREADS.with(here, |threads| threads.remove(number(foreign::id(&handle))));
    }
    handle.detach();
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
        let handle = loop {
            match THREADS.with(here, |threads| threads.take_handle(thread, JoinState::Awaited)) {
                // Its creator was interrupted, and will soon continue.
                Err(libc::EAGAIN) => fiber::yield_now(),
                result => break result?,
            }
        };
        let result = handle.join();
        if let Err(JoinError::Itself | JoinError::Cycle(_)) = result {
            THREADS.with(here, |threads| threads.make_detached(thread));
            return Err(libc::EDEADLK);
        }
        THREADS.with(here, |threads| threads.remove(thread));
        let Value(result) = result.map_err(|_| libc::EAGAIN)?;
        value.into_iter().for_each(|value| *value = result);
        Ok(())
    };
    fn my_pthread_detach(thread: Thread) = |here| {
        match THREADS.with(here, |threads| threads.take_handle(thread, JoinState::Detached)) {
            Ok(handle) => Ok(detach(here, handle)),
            // Its creator completes it.
            Err(libc::EAGAIN) => Ok(THREADS.with(here, |threads| threads.make_detached(thread))),
            Err(error) => Err(error),
        }
    };
}

/// # Safety
/// The frames between the function of the thread and this call have nothing to clean up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_pthread_exit(value: *mut c_void) -> ! {
    let frame = visit(|here| Ok(with_own(here, |entry| entry.frame)));
    if let Some(frame) = frame.ok().filter(|frame| !frame.is_null()) {
        // SAFETY: it is this thread's own frame. Its function has not returned, and the caller
        // guarantees the rest.
        unsafe { arch::leave(*frame, value) }
    }
    // The main thread: the process lasts as long as other threads run.
    key::destroy_values();
    while visit(|here| Ok(THREADS.with(here, |threads| threads.running))).is_ok_and(|running| running > 0) {
        enter(|_| Ok(Permit::forget(ALONE.acquire())));
    }
    // SAFETY: as when `main` returns.
    unsafe { libc::exit(0) }
}
