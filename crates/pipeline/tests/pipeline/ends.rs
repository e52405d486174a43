//! However a run ends, at any stage and in any structure, it leaves nothing behind. A single test,
//! since it counts the threads and files of the whole process.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rowlock_pipeline::{
    Buffer, Canceller, Cause, Error, Failure, Flow, Pipeline, Result, Round, RunReport, Stage, StageKind, Structure,
};

/// What happens at one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Nothing,
    /// In this round, or in `init` or `cleanup`.
    Error(When),
    Panic(When),
    Cancel(u64),
    /// Each call takes a while.
    Slow,
    EndsEarly(u64),
    EndsEarlyWithNothing(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Init,
    Round(u64),
    Cleanup,
}

/// The number of stages that have begun and are not cleaned up, and of stages that are not dropped.
#[derive(Default)]
struct Balance {
    begun: AtomicI64,
    alive: AtomicI64,
    calls: Mutex<Vec<(usize, u64, bool)>>,
}

struct Probe<'a> {
    position: usize,
    event: Event,
    rounds: u64,
    balance: &'a Balance,
    canceller: &'a Canceller,
}

impl<'a> Probe<'a> {
    fn new(position: usize, event: Event, rounds: u64, balance: &'a Balance, canceller: &'a Canceller) -> Probe<'a> {
        balance.alive.fetch_add(1, SeqCst);
        Probe { position, event, rounds, balance, canceller }
    }

    fn fault(&self, when: When) -> Result<()> {
        match self.event {
            Event::Error(at) if at == when => Err(format!("no more at {when:?}").into()),
            Event::Panic(at) if at == when => panic!("alas, {when:?}"),
            _ => Ok(()),
        }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.balance.alive.fetch_sub(1, SeqCst);
    }
}

impl Stage<u64> for Probe<'_> {
    fn init(&mut self) -> Result<()> {
        self.fault(When::Init)?;
        self.balance.begun.fetch_add(1, SeqCst);
        Ok(())
    }

    fn process(&mut self, round: &mut Round<'_, u64>, buffer: &mut Buffer<u64>) -> Result<Flow> {
        let number = round.number;
        self.balance.calls.lock().unwrap().push((self.position, number, round.is_last));
        round.auxiliary[0].space()[0] = 1;
        self.fault(When::Round(number))?;
        if self.position == 0 {
            if number >= self.rounds {
                return Ok(Flow::End);
            }
            buffer.tag = number;
            buffer.set_len(1);
        } else if !buffer.is_empty() {
            assert_eq!(buffer.tag, number, "at {}", self.position);
        }
        match self.event {
            Event::Cancel(at) if at == number => self.canceller.cancel(),
            Event::Slow => std::thread::sleep(Duration::from_micros(200)),
            Event::EndsEarly(at) if at == number => return Ok(Flow::Last),
            Event::EndsEarlyWithNothing(at) if at == number => return Ok(Flow::End),
            _ => {}
        }
        Ok(Flow::Convey)
    }

    fn cleanup(&mut self) -> Result<()> {
        self.balance.begun.fetch_sub(1, SeqCst);
        self.fault(When::Cleanup)
    }
}

const NAMES: [&str; 4] = ["read", "sort", "pack", "write"];
const KINDS: [StageKind; 4] = [StageKind::Io, StageKind::Compute, StageKind::Compute, StageKind::Io];

const STRUCTURES: [&str; 10] = [
    "",
    "threads=each",
    "workers=1",
    "workers=3 fork=sort*3 fork=pack*2:unordered",
    "threads=each fork=sort*3 fork=pack*2:unordered",
    "fuse=read+sort+pack+write",
    "fuse=sort+pack fork=sort*2",
    "thread=read*2,write*2",
    "thread=read,sort,pack,write",
    "buffers=1",
];

fn run(
    position: usize,
    event: Event,
    rounds: u64,
    structure: &str,
) -> (std::result::Result<RunReport, Error>, Balance) {
    let (balance, canceller) = (Balance::default(), Canceller::new());
    let structure: Structure = structure.parse().unwrap();
    let mut pipeline = Pipeline::<u64>::tagged("ends").buffers(4, 16).structured(&structure);
    for (at, name) in NAMES.into_iter().enumerate() {
        let event = if at == position { event } else { Event::Nothing };
        let (balance, canceller) = (&balance, &canceller);
        pipeline = match KINDS[at] {
            StageKind::Compute => pipeline
                .forkable_stage(name, StageKind::Compute, move || Probe::new(at, event, rounds, balance, canceller)),
            kind => pipeline.stage(name, kind, Probe::new(at, event, rounds, balance, canceller)),
        }
        .auxiliary(1);
    }
    let outcome = pipeline.run_until(&canceller);
    (outcome, balance)
}

