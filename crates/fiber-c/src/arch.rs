//! How a function of C is called so that it can be left from anywhere within it, and the processor's modes of floating-point arithmetic.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Modes, call, leave};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Modes, call, leave};

/// The modes that a thread has, such as how it rounds, are its own: they are put back when this is dropped, after others may have run.
pub(crate) struct Kept(Modes);

impl Kept {
    #[inline(always)]
    pub(crate) fn now() -> Kept {
        Kept(Modes::current())
    }
}

impl Drop for Kept {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set();
    }
}
