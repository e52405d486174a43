//! The history of each thread in a trace: its bursts and pauses.
//!
//! A *burst* is the running time from a wakeup (or the creation) to the next sleep (or the end),
//! including any preemptions. It counts if all of it was recorded. A *pause* lasts from the moment
//! when a thread leaves the CPU to sleep to its wakeup.

use std::collections::HashMap;

use policy::{Instant, Span};

use super::line::{Event, Line, SwitchOut, Task};

/// One thread. A reused id denotes another thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) id: u32,
    pub(super) process: Option<u32>,
    pub(super) priority: i32,
    /// The beginning of the first burst that counts.
    pub(super) begins: Option<Instant>,
    pub(super) bursts: Vec<Span>,
    pub(super) pauses: Vec<Span>,
    /// The recorded running time.
    pub(super) ran: Span,
    /// The part of the running time outside of bursts that count.
    pub(super) partial: Span,
    /// Whether the thread ever left a CPU to sleep.
    pub(super) has_slept: bool,
    /// Whether the thread did something that only kernel threads do.
    pub(super) is_kernel_thread: bool,
    /// The number of pauses whose wakeup was not recorded.
    pub(super) missing_wakes: u32,
    state: ThreadState,
    /// Whether the beginning of the current burst was recorded.
    is_whole: bool,
    /// The running time in the current burst.
    running: Span,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThreadState {
    #[default]
    Unknown,
    Ready,
    Running(Instant),
    Asleep(Instant),
    Ended,
}

impl Thread {
    fn wake(&mut self, at: Instant) {
        match self.state {
            // The second of `sched_waking` and `sched_wakeup`, or a wakeup before the thread slept.
            ThreadState::Ready | ThreadState::Running(_) | ThreadState::Ended => return,
            ThreadState::Asleep(since) => self.pauses.push(at.since(since)),
            ThreadState::Unknown => {}
        }
        self.state = ThreadState::Ready;
        self.begin_burst(at);
    }

    fn begin_burst(&mut self, at: Instant) {
        self.begins.get_or_insert(at);
        (self.is_whole, self.running) = (true, Span::ZERO);
    }

    fn switch_in(&mut self, at: Instant) {
        match self.state {
            ThreadState::Ready => {}
            ThreadState::Asleep(since) => {
                self.missing_wakes += 1;
                self.pauses.push(at.since(since));
                self.begin_burst(at);
            }
            ThreadState::Unknown | ThreadState::Running(_) | ThreadState::Ended => self.lose_track(),
        }
        self.state = ThreadState::Running(at);
    }

    fn switch_out(&mut self, at: Instant, how: SwitchOut) {
        match self.state {
            ThreadState::Running(since) => {
                let slice = at.since(since);
                self.ran += slice;
                self.running += slice;
            }
            // Its switch to the CPU was not recorded.
            _ => self.lose_track(),
        }
        self.is_kernel_thread |= how == SwitchOut::Idle;
        self.state = match how {
            SwitchOut::Ready => ThreadState::Ready,
            SwitchOut::Asleep | SwitchOut::Idle => {
                self.has_slept = true;
                self.end_burst();
                ThreadState::Asleep(at)
            }
            SwitchOut::Ended => {
                // After its last sleep a thread often has nothing left to do.
                if !self.is_whole || !self.running.is_zero() || self.bursts.is_empty() {
                    self.end_burst();
                }
                ThreadState::Ended
            }
        };
    }

    fn end_burst(&mut self) {
        if self.is_whole {
            self.bursts.push(self.running);
        } else {
            self.partial += self.running;
        }
        (self.is_whole, self.running) = (false, Span::ZERO);
    }

    /// Discards the current burst or pause because events are missing.
    fn lose_track(&mut self) {
        self.partial += self.running;
        (self.is_whole, self.running) = (false, Span::ZERO);
        if self.bursts.is_empty() {
            self.begins = None;
        }
        self.state = ThreadState::Unknown;
    }

    /// Counts the time until the end of the trace.
    fn finish(&mut self, at: Instant) {
        if let ThreadState::Running(since) = self.state {
            self.ran += at.since(since);
            self.running += at.since(since);
        }
        // A thread that never slept becomes a `cpu` job with all of its running time.
        if self.has_slept {
            self.partial += self.running;
        }
    }
}

/// The history of all threads in a trace.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) threads: Vec<Thread>,
    /// The times of the first and the last event.
    pub(super) extent: Option<(Instant, Instant)>,
    /// The highest CPU number.
    pub(super) last_cpu: u32,
    /// The index of the current thread with each id.
    ids: HashMap<u32, usize>,
    /// The thread on each CPU, if known.
    cpus: HashMap<u32, usize>,
    processes: HashMap<u32, u32>,
}

impl History {
    pub(super) fn add(&mut self, line: &Line<'_>) {
        let &Line { at, cpu, current, .. } = line;
        let (start, end) = self.extent.unwrap_or((at, at));
        self.extent = Some((start.min(at), end.max(at)));
        self.last_cpu = self.last_cpu.max(cpu);
        if let Some((thread, Some(process))) = current {
            self.processes.insert(thread, process);
        }
        match &line.event {
            Event::Switch { from, how, to } => {
                let (from, to) = (self.place(from), self.place(to));
                let was = self.cpus.remove(&cpu);
                if let Some(thread) = was.filter(|&was| Some(was) != from).and_then(|was| self.threads.get_mut(was)) {
                    thread.lose_track();
                }
                if let Some(thread) = from.and_then(|from| self.threads.get_mut(from)) {
                    thread.switch_out(at, *how);
                }
                if let Some(place) = to {
                    self.cpus.retain(|_, running| *running != place);
                    self.cpus.insert(cpu, place);
                    self.threads[place].switch_in(at);
                }
            }
            Event::Wakeup(task) | Event::New(task) => {
                if matches!(line.event, Event::New(_)) {
                    self.ids.remove(&task.id);
                    self.processes.remove(&task.id);
                }
                if let Some(place) = self.place(task) {
                    self.threads[place].wake(at);
                }
            }
            Event::Other => {}
        }
    }

    /// Forgets the state of all threads because events are missing.
    pub(super) fn lose_track(&mut self) {
        self.cpus.clear();
        self.threads.iter_mut().filter(|thread| thread.state != ThreadState::Ended).for_each(Thread::lose_track);
    }

    /// Handles the end of the trace.
    pub(super) fn finish(&mut self) {
        let end = self.extent.map_or(Instant::ZERO, |(_, end)| end);
        for thread in &mut self.threads {
            thread.finish(end);
            thread.process = self.processes.get(&thread.id).copied();
        }
    }

    /// The index of a thread; `None` for idle threads.
    fn place(&mut self, task: &Task<'_>) -> Option<usize> {
        if task.id == 0 {
            return None;
        }
        let threads = &mut self.threads;
        let has_ended = |place: &usize| threads.get(*place).is_some_and(|thread| thread.state == ThreadState::Ended);
        if self.ids.get(&task.id).is_some_and(has_ended) {
            self.ids.remove(&task.id);
        }
        let place = *self.ids.entry(task.id).or_insert_with(|| {
            threads.push(Thread { id: task.id, priority: task.priority, ..Thread::default() });
            threads.len() - 1
        });
        // A new thread first has the name of its creator.
        let thread = &mut threads[place];
        if thread.name != task.name {
            task.name.clone_into(&mut thread.name);
        }
        Some(place)
    }
}
