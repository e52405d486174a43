//! Ticks: how a [guest](crate::guest) that does not come to a point gives up its CPU all the same.
//!
//! A timer interrupts the worker's kernel thread by a signal. The handler runs on the stack of whoever ran, a guest that is outside of the library, say. It
//! leaves that stack as a switch does, with all that the kernel has saved there, for the *deputy*: a small stack of the worker's own, with the worker's own thread
//! control block in force. There the queue is asked who is next, and the library may allocate memory and take locks as ever: whatever the guest was in the
//! middle of, it was so in another block. When the guest's turn comes again, the handler returns, and the kernel puts everything back.
//!
//! # When it ticks
//! Only while somebody waits whom a guest keeps from running. The timer is set when a guest is about to run, or goes outside, and others are ready or something is
//! to be looked for outside; where all there is to come has a time, it is set to that. Then it goes off once for each running time, until a tick finds
//! that nobody waits. A kernel thread that sends something to a worker whose timer stands still sets it off: the worker says first that it
//! stands still and then looks at its mail, and who sends looks at that afterwards, so one of both sees the other.
//!
//! A guest's turn so ends with a tick: after at least half of its running time, and at most one and a half. One that has locked something has its turn a second time before it
//! gives way, once, and gives way when it has unlocked.
//!
//! # What a handler may do
//! It interrupts anything, so it touches nothing that the compiler or the C library has for the thread: no thread-locals, no memory, no lock, no panic. It finds its
//! worker by the word that comes with the signal.

pub(crate) mod exile;
mod lend;

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, compiler_fence, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use policy::ThreadId;
use policy::feedback::Turn;
use sys::tick::{Interrupted, SignalMask, Ticker};

use crate::arch;
use crate::error::PreemptionError;
use crate::guest::Guest;
use crate::here::Here;
use crate::queue::Queue;
use crate::record::{Fiber, State};
use crate::stack::Stack;
use crate::worker::Worker;

/// A tick takes the kernel some microseconds, on a virtual machine ten: were ticks not much further apart than that, nothing else would be done any more.
const SHORTEST: Duration = Duration::from_micros(20);

/// How often it is looked whether somebody who runs and is no guest waits for what a guest has that was interrupted.
const SLOW: Duration = Duration::from_millis(10);

/// What the ticks of a runtime have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemptions {
    /// How often a fiber was taken off its CPU.
    pub taken: u64,
    /// How often one was left there once more since it had locked something.
    pub favoured: u64,
    /// How many ticks came while the library did something for a fiber: it gave way when that was done, if it had to.
    pub inside: u64,
    /// How many came while a fiber blocked signals, in the handler of one say: it went on.
    pub masked: u64,
    /// How often a fiber ran in the place of one that waited in the kernel for what it had.
    pub lent: u64,
}

/// When the next tick comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticking {
    Never,
    /// At this time.
    At(Instant),
    /// Now and then.
    Slowly,
    /// After each running time.
    On,
}

/// How a tick finds its worker, and others set one off. It goes with the worker, or with the last one who is about to set one off.
#[derive(Debug)]
pub(crate) struct Ticks {
    worker: AtomicPtr<Worker>,
    ticker: Option<Ticker>,
    interval: Duration,
}

impl Ticks {
    fn new(worker: &Worker, interval: Duration) -> std::io::Result<Arc<Ticks>> {
        let mut why = None;
        let ticks = Arc::new_cyclic(|ticks: &Weak<Ticks>| {
            let word = ticks.as_ptr().expose_provenance();
            let ticker = Ticker::for_this_thread(word).inspect_err(|error| why = Some(error.kind()));
            let worker = AtomicPtr::new(std::ptr::from_ref(worker).cast_mut());
            Ticks { worker, ticker: ticker.ok(), interval }
        });
        why.map_or(Ok(ticks), |why| Err(why.into()))
    }

    /// Sets one off.
    pub(crate) fn now(&self) {
        self.every(Duration::ZERO, self.interval);
    }

    fn every(&self, first: Duration, interval: Duration) {
        if let Some(ticker) = &self.ticker {
            ticker.every(first, interval);
        }
    }

    fn stop(&self) {
        if let Some(ticker) = &self.ticker {
            ticker.stop();
        }
    }
}

