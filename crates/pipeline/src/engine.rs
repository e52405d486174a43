//! The engine of a run: stage groups with queues before them, and how buffers pass from one to the
//! next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;
use std::time::{Duration, Instant};

use wait::{Event, Mutex, Waiting};

use crate::activity::Activity;
use crate::copy::{GroupCopy, Processed};
use crate::ending::{Ending, Failed};
use crate::error::Cause;
use crate::interval::span;
use crate::join::Join;
use crate::plan::Place;
use crate::queue::{Queue, QueuedBuffer, QueuedBuffers, TakeResult};
use crate::ready::Ready;
use crate::trace::CallLog;
use crate::yield_budget::YieldBudget;

/// One or several stages that run as one, with the queue before them.
pub(crate) struct StageGroup<'a, T> {
    /// The names of its stages.
    pub(crate) name: String,
    pub(crate) place: Place,
    /// The first group of its pipeline, whose queue holds the free buffers.
    pub(crate) first: usize,
    pub(crate) is_final: bool,
    pub(crate) queue: Queue<T, Sleeper<'a, T>>,
    /// Present if there are several copies.
    pub(crate) join: Option<Mutex<Join<Box<QueuedBuffer<T>>>>>,
}

/// A taker that waits at a queue.
pub(crate) enum Sleeper<'a, T> {
    /// A thread, which sleeps on its event.
    Thread(Arc<Event>),
    /// A copy of the stages that no worker runs now.
    Copy(Box<GroupCopy<'a, T>>),
}

/// A copy of a group's stages that a worker should run because buffers may wait for it.
pub(crate) struct Job<'a, T> {
    pub(crate) at: usize,
    pub(crate) copy: Box<GroupCopy<'a, T>>,
    /// Since when it has waited for a worker. `None` if its calls are too short to time this.
    since: Option<Instant>,
}

impl<'a, T> Job<'a, T> {
    pub(crate) fn new(at: usize, copy: Box<GroupCopy<'a, T>>) -> Job<'a, T> {
        Job { at, copy, since: None }
    }

    /// Records how long the job waited, when a worker takes it.
    pub(crate) fn end_wait_for_worker(&mut self) {
        if let Some(since) = self.since.take() {
            self.copy.record_wait_for_worker(since.elapsed());
        }
    }
}

/// The state that all threads of a run share.
pub(crate) struct Engine<'a, T> {
    pub(crate) groups: Vec<StageGroup<'a, T>>,
    pub(crate) ready: Ready<Job<'a, T>>,
    pub(crate) activity: Activity,
    pub(crate) ending: Arc<Ending>,
    /// The number of open groups that workers run.
    open: AtomicUsize,
    /// Whether threads yield before they sleep. False if the program chose a waiting rule.
    may_yield: bool,
    /// The zero of all clocks of the run.
    pub(crate) beginning: Instant,
    /// The call logs of the copies that have ended.
    pub(crate) call_logs: Mutex<Vec<CallLog>>,
}

/// The lists of buffers of one thread, which it reuses.
pub(crate) struct ThreadBuffers<'a, T> {
    pub(crate) input: QueuedBuffers<T>,
    pub(crate) output: QueuedBuffers<T>,
    woken: Vec<Sleeper<'a, T>>,
    /// Whether the thread is a worker.
    is_worker: bool,
    /// The copy that the worker runs next.
    pub(crate) next_job: Option<Job<'a, T>>,
    /// Buffers that the worker has already taken for the next copy, with the place of the first.
    passed: Option<(u64, QueuedBuffers<T>)>,
    /// An empty list for reuse.
    spare: QueuedBuffers<T>,
}

