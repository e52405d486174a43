//! Ours.

use fiber::{Condvar, Config, Mutex, Runtime};
use policy::Span;
use policy::feedback::Rules;
use rowlock_fiber as fiber;

use crate::programs::{Program, Setup, Threads, Words};

pub(crate) struct Rowlock;

static LOCKS: [Mutex<Words>; 2] = [const { Mutex::new([0; 16]) }; 2];
static TURN: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

impl Threads for Rowlock {
    type Handle = fiber::JoinHandle<()>;

    const IS_STARTED_FOR_US: bool = true;

    fn run(setup: Setup, main: impl FnOnce() + Send + 'static) {
        let mut config = Config { workers: setup.workers as u32, ..Config::default() };
        config.rules = match setup.program {
            // Two that yield to each other are to be at one level always: else only one of them would run for a while.
            Program::Operations { .. } => Rules { levels: 1, ..config.rules },
            // Whoever makes them all is not to be stopped meanwhile.
            Program::Unstarted { .. } => Rules { running_time: Span::from_millis(1_000), ..config.rules },
            Program::Study { .. } | Program::Blocked { .. } => config.rules,
        };
        or_stop(Runtime::new(config).run(main));
    }

    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle {
        fiber::spawn(function)
    }

    fn join(handle: Self::Handle) {
        or_stop(handle.join());
    }

    fn yield_now() {
        fiber::yield_now();
    }

    fn edit(which: usize, edit: impl FnOnce(&mut Words)) {
        let mut words = or_stop(LOCKS[which].lock());
        edit(&mut words);
    }

    fn take_turns(me: bool, times: usize) {
        let mut turn = or_stop(TURN.lock());
        for _ in 0..times {
            turn = or_stop(CHANGED.wait_while(turn, |turn| *turn != me));
            *turn = !me;
            CHANGED.notify_one();
        }
    }

    fn pass(times: usize) {
        static MESSAGES: [(Mutex<Option<usize>>, Condvar); 2] = [const { (Mutex::new(None), Condvar::new()) }; 2];
        let send = |to: usize, message| {
            *or_stop(MESSAGES[to].0.lock()) = Some(message);
            MESSAGES[to].1.notify_one();
        };
        let receive = |from: usize| {
            let (lock, filled) = &MESSAGES[from];
            or_stop(filled.wait_while(or_stop(lock.lock()), |message| message.is_none())).take()
        };
        let other = fiber::spawn(move || (0..times).filter_map(|_| receive(0)).for_each(|message| send(1, message)));
        for number in 0..times {
            send(0, number);
            receive(1);
        }
        or_stop(other.join());
    }
}

/// What can only come right here.
fn or_stop<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(why) => stop(&why.to_string()),
    }
}

#[cold]
fn stop(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}
