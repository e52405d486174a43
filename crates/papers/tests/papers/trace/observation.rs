//! What threads of the host took down of themselves, as a trace.

use host::Diaries;
use host::diary::{Diary, Entry, What};
use measure::trace::observed;
use policy::Instant;
use testing::perfetto::{self, Trace};

use crate::trace::history::{History, arrows};

/// A diary from moments, CPUs and what was done there; the clock of the machine stands at a million at the beginning.
fn diary(number: u32, thread: i32, entries: &[(u64, u32, What)]) -> Diary {
    let entry = |&(at, cpu, what)| Entry { at: Instant::from_nanos(1_000_000 + at), cpu, what };
    Diary { number, thread, entries: entries.iter().map(entry).collect(), lost: 0 }
}

fn job(name: &str, process: u32, diaries: Vec<Diary>) -> Diaries {
    Diaries { job: name.to_owned(), process, diaries }
}

fn trace(run: &[Diaries]) -> Trace {
    let mut bytes = Vec::new();
    observed::write(&mut bytes, run).unwrap();
    perfetto::read(&bytes).unwrap()
}

/// Who is on a CPU from when on.
fn shown(trace: &Trace, cpu: u64) -> Vec<(u64, &str)> {
    trace.switches[&cpu].iter().skip(1).map(|switch| (switch.at, switch.name.as_str())).collect()
}

#[test]
fn a_cpu_shows_who_was_last_seen_there_until_something_is_known_to_the_contrary() {
    use What::{Away, Blocks, Completes, Computes, Ends, Seen};
    let crew = vec![
        diary(0, 11, &[(0, 0, Computes), (50, 0, Blocks), (90, 1, Computes), (100, 1, Ends)]),
        diary(1, 12, &[(10, 1, Computes), (80, 1, Completes), (85, 1, Computes), (95, 0, Ends)]),
    ];
    let crowd = vec![diary(0, 21, &[(20, 0, Computes), (30, 0, Away), (60, 0, Seen), (99, 0, Ends)])];
    let trace = trace(&[job("crew", 10, crew), job("crowd", 20, crowd)]);
    // CPU 0: crowd is seen there first while crew/0 is; crew/0 is next heard of when it goes to sleep there.
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
    // CPU 1: it is taken from crew/1 by crew/0, which has been woken.
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
fn a_thread_that_goes_away_after_another_was_seen_on_its_cpu_changes_nothing_there() {
    use What::{Away, Computes, Ends, Seen};
    let one = diary(0, 11, &[(0, 0, Computes), (60, 0, Away), (90, 0, Seen), (99, 0, Ends)]);
    let other = diary(0, 21, &[(50, 0, Computes), (80, 0, Ends)]);
    let trace = trace(&[job("one", 10, vec![one]), job("other", 20, vec![other])]);
    let seen = [(0, "one/0"), (50, "other/0"), (80, "swapper"), (90, "one/0"), (99, "swapper")];
    assert_eq!(shown(&trace, 0), seen);
}

#[test]
fn a_diary_that_was_too_short_is_counted_and_its_thread_is_at_nothing_new() {
    let mut full = diary(0, 11, &[(0, 0, What::Computes), (5, 0, What::Blocks)]);
    full.lost = 7;
    let other = diary(1, 12, &[(1, 1, What::Computes), (9, 1, What::Completes), (19, 1, What::Completes)]);
    let run = [job("crew", 10, vec![full, other])];
    assert_eq!(observed::write(Vec::new(), &run).unwrap(), 7);
    let mut bytes = Vec::new();
    observed::write(&mut bytes, &run).unwrap();
    let trace = perfetto::read(&bytes).unwrap();
    assert_eq!(trace.wakings[&1].len(), 1, "it is woken once from one sleep");
    assert_eq!(History::of(&trace).phases["crew/0"].last().unwrap().1, (5, 19));
}

#[test]
fn jobs_without_diaries_and_runs_without_jobs_are_traces_too() {
    assert_eq!(trace(&[]).processes.len(), 0);
    assert_eq!(trace(&[job("gzip", 10, Vec::new())]).processes[&10], "gzip");
}
