//! The trace writer: converts events to Perfetto's format.
//!
//! Each CPU's switches and wakeups are collected and written as one *bundle*, the form in which
//! Perfetto itself records them from Linux: columns of small numbers, with times as differences.
//! Everything else is a *track event*, a packet each. Perfetto sorts its input by time. But within
//! one CPU it takes the switches of a bundle before its wakeups if the times are equal, and infers
//! the waker from the running thread. So a bundle ends if a switch follows a wakeup of the same
//! moment.
//!
//! The field numbers are those of Perfetto's protos/perfetto/trace: trace_packet.proto,
//! ftrace/ftrace_event_bundle.proto, track_event/*.proto, ps/process_tree.proto.

use std::collections::HashMap;
use std::io::{self, Write};

use policy::{CpuId, Instant, JobId, ThreadId};

use crate::model::{Event, Participants, Phase, PreviousState};
use crate::protobuf::{bytes, fixed, message, number, varint};

/// The most switches or wakeups of a CPU in a bundle.
const BUNDLE: u32 = 1024;

/// The priority of a thread with nice value 0.
const PRIORITY: u64 = 120;

/// The state in `sched_switch` of the thread that leaves. Without a kernel version Perfetto reads
/// the preemption bit as in Linux 4.4.
const fn state(previous: PreviousState) -> u64 {
    match previous {
        PreviousState::Preempted => 0x800,
        PreviousState::Yielded => 0,
        PreviousState::Blocked => 1,
        PreviousState::Stopped => 4,
        PreviousState::Ended => 0x10,
    }
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// Ids of interned names; the phases come first.
const WAKES: u64 = Phase::ALL.len() as u64 + 1;
const ENDS: u64 = WAKES + 1;

/// Writes one trace. It keeps no event after its bundle is closed. The first error is kept until
/// [`finish`](Writer::finish), and nothing is written after it.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    failure: Option<io::Error>,
    packet: Vec<u8>,
    participants: Participants,
    bundles: Vec<Bundle>,
    threads: Vec<ThreadState>,
    rounds: Vec<Rounds>,
    flows: u64,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadState {
    /// Whether it is in a phase.
    busy: bool,
    /// The flow arrow that leads to its next phase.
    flow: Option<u64>,
}

/// The rounds of a job.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    done: u64,
    /// When the last one ended.
    last: Instant,
}

/// The recent events of a CPU.
#[derive(Debug, Default)]
struct Bundle {
    runs: Option<ThreadId>,
    switches: Columns,
    wakeups: Columns,
    /// The names of threads in the bundle, each with its index.
    names: HashMap<Option<ThreadId>, u64>,
    table: Vec<Option<ThreadId>>,
}

/// The fields of the columns of switches: time, state, thread, priority and name.
const SWITCH_FIELDS: [u32; 5] = [1, 2, 3, 4, 6];
/// The fields of the columns of wakeups: time, thread, target, priority, name and flags.
const WAKEUP_FIELDS: [u32; 6] = [7, 8, 9, 10, 11, 12];

/// Events as columns of small numbers.
#[derive(Debug, Default)]
struct Columns {
    events: u32,
    /// The time of the last event.
    last: u64,
    columns: [Vec<u8>; 6],
}

impl Columns {
    /// Adds an event: its time, and the numbers of the other columns.
    fn push(&mut self, at: u64, numbers: &[u64]) {
        varint(&mut self.columns[0], at.saturating_sub(self.last));
        self.columns[1..].iter_mut().zip(numbers).for_each(|(column, &number)| varint(column, number));
        self.last = at;
        self.events += 1;
    }

    /// Appends the columns that are not empty, as these fields.
    fn write(&self, to: &mut Vec<u8>, fields: &[u32]) {
        for (&field, column) in fields.iter().zip(&self.columns).filter(|(_, column)| !column.is_empty()) {
            bytes(to, field, column);
        }
    }
}

impl Bundle {
    fn name(&mut self, thread: Option<ThreadId>) -> u64 {
        let table = &mut self.table;
        *self.names.entry(thread).or_insert_with(|| {
            table.push(thread);
            table.len() as u64 - 1
        })
    }

    fn switch(&mut self, at: u64, previous: PreviousState, to: Option<ThreadId>, id: i32) {
        let name = self.name(to);
        self.switches.push(at, &[state(previous), id.unsigned_abs().into(), PRIORITY, name]);
        self.runs = to;
    }

    fn is_full(&self) -> bool {
        self.switches.events.max(self.wakeups.events) >= BUNDLE
    }