/// What a worker has for its guests.
pub(crate) struct Preemption {
    /// Of the kernel thread's own block.
    pub(crate) thread_pointer: Cell<usize>,
    mask: Cell<Option<SignalMask>>,
    /// Its own share of them.
    ticks: Cell<Option<NonNull<Ticks>>>,
    ticking: Cell<Ticking>,
    deputy: Cell<Option<Stack>>,
    /// Guests that were interrupted outside, and are ready.
    interrupted: UnsafeCell<Queue>,
    lending: lend::Lending,
    /// Nobody is ready, and the worker waits.
    asleep: Cell<bool>,
    /// Those that were interrupted go on elsewhere.
    exiles: Cell<bool>,
    counts: Cell<Preemptions>,
}

impl Default for Preemption {
    fn default() -> Preemption {
        Preemption {
            thread_pointer: Cell::new(0),
            mask: Cell::new(None),
            ticks: Cell::new(None),
            ticking: Cell::new(Ticking::Never),
            deputy: Cell::new(None),
            interrupted: UnsafeCell::new(Queue::new()),
            lending: lend::Lending::default(),
            asleep: Cell::new(false),
            exiles: Cell::new(false),
            counts: Cell::new(Preemptions::default()),
        }
    }
}

impl Preemption {
    /// Guests that were interrupted, for a moment.
    fn interrupted<R>(&self, then: impl FnOnce(&mut Queue) -> R) -> R {
        // SAFETY: only this kernel thread comes here, and nothing that is done inside comes back here; a handler only where who was interrupted stands at
        // a system call that is none of ours, and so not in here.
        then(unsafe { &mut *self.interrupted.get() })
    }

    fn count(&self, change: impl FnOnce(&mut Preemptions)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Ticks come from then on, or else after a running time.
    fn ticks_after(&self, first: Option<Duration>) {
        if let Some(ticks) = self.ticks() {
            ticks.every(first.map_or(ticks.interval, |first| first.min(ticks.interval)), ticks.interval);
        }
    }

    #[inline]
    fn ticks(&self) -> Option<&Ticks> {
        // SAFETY: the worker has a share of them.
        self.ticks.get().map(|ticks| unsafe { ticks.as_ref() })
    }

    pub(crate) fn counts(&self) -> Preemptions {
        self.counts.get()
    }

    /// From now on those that were interrupted go on elsewhere.
    pub(crate) fn exiles(&self) {
        self.exiles.set(true);
    }
}

impl Worker {
    /// Makes what guests need, if it is not there.
    #[cold]
    pub(crate) fn prepares_for_guests(&self) -> Result<(), PreemptionError> {
        if self.preemption.ticks.get().is_some() {
            return Ok(());
        }
        sys::thread_block::is_possible()?;
        // SAFETY: the handler does what its own head says.
        unsafe { sys::tick::handle(tick) }.map_err(PreemptionError::Timer)?;
        let deputy = self.stacks.take_usual().map_err(|why| PreemptionError::Stack(Box::new(why)))?;
        let interval = Duration::from_nanos(self.core().config().rules.running_time.as_nanos()).max(SHORTEST);
        let ticks = Ticks::new(self, interval).map_err(PreemptionError::Timer)?;
        self.preemption.mask.set(Some(SignalMask::of_this_thread()));
        self.preemption.deputy.set(Some(deputy));
        self.preemption.ticks.set(NonNull::new(Arc::into_raw(ticks).cast_mut()));
        // A worker's first guest is made ready by a fiber that is none.
        self.preemption.thread_pointer.set(arch::thread_pointer());
        self.will_have_guests();
        Ok(())
    }

    /// No tick comes any more.
    pub(crate) fn stops_ticks(&self) {
        if let Some(ticks) = self.preemption.ticks.take() {
            // SAFETY: it is the worker's share, of which it makes no other use.
            let ticks = unsafe { Arc::from_raw(ticks.as_ptr()) };
            drop(self.mail().is_loud());
            // Whoever sets one off at this moment has done so soon.
            while Arc::strong_count(&ticks) > 1 {
                std::thread::yield_now();
            }
            ticks.stop();
            ticks.worker.store(std::ptr::null_mut(), Relaxed);
        }
    }

    // When it ticks.

    /// Whether somebody waits whom a guest would keep from running.
    fn somebody_waits(&self) -> bool {
        self.ready(|ready| ready.waiting()) > 0 || self.core().fresh.many() > 0 || self.outside.is_awaited()
    }

    /// A guest goes outside: ticks are to come if somebody waits.
    #[inline]
    pub(crate) fn sees_to_ticks(&self) {
        if self.preemption.ticking.get() != Ticking::On && self.somebody_waits() {
            self.ticks_on();
        }
    }

    #[cold]
    fn ticks_slowly(&self) {
        if let Some(ticks) = self.preemption.ticks() {
            self.preemption.ticking.set(Ticking::Slowly);
            ticks.every(SLOW, SLOW);
        }
    }

