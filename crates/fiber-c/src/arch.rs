//! Calling C functions so that they can be left from any depth, and the processor's floating-point
//! modes.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Modes, call, leave};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Modes, call, leave};

/// The floating-point modes of the calling thread, such as the rounding mode. Dropping this
/// restores them after other threads may have run.
pub(crate) struct SavedModes(Modes);

impl SavedModes {
    #[inline(always)]
    pub(crate) fn now() -> SavedModes {
        SavedModes(Modes::current())
    }
}

impl Drop for SavedModes {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set();
    }
}
