//! A worker: a kernel thread that runs fibers. Chooses the next fiber and switches to it.
//!
//! Without a tick there is no scheduler stack: a fiber that stops chooses the next one itself and
//! switches to it. If no fiber is ready, it waits on its own stack until one is. A fiber that ends
//! runs the next one on its stack at once, if that one has not started yet.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use policy::feedback::{Boost, FeedbackQueue, Level, TurnOutcome};
use policy::{Span, ThreadId};
use sys::fault::AlternateStack;

use crate::clock::Clock;
use crate::control_block::ControlBlock;
use crate::error::SpawnError;
use crate::fiber_thread::FiberThread;
use crate::preempt::state::Preemption;
use crate::reactor::Reactor;
use crate::record::{Extras, Fiber, State, Tier};
use crate::schedule_fuzzer::ScheduleFuzzer;
use crate::shared::{Core, NO_RUNTIME, pointer};
use crate::stack::Stacks;
use crate::time_accounting::TimeAccounting;
use crate::timers::Timers;
use crate::unwinding::unwind;
use crate::waitable::{Waitable, Woken};
use crate::worker_pointer::WorkerPointer;

/// How often a busy worker looks for events from outside.
pub(crate) const POLL_INTERVAL: Span = Span::from_micros(50);

/// A worker; see the module.
pub(crate) struct Worker {
    /// The core, to compare it and to share it.
    pub(crate) core_pointer: NonNull<Core>,
    /// Its index among the runtime's workers. The first one runs the first fiber.
    pub(crate) index: usize,
    /// The runtime has no other worker.
    pub(crate) is_alone: bool,
    /// The same, and the queue alone decides which fiber is next.
    is_plain: bool,
    /// The runtime's number if it has no other worker, otherwise [`NO_RUNTIME`].
    pub(crate) sole: u64,
    /// That of fibers that are not spawned otherwise.
    pub(crate) default_tier: Tier,
    /// The thread that its first fiber is.
    pub(crate) own_thread: FiberThread,
    /// Chooses the next fiber in a deterministic runtime.
    pub(crate) fuzzer: Option<ScheduleFuzzer>,
    pub(crate) current: Cell<Option<Fiber>>,
    ready: UnsafeCell<FeedbackQueue>,
    pub(crate) clock: Clock,
    pub(crate) accounting: TimeAccounting,
    /// When something other than fibers needs attention, in ticks: the boost, timers.
    due: Cell<u64>,
    /// When the next boost is due, in ticks.
    boost: Cell<u64>,
    /// The boost period, in ticks.
    boosts: u64,
    /// Whether an offered fiber was chosen last among those of the highest level.
    pub(crate) offered_turn: Cell<bool>,
    /// The runtime's count of cancellations when this worker last cancelled its fibers' waits.
    pub(crate) cancellations: Cell<u32>,
    /// Free records, and how many have been added to them.
    pub(crate) free: Cell<Option<Fiber>>,
    pub(crate) freed: Cell<u32>,
    pub(crate) stacks: Stacks,
    /// The stack on which a handler explains the overflow of another stack.
    pub(crate) alternate: Cell<Option<AlternateStack>>,
    pub(crate) timers: Timers,
    /// Made when it is first needed.
    pub(crate) reactor: OnceCell<Reactor>,
    /// The runtime ends.
    pub(crate) is_ending: Cell<bool>,
    pub(crate) preemption: Preemption,
}

impl Worker {
    /// The offset of the queue, for debuggers.
    pub(crate) const READY: u64 = std::mem::offset_of!(Worker, ready) as u64;

    pub(crate) fn new(core: &Arc<Core>, index: usize, clock: Clock) -> Worker {
        let config = &core.config;
        let is_alone = core.inboxes.len() == 1;
        let rules = config.rules;
        Worker {
            core_pointer: pointer(core),
            index,
            is_alone,
            is_plain: is_alone && config.deterministic.is_none(),
            sole: if is_alone { core.number } else { NO_RUNTIME },
            default_tier: config.tier(None),
            own_thread: FiberThread::new(ControlBlock::NONE, None),
            fuzzer: config.deterministic.map(ScheduleFuzzer::new),
            current: Cell::new(None),
            ready: UnsafeCell::new(FeedbackQueue::new(rules)),
            accounting: TimeAccounting::new(&clock, rules.running_time),
            due: Cell::new(0),
            boost: Cell::new(0),
            boosts: match rules.boost {
                Boost::Every(span) => clock.in_ticks(span),
                Boost::Never => u64::MAX,
            },
            offered_turn: Cell::new(false),
            cancellations: Cell::new(0),
            free: Cell::new(None),
            freed: Cell::new(0),
            stacks: Stacks::new(config.stack_size),
            alternate: Cell::new(None),
            timers: Timers::new(clock.now()),
            reactor: OnceCell::new(),
            is_ending: Cell::new(false),
            preemption: Preemption::new(),
            clock,
        }
    }

