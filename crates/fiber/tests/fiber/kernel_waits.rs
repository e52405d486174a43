//! Fibers that wait in calls of the C library, and other fibers of their worker, which run
//! meanwhile. If a call stopped the worker, nearly all of these tests would wait forever.

use std::io::{self, ErrorKind, Read, Write, pipe};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rowlock_fiber::{Builder, Config, Runtime, run, scope, spawn, yield_now};
use sys::scheduling::Thread;

use crate::scripted::await_futex;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);

const SHORT: Duration = Duration::from_millis(1);

/// Runtimes with fibers of several kinds.
fn each_way() -> impl Iterator<Item = Runtime> {
    let default = Config::default;
    let configs = [
        default(),
        Config { workers: 2, ..default() },
        Config { preemptible: true, ..default() },
        Config { preemptible: true, workers: 2, ..default() },
        Config { thread_control_blocks: rowlock_fiber::ThreadControlBlocks::KernelThreads, ..default() },
    ];
    configs.into_iter().map(Runtime::new)
}

pub(crate) fn run_each_way(program: impl Fn()) {
    each_way().for_each(|runtime| runtime.run(&program).unwrap());
}

#[test]
fn a_standard_mutex_that_another_fiber_holds_is_waited_for() {
    run_each_way(|| {
        let (mutex, seen) = (Mutex::new(0), AtomicBool::new(false));
        scope(|scope| {
            scope.spawn(|| {
                let mut guard = mutex.lock().unwrap();
                while !seen.load(Relaxed) {
                    yield_now();
                }
                *guard += 1;
            });
            scope.spawn(|| {
                seen.store(true, Relaxed);
                *mutex.lock().unwrap() += 1;
            });
        });
        assert_eq!(mutex.into_inner().unwrap(), 2);
    });
}

#[test]
fn a_value_is_created_once_for_all_fibers_that_need_it_and_its_creator_may_wait() {
    let create = || {
        let (value, made) = (OnceLock::new(), AtomicU32::new(0));
        let lazy = LazyLock::new(|| {
            rowlock_fiber::sleep(SHORT);
            8
        });
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let create = || {
                        rowlock_fiber::sleep(SHORT);
                        made.fetch_add(1, Relaxed);
                        7
                    };
                    assert_eq!((*value.get_or_init(create), *lazy), (7, 8));
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    };
    run_each_way(create);
    rowlock_fiber::explore(0..30, create);
}

#[test]
fn a_value_that_could_not_be_created_is_created_by_the_next_fiber() {
    run_each_way(|| {
        let value = &OnceLock::new();
        scope(|scope| {
            let fails = || {
                yield_now();
                std::panic::resume_unwind(Box::new(()))
            };
            let failing = scope.spawn(move || _ = value.get_or_init(fails));
            yield_now();
            assert_eq!(*value.get_or_init(|| 1), 1);
            _ = failing.join();
        });
    });
}

#[test]
fn a_fiber_parks_until_another_one_unparks_it() {
    run_each_way(|| {
        let (tell, told) = mpsc::channel();
        let parked = spawn(move || {
            tell.send(thread::current()).unwrap();
            thread::park();
        });
        let thread = told.recv().unwrap();
        (0..3).for_each(|_| yield_now());
        thread.unpark();
        parked.join().unwrap();
    });
}

#[test]
fn fibers_of_one_worker_meet_at_objects_of_the_standard_library() {
    run_each_way(|| {
        let (barrier, lock, turn, changed) = (Barrier::new(3), RwLock::new(0), Mutex::new(0), Condvar::new());
        scope(|scope| {
            for index in 0..3 {
                let (barrier, lock, turn, changed) = (&barrier, &lock, &turn, &changed);
                scope.spawn(move || {
                    for round in 0..20 {
                        let guard = turn.lock().unwrap();
                        let mut guard = changed.wait_while(guard, |turn| *turn != round * 3 + index).unwrap();
                        *guard += 1;
                        *lock.write().unwrap() += 1;
                        changed.notify_all();
                        drop(guard);
                        barrier.wait();
                        assert_eq!(*lock.read().unwrap(), round * 3 + 3);
                        barrier.wait();
                    }
                });
            }
        });
    });
}

#[test]
fn a_fiber_receives_from_a_standard_channel_what_another_one_sends() {
    run_each_way(|| {
        let (send, receive) = mpsc::sync_channel(1);
        let sum = spawn(move || receive.iter().sum::<u64>());
        for value in 0..100 {
            send.send(value).unwrap();
        }
        drop(send);
        assert_eq!(sum.join().unwrap(), 4950);
    });
}

