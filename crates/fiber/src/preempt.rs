//! Ticks: how a worker preempts a preemptible fiber that reaches no safepoint.
//!
//! A timer interrupts the worker's kernel thread by a signal. The handler runs on the stack of the
//! interrupted code, for example a preemptible fiber outside the runtime. It leaves that stack as a
//! switch does, with all that the kernel has saved there, for the worker's *scheduler*: a stack
//! with a thread control block of its own. There the worker chooses the next fiber. The library may
//! allocate memory and take locks as usual, because the interrupted fiber used another block. When
//! the fiber's turn comes again, the handler returns, and the kernel restores everything.
//!
//! # When ticks come
//! They come only while a preemptible fiber keeps others from running: at the next deadline, at the
//! end of the running time if others are ready, and when another kernel thread [requests
//! one](crate::inbox::tick_request), because it has sent something or there is an event for which a
//! fiber waits ([`timing`]).
//!
//! A preemptible fiber's turn ends with a tick at the end of its running time, or at most half of
//! it earlier, if a tick comes then for another reason. A fiber that holds a lock gets a second
//! turn before it is preempted, even by fibers of a higher level, and is preempted as soon as it
//! has unlocked. So a waiter for the lock waits for one more running time, and for another one if
//! the fiber was preempted and holds a lock when its next turn ends. The extension does not last as
//! long as the lock is held, or a guard that was forgotten would count as one.
//!
//! # What a handler may do
//! It interrupts anything, so it touches nothing that the compiler or the C library keeps for the
//! thread: no thread-locals, no memory, no lock, no panic. It finds its worker by the word that
//! comes with the signal.

pub(crate) mod donation;
mod grace;
pub(crate) mod orphan;
pub(crate) mod state;
pub(crate) mod ticks;
mod timing;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use policy::Span;
use sys::tick::{Interrupted, SignalMask, Slack};

pub use self::state::Preemptions;
use self::state::Ticking;
use self::ticks::Ticks;
use crate::arch::{self, Context, Target};
use crate::control_block::{ControlBlock, ControlBlockKind};
use crate::current_worker::CurrentWorker;
use crate::error::{PreemptionError, StackError};
use crate::fiber_thread::FiberThread;
use crate::record::{Fiber, State};
use crate::worker::Worker;
use crate::worker_pointer::WorkerPointer;

/// A tick costs the kernel some microseconds, and ten on a virtual machine. If ticks were not much
/// further apart, nothing else would get done.
const SHORTEST: Duration = Duration::from_micros(20);

/// The same if one kernel thread hands over to another, which may have to wait for a CPU.
const SHORTEST_TURN: Duration = Duration::from_micros(500);

/// If successive ticks find signals blocked for this long, the worker assumes that they remain
/// blocked.
const FOR_GOOD: Duration = Duration::from_secs(1);

/// The size of stacks on which the library works for a worker. The program may use any allocator,
/// and a tick may interrupt it there.
pub(crate) const ROOM: usize = 64 << 10;

impl Worker {
    /// Prepares the worker for fibers with blocks. Only its first fiber has run so far.
    #[cold]
    pub(crate) fn prepare_blocks(&self) -> Result<(), StackError> {
        match self.core().config.thread_control_blocks.kind()? {
            ControlBlockKind::ThreadPointer => {
                self.own_thread.set_control_block(ControlBlock::ThreadPointer(arch::thread_pointer()));
            }
            ControlBlockKind::KernelThread => self.prepare_threads()?,
        }
        self.preemption.has_blocks.set(true);
        Ok(())
    }

    /// Makes the scheduler, if there is none.
    #[cold]
    pub(crate) fn prepare_scheduler(&self) -> Result<(), StackError> {
        if !self.preemption.has_blocks.get() {
            self.prepare_blocks()?;
        }
        if self.preemption.scheduler.get().is_none() && self.preemption.threads.scheduler.get().is_none() {
            let stack = self.stacks.take_with_block(Some(ROOM))?;
            if let Some(thread) = stack.thread() {
                // SAFETY: it stays in place.
                unsafe { thread.as_ref() }.prepare_for(self.pointer());
            }
            self.preemption.scheduler.set(Some(stack));
        }
        Ok(())
    }

