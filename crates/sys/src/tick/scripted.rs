//! A clock for tests, which stands still until the program advances it.
//!
//! The due time of a ticker of such a clock is stored in its slot. Advancing the clock removes each
//! time that has passed from its slot, and sends the signal of that slot to the kernel thread of
//! the ticker. All of this is atomic, so a handler may set a ticker, and a fiber that is
//! interrupted while it advances the clock holds no lock.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use super::{SLOTS, Slot};

/// A due time: the ticker is not set. It is zero so that unused slots take no memory.
const NEVER: u64 = 0;

/// A clock that any thread may [advance](ScriptedClock::advance). Its clones are the same clock.
#[derive(Clone, Debug)]
pub struct ScriptedClock(Arc<Script>);

#[derive(Debug)]
struct Script {
    /// Distinguishes the slots of its tickers from those of other clocks.
    number: usize,
    beginning: Instant,
    /// Nanoseconds since `beginning`.
    now: AtomicU64,
}

/// The due time of the ticker of a slot, if it was last set by a scripted clock.
pub(super) struct Alarm {
    /// The number of the clock, or zero.
    clock: AtomicUsize,
    /// The kernel thread of the ticker.
    thread: AtomicI32,
    /// In nanoseconds since the beginning of the clock.
    due: AtomicU64,
    /// The time until it is due again; zero if never.
    interval: AtomicU64,
}

impl Alarm {
    pub(super) const fn new() -> Alarm {
        Alarm {
            clock: AtomicUsize::new(0),
            thread: AtomicI32::new(0),
            due: AtomicU64::new(NEVER),
            interval: AtomicU64::new(0),
        }
    }

    /// Assigns the slot to a ticker of the calling thread.
    pub(super) fn bind_to_this_thread(&self) {
        // SAFETY: it has no preconditions.
        self.thread.store(unsafe { libc::gettid() }, SeqCst);
    }

    /// Whether the ticker uses a scripted clock.
    pub(super) fn is_set(&self) -> bool {
        self.clock.load(Relaxed) != 0
    }

    /// The ticker uses the real clock from now on, or is dropped.
    pub(super) fn clear(&self) {
        self.clock.store(0, SeqCst);
    }

    /// The ticker does not tick until it is set again.
    pub(super) fn stop(&self) {
        self.due.store(NEVER, SeqCst);
    }
}

/// Only slots below this one may have alarms.
static END: AtomicUsize = AtomicUsize::new(0);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for ScriptedClock {
    fn default() -> ScriptedClock {
        ScriptedClock::new()
    }
}

impl ScriptedClock {
    /// A clock that stands still at the current time.
    pub fn new() -> ScriptedClock {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed) + 1;
        ScriptedClock(Arc::new(Script { number, beginning: Instant::now(), now: AtomicU64::new(0) }))
    }

    /// The current time of the clock.
    pub fn now(&self) -> Instant {
        self.0.beginning + self.elapsed()
    }

    /// The time by which it has been advanced.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.now.load(SeqCst))
    }

    /// Advances the clock by this much. A ticker that becomes due ticks once, however often it
    /// would have ticked meanwhile. If it belongs to the calling thread, it has ticked when this
    /// returns, unless the thread blocks SIGURG. It allocates no memory, may be called in a signal
    /// handler, and preserves `errno`.
    pub fn advance(&self, time: Duration) {
        let add = |now: u64| Some(now.saturating_add(nanoseconds(time)));
        // The closure always returns a time.
        let _ = self.0.now.fetch_update(SeqCst, SeqCst, add);
        self.tick();
    }

    /// Like [`advance`](ScriptedClock::advance), to this time, unless that has passed.
    pub fn advance_to(&self, time: Instant) {
        self.0.now.fetch_max(nanoseconds(time.saturating_duration_since(self.0.beginning)), SeqCst);
        self.tick();
    }

    /// Sends a signal to each due ticker, last to that of the calling thread, which it interrupts.
    fn tick(&self) {
        // SAFETY: it has no preconditions.
        let is_own = |slot: &Slot| slot.alarm.thread.load(Relaxed) == unsafe { libc::gettid() };
        let mut own = None;
        for slot in SLOTS[..END.load(SeqCst)].iter().filter(|slot| self.take_due(slot)) {
            if is_own(slot) { own = Some(slot) } else { send(slot) }
        }
        if let Some(own) = own {
            send(own);
        }
    }

    /// Whether the ticker of a slot is due. Sets it to its next time.
    fn take_due(&self, slot: &Slot) -> bool {
        let alarm = &slot.alarm;
        if alarm.clock.load(SeqCst) != self.0.number {
            return false;
        }
        let next = |due: u64| {
            let late = self.0.now.load(SeqCst).checked_sub(due).filter(|_| due != NEVER)?;
            let interval = alarm.interval.load(SeqCst);
            // The first of its times that has not passed.
            let passed = late.checked_div(interval).map(|times| (times + 1).saturating_mul(interval));
            Some(passed.map_or(NEVER, |passed| due.saturating_add(passed)))
        };
        alarm.due.fetch_update(SeqCst, SeqCst, next).is_ok()
    }

    /// Sets the ticker of a slot: see [`start`](super::Ticker::start).
    pub(super) fn set(&self, index: usize, first: Duration, interval: Duration) {
        let slot = &SLOTS[index];
        let alarm = &slot.alarm;
        alarm.stop();
        alarm.clock.store(self.0.number, SeqCst);
        END.fetch_max(index + 1, SeqCst);
        alarm.interval.store(nanoseconds(interval), SeqCst);
        let is_at_once = first.is_zero();
        let first = if is_at_once { interval } else { first };
        if !first.is_zero() {
            alarm.due.store(self.0.now.load(SeqCst).saturating_add(nanoseconds(first)), SeqCst);
        }
        // Another thread may have advanced the clock past that time before it was stored.
        if self.take_due(slot) || is_at_once {
            send(slot);
        }
    }
}

/// Sends the signal of the ticker of a slot, as the kernel does for a timer.
pub(super) fn send(slot: &Slot) {
    /// The beginning of a `siginfo_t` with a value.
    #[repr(C)]
    struct Info {
        numbers: [libc::c_int; 5],
        value: *mut libc::c_void,
    }

    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let value = std::ptr::without_provenance_mut(slot.mark.load(SeqCst));
    let numbers = [libc::SIGURG, 0, libc::SI_QUEUE, 0, 0];
    // SAFETY: the structure of the kernel begins like this and is larger; the pointers belong to
    // this thread, and `errno` is restored, as the target thread may have ended.
    unsafe {
        info.as_mut_ptr().cast::<Info>().write(Info { numbers, value });
        let (errno, thread) = (*libc::__errno_location(), slot.alarm.thread.load(SeqCst));
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, libc::SIGURG, info.as_ptr());
        *libc::__errno_location() = errno;
    }
}