    /// Appends the bundle of `cpu` as a packet, and clears it.
    fn take(&mut self, cpu: usize, participants: &Participants, packet: &mut Vec<u8>) {
        if self.switches.events + self.wakeups.events == 0 {
            return;
        }
        let Bundle { switches, wakeups, table, .. } = &*self;
        message(packet, 1, |packet| {
            message(packet, 1, |bundle| {
                number(bundle, 1, cpu as u64);
                message(bundle, 4, |sched| {
                    for &thread in table {
                        let name = thread.map_or("swapper", |thread| &participants.threads[thread.index()].name);
                        bytes(sched, 5, name.as_bytes());
                    }
                    switches.write(sched, &SWITCH_FIELDS);
                    wakeups.write(sched, &WAKEUP_FIELDS);
                });
            });
        });
        *self = Bundle { runs: self.runs, ..Bundle::default() };
    }
}

impl<W: Write> Writer<W> {
    /// Starts the trace of a run at `start`, before all events. CPUs are idle, threads in no phase.
    pub fn new(to: W, participants: Participants, start: Instant) -> Writer<W> {
        let mut writer = Writer {
            to,
            failure: None,
            packet: Vec::new(),
            bundles: (0..participants.cpus).map(|_| Bundle::default()).collect(),
            threads: vec![ThreadState::default(); participants.threads.len()],
            rounds: vec![Rounds { done: 0, last: start }; participants.jobs.len()],
            participants,
            flows: 0,
        };
        writer.describe(start);
        for bundle in &mut writer.bundles {
            // Perfetto reads a CPU's first switch as its initial state, not as a change.
            bundle.switch(start.as_nanos(), PreviousState::Yielded, None, 0);
        }
        writer
    }

    /// Describes all participants: processes and threads for the CPUs, tracks for the track events.
    fn describe(&mut self, start: Instant) {
        let Participants { jobs, threads, .. } = &self.participants;
        let packet = &mut self.packet;
        message(packet, 1, |packet| {
            number(packet, 8, start.as_nanos());
            message(packet, 2, |tree| {
                for job in jobs {
                    message(tree, 1, |process| {
                        number(process, 1, job.id.unsigned_abs().into());
                        bytes(process, 3, job.name.as_bytes());
                    });
                }
                for thread in threads {
                    message(tree, 2, |it| {
                        number(it, 1, thread.id.unsigned_abs().into());
                        bytes(it, 2, thread.name.as_bytes());
                        number(it, 3, jobs[thread.job].id.unsigned_abs().into());
                    });
                }
            });
        });
        // The first packet of the sequence declares the names that all later ones use.
        message(packet, 1, |packet| {
            number(packet, 10, SEQUENCE);
            number(packet, 13, STATE_CLEARED);
            message(packet, 12, |interned| {
                let names = Phase::ALL.map(Phase::name).into_iter().chain(["wakes", "ends"]);
                for (place, name) in (1..).zip(names) {
                    message(interned, 2, |entry| {
                        number(entry, 1, place);
                        bytes(entry, 2, name.as_bytes());
                    });
                }
            });
        });
        for (place, job) in jobs.iter().enumerate() {
            track(packet, process_track(&self.participants, place), |track| {
                message(track, 3, |process| {
                    number(process, 1, job.id.unsigned_abs().into());
                    bytes(process, 6, job.name.as_bytes());
                });
            });
        }
        for (place, thread) in threads.iter().enumerate() {
            track(packet, thread_track(ThreadId(place as u32)), |track| {
                message(track, 4, |it| {
                    number(it, 1, jobs[thread.job].id.unsigned_abs().into());
                    number(it, 2, thread.id.unsigned_abs().into());
                    bytes(it, 5, thread.name.as_bytes());
                });
            });
        }
        self.flush();
    }

    /// Writes an event. Those of one CPU, thread or job must come in the order of their times.
    pub fn record(&mut self, at: Instant, event: Event) {
        match event {
            Event::Switch { cpu, previous, to } => self.switch(at, cpu, previous, to),
            Event::Wakeup { cpu, waker, woken } => self.wakeup(at, cpu, waker, woken),
            Event::PhaseBegin(thread, phase) => {
                self.end_phase(at, thread);
                let now = &mut self.threads[thread.index()];
                now.busy = true;
                let (flow, name) = (now.flow.take(), phase as u64 + 1);
                self.track_event(at, SLICE_BEGIN, thread_track(thread), |event| {
                    number(event, 10, name);
                    flow.iter().for_each(|&flow| fixed(event, 48, flow));
                });
            }
            Event::ThreadEnd(thread) => {
                self.end_phase(at, thread);
                let flow = self.threads[thread.index()].flow.take();
                self.track_event(at, INSTANT, thread_track(thread), |event| {
                    number(event, 10, ENDS);
                    flow.iter().for_each(|&flow| fixed(event, 48, flow));
                });
            }
            Event::RoundEnd(job) => self.round(at, job),
        }
    }