    /// Where the scheduler begins, and its block.
    pub(crate) fn scheduler_context(&self) -> Result<(Context, ControlBlock), StackError> {
        self.prepare_scheduler()?;
        if let Some(thread) = self.preemption.threads.scheduler.get() {
            return Ok((Context::default(), ControlBlock::KernelThread(thread)));
        }
        let Some((stack, thread)) = self.preemption.scheduler.get().and_then(|stack| Some((stack, stack.thread()?)))
        else {
            unreachable!("it was prepared")
        };
        // SAFETY: the stack is unused until the scheduler begins, and the state stays in place.
        unsafe { Ok((arch::new_context(stack.top(), schedule), thread.as_ref().control_block())) }
    }

    /// Prepares the worker for preemptible fibers, if that has not been done.
    #[cold]
    pub(crate) fn prepare_ticks(&self) -> Result<(), PreemptionError> {
        if self.has_ticks() {
            return Ok(());
        }
        let stack_error = |why| match why {
            StackError::Preemption(why) => why,
            why => PreemptionError::Stack(Box::new(why)),
        };
        self.prepare_scheduler().map_err(stack_error)?;
        let kind = self.core().config.thread_control_blocks.kind()?;
        // SAFETY: the handler keeps to the rules in the module's documentation.
        unsafe { sys::tick::handle(tick) }.map_err(PreemptionError::Timer)?;
        let shortest = if kind == ControlBlockKind::ThreadPointer { SHORTEST } else { SHORTEST_TURN };
        let interval = Duration::from_nanos(self.core().config.rules.running_time.as_nanos()).max(shortest);
        let ticks =
            Ticks::new(Some(self.pointer()), interval, self.clock.scripted()).map_err(PreemptionError::Timer)?;
        self.preemption.note_mask();
        let slack = Slack::of_this_thread();
        if slack.limit_for(interval) != slack {
            // Kernel threads of fibers are started from here, and inherit the slack.
            slack.limit_for(interval).apply_to_this_thread();
            self.preemption.slack.set(Some(slack));
        }
        self.preemption.ticks.set(NonNull::new(Arc::into_raw(ticks).cast_mut()));
        self.inbox().set_takes_interrupted(kind == ControlBlockKind::ThreadPointer);
        if !self.core().has_ticks.swap(true, SeqCst) {
            // Those that sleep prepare theirs.
            self.core().wake_all_workers();
        }
        Ok(())
    }

    // The work of a tick.

    /// Handles a tick on this worker's kernel thread. Runs in a handler.
    fn handle_tick(&self, interrupted: &Interrupted) {
        let preemption = &self.preemption;
        preemption.note_tick();
        let block = self.control_block_in_force();
        if let Some(recipient) = preemption.recipient.get() {
            return self.reclaim(recipient, block, interrupted);
        }
        let is_it = |me: &Fiber| me.is_preemptible.get() && donation::is_interrupted(*me, block, interrupted);
        let Some(me) = self.running().filter(is_it) else {
            let waits = donation::is_waiting(interrupted);
            if waits && self.donate(interrupted) {
                return;
            }
            // A preemptible fiber that is about to run relies on the timer as it was set for it.
            let runs = self.running().is_none_or(|me| !me.is_preemptible.get());
            if runs && preemption.interrupted.is_empty() {
                preemption.set_ticking(Ticking::Never, Duration::MAX);
            } else if runs && !waits {
                preemption.set_ticking(Ticking::Slowly, Duration::MAX);
            }
            return;
        };
        let (thread, before) = (me.thread(), self.interrupted_at());
        self.count_grace(thread);
        if interrupted.is_on_alternate_stack() {
            return preemption.count(|counts| counts.masked += 1);
        }
        if !thread.try_enter_runtime() {
            if donation::is_waiting(interrupted) && self.donate(interrupted) {
                return;
            }
            if me.state.get() != State::Running && preemption.interrupted.is_empty() {
                // The worker sleeps, or chooses the next fiber, for which it sets the timer.
                preemption.set_ticking(Ticking::Never, Duration::MAX);
            } else {
                preemption.count(|counts| counts.in_runtime += 1);
                thread.note_missed_tick();
            }
            return;
        }
        // A tick that was forwarded may come late, when the timer is stopped.
        if matches!(preemption.ticking.get(), Ticking::Never | Ticking::Slowly) {
            self.start_ticks();
        }
        if let Some(mask) = self.mask_to_restore(thread, interrupted) {
            if donation::is_waiting(interrupted) {
                // The recipients use the worker's mask; this fiber gets its own back when it
                // continues.
                mask.with_ticks().apply_to_this_thread();
                self.donate(interrupted);
            }
            preemption.count(|counts| counts.masked += 1);
        } else if let Ok((to, block)) = self.scheduler_context() {
            // It exists, because there are ticks.
            // SAFETY: the scheduler's stack is unused while a fiber runs. The preemptible fiber is
            // outside the runtime, and the handler runs on its stack, where it continues when its
            // turn comes.
            interrupted.allow_ticks_during(|| unsafe {
                self.switch_to_control_block(me.context.as_ptr(), to, block);
            });
        }
        // The fiber may have moved, so `self` is not its worker from here on.
        resume(thread, interrupted, before);
    }

