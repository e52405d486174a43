//! How a processor leaves one stack and goes on at another, and how it tells the time: all that is written in its own language.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Context, announce, as_if_called_from, fresh, leave, switch, ticks};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Context, announce, as_if_called_from, fresh, leave, switch, ticks};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("rowlock-fiber switches stacks on x86-64 and aarch64 only: another processor needs a file in src/arch");
