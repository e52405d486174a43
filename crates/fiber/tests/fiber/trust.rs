//! Sockets whose settings, numbers or files change after a worker has learned about them. A call
//! must not rely on what was true before.

#![allow(unsafe_code, reason = "it calls the C library")]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowlock_fiber as fiber;
use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::calm;

/// Lets fibers talk over two sockets, so that their worker knows that reads there wait.
fn talk(mut one: &UnixStream, mut other: &UnixStream) {
    const ROUNDS: usize = 4;
    let read = |mut stream: &UnixStream| assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    fiber::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                read(one);
                one.write_all(b"x").unwrap();
            }
        });
        for _ in 0..ROUNDS {
            other.write_all(b"x").unwrap();
            read(other);
        }
    });
}

/// Two connected sockets at which fibers have waited.
fn known_pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    talk(&one, &other);
    (one, other)
}

/// Whether another fiber runs during a call, which then waits.
fn waits(call: impl FnOnce()) -> bool {
    let has_run = AtomicBool::new(false);
    fiber::scope(|scope| {
        scope.spawn(|| has_run.store(true, Relaxed));
        call();
        has_run.load(Relaxed)
    })
}

#[track_caller]
fn expect_no_wait(call: impl FnOnce()) {
    assert!(!waits(call));
}

fn expect_nothing_to_read(mut stream: &UnixStream) {
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Whether a read waits until another fiber writes.
fn expect_wait(mut one: &UnixStream, mut other: &UnixStream) {
    fiber::scope(|scope| {
        let reader = scope.spawn(move || one.read(&mut [0; 8]).unwrap());
        fiber::yield_now();
        assert!(!reader.is_finished());
        other.write_all(b"yes").unwrap();
        assert_eq!(reader.join().unwrap(), 3);
    });
}

#[test]
fn a_socket_that_was_made_nonblocking_does_not_wait_any_more_and_can_be_made_blocking_again() {
    calm::run(|| {
        let (one, other) = known_pair();
        let again = one.try_clone().unwrap();
        let by_fcntl = |on| {
            // SAFETY: it only changes a flag of this descriptor.
            unsafe { libc::fcntl(one.as_raw_fd(), libc::F_SETFL, if on { libc::O_NONBLOCK } else { 0 }) };
        };
        let by_thread =
            |on| std::thread::scope(|scope| scope.spawn(|| one.set_nonblocking(on).unwrap()).join().unwrap());
        let ways: [&dyn Fn(bool); 4] =
            [&|on| one.set_nonblocking(on).unwrap(), &|on| again.set_nonblocking(on).unwrap(), &by_fcntl, &by_thread];
        for set_nonblocking in ways {
            talk(&one, &other);
            set_nonblocking(true);
            expect_no_wait(|| expect_nothing_to_read(&one));
            set_nonblocking(false);
            expect_wait(&one, &other);
        }
    });
}

/// Makes a socket nonblocking by a call of the kernel, which nothing in this process sees.
fn expect_unseen_change_to_be_noticed() {
    let (one, other) = known_pair();
    ioctl_fionbio(&one, true).unwrap();
    assert!(waits(|| expect_nothing_to_read(&one)), "the worker did not know the socket");
    // From now on it asks.
    ioctl_fionbio(&one, false).unwrap();
    talk(&one, &other);
    ioctl_fionbio(&one, true).unwrap();
    expect_no_wait(|| expect_nothing_to_read(&one));
}

#[test]
fn a_change_that_nothing_in_the_process_sees_is_noticed_when_the_worker_is_idle() {
    testing::isolated(|| calm::run(expect_unseen_change_to_be_noticed));
}

#[test]
fn a_change_that_nothing_in_the_process_sees_is_noticed_if_the_worker_is_never_idle() {
    testing::isolated(|| {
        calm::run(|| {
            let is_over = AtomicBool::new(false);
            fiber::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        fiber::yield_now();
                    }
                });
                expect_unseen_change_to_be_noticed();
                is_over.store(true, Relaxed);
            });
        });
    });
}

