//! Random pipelines in random structures that end in random ways lose no buffer, no stage and no
//! order.

use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_pipeline::{Buffer, Canceller, Cause, Error, Flow, Pipeline, Result, Round, RunReport, Stage, StageKind};

/// What happens at one stage in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Nothing,
    Last,
    End,
    Error,
    Panic,
    Cancel,
}

/// All random choices for a run.
#[derive(Debug)]
struct Drawn {
    kinds: Vec<StageKind>,
    forkable: Vec<bool>,
    structure: String,
    rounds: u64,
    event: Event,
    at: usize,
    round: u64,
    /// The limit for the duration of a call: zero, some microseconds, or a sleep.
    effort: u64,
}

struct Draw(Xoshiro256PlusPlus);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

fn name(index: usize) -> String {
    format!("stage{index}")
}

fn drawn(seed: u64) -> Drawn {
    let mut draw = Draw(Xoshiro256PlusPlus::seed_from_u64(seed));
    let count = 1 + draw.below(5) as usize;
    let kinds: Vec<StageKind> =
        (0..count).map(|_| draw.one(&[StageKind::Io, StageKind::Compute, StageKind::Compute])).collect();
    let forkable: Vec<bool> = (0..count).map(|_| !draw.is(3)).collect();
    let mut words = vec![format!("buffers={} workers={}", 1 + draw.below(20), 1 + draw.below(3))];
    if draw.is(3) {
        words.push("threads=each".to_owned());
    }
    let mut from = 0;
    while from < count {
        let to = (from + 1 + draw.below(3) as usize).min(count);
        let names: Vec<String> = (from..to).map(name).collect();
        let are_forkable = forkable[from..to].iter().all(|&is| is);
        let what = draw.below(4);
        if what == 0 && names.len() > 1 {
            words.push(format!("fuse={}", names.join("+")));
        }
        if what == 1 && names.len() > 1 {
            words.push(format!("thread={}", names.join(",")));
        } else if are_forkable && draw.is(2) {
            let copies = 1 + draw.below(4);
            words.push(format!("fork={}*{copies}{}", names[0], if draw.is(2) { ":unordered" } else { "" }));
        }
        from = if what < 2 { to } else { from + 1 };
    }
    let rounds = draw.one(&[0, 1, 2, 10, 50, 300]);
    Drawn {
        kinds,
        forkable,
        structure: words.join(" "),
        rounds,
        event: draw.one(&[Event::Nothing, Event::Last, Event::End, Event::Error, Event::Panic, Event::Cancel]),
        at: draw.below(count as u64) as usize,
        round: draw.below(rounds + 2),
        effort: draw.one(&[0, 0, 5, 60]),
    }
}

/// The state that the stages of a run share.
struct Shared<'a> {
    drawn: &'a Drawn,
    canceller: Canceller,
    begun: AtomicI64,
    alive: AtomicI64,
    in_flight: AtomicI64,
    most: AtomicI64,
    /// What arrived at the last stage.
    arrived: Mutex<Vec<(u64, bool)>>,
}

struct Probe<'a> {
    index: usize,
    shared: &'a Shared<'a>,
}

impl<'a> Probe<'a> {
    fn new(index: usize, shared: &'a Shared<'a>) -> Probe<'a> {
        shared.alive.fetch_add(1, SeqCst);
        Probe { index, shared }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.shared.alive.fetch_sub(1, SeqCst);
    }
}

impl Stage<(u64, usize)> for Probe<'_> {
    fn init(&mut self) -> Result<()> {
        self.shared.begun.fetch_add(1, SeqCst);
        Ok(())
    }

    fn process(&mut self, round: &mut Round<'_, (u64, usize)>, buffer: &mut Buffer<(u64, usize)>) -> Result<Flow> {
        let Probe { index, shared } = *self;
        let number = round.number;
        if index == 0 {
            shared.most.fetch_max(shared.in_flight.fetch_add(1, SeqCst) + 1, SeqCst);
            buffer.tag = (number, 0);
        }
        assert_eq!(buffer.tag, (number, index), "the stages in order");
        buffer.tag.1 += 1;
        let effort = (number * 7 + index as u64 * 13) % (shared.drawn.effort + 1);
        if effort > 50 {
            std::thread::sleep(Duration::from_micros(effort));
        } else {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(effort) {}
        }
        if index + 1 == shared.drawn.kinds.len() {
            shared.arrived.lock().unwrap().push((number, round.is_last));
            shared.in_flight.fetch_sub(1, SeqCst);
        }
        if (index, number) != (shared.drawn.at, shared.drawn.round) {
            return Ok(Flow::Convey);
        }
        match shared.drawn.event {
            Event::Nothing => Ok(Flow::Convey),
            Event::Last => Ok(Flow::Last),
            Event::End => Ok(Flow::End),
            Event::Error => Err("no more".into()),
            Event::Panic => std::panic::resume_unwind(Box::new("alas")),
            Event::Cancel => {
                shared.canceller.cancel();
                Ok(Flow::Convey)
            }
        }
    }

    fn cleanup(&mut self) -> Result<()> {
        self.shared.begun.fetch_sub(1, SeqCst);
        Ok(())
    }
}

