//! The coroutines of the crate `may`.
#![allow(unsafe_code, reason = "its callers must not overflow their stacks, nor to keep references to thread-locals")]

use std::os::fd::{FromRawFd, IntoRawFd};
use std::sync::LazyLock;
use std::time::Duration;

use may::coroutine;
use may::net::TcpListener;
use may::sync::{Condvar, Mutex, mpsc};

use crate::programs::{Program, Setup, Threads, Words, answer};

pub(crate) struct May;

static LOCKS: LazyLock<[Mutex<Words>; 2]> = LazyLock::new(Default::default);
static TURN: LazyLock<(Mutex<bool>, Condvar)> = LazyLock::new(Default::default);

impl Threads for May {
    type Handle = coroutine::JoinHandle<()>;
    type Sender = mpsc::Sender<usize>;
    type Receiver = mpsc::Receiver<usize>;

    fn run(setup: Setup, main: impl FnOnce() + Send + 'static) {
        may::config().set_workers(setup.workers);
        // A coroutine that yields is the next one to run, so the others would never run.
        if matches!(setup.program, Program::Blocked { .. }) { main() } else { Self::join(Self::spawn(main)) }
    }

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle {
        // SAFETY: the programs need little stack, and no thread-locals.
        unsafe { coroutine::spawn(function) }
    }

    #[inline(always)]
    fn join(handle: Self::Handle) {
        if let Err(panic) = handle.join() {
            std::panic::resume_unwind(panic)
        }
    }

    #[inline(always)]
    fn yield_now() {
        if coroutine::is_coroutine() { coroutine::yield_now() } else { std::thread::sleep(Duration::from_millis(1)) }
    }

    #[inline(always)]
    fn edit(which: usize, then: impl FnOnce(&mut Words)) {
        if let Ok(mut words) = LOCKS[which].lock() {
            then(&mut words);
        }
    }

    fn take_turns(me: bool, times: usize) {
        let Ok(mut turn) = TURN.0.lock() else { return };
        for _ in 0..times {
            while *turn != me {
                let Ok(again) = TURN.1.wait(turn) else { return };
                turn = again;
            }
            *turn = !me;
            TURN.1.notify_one();
        }
    }

    fn channel() -> (Self::Sender, Self::Receiver) {
        mpsc::channel()
    }

    fn send(sender: &Self::Sender, message: usize) -> bool {
        sender.send(message).is_ok()
    }

    fn receive(receiver: &Self::Receiver) -> Option<usize> {
        receiver.recv().ok()
    }

    fn serve(listener: std::net::TcpListener, connections: usize) {
        // SAFETY: nothing else uses the socket.
        let listener = unsafe { TcpListener::from_raw_fd(listener.into_raw_fd()) };
        let streams = listener.incoming().flatten().take(connections);
        let coroutines: Vec<_> = streams.map(|stream| Self::spawn(move || answer(stream))).collect();
        coroutines.into_iter().for_each(Self::join);
    }
}