    #[inline(always)]
    pub(crate) fn pointer(&self) -> WorkerPointer {
        WorkerPointer(NonNull::from(self).cast())
    }

    /// The worker that this names.
    ///
    /// # Safety
    /// It exists as long as the reference is used. Threads that it does not run on read only what
    /// never changes.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(pointer: WorkerPointer) -> &'a Worker {
        // SAFETY: the caller's promise.
        unsafe { pointer.0.cast().as_ref() }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Core {
        // SAFETY: the core outlives its workers.
        unsafe { self.core_pointer.as_ref() }
    }

    /// A reference that does not keep the core.
    pub(crate) fn weak_core(&self) -> Weak<Core> {
        // SAFETY: the runtime has a share while its workers exist.
        Arc::downgrade(&unsafe { Core::share(self.core_pointer) })
    }

    /// Whether there may be preemptible fibers.
    #[inline(always)]
    pub(crate) fn has_ticks(&self) -> bool {
        self.preemption.ticks.get().is_some()
    }

    /// The running fiber; `None` before the first.
    pub(crate) fn running(&self) -> Option<Fiber> {
        self.current.get()
    }

    /// The running fiber.
    #[inline(always)]
    pub(crate) fn current(&self) -> Fiber {
        match self.current.get() {
            Some(fiber) => fiber,
            None => unreachable!("the caller is a fiber"),
        }
    }

    /// Calls a function with the feedback queue.
    #[inline(always)]
    pub(crate) fn ready<R>(&self, then: impl FnOnce(&mut FeedbackQueue) -> R) -> R {
        // SAFETY: only this kernel thread gets here, and no function that is passed gets here
        // again.
        then(unsafe { &mut *self.ready.get() })
    }

    /// The level of a fiber of this worker.
    pub(crate) fn level(&self, fiber: Fiber) -> Level {
        self.ready(|ready| ready.level(fiber.id()))
    }

    /// How long a fiber of this worker has run.
    pub(crate) fn used(&self, fiber: Fiber) -> Duration {
        Duration::from_nanos(self.clock.span(fiber.used.get() + u64::from(fiber.spent.get())).as_nanos())
    }

    // Records.

    /// A record for a new fiber.
    #[inline(always)]
    pub(crate) fn record(&self) -> Result<Fiber, SpawnError> {
        let fiber = match self.free.get() {
            Some(fiber) => fiber,
            None => self.core().take_records()?,
        };
        self.free.set(fiber.next.take());
        Ok(fiber)
    }

    /// Makes a fiber's record free.
    #[inline(always)]
    pub(crate) fn release(&self, fiber: Fiber) {
        fiber.state.set(State::Free);
        fiber.generation.set(fiber.generation.get().wrapping_add(1));
        fiber.next.set(self.free.replace(Some(fiber)));
        if !self.is_alone {
            self.share_free();
        }
    }

    /// Spawns a fiber, which is ready to run.
    ///
    /// # Safety
    /// Data that the function and its outcome borrow lives until the outcome is taken or dropped,
    /// or the function is dropped. The function may move to another kernel thread, unless this
    /// worker is alone.
    #[inline(always)]
    pub(crate) unsafe fn spawn<F: FnOnce() -> T, T>(
        &self,
        extras: Option<Box<Extras>>,
        tier: Option<Tier>,
        function: F,
    ) -> Result<Fiber, SpawnError> {
        let tier = tier.map_or(self.default_tier, |tier| self.core().config.tier(Some(tier)));
        if tier == Tier::Preemptible && !self.has_ticks() {
            self.prepare_ticks()?;
        }
        let fiber = self.record()?;
        // SAFETY: the record is free; the rest is the caller's promise.
        unsafe { fiber.begin(extras, tier, function, crate::record::NO_JOINER) };
        if self.is_alone {
            let thread = fiber.id();
            self.ready(|ready| {
                ready.add(thread);
                ready.enqueue(thread);
            });
            fiber.allowance.set(self.accounting.whole);
        } else {
            self.offer_unstarted(fiber);
        }
        self.start_ticks_if_needed();
        Ok(fiber)
    }

    // Scheduling.