fn tasks() -> BTreeSet<String> {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until these are the only threads. A joined thread is still listed for a moment.
///
/// A thread that remains makes the test hang, which the time limit of tests reports.
fn wait_until_only(before: &BTreeSet<String>) {
    while !tasks().is_subset(before) {
        std::thread::yield_now();
    }
}

fn failed(outcome: std::result::Result<RunReport, Error>, what: &str) -> Box<Failure> {
    match outcome {
        Err(Error::Failed(failure)) => failure,
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn however_a_run_ends_nothing_is_left_behind() {
    // Threads, open files and the panic hook belong to the process.
    testing::isolated(|| {
        // The panics of this test are intended.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.payload_as_str().is_some_and(|message| message.starts_with("alas")) {
                usual(panic);
            }
        }));
        let (tasks, files) = (tasks(), files());
        let events = [
            Event::Nothing,
            Event::Error(When::Init),
            Event::Error(When::Round(0)),
            Event::Error(When::Round(7)),
            Event::Error(When::Cleanup),
            Event::Panic(When::Init),
            Event::Panic(When::Round(7)),
            Event::Panic(When::Cleanup),
            Event::Cancel(0),
            Event::Cancel(7),
            Event::Slow,
            Event::EndsEarly(0),
            Event::EndsEarly(7),
            Event::EndsEarlyWithNothing(7),
        ];
        for structure in STRUCTURES {
            for (position, name) in NAMES.into_iter().enumerate() {
                for event in events {
                    for rounds in [0, 1, 20] {
                        let what = format!("{event:?} at {name} of {rounds} rounds, {structure:?}");
                        let (outcome, balance) = run(position, event, rounds, structure);
                        check(&what, structure, position, event, rounds, outcome, &balance);
                    }
                }
            }
        }
        let _ = std::panic::take_hook();
        wait_until_only(&tasks);
        assert_eq!(self::files(), files);
    });
}

fn check(
    what: &str,
    structure: &str,
    position: usize,
    event: Event,
    rounds: u64,
    outcome: std::result::Result<RunReport, Error>,
    balance: &Balance,
) {
    assert_eq!(balance.begun.load(SeqCst), 0, "{what}");
    assert_eq!(balance.alive.load(SeqCst), 0, "{what}");
    let calls = balance.calls.lock().unwrap();
    let mut reached = BTreeSet::new();
    for &(at, number, _) in calls.iter() {
        assert!(reached.insert((at, number)), "{what}: stage {at} got {number} twice");
    }
    let happens = match event {
        // The round is never reached. The last one, which may be empty, is number `rounds`.
        Event::Error(When::Round(at)) | Event::Panic(When::Round(at)) => at <= rounds,
        Event::Cancel(at) => at < rounds + u64::from(position > 0),
        Event::Error(_) | Event::Panic(_) => true,
        _ => false,
    };
    if !happens {
        let report = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(report.pipelines[0].buffers_back == report.pipelines[0].buffers, "{what}: {report:?}");
        let last = match event {
            Event::EndsEarly(at) | Event::EndsEarlyWithNothing(at) => at.min(rounds),
            _ => rounds,
        };
        for at in position..NAMES.len() {
            let mine: Vec<u64> = reached.iter().filter(|&&(stage, _)| stage == at).map(|&(_, number)| number).collect();
            // Copies of the stage that ends the stream may have processed buffers beyond the end.
            let is_there = at == position || at == 2 && position == 1 && structure.starts_with("fuse=sort+pack");
            let beyond = if is_there { mine.len() as u64 } else { last + 1 };
            // Behind unordered copies, the end may overtake other buffers and be overtaken.
            if at == 3 && position >= 2 && structure.contains("unordered") {
                assert!(mine.contains(&last), "{what}: {mine:?}");
                continue;
            }
            assert!(mine.iter().copied().take(last as usize + 1).eq(0..=last), "{what}: stage {at} got {mine:?}");
            assert_eq!(mine.len() as u64, beyond, "{what}: stage {at}");
        }
        assert_eq!(report.failure, None);
        // Each stage after the one that ended the stream gets exactly one last buffer.
        let first_after = if structure.starts_with("fuse=sort+pack") && position == 1 { 3 } else { position + 1 };
        for at in first_after..NAMES.len() {
            let last_rounds: Vec<u64> = calls.iter().filter(|call| call.0 == at && call.2).map(|call| call.1).collect();
            assert_eq!(last_rounds, [last], "{what}: stage {at}");
        }
        return;
    }
    let failure = failed(outcome, what);
    let pipeline = &failure.report.pipelines[0];
    assert_eq!(pipeline.buffers_back, pipeline.buffers, "{what}");
    let text = failure.to_string();
    match event {
        Event::Error(when) => {
            assert_eq!(failure.stage.as_deref(), Some(NAMES[position]), "{what}: {text}");
            assert!(
                matches!(failure.cause, Cause::Failed(_)) && text.contains(&format!("no more at {when:?}")),
                "{text}"
            );
        }
        Event::Panic(when) => {
            assert_eq!(failure.stage.as_deref(), Some(NAMES[position]), "{what}: {text}");
            assert!(text.contains(&format!("panicked: alas, {when:?}")), "{what}: {text}");
        }
        _ => assert!(matches!(failure.cause, Cause::Cancelled), "{what}: {text}"),
    }
    assert_eq!(failure.report.failure, Some(text));
}
