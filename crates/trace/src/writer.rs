//! The writer: events in, Perfetto's bytes out.
//!
//! Each CPU's switches and wakings are gathered and written as one *bundle*, the form in which Perfetto itself records them from
//! Linux: columns of small numbers, times as differences. Everything else is a *track event*, a packet each. Perfetto sorts by
//! time what it reads, but within one CPU it takes the switches of a bundle before its wakings where the times are equal, and guesses
//! who woke from who ran; so a bundle ends where a switch follows a waking of the same moment.
//!
//! The numbers of fields are those of Perfetto's protos/perfetto/trace: trace_packet.proto, ftrace/ftrace_event_bundle.proto,
//! track_event/*.proto, ps/process_tree.proto.

use std::collections::HashMap;
use std::io::{self, Write};

use policy::{CpuId, Instant, JobId, ThreadId};

use crate::model::{Cast, Event, Leaves, Phase};
use crate::protobuf::{bytes, fixed, message, number, varint};

/// So many switches or wakings of a CPU are gathered at the most.
const BUNDLE: u32 = 1024;

/// The priority of a thread that nobody has given any: nice 0.
const PRIORITY: u64 = 120;

/// `sched_switch`'s state of whoever leaves. Without a kernel's version Perfetto reads the bit for preemption as Linux 4.4 had it.
const fn state(leaves: Leaves) -> u64 {
    match leaves {
        Leaves::Preempted => 0x800,
        Leaves::Ready => 0,
        Leaves::Asleep => 1,
        Leaves::Ended => 0x10,
    }
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// Numbers of interned names; the phases come first.
const WAKES: u64 = Phase::ALL.len() as u64 + 1;
const ENDS: u64 = WAKES + 1;

/// Writes one trace. It keeps no event longer than its bundle is open. What goes wrong is kept until [`finish`](Writer::finish),
/// and nothing more is written after it.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    failure: Option<io::Error>,
    packet: Vec<u8>,
    cast: Cast,
    bundles: Vec<Bundle>,
    threads: Vec<ThreadNow>,
    rounds: Vec<Rounds>,
    flows: u64,
}

/// What the writer knows of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadNow {
    /// Whether it is at something.
    busy: bool,
    /// The arrow that leads to what it begins next.
    flow: Option<u64>,
}

/// The rounds of a job.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    done: u64,
    /// When the last one was over.
    last: Instant,
}

/// What a CPU did lately.
#[derive(Debug, Default)]
struct Bundle {
    runs: Option<ThreadId>,
    switches: u32,
    wakings: u32,
    switched: u64,
    woke: u64,
    /// The names of threads in the bundle, each with its place.
    names: HashMap<Option<ThreadId>, u64>,
    table: Vec<Option<ThreadId>>,
    switch: SwitchColumns,
    waking: WakingColumns,
}

#[derive(Debug, Default)]
struct SwitchColumns {
    time: Vec<u8>,
    state: Vec<u8>,
    thread: Vec<u8>,
    priority: Vec<u8>,
    name: Vec<u8>,
}

#[derive(Debug, Default)]
struct WakingColumns {
    time: Vec<u8>,
    thread: Vec<u8>,
    target: Vec<u8>,
    priority: Vec<u8>,
    name: Vec<u8>,
    flags: Vec<u8>,
}

impl Bundle {
    fn name(&mut self, thread: Option<ThreadId>) -> u64 {
        let table = &mut self.table;
        *self.names.entry(thread).or_insert_with(|| {
            table.push(thread);
            table.len() as u64 - 1
        })
    }

    fn switch(&mut self, at: u64, leaves: Leaves, to: Option<ThreadId>, id: i32) {
        let name = self.name(to);
        let columns = &mut self.switch;
        varint(&mut columns.time, at.saturating_sub(self.switched));
        varint(&mut columns.state, state(leaves));
        varint(&mut columns.thread, id.unsigned_abs().into());
        varint(&mut columns.priority, PRIORITY);
        varint(&mut columns.name, name);
        self.runs = to;
        self.switched = at;
        self.switches += 1;
    }

    fn waking(&mut self, at: u64, cpu: CpuId, woken: ThreadId, id: i32) {
        let name = self.name(Some(woken));
        let columns = &mut self.waking;
        varint(&mut columns.time, at.saturating_sub(self.woke));
        varint(&mut columns.thread, id.unsigned_abs().into());
        varint(&mut columns.target, cpu.0.into());
        varint(&mut columns.priority, PRIORITY);
        varint(&mut columns.name, name);
        varint(&mut columns.flags, 0);
        self.woke = at;
        self.wakings += 1;
    }

    fn is_full(&self) -> bool {
        self.switches.max(self.wakings) >= BUNDLE
    }

    /// Appends the bundle of `cpu` as a packet, and empties it.
    fn take(&mut self, cpu: usize, cast: &Cast, packet: &mut Vec<u8>) {
        if self.switches + self.wakings == 0 {
            return;
        }
        let Bundle { switch, waking, table, .. } = &*self;
        let columns: [(u32, &Vec<u8>); 11] = [
            (1, &switch.time),
            (2, &switch.state),
            (3, &switch.thread),
            (4, &switch.priority),
            (6, &switch.name),
            (7, &waking.time),
            (8, &waking.thread),
            (9, &waking.target),
            (10, &waking.priority),
            (11, &waking.name),
            (12, &waking.flags),
        ];
        message(packet, 1, |packet| {
            message(packet, 1, |bundle| {
                number(bundle, 1, cpu as u64);
                message(bundle, 4, |sched| {
                    for &thread in table {
                        bytes(
                            sched,
                            5,
                            thread.map_or("swapper", |thread| &cast.threads[thread.index()].name).as_bytes(),
                        );
                    }
                    columns.iter().filter(|(_, column)| !column.is_empty()).for_each(|(field, column)| {
                        bytes(sched, *field, column);
                    });
                });
            });
        });
        *self = Bundle { runs: self.runs, ..Bundle::default() };
    }
}

