//! Event logs of the host as traces.

use host::JobEventLogs;
use host::event_log::{Activity, Event, EventLog};
use measure::trace::observed;
use policy::Instant;
use testing::perfetto::{self, Trace};

use crate::trace::history::{History, arrows};

/// An event log from times, CPUs and activities. The machine's clock starts at a million.
fn event_log(number: u32, thread: i32, events: &[(u64, u32, Activity)]) -> EventLog {
    let event = |&(at, cpu, activity)| Event { at: Instant::from_nanos(1_000_000 + at), cpu, activity };
    EventLog { number, thread, events: events.iter().map(event).collect(), lost: 0 }
}

fn job(name: &str, process: u32, event_logs: Vec<EventLog>) -> JobEventLogs {
    JobEventLogs { job: name.to_owned(), process, event_logs }
}

fn trace(run: &[JobEventLogs]) -> Trace {
    let mut bytes = Vec::new();
    observed::write(&mut bytes, run).unwrap();
    perfetto::read(&bytes).unwrap()
}

/// The threads on a CPU, and from when on.
fn shown(trace: &Trace, cpu: u64) -> Vec<(u64, &str)> {
    trace.switches[&cpu].iter().skip(1).map(|switch| (switch.at, switch.name.as_str())).collect()
}

#[test]
fn a_cpu_shows_the_thread_that_was_last_seen_there_until_a_later_event_contradicts_it() {
    use Activity::{Away, Block, Complete, Compute, End, Seen};
    let crew = vec![
        event_log(0, 11, &[(0, 0, Compute), (50, 0, Block), (90, 1, Compute), (100, 1, End)]),
        event_log(1, 12, &[(10, 1, Compute), (80, 1, Complete), (85, 1, Compute), (95, 0, End)]),
    ];
    let crowd = vec![event_log(0, 21, &[(20, 0, Compute), (30, 0, Away), (60, 0, Seen), (99, 0, End)])];
    let trace = trace(&[job("crew", 10, crew), job("crowd", 20, crowd)]);
    // CPU 0: crowd/0 is first seen there while it shows crew/0. The next event of crew/0 is that it
    // goes to sleep there.
    assert_eq!(
        shown(&trace, 0),
        [
            (0, "crew/0"),
            (20, "crowd/0"),
            (30, "swapper"),
            (50, "crew/0"),
            (50, "swapper"),
            (60, "crowd/0"),
            (95, "crew/1"),
            (95, "swapper"),
            (99, "crowd/0"),
            (99, "swapper"),
        ]
    );
    // CPU 1: crew/0 has been woken and replaces crew/1.
    assert_eq!(shown(&trace, 1), [(10, "crew/1"), (90, "crew/0"), (100, "swapper")]);

    let arrows = arrows(&trace);
    let arrows: Vec<_> = arrows.iter().map(|(from, to)| (from.at, from.track, to.at, to.track, &*to.name)).collect();
    assert_eq!(arrows, [(80, 2, 90, 1, "compute")]);
    let history = History::of(&trace);
    let phase = |name: &str, from, to| (name.to_owned(), (from, to));
    assert_eq!(history.phases["crew/0"], [phase("compute", 0, 50), phase("block", 50, 90), phase("compute", 90, 100)]);
    assert_eq!(history.phases["rounds"], [phase("round 1", 0, 80)]);
    assert_eq!(trace.threads[&12], (10, "crew/1".to_owned()));
}

#[test]
fn a_thread_that_leaves_after_another_was_seen_on_its_cpu_does_not_affect_the_other() {
    use Activity::{Away, Compute, End, Seen};
    let one = event_log(0, 11, &[(0, 0, Compute), (60, 0, Away), (90, 0, Seen), (99, 0, End)]);
    let other = event_log(0, 21, &[(50, 0, Compute), (80, 0, End)]);
    let trace = trace(&[job("one", 10, vec![one]), job("other", 20, vec![other])]);
    let seen = [(0, "one/0"), (50, "other/0"), (80, "swapper"), (90, "one/0"), (99, "swapper")];
    assert_eq!(shown(&trace, 0), seen);
}

#[test]
fn events_that_do_not_fit_into_the_log_are_counted() {
    let mut full = event_log(0, 11, &[(0, 0, Activity::Compute), (5, 0, Activity::Block)]);
    full.lost = 7;
    let other = event_log(1, 12, &[(1, 1, Activity::Compute), (9, 1, Activity::Complete), (19, 1, Activity::Complete)]);
    let run = [job("crew", 10, vec![full, other])];
    assert_eq!(observed::write(Vec::new(), &run).unwrap(), 7);
    let mut bytes = Vec::new();
    observed::write(&mut bytes, &run).unwrap();
    let trace = perfetto::read(&bytes).unwrap();
    assert_eq!(trace.wakings[&1].len(), 1, "one sleep has one waking");
    assert_eq!(History::of(&trace).phases["crew/0"].last().unwrap().1, (5, 19));
}

#[test]
fn jobs_without_event_logs_and_runs_without_jobs_have_traces() {
    assert_eq!(trace(&[]).processes.len(), 0);
    assert_eq!(trace(&[job("gzip", 10, Vec::new())]).processes[&10], "gzip");
}