#[test]
fn while_one_fiber_sleeps_another_one_works() {
    run(|| {
        let sleeper = spawn(|| thread::sleep(LONG));
        let works = Arc::new(AtomicBool::new(true));
        let theirs = Arc::clone(&works);
        let naps = spawn(move || {
            let mut naps = 0_u32;
            while theirs.load(Relaxed) {
                thread::sleep(SHORT);
                naps += 1;
            }
            naps
        });
        let began = Instant::now();
        thread::sleep(SHORT * 20);
        assert!(began.elapsed() >= SHORT * 20);
        works.store(false, Relaxed);
        assert!(naps.join().unwrap() > 0);
        assert!(!sleeper.is_finished());
    });
}

#[test]
fn a_fiber_that_polls_and_yields_lets_others_run() {
    run(|| {
        let done = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&done);
        let _other = spawn(move || theirs.store(true, Relaxed));
        while !done.load(Relaxed) {
            thread::yield_now();
        }
    });
}

#[test]
fn waits_with_a_timeout_end_in_time() {
    run_each_way(|| {
        let began = Instant::now();
        let (mutex, changed) = (Mutex::new(()), Condvar::new());
        let other = spawn(|| thread::park_timeout(SHORT));
        let (guard, timeout) = changed.wait_timeout(mutex.lock().unwrap(), SHORT * 2).unwrap();
        assert!(timeout.timed_out());
        drop(guard);
        let (_send, receive) = mpsc::channel::<()>();
        assert_eq!(receive.recv_timeout(SHORT), Err(mpsc::RecvTimeoutError::Timeout));
        other.join().unwrap();
        assert!(began.elapsed() >= SHORT * 3);
    });
}

#[test]
fn threads_and_fibers_wake_each_other() {
    run_each_way(|| {
        let (to_thread, from_fiber) = mpsc::channel();
        let (to_fiber, from_thread) = mpsc::channel();
        let thread = thread::spawn(move || from_fiber.iter().for_each(|value: u64| to_fiber.send(value + 1).unwrap()));
        let fiber = spawn(move || {
            let mut value = 0;
            while value < 100 {
                to_thread.send(value).unwrap();
                value = from_thread.recv().unwrap();
            }
            value
        });
        assert_eq!(fiber.join().unwrap(), 100);
        while !thread.is_finished() {
            thread::yield_now();
        }
    });
}

#[test]
#[allow(unsafe_code)] // Sharing fibers are unsafe.
fn a_wakeup_of_a_fiber_is_not_lost_if_its_worker_waits_in_the_kernel_for_the_same_lock() {
    let (mutex, stops) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
    let (worker, is_held) = (Thread::current(), Arc::new(Barrier::new(2)));
    let holder = thread::spawn({
        let (mutex, stops, is_held) = (Arc::clone(&mutex), Arc::clone(&stops), Arc::clone(&is_held));
        move || {
            let guard = mutex.lock().unwrap();
            is_held.wait();
            while !stops.load(Relaxed) {
                thread::yield_now();
            }
            await_futex(worker);
            // Wakes one waiter: the fiber.
            drop(guard);
        }
    });
    is_held.wait();
    let counts = Arc::clone(&mutex);
    run(move || {
        let counts_too = Arc::clone(&counts);
        let waits = spawn(move || *counts_too.lock().unwrap() += 1);
        let in_kernel = move || {
            stops.store(true, Relaxed);
            *counts.lock().unwrap() += 1;
        };
        // SAFETY: the function leaves nothing in thread-locals.
        let in_kernel = unsafe { Builder::new().spawn_sharing(in_kernel) }.unwrap();
        [waits, in_kernel].into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    holder.join().unwrap();
    assert_eq!(*mutex.lock().unwrap(), 2);
}

#[test]
fn a_fiber_that_still_waits_when_its_runtime_ends_continues_as_a_thread() {
    let (mutex, (tell, told)) = (Arc::new(Mutex::new(())), mpsc::channel());
    let guard = mutex.lock().unwrap();
    run(|| {
        for waits in [true, false] {
            let (mutex, tell) = (Arc::clone(&mutex), tell.clone());
            drop(spawn(move || {
                if waits {
                    drop(mutex.lock().unwrap());
                } else {
                    thread::sleep(SHORT * 20);
                }
                tell.send(waits).unwrap();
            }));
        }
        yield_now();
    });
    drop(guard);
    let mut told: Vec<_> = told.iter().take(2).collect();
    told.sort_unstable();
    assert_eq!(told, [false, true]);
}

/// More than any pipe or socket holds.
const MUCH: usize = 10 << 20;

#[test]
fn waits_for_descriptors_fail_when_the_runtime_ends() {
    for runtime in each_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ((mut reader, kept), (unread, mut writer)) = (pipe().unwrap(), pipe().unwrap());
        let calls: [Box<dyn FnOnce() -> io::Result<()> + Send>; 4] = [
            Box::new(move || listener.accept().map(drop)),
            Box::new(move || socket.recv(&mut [0]).map(drop)),
            Box::new(move || (reader.read(&mut [0]), kept).0.map(drop)),
            Box::new(move || (writer.write_all(&vec![7; MUCH]), unread).0),
        ];
        let (begun, (tell, told)) = (Arc::new(AtomicU32::new(0)), mpsc::channel());
        let first = || {
            for call in calls {
                let (begun, tell) = (Arc::clone(&begun), tell.clone());
                let body = move || {
                    begun.fetch_add(1, Relaxed);
                    tell.send(call().unwrap_err().raw_os_error()).unwrap();
                };
                spawn(body).detach();
            }
            while begun.load(Relaxed) < 4 {
                yield_now();
            }
        };
        runtime.run(first).unwrap();
        let errors: Vec<_> = told.try_iter().collect();
        assert_eq!(errors, [Some(libc::ECANCELED); 4]);
        TcpListener::bind(address).unwrap();
    }
}

#[test]
fn a_fiber_that_repeats_a_failed_call_when_its_runtime_ends_continues_as_a_thread() {
    for runtime in each_way() {
        let ((mut reader, mut writer), (tell, told)) = (pipe().unwrap(), mpsc::channel());
        let begun = Arc::new(AtomicBool::new(false));
        let first = || {
            let begins = Arc::clone(&begun);
            let body = move || {
                begins.store(true, Relaxed);
                let mut failed = 0;
                while reader.read(&mut [0]).is_err() {
                    failed += 1;
                }
                tell.send(failed).unwrap();
            };
            spawn(body).detach();
            while !begun.load(Relaxed) {
                yield_now();
            }
        };
        runtime.run(first).unwrap();
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        writer.write_all(&[7]).unwrap();
        assert_eq!(told.recv(), Ok(3));
    }
}

#[test]
fn a_fiber_reads_from_a_pipe_what_another_one_writes() {
    run_each_way(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let all = spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        yield_now();
        writer.write_all(&vec![7; MUCH]).unwrap();
        drop(writer);
        assert_eq!(all.join().unwrap(), vec![7; MUCH]);
    });
}

