//! Fibers that wait for descriptors by `Pollable`, and for times.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Config, Pollable, RunError, Runtime, ScriptedClock};
use testing::Child;

fn pollable_pipe() -> (Pollable<PipeReader>, PipeWriter) {
    let (output, input) = pipe().unwrap();
    (Pollable::new(output).unwrap(), input)
}

fn pollable_pair() -> (Pollable<UnixStream>, Pollable<UnixStream>) {
    let (one, other) = UnixStream::pair().unwrap();
    (Pollable::new(one).unwrap(), Pollable::new(other).unwrap())
}

#[test]
fn a_fiber_that_waits_for_a_pipe_lets_others_run_and_continues_when_it_is_filled() {
    fiber::run(|| {
        let (mut output, mut input) = pollable_pipe();
        let steps = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&steps);
        let reader = fiber::spawn(move || {
            let mut byte = [0];
            output.read_exact(&mut byte).unwrap();
            (byte[0], seen.load(Relaxed))
        });
        for _ in 0..10 {
            steps.fetch_add(1, Relaxed);
            fiber::yield_now();
        }
        input.write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), (b'x', 10));
    });
}

#[test]
fn a_thread_outside_may_end_the_wait_of_an_idle_runtime() {
    let (mut output, mut input) = pollable_pipe();
    let writer = std::thread::spawn(move || input.write_all(b"from outside").unwrap());
    let heard = fiber::run(move || {
        let mut heard = String::new();
        output.read_to_string(&mut heard).unwrap();
        heard
    });
    assert_eq!(heard, "from outside");
    writer.join().unwrap();
}

#[test]
fn unread_data_can_still_be_waited_for() {
    fiber::run(|| {
        let (mut output, mut input) = pollable_pipe();
        let reader = fiber::spawn(move || {
            // Once when it comes, and then because it is there already.
            for expected in *b"abc" {
                output.readable().unwrap();
                let mut byte = [0];
                assert_eq!(output.read(&mut byte).unwrap(), 1);
                assert_eq!(byte[0], expected);
            }
            output.readable().unwrap();
            assert_eq!(output.read(&mut [0]).unwrap(), 0, "the end");
        });
        fiber::yield_now();
        input.write_all(b"abc").unwrap();
        drop(input);
        reader.join().unwrap();
    });
}

#[test]
fn fibers_wait_for_the_output_of_a_child_as_for_a_pipe() {
    fiber::run(|| {
        let mut child = Child::start_piped(&mut testing::command("cat"));
        let mut output = Pollable::new(child.process().stdout.take().unwrap()).unwrap();
        let reader = fiber::spawn(move || {
            let mut said = String::new();
            output.read_to_string(&mut said).map(|_| said).unwrap()
        });
        fiber::yield_now();
        let mut input = Pollable::new(child.process().stdin.take().unwrap()).unwrap();
        input.write_all("over and over, ".repeat(20_000).as_bytes()).unwrap();
        drop(input);
        assert_eq!(reader.join().unwrap().len(), 300_000);
        fiber::blocking(move || child.wait()).expect_success();
    });
}

#[test]
fn one_fiber_may_wait_to_read_and_another_to_write_at_the_same_descriptor() {
    fiber::run(|| {
        let (one, other) = pollable_pair();
        let one = Arc::new(one);
        let other = other.into_inner().unwrap();
        one.write_with(|one| {
            loop {
                // Until it is full.
                if let Err(why) = (&*one).write(&[0; 4096]) {
                    return if why.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(why) };
                }
            }
        })
        .unwrap();
        let (reads, writes) = (Arc::clone(&one), Arc::clone(&one));
        let reader = fiber::spawn(move || reads.readable().unwrap());
        let writer = fiber::spawn(move || writes.writable().unwrap());
        fiber::yield_now();
        // A fiber that is woken by an event for the other continues to wait.
        (&other).write_all(b"x").unwrap();
        reader.join().unwrap();
        (0..5).for_each(|_| fiber::yield_now());
        assert!(!writer.is_finished());
        other.set_nonblocking(true).unwrap();
        while let Ok(1..) = (&other).read(&mut [0; 4096]) {}
        writer.join().unwrap();
    });
}

