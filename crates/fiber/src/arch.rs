//! Code in assembly language for each processor: switching stacks, and reading the clock.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    as_if_called_from, call_as_if_left, leave, leave_and_set_thread_pointer, new_context, reset_modes, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    as_if_called_from, call_as_if_left, leave, leave_and_set_thread_pointer, new_context, reset_modes, switch,
    switch_and_set_thread_pointer, thread_pointer, ticks,
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

/// Where to continue when a stack is left for good.
pub(crate) struct Target {
    pub(crate) to: Context,
    /// 0 if it stays.
    pub(crate) thread_pointer: usize,
}

impl Target {
    /// Leaves this stack.
    ///
    /// The caller is the first function on the stack, and nothing but this call, because its frame
    /// is still there for the next one. It has no variables that the address sanitizer would find
    /// under a handler of a signal that comes before the next one has begun.
    ///
    /// # Safety
    /// As for [`leave`]. Nothing on this stack may be needed any more.
    #[inline(always)]
    pub(crate) unsafe fn leave(self) -> ! {
        // SAFETY: the caller's promise.
        unsafe {
            match self.thread_pointer {
                0 => leave(self.to),
                thread_pointer => leave_and_set_thread_pointer(self.to, thread_pointer),
            }
        }
    }
}

/// The first function on a stack. Only the switch to its [context](new_context) calls it.
pub(crate) type Begin = unsafe extern "C" fn() -> !;