#[test]
fn fibers_talk_over_standard_sockets() {
    run_each_way(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let servers = [(); 2].map(|()| {
            let listener = listener.try_clone().unwrap();
            spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut all = vec![0; MUCH];
                stream.read_exact(&mut all).unwrap();
                stream.write_all(&all).unwrap();
            })
        });
        let clients = [1, 2].map(|value| {
            spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(&vec![value; MUCH]).unwrap();
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                assert_eq!(all, vec![value; MUCH]);
            })
        });
        servers.into_iter().chain(clients).for_each(|each| each.join().unwrap());
    });
}

#[test]
fn a_read_with_a_timeout_ends_with_the_error_of_a_thread() {
    run_each_way(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let (mut one, _other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(one.write(&vec![0; MUCH]).unwrap() < MUCH);
    });
}

#[test]
fn a_fiber_waits_for_a_process_that_waits_for_another_fiber() {
    run_each_way(|| {
        let mut cat = testing::command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = cat.stdin.take().unwrap();
        let waits = spawn(move || cat.wait_with_output().unwrap());
        yield_now();
        input.write_all(b"told").unwrap();
        drop(input);
        let output = waits.join().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, b"told");
    });
}

#[test]
fn a_fiber_joins_a_thread_that_waits_for_another_fiber() {
    run_each_way(|| {
        let (send, receive) = mpsc::channel();
        let thread = thread::spawn(move || receive.recv().unwrap());
        let joins = spawn(move || thread.join().unwrap());
        yield_now();
        send.send(7).unwrap();
        assert_eq!(joins.join().unwrap(), 7);
    });
}

#[test]
fn a_file_lock_that_another_fiber_holds_is_waited_for() {
    run_each_way(|| {
        let (file, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        file.lock().unwrap();
        let other = std::fs::File::open(&path).unwrap();
        let waits = spawn(move || other.lock().unwrap());
        yield_now();
        file.unlock().unwrap();
        waits.join().unwrap();
    });
}

#[test]
#[allow(unsafe_code)]
fn a_fiber_polls_until_another_one_writes() {
    run_each_way(|| {
        let (reader, mut writer) = pipe().unwrap();
        let (other, _kept) = pipe().unwrap();
        let (tell, told) = mpsc::channel();
        let polls = spawn(move || {
            let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut entries = [entry(other.as_raw_fd()), entry(reader.as_raw_fd()), entry(-1)];
            // SAFETY: the entries exist.
            let mut poll = |time| unsafe { libc::poll(entries.as_mut_ptr(), 3, time) };
            assert_eq!(poll(1), 0);
            tell.send(()).unwrap();
            assert_eq!(poll(-1), 1);
            assert_eq!(entries.map(|entry| entry.revents), [0, libc::POLLIN, 0]);
            drop(reader);
        });
        told.recv().unwrap();
        yield_now();
        writer.write_all(b"x").unwrap();
        polls.join().unwrap();
    });
}