impl<T> ThreadBuffers<'_, T> {
    pub(crate) fn for_thread() -> Self {
        let (input, output, spare) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        ThreadBuffers { input, output, woken: Vec::new(), is_worker: false, next_job: None, passed: None, spare }
    }

    pub(crate) fn for_worker() -> Self {
        ThreadBuffers { is_worker: true, ..ThreadBuffers::for_thread() }
    }

    /// Moves the buffers that came with the next copy into `input`. Returns the place of the first,
    /// or `None` if none came.
    pub(crate) fn take_passed(&mut self) -> Option<u64> {
        let (first, mut entries) = self.passed.take()?;
        std::mem::swap(&mut self.input, &mut entries);
        self.spare = entries;
        Some(first)
    }
}

impl<'a, T> Engine<'a, T> {
    pub(crate) fn new(
        groups: Vec<StageGroup<'a, T>>,
        ending: Arc<Ending>,
        waiting: Waiting,
        beginning: Instant,
    ) -> Self {
        let open = groups.iter().filter(|group| group.place == Place::Workers).count();
        Engine {
            groups,
            ready: Ready::new(waiting),
            activity: Activity::default(),
            ending,
            open: AtomicUsize::new(open),
            may_yield: waiting.rule().is_adaptive(),
            beginning,
            call_logs: Mutex::new(Vec::new()),
        }
    }

