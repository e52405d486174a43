//! Objects between fibers of several runtimes, threads and futures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{
    Barrier, Condvar, Config, Event, JoinError, Mutex, RecvError, Runtime, RwLock, Semaphore, TimedOut, block_on,
    channel, lock_async,
};

const ROUNDS: usize = 300;

/// A function that is done by one fiber, thread or future.
type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// Lets two fibers of a runtime with one worker, two of one with two, and two threads work.
fn with_everyone(work: Work<'_>) {
    let in_runtime = |workers, first| {
        let runtime = Runtime::new(Config { workers, ..Config::default() });
        let run = runtime.run(|| {
            fiber::scope(|scope| {
                scope.spawn(|| work(first));
                scope.spawn(|| work(first + 1));
            });
        });
        run.unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(move || in_runtime(1, 0));
        scope.spawn(move || in_runtime(2, 2));
        scope.spawn(move || work(4));
        scope.spawn(move || work(5));
    });
}

/// How many work in [`with_everyone`].
const EVERYONE: usize = 6;

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A waker that counts, and the count.
fn waker() -> (Waker, Arc<Woken>) {
    let woken = Arc::new(Woken::default());
    (Arc::clone(&woken).into(), woken)
}

#[test]
fn one_of_all_holds_a_mutex_at_a_time() {
    let mutex = Mutex::new((0, 0));
    with_everyone(&|who| {
        for round in 0..ROUNDS {
            let lock = || if (who + round) % 3 == 0 { block_on(lock_async(&mutex)) } else { mutex.lock() };
            let mut guard = lock();
            guard.0 += 1;
            assert_eq!(guard.0, 1);
            if round % 16 == 0 {
                thread::yield_now();
            }
            guard.0 -= 1;
            guard.1 += 1;
        }
    });
    assert_eq!(mutex.into_inner(), (0, EVERYONE * ROUNDS));
}

#[test]
fn readers_and_writers_of_all_kinds_exclude_each_other() {
    let lock = RwLock::new((0, 0));
    with_everyone(&|who| {
        for round in 0..ROUNDS {
            if (who + round) % 4 == 0 {
                let mut guard = lock.write();
                guard.0 += 1;
                guard.1 += 1;
            } else {
                let guard = lock.read();
                assert_eq!(guard.0, guard.1);
            }
        }
    });
    assert_eq!(lock.into_inner().0, EVERYONE * ROUNDS / 4);
}

#[test]
fn all_take_turns_at_a_condition_variable() {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    with_everyone(&|who| {
        for _ in 0..ROUNDS {
            let mut turn = changed.wait_while(turn.lock(), |turn| *turn % EVERYONE != who);
            *turn += 1;
            drop(turn);
            changed.notify_all();
        }
    });
    assert_eq!(turn.into_inner(), EVERYONE * ROUNDS);
}

#[test]
fn each_value_of_a_channel_goes_to_one_of_all() {
    let (sender, receiver) = channel(2);
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            with_everyone(&|who| {
                for round in 0..ROUNDS {
                    let value = who * ROUNDS + round;
                    if round % 2 == 0 {
                        sender.send(value).unwrap();
                    } else {
                        block_on(sender.send_async(value)).unwrap();
                    }
                }
            });
            drop(sender.clone());
        });
        with_everyone(&|_| {
            for round in 0..ROUNDS {
                let value = if round % 2 == 0 { receiver.recv() } else { block_on(receiver.recv_async()) };
                sum.fetch_add(value.unwrap(), SeqCst);
            }
        });
    });
    let many = EVERYONE * ROUNDS;
    assert_eq!(sum.into_inner(), many * (many - 1) / 2);
    drop(sender);
    assert_eq!(receiver.recv(), Err(RecvError));
}

#[test]
fn a_thread_that_waits_for_a_value_learns_that_the_last_sender_is_gone() {
    let (sender, receiver) = channel::<u32>(0);
    let thread = thread::spawn(move || receiver.recv());
    fiber::run(move || drop(sender));
    assert_eq!(thread.join().unwrap(), Err(RecvError));
}

