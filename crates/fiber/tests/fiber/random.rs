//! Random programs of fibers, under random schedules and with fibers that are interrupted anywhere.
//! Their results are known in advance, everything that they create is dropped, and deadlocks are
//! reported.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Candidates, Condvar, Config, JoinError, JoinHandle, Mutex, RandomSchedule, RunError, Runtime};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// A step of a fiber.
#[derive(Debug)]
enum Step {
    Yield,
    Sleep(u64),
    /// Adds to what this mutex guards, with safepoints in between.
    Add(usize, u64),
    /// Locks two mutexes, the lower one first unless the program may deadlock.
    AddBoth(usize, usize),
    /// Arrives at this turnstile, at which the first fiber waits for all.
    Meet(usize),
    Spawn(Arc<Program>, After),
    Scope(Vec<Program>),
}

/// The fate of a fiber's handle.
#[derive(Debug)]
enum After {
    JoinAtOnce,
    JoinAtTheEnd,
    Detach,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Returns,
    Panics,
    Exits,
}

#[derive(Debug)]
struct Program {
    steps: Vec<Step>,
    end: End,
}

const MUTEXES: usize = 3;
const TURNSTILES: usize = 2;

/// The expected outcome of a whole program.
#[derive(Default)]
struct Sums {
    added: [u64; MUTEXES],
    meets: [u64; TURNSTILES],
}

impl Program {
    fn random(random: &mut Random, depth: u64, crossing: bool) -> Program {
        let steps = (0..1 + random.below(6)).map(|_| Step::random(random, depth, crossing)).collect();
        let end = match random.below(8) {
            0 => End::Panics,
            1 => End::Exits,
            _ => End::Returns,
        };
        Program { steps, end }
    }

    fn sums(&self, sums: &mut Sums) {
        for step in &self.steps {
            match step {
                Step::Yield | Step::Sleep(_) => (),
                Step::Add(mutex, much) => sums.added[*mutex] += much,
                Step::AddBoth(one, other) => {
                    sums.added[*one] += 1;
                    sums.added[*other] += 1;
                }
                Step::Meet(turnstile) => sums.meets[*turnstile] += 1,
                Step::Spawn(program, _) => program.sums(sums),
                Step::Scope(programs) => programs.iter().for_each(|program| program.sums(sums)),
            }
        }
    }
}

impl Step {
    fn random(random: &mut Random, depth: u64, crossing: bool) -> Step {
        let mut mutex = || random.below(MUTEXES as u64) as usize;
        let (one, other) = (mutex(), mutex());
        match random.below(if depth == 0 { 5 } else { 9 }) {
            0 => Step::Yield,
            1 => Step::Sleep(random.below(50)),
            2 | 3 if one == other => Step::Add(one, 1 + random.below(5)),
            2 | 3 if crossing => Step::AddBoth(one, other),
            2 | 3 => Step::AddBoth(one.min(other), one.max(other)),
            4 => Step::Add(one, 1 + random.below(5)),
            5 => Step::Meet(random.below(TURNSTILES as u64) as usize),
            6 => {
                let programs = 0..1 + random.below(3);
                Step::Scope(programs.map(|_| Program::random(random, depth - 1, crossing)).collect())
            }
            _ => {
                let after = match random.below(3) {
                    0 => After::JoinAtOnce,
                    // If programs may deadlock, every fiber is joined, so that the joiner gets the
                    // error.
                    1 if !crossing => After::Detach,
                    _ => After::JoinAtTheEnd,
                };
                Step::Spawn(Arc::new(Program::random(random, depth - 1, crossing)), after)
            }
        }
    }
}

/// The state that programs share, and the number of things that fibers own.
struct World {
    mutexes: [Mutex<u64>; MUTEXES],
    /// How many have arrived.
    turnstiles: [(Mutex<u64>, Condvar); TURNSTILES],
    things: AtomicI64,
}

struct Thing(Arc<World>);

impl Thing {
    fn new(world: &Arc<World>) -> Thing {
        world.things.fetch_add(1, Relaxed);
        Thing(Arc::clone(world))
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.things.fetch_sub(1, Relaxed);
    }
}

fn add(to: &mut u64, much: u64) {
    // A value that a second fiber inside would overwrite.
    let read = *to;
    fiber::checkpoint();
    *to = read + much;
}

type Handle = JoinHandle<Thing>;

/// Checks that a fiber's result matches its expected end.
fn check(result: Result<Thing, JoinError>, end: End) {
    let right = matches!(
        (&result, end),
        (Ok(_), End::Returns) | (Err(JoinError::Panicked(_)), End::Panics) | (Err(JoinError::Exited), End::Exits)
    );
    assert!(right, "{end:?} came out as {:?}", result.map(|_| ()));
}

