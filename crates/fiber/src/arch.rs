//! How a processor leaves one stack and goes on at another, and how it tells the time: all that is written in its own language.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    announce, as_if_called_from, call_with_thread_pointer, leave, leave_and_set_thread_pointer, new_context, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    announce, as_if_called_from, call_with_thread_pointer, leave, leave_and_set_thread_pointer, new_context, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("rowlock-fiber switches stacks on x86-64 and aarch64 only: another processor needs a file in src/arch");

/// Where a stack was left: its lowest word in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Context(*mut u8);

impl Context {
    /// No stack's.
    pub(crate) const NONE: Context = Context(std::ptr::null_mut());
}

/// What a stack begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// [Fibers](crate::start::begin).
    Fiber,
    /// The choice of who runs after a [tick](crate::preempt).
    Preemption,
    /// A kernel thread's [wait](crate::control_block::thread) for its turn.
    Wait,
}