#[test]
fn permits_and_barriers_are_for_all() {
    let (two, barrier) = (Semaphore::new(2), Barrier::new(EVERYONE));
    let (inside, leaders) = (AtomicUsize::new(0), AtomicUsize::new(0));
    with_everyone(&|who| {
        for round in 0..ROUNDS {
            let permit = if (who + round) % 2 == 0 { two.acquire() } else { block_on(two.acquire_async()) };
            assert!(inside.fetch_add(1, SeqCst) < 2);
            inside.fetch_sub(1, SeqCst);
            drop(permit);
            if round % 10 == 0 {
                let result = if who % 2 == 0 { barrier.wait() } else { block_on(barrier.wait_async()) };
                leaders.fetch_add(usize::from(result.is_leader()), SeqCst);
            }
        }
    });
    assert_eq!((two.available(), leaders.into_inner()), (2, ROUNDS / 10));
}

#[test]
fn each_set_of_an_event_lets_one_pass_or_all() {
    let (one, all) = (Event::auto_reset(), Event::manual_reset());
    let passed = AtomicUsize::new(0);
    one.set();
    with_everyone(&|who| {
        for _ in 0..ROUNDS {
            if who % 2 == 0 {
                one.wait();
            } else {
                block_on(one.wait_async());
            }
            passed.fetch_add(1, SeqCst);
            one.set();
        }
        if passed.load(SeqCst) == EVERYONE * ROUNDS { all.set() } else { all.wait() }
    });
    assert!(all.is_set() && one.reset() && !one.reset());
    assert_eq!(all.wait_timeout(Duration::ZERO), Ok(()));
    assert_eq!(one.wait_timeout(Duration::from_millis(1)), Err(TimedOut));
}

#[test]
fn threads_and_fibers_time_out_at_each_object() {
    let soon = Duration::from_millis(1);
    let time_out = || {
        let (sender, receiver) = channel(0);
        assert!(sender.send_timeout(1, soon).is_err() && receiver.recv_timeout(soon).is_err());
        assert!(Semaphore::new(0).acquire_timeout(soon).is_err());
        assert!(Barrier::new(2).wait_timeout(soon).is_err());
        let mutex = Mutex::new(());
        assert!(Condvar::new().wait_timeout(mutex.lock(), soon).1.is_err());
        let _guard = mutex.lock();
        assert!(mutex.try_lock_for(soon).is_none());
    };
    time_out();
    fiber::run(time_out);
}

#[test]
fn a_thread_that_locks_a_mutex_twice_is_told() {
    let mutex = Mutex::new(());
    let _guard = mutex.lock();
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(mutex.lock()))).unwrap_err();
    assert!(again.downcast_ref::<&str>().unwrap().contains("wait for itself"));
}

