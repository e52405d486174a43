//! Events to bytes, and bytes to events.

use std::io::{self, Write};

use policy::{CpuId, Instant, JobId, ThreadId};
use proptest::prelude::*;
use testing::perfetto::{self, Trace};
use trace::Writer;
use trace::model::{Event, Participants, Phase, PreviousState};
use trace::protobuf::{bytes, message, number, varint};

use crate::trace::history::{arrows, by_track};

fn participants(cpus: u32, threads: &[u32]) -> Participants {
    let mut participants = Participants { cpus, ..Participants::default() };
    threads.iter().enumerate().for_each(|(job, &threads)| participants.add(format!("job {job} \u{2192}"), threads));
    participants
}

/// Participants, and events in chronological order.
fn any_events() -> impl Strategy<Value = (Participants, Vec<(Instant, Event)>)> {
    let participants =
        (1_u32..4, prop::collection::vec(1_u32..4, 1..4)).prop_map(|(cpus, jobs)| participants(cpus, &jobs));
    participants.prop_flat_map(|participants| {
        let thread = (0..participants.threads.len() as u32).prop_map(ThreadId);
        let cpu = (0..participants.cpus).prop_map(CpuId);
        let job = (0..participants.jobs.len() as u32).prop_map(JobId);
        let previous = prop::sample::select(vec![
            PreviousState::Preempted,
            PreviousState::Yielded,
            PreviousState::Blocked,
            PreviousState::Stopped,
            PreviousState::Ended,
        ]);
        let phase = prop::sample::select(Phase::ALL.to_vec());
        let event = prop_oneof![
            4 => (cpu.clone(), previous, prop::option::of(thread.clone()))
                .prop_map(|(cpu, previous, to)| Event::Switch { cpu, previous, to }),
            2 => (cpu, prop::option::of(thread.clone()), thread.clone())
                .prop_map(|(cpu, waker, woken)| Event::Wakeup { cpu, waker, woken }),
            4 => (thread.clone(), phase).prop_map(|(thread, phase)| Event::PhaseBegin(thread, phase)),
            1 => thread.prop_map(Event::ThreadEnd),
            1 => job.prop_map(Event::RoundEnd),
        ];
        // Many events have the same time and some are far apart. Most are of the kinds that are
        // bundled.
        let after = prop_oneof![3 => Just(0_u64), 3 => 1_u64..1_000, 1 => 0..1_u64 << 40];
        let events = prop::collection::vec((after, event), 0..400).prop_map(|events| {
            let timed = events.into_iter().scan(0, |now, (after, event)| {
                *now += after;
                Some((Instant::from_nanos(*now), event))
            });
            timed.collect()
        });
        (Just(participants), events)
    })
}

fn written(participants: &Participants, events: &[(Instant, Event)]) -> Trace {
    let mut writer = Writer::new(Vec::new(), participants.clone(), Instant::ZERO);
    events.iter().for_each(|&(at, event)| writer.record(at, event));
    let end = events.last().map_or(Instant::ZERO, |&(at, _)| at);
    perfetto::read(&writer.finish(end).unwrap()).unwrap()
}

/// The thread with this id. `None` for idle.
fn thread(participants: &Participants, id: i64) -> Option<ThreadId> {
    participants.threads.iter().position(|thread| i64::from(thread.id) == id).map(|place| ThreadId(place as u32))
}