#[test]
fn a_fiber_whose_wait_timed_out_is_not_woken_by_later_data() {
    fiber::run(|| {
        let (output, mut input) = pollable_pipe();
        output.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!((&output).read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        // The same number for another descriptor, of a file with nothing to read, while the first
        // file stays open under another number.
        let number = output.as_fd().try_clone_to_owned().unwrap();
        drop(output);
        let (mut empty, _kept) = pollable_pipe();
        empty.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        input.write_all(b"late").unwrap();
        assert_eq!(empty.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        let mut late = [0; 4];
        rustix::io::read(&number, &mut late).unwrap();
        assert_eq!(&late, b"late");
    });
}

#[test]
fn a_file_on_a_disk_counts_as_ready() {
    let file = Pollable::new(tempfile::tempfile().unwrap()).unwrap();
    fiber::run(move || {
        file.readable().unwrap();
        file.writable().unwrap();
    });
}

#[test]
fn fibers_that_yield_or_compute_forever_do_not_keep_others_from_their_descriptors() {
    for computes in [false, true] {
        fiber::run(|| {
            let (mut output, mut input) = pollable_pipe();
            let heard = Arc::new(AtomicUsize::new(0));
            let hears = Arc::clone(&heard);
            fiber::spawn(move || {
                output.read_exact(&mut [0]).unwrap();
                hears.store(1, Relaxed);
            })
            .detach();
            fiber::yield_now();
            let writer = std::thread::spawn(move || input.write_all(b"x").unwrap());
            while heard.load(Relaxed) == 0 {
                if computes { fiber::checkpoint() } else { fiber::yield_now() }
            }
            writer.join().unwrap();
        });
    }
}

#[test]
fn a_wait_for_a_descriptor_is_no_deadlock_and_prevents_one() {
    let (mut output, input) = pollable_pipe();
    let ends = std::thread::spawn(move || drop(input));
    fiber::run(move || {
        let reader = fiber::spawn(move || output.read(&mut [0]).unwrap());
        assert_eq!(reader.join().unwrap(), 0);
    });
    ends.join().unwrap();
    // When no fiber waits for it any more, a deadlock is reported.
    let (output, _input) = pollable_pipe();
    let error = Runtime::default().run(move || {
        output.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!((&output).read(&mut [0]).is_err());
        let mutex = Arc::new(fiber::Mutex::new(()));
        let _guard = mutex.lock();
        let waits = Arc::clone(&mutex);
        let _ = fiber::spawn(move || drop(waits.lock())).join();
    });
    assert!(matches!(error, Err(RunError::Deadlock(_))), "{error:?}");
}

#[test]
fn sleepers_wake_in_the_order_of_their_times() {
    let runtime = Runtime::new(Config { clock: Some(ScriptedClock::new()), ..Config::default() });
    let order = runtime.run(|| {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let begin = fiber::now();
        let sleepers: Vec<_> = [3u64, 1, 4, 1, 5, 9, 2, 6]
            .into_iter()
            .map(|time| {
                let order = Arc::clone(&order);
                fiber::spawn(move || {
                    fiber::sleep_until(begin + Duration::from_millis(time));
                    assert_eq!(fiber::now(), begin + Duration::from_millis(time));
                    order.lock().unwrap().push(time);
                })
            })
            .collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    });
    assert_eq!(order.unwrap(), [1, 1, 2, 3, 4, 5, 6, 9]);
}

#[test]
fn ten_thousand_fibers_sleep_at_once() {
    let clock = ScriptedClock::new();
    let longest = Duration::from_millis(50);
    let runtime = Runtime::new(Config { clock: Some(clock.clone()), ..Config::default() });
    let run = runtime.run(|| {
        let sleepers: Vec<_> =
            (0..10_000u64).map(|i| fiber::spawn(move || fiber::sleep(longest * (i % 100) as u32 / 99))).collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
    assert!(run.is_ok());
    assert_eq!(clock.elapsed(), longest);
}

#[test]
fn sleepers_and_readers_do_not_disturb_each_other() {
    fiber::run(|| {
        let (mut output, mut input) = pollable_pipe();
        let reader = fiber::spawn(move || {
            let mut heard = Vec::new();
            output.read_to_end(&mut heard).map(|_| heard.len()).unwrap()
        });
        let sleepers: Vec<_> = (1..5)
            .map(|i| fiber::spawn(move || (0..20).for_each(|_| fiber::sleep(Duration::from_micros(i * 100)))))
            .collect();
        for _ in 0..20 {
            input.write_all(b"word").unwrap();
            fiber::sleep(Duration::from_micros(50));
        }
        drop(input);
        assert_eq!(reader.join().unwrap(), 80);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn a_zero_timeout_is_refused() {
    let (one, _other) = pollable_pair();
    assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn fibers_accept_and_answer_by_sockets_that_do_not_block() {
    fiber::run(|| {
        let listener = Pollable::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = fiber::spawn(move || {
            let (stream, _) = listener.read_with(TcpListener::accept).unwrap();
            let stream = Pollable::new(stream).unwrap();
            std::io::copy(&mut &stream, &mut &stream).unwrap()
        });
        fiber::yield_now();
        let mut client = Pollable::new(TcpStream::connect(address).unwrap()).unwrap();
        client.write_all(b"is anybody there?").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!((answer.as_str(), server.join().unwrap()), ("is anybody there?", 17));
    });
}

#[test]
fn pollables_simply_block_outside_a_runtime() {
    let (mut one, mut other) = pollable_pair();
    let client = std::thread::spawn(move || {
        other.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        other.write_all(b"go on").unwrap();
    });
    let mut heard = String::new();
    one.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "go on");
    client.join().unwrap();
    // And back to the standard library's, whose read waits again.
    let (one, other) = pollable_pair();
    let (mut one, other) = (one.into_inner().unwrap(), other.into_inner().unwrap());
    let reader = std::thread::spawn(move || (&other).read(&mut [0]).unwrap());
    one.write_all(b"x").unwrap();
    assert_eq!(reader.join().unwrap(), 1);
}

#[test]
fn fibers_that_wait_for_pollables_end_with_their_runtime() {
    let (one, other) = pollable_pair();
    let one = Arc::new(one);
    fiber::run(|| {
        for _ in 0..10 {
            let one = Arc::clone(&one);
            fiber::spawn(move || (&*one).read(&mut [0])).detach();
        }
        fiber::yield_now();
    });
    // Their stacks are gone, with everything on them.
    let one = Arc::into_inner(one).unwrap();
    // And another runtime works.
    fiber::run(|| {
        let reader = fiber::spawn(move || (&one).read(&mut [0]).unwrap());
        fiber::yield_now();
        (&other).write_all(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), 1);
    });
}

#[test]
fn a_fiber_that_unwinds_with_its_runtime_waits_for_nothing_from_outside() {
    struct Says(Pollable<UnixStream>, Arc<AtomicUsize>);
    impl Drop for Says {
        fn drop(&mut self) {
            // No answer ever comes, and the test does not have all this time.
            assert!(self.0.read(&mut [0]).is_err());
            fiber::sleep(Duration::from_secs(1000));
            assert_eq!(fiber::blocking(|| 5), 5);
            self.1.fetch_add(1, Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let sees = Arc::clone(&dropped);
    fiber::run(move || {
        for waits in [true, false] {
            let (one, other) = pollable_pair();
            let says = Says(one, Arc::clone(&sees));
            fiber::spawn(move || {
                let _both = (says, other);
                match waits {
                    true => fiber::sleep(Duration::from_secs(1000)),
                    false => loop {
                        fiber::yield_now();
                    },
                }
            })
            .detach();
        }
        fiber::yield_now();
    });
    assert_eq!(dropped.load(Relaxed), 2);
}