    /// The worker's mask, if a preemptible fiber on its kernel thread has other signals blocked:
    /// the next fiber would inherit them. That happens in signal handlers, and where the C library
    /// must not be disturbed. If they stay blocked for long, they become the worker's mask. Runs in
    /// a handler.
    fn mask_to_restore(&self, thread: &FiberThread, interrupted: &Interrupted) -> Option<SignalMask> {
        let preemption = &self.preemption;
        let mask =
            preemption.mask.get().filter(|_| matches!(thread.control_block(), ControlBlock::ThreadPointer(_)))?;
        if interrupted.mask() == mask || cfg!(rowlock_canary = "a-blocked-signal-is-forgotten") {
            preemption.masked.set(0);
            return None;
        }
        preemption.masked.set(preemption.masked.get() + 1);
        if preemption.ticks().is_some_and(|ticks| ticks.interval * preemption.masked.get() < FOR_GOOD) {
            return Some(mask);
        }
        preemption.masked.set(0);
        preemption.mask.set(Some(interrupted.mask()));
        None
    }

    /// Chooses the fiber that continues after a tick. The current fiber is queued if it is another
    /// one.
    fn choose_after_tick(&self, me: Fiber) -> Fiber {
        let turn = self.accounting.turn(self.clock.ticks());
        self.preemption.computes.set(turn >= self.clock.in_ticks(timing::LONG));
        if self.awaited_reactor().is_some() {
            self.look_within(Span::ZERO);
        }
        // The tick may have been set for one of these very times, and the processor's clock is
        // slightly less exact.
        self.expire();
        let over = self.update_turn(me);
        let thread = me.thread();
        let had_extension = thread.has_extension.replace(false);
        let over = over
            || had_extension
            || self.preemption.grace.get().is_some()
            || u64::from(me.spent.get()) * 2 >= u64::from(me.allowance.get());
        if !self.is_outranked(me, over) {
            return me;
        }
        if thread.locks_held.get() > 0 && !had_extension {
            thread.has_extension.set(true);
            self.preemption.count(|counts| counts.extended += 1);
            return me;
        }
        self.end_turn(Some(me));
        me.state.set(State::Ready);
        self.ready(|ready| {
            let thread = me.id();
            if over { ready.enqueue(thread) } else { ready.enqueue_preempted(thread) }
        });
        self.next()
    }

    /// The fiber that continues after a tick has interrupted this one. Runs on the scheduler's
    /// stack.
    fn next_after_tick(&self, me: Fiber) -> Fiber {
        // Before all else: the library may have to wait for something that this fiber holds.
        me.thread().was_interrupted.set(true);
        self.preemption.interrupted.push(me);
        let next = self.choose_after_tick(me);
        if next == me {
            self.forget_interrupted(me);
        } else {
            self.preemption.count(|counts| counts.taken += 1);
        }
        next
    }

    /// Chooses the next fiber, for the scheduler. The current one was interrupted outside the
    /// runtime; if there is none, no fiber was ready, or the last one has ended.
    pub(crate) fn choose(&self) -> (Context, Fiber) {
        let mut next = self.running().map_or_else(|| self.next(), |me| self.next_after_tick(me));
        let to = loop {
            match self.entrance(next) {
                Some(to) => break to,
                None => next = self.next(),
            }
        };
        self.make_current(next, true);
        (to, next)
    }

    /// Does what a tick would have done that came while the library worked for the running
    /// preemptible fiber.
    #[cold]
    pub(crate) fn handle_missed_tick(&self) {
        let me = self.current();
        let next = self.choose_after_tick(me);
        if next == me {
            me.state.set(State::Running);
            self.update_timer(me, false);
        } else {
            self.preemption.count(|counts| counts.taken += 1);
            self.change(me, next);
        }
    }

    /// Adds to the number of locks that the running preemptible fiber holds. When it has released
    /// the last one, and its turn was extended because of them, it gives way as soon as it leaves
    /// the runtime.
    #[inline]
    pub(crate) fn count_locks(&self, more: i32) {
        let me = self.current();
        if me.is_preemptible.get() {
            let thread = me.thread();
            let locks = thread.locks_held.get().saturating_add_signed(more);
            thread.locks_held.set(locks);
            if locks == 0 && thread.has_extension.get() {
                thread.note_missed_tick();
            }
        }
    }

