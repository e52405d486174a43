//! Semaphores, barriers, reader-writer locks and channels.

use crate::calm;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{
    Barrier, RecvError, RecvTimeoutError, RwLock, Semaphore, SendError, TimedOut, TryRecvError, TrySendError, channel,
    unbounded,
};

/// In order.
type Log<T> = std::sync::Mutex<Vec<T>>;

const SHORT: Duration = Duration::from_millis(1);

#[test]
fn permits_go_to_waiters_in_order_and_no_other_fiber_comes_in_between() {
    calm::run(|| {
        let semaphore = Semaphore::new(1);
        let log = Log::default();
        fiber::scope(|scope| {
            let permit = semaphore.acquire();
            for i in 0..3 {
                let (semaphore, log) = (&semaphore, &log);
                scope.spawn(move || {
                    let _permit = semaphore.acquire();
                    log.lock().unwrap().push(i);
                });
            }
            fiber::yield_now();
            assert_eq!(semaphore.acquire_timeout(SHORT).unwrap_err(), TimedOut);
            drop(permit);
            assert!(semaphore.try_acquire().is_none());
            let _permit = semaphore.acquire();
            log.lock().unwrap().push(3);
        });
        assert_eq!(log.into_inner().unwrap(), [0, 1, 2, 3]);
        semaphore.try_acquire().unwrap().forget();
        assert_eq!(semaphore.available(), 0);
        semaphore.release(2);
        assert_eq!(semaphore.available(), 2);
    });
}

#[test]
fn a_barrier_releases_all_at_once_in_each_round_and_one_leads() {
    fiber::explore(0..50, || {
        let barrier = Barrier::new(4);
        let (arrived, leaders) = (AtomicUsize::new(0), AtomicUsize::new(0));
        fiber::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 1..=5 {
                        arrived.fetch_add(1, Relaxed);
                        leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
                        assert!(arrived.load(Relaxed) >= 4 * round);
                        assert!(arrived.load(Relaxed) <= 4 * (round + 1));
                    }
                });
            }
        });
        assert_eq!(leaders.into_inner(), 5);
    });
}

#[test]
fn a_fiber_that_times_out_at_a_barrier_has_not_arrived() {
    calm::run(|| {
        let barrier = Barrier::new(2);
        assert_eq!(barrier.wait_timeout(SHORT), Err(TimedOut));
        fiber::scope(|scope| {
            let other = scope.spawn(|| barrier.wait().is_leader());
            // Either may be the last to arrive: the other one may have used up its running time on
            // its way.
            let mine = barrier.wait().is_leader();
            assert_ne!(mine, other.join().unwrap());
        });
        assert!(Barrier::new(0).wait().is_leader());
    });
}

