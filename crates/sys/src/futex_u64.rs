//! The low half of a 64-bit word as a futex: the kernel compares 32 bits, and a protocol may need
//! to change more in one step.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use crate::futex::{self, Scope, WaitResult};

/// Like [`futex::wait`], on the low half of `word`.
pub fn wait(word: &AtomicU64, expected: u32, deadline: Option<Duration>, scope: Scope) -> WaitResult {
    futex::wait(low(word), expected, deadline, scope)
}

/// Like [`futex::wake`], on the low half of `word`.
pub fn wake(word: &AtomicU64, count: u32, scope: Scope) -> u32 {
    futex::wake(low(word), count, scope)
}

/// The low half, for the kernel alone: in a program, access to it beside the whole word would mix
/// sizes, which the memory model of the language does not define.
fn low(word: &AtomicU64) -> &AtomicU32 {
    let halves = std::ptr::from_ref(word).cast::<AtomicU32>();
    // SAFETY: the halves lie within the word, which is borrowed as long as the result; they are
    // aligned, as the word is; and any bits are an `AtomicU32`. Only the kernel reads through it.
    unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_compares_the_low_half_alone() {
        let word = AtomicU64::new(7 << 32 | 5);
        let soon = Some(Duration::from_nanos(1));
        assert_eq!(wait(&word, 5, soon, Scope::Process), WaitResult::TimedOut);
        assert_eq!(wait(&word, 7, soon, Scope::Process), WaitResult::Changed);
    }

    #[test]
    fn a_waiter_on_the_low_half_is_woken() {
        let word = AtomicU64::new(7 << 32);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(&word, 0, None, Scope::Process));
            while !sleeper.is_finished() && wake(&word, 1, Scope::Process) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), WaitResult::Woken);
        });
    }
}