    /// Takes buffers for a group, as [`Queue::take`] does.
    pub(crate) fn take(
        &self,
        at: usize,
        most: usize,
        buffers: &mut ThreadBuffers<'a, T>,
        taker: Sleeper<'a, T>,
    ) -> TakeResult<Sleeper<'a, T>> {
        let taken = self.groups[at].queue.take(most, &mut buffers.input, &mut buffers.woken, taker);
        if buffers.input.back().is_some_and(|entry| entry.is_last) {
            self.note_closed(at);
            self.wake_sleepers(at, buffers);
        }
        taken
    }

    /// Passes on the processed buffers in `output`. `first` is the place of the first of them in
    /// the order of taking. Buffers left in `input` become free. Returns the depth of the next
    /// queue and how many buffers were added to it.
    pub(crate) fn deliver(
        &self,
        at: usize,
        first: u64,
        processed: &Processed,
        buffers: &mut ThreadBuffers<'a, T>,
    ) -> (usize, usize) {
        let group = &self.groups[at];
        if *processed == Processed::Broken {
            buffers.input.append(&mut buffers.output);
        }
        if *processed == Processed::EndsHere {
            self.close_up_to(at, buffers);
        }
        let depth = match &group.join {
            None => self.send(at, buffers),
            Some(join) => {
                // Hold the lock until all are sent, or another copy could overtake this one.
                let mut join = join.lock();
                let (mut onward, mut discarded) = (VecDeque::new(), VecDeque::new());
                for (place, entry) in (first..).zip(buffers.output.drain(..)) {
                    let is_last = entry.is_last;
                    join.finish(place, entry, is_last, &mut onward, &mut discarded);
                }
                buffers.output = onward;
                let depth = self.send(at, buffers);
                drop(join);
                buffers.input.append(&mut discarded);
                depth
            }
        };
        if !buffers.input.is_empty() {
            self.return_free(group.first, buffers);
        }
        depth
    }

    /// Moves `output` to the next queue. Returns the depth of that queue and how many buffers were
    /// added.
    fn send(&self, at: usize, buffers: &mut ThreadBuffers<'a, T>) -> (usize, usize) {
        let sent = buffers.output.len();
        if sent == 0 {
            return (0, 0);
        }
        let group = &self.groups[at];
        if group.is_final {
            free(&mut buffers.output);
            let depth = self.groups[group.first].queue.keep(&mut buffers.output, &mut buffers.woken);
            self.wake_sleepers(group.first, buffers);
            return (depth, sent);
        }
        if buffers.is_worker && buffers.next_job.is_none() && self.pass(at + 1, buffers) {
            return (sent, sent);
        }
        match self.groups[at + 1].queue.convey(&mut buffers.output, &mut buffers.woken) {
            Some(depth) => {
                self.wake_sleepers(at + 1, buffers);
                (depth, sent)
            }
            None => {
                buffers.input.append(&mut buffers.output);
                (0, 0)
            }
        }
    }

    /// Passes `output` directly to an idle copy of the next group, without its queue, if that copy
    /// would take all of it. Returns whether it did.
    fn pass(&self, at: usize, buffers: &mut ThreadBuffers<'a, T>) -> bool {
        let group = &self.groups[at];
        if group.place != Place::Workers {
            return false;
        }
        let most = |sleeper: &Sleeper<'a, T>| match sleeper {
            Sleeper::Copy(copy) => copy.batch_size(),
            Sleeper::Thread(_) => 0,
        };
        let Some((first, Sleeper::Copy(copy))) = group.queue.pass(&buffers.output, most, &mut buffers.woken) else {
            return false;
        };
        buffers.next_job = Some(Job::new(at, copy));
        if buffers.output.back().is_some_and(|entry| entry.is_last) {
            self.note_closed(at);
            self.wake_sleepers(at, buffers);
        }
        let done = std::mem::replace(&mut buffers.output, std::mem::take(&mut buffers.spare));
        buffers.passed = Some((first, done));
        true
    }

    /// Moves `input` to the free buffers.
    pub(crate) fn return_free(&self, first: usize, buffers: &mut ThreadBuffers<'a, T>) {
        free(&mut buffers.input);
        self.groups[first].queue.keep(&mut buffers.input, &mut buffers.woken);
        self.wake_sleepers(first, buffers);
    }

    /// Ends the stream at a group: it and the groups before it get no more buffers.
    pub(crate) fn close_up_to(&self, at: usize, buffers: &mut ThreadBuffers<'a, T>) {
        let first = self.groups[at].first;
        for index in (first..=at).rev() {
            let mut rest = VecDeque::new();
            if self.groups[index].queue.close(&mut rest, &mut buffers.woken) {
                self.note_closed(index);
            }
            buffers.input.append(&mut rest);
            self.wake_sleepers(index, buffers);
        }
    }

    fn note_closed(&self, at: usize) {
        if self.groups[at].place == Place::Workers && self.open.fetch_sub(1, AcqRel) == 1 {
            self.ready.end().iter().for_each(|sleeper| self.wake(sleeper));
        }
    }

    /// Wakes the threads among the sleepers and turns the copies into jobs. A worker keeps the
    /// first job.
    fn wake_sleepers(&self, at: usize, buffers: &mut ThreadBuffers<'a, T>) {
        for sleeper in buffers.woken.drain(..) {
            match sleeper {
                Sleeper::Thread(event) => self.wake(&event),
                Sleeper::Copy(copy) if buffers.is_worker && buffers.next_job.is_none() => {
                    buffers.next_job = Some(Job::new(at, copy));
                }
                // A worker wakes another one only before a long call.
                Sleeper::Copy(copy) => self.add(Job::new(at, copy), !buffers.is_worker),
            }
        }
    }

    /// Adds a job for any worker, and wakes a sleeping one if `wake_worker`.
    pub(crate) fn add(&self, mut job: Job<'a, T>, wake_worker: bool) {
        job.since = (!job.copy.is_short()).then(Instant::now);
        if let Some(sleeper) = self.ready.add(job, wake_worker) {
            self.wake(&sleeper);
        }
    }

    /// Wakes a thread that the caller has just removed from a list of sleepers.
    pub(crate) fn wake(&self, sleeper: &Event) {
        self.activity.wake();
        sleeper.set();
    }

    /// Waits until woken. The calling thread is already on a list of sleepers. Returns the time
    /// waited.
    pub(crate) fn sleep(&self, own: &Event, yield_budget: &mut YieldBudget) -> Duration {
        if self.ending.is_ending() {
            // The wakeup at the end of the run may have come before this thread joined the list.
            return Duration::ZERO;
        }
        let from = Instant::now();
        if self.activity.sleep() {
            self.report_deadlock();
        }
        if !self.may_yield || !self.yield_before_sleep(own, yield_budget, from) {
            own.wait();
        }
        let time = from.elapsed();
        yield_budget.record_wait(span(time));
        time
    }

    /// Yields for a bounded time, if that is likely to help. Returns whether the thread was woken.
    fn yield_before_sleep(&self, own: &Event, yield_budget: &mut YieldBudget, from: Instant) -> bool {
        let since_beginning = |now: Instant| policy::Instant::from_nanos((now - self.beginning).as_nanos() as u64);
        let most = yield_budget.budget_at(since_beginning(from));
        let mut before = from;
        loop {
            if own.try_wait() {
                return true;
            }
            if span(before - from) >= most {
                return false;
            }
            std::thread::yield_now();
            let now = Instant::now();
            if yield_budget.record_yield(since_beginning(now), span(now - before)) {
                return own.try_wait();
            }
            before = now;
        }
    }

    /// The duration of the run so far, in nanoseconds.
    pub(crate) fn since_beginning(&self) -> u64 {
        self.beginning.elapsed().as_nanos() as u64
    }

    /// The calling thread ends.
    pub(crate) fn leave(&self) {
        if self.activity.leave() {
            self.report_deadlock();
        }
    }

    /// Wakes all threads because the run is ending.
    pub(crate) fn wake_all_threads(&self) {
        let mut buffers = ThreadBuffers::for_thread();
        for (at, group) in self.groups.iter().enumerate() {
            group.queue.take_sleepers(&mut buffers.woken);
            self.wake_sleepers(at, &mut buffers);
        }
        self.ready.end().iter().for_each(|sleeper| self.wake(sleeper));
    }

    /// Ends all remaining copies after the threads have ended. Also returns the number of buffers
    /// of each pipeline.
    pub(crate) fn tear_down(self) -> (Arc<Ending>, Vec<usize>, Vec<CallLog>) {
        self.idle_copies().into_iter().for_each(|copy| self.retire(copy));
        let mut buffers = Vec::new();
        for (at, group) in self.groups.into_iter().enumerate() {
            let joined = group.join.map_or(0, |join| join.into_inner().into_rest().count());
            let here = group.queue.status().0 + joined;
            match buffers.last_mut() {
                Some(count) if group.first != at => *count += here,
                _ => buffers.push(here),
            }
        }
        (self.ending, buffers, self.call_logs.into_inner())
    }

    /// The copies that no worker runs.
    fn idle_copies(&self) -> Vec<GroupCopy<'a, T>> {
        let mut buffers = ThreadBuffers::for_thread();
        self.groups.iter().for_each(|group| group.queue.take_sleepers(&mut buffers.woken));
        let idle = buffers.woken.into_iter().filter_map(|sleeper| match sleeper {
            Sleeper::Copy(copy) => Some(*copy),
            Sleeper::Thread(_) => None,
        });
        let ready = self.ready.take_jobs().into_iter().map(|job| *job.copy);
        idle.chain(ready).collect()
    }

    fn report_deadlock(&self) {
        if self.ending.is_ending() {
            return;
        }
        let waits = self.groups.iter().enumerate().filter_map(|(at, group)| {
            let (_, sleepers, is_closed) = group.queue.status();
            let is_waiting = group.place != Place::Workers && sleepers > 0 && !is_closed;
            is_waiting.then(|| match group.first == at {
                true => format!("stage '{}' waits for a free buffer", group.name),
                false => format!("stage '{}' waits for a buffer from '{}'", group.name, self.groups[at - 1].name),
            })
        });
        let cause = Cause::Stuck(waits.collect());
        self.ending.end(Failed { stage: None, round: None, cause });
    }
}

fn free<T>(entries: &mut QueuedBuffers<T>) {
    for entry in entries {
        entry.is_last = false;
        entry.buffer.clear();
    }
}
