//! Locks of the C library that know their owner.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use ways::{switch, together, until};

unsafe extern "C" {
    fn ftrylockfile(file: *mut libc::FILE) -> c_int;
    fn funlockfile(file: *mut libc::FILE);
    fn flockfile(file: *mut libc::FILE);
}

/// A mutex of the C library, which is never freed.
struct Mutex(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: it is a mutex.
unsafe impl Sync for Mutex {}

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Recursive,
    Checked,
    Robust,
    Inheriting,
}

impl Mutex {
    fn new(kind: Kind) -> Mutex {
        let mut attributes = MaybeUninit::uninit();
        let mutex = Mutex(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the attributes are initialised before they are used, and so is the mutex.
        let results = unsafe {
            let attributes = attributes.as_mut_ptr();
            libc::pthread_mutexattr_init(attributes);
            let set = match kind {
                Kind::Plain => 0,
                Kind::Recursive => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_RECURSIVE),
                Kind::Checked => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK),
                Kind::Robust => libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST),
                Kind::Inheriting => libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT),
            };
            [set, libc::pthread_mutex_init(mutex.0.get(), attributes)]
        };
        assert_eq!(results, [0, 0]);
        mutex
    }

    fn lock(&self) -> c_int {
        // SAFETY: it is initialised, and stays.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    fn try_lock(&self) -> c_int {
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) }
    }

    fn lock_within(&self, seconds: i64) -> c_int {
        let mut end = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: as above, and there is room for the time.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut end);
            end.tv_sec += seconds;
            libc::pthread_mutex_timedlock(self.0.get(), &raw const end)
        }
    }

    fn unlock(&self) -> c_int {
        // SAFETY: as above. A lock that knows its owner refuses others.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }
}

/// Lets strand 0 own something while strand 1 looks at it.
fn owned<T: Send>(own: impl Fn() + Sync, look: impl Fn() -> T + Sync, release: impl Fn() + Sync) -> Vec<Option<T>> {
    let step = AtomicUsize::new(0);
    together(2, |who| {
        if who == 0 {
            own();
            step.store(1, SeqCst);
            until(|| step.load(SeqCst) == 2);
            release();
            return None;
        }
        until(|| step.load(SeqCst) == 1);
        let seen = look();
        step.store(2, SeqCst);
        Some(seen)
    })
}

fn a_recursive_mutex_belongs_to_its_strand() -> Vec<Option<(c_int, c_int)>> {
    let mutex = Mutex::new(Kind::Recursive);
    let own = || assert_eq!((mutex.lock(), mutex.lock()), (0, 0));
    let release = || assert_eq!((mutex.unlock(), mutex.unlock()), (0, 0));
    owned(own, || (mutex.try_lock(), mutex.unlock()), release)
}

fn a_mutex_that_checks_finds_deadlocks_and_other_owners() -> Vec<Option<(c_int, c_int)>> {
    let mutex = Mutex::new(Kind::Checked);
    let own = || assert_eq!((mutex.lock(), mutex.lock()), (0, libc::EDEADLK));
    owned(own, || (mutex.try_lock(), mutex.unlock()), || assert_eq!(mutex.unlock(), 0))
}

fn a_robust_mutex_tells_that_its_owner_has_ended() -> (Vec<c_int>, Vec<c_int>) {
    let mutex = Mutex::new(Kind::Robust);
    let locks = together(1, |_| mutex.lock());
    let tries = together(1, |_| {
        let tries = mutex.try_lock();
        // SAFETY: it is initialised.
        unsafe { libc::pthread_mutex_consistent(mutex.0.get()) };
        mutex.unlock();
        tries
    });
    (locks, tries)
}

fn a_mutex_that_inherits_priority_is_handed_over() -> Vec<c_int> {
    let (mutex, step) = (Mutex::new(Kind::Inheriting), AtomicUsize::new(0));
    together(2, |who| {
        if who == 0 {
            let locks = mutex.lock();
            step.store(1, SeqCst);
            until(|| step.load(SeqCst) == 2);
            (0..50).for_each(|_| switch());
            return locks + mutex.unlock();
        }
        until(|| step.load(SeqCst) == 1);
        step.store(2, SeqCst);
        let locks = mutex.lock_within(20);
        if locks == 0 { mutex.unlock() } else { locks }
    })
}