    fn switch(&mut self, at: Instant, cpu: CpuId, previous: PreviousState, to: Option<ThreadId>) {
        let id = to.map_or(0, |to| self.participants.threads[to.index()].id);
        let bundle = &mut self.bundles[cpu.index()];
        if bundle.is_full() || (bundle.wakeups.events > 0 && bundle.wakeups.last == at.as_nanos()) {
            bundle.take(cpu.index(), &self.participants, &mut self.packet);
        }
        bundle.switch(at.as_nanos(), previous, to, id);
        self.flush();
    }

    fn wakeup(&mut self, at: Instant, cpu: CpuId, waker: Option<ThreadId>, woken: ThreadId) {
        let id = self.participants.threads[woken.index()].id;
        let bundle = &mut self.bundles[cpu.index()];
        if bundle.is_full() {
            bundle.take(cpu.index(), &self.participants, &mut self.packet);
        }
        let name = bundle.name(Some(woken));
        bundle.wakeups.push(at.as_nanos(), &[id.unsigned_abs().into(), cpu.0.into(), PRIORITY, name, 0]);
        if let Some(waker) = waker {
            self.flows += 1;
            let flow = self.flows;
            self.threads[woken.index()].flow = Some(flow);
            self.track_event(at, INSTANT, thread_track(waker), |event| {
                number(event, 10, WAKES);
                fixed(event, 47, flow);
            });
        }
    }

    fn end_phase(&mut self, at: Instant, thread: ThreadId) {
        if std::mem::take(&mut self.threads[thread.index()].busy) {
            self.track_event(at, SLICE_END, thread_track(thread), |_| {});
        }
    }

    fn round(&mut self, at: Instant, job: JobId) {
        let rounds = &mut self.rounds[job.index()];
        rounds.done += 1;
        let (name, is_first) = (format!("round {}", rounds.done), rounds.done == 1);
        let since = std::mem::replace(&mut rounds.last, at);
        let rounds = rounds_track(&self.participants, job.index());
        if is_first {
            track(&mut self.packet, rounds, |track| {
                number(track, 5, process_track(&self.participants, job.index()));
                bytes(track, 2, b"rounds");
            });
        }
        self.track_event(since, SLICE_BEGIN, rounds, |event| bytes(event, 23, name.as_bytes()));
        self.track_event(at, SLICE_END, rounds, |_| {});
    }

    fn track_event(&mut self, at: Instant, kind: u64, track: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        message(&mut self.packet, 1, |packet| {
            number(packet, 8, at.as_nanos());
            number(packet, 10, SEQUENCE);
            number(packet, 13, NEEDS_STATE);
            message(packet, 11, |event| {
                number(event, 9, kind);
                number(event, 11, track);
                fill(event);
            });
        });
        self.flush();
    }

    /// Writes the pending packets, unless an earlier write has failed.
    fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = self.to.write_all(&self.packet).err();
        }
        self.packet.clear();
    }

    /// Ends the trace at the end of the run, after all events. Every CPU is then idle, and no
    /// thread is in a phase. Returns the first error since the start.
    pub fn finish(mut self, at: Instant) -> io::Result<W> {
        for cpu in 0..self.bundles.len() {
            if self.bundles[cpu].runs.is_some() {
                self.switch(at, CpuId(cpu as u32), PreviousState::Preempted, None);
            }
            self.bundles[cpu].take(cpu, &self.participants, &mut self.packet);
        }
        for thread in 0..self.threads.len() {
            self.end_phase(at, ThreadId(thread as u32));
        }
        self.flush();
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.to.flush().map(|()| self.to),
        }
    }
}

/// All track events are one sequence of packets: they share the names that it declares.
const SEQUENCE: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

fn thread_track(thread: ThreadId) -> u64 {
    u64::from(thread.0) + 1
}

fn process_track(participants: &Participants, job: usize) -> u64 {
    (participants.threads.len() + job) as u64 + 1
}

fn rounds_track(participants: &Participants, job: usize) -> u64 {
    (participants.threads.len() + participants.jobs.len() + job) as u64 + 1
}

/// Appends a packet that describes a track.
fn track(packet: &mut Vec<u8>, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    message(packet, 1, |packet| {
        number(packet, 10, SEQUENCE);
        message(packet, 60, |track| {
            number(track, 1, id);
            fill(track);
        });
    });
}
