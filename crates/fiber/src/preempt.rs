//! Ticks: how a [preemptible fiber](crate::preemptible) that does not come to a point gives up its CPU all the same.
//!
//! A timer interrupts the worker's kernel thread by a signal. The handler runs on the stack of whoever ran, a preemptible fiber that is outside of the library, say. It
//! leaves that stack as a switch does, with all that the kernel has saved there, for the *preemption stack*: a small stack of the worker's own, with the worker's own thread
//! control block in force. There the queue is asked who is next, and the library may allocate memory and take locks as ever: whatever the preemptible fiber was in the
//! middle of, it was so in another block. When the preemptible fiber's turn comes again, the handler returns, and the kernel puts everything back.
//!
//! # When it ticks
//! Only while somebody waits whom a preemptible fiber keeps from running. The timer is set when a preemptible fiber is about to run, or goes outside, and others are ready or something is
//! to be looked for outside; where all there is to come has a time, it is set to that. Then it goes off once for each running time, until a tick finds
//! that nobody waits. A kernel thread that sends something to a worker whose timer stands still sets it off: the worker says first that it
//! stands still and then looks at its inbox, and who sends looks at that afterwards, so one of both sees the other.
//!
//! A preemptible fiber's turn so ends with a tick: after at least half of its running time, and at most one and a half. One that has locked something has its turn a second time before it
//! gives way, to those of its level and to those of a higher one alike, and gives way when it has unlocked. So who waits for such a one waits for one running time more, and for
//! another one if that one has given way and locks something when its turn ends again: not for as long as a lock is kept, or a guard that was forgotten counts as one.
//!
//! # What a handler may do
//! It interrupts anything, so it touches nothing that the compiler or the C library has for the thread: no thread-locals, no memory, no lock, no panic. It finds its
//! worker by the word that comes with the signal.

mod donation;
mod grace;
pub(crate) mod orphan;
mod ticks;

use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use policy::ThreadId;
use policy::feedback::TurnOutcome;
use sys::tick::{Interrupted, SignalMask, Slack};

use self::ticks::Ticking;
pub(crate) use self::ticks::Ticks;
use crate::arch;
use crate::control_block::thread::KernelThread;
use crate::control_block::{ControlBlock, ControlBlockKind};
use crate::error::PreemptionError;
use crate::here::Here;
use crate::preemptible::PreemptibleFiber;
use crate::queue::Queue;
use crate::record::{Fiber, State};
use crate::stack::Stack;
use crate::worker::Worker;

/// A tick takes the kernel some microseconds, on a virtual machine ten: were ticks not much further apart than that, nothing else would be done any more.
const SHORTEST: Duration = Duration::from_micros(20);

/// The same where a kernel thread hands its turn over to another, which may have to wait for a CPU.
const SHORTEST_TURN: Duration = Duration::from_micros(500);

/// When ticks have found signals blocked for so long, one after another, it is taken for granted that they remain so.
const FOR_GOOD: Duration = Duration::from_secs(1);

/// How large the stacks are on which the library is at work for a worker: its allocator may be any, and a tick may interrupt it there.
const ROOM: usize = 64 << 10;

/// What the ticks of a runtime have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemptions {
    /// How often a fiber was taken off its CPU.
    pub taken: u64,
    /// How often one was left there once more since it had locked something.
    pub extended: u64,
    /// How many ticks came while the library did something for a fiber: it gave way when that was done, if it had to.
    pub in_runtime: u64,
    /// How many came while a fiber blocked signals, in the handler of one say, or where the handler was installed anew for an alternate stack: it went on.
    pub masked: u64,
    /// How often a fiber ran in the place of one that waited in the kernel for what it had.
    pub donated: u64,
}

/// What a worker has for its preemptible fibers.
pub(crate) struct Preemption {
    /// The worker's own kernel thread.
    pub(crate) control_block: Cell<ControlBlock>,
    /// The kernel thread that has the turn, where preemptible fibers have kernel threads.
    pub(crate) runs_on: Cell<Option<&'static KernelThread>>,
    /// The signals that the worker's own kernel thread has blocked.
    mask: Cell<Option<SignalMask>>,
    /// How many ticks in a row have found others blocked.
    masked: Cell<u32>,
    /// What the worker's own kernel thread had before, if it has less meanwhile.
    slack: Cell<Option<Slack>>,
    /// Its own share of them.
    ticks: Cell<Option<NonNull<Ticks>>>,
    ticking: Cell<Ticking>,
    preemption_stack: Cell<Option<Stack>>,
    /// Guests that were interrupted outside, and are ready.
    interrupted: UnsafeCell<Queue>,
    donation: donation::Donation,
    /// Nobody is ready, and the worker waits.
    asleep: Cell<bool>,
    grace: grace::Grace,
    counts: Cell<Preemptions>,
}

