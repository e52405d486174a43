//! Calls that are made by other kernel threads.

use std::io::{Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use rowlock_fiber as fiber;

#[test]
fn others_run_while_a_call_blocks() {
    fiber::run(|| {
        let (send, receive) = mpsc::channel::<u32>();
        // It waits for what another fiber does later: were it to stop that one, this would never end.
        let waits = fiber::spawn(move || fiber::blocking(move || receive.recv().unwrap()));
        fiber::yield_now();
        send.send(7).unwrap();
        assert_eq!(waits.join().unwrap(), 7);
    });
}

#[test]
fn a_runtime_in_which_all_wait_for_calls_is_no_deadlock() {
    let main = std::thread::current().id();
    let other = fiber::run(|| fiber::blocking(|| std::thread::current().id()));
    assert_ne!(main, other);
}

#[test]
fn calls_that_wait_for_each_other_have_a_thread_each() {
    let barrier = Arc::new(Barrier::new(50));
    fiber::run(|| {
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                fiber::spawn(move || fiber::blocking(move || barrier.wait().is_leader()))
            })
            .collect();
        assert_eq!(
            calls.into_iter().filter(|_| true).map(|call| call.join().unwrap()).filter(|leads| *leads).count(),
            1
        );
    });
}

#[test]
fn thousands_of_calls_at_once_take_their_turn() {
    let made = Arc::new(AtomicUsize::new(0));
    let sum: usize = fiber::run(|| {
        let calls: Vec<_> = (0..5000)
            .map(|i| {
                let made = Arc::clone(&made);
                fiber::spawn(move || {
                    fiber::blocking(move || {
                        made.fetch_add(1, Relaxed);
                        i
                    })
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!((sum, made.load(Relaxed)), (4999 * 5000 / 2, 5000));
}

#[test]
fn a_call_that_panics_does_so_in_the_fiber() {
    fiber::run(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| fiber::blocking(|| panic!("over there"))));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "over there");
        let error = fiber::spawn(|| fiber::blocking(|| -> u32 { panic!("there, too") })).join().unwrap_err();
        assert_eq!(error.to_string(), "the fiber panicked: there, too");
        assert_eq!(fiber::blocking(|| "all is well"), "all is well");
    });
}

#[test]
fn a_runtime_ends_without_waiting_for_its_calls_and_they_end_without_it() {
    struct Tells(mpsc::Sender<&'static str>, &'static str);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(self.1).unwrap();
        }
    }
    let (tell, told) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    fiber::run(move || {
        let fibers = Tells(tell.clone(), "the fiber has unwound");
        let result = Tells(tell, "the result was dropped");
        fiber::spawn(move || {
            let _fibers = fibers;
            fiber::blocking(move || {
                wait.recv().unwrap();
                result
            });
        })
        .detach();
        fiber::yield_now();
    });
    assert_eq!(told.recv().unwrap(), "the fiber has unwound");
    assert!(told.try_recv().is_err());
    go_on.send(()).unwrap();
    assert_eq!(told.recv().unwrap(), "the result was dropped");
}

#[test]
fn a_fiber_that_never_waits_does_not_keep_answers_from_others() {
    fiber::run(|| {
        let answered = Arc::new(AtomicUsize::new(0));
        let sees = Arc::clone(&answered);
        fiber::spawn(move || {
            fiber::blocking(|| ());
            sees.store(1, Relaxed);
        })
        .detach();
        while answered.load(Relaxed) == 0 {
            fiber::yield_now();
        }
    });
}

#[test]
fn a_call_outside_of_a_runtime_is_just_made() {
    assert_eq!(fiber::blocking(|| std::thread::current().id()), std::thread::current().id());
}

#[test]
fn files_are_read_written_and_sought_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fiber::run(|| {
        fiber::fs::write(&path, "some words").unwrap();
        assert_eq!(fiber::fs::read_to_string(&path).unwrap(), "some words");
        let mut file = fiber::fs::File::open_with(std::fs::OpenOptions::new().read(true).write(true), &path).unwrap();
        file.seek(SeekFrom::Start(5)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "words");
        // More than goes in one call.
        file.write_all(&vec![b'!'; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.call(std::fs::File::metadata).unwrap().len(), 10 + (3 << 20));
        let mut file = file.into_std().unwrap();
        assert_eq!(file.stream_position().unwrap(), 10 + (3 << 20));
        let mut whole = fiber::fs::read(&path).unwrap();
        assert_eq!(whole.split_off(10), vec![b'!'; 3 << 20]);
        assert_eq!(fiber::fs::File::open(folder.path().join("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    });
}

#[test]
fn a_thread_of_the_pool_that_has_nothing_to_do_waits_for_more() {
    fiber::run(|| {
        let first = fiber::blocking(|| std::thread::current().id());
        fiber::sleep(Duration::from_millis(5));
        // Not necessarily the same one, as other tests use the pool; but it is answered.
        let _ = fiber::blocking(move || std::thread::current().id() == first);
    });
}