impl<W: Write> Writer<W> {
    /// Begins the trace of a run that starts at `start`, before which no event may be. Every CPU is idle and no thread is at
    /// anything.
    pub fn new(to: W, cast: Cast, start: Instant) -> Writer<W> {
        let mut writer = Writer {
            to,
            failure: None,
            packet: Vec::new(),
            bundles: (0..cast.cpus).map(|_| Bundle::default()).collect(),
            threads: vec![ThreadNow::default(); cast.threads.len()],
            rounds: vec![Rounds { done: 0, last: start }; cast.jobs.len()],
            cast,
            flows: 0,
        };
        writer.introduce(start);
        for bundle in &mut writer.bundles {
            // Perfetto takes a CPU's first switch for the news of who runs there, not for a change.
            bundle.switch(start.as_nanos(), Leaves::Ready, None, 0);
        }
        writer
    }

    /// Names everybody: as processes and threads to the CPUs, as tracks to the track events.
    fn introduce(&mut self, start: Instant) {
        let Cast { jobs, threads, .. } = &self.cast;
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
        // The first packet of the sequence declares the names that all later ones refer to.
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
            track(packet, process_track(&self.cast, place), |track| {
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

    /// Writes an event. Those of one CPU, of one thread and of one job come in the order of their times.
    pub fn tell(&mut self, at: Instant, event: Event) {
        match event {
            Event::Switch { cpu, leaves, to } => self.switch(at, cpu, leaves, to),
            Event::Wakes { cpu, waker, woken } => self.wakes(at, cpu, waker, woken),
            Event::Begins { thread, phase } => {
                self.ends_phase(at, thread);
                let now = &mut self.threads[thread.index()];
                now.busy = true;
                let (flow, name) = (now.flow.take(), phase as u64 + 1);
                self.track_event(at, SLICE_BEGIN, thread_track(thread), |event| {
                    number(event, 10, name);
                    flow.iter().for_each(|&flow| fixed(event, 48, flow));
                });
            }
            Event::Ends { thread } => {
                self.ends_phase(at, thread);
                let flow = self.threads[thread.index()].flow.take();
                self.track_event(at, INSTANT, thread_track(thread), |event| {
                    number(event, 10, ENDS);
                    flow.iter().for_each(|&flow| fixed(event, 48, flow));
                });
            }
            Event::Round { job } => self.round(at, job),
        }
    }

    fn switch(&mut self, at: Instant, cpu: CpuId, leaves: Leaves, to: Option<ThreadId>) {
        let id = to.map_or(0, |to| self.cast.threads[to.index()].id);
        let bundle = &mut self.bundles[cpu.index()];
        if bundle.is_full() || (bundle.wakings > 0 && bundle.woke == at.as_nanos()) {
            bundle.take(cpu.index(), &self.cast, &mut self.packet);
        }
        bundle.switch(at.as_nanos(), leaves, to, id);
        self.flush();
    }

    fn wakes(&mut self, at: Instant, cpu: CpuId, waker: Option<ThreadId>, woken: ThreadId) {
        let id = self.cast.threads[woken.index()].id;
        let bundle = &mut self.bundles[cpu.index()];
        if bundle.is_full() {
            bundle.take(cpu.index(), &self.cast, &mut self.packet);
        }
        bundle.waking(at.as_nanos(), cpu, woken, id);
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

    fn ends_phase(&mut self, at: Instant, thread: ThreadId) {
        if std::mem::take(&mut self.threads[thread.index()].busy) {
            self.track_event(at, SLICE_END, thread_track(thread), |_| {});
        }
    }

    fn round(&mut self, at: Instant, job: JobId) {
        let rounds = &mut self.rounds[job.index()];
        rounds.done += 1;
        let (name, is_first) = (format!("round {}", rounds.done), rounds.done == 1);
        let since = std::mem::replace(&mut rounds.last, at);
        let rounds = rounds_track(&self.cast, job.index());
        if is_first {
            track(&mut self.packet, rounds, |track| {
                number(track, 5, process_track(&self.cast, job.index()));
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

    /// Hands on what is ready, unless something has failed before.
    fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = self.to.write_all(&self.packet).err();
        }
        self.packet.clear();
    }

    /// Ends the trace at the end of the run, no event being later: every CPU is idle from there on, and every thread is at nothing.
    ///
    /// # Errors
    ///
    /// What went wrong first since the beginning.
    pub fn finish(mut self, at: Instant) -> io::Result<W> {
        for cpu in 0..self.bundles.len() {
            if self.bundles[cpu].runs.is_some() {
                self.switch(at, CpuId(cpu as u32), Leaves::Preempted, None);
            }
            self.bundles[cpu].take(cpu, &self.cast, &mut self.packet);
        }
        for thread in 0..self.threads.len() {
            self.ends_phase(at, ThreadId(thread as u32));
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

fn process_track(cast: &Cast, job: usize) -> u64 {
    (cast.threads.len() + job) as u64 + 1
}

fn rounds_track(cast: &Cast, job: usize) -> u64 {
    (cast.threads.len() + cast.jobs.len() + job) as u64 + 1
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