#[test]
fn a_time_out_that_is_set_later_ends_a_read() {
    calm::run(|| {
        let (one, other) = known_pair();
        let again = one.try_clone().unwrap();
        for stream in [&one, &again] {
            talk(&one, &other);
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            expect_nothing_to_read(&one);
            stream.set_read_timeout(None).unwrap();
            expect_wait(&one, &other);
        }
    });
}

#[test]
fn a_time_out_that_is_set_by_the_kernel_alone_ends_a_read() {
    testing::isolated(|| {
        calm::run(|| {
            let (one, _other) = known_pair();
            set_socket_timeout(&one, Timeout::Recv, Some(Duration::from_millis(1))).unwrap();
            expect_nothing_to_read(&one);
        });
    });
}

#[test]
fn another_socket_with_the_number_of_a_known_one_is_another_one() {
    // No other test opens descriptors meanwhile.
    testing::isolated(|| {
        calm::run(|| {
            for keeps_old in [false, true] {
                let (old, mut other) = known_pair();
                let number = old.as_raw_fd();
                let kept: Option<OwnedFd> = keeps_old.then(|| old.as_fd().try_clone_to_owned().unwrap());
                talk(&old, &other);
                drop(old);
                let (new, peer) =
                    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
                assert_eq!(new.as_raw_fd(), number);
                let (new, peer) = (UnixStream::from(new), UnixStream::from(peer));
                expect_no_wait(|| expect_nothing_to_read(&new));
                drop((new, peer));

                let (new, peer) = UnixStream::pair().unwrap();
                assert_eq!(new.as_raw_fd(), number);
                if let Some(kept) = kept {
                    // What comes for the old one is not for the new one.
                    new.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
                    other.write_all(b"old").unwrap();
                    expect_nothing_to_read(&new);
                    new.set_read_timeout(None).unwrap();
                    assert_eq!(UnixStream::from(kept).read(&mut [0; 8]).unwrap(), 3);
                }
                expect_wait(&new, &peer);
                talk(&new, &peer);
            }
        });
    });
}

#[test]
fn a_socket_that_returns_to_its_number_has_the_mode_that_it_has_now() {
    testing::isolated(|| {
        calm::run(|| {
            let (first, _peer) = known_pair();
            let number = first.as_raw_fd();
            let kept = first.as_fd().try_clone_to_owned().unwrap();
            UnixStream::from(kept.try_clone().unwrap()).set_nonblocking(true).unwrap();
            drop(first);
            let (second, _other) = known_pair();
            assert_eq!(second.as_raw_fd(), number);
            drop(second);
            let first = UnixStream::from(kept.try_clone().unwrap());
            assert_eq!(first.as_raw_fd(), number);
            expect_no_wait(|| expect_nothing_to_read(&first));
        });
    });
}

#[test]
fn a_reader_that_has_received_all_gets_what_came_since_and_the_end() {
    calm::run(|| {
        let (mut one, mut other) = known_pair();
        for _ in 0..3 {
            other.write_all(b"abc").unwrap();
            assert_eq!(one.read(&mut [0; 2]).unwrap(), 2);
            assert_eq!(one.read(&mut [0; 2]).unwrap(), 1);
        }
        other.write_all(b"abc").unwrap();
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 3);
        other.shutdown(Shutdown::Write).unwrap();
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(one.read(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn a_child_that_was_forked_reads_at_a_socket_that_its_parent_knows() {
    calm::run(|| {
        let (one, mut other) = known_pair();
        // SAFETY: the child calls only what a signal handler may call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; there is room for the bytes.
            unsafe {
                let mut bytes = [0_u8; 8];
                let length = libc::recv(one.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0);
                libc::_exit(if length == 5 { 0 } else { 1 });
            }
        }
        other.write_all(b"child").unwrap();
        let mut status = 1;
        // SAFETY: there is room for the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    });
}

#[test]
fn a_read_at_a_known_socket_fails_when_the_runtime_ends() {
    let why = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&why);
    let _other = calm::run(move || {
        let (mut one, other) = known_pair();
        fiber::spawn(move || *seen.lock().unwrap() = one.read(&mut [0; 8]).err()).detach();
        fiber::yield_now();
        other
    });
    assert_eq!(why.lock().unwrap().take().unwrap().raw_os_error(), Some(libc::ECANCELED));
}
