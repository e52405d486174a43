//! The contents of a trace: which thread ran where and when, and what it did.

use std::collections::BTreeMap;

use testing::perfetto::{Mark, Switch, Trace};

/// Begin and end, in nanoseconds.
pub(crate) type Interval = (u64, u64);

/// The history of every thread, by its name.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// When it ran, in chronological order.
    pub(crate) ran: BTreeMap<String, Vec<Interval>>,
    /// Its phases.
    pub(crate) phases: BTreeMap<String, Vec<(String, Interval)>>,
}

impl History {
    /// Reads it from a trace, and checks that the trace is consistent.
    pub(crate) fn of(trace: &Trace) -> History {
        let mut history = History::default();
        for switches in trace.switches.values() {
            assert_eq!((switches[0].to, switches.last().unwrap().to), (0, 0), "a CPU is idle at first and at last");
            for pair in switches.windows(2) {
                let [Switch { at, to, name, .. }, next] = pair else { unreachable!() };
                assert!(*at <= next.at, "time runs backwards: {pair:?}");
                if *to != 0 {
                    assert_eq!(&trace.threads[to].1, name);
                    history.ran.entry(name.clone()).or_default().push((*at, next.at));
                }
            }
        }
        history.ran.values_mut().for_each(|intervals| intervals.sort_unstable());
        for (track, marks) in by_track(trace) {
            let track = &trace.tracks[&track];
            let mut open: Option<&Mark> = None;
            for mark in marks {
                match mark.kind {
                    1 => assert!(open.replace(mark).is_none(), "a slice inside another: {mark:?}"),
                    2 => {
                        let begun = open.take().unwrap();
                        assert!(begun.at <= mark.at, "{mark:?} ends {begun:?}");
                        let phases = history.phases.entry(track.name.clone()).or_default();
                        phases.push((begun.name.clone(), (begun.at, mark.at)));
                    }
                    _ => {}
                }
            }
            assert_eq!(open, None, "a slice without an end");
        }
        history
    }

    /// How long the threads of a job ran.
    pub(crate) fn running(&self, job: &str) -> u64 {
        let ran = self.ran.iter().filter(|(thread, _)| belongs(thread, job));
        ran.flat_map(|(_, intervals)| intervals).map(|(from, to)| to - from).sum()
    }

    /// How long they ran during a phase.
    pub(crate) fn running_at(&self, job: &str, phase: &str) -> u64 {
        let phases = self.phases.iter().filter(|(thread, _)| belongs(thread, job));
        let overlap = |(thread, phases): (&String, &Vec<(String, Interval)>)| {
            let mut ran = self.ran.get(thread).map_or(&[][..], Vec::as_slice);
            let mut sum = 0;
            for (name, (from, to)) in phases {
                while let Some(((start, end), rest)) = ran.split_first() {
                    if name == phase {
                        sum += end.min(to).saturating_sub(*start.max(from));
                    }
                    if end > to {
                        break;
                    }
                    ran = rest;
                }
            }
            sum
        };
        phases.map(overlap).sum()
    }
}

fn belongs(thread: &str, job: &str) -> bool {
    thread.rsplit_once('/').is_some_and(|(of, _)| of == job)
}

/// The marks of each track in the order of the file.
pub(crate) fn by_track(trace: &Trace) -> BTreeMap<u64, Vec<&Mark>> {
    let mut tracks: BTreeMap<u64, Vec<&Mark>> = BTreeMap::new();
    trace.marks.iter().for_each(|mark| tracks.entry(mark.track).or_default().push(mark));
    tracks
}

/// The begin and end of each arrow. Every arrow must have one of each.
pub(crate) fn arrows(trace: &Trace) -> Vec<(&Mark, &Mark)> {
    let mut begun = BTreeMap::new();
    let mut arrows = Vec::new();
    for mark in &trace.marks {
        for flow in &mark.flows {
            assert!(begun.insert(flow, mark).is_none(), "arrow {flow} begins twice");
        }
        for flow in &mark.ended_flows {
            arrows.push((begun.remove(flow).unwrap(), mark));
        }
    }
    assert!(begun.is_empty(), "arrows that lead nowhere: {begun:?}");
    arrows
}
