//! Code in assembly language for each processor: switching stacks, and reading the clock.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    announce, as_if_called_from, leave, leave_and_set_thread_pointer, new_context, reset_modes, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    announce, as_if_called_from, leave, leave_and_set_thread_pointer, new_context, reset_modes, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("rowlock-fiber switches stacks on x86-64 and aarch64 only: another processor needs a file in src/arch");

/// Where a stack was left: its lowest word in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Context(*mut u8);

impl Context {
    /// No context.
    pub(crate) const NONE: Context = Context(std::ptr::null_mut());
}

/// The first function on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// [Runs fibers](crate::start::begin).
    Fiber,
    /// Chooses the next fiber, [on the scheduler's stack](crate::preempt::schedule).
    Scheduler,
    /// [Waits](crate::control_block::thread) for a kernel thread's turn.
    Wait,
}
