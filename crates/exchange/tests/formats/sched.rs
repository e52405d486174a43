//! Tests of scheduling traces: conversion and omissions.

use exchange::sched::line::{Event, Line, ParsedLine, SwitchOut, Task, parse};
use exchange::{Format, ImportError, Imported, sched};
use policy::Instant;
use proptest::prelude::*;

const TRACEFS: &str = include_str!("../fixtures/walk.tracefs.txt");
const PERF: &str = include_str!("../fixtures/walk.perf.txt");

/// A line of tracefs at this time in microseconds.
fn at(micros: u64, cpu: u32, what: &str) -> String {
    format!(
        "          <idle>-0     (-------) [{cpu:03}] d..2. {}.{:06}: {what}\n",
        micros / 1_000_000,
        micros % 1_000_000
    )
}

fn switch(micros: u64, cpu: u32, from: (&str, u32), state: &str, to: (&str, u32)) -> String {
    let ((from, from_id), (to, to_id)) = (from, to);
    let what = format!(
        "sched_switch: prev_comm={from} prev_pid={from_id} prev_prio=120 prev_state={state} ==> next_comm={to} \
         next_pid={to_id} next_prio=120"
    );
    at(micros, cpu, &what)
}

fn about(micros: u64, event: &str, (name, id): (&str, u32)) -> String {
    at(micros, 0, &format!("{event}: comm={name} pid={id} prio=120 target_cpu=000"))
}

const IDLE: (&str, u32) = ("swapper/0", 0);
const A: (&str, u32) = ("a", 7);
const B: (&str, u32) = ("b", 8);

