//! A bell for each rank, on which its threads sleep, and which other ranks ring.
//!
//! # The protocol
//!
//! The lowest bit of the word says that a thread may be asleep. The rest counts the rings.
//!
//! 1. A thread that wants to sleep *prepares*: it sets the bit. Then it looks once more for what it
//!    waits for. If that is not there, it sleeps as long as the word is unchanged.
//! 2. A rank that changes something for the thread publishes the change. Then it *rings*: if the
//!    bit is set, it clears the bit, counts, and wakes all that sleep.
//!
//! # Why no wakeup is lost
//!
//! The bit is set, the change is published, and both are looked at in one total order (`SeqCst`).
//! If the ringer does not see the bit, the bit was set after that, so the sleeper sees the change
//! when it looks once more. If the ringer sees the bit, the word changes. So either the sleeper
//! does not fall asleep, because the kernel compares the word, or it is woken.
//!
//! A thread that found what it waited for leaves the bit behind. That costs one needless wake. When
//! several threads sleep, all are woken, and those that wait for something else prepare again.

use policy::Instant;

use crate::word::Word;

const MAY_SLEEP: u64 = 1;

/// The bell of a rank.
#[derive(Debug)]
pub(crate) struct Bell<'a, W>(pub(crate) &'a W);

/// The value of a bell when a thread wanted to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared(u64);

impl<W: Word> Bell<'_, W> {
    /// Announces that the calling thread is about to sleep. It must look for what it waits for once
    /// more.
    pub(crate) fn prepare(&self) -> Prepared {
        Prepared(self.0.mark(MAY_SLEEP) | MAY_SLEEP)
    }

    /// Blocks until the bell has rung since, until the deadline, or for any other reason.
    pub(crate) fn sleep(&self, prepared: Prepared, deadline: Option<Instant>) {
        self.0.sleep(prepared.0, deadline);
    }

    /// Wakes the threads that sleep. What they wait for must have been published.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.0.observe() & MAY_SLEEP != 0 && !cfg!(rowlock_canary = "a-bell-is-not-rung") {
            self.ring_sleepers();
        }
    }

    #[cold]
    fn ring_sleepers(&self) {
        loop {
            let value = self.0.observe();
            // Otherwise another one has rung.
            if value & MAY_SLEEP == 0 {
                return;
            }
            // It clears the bit, and counts.
            if self.0.replace(value, value.wrapping_add(1)) {
                return self.0.wake();
            }
        }
    }
}
