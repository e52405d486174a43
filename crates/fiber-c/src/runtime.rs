//! The runtime, which the first call starts, its configuration, and how threads enter it.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint};
use std::marker::PhantomData;

use fiber::{Config, Runtime, foreign};
use policy::Span;
use policy::feedback::{Boost, FeedbackRules};

use crate::thread::{self, Thread, number};

/// The size of stacks, unless a thread asks for another: C programs expect more than fibers need.
const STACK_SIZE: usize = 256 << 10;

/// Exports functions of C, whose bodies are called by `enter`, with the calling thread.
macro_rules! exports {
    ($enter:ident: $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = |$here:pat_param| $body:expr;)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            $crate::runtime::$enter(|$here| $body)
        })*
    };
}

thread_local! {
    /// The rules that were configured before the runtime started.
    static RULES: Cell<Option<FeedbackRules>> = const { Cell::new(None) };
}

/// Whether this is the main thread of the process.
fn is_main() -> bool {
    // SAFETY: both only return numbers.
    unsafe { libc::getpid() == libc::gettid() }
}

/// The calling thread, in the runtime.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) me: Thread,
    in_runtime: PhantomData<*const ()>,
}

/// State of this library.
pub(crate) struct State<T>(RefCell<T>);

// SAFETY: only a fiber in the runtime accesses it. The runtime has one worker, and no fiber
// interrupts another one there, so they take turns.
unsafe impl<T> Sync for State<T> {}

impl<T> State<T> {
    pub(crate) const fn new(value: T) -> State<T> {
        State(RefCell::new(value))
    }

    /// Calls a function with the state. It must not call what may let other fibers run.
    #[inline(always)]
    pub(crate) fn with<R>(&self, _: Here, then: impl FnOnce(&mut T) -> R) -> R {
        then(&mut self.0.borrow_mut())
    }
}

/// Calls a function in the runtime, where no other fiber interrupts it, unless it waits or reaches
/// a safepoint of `fiber`. Starts the runtime if there is none yet. EPERM on another kernel thread,
/// ENOMEM if there is no memory.
#[inline(always)]
pub(crate) fn visit<R>(body: impl FnOnce(Here) -> Result<R, c_int>) -> Result<R, c_int> {
    let mut body = Some(body);
    let mut run = |id| body.take().map(|body| body(Here { me: number(id), in_runtime: PhantomData }));
    match foreign::enter(&mut run).flatten() {
        Some(result) => result,
        None => {
            begin()?;
            foreign::enter(run).flatten().unwrap_or(Err(libc::ENOMEM))
        }
    }
}

#[cold]
fn begin() -> Result<(), c_int> {
    if !is_main() {
        return Err(libc::EPERM);
    }
    let default = Config::default();
    let rules = RULES.get().unwrap_or(default.rules);
    let config = Config { rules, preemptible: true, closed: true, stack_size: STACK_SIZE, ..default };
    // SAFETY: the main thread lasts as long as the process.
    unsafe { Runtime::new(config).adopt() }.map_err(|_| libc::ENOMEM)?;
    visit(|here| Ok(thread::add_main(here)))
}

/// Runs the body of a C function in the runtime, and returns its status.
#[inline(always)]
pub(crate) fn enter(body: impl FnOnce(Here) -> Result<(), c_int>) -> c_int {
    visit(body).err().unwrap_or(0)
}

/// The same, but returns -1 for an error, which is in `errno`.
pub(crate) fn enter_with_errno(body: impl FnOnce(Here) -> Result<(), c_int>) -> c_int {
    match enter(body) {
        0 => 0,
        error => {
            // SAFETY: it is the calling thread's own.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn my_pthread_configure(levels: c_uint, running_time_us: c_uint) -> c_int {
    if levels == 0 || levels > FeedbackRules::MOST_LEVELS || running_time_us == 0 {
        return libc::EINVAL;
    }
    if foreign::enter(|_| ()).is_some() {
        return libc::EBUSY;
    }
    if !is_main() {
        return libc::EPERM;
    }
    let running_time = Span::from_micros(running_time_us.into());
    // As in the default rules: a boost every hundred running times.
    let boost = Boost::Every(Span::from_micros(u64::from(running_time_us) * 100));
    RULES.set(Some(FeedbackRules { levels, running_time, boost }));
    0
}