    /// Blocks the running fiber and continues with the next one. Returns when the fiber is woken.
    ///
    /// `waits` is what it waits for, and has it on its list already. A fiber that is cancelled must
    /// first undo what it has begun, and then [unwind].
    ///
    /// This is always inlined: if it were a function, its return would be predicted for the last
    /// caller, which is another fiber.
    #[inline(always)]
    pub(crate) fn block_quietly(&self, waits: &dyn Waitable, deadline: Option<Instant>) -> Woken {
        let me = self.current();
        let is_in_c_library = waits.is_in_c_library();
        if me.cancel_pending.get() && !is_in_c_library && self.take_cancellation(me) && waits.leave(me) {
            return Woken::Cancelled;
        }
        // SAFETY: only the lifetime differs. The fiber forgets the reference before this returns,
        // and what it refers to is on the fiber's stack or borrowed by it.
        let erased =
            unsafe { std::mem::transmute::<NonNull<dyn Waitable + '_>, NonNull<dyn Waitable>>(NonNull::from(waits)) };
        me.waits.set(Some(erased));
        let lasts = is_in_c_library || !me.thread().can_unwind();
        me.state.set(if lasts { State::BlockedUnwinding } else { State::Blocked });
        if let Some(blocker) = waits.blocker()
            && (blocker.is_waiting() || !self.is_alone)
        {
            self.core().may_have_cycle.store(true, Relaxed);
        }
        let timer = deadline.map(|deadline| {
            self.look_at(deadline);
            me.has_timer.set(true);
            self.timers.add(deadline, me)
        });
        if is_in_c_library {
            // Other code may end the wait.
            self.core().add_expected();
        }
        self.end_turn(Some(me));
        match self.take() {
            Some(next) => self.change(me, next),
            None if self.is_alone => self.change(me, self.next()),
            None => self.change_to_scheduler(me),
        }
        if is_in_c_library {
            if me.is_orphan() {
                return Woken::Cancelled;
            }
            self.core().remove_expected();
        }
        if let Some(timer) = timer {
            // A fiber with a timer has not moved.
            self.timers.remove(timer);
            me.has_timer.set(false);
        }
        me.waits.set(None);
        me.woken.get()
    }

    /// The same for a fiber that has nothing to undo: it unwinds from here if it is cancelled.
    #[inline(always)]
    pub(crate) fn block(&self, waits: &dyn Waitable, deadline: Option<Instant>) -> Woken {
        let woken = self.block_quietly(waits, deadline);
        if woken == Woken::Cancelled {
            unwind();
        }
        woken
    }

    /// Raises a fiber to the level of a fiber that waits for it, until it [drops that
    /// level](Worker::drop_inherited_level); and so on, for the fiber that it waits for itself.
    #[cold]
    pub(crate) fn inherit_level(&self, fiber: Fiber, level: Level) {
        let mut next = Some(fiber);
        while let Some(fiber) = next {
            let rises = level < self.level(fiber);
            self.ready(|ready| ready.inherit(fiber.id(), level));
            next = fiber.waitable().filter(|_| rises).and_then(|waits| waits.requeue_raised(fiber));
        }
    }

    /// Puts a fiber back to its own level, because it has nothing any more that others of a higher
    /// level wait for.
    #[cold]
    pub(crate) fn drop_inherited_level(&self, fiber: Fiber) {
        self.ready(|ready| ready.disinherit(fiber.id()));
    }

    /// Makes the running fiber give up its CPU soon if another fiber, which has become ready, is of
    /// a higher level: at its next safepoint, or, if it is preemptible, as soon as it leaves the
    /// runtime.
    pub(crate) fn yield_soon_if_outranked(&self, other: Fiber) {
        let me = self.current();
        if self.level(other) < self.level(me) {
            self.accounting.read_clock_soon();
            if me.is_preemptible.get() {
                me.thread().note_missed_tick();
            }
        }
    }

    /// Yields to other fibers.
    #[inline(always)]
    pub(crate) fn yield_now(&self) {
        let me = self.current();
        self.end_turn(Some(me));
        let thread = me.id();
        me.state.set(State::Ready);
        if self.is_plain {
            let next = self.ready(|ready| ready.requeue_and_take(thread));
            self.change(me, self.core().records.get(next.0));
        } else {
            self.ready(|ready| ready.enqueue(thread));
            self.change(me, self.next());
        }
        if me.cancel_pending.get() && self.take_cancellation(me) {
            unwind();
        }
    }

    /// Whether the fiber, which was cancelled while it was ready, can unwind now. Clears the
    /// request if so.
    #[cold]
    fn take_cancellation(&self, me: Fiber) -> bool {
        let can = me.thread().can_unwind();
        me.cancel_pending.set(!can);
        can
    }

    /// A safepoint: the fiber may have used up its running time.
    #[inline(always)]
    pub(crate) fn safepoint(&self) {
        if self.accounting.safepoint() {
            self.check_turn();
        }
    }

    /// Reads the clock during a fiber's turn, and ends the turn if its time is over.
    #[cold]
    #[inline(never)]
    fn check_turn(&self) {
        let me = self.current();
        let over = self.update_turn(me);
        if self.fuzzer.as_ref().is_some_and(ScheduleFuzzer::should_preempt) || self.is_outranked(me, over) {
            self.yield_now();
        }
    }

    /// Reads the clock during the turn of the running fiber. Returns whether its running time is
    /// over, or it has got another level.
    pub(crate) fn update_turn(&self, me: Fiber) -> bool {
        let before = self.level(me);
        self.read_clock(Some(me));
        self.charge(me) == TurnOutcome::UsedUp || self.level(me) != before
    }

    /// Whether another fiber is ready that goes before the running one, whose time is `over` or
    /// not.
    pub(crate) fn is_outranked(&self, me: Fiber, over: bool) -> bool {
        let has_unstarted = !self.is_alone && self.core().offered.len() > 0;
        let highest = if has_unstarted { Some(Level(0)) } else { self.ready(|ready| ready.highest()) };
        let level = self.level(me);
        highest.is_some_and(|highest| over && highest <= level || highest < level)
    }

    /// Ends the turn of the running fiber, which stops or has ended.
    #[inline(always)]
    pub(crate) fn end_turn(&self, fiber: Option<Fiber>) {
        if self.accounting.end_turn(fiber) {
            self.read_clock(None);
        }
        if let Some(fiber) = fiber
            && fiber.spent.get() >= fiber.allowance.get()
        {
            self.charge(fiber);
        }
    }

    /// Charges the fibers that have run since the clock was last read.
    pub(crate) fn read_clock(&self, going_on: Option<Fiber>) {
        let now = self.clock.read();
        self.accounting.read(now, going_on);
        if now >= self.due.get() {
            self.run_due_work(now);
        }
        if self.inbox().any() {
            self.receive();
        }
        if !self.is_alone && self.core().offered.is_requested() {
            self.give_to_others(usize::from(going_on.is_none()));
        }
    }

    /// Tells the queue how long a fiber has run, if its allowance is used up.
    #[cold]
    pub(crate) fn charge(&self, fiber: Fiber) -> TurnOutcome {
        let spent = fiber.spent.get();
        if spent < fiber.allowance.get() {
            return TurnOutcome::TimeLeft;
        }
        let thread = fiber.id();
        let span = self.clock.span(spent.into());
        let turn = self.ready(|ready| ready.charge(thread, span));
        if turn == TurnOutcome::UsedUp {
            self.core().demotions.fetch_add(1, Relaxed);
        }
        fiber.used.set(fiber.used.get() + u64::from(spent));
        fiber.spent.set(0);
        let left = self.clock.in_ticks(self.ready(|ready| ready.time_left(thread)));
        fiber.allowance.set(u32::try_from(left).unwrap_or(u32::MAX).max(1));
        turn
    }

    /// Does what is due.
    #[cold]
    fn run_due_work(&self, now: u64) {
        if now >= self.boost.get() {
            // The first call only sets the time of the first boost.
            if self.boost.replace(now.saturating_add(self.boosts)) != 0 {
                self.ready(FeedbackQueue::boost);
            }
        }
        self.expire();
        self.due.set(self.boost.get());
        if let Some(next) = self.timers.next() {
            self.look_at(next);
        }
        if let Some(reactor) = self.awaited_reactor() {
            reactor.look(|fiber| self.wake(fiber, Woken::Called));
            self.look_within(POLL_INTERVAL);
        }
    }

    /// Ensures that the worker looks around within this time.
    pub(crate) fn look_within(&self, time: Span) {
        self.due.set(self.due.get().min(self.clock.ticks().saturating_add(self.clock.in_ticks(time))));
    }

    /// Ensures that the worker looks around at this time.
    fn look_at(&self, time: Instant) {
        let ahead = time.saturating_duration_since(self.now()).as_nanos();
        self.look_within(Span::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX)));
    }

    /// The current time.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Chooses the next fiber, and waits until there is one.
    #[inline(always)]
    pub(crate) fn next(&self) -> Fiber {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.idle();
        }
    }

    /// Takes the next fiber out of the queue.
    #[inline(always)]
    pub(crate) fn take(&self) -> Option<Fiber> {
        if self.is_plain { self.take_ready(FeedbackQueue::take) } else { self.take_fuzzed_or_offered() }
    }

    #[inline(always)]
    pub(crate) fn take_ready(&self, take: impl FnOnce(&mut FeedbackQueue) -> Option<ThreadId>) -> Option<Fiber> {
        let thread = self.ready(take)?;
        Some(self.core().records.get(thread.0))
    }

    /// Restarts the accounting: no fiber has run since the clock was last read.
    pub(crate) fn restart(&self) {
        self.accounting.restart(self.clock.ticks());
    }
}
