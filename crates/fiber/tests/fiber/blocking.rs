//! Blocking calls on other kernel threads, and files.

use std::fs::File;
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
        // It waits for what another fiber does later: if it stopped that one, this would never end.
        let waits = fiber::spawn(move || fiber::blocking(move || receive.recv().unwrap()));
        fiber::yield_now();
        send.send(7).unwrap();
        assert_eq!(waits.join().unwrap(), 7);
    });
}

#[test]
fn a_runtime_whose_fibers_all_wait_for_calls_is_not_deadlocked() {
    let main = std::thread::current().id();
    let other = fiber::run(|| fiber::blocking(|| std::thread::current().id()));
    assert_ne!(main, other);
}

#[test]
fn calls_that_wait_for_each_other_get_a_thread_each() {
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
fn thousands_of_calls_at_once_are_queued() {
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
fn a_panic_of_a_call_reaches_the_fiber() {
    fiber::run(|| {
        let panicked = catch_unwind(AssertUnwindSafe(|| fiber::blocking(|| panic!("over there"))));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "over there");
        let error = fiber::spawn(|| fiber::blocking(|| -> u32 { panic!("there, too") })).join().unwrap_err();
        assert_eq!(error.to_string(), "the fiber panicked: there, too");
        assert_eq!(fiber::blocking(|| "all is well"), "all is well");
    });
}

#[test]
fn a_runtime_ends_without_waiting_for_its_calls_which_end_later() {
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
fn a_fiber_that_never_waits_does_not_keep_others_from_their_answers() {
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
fn a_call_outside_a_runtime_is_made_directly() {
    assert_eq!(fiber::blocking(|| std::thread::current().id()), std::thread::current().id());
}

#[test]
fn files_can_be_read_written_and_sought() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fiber::run(|| {
        std::fs::write(&path, "some words").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "some words");
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(5)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "words");
        file.write_all(&vec![b'!'; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        // From the disk, unless the file system is in memory.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.split_off(10), vec![b'!'; 3 << 20]);
        assert_eq!(fiber::blocking(move || file.stream_position().unwrap()), 10 + (3 << 20));
        assert_eq!(File::open(folder.path().join("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    });
}

#[test]
fn an_idle_thread_of_the_pool_waits_for_more_calls() {
    fiber::run(|| {
        let first = fiber::blocking(|| std::thread::current().id());
        fiber::sleep(Duration::from_millis(5));
        // Other tests use the pool, so it need not be the same thread; but the call is answered.
        let _ = fiber::blocking(move || std::thread::current().id() == first);
    });
}
