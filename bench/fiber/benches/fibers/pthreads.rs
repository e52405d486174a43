//! POSIX threads with the C library's defaults. Channels are those of the standard library.
#![allow(unsafe_code, reason = "calls the C library")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use libc::{pthread_cond_t, pthread_mutex_t, pthread_t};

use crate::programs::{Setup, Threads, Words, answer};

pub(crate) struct Pthreads;

struct Lock<T> {
    mutex: UnsafeCell<pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only with the mutex held.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    const fn new(value: T) -> Lock<T> {
        Lock { mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), value: UnsafeCell::new(value) }
    }

    fn with<R>(&self, then: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the mutex is initialized, and we hold it during the call.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            let result = then(&mut *self.value.get());
            libc::pthread_mutex_unlock(self.mutex.get());
            result
        }
    }
}

struct Condition(UnsafeCell<pthread_cond_t>);

// SAFETY: condition variables may be shared between threads.
unsafe impl Sync for Condition {}

static LOCKS: [Lock<Words>; 2] = [const { Lock::new([0; 16]) }; 2];
static TURN: Lock<bool> = Lock::new(false);
static CHANGED: Condition = Condition(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER));

extern "C" fn begin<F: FnOnce()>(function: *mut c_void) -> *mut c_void {
    // SAFETY: it is the box that was passed to `pthread_create`.
    unsafe { Box::from_raw(function.cast::<F>())() };
    std::ptr::null_mut()
}

impl Threads for Pthreads {
    type Handle = pthread_t;
    type Sender = SyncSender<usize>;
    type Receiver = Receiver<usize>;

    fn run(_: Setup, main: impl FnOnce() + Send + 'static) {
        main();
    }

    #[inline(always)]
    fn spawn(function: impl FnOnce() + Send + 'static) -> pthread_t {
        fn create<F: FnOnce()>(function: F) -> Result<pthread_t, i32> {
            let mut thread = 0;
            let function = Box::into_raw(Box::new(function)).cast();
            // SAFETY: the new thread owns the function.
            match unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), begin::<F>, function) } {
                0 => Ok(thread),
                why => Err(why),
            }
        }
        match create(function) {
            Ok(thread) => thread,
            Err(why) => {
                eprintln!("pthread_create: {}", std::io::Error::from_raw_os_error(why));
                std::process::exit(1)
            }
        }
    }

    #[inline(always)]
    fn join(thread: pthread_t) {
        // SAFETY: each thread is joined once.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    }

    #[inline(always)]
    fn yield_now() {
        std::thread::yield_now();
    }

    #[inline(always)]
    fn edit(which: usize, edit: impl FnOnce(&mut Words)) {
        LOCKS[which].with(edit);
    }

    fn take_turns(me: bool, times: usize) {
        TURN.with(|turn| {
            for _ in 0..times {
                while *turn != me {
                    // SAFETY: we hold the mutex.
                    unsafe { libc::pthread_cond_wait(CHANGED.0.get(), TURN.mutex.get()) };
                    // The other thread has changed it.
                    std::hint::black_box(&mut *turn);
                }
                *turn = !me;
                // SAFETY: it is initialized.
                unsafe { libc::pthread_cond_signal(CHANGED.0.get()) };
            }
        });
    }

    fn channel() -> (Self::Sender, Self::Receiver) {
        sync_channel(1)
    }

    fn send(sender: &Self::Sender, message: usize) -> bool {
        sender.send(message).is_ok()
    }

    fn receive(receiver: &Self::Receiver) -> Option<usize> {
        receiver.recv().ok()
    }

    fn serve(listener: TcpListener, connections: usize) {
        let streams = listener.incoming().flatten().take(connections);
        let threads: Vec<_> = streams.map(|stream| Self::spawn(move || answer(stream))).collect();
        threads.into_iter().for_each(Self::join);
    }
}
