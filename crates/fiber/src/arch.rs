//! Code in assembly language for each processor: switching stacks, and reading the clock.

#[cfg_attr(target_arch = "x86_64", path = "arch/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "arch/aarch64.rs")]
mod processor;

pub(crate) use self::processor::{
    as_if_called_from, call_as_if_left, leave, new_context, reset_modes, switch, thread_pointer, ticks,
};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("rowlock-fiber switches stacks on x86-64 and aarch64 only: another processor needs a file in src/arch");

/// Where a stack was left: its lowest word in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Context(*mut u8);

impl Default for Context {
    /// No context.
    fn default() -> Context {
        Context(std::ptr::null_mut())
    }
}

/// Where to continue.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) to: Context,
    /// 0 if it stays.
    pub(crate) thread_pointer: usize,
}

/// The first function on a stack. Only the switch to its [context](new_context) calls it.
pub(crate) type Begin = unsafe extern "C" fn() -> !;
