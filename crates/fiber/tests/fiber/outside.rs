//! Threads that run no fibers of a runtime: they may use handles, during the runtime and after
//! it, and spawn fibers.

use crate::calm;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Config, JoinError, RunError, Runtime, SpawnError};

/// Runs a test with a runtime with one worker, and with one with two.
fn with_one_worker_and_with_two(test: impl Fn(Runtime)) {
    for workers in [1, 2] {
        test(Runtime::new(Config { workers, ..Config::default() }));
    }
}

/// Lets other fibers run until a thread has ended, and returns its result.
fn join_thread<T>(thread: thread::JoinHandle<T>) -> T {
    while !thread.is_finished() {
        fiber::yield_now();
    }
    thread.join().unwrap()
}

/// Counts what is dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

struct Counts(Arc<AtomicUsize>);

impl Dropped {
    fn thing(&self) -> Counts {
        Counts(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_thread_joins_a_fiber_that_has_ended_and_one_that_has_not() {
    with_one_worker_and_with_two(|runtime| {
        let sum = runtime.run(|| {
            let ended = fiber::spawn(|| 40);
            while !ended.is_finished() {
                fiber::yield_now();
            }
            let (send, receive) = mpsc::channel();
            let waits = fiber::spawn(move || {
                while receive.try_recv().is_err() {
                    fiber::yield_now();
                }
                2
            });
            let thread = thread::spawn(move || {
                let first = ended.join().unwrap();
                send.send(()).unwrap();
                first + waits.join().unwrap()
            });
            join_thread(thread)
        });
        assert_eq!(sum.unwrap(), 42);
    });
}

#[test]
fn a_join_outside_returns_a_panic() {
    with_one_worker_and_with_two(|runtime| {
        let error = runtime.run(|| {
            let handle = fiber::spawn(|| panic!("on purpose"));
            join_thread(thread::spawn(move || handle.join().unwrap_err().to_string()))
        });
        assert_eq!(error.unwrap(), "the fiber panicked: on purpose");
    });
}

#[test]
fn a_joiner_outside_gets_an_error_if_the_runtime_ends_before_the_fiber() {
    with_one_worker_and_with_two(|runtime| {
        let thread = runtime.run(|| {
            let handle = fiber::spawn(|| fiber::sleep(Duration::from_secs(1000)));
            let (send, receive) = mpsc::channel();
            let thread = thread::spawn(move || {
                send.send(()).unwrap();
                handle.join()
            });
            while receive.try_recv().is_err() {
                fiber::yield_now();
            }
            thread
        });
        assert!(matches!(thread.unwrap().join().unwrap(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn handles_outlive_their_runtime() {
    for workers in [1, 2] {
        let runtime = Runtime::new(Config { workers, ..Config::default() });
        let dropped = Dropped::default();
        let (ended, unstarted, blocked, unwanted) = runtime
            .run(|| {
                let things = [dropped.thing(), dropped.thing(), dropped.thing(), dropped.thing()];
                let [first, second, third, fourth] = things;
                let ended = fiber::spawn(move || (7, first));
                let blocked = fiber::spawn(move || {
                    let _third = third;
                    fiber::sleep(Duration::from_secs(1000));
                });
                let unwanted = fiber::spawn(move || fourth);
                while !ended.is_finished() || !unwanted.is_finished() {
                    fiber::yield_now();
                }
                let unstarted = fiber::spawn(move || drop(second));
                (ended, unstarted, blocked, unwanted)
            })
            .unwrap();
        // Those that ended have their results; of the others nothing is left.
        assert_eq!(dropped.count(), 2);
        assert!(ended.is_finished());
        assert_eq!(ended.join().unwrap().0, 7);
        let unstarted = thread::spawn(move || unstarted.join()).join().unwrap();
        // Another worker may have taken it before the end, or it has run already because its
        // creator's time was over.
        assert!(matches!(unstarted, Err(JoinError::Cancelled) | Ok(())), "{unstarted:?}");
        assert!(matches!(blocked.join(), Err(JoinError::Cancelled)));
        assert_eq!(dropped.count(), 3);
        // In another runtime, too.
        calm::run(move || drop(unwanted));
        assert_eq!(dropped.count(), 4);
    }
}

#[test]
fn a_handle_is_joined_and_dropped_in_another_runtime() {
    with_one_worker_and_with_two(|runtime| {
        let dropped = Dropped::default();
        let other = dropped.clone();
        runtime
            .run(move || {
                let thing = other.thing();
                let (joined, left) = (fiber::spawn(|| 1), fiber::spawn(move || thing));
                join_thread(thread::spawn(move || {
                    calm::run(move || {
                        assert_eq!(joined.join().unwrap(), 1);
                        drop(left);
                    });
                }));
                while other.count() == 0 {
                    fiber::yield_now();
                }
            })
            .unwrap();
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn records_of_handles_that_are_dropped_outside_are_reused() {
    for workers in [1, 2] {
        let most = 1 << 10;
        let runtime = Runtime::new(Config { workers, most, ..Config::default() });
        runtime
            .run(|| {
                let (send, receive) = mpsc::sync_channel::<fiber::JoinHandle<u32>>(16);
                let thread = thread::spawn(move || {
                    for (i, handle) in receive.iter().enumerate() {
                        if i % 2 == 0 { drop(handle) } else { assert_eq!(handle.join().unwrap(), i as u32) }
                    }
                });
                for i in 0..8 * most {
                    let mut handle = fiber::spawn(move || i);
                    while let Err(error) = send.try_send(handle) {
                        let mpsc::TrySendError::Full(back) = error else { panic!("{error}") };
                        handle = back;
                        fiber::yield_now();
                    }
                }
                drop(send);
                join_thread(thread);
            })
            .unwrap();
    }
}

#[test]
fn records_of_fibers_that_are_spawned_outside_are_reused() {
    for workers in [1, 2] {
        let most = 1 << 11;
        let runtime = Runtime::new(Config { workers, most, ..Config::default() });
        runtime
            .run(|| {
                let remote = fiber::remote();
                let thread = thread::spawn(move || {
                    for i in 0..4 * most {
                        // No more than a few at a time.
                        let handle = remote.spawn(move || i).unwrap();
                        if i % 64 > 0 { handle.detach() } else { assert_eq!(handle.join().unwrap(), i) }
                    }
                });
                join_thread(thread);
            })
            .unwrap();
    }
}

#[test]
fn threads_spawn_fibers_while_the_first_fiber_waits() {
    with_one_worker_and_with_two(|runtime| {
        let many = 500;
        let sum = runtime.run(|| {
            let (remote, done) = (fiber::remote(), Arc::new(AtomicUsize::new(0)));
            // It waits only for what comes from outside: that is no deadlock.
            let last = fiber::spawn({
                let done = Arc::clone(&done);
                move || {
                    while done.load(Relaxed) < 2 * many {
                        fiber::sleep(Duration::from_micros(100));
                    }
                }
            });
            let threads = [0, 1].map(|_| {
                let (remote, done) = (remote.clone(), Arc::clone(&done));
                thread::spawn(move || {
                    let handles: Vec<_> = (0..many)
                        .map(|i| {
                            let done = Arc::clone(&done);
                            remote.spawn(move || {
                                done.fetch_add(1, Relaxed);
                                i
                            })
                        })
                        .collect();
                    handles.into_iter().map(|handle| handle.unwrap().join().unwrap()).sum::<usize>()
                })
            });
            drop(remote);
            last.join().unwrap();
            threads.map(join_thread).into_iter().sum::<usize>()
        });
        assert_eq!(sum.unwrap(), many * (many - 1));
    });
}

#[test]
fn a_runtime_that_waits_only_for_a_remote_sleeps_until_it_spawns_a_fiber() {
    with_one_worker_and_with_two(|runtime| {
        runtime
            .run(|| {
                let (mutex, condvar) = &*Box::leak(Box::new((fiber::Mutex::new(false), fiber::Condvar::new())));
                let remote = fiber::remote();
                let thread = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20));
                    let wakes = remote.spawn(move || {
                        *mutex.lock() = true;
                        condvar.notify_one();
                    });
                    wakes.unwrap().detach();
                });
                drop(condvar.wait_while(mutex.lock(), |ready| !*ready));
                thread.join().unwrap();
            })
            .unwrap();
    });
}

#[test]
fn it_is_a_deadlock_if_the_last_remote_is_gone_and_all_fibers_wait() {
    for workers in [1, 2] {
        let error = Runtime::new(Config { workers, closed: true, ..Config::default() }).run(|| {
            let (mutex, condvar) = (fiber::Mutex::new(()), fiber::Condvar::new());
            let remote = fiber::remote();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                drop(remote);
            });
            drop(condvar.wait(mutex.lock()));
        });
        assert!(matches!(error, Err(RunError::Deadlock(_))), "{error:?}");
    }
}

#[test]
fn a_remote_outlives_its_runtime_and_says_so() {
    with_one_worker_and_with_two(|runtime| {
        let remote = runtime.run(fiber::remote).unwrap();
        assert!(remote.is_over());
        assert!(matches!(remote.spawn(|| ()), Err(SpawnError::Over)));
        drop(remote.clone());
    });
}

#[test]
fn fibers_that_threads_spawn_while_the_runtime_ends_run_or_are_dropped() {
    with_one_worker_and_with_two(|runtime| {
        for round in 0..30 {
            let dropped = Dropped::default();
            let made = dropped.clone();
            let thread = runtime
                .run(move || {
                    let remote = fiber::remote();
                    let (send, receive) = mpsc::channel();
                    let thread = thread::spawn(move || {
                        let mut many = 0;
                        loop {
                            // Meanwhile the thread may be faster than the runtime.
                            while many > made.count() + 100 && !remote.is_over() {
                                thread::yield_now();
                            }
                            let thing = made.thing();
                            many += 1;
                            match remote.spawn(move || drop(thing)) {
                                // Some of the handles are kept beyond the end.
                                Ok(handle) => send.send(handle).unwrap_or(()),
                                Err(SpawnError::Over) => return many,
                                Err(error) => panic!("{error}"),
                            }
                        }
                    });
                    let first = loop {
                        match receive.try_recv() {
                            Ok(handle) => break handle,
                            Err(_) => fiber::yield_now(),
                        }
                    };
                    first.join().unwrap();
                    (0..round).for_each(|_| fiber::yield_now());
                    (thread, receive)
                })
                .unwrap();
            let (thread, handles) = thread;
            let many = thread.join().unwrap();
            drop(handles);
            assert_eq!(dropped.count(), many);
        }
    });
}

#[test]
fn fibers_of_another_runtime_may_spawn_in_a_scope_and_threads_may_not() {
    with_one_worker_and_with_two(|runtime| {
        let ended = AtomicUsize::new(0);
        runtime
            .run(|| {
                fiber::scope(|scope| {
                    thread::scope(|threads| {
                        assert!(threads.spawn(|| drop(scope.spawn(|| ()))).join().is_err());
                        let spawn = || scope.spawn(|| ended.fetch_add(1, SeqCst)).join().unwrap();
                        threads.spawn(move || calm::run(spawn)).join().unwrap();
                    });
                    scope.spawn(|| ended.fetch_add(1, SeqCst));
                });
            })
            .unwrap();
        assert_eq!(ended.load(SeqCst), 2);
    });
}

#[test]
fn handles_of_a_scope_can_be_joined_and_dropped_on_threads() {
    with_one_worker_and_with_two(|runtime| {
        let sum = runtime.run(|| {
            fiber::scope(|scope| {
                let (joined, left) = (scope.spawn(|| 42), scope.spawn(|| panic!("an unseen panic")));
                thread::scope(|threads| {
                    let thread = threads.spawn(move || {
                        let result = joined.join().unwrap();
                        assert!(left.join().is_err());
                        result
                    });
                    while !thread.is_finished() {
                        fiber::yield_now();
                    }
                    thread.join().unwrap()
                })
            })
        });
        assert_eq!(sum.unwrap(), 42);
    });
}

#[test]
fn exit_panics_on_a_thread_that_runs_no_fibers() {
    let refused = thread::spawn(|| fiber::exit()).join().unwrap_err();
    assert!(refused.downcast_ref::<&str>().unwrap().contains("only a fiber"));
}