impl Default for Preemption {
    fn default() -> Preemption {
        Preemption {
            control_block: Cell::new(ControlBlock::NONE),
            runs_on: Cell::new(None),
            mask: Cell::new(None),
            masked: Cell::new(0),
            slack: Cell::new(None),
            ticks: Cell::new(None),
            ticking: Cell::new(Ticking::Never),
            preemption_stack: Cell::new(None),
            interrupted: UnsafeCell::new(Queue::new()),
            donation: donation::Donation::default(),
            asleep: Cell::new(false),
            grace: grace::Grace::default(),
            counts: Cell::new(Preemptions::default()),
        }
    }
}

impl Preemption {
    /// Guests that were interrupted, for a moment.
    fn with_interrupted<R>(&self, then: impl FnOnce(&mut Queue) -> R) -> R {
        // SAFETY: only this kernel thread comes here, and nothing that is done inside comes back here; a handler only where who was interrupted stands at
        // a system call that is none of ours, and so not in here.
        then(unsafe { &mut *self.interrupted.get() })
    }

    fn count(&self, change: impl FnOnce(&mut Preemptions)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    #[inline]
    fn ticks(&self) -> Option<&Ticks> {
        // SAFETY: the worker has a share of them.
        self.ticks.get().map(|ticks| unsafe { ticks.as_ref() })
    }

    pub(crate) fn counts(&self) -> Preemptions {
        self.counts.get()
    }

    /// A preemptible fiber has ended here.
    #[inline]
    pub(crate) fn restart_grace(&self) {
        self.grace.restart();
    }
}

impl Worker {
    /// Makes what preemptible fibers need, if it is not there.
    #[cold]
    pub(crate) fn prepare_preemption(&self) -> Result<(), PreemptionError> {
        if self.preemption.ticks.get().is_some() {
            return Ok(());
        }
        let kind = self.core().config().preempt_by.kind()?;
        // SAFETY: the handler does what its own head says.
        unsafe { sys::tick::handle(tick) }.map_err(PreemptionError::Timer)?;
        let shortest = if kind == ControlBlockKind::ThreadPointer { SHORTEST } else { SHORTEST_TURN };
        let interval = Duration::from_nanos(self.core().config().rules.running_time.as_nanos()).max(shortest);
        let ticks = Ticks::new(Some(self), interval, self.clock.scripted()).map_err(PreemptionError::Timer)?;
        let stack = || self.stacks.take_of(ROOM).map_err(|why| PreemptionError::Stack(Box::new(why)));
        let preemption_stack = stack()?;
        // A worker's first preemptible fiber is made ready by a fiber that is none.
        let block = match kind {
            ControlBlockKind::ThreadPointer => ControlBlock::ThreadPointer(arch::thread_pointer()),
            ControlBlockKind::KernelThread => {
                let stack = stack().inspect_err(|_| self.stacks.give(preemption_stack))?;
                // SAFETY: the stack is taken for that.
                ControlBlock::KernelThread(unsafe { KernelThread::of_worker(stack.top()) })
            }
        };
        self.preemption.mask.set(Some(SignalMask::of_this_thread()));
        let slack = Slack::of_this_thread();
        if slack.limit_for(interval) != slack {
            // Guests' kernel threads are started from here, and have it from the beginning.
            slack.limit_for(interval).apply_to_this_thread();
            self.preemption.slack.set(Some(slack));
        }
        self.preemption.preemption_stack.set(Some(preemption_stack));
        self.preemption.ticks.set(NonNull::new(Arc::into_raw(ticks).cast_mut()));
        self.preemption.control_block.set(block);
        self.preemption.runs_on.set(block.thread());
        self.stacks.init_preemptible_class(kind);
        self.allow_preemptible();
        Ok(())
    }

    /// A fiber begins on this preemptible fiber's stack: it has the signals blocked that the worker has, and no others that the one before it left so.
    pub(crate) fn apply_mask(&self, preemptible: &PreemptibleFiber) {
        if let (ControlBlock::KernelThread(_), Some(mask)) = (preemptible.control_block(), self.preemption.mask.get()) {
            mask.apply_to_this_thread();
        }
    }

