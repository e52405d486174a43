//! A run: stations with queues before them, and how buffers go from one to the next, whoever carries them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;
use std::time::{Duration, Instant};

use policy::Span;
use wait::{Event, Mutex, Waiting};

use crate::activity::Activity;
use crate::copy::{Copy, Processed};
use crate::ending::{Ending, Failed};
use crate::entry::Entry;
use crate::error::Cause;
use crate::join::Join;
use crate::patience::Patience;
use crate::plan::Place;
use crate::queue::{Queue, Taken};
use crate::ready::Ready;
use crate::trace::Notes;

/// One or several stages that are run as one, with the queue before them.
pub(crate) struct Station<'a, T> {
    /// The names of its stages.
    pub(crate) name: String,
    pub(crate) place: Place,
    /// The first station of its pipeline, before which the free buffers wait.
    pub(crate) first: usize,
    pub(crate) is_first: bool,
    pub(crate) is_final: bool,
    pub(crate) queue: Queue<T, Rest<'a, T>>,
    /// Where there are several copies.
    pub(crate) join: Option<Mutex<Join<Box<Entry<T>>>>>,
}

/// Who rests at a queue.
pub(crate) enum Rest<'a, T> {
    /// A thread, which sleeps at its event.
    Thread(Arc<Event>),
    /// A copy of the stages that no worker carries.
    Copy(Box<Copy<'a, T>>),
}

/// A copy of a station's stages that has, or may have, buffers before it.
pub(crate) struct Job<'a, T> {
    pub(crate) at: usize,
    pub(crate) copy: Box<Copy<'a, T>>,
    /// Since when it waits for a worker, where that is worth a look at the clock.
    since: Option<Instant>,
}

impl<'a, T> Job<'a, T> {
    pub(crate) fn new(at: usize, copy: Box<Copy<'a, T>>) -> Job<'a, T> {
        Job { at, copy, since: None }
    }

    /// A worker has come.
    pub(crate) fn is_found(&mut self) {
        if let Some(since) = self.since.take() {
            self.copy.waited_for_worker(since.elapsed());
        }
    }
}

/// All that the threads of a run share.
pub(crate) struct Engine<'a, T> {
    pub(crate) stations: Vec<Station<'a, T>>,
    pub(crate) ready: Ready<Job<'a, T>>,
    pub(crate) activity: Activity,
    pub(crate) ending: Arc<Ending>,
    /// How many stations carried by workers are open.
    open: AtomicUsize,
    /// Whether threads look on before they sleep: not where a waiting rule was asked for.
    is_patient: bool,
    /// What all clocks of the run count from.
    beginning: Instant,
    /// What the copies noted that have come to their end.
    pub(crate) notes: Mutex<Vec<Notes>>,
}

/// What a thread has in its hands: lists that it uses again and again.
pub(crate) struct Hands<'a, T> {
    pub(crate) hand: VecDeque<Box<Entry<T>>>,
    pub(crate) done: VecDeque<Box<Entry<T>>>,
    called: Vec<Rest<'a, T>>,
    /// Whether the thread carries copies of stages itself.
    carries: bool,
    /// The copy to carry next.
    pub(crate) next: Option<Job<'a, T>>,
    /// What it has taken already, and the place of the first.
    passed: Option<(u64, VecDeque<Box<Entry<T>>>)>,
    /// A list to be used again.
    spare: VecDeque<Box<Entry<T>>>,
}

impl<T> Hands<'_, T> {
    /// Those of a thread that runs stages of its own.
    pub(crate) fn of_thread() -> Self {
        let (hand, done, spare) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Hands { hand, done, called: Vec::new(), carries: false, next: None, passed: None, spare }
    }

    /// Those of a worker.
    pub(crate) fn of_worker() -> Self {
        Hands { carries: true, ..Hands::of_thread() }
    }

    /// Takes into the hand what was passed with the copy to carry, if that was so; returns the place of the first.
    pub(crate) fn take_passed(&mut self) -> Option<u64> {
        let (first, mut entries) = self.passed.take()?;
        std::mem::swap(&mut self.hand, &mut entries);
        self.spare = entries;
        Some(first)
    }
}