fn previous(state: i64) -> PreviousState {
    match state {
        0x800 => PreviousState::Preempted,
        0 => PreviousState::Yielded,
        1 => PreviousState::Blocked,
        4 => PreviousState::Stopped,
        0x10 => PreviousState::Ended,
        other => panic!("a thread leaves in state {other}"),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back((participants, events) in any_events()) {
        let trace = written(&participants, &events);
        for (place, thread) in participants.threads.iter().enumerate() {
            let job = &participants.jobs[thread.job];
            prop_assert_eq!(&trace.threads[&thread.id.into()], &(job.id.into(), thread.name.clone()));
            prop_assert_eq!(&trace.processes[&job.id.into()], &job.name);
            let track = trace.tracks.values().find(|track| track.thread == Some((job.id.into(), thread.id.into()))).unwrap();
            prop_assert_eq!(&track.name, &thread.name, "{}", place);
        }
        for cpu in 0..participants.cpus {
            let told = events.iter().filter_map(|&(at, event)| match event {
                Event::Switch { cpu: CpuId(of), previous, to } if of == cpu => Some((at.as_nanos(), previous, to)),
                _ => None,
            });
            let mut told: Vec<_> = told.collect();
            // A CPU is idle at the beginning and at the end.
            told.insert(0, (0, PreviousState::Yielded, None));
            if told.last().unwrap().2.is_some() {
                told.push((events.last().unwrap().0.as_nanos(), PreviousState::Preempted, None));
            }
            let read: Vec<_> = trace.switches[&cpu.into()]
                .iter()
                .map(|switch| (switch.at, previous(switch.state), thread(&participants, switch.to)))
                .collect();
            prop_assert_eq!(read, told);
            let woken = events.iter().filter_map(|&(at, event)| match event {
                Event::Wakeup { cpu: CpuId(of), woken, .. } if of == cpu => Some((at.as_nanos(), Some(woken))),
                _ => None,
            });
            let read = trace.wakings.get(&cpu.into()).into_iter().flatten();
            let read: Vec<_> = read.map(|waking| (waking.at, thread(&participants, waking.thread))).collect();
            prop_assert_eq!(read, woken.collect::<Vec<_>>());
        }
        let marks = by_track(&trace);
        for (place, member) in participants.threads.iter().enumerate() {
            let place = ThreadId(place as u32);
            let told = events.iter().filter_map(|&(at, event)| match event {
                Event::PhaseBegin(thread, phase) if thread == place => Some((at.as_nanos(), phase.name())),
                Event::ThreadEnd(thread) if thread == place => Some((at.as_nanos(), "ends")),
                Event::Wakeup { waker, .. } if waker == Some(place) => Some((at.as_nanos(), "wakes")),
                _ => None,
            });
            let (id, _) = trace.tracks.iter().find(|(_, track)| track.name == member.name).unwrap();
            let read = marks.get(id).into_iter().flatten().filter(|mark| mark.kind != 2);
            let read: Vec<_> = read.map(|mark| (mark.at, mark.name.as_str())).collect();
            prop_assert_eq!(read, told.collect::<Vec<_>>());
        }
        for (job, member) in participants.jobs.iter().enumerate() {
            let told = events.iter().filter_map(|&(at, event)| match event {
                Event::RoundEnd(JobId(of)) if of as usize == job => Some(at.as_nanos()),
                _ => None,
            });
            let process = trace.tracks.iter().find(|(_, track)| track.process == Some(member.id.into()));
            let process = process.map(|(&id, _)| id).unwrap();
            let rounds = trace.tracks.iter().find(|(_, track)| track.parent == Some(process)).map(|(id, _)| &marks[id]);
            let read: Vec<_> = rounds.into_iter().flatten().map(|mark| (mark.at, mark.name.clone())).collect();
            let mut since = 0;
            let told = (1..).zip(told).flat_map(|(round, at)| {
                [(std::mem::replace(&mut since, at), format!("round {round}")), (at, String::new())]
            });
            prop_assert_eq!(read, told.collect::<Vec<_>>());
        }
    }
}

#[test]
fn an_arrow_leads_from_a_wake_to_the_next_event_of_the_woken_thread() {
    let (at, cpu) = (Instant::from_nanos, CpuId(0));
    let [waker, first, second] = [0, 1, 2].map(ThreadId);
    let events = [
        (at(1), Event::PhaseBegin(first, Phase::Block)),
        (at(2), Event::Wakeup { cpu, waker: Some(waker), woken: first }),
        (at(2), Event::PhaseBegin(first, Phase::Compute)),
        (at(3), Event::PhaseBegin(first, Phase::Spin)),
        (at(4), Event::Wakeup { cpu, waker: Some(waker), woken: second }),
        (at(5), Event::ThreadEnd(second)),
        (at(6), Event::Wakeup { cpu, waker: None, woken: second }),
    ];
    let trace = written(&participants(1, &[3]), &events);
    let arrows = arrows(&trace);
    let arrows: Vec<_> = arrows.iter().map(|(from, to)| (from.at, &*from.name, to.at, &*to.name)).collect();
    assert_eq!(arrows, [(2, "wakes", 2, "compute"), (4, "wakes", 5, "ends")]);
}

#[test]
fn a_switch_is_not_in_the_bundle_of_an_earlier_waking_at_the_same_time() {
    let (at, cpu) = (Instant::from_nanos(5), CpuId(0));
    let [waker, woken] = [0, 1].map(ThreadId);
    let switch = |to| (at, Event::Switch { cpu, previous: PreviousState::Preempted, to: Some(to) });
    let events = [switch(waker), (at, Event::Wakeup { cpu, waker: Some(waker), woken }), switch(woken)];
    let mut writer = Writer::new(Vec::new(), participants(1, &[2]), Instant::ZERO);
    events.iter().for_each(|&(at, event)| writer.record(at, event));
    let bytes = writer.finish(at).unwrap();
    // The shortest readable part of the file with a waking shows what the first bundle holds.
    let shortest = (0..bytes.len()).filter_map(|length| perfetto::read(&bytes[..length]).ok());
    let first = shortest.into_iter().find(|trace| !trace.wakings.is_empty()).unwrap();
    let ran: Vec<_> = first.switches[&0].iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(ran, ["swapper", "job 0 \u{2192}/0"]);
}

#[test]
fn more_events_than_a_bundle_holds_make_several_bundles() {
    let events: Vec<_> = (0..5_000)
        .map(|n| {
            let (cpu, to) = (CpuId(0), Some(ThreadId(n % 2)));
            (Instant::from_nanos(n.into()), Event::Switch { cpu, previous: PreviousState::Preempted, to })
        })
        .collect();
    let trace = written(&participants(1, &[2]), &events);
    let times: Vec<_> = trace.switches[&0].iter().skip(1).map(|switch| switch.at).collect();
    assert_eq!(times, (0..5_000).chain([4_999]).collect::<Vec<u64>>());
}

/// A writer that is full after a number of bytes.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn finish_returns_the_first_write_error() {
    let events = |disk| {
        let mut writer = Writer::new(disk, participants(1, &[1]), Instant::ZERO);
        for at in 0..100 {
            writer.record(Instant::from_nanos(at), Event::PhaseBegin(ThreadId(0), Phase::Spin));
        }
        writer.finish(Instant::from_nanos(100))
    };
    assert!(events(Disk(100_000)).is_ok());
    assert_eq!(events(Disk(1_000)).err().unwrap().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn times_that_overflow_are_refused() {
    let mut trace = Vec::new();
    message(&mut trace, 1, |packet| {
        message(packet, 1, |bundle| {
            number(bundle, 1, 0);
            message(bundle, 4, |columns| {
                let mut times = Vec::new();
                [u64::MAX, 1].into_iter().for_each(|time| varint(&mut times, time));
                bytes(columns, 1, &times);
                bytes(columns, 5, b"crew/0");
                [2, 3, 4, 6].into_iter().for_each(|column| bytes(columns, column, &[0, 0]));
            });
        });
    });
    assert_eq!(perfetto::read(&trace).unwrap_err().to_string(), "invalid trace: a time overflows");
}