    // What a tick does.

    /// A tick has come, on this worker's kernel thread. In a handler.
    fn handle_tick(&self, interrupted: &Interrupted) {
        let preemption = &self.preemption;
        let block = self.control_block_in_force();
        if let Some(recipient) = preemption.donation.recipient() {
            return self.reclaim(recipient, block, interrupted);
        }
        let Some(me) = self.running() else { return };
        let preemptible = me.preemptible().filter(|preemptible| {
            preemptible.control_block() == block
                && me.stack.get().is_some_and(|stack| stack.contains(interrupted.stack_pointer()))
        });
        let Some(preemptible) = preemptible else {
            let waits = donation::is_waiting(interrupted);
            if waits && self.donate(interrupted) {
                return;
            }
            // Who is about to run, if it is a preemptible fiber, counts on what it was told of the timer.
            let runs = me.preemptible().is_none();
            if preemption.asleep.get() || runs && preemption.with_interrupted(|queue| queue.is_empty()) {
                self.stop_timer();
            } else if runs && !waits && preemption.ticking.get() == Ticking::On {
                self.start_slow_ticks();
            }
            return;
        };
        preemption.grace.count(preemptible);
        if interrupted.is_on_alternate_stack() {
            return preemption.count(|counts| counts.masked += 1);
        }
        if !preemptible.try_enter_runtime() {
            if preemption.asleep.get() {
                self.stop_timer();
            } else if donation::is_waiting(interrupted) {
                self.donate(interrupted);
            } else {
                preemption.count(|counts| counts.in_runtime += 1);
                preemptible.note_missed_tick();
            }
            return;
        }
        // One that was passed on may come late, when the timer stands still.
        if preemption.ticking.get() != Ticking::On {
            self.start_ticks();
        }
        if let Some(mask) = self.mask_to_restore(preemptible, interrupted) {
            if donation::is_waiting(interrupted) {
                // They have the mask of the worker, and this one has its own when it goes on.
                mask.with_ticks().apply_to_this_thread();
                self.donate(interrupted);
            }
            preemption.count(|counts| counts.masked += 1);
        } else if let Some(stack) = preemption.preemption_stack.get() {
            // SAFETY: nobody is on the preemption stack between two ticks; the preemptible fiber is outside, and what the handler is on is its own stack, where it is
            // gone on with when its turn comes.
            interrupted.allow_ticks_during(|| unsafe {
                let to = arch::new_context(stack.top(), arch::Entrance::Preemption);
                self.switch_to_control_block(me.context.as_ptr(), to, preemption.control_block.get());
            });
        }
        preemptible.resume_after(interrupted);
    }

    /// The worker's mask, if a preemptible fiber that runs on its kernel thread has other signals blocked: who comes next would have them blocked, too. That is so in a handler, and where the
    /// C library must not be disturbed. Who keeps them blocked for long has changed the worker's mask for good. In a handler.
    fn mask_to_restore(&self, preemptible: &PreemptibleFiber, interrupted: &Interrupted) -> Option<SignalMask> {
        let preemption = &self.preemption;
        let mask =
            preemption.mask.get().filter(|_| matches!(preemptible.control_block(), ControlBlock::ThreadPointer(_)))?;
        if interrupted.mask() == mask || cfg!(rowlock_canary = "a-blocked-signal-is-forgotten") {
            preemption.masked.set(0);
            return None;
        }
        preemption.masked.set(preemption.masked.get() + 1);
        if preemption.ticks().is_some_and(|ticks| ticks.duration_of(preemption.masked.get()) < FOR_GOOD) {
            return Some(mask);
        }
        preemption.masked.set(0);
        preemption.mask.set(Some(interrupted.mask()));
        None
    }