fn strands_wait_for_mutexes_whose_owners_switch() -> usize {
    let kinds = [Kind::Plain, Kind::Recursive, Kind::Checked, Kind::Robust, Kind::Inheriting];
    let (mutexes, inside, locks) = (kinds.map(Mutex::new), AtomicUsize::new(0), AtomicUsize::new(0));
    for mutex in &mutexes {
        together(3, |_| {
            for _ in 0..4 {
                assert_eq!(mutex.lock(), 0);
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                switch();
                inside.fetch_sub(1, SeqCst);
                assert_eq!(mutex.unlock(), 0);
                locks.fetch_add(1, SeqCst);
            }
        });
    }
    locks.into_inner()
}

/// An object of the C library, which stays in its place.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: it is for all threads.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0.get()
    }
}

fn strands_wait_for_a_read_write_lock_whose_owners_switch() -> Vec<usize> {
    let (lock, values) = (Shared(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)), [0; 2].map(AtomicUsize::new));
    together(4, |who| {
        for _ in 0..4 {
            // SAFETY: it is initialised, and the strand has locked it before it unlocks it.
            unsafe {
                if who == 0 {
                    assert_eq!(libc::pthread_rwlock_wrlock(lock.get()), 0);
                    values[0].fetch_add(1, SeqCst);
                    switch();
                    values[1].fetch_add(1, SeqCst);
                } else {
                    assert_eq!(libc::pthread_rwlock_rdlock(lock.get()), 0);
                    let before = values[0].load(SeqCst);
                    switch();
                    assert_eq!(values[1].load(SeqCst), before);
                }
                assert_eq!(libc::pthread_rwlock_unlock(lock.get()), 0);
            }
        }
    });
    values.map(AtomicUsize::into_inner).to_vec()
}

fn strands_take_turns_by_a_condition_variable() -> Vec<usize> {
    let changed = Shared(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER));
    let (mutex, turn) = (Mutex::new(Kind::Recursive), AtomicUsize::new(0));
    together(3, |who| {
        (0..4)
            .map(|round| {
                assert_eq!(mutex.lock(), 0);
                while turn.load(SeqCst) != round * 3 + who {
                    // SAFETY: both are initialised, and the mutex is locked.
                    assert_eq!(unsafe { libc::pthread_cond_wait(changed.get(), mutex.0.get()) }, 0);
                }
                switch();
                let number = turn.fetch_add(1, SeqCst);
                // SAFETY: it is initialised.
                assert_eq!(unsafe { libc::pthread_cond_broadcast(changed.get()) }, 0);
                assert_eq!(mutex.unlock(), 0);
                number
            })
            .sum()
    })
}

/// A stream is locked by its thread, which may lock it again.
fn a_stream_belongs_to_its_strand() -> Vec<Option<bool>> {
    /// A stream.
    struct Stream(*mut libc::FILE);
    // SAFETY: it has a lock.
    unsafe impl Sync for Stream {}
    // SAFETY: the path and the mode are strings.
    let stream = Stream(unsafe { libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr()) });
    let stream = &stream;
    // SAFETY: the stream is open, and the owner of the lock releases it.
    unsafe {
        owned(
            || (0..2).for_each(|_| flockfile(stream.0)),
            || ftrylockfile(stream.0) != 0,
            || (0..2).for_each(|_| funlockfile(stream.0)),
        )
    }
}

mod switching {
    use super::*;
    ways::in_every_way! {
        a_recursive_mutex_belongs_to_its_strand
        a_mutex_that_checks_finds_deadlocks_and_other_owners
        a_robust_mutex_tells_that_its_owner_has_ended
        a_stream_belongs_to_its_strand
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        if_calls_are_interposed;
        a_mutex_that_inherits_priority_is_handed_over
        strands_wait_for_mutexes_whose_owners_switch
        strands_wait_for_a_read_write_lock_whose_owners_switch
        strands_take_turns_by_a_condition_variable
    }
}