fn execute(program: &Program, world: &Arc<World>, thing: Thing) -> Thing {
    let mut handles: Vec<(Handle, End)> = Vec::new();
    for step in &program.steps {
        match step {
            Step::Yield => fiber::yield_now(),
            Step::Sleep(micros) => fiber::sleep(Duration::from_micros(*micros)),
            Step::Add(mutex, much) => {
                add(&mut world.mutexes[*mutex].lock(), *much);
            }
            Step::AddBoth(one, other) => {
                let mut one = world.mutexes[*one].lock();
                let mut other = world.mutexes[*other].lock();
                add(&mut one, 1);
                add(&mut other, 1);
            }
            Step::Meet(turnstile) => {
                let (mutex, condvar) = &world.turnstiles[*turnstile];
                let come = {
                    let mut come = mutex.lock();
                    *come += 1;
                    *come
                };
                // Only the first fiber waits.
                if come % 2 == 0 { condvar.notify_all() } else { condvar.notify_one() }
            }
            Step::Spawn(program, after) => {
                let (theirs, program, end) = (Arc::clone(world), Arc::clone(program), program.end);
                let its = Thing::new(world);
                let handle = fiber::spawn(move || execute(&program, &theirs, its));
                match after {
                    After::JoinAtOnce => check(handle.join(), end),
                    After::JoinAtTheEnd => handles.push((handle, end)),
                    After::Detach => handle.detach(),
                }
            }
            Step::Scope(programs) => fiber::scope(|scope| {
                let handles: Vec<_> = programs
                    .iter()
                    .map(|program| (Thing::new(world), program))
                    .map(|(its, program)| (scope.spawn(move || execute(program, world, its)), program.end))
                    .collect();
                handles.into_iter().for_each(|(handle, end)| check(handle.join(), end));
            }),
        }
    }
    handles.into_iter().for_each(|(handle, end)| check(handle.join(), end));
    match program.end {
        End::Returns => thing,
        End::Panics => std::panic::resume_unwind(Box::new("on purpose")),
        End::Exits => fiber::exit(),
    }
}

/// How fibers are scheduled.
#[derive(Clone, Copy)]
enum Schedule {
    Drawn,
    /// By one worker or two, interrupted as often as possible.
    Hasty,
}

impl Schedule {
    fn config(self, random: &mut Random) -> Config {
        let draw = random.below(2);
        match self {
            Schedule::Drawn => {
                let candidates = if draw == 0 { Candidates::Highest } else { Candidates::All };
                Config { deterministic: Some(RandomSchedule { seed: random.0, candidates }), ..Config::default() }
            }
            Schedule::Hasty => {
                let running_time = Span::from_micros(20);
                let rules = FeedbackRules { levels: 3, running_time, boost: Boost::Every(Span::from_millis(1)) };
                Config { rules, workers: 1 + draw as u32, preemptible: true, ..Config::default() }
            }
        }
    }
}

/// Runs one program under one schedule. Returns true if it deadlocked, which it may if its mutexes
/// are locked in any order.
fn run(seed: u64, schedule: Schedule) -> bool {
    let mut random = Random(seed);
    let crossing = random.below(3) == 0;
    let program = Program { end: End::Returns, ..Program::random(&mut random, 3, crossing) };
    let mut sums = Sums::default();
    program.sums(&mut sums);
    let world = Arc::new(World {
        mutexes: std::array::from_fn(|_| Mutex::new(0)),
        turnstiles: std::array::from_fn(|_| (Mutex::new(0), Condvar::new())),
        things: AtomicI64::new(0),
    });
    let outcome = Runtime::new(schedule.config(&mut random)).run(|| {
        drop(execute(&program, &world, Thing::new(&world)));
        for ((mutex, condvar), all) in world.turnstiles.iter().zip(sums.meets) {
            let mut come = mutex.lock();
            while *come < all {
                come = condvar.wait(come);
            }
        }
        // Detached fibers end as well.
        while world.things.load(Relaxed) > 0 {
            fiber::sleep(Duration::from_micros(10));
        }
        let added = std::array::from_fn(|i| *world.mutexes[i].lock());
        assert_eq!(added, sums.added);
    });
    assert_eq!(world.things.load(Relaxed), 0, "things were left");
    assert_eq!(Arc::strong_count(&world), 1, "functions were left");
    match outcome {
        Ok(()) => false,
        Err(RunError::Deadlock(deadlock)) if crossing => {
            assert!(!deadlock.cycles.is_empty(), "{deadlock}");
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn random_programs_add_up_and_leave_nothing_or_are_reported_as_deadlocks() {
    let (mut programs, mut deadlocks) = (0, 0);
    testing::for_each_seed(400, |seed| {
        programs += 1;
        deadlocks += u32::from(run(seed, Schedule::Drawn));
    });
    // A search or a replay may have seen only a few.
    assert!(programs < 400 || (deadlocks > 0 && deadlocks < programs / 2), "{deadlocks} of {programs}");
}

#[test]
fn random_programs_that_are_interrupted_anywhere_add_up_and_leave_nothing() {
    // In a debug build it takes longer to look up symbols than a runtime that ends waits for fibers
    // that compute, if they are interrupted all the time.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| match std::thread::current().name() {
        Some(_) => usual(info),
        None => eprintln!("{info}"),
    }));
    // The moments of interruption are not drawn from the seed: `./soak` searches, this is a sample.
    testing::for_each_seed(40, |seed| {
        run(seed, Schedule::Hasty);
    });
}
