//! The CPU clock of a thread of this process, which tells whether the thread runs.
//!
//! Any thread may read the clocks of the others, without privileges. The kernel brings the clock of
//! a running thread up to date when it is read, so two readings differ if the thread had a CPU
//! between them, and are the same to the nanosecond if it had none. A reading takes some 0.3 us.

use std::num::NonZeroI32;
use std::time::Duration;

/// The CPU clock of one thread of this process.
///
/// It is a number that means nothing in other processes. After the thread has ended, the number may
/// come to mean another thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadClock(NonZeroI32);

impl ThreadClock {
    /// The clock of the calling thread. `None` if the C library does not know it. Makes no system
    /// call.
    #[inline]
    pub fn own() -> Option<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the thread is alive, since it calls, and the function writes one number to the
        // given address, which has room for it.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        if result == 0 { ThreadClock::from_number(clock) } else { None }
    }

    /// The clock with this number. `None` for zero, which is no thread's.
    #[inline]
    pub const fn from_number(number: i32) -> Option<ThreadClock> {
        match NonZeroI32::new(number) {
            Some(number) => Some(ThreadClock(number)),
            None => None,
        }
    }

    /// Its number, to store it in a word.
    #[inline]
    pub const fn number(self) -> i32 {
        self.0.get()
    }

    /// The CPU time of the thread. `None` if no thread of this process has this clock.
    pub fn time(self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one `timespec` to the given address, which has room for it. It
        // refuses numbers of clocks that do not exist.
        let result = unsafe { libc::clock_gettime(self.0.get(), &raw mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32))
    }

    /// Whether the thread has a CPU at this moment. `None` if no thread of this process has this
    /// clock. Takes two readings.
    pub fn is_running(self) -> Option<bool> {
        Some(self.time()? != self.time()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_runs_while_it_reads_its_own_clock() {
        let clock = ThreadClock::own().unwrap();
        assert_eq!(ThreadClock::from_number(clock.number()), Some(clock));
        assert_eq!(clock.is_running(), Some(true));
    }

    #[test]
    fn the_clock_of_a_computing_thread_advances_and_that_of_a_sleeping_thread_stands_still() {
        let (clock, ends, (wakes, woken)) = (AtomicI32::new(0), AtomicBool::new(false), mpsc::channel());
        let (clock, ends) = (&clock, &ends);
        thread::scope(|scope| {
            scope.spawn(move || {
                clock.store(ThreadClock::own().unwrap().number(), SeqCst);
                while !ends.load(SeqCst) {}
                woken.recv().unwrap();
            });
            let other = loop {
                if let Some(clock) = ThreadClock::from_number(clock.load(SeqCst)) {
                    break clock;
                }
            };
            // It gets a CPU at some time.
            while other.is_running() != Some(true) {}
            ends.store(true, SeqCst);
            // It falls asleep at some time, and sleeps until it is woken.
            while other.is_running() != Some(false) {}
            thread::sleep(Duration::from_millis(20));
            assert!((0..100).all(|_| other.is_running() == Some(false)));
            wakes.send(()).unwrap();
        });
    }

    #[test]
    fn the_clock_of_an_ended_thread_is_unknown() {
        let clock = thread::spawn(|| ThreadClock::own().unwrap()).join().unwrap();
        // The kernel may still be ending the thread, and other tests may get its ID.
        let mut is_unknown = (0..1_000).map(|_| {
            thread::sleep(Duration::from_millis(1));
            clock.is_running().is_none()
        });
        assert!(is_unknown.any(|unknown| unknown));
        assert_eq!(ThreadClock::from_number(0), None);
        // The clock of the first process's first thread, which is not of this process.
        assert_eq!(ThreadClock::from_number(!1 << 3 | 6).unwrap().time(), None);
    }
}