#[test]
fn a_future_that_is_dropped_gives_back_what_it_was_woken_with() {
    let (semaphore, mutex) = (Semaphore::new(0), Mutex::new(0));
    let (sender, receiver) = channel(3);
    let (waker, woken) = waker();
    let context = &mut Context::from_waker(&waker);
    {
        let mut permit = pin!(semaphore.acquire_async());
        let mut value = pin!(receiver.recv_async());
        let held = mutex.lock();
        let mut guard = pin!(lock_async(&mutex));
        let mut other = pin!(lock_async(&mutex));
        assert!(permit.as_mut().poll(context).is_pending() && value.as_mut().poll(context).is_pending());
        assert!(guard.as_mut().poll(context).is_pending() && other.as_mut().poll(context).is_pending());
        semaphore.release(1);
        (1..3).for_each(|i| sender.send(i).unwrap());
        drop(held);
        assert_eq!(woken.0.load(SeqCst), 3, "the other future waits for the mutex");
        assert_eq!((semaphore.available(), receiver.len()), (0, 1));
    }
    assert_eq!(semaphore.available(), 1);
    assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_future_that_was_woken_and_dropped_wakes_the_next_one() {
    let mutex = Mutex::new(0);
    let (waker, woken) = waker();
    let context = &mut Context::from_waker(&waker);
    let mut second = pin!(lock_async(&mutex));
    {
        let held = mutex.lock();
        let mut first = pin!(lock_async(&mutex));
        assert!(first.as_mut().poll(context).is_pending() && second.as_mut().poll(context).is_pending());
        drop(held);
    }
    assert_eq!(woken.0.load(SeqCst), 2);
    let Poll::Ready(guard) = second.as_mut().poll(context) else { panic!("the mutex is free") };
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn the_last_waker_of_a_future_is_woken() {
    let event = Event::manual_reset();
    let mut wait = pin!(event.wait_async());
    let (first, last) = (waker(), waker());
    for (waker, _) in [&first, &last] {
        assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    fiber::run(|| event.set());
    assert_eq!((first.1.0.load(SeqCst), last.1.0.load(SeqCst)), (0, 1));
    assert!(wait.as_mut().poll(&mut Context::from_waker(&last.0)).is_ready());
}

#[test]
fn fibers_are_joined_by_threads_by_futures_and_by_fibers_of_other_runtimes() {
    for workers in [1, 2] {
        let runtime = Runtime::new(Config { workers, ..Config::default() });
        let go = Arc::new(Event::manual_reset());
        let run = runtime.run(|| {
            let spawn = |value| {
                let go = Arc::clone(&go);
                fiber::spawn(move || {
                    go.wait();
                    value
                })
            };
            let (one, two, three, four) = (spawn(1), spawn(2), spawn(3), spawn(4));
            let threads = [
                thread::spawn(move || one.join().unwrap()),
                thread::spawn(move || block_on(two).unwrap()),
                thread::spawn(move || fiber::run(move || three.join().unwrap())),
            ];
            fiber::sleep(Duration::from_millis(5));
            go.set();
            let mine = block_on(four).unwrap();
            // A fiber must not block its worker while others are needed.
            while !threads.iter().all(thread::JoinHandle::is_finished) {
                fiber::yield_now();
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>() + mine
        });
        assert_eq!(run.unwrap(), 10);
    }
}

#[test]
fn those_that_wait_for_a_fiber_outside_learn_that_its_runtime_is_over() {
    let (waker, woken) = waker();
    let context = &mut Context::from_waker(&waker);
    for workers in [1, 2] {
        let runtime = Runtime::new(Config { workers, ..Config::default() });
        let (thread, mut polled) = runtime
            .run(|| {
                let wait = || fiber::spawn(|| Semaphore::new(0).acquire().forget());
                let (handle, mut polled) = (wait(), wait());
                assert!(pin!(&mut polled).poll(context).is_pending());
                let (send, started) = std::sync::mpsc::channel();
                let thread = thread::spawn(move || {
                    send.send(()).unwrap();
                    handle.join()
                });
                while started.try_recv().is_err() {
                    fiber::yield_now();
                }
                fiber::sleep(Duration::from_millis(2));
                (thread, polled)
            })
            .unwrap();
        assert!(matches!(thread.join().unwrap(), Err(JoinError::Cancelled)));
        assert_eq!(woken.0.swap(0, SeqCst), 1);
        assert!(matches!(pin!(&mut polled).poll(context), Poll::Ready(Err(JoinError::Cancelled))));
    }
}

#[test]
fn a_handle_that_was_polled_can_be_polled_again_dropped_or_joined() {
    fiber::run(|| {
        let (first, second) = (waker(), waker());
        let mut handle = fiber::spawn(|| 7);
        assert!(pin!(&mut handle).poll(&mut Context::from_waker(&first.0)).is_pending());
        assert!(pin!(&mut handle).poll(&mut Context::from_waker(&second.0)).is_pending());
        fiber::yield_now();
        assert_eq!((first.1.0.load(SeqCst), second.1.0.load(SeqCst)), (0, 1));
        assert!(handle.is_finished());
        let Poll::Ready(result) = pin!(&mut handle).poll(&mut Context::from_waker(&first.0)) else { panic!("ended") };
        assert_eq!(result.unwrap(), 7);
        let mut dropped = fiber::spawn(|| 8);
        assert!(pin!(&mut dropped).poll(&mut Context::from_waker(&first.0)).is_pending());
        drop(dropped);
        let mut joined = fiber::spawn(|| 9);
        assert!(pin!(&mut joined).poll(&mut Context::from_waker(&first.0)).is_pending());
        assert_eq!(joined.join().unwrap(), 9);
    });
}

#[test]
fn an_open_runtime_waits_for_a_thread_that_it_does_not_know() {
    let mutex = Arc::new(Mutex::new(0));
    let held = mutex.lock();
    let (send, asked) = std::sync::mpsc::channel();
    let theirs = Arc::clone(&mutex);
    let thread = thread::spawn(move || {
        fiber::run(|| {
            send.send(()).unwrap();
            *theirs.lock() += 1;
        });
    });
    asked.recv().unwrap();
    thread::sleep(Duration::from_millis(20));
    drop(held);
    thread.join().unwrap();
    assert_eq!(*mutex.lock(), 1);
}
