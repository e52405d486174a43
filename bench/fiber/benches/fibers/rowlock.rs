//! Fibers of rowlock.

use fiber::{Condvar, Config, Mutex, Runtime};
use policy::Span;
use policy::feedback::FeedbackRules;
use rowlock_fiber as fiber;

use crate::programs::{Program, Setup, Threads, Words};

pub(crate) struct Rowlock;

static LOCKS: [Mutex<Words>; 2] = [const { Mutex::new([0; 16]) }; 2];
static TURN: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();

impl Threads for Rowlock {
    type Handle = fiber::JoinHandle<()>;

    fn run(setup: Setup, main: impl FnOnce() + Send + 'static) {
        or_stop(Runtime::new(config(setup)).run(main));
    }

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle {
        fiber::spawn(function)
    }

    #[inline(always)]
    fn join(handle: Self::Handle) {
        or_stop(handle.join());
    }

    #[inline(always)]
    fn yield_now() {
        fiber::yield_now();
    }

    #[inline(always)]
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
        let ((messages, incoming), (answers, back)) = (fiber::channel(1), fiber::channel(1));
        let other = fiber::spawn(move || incoming.iter().for_each(|message: usize| or_stop(answers.send(message))));
        for number in 0..times {
            or_stop(messages.send(number));
            or_stop(back.recv());
        }
        drop(messages);
        or_stop(other.join());
    }
}

/// A suitable configuration for a program.
pub(crate) fn config(setup: Setup) -> Config {
    let mut config = Config { workers: setup.workers as u32, ..Config::default() };
    config.rules = match setup.program {
        // Two fibers that yield to each other must always have the same level. Otherwise only one
        // of them would run for a while.
        Program::Operations { .. } => FeedbackRules { levels: 1, ..config.rules },
        // The creating fiber must not be preempted.
        Program::Unstarted { .. } => FeedbackRules { running_time: Span::from_millis(1_000), ..config.rules },
        Program::Study { .. } | Program::Blocked { .. } => config.rules,
    };
    config
}

/// Unwraps a result that cannot be an error here.
pub(crate) fn or_stop<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
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
