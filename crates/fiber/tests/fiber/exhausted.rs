//! A process that has no descriptors left. Alone in its file: all tests of a file share their
//! process.

use std::io::{Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rowlock_fiber as fiber;
use rowlock_fiber::{Event, Pollable};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_descriptors_there_are_errors_and_sleepers_continue_to_sleep() {
    testing::isolated(|| {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: limit.maximum }).unwrap();
        let is_exhausted = |why: std::io::Error| why.raw_os_error() == Some(Errno::MFILE.raw_os_error());
        let (output, _input) = pipe().unwrap();
        let mut output = Pollable::new(output).unwrap();
        let (mut plain, mut input) = pipe().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut fill: Vec<_> = std::iter::from_fn(|| pipe().ok()).collect();
        let mut last: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        fiber::run(|| {
            assert!(is_exhausted(output.read(&mut [0]).unwrap_err()), "there can be no epoll");
            let began = fiber::now();
            fiber::sleep(Duration::from_millis(2));
            assert!(began.elapsed() >= Duration::from_millis(2));
            let here = std::thread::current().id();
            assert_ne!(fiber::blocking(|| std::thread::current().id()), here, "a call needs no descriptor");
            assert!(is_exhausted(TcpStream::connect(address).unwrap_err()));
            let reader = fiber::spawn(move || plain.read(&mut [0]).unwrap());
            fiber::yield_now();
            input.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1, "another thread reads, without a descriptor");
            // With a few descriptors again there is an epoll. When they are used up, a connection
            // cannot be accepted, but is not lost.
            fill.truncate(fill.len() - 3);
            output.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            assert_eq!(output.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
            let _client = TcpStream::connect(address).unwrap();
            last.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
            assert!(is_exhausted(listener.accept().unwrap_err()));
            last.clear();
            fill.clear();
            listener.accept().unwrap();
        });
    });
}

#[test]
fn without_descriptors_a_fiber_that_waits_until_a_deadline_is_woken_before_it() {
    testing::isolated(|| {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: limit.maximum }).unwrap();
        for workers in [1, 2] {
            let event = Event::manual_reset();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // By then it waits.
                    std::thread::sleep(Duration::from_millis(50));
                    event.set();
                });
                let runtime = fiber::Runtime::new(fiber::Config { workers, ..fiber::Config::default() });
                runtime.run(|| event.wait_timeout(Duration::from_secs(3_600))).unwrap().unwrap();
            });
        }
    });
}
