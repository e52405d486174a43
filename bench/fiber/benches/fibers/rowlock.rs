//! Fibers of rowlock, of both tiers.
#![allow(unsafe_code, reason = "it starts fibers that share thread-local variables")]

use fiber::{Builder, Condvar, Config, Mutex, Pollable, Receiver, Runtime, Sender};
use policy::Span;
use policy::feedback::FeedbackRules;
use rowlock_fiber as fiber;

use crate::process::or_stop;
use crate::programs::{Program, Setup, Threads, Words, answer};

/// Fibers with their own thread-local variables if they are `SAFE`, or with those of the worker.
pub(crate) struct Rowlock<const SAFE: bool>;

static LOCKS: [Mutex<Words>; 2] = [const { Mutex::new([0; 16]) }; 2];
static TURN: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();
/// A mutex that a thread has locked, too.
static SHARED: Mutex<Words> = Mutex::new([0; 16]);

impl<const SAFE: bool> Threads for Rowlock<SAFE> {
    type Handle = fiber::JoinHandle<()>;
    type Sender = Sender<usize>;
    type Receiver = Receiver<usize>;

    fn run(setup: Setup, main: impl FnOnce() + Send + 'static) {
        std::thread::scope(|scope| {
            scope.spawn(|| drop(SHARED.lock()));
        });
        // The first fiber is of another tier, so it only starts the measured one.
        or_stop(Runtime::new(config(setup)).run(|| Self::join(Self::spawn(main))));
    }

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle {
        if SAFE {
            return fiber::spawn(function);
        }
        // SAFETY: the programs use no thread-local across a wait.
        or_stop(unsafe { Builder::new().spawn_sharing(function) })
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
        edit(&mut LOCKS[which].lock());
    }

    #[inline(always)]
    fn edit_shared(edit: impl FnOnce(&mut Words)) {
        edit(&mut SHARED.lock());
    }

    fn take_turns(me: bool, times: usize) {
        let mut turn = TURN.lock();
        for _ in 0..times {
            turn = CHANGED.wait_while(turn, |turn| *turn != me);
            *turn = !me;
            CHANGED.notify_one();
        }
    }

    fn channel() -> (Self::Sender, Self::Receiver) {
        fiber::channel(1)
    }

    #[inline(always)]
    fn send(sender: &Self::Sender, message: usize) -> bool {
        sender.send(message).is_ok()
    }

    #[inline(always)]
    fn receive(receiver: &Self::Receiver) -> Option<usize> {
        receiver.recv().ok()
    }

    fn serve(listener: std::net::TcpListener, connections: usize) {
        let fibers: Vec<_> = if SAFE {
            let streams = listener.incoming().flatten().take(connections);
            streams.map(|stream| Self::spawn(move || answer(stream))).collect()
        } else {
            // Sharing fibers make the real calls, which would stop their worker.
            let listener = or_stop(Pollable::new(listener));
            let accept = || or_stop(listener.read_with(std::net::TcpListener::accept)).0;
            let streams = std::iter::repeat_with(accept).take(connections);
            let streams = streams.map(|stream| or_stop(Pollable::new(stream)));
            streams.map(|stream| Self::spawn(move || answer(stream))).collect()
        };
        fibers.into_iter().for_each(Self::join);
    }
}

/// A suitable configuration for a program.
fn config(setup: Setup) -> Config {
    let preemptible = setup.preemptible;
    let mut config = Config { workers: setup.workers as u32, preemptible, ..Config::default() };
    config.rules = match setup.program {
        // Two fibers that yield to each other must always have the same level. Otherwise only one
        // of them would run for a while.
        Program::Operations { .. } => FeedbackRules { levels: 1, ..config.rules },
        // The creating fiber must not be preempted.
        Program::Unstarted { .. } => FeedbackRules { running_time: Span::from_millis(1_000), ..config.rules },
        _ => config.rules,
    };
    config
}