#[test]
fn many_fibers_read_or_one_writes() {
    fiber::explore(0..100, || {
        let lock = RwLock::new(0);
        let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        fiber::scope(|scope| {
            for i in 0..6 {
                let (lock, readers, writers) = (&lock, &readers, &writers);
                scope.spawn(move || {
                    for round in 0..5 {
                        if (i + round) % 3 == 0 {
                            let mut value = lock.write();
                            assert_eq!((readers.load(Relaxed), writers.fetch_add(1, Relaxed)), (0, 0));
                            *value += 1;
                            fiber::checkpoint();
                            writers.fetch_sub(1, Relaxed);
                        } else {
                            let _value = lock.read();
                            readers.fetch_add(1, Relaxed);
                            fiber::checkpoint();
                            assert_eq!(writers.load(Relaxed), 0);
                            readers.fetch_sub(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), 10);
    });
}

#[test]
fn readers_and_writers_take_turns() {
    calm::run(|| {
        let lock = RwLock::new(());
        let log = Log::default();
        fiber::scope(|scope| {
            let first = lock.read();
            for what in ["write", "read", "write", "read"] {
                let (lock, log) = (&lock, &log);
                scope.spawn(move || {
                    let (mut reads, mut writes) = (None, None);
                    if what == "read" {
                        reads = Some(lock.read());
                    } else {
                        writes = Some(lock.write());
                    }
                    log.lock().unwrap().push(what);
                    fiber::yield_now();
                    drop((reads.take(), writes.take()));
                });
            }
            fiber::yield_now();
            assert!(lock.try_read().is_none(), "a writer waits");
            assert!(lock.try_read_for(SHORT).is_none());
            drop(first);
        });
        assert_eq!(log.into_inner().unwrap(), ["write", "read", "read", "write"]);
    });
}

#[test]
fn a_writer_that_times_out_lets_in_the_readers_behind_it() {
    calm::run(|| {
        let lock = RwLock::new(());
        fiber::scope(|scope| {
            let _reads = lock.read();
            let writer = scope.spawn(|| lock.try_write_for(SHORT).is_none());
            fiber::yield_now();
            let reader = scope.spawn(|| drop(lock.read()));
            assert!(writer.join().unwrap());
            reader.join().unwrap();
        });
    });
}

#[test]
fn every_value_arrives_once_and_those_of_one_sender_in_order() {
    for room in [Some(0), Some(1), Some(3), None] {
        fiber::explore(0..60, || {
            let (sender, receiver) = room.map_or_else(unbounded, channel);
            let log = Log::default();
            fiber::scope(|scope| {
                for who in 0..3 {
                    let sender = sender.clone();
                    scope.spawn(move || {
                        for what in 0..5 {
                            sender.send((who, what)).unwrap();
                            if room.is_some_and(|room| sender.len() > room) {
                                panic!("more than there is room for");
                            }
                        }
                    });
                }
                drop(sender);
                for _ in 0..2 {
                    let (receiver, log) = (receiver.clone(), &log);
                    // Each fiber sees the values of each sender in order.
                    scope.spawn(move || {
                        let mut last = [-1; 3];
                        for (who, what) in receiver.iter() {
                            assert!(last[who] < what);
                            last[who] = what;
                            log.lock().unwrap().push((who, what));
                        }
                    });
                }
            });
            let mut all = log.into_inner().unwrap();
            all.sort_unstable();
            assert_eq!(all, (0..3).flat_map(|who| (0..5).map(move |what| (who, what))).collect::<Vec<_>>());
        });
    }
}

#[test]
fn without_room_a_sender_waits_for_a_receiver() {
    calm::run(|| {
        let (sender, receiver) = channel(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(sender.send_timeout(2, SHORT), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        let other = fiber::spawn(move || receiver.recv().map(|value| (value, receiver)));
        fiber::yield_now();
        sender.try_send(3).unwrap();
        let (value, receiver) = other.join().unwrap().unwrap();
        assert_eq!(value, 3);
        let clone = sender.clone();
        fiber::spawn(move || clone.send(4).unwrap()).detach();
        fiber::yield_now();
        assert_eq!(receiver.try_recv(), Ok(4));
        assert_eq!((sender.len(), receiver.is_empty()), (0, true));
    });
}

#[test]
fn a_sender_that_times_out_gets_its_own_value_back() {
    fiber::explore(0..60, || {
        let (sender, receiver) = channel(1);
        let received = Log::default();
        fiber::scope(|scope| {
            let fibers: Vec<_> = (0..4)
                .map(|i| {
                    let sender = sender.clone();
                    scope.spawn(move || match sender.send_timeout(i, Duration::from_micros(5)) {
                        Ok(()) => None,
                        Err(TrySendError::Full(value)) => {
                            assert_eq!(value, i);
                            Some(value)
                        }
                        Err(TrySendError::Disconnected(_)) => panic!("the channel is open"),
                    })
                })
                .collect();
            let receiver = receiver.clone();
            scope.spawn(|| {
                let receiver = receiver;
                for _ in 0..2 {
                    (0..4).for_each(|_| fiber::checkpoint());
                    let value = receiver.recv_timeout(SHORT).ok();
                    received.lock().unwrap().extend(value);
                }
            });
            let kept: Vec<_> = fibers.into_iter().filter_map(|fiber| fiber.join().unwrap()).collect();
            received.lock().unwrap().extend(kept);
        });
        let mut all = received.into_inner().unwrap();
        all.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    });
}

#[test]
fn a_channel_ends_when_the_other_end_is_gone() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            // This end, too, may be used to send, and to query the channel.
            fiber::yield_now();
            self.0.fetch_add(1, Relaxed);
        }
    }
    let dropped = AtomicUsize::new(0);
    let counted = || Counted(&dropped);
    calm::run(|| {
        fiber::scope(|scope| {
            let (sender, receiver) = channel(1);
            sender.send(Counted(&dropped)).unwrap();
            let waits = sender.clone();
            let waits = scope.spawn(move || waits.send(counted()).is_err());
            fiber::yield_now();
            drop(receiver);
            assert!(waits.join().unwrap());
            assert_eq!(dropped.load(Relaxed), 2);
            assert!(matches!(sender.send(Counted(&dropped)), Err(SendError(_))));
            assert_eq!(sender.receivers(), 0);
        });
        let (sender, receiver) = channel::<u32>(1);
        sender.send(1).unwrap();
        let waits = fiber::spawn(move || (receiver.recv(), receiver.recv(), receiver.try_recv(), receiver.senders()));
        fiber::yield_now();
        drop(sender);
        assert_eq!(waits.join().unwrap(), (Ok(1), Err(RecvError), Err(TryRecvError::Disconnected), 0));
    });
    assert_eq!(dropped.into_inner(), 3);
}

#[test]
fn the_ends_of_a_channel_may_be_dropped_outside_a_runtime() {
    let (sender, receiver) = channel(2);
    calm::run(|| sender.send(String::from("left")).unwrap());
    drop(sender);
    assert_eq!(calm::run(|| (receiver.recv(), receiver.recv())), (Ok(String::from("left")), Err(RecvError)));
}

/// Each object between the fibers of two workers. Nothing here depends on when which of them runs.
#[test]
fn the_objects_work_with_two_workers_as_with_one() {
    let config = fiber::Config { workers: 2, ..fiber::Config::default() };
    for _ in 0..20 {
        let run = fiber::Runtime::new(config.clone()).run(|| {
            let (mutex, turned) = (fiber::Mutex::new(0), fiber::Condvar::new());
            let (semaphore, lock, barrier) = (Semaphore::new(2), RwLock::new(0), Barrier::new(4));
            let (sender, receiver) = channel(1);
            let (inside, leaders) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let sum = fiber::scope(|scope| {
                for who in 0..4 {
                    let sender = sender.clone();
                    let (mutex, turned, semaphore, lock, barrier, inside, leaders) =
                        (&mutex, &turned, &semaphore, &lock, &barrier, &inside, &leaders);
                    scope.spawn(move || {
                        for round in 0..25 {
                            let mut turn = turned.wait_while(mutex.lock(), |turn| *turn % 4 != who);
                            fiber::yield_now();
                            *turn += 1;
                            turned.notify_all();
                            drop(turn);
                            {
                                let _permit = semaphore.acquire();
                                assert!(inside.fetch_add(1, Relaxed) < 2);
                                fiber::yield_now();
                                inside.fetch_sub(1, Relaxed);
                            }
                            if (who + round) % 2 == 0 {
                                *lock.write() += 1;
                            } else {
                                let before = *lock.read();
                                assert!(before <= *lock.read());
                            }
                            sender.send(round).unwrap();
                            leaders.fetch_add(usize::from(barrier.wait().is_leader()), Relaxed);
                        }
                    });
                }
                drop(sender);
                receiver.iter().sum::<usize>()
            });
            assert_eq!((sum, leaders.into_inner()), (4 * 24 * 25 / 2, 25));
            assert_eq!((mutex.into_inner(), lock.into_inner()), (100, 50));
        });
        run.unwrap();
    }
}

#[test]
fn guards_show_what_they_guard() {
    let (mutex, lock) = (fiber::Mutex::new(1), fiber::RwLock::new(2));
    fiber::run(|| {
        assert_eq!(mutex.lock().to_string(), "1");
        assert_eq!(lock.read().to_string(), "2");
        assert_eq!(lock.write().to_string(), "2");
    });
}