fn read(text: &str) -> Imported {
    sched::read("trace.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The jobs of a trace as written.
fn jobs(text: &str) -> String {
    read(text).toml.split_once("\n[[job]]\n").unwrap().1.to_owned()
}

fn line(text: &str) -> Line<'_> {
    match parse(text) {
        ParsedLine::Event(line) => line,
        other => panic!("{other:?}: {text}"),
    }
}

#[test]
fn the_formats_of_all_tools_are_equivalent() {
    let task = |name, id| Task { name, id, priority: 120 };
    let expected = |process| Line {
        at: Instant::from_nanos(3_616_441_505_000),
        cpu: 1,
        current: Some((29410, process)),
        event: Event::Switch { from: task("a [0] b", 29410), how: SwitchOut::Asleep, to: task("x: y", 12) },
    };
    let payload =
        "prev_comm=a [0] b prev_pid=29410 prev_prio=120 prev_state=S ==> next_comm=x: y next_pid=12 next_prio=120";
    let short = "a [0] b:29410 [120] S ==> x: y:12 [120]";
    for (text, process) in [
        (format!("   a [0] b-29410   (  29409) [001] d..2.  3616.441505: sched_switch: {payload}"), Some(29409)),
        (format!("   a [0] b-29410   (-------) [001] d..2.  3616.441505: sched_switch: {payload}"), None),
        (format!("   a [0] b-29410 [001] 3616.441505: sched_switch: {payload}"), None),
        (format!("   a [0] b-29410 [001] 3616.441505: sched_switch:         {short}"), None),
        (format!("a [0] b 29410 [001]  3616.441505:       sched:sched_switch: {payload}"), None),
        (format!("a [0] b 29409/29410 [001]  3616.441505000: sched:sched_switch: {short}"), Some(29409)),
    ] {
        assert_eq!(line(&text), expected(process), "{text}");
    }
    for payload in [
        "comm=a b pid=7 prio=120 target_cpu=001",
        "comm=a b pid=7 prio=120 success=1 target_cpu=001",
        "a b:7 [120] success=1 CPU:001",
    ] {
        let text = format!("x-1 [000] 1.5: sched_wakeup: {payload}");
        assert_eq!(line(&text).event, Event::Wakeup(task("a b", 7)), "{text}");
    }
}

#[test]
fn other_lines_are_classified() {
    for (text, expected) in [
        ("", ParsedLine::Blank),
        ("# tracer: nop", ParsedLine::Blank),
        ("# entries-in-buffer/entries-written: 118/118   #P:2", ParsedLine::Cpus(2)),
        ("CPU:1 [LOST 12 EVENTS]", ParsedLine::Lost(12)),
        ("CPU 1: 12 EVENTS DROPPED", ParsedLine::Lost(12)),
        ("PERF_RECORD_LOST lost 12", ParsedLine::Lost(12)),
        ("cpus=2", ParsedLine::Broken),
        ("   a-7 [000] 1.5: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_st", ParsedLine::Broken),
    ] {
        assert_eq!(parse(text), expected, "{text}");
    }
    assert_eq!(line("   a-7 [000] 1.5: sys_enter: NR 1").event, Event::Other);
}

#[test]
fn a_thread_that_sleeps_becomes_a_pipeline_of_its_bursts_and_pauses() {
    // Its first burst is preempted. It runs for 30 us each time, and sleeps for 100 us twice.
    let text = about(1_000_000, "sched_wakeup_new", A)
        + &switch(1_000_005, 0, IDLE, "R", A)
        + &switch(1_000_015, 0, A, "R+", B)
        + &switch(1_000_040, 0, B, "S", A)
        + &switch(1_000_060, 0, A, "S", IDLE)
        + &about(1_000_160, "sched_waking", A)
        + &about(1_000_161, "sched_wakeup", A)
        + &switch(1_000_170, 0, IDLE, "R", A)
        + &switch(1_000_200, 0, A, "D", IDLE)
        + &about(1_000_300, "sched_waking", A)
        + &switch(1_000_300, 0, IDLE, "R", A)
        + &switch(1_000_300, 0, A, "X", IDLE);
    let imported = read(&text);
    assert_eq!(
        imported.toml,
        "title = \"From trace.txt\"\n\n[machine]\ncpus = 1\n\n[[job]]\nname = \"a\"\nkind = \"pipeline\"\nbuffers = 1\nrounds = 2\n\
         stages = [{ name = \"run\", kind = \"communicate\", compute = \"30 us\", device = \"100 us\" }]\n"
    );
    assert_eq!(
        imported.notes,
        ["left out: 1 thread not recorded from one sleep to the next, with 25 us of running time: `b`"]
    );
}

#[test]
fn a_thread_that_never_sleeps_becomes_a_cpu_job() {
    // Both run from the beginning to the end of the trace. Only the time after a recorded switch
    // counts.
    let text = switch(0, 1, A, "R+", B)
        + &switch(10, 1, B, "R+", A)
        + &switch(25, 1, A, "R", B)
        + &switch(45, 1, B, "R", A)
        + &at(50, 0, "sched_migrate_task: comm=x pid=9 prio=120 orig_cpu=0 dest_cpu=1");
    assert_eq!(
        jobs(&text),
        "name = \"a\"\nkind = \"cpu\"\nthreads = 1\nwork = \"20 us\"\n\n[[job]]\nname = \"b\"\nkind = \"cpu\"\nthreads = 1\nwork = \"30 us\"\n"
    );
    assert!(read(&text).toml.contains("cpus = 2\n"));
}

#[test]
fn bursts_with_lost_events_do_not_count() {
    let begin = about(0, "sched_wakeup_new", A) + &switch(0, 0, IDLE, "R", A);
    let rest = switch(50, 0, A, "S", IDLE)
        + &about(90, "sched_waking", A)
        + &switch(90, 0, IDLE, "R", A)
        + &switch(100, 0, A, "S", IDLE)
        + &about(140, "sched_waking", A)
        + &switch(140, 0, IDLE, "R", A)
        + &switch(150, 0, A, "S", IDLE);
    assert!(jobs(&(begin.clone() + &rest)).contains("rounds = 3"));
    let lost = read(&(begin + "CPU:0 [LOST 3 EVENTS]\n" + &rest));
    assert!(lost.toml.contains("rounds = 2") && lost.toml.contains("compute = \"10 us\""), "{}", lost.toml);
    assert!(lost.toml.contains("arrival = \"90 us\""), "{}", lost.toml);
    assert_eq!(lost.notes, ["the trace has lost 3 events: bursts and pauses at that time do not count"]);
}

#[test]
fn a_pause_without_a_wakeup_ends_when_the_thread_runs_again() {
    let text = about(0, "sched_waking", A)
        + &switch(0, 0, IDLE, "R", A)
        + &switch(10, 0, A, "S", IDLE)
        + &switch(60, 0, IDLE, "R", A)
        + &switch(70, 0, A, "S", IDLE);
    let imported = read(&text);
    assert!(imported.toml.contains("compute = \"10 us\", device = \"50 us\""), "{}", imported.toml);
    assert_eq!(imported.notes, ["1 missing wakeup: a pause without one is assumed to end when the thread ran again"]);
}

#[test]
fn a_wakeup_of_a_running_thread_is_ignored() {
    let text = about(0, "sched_waking", A)
        + &switch(0, 0, IDLE, "R", A)
        + &about(10, "sched_waking", A)
        + &switch(25, 0, A, "S", IDLE)
        + &about(50, "sched_waking", A)
        + &switch(50, 0, IDLE, "R", A)
        + &switch(75, 0, A, "S", IDLE);
    assert!(jobs(&text).contains("rounds = 2\n"), "{}", jobs(&text));
    assert!(jobs(&text).contains("compute = \"25 us\", device = \"25 us\""), "{}", jobs(&text));
}

#[test]
fn a_burst_without_a_recorded_end_does_not_count() {
    // At 40 another thread leaves the CPU on which this one ran.
    let text = about(0, "sched_waking", A)
        + &switch(0, 0, IDLE, "R", A)
        + &switch(40, 0, B, "S", IDLE)
        + &switch(900, 0, A, "S", IDLE)
        + &about(950, "sched_waking", A)
        + &switch(950, 0, IDLE, "R", A)
        + &switch(960, 0, A, "S", IDLE)
        + &about(1010, "sched_waking", A)
        + &switch(1010, 0, IDLE, "R", A)
        + &switch(1020, 0, A, "S", IDLE);
    assert!(jobs(&text).contains("rounds = 2\n"), "{}", jobs(&text));
    assert!(jobs(&text).contains("compute = \"10 us\", device = \"50 us\""), "{}", jobs(&text));
}

#[test]
fn a_thread_with_a_reused_id_is_new_even_if_the_end_of_the_first_was_not_recorded() {
    let life = |from| {
        about(from, "sched_wakeup_new", A) + &switch(from, 0, IDLE, "R", A) + &switch(from + 10, 0, A, "S", IDLE)
    };
    assert_eq!(jobs(&(life(0) + &life(50))).matches("work = \"10 us\"").count(), 2);
}

#[test]
fn a_name_may_look_like_other_parts_of_the_line() {
    let text = "x-1 [000] 1.5: sched_waking: comm=a pid=3 prio=9 pid=7 prio=120 target_cpu=000";
    assert_eq!(line(text).event, Event::Wakeup(Task { name: "a pid=3 prio=9", id: 7, priority: 120 }));
}

#[test]
fn kernel_and_real_time_threads_are_omitted_with_a_note() {
    let rt = "sched_switch: prev_comm=rt prev_pid=5 prev_prio=49 prev_state=S ==> next_comm=a next_pid=7 next_prio=125";
    let text = about(0, "sched_waking", ("kworker/0:1", 3))
        + &switch(0, 0, IDLE, "R", ("kworker/0:1", 3))
        + &about(0, "sched_waking", ("quiet", 4))
        + &switch(5, 0, ("kworker/0:1", 3), "I", ("quiet", 4))
        + &switch(9, 0, ("quiet", 4), "I", IDLE)
        + &about(10, "sched_wakeup_new", A)
        + &at(20, 0, rt)
        + &at(
            30,
            0,
            "sched_switch: prev_comm=a prev_pid=7 prev_prio=125 prev_state=X ==> next_comm=swapper next_pid=0 next_prio=120",
        );
    let imported = read(&text);
    assert!(
        imported.toml.ends_with("name = \"a\"\nkind = \"cpu\"\narrival = \"10 us\"\nthreads = 1\nwork = \"10 us\"\n"),
        "{}",
        imported.toml
    );
    assert_eq!(
        imported.notes,
        [
            "left out: 2 threads of the kernel, with 9 us of running time: `kworker/0:1`, `quiet`",
            "left out: 1 real-time thread not supported by any simulated kernel, with 0 ns of running time: `rt`",
        ]
    );
}

#[test]
fn a_reused_id_is_another_thread() {
    let life = |from| {
        about(from, "sched_wakeup_new", A) + &switch(from, 0, IDLE, "R", A) + &switch(from + 10, 0, A, "X", IDLE)
    };
    assert_eq!(
        jobs(&(life(0) + &life(50))),
        "name = \"a\"\nkind = \"cpu\"\nthreads = 1\nwork = \"10 us\"\n\n\
         [[job]]\nname = \"a-7\"\nkind = \"cpu\"\narrival = \"50 us\"\nthreads = 1\nwork = \"10 us\"\n"
    );
}

#[test]
fn equal_lengths_become_weights() {
    let mut text = about(0, "sched_wakeup_new", A);
    let mut now = 0;
    for burst in [30, 10, 30, 20] {
        text += &switch(now, 0, IDLE, "R", A);
        text += &switch(now + burst, 0, A, "S", IDLE);
        now += burst + 40;
        text += &about(now, "sched_waking", A);
    }
    text += &switch(now, 0, IDLE, "R", A);
    let expected = "compute = { distribution = \"empirical\", values = [\"10 us\", \"20 us\", \"30 us\"], weights = [1, 1, 2] }, \
                    device = \"40 us\"";
    assert!(jobs(&text).contains(expected), "{}", jobs(&text));
}

#[test]
fn many_lengths_are_reduced_to_quantiles() {
    let mut text = about(0, "sched_wakeup_new", A);
    let mut now = 0;
    for burst in 1..=1000 {
        text += &switch(now, 0, IDLE, "R", A);
        text += &switch(now + burst, 0, A, "S", IDLE);
        now += burst + 40;
        text += &about(now, "sched_waking", A);
    }
    let imported = read(&text);
    let values = imported.toml.split_once("values = [").unwrap().1.split_once(']').unwrap().0;
    assert_eq!(values.split(", ").count(), sched::MOST_VALUES);
    assert!(values.starts_with("\"2 us\", \"6 us\"") && values.ends_with("\"999 us\""), "{values}");
    assert!(imported.toml.contains("rounds = 1000"));
    assert_eq!(imported.notes, ["distributions of more than 256 lengths are reduced to 256 quantiles"]);
}

#[test]
fn the_trace_of_a_real_program_is_imported() {
    assert_eq!(Format::guess(TRACEFS.as_bytes()), Some(Format::Sched));
    let imported = read(TRACEFS);
    let jobs: Vec<String> = imported.scenario.arms[0].setting.jobs.iter().map(|job| job.name.clone()).collect();
    assert_eq!(jobs, ["rustc", "lto_cgu_09", "walk", "a_walker", "a_walker-17295", "crowd"]);
    assert!(imported.toml.contains("cpus = 2\n"));
    // According to walk.c each walker pauses twelve times for 2 ms, and runs before, between and
    // after.
    let of_walkers: Vec<&str> = imported.toml.split("[[job]]").filter(|job| job.contains("\"a_walker")).collect();
    assert_eq!(of_walkers.len(), 2);
    for job in of_walkers {
        assert!(job.contains("rounds = 13\n"), "{job}");
        let pauses = job.split_once("device = ").unwrap().1;
        let pauses = pauses.split_once("values = [").unwrap().1.split_once(']').unwrap().0;
        assert!(pauses.split(", ").all(|pause| pause.starts_with("\"2.0")), "{pauses}");
    }
}

#[test]
fn a_trace_with_most_wakeups_missing_is_imported() {
    assert_eq!(Format::guess(PERF.as_bytes()), Some(Format::Sched));
    let imported = read(PERF);
    assert!(imported.notes.iter().any(|note| note.contains("2 missing wakeups")), "{:?}", imported.notes);
}

#[test]
fn a_text_without_events_is_an_error() {
    for text in ["", "hello\nworld\n", "# tracer: nop\n"] {
        let ImportError::Empty(message) = sched::read("x.txt", text.as_bytes()).unwrap_err() else { panic!("{text}") };
        assert!(
            message.starts_with("there is no scheduling event in x.txt: is it the output of `perf script`"),
            "{message}"
        );
    }
    let ImportError::Empty(message) = sched::read("x.txt", switch(0, 0, IDLE, "R", A).as_bytes()).unwrap_err() else {
        panic!()
    };
    assert!(message.contains("no thread that was recorded"), "{message}");
}

/// Lines with arbitrary events of a few threads.
fn any_line() -> impl Strategy<Value = String> {
    let thread = || (0_u32..5).prop_map(|id| (["swapper", "a b", "c", "d.1", "d.2"][id as usize], id));
    let state = prop::sample::select(vec!["R", "R+", "S", "D", "I", "X", "Z", "?", ""]);
    prop_oneof![
        8 => (0_u64..5000, 0_u32..3, thread(), state, thread()).prop_map(|(now, cpu, a, s, b)| switch(now, cpu, a, s, b)),
        6 => (0_u64..5000, prop::sample::select(vec!["sched_waking", "sched_wakeup_new", "sched_process_exit"]), thread())
            .prop_map(|(now, event, a)| about(now, event, a)),
        1 => Just("CPU:1 [LOST 7 EVENTS]\n".to_owned()),
        1 => ".{0,80}".prop_map(|junk| junk + "\n"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = sched::read("x", &bytes);
    }

    #[test]
    fn arbitrary_lines_do_not_panic(line in "[-a-z0-9 ()\\[\\]:=./>]{0,120}") {
        let _ = parse(&line);
    }

    #[test]
    fn truncated_and_corrupted_files_do_not_panic(cut in 0..TRACEFS.len(), place in 0..TRACEFS.len(), byte in any::<u8>()) {
        let mut bytes = TRACEFS.as_bytes().to_vec();
        bytes[place] = byte;
        bytes.truncate(cut);
        let _ = sched::read("x", &bytes);
        let _ = sched::read("x", &TRACEFS.as_bytes()[cut..]);
    }

    #[test]
    fn any_events_become_a_scenario_or_none(lines in prop::collection::vec(any_line(), 0..60)) {
        match sched::read("x", lines.concat().as_bytes()) {
            Ok(_) | Err(ImportError::Empty(_)) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