fn run(shared: &Shared<'_>) -> std::result::Result<RunReport, Error> {
    let Drawn { kinds, forkable, structure, rounds, .. } = shared.drawn;
    let structure = structure.parse().unwrap();
    let mut pipeline = Pipeline::<(u64, usize)>::tagged("soak").buffers(4, 8).rounds(*rounds).structured(&structure);
    for (index, &kind) in kinds.iter().enumerate() {
        pipeline = if forkable[index] {
            pipeline.forkable_stage(&name(index), kind, move || Probe::new(index, shared))
        } else {
            pipeline.stage(&name(index), kind, Probe::new(index, shared))
        };
    }
    pipeline.run_until(&shared.canceller)
}

fn soak(seed: u64) {
    let drawn = drawn(seed);
    let shared = Shared {
        drawn: &drawn,
        canceller: Canceller::new(),
        begun: AtomicI64::new(0),
        alive: AtomicI64::new(0),
        in_flight: AtomicI64::new(0),
        most: AtomicI64::new(0),
        arrived: Mutex::new(Vec::new()),
    };
    let outcome = run(&shared);
    let what = format!("seed {seed}: {drawn:?}: {outcome:?}");
    assert_eq!((shared.begun.into_inner(), shared.alive.into_inner()), (0, 0), "{what}");
    let arrived = shared.arrived.into_inner().unwrap();
    let happens = drawn.round < drawn.rounds;
    let report = match &outcome {
        Ok(report) => {
            assert!(!happens || !matches!(drawn.event, Event::Error | Event::Panic | Event::Cancel), "{what}");
            let last = match drawn.event {
                Event::Last | Event::End if happens => drawn.round + 1,
                _ => drawn.rounds,
            };
            let stage = report.stages.last().unwrap();
            let mut numbers: Vec<u64> = arrived.iter().map(|&(number, _)| number).collect();
            let is_mixed = report.stages.iter().any(|stage| stage.copies > 1 && !stage.is_ordered) || stage.copies > 1;
            if is_mixed {
                numbers.sort_unstable();
            } else {
                assert!(arrived.iter().rev().skip(1).all(|&(_, is_last)| !is_last), "{what}");
            }
            let is_unordered = report.stages.iter().any(|stage| stage.copies > 1 && !stage.is_ordered);
            if last < drawn.rounds && is_unordered {
                // Buffers that the last one had overtaken when it ended the stream were discarded.
                assert!(numbers.contains(&(last - 1)) && numbers.windows(2).all(|pair| pair[0] < pair[1]), "{what}");
            } else {
                // Copies of the stage that ended the stream may have worked beyond the end.
                numbers.retain(|&number| number < last);
                assert_eq!(numbers, (0..last).collect::<Vec<u64>>(), "{what}");
            }
            report
        }
        Err(Error::Structure(why)) => panic!("{why}: {what}"),
        Err(Error::Failed(failure)) => {
            let is_due = match (&failure.cause, drawn.event) {
                (Cause::Failed(_), Event::Error) | (Cause::Panicked(_), Event::Panic) => happens,
                (Cause::Cancelled, Event::Cancel) => happens,
                (Cause::Stuck(_), _) => drawn.structure.contains("thread="),
                _ => false,
            };
            assert!(is_due, "{what}");
            &failure.report
        }
        Err(Error::Memory { .. }) => panic!("{what}"),
    };
    assert!(shared.most.into_inner() <= report.pipelines[0].buffers as i64 || happens, "{what}");
    assert_eq!(report.pipelines[0].buffers_back, report.pipelines[0].buffers, "{what}");
}

#[test]
#[expect(clippy::redundant_closure, reason = "the closure names the test that its seeds replay")]
fn random_pipelines_lose_nothing() {
    testing::for_each_seed(100, |seed| soak(seed));
}