    /// Who goes on after a tick, with the current fiber in the queue if it is another.
    fn choose_after_tick(&self, me: Fiber) -> Fiber {
        let before = self.level(me);
        self.read_clock(Some(me));
        // The tick may have been set for the very time of one of these, and the processor's clock is not quite as exact.
        self.expire();
        let over = self.charge(me) == TurnOutcome::UsedUp || self.level(me) != before;
        let had_extension = me.preemptible().is_some_and(|preemptible| preemptible.has_extension.replace(false));
        let over = over
            || had_extension
            || self.preemption.grace.has_begun()
            || u64::from(me.spent.get()) * 2 >= u64::from(me.allowance.get());
        let level = self.level(me);
        let gives_way = self.highest().is_some_and(|highest| over && highest <= level || highest < level);
        if !gives_way {
            return me;
        }
        if let Some(preemptible) = me.preemptible()
            && preemptible.locks_held.get() > 0
            && !had_extension
        {
            preemptible.has_extension.set(true);
            self.preemption.count(|counts| counts.extended += 1);
            return me;
        }
        self.end_turn(Some(me));
        me.state.set(State::Ready);
        self.ready(|ready| {
            let thread = ThreadId(me.number.get());
            if over { ready.enqueue(thread) } else { ready.enqueue_preempted(thread) }
        });
        self.next()
    }

    /// A tick came while the library was at work for the preemptible fiber that runs: what it would have done is done now.
    #[cold]
    pub(crate) fn handle_missed_tick(&self) {
        let me = self.current();
        let next = self.choose_after_tick(me);
        if next != me {
            self.preemption.count(|counts| counts.taken += 1);
            self.change(me, next);
        }
        me.state.set(State::Running);
    }

    /// The preemptible fiber that runs has so many locks more. When it has unlocked the last one, and was given a quantum more because of them, it gives way as soon as it goes
    /// outside.
    #[inline]
    pub(crate) fn count_locks(&self, more: i32) {
        if let Some(preemptible) = self.current().preemptible() {
            let locks = preemptible.locks_held.get().saturating_add_signed(more);
            preemptible.locks_held.set(locks);
            if locks == 0 && preemptible.has_extension.get() {
                preemptible.note_missed_tick();
            }
        }
    }

    /// Goes on with a fiber, with nothing left on this stack.
    fn leave_for(&self, mut next: Fiber) -> ! {
        let to = loop {
            match self.entrance(next) {
                Some(to) => break to,
                None => next = self.next(),
            }
        };
        self.make_current(next, true);
        // SAFETY: the other was left, by this worker, or is fresh; it was in the queue once, so nobody has gone on there.
        unsafe {
            self.shadow(next).enter();
            self.leave_to_control_block(to, self.control_block_of(next))
        }
    }

    /// The other fiber is the current one, and what has to be seen to before it runs is.
    #[inline(always)]
    pub(crate) fn make_current(&self, next: Fiber, after_tick: bool) {
        next.state.set(State::Running);
        self.current.set(Some(next));
        if next.preemptible().is_some_and(|preemptible| preemptible.was_interrupted.replace(false)) {
            self.preemption.with_interrupted(|queue| queue.remove(next));
        }
        self.update_timer(next, after_tick);
    }

    /// The fiber is no longer among those that were interrupted here.
    pub(crate) fn forget_interrupted(&self, fiber: Fiber) {
        if let Some(preemptible) = fiber.preemptible() {
            preemptible.was_interrupted.set(false);
        }
        self.preemption.with_interrupted(|queue| queue.remove(fiber));
    }
}

/// What the preemption stack begins with, after a tick: the current fiber was interrupted, and is outside.
pub(crate) unsafe extern "C" fn run_on_preemption_stack() -> ! {
    let here = Here::expect();
    let me = here.current();
    // Before anything else is done, for which the library may have to wait for what this one has.
    if let Some(preemptible) = me.preemptible() {
        preemptible.was_interrupted.set(true);
    }
    here.preemption.with_interrupted(|queue| queue.push(me));
    let next = here.choose_after_tick(me);
    if next == me {
        here.forget_interrupted(me);
    } else {
        here.preemption.count(|counts| counts.taken += 1);
    }
    here.leave_for(next)
}

/// What the signal calls.
///
/// # Safety
/// The word is the address of some [`Ticks`] that are there.
unsafe fn tick(word: usize, interrupted: &Interrupted) {
    // SAFETY: the timer whose word it is is deleted first, when they go.
    let ticks = unsafe { &*std::ptr::with_exposed_provenance::<Ticks>(word) };
    // SAFETY: it is the thread's own handler.
    if let Some(worker) = unsafe { ticks.worker() } {
        // SAFETY: the worker takes itself out before it is gone, on this very kernel thread.
        unsafe { worker.as_ref() }.handle_tick(interrupted);
    }
}

/// What ticks have done to the fibers of the worker that runs the one that asks.
///
/// # Panics
/// Where no runtime runs.
pub fn preemptions() -> Preemptions {
    Here::enter(|here| here.preemption.counts())
}