impl<'a, T> Engine<'a, T> {
    pub(crate) fn new(
        stations: Vec<Station<'a, T>>,
        ending: Arc<Ending>,
        waiting: Waiting,
        beginning: Instant,
    ) -> Engine<'a, T> {
        let open = stations.iter().filter(|station| station.place == Place::Workers).count();
        Engine {
            stations,
            ready: Ready::new(waiting),
            activity: Activity::new(),
            ending,
            open: AtomicUsize::new(open),
            is_patient: waiting == Waiting::ADAPTIVE,
            beginning,
            notes: Mutex::new(Vec::new()),
        }
    }

    /// Takes buffers for a station, as [`Queue::take`] does.
    pub(crate) fn take(
        &self,
        at: usize,
        most: usize,
        hands: &mut Hands<'a, T>,
        taker: Rest<'a, T>,
    ) -> Taken<Rest<'a, T>> {
        let taken = self.stations[at].queue.take(most, &mut hands.hand, &mut hands.called, taker);
        if hands.hand.back().is_some_and(|entry| entry.is_last) {
            self.has_closed(at);
            self.call(at, hands);
        }
        taken
    }

    /// Passes on what was done at a station, the first of it at this place in the order of taking. What is left in the hand is given back. Returns how
    /// many buffers the next queue holds then, and how many of them have come just now.
    pub(crate) fn deliver(
        &self,
        at: usize,
        first: u64,
        processed: &Processed,
        hands: &mut Hands<'a, T>,
    ) -> (usize, usize) {
        let station = &self.stations[at];
        if *processed == Processed::Broken {
            hands.hand.append(&mut hands.done);
        }
        if *processed == Processed::EndsHere {
            self.close_up_to(at, hands);
        }
        let depth = match &station.join {
            None => self.send(at, hands),
            Some(join) => {
                // The lock is held until all have gone on, or others could overtake.
                let mut join = join.lock();
                let (mut onward, mut in_vain) = (VecDeque::new(), VecDeque::new());
                for (place, entry) in (first..).zip(hands.done.drain(..)) {
                    let is_last = entry.is_last;
                    join.finish(place, entry, is_last, &mut onward, &mut in_vain);
                }
                hands.done = onward;
                let depth = self.send(at, hands);
                drop(join);
                hands.hand.append(&mut in_vain);
                depth
            }
        };
        if !hands.hand.is_empty() {
            self.give_back(station.first, hands);
        }
        depth
    }

    /// Moves all that is done to the next queue. Returns how many buffers that holds then, and how many of them have come just now.
    fn send(&self, at: usize, hands: &mut Hands<'a, T>) -> (usize, usize) {
        let sent = hands.done.len();
        if sent == 0 {
            return (0, 0);
        }
        let station = &self.stations[at];
        if station.is_final {
            free(&mut hands.done);
            let depth = self.stations[station.first].queue.keep(&mut hands.done, &mut hands.called);
            self.call(station.first, hands);
            return (depth, sent);
        }
        if hands.carries && hands.next.is_none() && self.pass(at + 1, hands) {
            return (sent, sent);
        }
        match self.stations[at + 1].queue.convey(&mut hands.done, &mut hands.called) {
            Some(depth) => {
                self.call(at + 1, hands);
                (depth, sent)
            }
            None => {
                hands.hand.append(&mut hands.done);
                (0, 0)
            }
        }
    }

    /// Goes on to a station with all that is done, without its queue, where a copy rests that would take it all.
    fn pass(&self, at: usize, hands: &mut Hands<'a, T>) -> bool {
        let station = &self.stations[at];
        if station.place != Place::Workers {
            return false;
        }
        let most = |rest: &Rest<'a, T>| match rest {
            Rest::Copy(copy) => copy.burst(),
            Rest::Thread(_) => 0,
        };
        let Some((first, Rest::Copy(copy))) = station.queue.pass(&hands.done, most, &mut hands.called) else {
            return false;
        };
        hands.next = Some(Job::new(at, copy));
        if hands.done.back().is_some_and(|entry| entry.is_last) {
            self.has_closed(at);
            self.call(at, hands);
        }
        let done = std::mem::replace(&mut hands.done, std::mem::take(&mut hands.spare));
        hands.passed = Some((first, done));
        true
    }

    /// Moves what is in the hand to the free buffers.
    pub(crate) fn give_back(&self, first: usize, hands: &mut Hands<'a, T>) {
        free(&mut hands.hand);
        self.stations[first].queue.keep(&mut hands.hand, &mut hands.called);
        self.call(first, hands);
    }

    /// Ends the stream at a station: it and those before it get no more buffers.
    pub(crate) fn close_up_to(&self, at: usize, hands: &mut Hands<'a, T>) {
        let first = self.stations[at].first;
        for index in (first..=at).rev() {
            let mut rest = VecDeque::new();
            if self.stations[index].queue.close(&mut rest, &mut hands.called) {
                self.has_closed(index);
            }
            hands.hand.append(&mut rest);
            self.call(index, hands);
        }
    }

    fn has_closed(&self, at: usize) {
        if self.stations[at].place == Place::Workers && self.open.fetch_sub(1, AcqRel) == 1 {
            self.ready.end().iter().for_each(|sleeper| self.wake(sleeper));
        }
    }

    /// Calls those who rested: threads are woken, copies become jobs, the first of which a worker carries itself.
    fn call(&self, at: usize, hands: &mut Hands<'a, T>) {
        for rest in hands.called.drain(..) {
            match rest {
                Rest::Thread(event) => self.wake(&event),
                Rest::Copy(copy) if hands.carries && hands.next.is_none() => hands.next = Some(Job::new(at, copy)),
                // A worker wakes others when it is about to do something that takes long.
                Rest::Copy(copy) => self.add(Job::new(at, copy), !hands.carries),
            }
        }
    }

    /// A job for any worker; one that sleeps is woken for it if that is wanted.
    pub(crate) fn add(&self, mut job: Job<'a, T>, wants_sleeper: bool) {
        job.since = (!job.copy.is_short()).then(Instant::now);
        if let Some(sleeper) = self.ready.add(job, wants_sleeper) {
            self.wake(&sleeper);
        }
    }

    /// Wakes a thread that somebody has just taken off the list of those who rest.
    pub(crate) fn wake(&self, sleeper: &Event) {
        self.activity.wake();
        sleeper.set();
    }

    /// Waits until called; the calling thread rests somewhere already. Returns how long that took.
    pub(crate) fn sleep(&self, own: &Event, patience: &mut Patience) -> Duration {
        if self.ending.is_ending() {
            // Those who call everybody at the end may have looked before this one rested.
            return Duration::ZERO;
        }
        let from = Instant::now();
        if self.activity.sleep() {
            self.is_stuck();
        }
        if !self.is_patient || !self.look_on(own, patience, from) {
            own.wait();
        }
        let time = from.elapsed();
        patience.waited(span(time));
        time
    }

    /// Yields for a while, if that is worth it; returns whether somebody has called.
    fn look_on(&self, own: &Event, patience: &mut Patience, from: Instant) -> bool {
        let since_beginning = |now: Instant| policy::Instant::from_nanos((now - self.beginning).as_nanos() as u64);
        let most = patience.yields_for(since_beginning(from));
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
            if patience.yielded(since_beginning(now), span(now - before)) {
                return own.try_wait();
            }
            before = now;
        }
    }

    /// How long the run has lasted, in nanoseconds.
    pub(crate) fn since_beginning(&self) -> u64 {
        self.beginning.elapsed().as_nanos() as u64
    }

    /// The calling thread ends.
    pub(crate) fn leave(&self) {
        if self.activity.leave() {
            self.is_stuck();
        }
    }

    /// Calls everybody, since the run is ending.
    pub(crate) fn call_all(&self) {
        let mut hands = Hands::of_thread();
        for (at, station) in self.stations.iter().enumerate() {
            station.queue.call_all(&mut hands.called);
            self.call(at, &mut hands);
        }
        self.ready.end().iter().for_each(|sleeper| self.wake(sleeper));
    }

    /// Takes the run down when its threads are gone: copies that rest are brought to their ends, and the buffers are counted, for each first station.
    pub(crate) fn dissolve(self) -> (Arc<Ending>, Vec<(usize, usize)>, Vec<Notes>) {
        self.ready_rest().into_iter().for_each(|copy| self.retire(copy));
        let mut buffers: Vec<(usize, usize)> = Vec::new();
        for (at, station) in self.stations.into_iter().enumerate() {
            let joined = station.join.map_or(0, |join| join.into_inner().into_rest().count());
            let here = station.queue.look().0 + joined;
            match buffers.last_mut() {
                Some((_, count)) if !station.is_first => *count += here,
                _ => buffers.push((at, here)),
            }
        }
        (self.ending, buffers, self.notes.into_inner())
    }

    /// The copies that nobody carries.
    fn ready_rest(&self) -> Vec<Copy<'a, T>> {
        let mut hands = Hands::of_thread();
        self.stations.iter().for_each(|station| station.queue.call_all(&mut hands.called));
        let resting = hands.called.into_iter().filter_map(|rest| match rest {
            Rest::Copy(copy) => Some(*copy),
            Rest::Thread(_) => None,
        });
        let ready = self.ready.take_rest().into_iter().map(|job| *job.copy);
        resting.chain(ready).collect()
    }

    fn is_stuck(&self) {
        if self.ending.is_ending() {
            return;
        }
        let waits = self.stations.iter().enumerate().filter_map(|(at, station)| {
            let (_, resting, is_closed) = station.queue.look();
            let rests = station.place != Place::Workers && resting > 0 && !is_closed;
            rests.then(|| match station.is_first {
                true => format!("stage '{}' waits for a free buffer", station.name),
                false => format!("stage '{}' waits for a buffer from '{}'", station.name, self.stations[at - 1].name),
            })
        });
        let cause = Cause::Stuck(waits.collect());
        self.ending.end(Failed { stage: None, round: None, cause });
    }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(time.as_nanos() as u64)
}

fn free<T>(entries: &mut VecDeque<Box<Entry<T>>>) {
    for entry in entries {
        entry.is_last = false;
        entry.buffer.clear();
    }
}