    #[cold]
    fn ticks_on(&self) {
        if let Some(ticks) = self.preemption.ticks() {
            self.preemption.ticking.set(Ticking::On);
            ticks.every(ticks.interval, ticks.interval);
        }
    }

    /// This fiber is about to run, and is the [current](Worker::current) one already. `may_stop` says that the time for the timer to stand still has come, if nobody
    /// waits.
    pub(crate) fn winds(&self, next: Fiber, may_stop: bool) {
        let Some(ticks) = self.preemption.ticks() else { return };
        compiler_fence(SeqCst);
        let ticking = self.preemption.ticking.get();
        if next.guest().is_none() {
            if ticking == Ticking::Never && self.preemption.interrupted(|queue| !queue.is_empty()) {
                self.ticks_slowly();
            }
            return;
        }
        if self.somebody_waits() {
            if ticking != Ticking::On {
                self.ticks_on();
            }
            return;
        }
        if ticking == Ticking::On && !may_stop {
            return;
        }
        match self.timers.next() {
            Some(time) if matches!(ticking, Ticking::At(at) if at <= time) => (),
            Some(time) => {
                self.preemption.ticking.set(Ticking::At(time));
                ticks.every(time.saturating_duration_since(Instant::now()), ticks.interval);
            }
            None if ticking != Ticking::Never => {
                self.preemption.ticking.set(Ticking::Never);
                ticks.stop();
            }
            None => (),
        }
        self.mail().is_quiet(ticks);
        fence(SeqCst);
        if self.mail().any() || self.core().fresh.many() > 0 {
            self.ticks_on();
        }
    }

    /// The worker waits, since nobody is ready.
    pub(crate) fn is_asleep(&self, asleep: bool) {
        self.preemption.asleep.set(asleep);
        compiler_fence(SeqCst);
    }

    /// The timer stands still, as far as this worker is concerned. In a handler.
    fn ticks_no_more(&self) {
        self.preemption.ticking.set(Ticking::Never);
        if let Some(ticks) = self.preemption.ticks() {
            ticks.stop();
        }
    }

    // What a tick does.

    /// A tick has come, on this worker's kernel thread. In a handler.
    fn is_interrupted(&self, interrupted: &Interrupted) {
        let preemption = &self.preemption;
        let pointer = arch::thread_pointer();
        if let Some(lent) = preemption.lending.to() {
            return self.takes_back(lent, pointer, interrupted);
        }
        let Some(me) = self.running() else { return };
        let guest = me.guest().filter(|guest| {
            guest.thread_pointer() == pointer
                && me.stack.get().is_some_and(|stack| stack.has(interrupted.stack_pointer()))
        });
        let Some(guest) = guest else {
            if interrupted.waits_for_futex() {
                self.lends(interrupted);
            }
            // Who is about to run, if it is a guest, counts on what it was told of the timer.
            let runs = me.guest().is_none();
            if preemption.asleep.get() || runs && preemption.interrupted(|queue| queue.is_empty()) {
                self.ticks_no_more();
            } else if runs && preemption.ticking.get() == Ticking::On {
                self.ticks_slowly();
            }
            return;
        };
        if !guest.is_interrupted() {
            if preemption.asleep.get() {
                self.ticks_no_more();
            } else if interrupted.waits_for_futex() {
                self.lends(interrupted);
            } else {
                preemption.count(|counts| counts.inside += 1);
                guest.misses();
            }
            return;
        }
        preemption.ticking.set(Ticking::On);
        if preemption.mask.get().is_some_and(|mask| interrupted.blocks_signals_besides(&mask)) {
            preemption.count(|counts| counts.masked += 1);
        } else if let Some(deputy) = preemption.deputy.get() {
            // SAFETY: nobody is on the deputy's stack between two ticks; the guest is outside, and what the handler is on is its own stack, where it is
            // gone on with when its turn comes.
            interrupted.meanwhile(|| unsafe {
                let to = arch::fresh(deputy.top(), arch::Entrance::Deputy);
                arch::switch_block(me.context.as_ptr(), to, preemption.thread_pointer.get());
            });
        }
        guest.goes_on_after(interrupted);
    }