    /// Makes a fiber the current one, and does what is necessary before it runs.
    #[inline(always)]
    pub(crate) fn make_current(&self, next: Fiber, after_tick: bool) {
        next.state.set(State::Running);
        self.current.set(Some(next));
        if self.has_ticks() {
            let thread = next.thread();
            if thread.was_interrupted.replace(false) {
                self.preemption.interrupted.remove(next);
                thread.take_turn(self.pointer());
            }
            self.update_timer(next, after_tick);
        }
    }

    /// Removes a fiber from those that were interrupted here.
    pub(crate) fn forget_interrupted(&self, fiber: Fiber) {
        fiber.thread().was_interrupted.set(false);
        self.unlist_interrupted(fiber);
    }

    /// The same for a fiber that another worker will put on its list.
    pub(crate) fn unlist_interrupted(&self, fiber: Fiber) {
        self.preemption.interrupted.remove(fiber);
    }

    /// Puts an interrupted fiber on the list of this worker, whose timer ticks from then on.
    pub(crate) fn list_interrupted(&self, fiber: Fiber) {
        self.preemption.interrupted.push(fiber);
        compiler_fence(SeqCst);
        if matches!(self.preemption.ticking.get(), Ticking::Never | Ticking::AtDeadline) {
            self.preemption.set_ticking(Ticking::Slowly, Duration::MAX);
        }
    }

    /// Whether fibers are ready that were interrupted here.
    pub(crate) fn has_interrupted(&self) -> bool {
        !self.preemption.interrupted.is_empty()
    }

    /// Prepares this worker, which is about to sleep, to take interrupted fibers, if any worker has
    /// ticks.
    pub(crate) fn prepare_to_take_interrupted(&self) {
        let core = self.core();
        let may_move = || matches!(core.config.thread_control_blocks.kind(), Ok(ControlBlockKind::ThreadPointer));
        if core.has_ticks.load(SeqCst) && !self.has_ticks() && may_move() {
            // If that fails, it takes none.
            let _ = self.prepare_ticks();
        }
    }
}

/// Where a fiber was interrupted: the worker, and the signals that it blocked.
struct Place(WorkerPointer, Option<SignalMask>);

impl Worker {
    fn interrupted_at(&self) -> Place {
        Place(self.pointer(), self.preemption.mask.get())
    }
}

/// Resumes an interrupted fiber, which may have moved to another worker, or be orphaned.
fn resume(thread: &FiberThread, interrupted: &Interrupted, Place(before, mask): Place) {
    let now = thread.runs_on();
    if now != Some(before) {
        interrupted.move_to_this_thread();
    }
    // A handler of the program keeps what it blocks.
    if let Some(now) = now.filter(|now| *now != before && mask == Some(interrupted.mask())) {
        // SAFETY: a worker that runs a fiber exists.
        unsafe { Worker::at(now) }.preemption.mask.get().inspect(|mask| interrupted.set_mask(*mask));
    }
    thread.resume_after(interrupted);
}

/// The first function on the scheduler's stack.
///
/// # Safety
/// Only the entry of that stack jumps to it.
pub(crate) unsafe extern "C" fn schedule() -> ! {
    // SAFETY: the other stack was left by this worker, or is new. Its fiber was in the queue once,
    // so it does not run anywhere.
    unsafe { arch::leave(target()) }
}

/// Where the next fiber continues.
#[inline(never)]
fn target() -> Target {
    let (to, next) = CurrentWorker::expect().choose();
    Target { to, thread_pointer: next.thread().control_block().thread_pointer() }
}

/// The signal handler.
///
/// # Safety
/// The word is the address of [`Ticks`] that exist.
unsafe fn tick(word: usize, interrupted: &Interrupted) {
    // SAFETY: the timer with this word is deleted before the ticks are freed.
    let ticks = unsafe { &*std::ptr::with_exposed_provenance::<Ticks>(word) };
    // SAFETY: it is the thread's own handler.
    if let Some(worker) = unsafe { ticks.worker() } {
        // SAFETY: the worker detaches itself before it is freed, on this same kernel thread.
        unsafe { Worker::at(worker) }.handle_tick(interrupted);
    }
}

/// Counts of what ticks have done to the fibers of the calling fiber's worker.
///
/// # Panics
/// If no runtime runs on this thread.
pub fn preemptions() -> Preemptions {
    CurrentWorker::enter(|here| here.preemption.counts.get())
}
