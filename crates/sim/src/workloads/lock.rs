//! The lock of a `lock` job, and what it makes of its threads.
//!
//! It is a likeness of the mutex of `rowlock-wait`, whose protocol stands beside that, step by step:
//!
//! * **Take.** Whoever finds the lock free takes it, though others wait or sleep: a thread that comes, one that looks again
//!   after a yield, one that was woken, one that spins. Of several that spin with a CPU when the lock is given back, the one that
//!   has waited longest looks first. Who spins without a CPU looks when it has one again.
//! * **Sleep.** Who is told to block sleeps behind those that sleep already, and says so in the lock's word.
//! * **Give back.** If the word says that somebody sleeps, the first of them is woken, and the word says so no more, until
//!   a thread that has slept takes the lock, or one goes to sleep. But while somebody spins, sleepers are passed over, 64 times
//!   in a row at most.
//! * **Wake.** The woken has to get a CPU, and then looks. If the lock is held again, its rule is asked what to do.
//!
//! Taking, giving back and waking cost nothing here beyond the switches that they bring about. Nobody knows who will come, so a
//! rule is asked with a fresh waiter in each wait, and is told of nobody but the owner, and where that took the lock.

use std::collections::VecDeque;

use policy::waiting::Missing;
use policy::{CpuId, ThreadId};

/// How often sleepers are passed over in a row.
const PATIENCE: u32 = 64;

/// A lock, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    /// Who has it, and where it took it.
    owner: Option<(ThreadId, CpuId)>,
    /// Who waits and does not sleep, in the order in which they came, or were woken.
    awake: Vec<Awake>,
    /// Who sleeps, the first to be woken first.
    asleep: VecDeque<ThreadId>,
    /// What the word says: somebody sleeps.
    tells_of_sleepers: bool,
    /// How often sleepers have been passed over since somebody was woken.
    passed: u32,
    /// How many waits there have been.
    waits: u32,
}

#[derive(Clone, Copy, Debug)]
struct Awake {
    thread: ThreadId,
    has_slept: bool,
}

impl Lock {
    pub(crate) fn is_free(&self) -> bool {
        self.owner.is_none()
    }

    pub(crate) fn is_held_by(&self, thread: ThreadId) -> bool {
        self.owner.is_some_and(|(owner, _)| owner == thread)
    }

    /// The owner as its siblings know it; `first` is the number of the first of them.
    pub(crate) fn missing(&self, first: usize) -> Vec<Missing> {
        let missing = |(owner, cpu): (ThreadId, CpuId)| Missing {
            thread: ThreadId((owner.index() - first) as u32),
            last_seen: Some(cpu),
        };
        self.owner.map(missing).into_iter().collect()
    }

    /// The threads that wait and do not sleep, the one that has waited longest first.
    pub(crate) fn awake(&self) -> impl Iterator<Item = ThreadId> {
        self.awake.iter().map(|awake| awake.thread)
    }

    /// A thread begins to wait; returns how many waits there were before.
    pub(crate) fn begin_wait(&mut self, thread: ThreadId) -> u32 {
        self.awake.push(Awake { thread, has_slept: false });
        let before = self.waits;
        self.waits = before.wrapping_add(1);
        before
    }

    /// A thread that waits goes to sleep.
    pub(crate) fn sleep(&mut self, thread: ThreadId) {
        self.awake.retain(|awake| awake.thread != thread);
        self.asleep.push_back(thread);
        self.tells_of_sleepers = true;
    }

    /// A thread takes it, which may have waited.
    pub(crate) fn acquire(&mut self, thread: ThreadId, cpu: CpuId) {
        debug_assert!(self.is_free(), "thread {thread} takes what is not free");
        if let Some(place) = self.awake.iter().position(|awake| awake.thread == thread) {
            // Who has slept does not know whether others still do.
            self.tells_of_sleepers |= self.awake.remove(place).has_slept;
        }
        self.owner = Some((thread, cpu));
    }

    /// It is given back; returns who is to be woken. `spins` tells whether a thread that waits does so spinning.
    pub(crate) fn release(&mut self, spins: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        self.owner = None;
        if !self.tells_of_sleepers {
            return None;
        }
        if self.passed < PATIENCE && self.awake.iter().any(|awake| spins(awake.thread)) {
            self.passed += 1;
            return None;
        }
        (self.tells_of_sleepers, self.passed) = (false, 0);
        let woken = self.asleep.pop_front()?;
        self.awake.push(Awake { thread: woken, has_slept: true });
        Some(woken)
    }

    /// What must hold after every event: who sleeps will be woken, by the owner or in the end by one who is awake; and nobody who
    /// spins with a CPU leaves the lock free.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self, spins_with_a_cpu: impl Fn(ThreadId) -> bool) {
        let will_be_woken = self.owner.is_some() && self.tells_of_sleepers || !self.awake.is_empty();
        assert!(self.asleep.is_empty() || will_be_woken, "nobody will wake those that sleep: {self:?}");
        assert!(!self.is_free() || !self.awake.iter().any(|awake| spins_with_a_cpu(awake.thread)), "{self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_are_passed_over_for_who_spins_but_not_for_ever() {
        let [owner, sleeper, spinner] = [0, 1, 2].map(ThreadId);
        let mut lock = Lock::default();
        lock.acquire(owner, CpuId(0));
        lock.begin_wait(sleeper);
        lock.sleep(sleeper);
        lock.begin_wait(spinner);
        let spins = |thread| thread == spinner;
        for turn in 0..PATIENCE {
            assert_eq!(lock.release(spins), None, "turn {turn}");
            lock.acquire(owner, CpuId(0));
        }
        assert_eq!(lock.release(spins), Some(sleeper));
    }

    #[test]
    fn without_a_spinner_the_first_sleeper_is_woken_and_the_next_when_it_has_had_the_lock() {
        let [owner, first, second] = [0, 1, 2].map(ThreadId);
        let mut lock = Lock::default();
        lock.acquire(owner, CpuId(0));
        for sleeper in [first, second] {
            lock.begin_wait(sleeper);
            lock.sleep(sleeper);
        }
        let nobody = |_| false;
        assert_eq!(lock.release(nobody), Some(first));
        // The owner is back before the woken: nobody else is woken by that.
        lock.acquire(owner, CpuId(0));
        assert_eq!(lock.release(nobody), None);
        lock.acquire(first, CpuId(0));
        assert_eq!(lock.release(nobody), Some(second));
    }
}