    /// Who goes on after a tick, with the current fiber in the queue if it is another.
    fn chooses_after_tick(&self, me: Fiber) -> Fiber {
        let before = self.level(me);
        self.read_clock(Some(me));
        // The tick may have been set for the very time of one of these, and the processor's clock is not quite as exact.
        self.expire();
        let over = self.charge(me) == Turn::IsOver || self.level(me) != before;
        let over = over || u64::from(me.spent.get()) * 2 >= u64::from(me.allowance.get());
        let level = self.level(me);
        let gives_way = self.highest().is_some_and(|highest| over && highest <= level || highest < level);
        if !gives_way {
            return me;
        }
        if let Some(guest) = me.guest() {
            if guest.locks.get() > 0 && !guest.is_favoured.replace(true) {
                self.preemption.count(|counts| counts.favoured += 1);
                return me;
            }
            guest.is_favoured.set(false);
        }
        self.turn_is_over(Some(me));
        me.state.set(State::Ready);
        self.ready(|ready| {
            let thread = ThreadId(me.number.get());
            if over { ready.queue(thread) } else { ready.queue_again(thread) }
        });
        self.next()
    }

    /// A tick came while the library was at work for the guest that runs: what it would have done is done now.
    #[cold]
    pub(crate) fn makes_up_for_a_tick(&self) {
        let me = self.current();
        let next = self.chooses_after_tick(me);
        if next != me {
            self.preemption.count(|counts| counts.taken += 1);
            self.change(me, next);
        }
        me.state.set(State::Running);
    }

    /// The guest that runs has so many locks more. When it has unlocked the last one, and was given a quantum more because of them, it gives way as soon as it goes
    /// outside.
    #[inline]
    pub(crate) fn locks(&self, more: i32) {
        if let Some(guest) = self.current().guest() {
            let locks = guest.locks.get().saturating_add_signed(more);
            guest.locks.set(locks);
            if locks == 0 && guest.is_favoured.get() {
                guest.misses();
            }
        }
    }

    /// Goes on with a fiber, with nothing left on this stack.
    fn goes_to(&self, mut next: Fiber) -> ! {
        let to = loop {
            match self.entrance(next) {
                Some(to) => break to,
                None => next = self.next(),
            }
        };
        self.is_next(next, true);
        // SAFETY: the other was left, by this worker, or is fresh; it was in the queue once, so nobody has gone on there.
        unsafe {
            self.shadow(next).enter();
            arch::leave_block(to, self.block_of(next))
        }
    }

    /// The other fiber is the current one, and what has to be seen to before it runs is.
    pub(crate) fn is_next(&self, next: Fiber, after_tick: bool) {
        next.state.set(State::Running);
        self.current.set(Some(next));
        if next.was_interrupted.replace(false) {
            self.preemption.interrupted(|queue| queue.remove(next));
        }
        self.winds(next, after_tick);
    }

    /// What the thread pointer is while a fiber of this worker runs.
    pub(crate) fn block_of(&self, fiber: Fiber) -> usize {
        fiber.guest().map_or(self.preemption.thread_pointer.get(), Guest::thread_pointer)
    }

    /// Sends a guest away that was interrupted, and does not come to any point at which it could be told that its runtime ends. None is left that was not.
    pub(crate) fn is_to_be_exiled(&self, fiber: Fiber) -> bool {
        self.preemption.exiles.get() && fiber.was_interrupted.get()
    }

    /// The fiber is no longer among those that were interrupted here.
    pub(crate) fn loses(&self, fiber: Fiber) {
        fiber.was_interrupted.set(false);
        self.preemption.interrupted(|queue| queue.remove(fiber));
    }
}

/// What the deputy's stack begins with, after a tick: the current fiber was interrupted, and is outside.
pub(crate) unsafe extern "C" fn deputy() -> ! {
    let here = Here::expect();
    let me = here.current();
    let next = here.chooses_after_tick(me);
    if next != me {
        here.preemption.count(|counts| counts.taken += 1);
        me.was_interrupted.set(true);
        here.preemption.interrupted(|queue| queue.push(me));
    }
    here.goes_to(next)
}

/// What the signal calls.
///
/// # Safety
/// The word is the address of some [`Ticks`] that are there.
unsafe fn tick(word: usize, interrupted: &Interrupted) {
    // SAFETY: the timer whose word it is is deleted first, when they go.
    let ticks = unsafe { &*std::ptr::with_exposed_provenance::<Ticks>(word) };
    if let Some(worker) = NonNull::new(ticks.worker.load(Relaxed)) {
        // SAFETY: the worker takes itself out before it is gone, on this very kernel thread.
        unsafe { worker.as_ref() }.is_interrupted(interrupted);
    }
}

/// What ticks have done to the fibers of the worker that runs the one that asks.
///
/// # Panics
/// Where no runtime runs.
pub fn preemptions() -> Preemptions {
    Here::enter(|here| here.preemption.counts())
}
