use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::thread::spawn;

use super::renewal::GLOBAL_LOCALE;
use super::*;
use crate::thread_block::tests::{library, load, next};

thread_local! {
    static KEPT: Cell<[usize; 3]> = const { Cell::new([1; 3]) };
    static COUNT: Cell<usize> = const { Cell::new(7) };
    static ZERO: Cell<[u8; 100]> = const { Cell::new([0; 100]) };
    static LAST: RefCell<Option<Logs>> = const { RefCell::new(None) };
}

static LOG: Mutex<Vec<usize>> = Mutex::new(Vec::new());

struct Logs;

impl Drop for Logs {
    fn drop(&mut self) {
        LOG.lock().unwrap().push(COUNT.replace(0));
    }
}

fn end_thread() {
    let kept = KEPT.with(Cell::as_ptr).addr();
    // SAFETY: none is borrowed.
    unsafe { end(kept..kept + size_of::<[usize; 3]>()) };
}

#[test]
fn thread_locals_are_new_except_for_the_one_that_is_kept() {
    let run = || {
        for round in 0..3 {
            assert_eq!((COUNT.get(), ZERO.get()), (7, [0; 100]));
            assert_eq!(KEPT.get(), [if round == 0 { 1 } else { 2 }; 3]);
            KEPT.set([2; 3]);
            COUNT.set(8);
            ZERO.set([1; 100]);
            end_thread();
        }
    };
    spawn(run).join().unwrap();
}

#[test]
fn destructors_run_once_and_see_the_thread_locals_of_their_thread() {
    testing::isolated(|| {
        let run = || {
            for count in 1..4 {
                COUNT.set(count);
                LAST.with_borrow_mut(|last| *last = Some(Logs));
                end_thread();
                end_thread();
            }
        };
        spawn(run).join().unwrap();
        assert_eq!(*LOG.lock().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn each_thread_that_ends_has_been_another_one() {
    let run = || {
        let threads = [(); 3].map(|()| {
            let thread = std::thread::current().id();
            end_thread();
            thread
        });
        assert!(threads[0] != threads[1] && threads[1] != threads[2] && threads[0] != threads[2]);
    };
    spawn(run).join().unwrap();
}

#[test]
fn a_value_that_a_destructor_of_a_key_has_set_has_its_destructor_run_as_well() {
    static KEY: Mutex<u32> = Mutex::new(0);
    extern "C" fn again(value: *mut libc::c_void) {
        LOG.lock().unwrap().push(value.addr());
        if value.addr() < 100 {
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(*KEY.lock().unwrap(), with_exposed_provenance(value.addr() + 1)) };
        }
    }
    testing::isolated(|| {
        let mut other = 0;
        // SAFETY: there is room for keys, and values are no addresses.
        unsafe {
            assert_eq!(libc::pthread_key_create(&raw mut *KEY.lock().unwrap(), Some(again)), 0);
            // In another table.
            for _ in 0..40 {
                assert_eq!(libc::pthread_key_create(&raw mut other, Some(again)), 0);
            }
        }
        let run = move || {
            // SAFETY: as above.
            unsafe {
                libc::pthread_setspecific(*KEY.lock().unwrap(), with_exposed_provenance(99));
                libc::pthread_setspecific(other, with_exposed_provenance(200));
                end_thread();
                assert!(libc::pthread_getspecific(other).is_null());
                libc::pthread_setspecific(*KEY.lock().unwrap(), with_exposed_provenance(1));
                end_thread();
                assert!(libc::pthread_getspecific(*KEY.lock().unwrap()).is_null(), "after some rounds");
            }
            end_thread();
        };
        spawn(run).join().unwrap();
        assert_eq!(*LOG.lock().unwrap(), [99, 200, 100, 1, 2, 3, 4]);
    });
}

#[test]
fn thread_locals_of_libraries_that_are_loaded_later_are_new() {
    let folder = tempfile::tempdir().unwrap();
    spawn(end_thread).join().unwrap();
    for model in ["initial-exec", "global-dynamic"] {
        let path = library(folder.path(), model);
        // SAFETY: it is the path of a library, and its function.
        let run = move || unsafe {
            let function = load(path.as_ptr().expose_provenance());
            for _ in 0..3 {
                assert_eq!([0; 2].map(|_| next(function)), [42, 43], "{model}");
                end_thread();
            }
        };
        spawn(run).join().unwrap();
    }
}

#[test]
fn the_last_error_and_the_locale_are_those_of_a_new_thread() {
    // SAFETY: the locale is not in use when it is freed.
    let run = || unsafe {
        end_thread();
        let own = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), null_mut());
        libc::uselocale(own);
        *libc::__errno_location() = 7;
        end_thread();
        assert_eq!((libc::uselocale(null_mut()), *libc::__errno_location()), (GLOBAL_LOCALE, 0));
        libc::freelocale(own);
    };
    spawn(run).join().unwrap();
}

#[test]
fn a_robust_mutex_tells_the_next_thread_that_its_owner_has_ended() {
    let run = || {
        let mut mutexes = [libc::PTHREAD_MUTEX_INITIALIZER; 2];
        let [one, other] = &mut mutexes;
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: attributes and mutexes are initialized before they are used.
        unsafe {
            libc::pthread_mutexattr_init(attributes.as_mut_ptr());
            libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
            for mutex in [&raw mut *one, &raw mut *other] {
                libc::pthread_mutex_init(mutex, attributes.as_ptr());
                assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            }
            assert_eq!(libc::pthread_mutex_unlock(other), 0);
            end_thread();
            assert_eq!(libc::pthread_mutex_trylock(one), libc::EOWNERDEAD);
            assert_eq!((libc::pthread_mutex_consistent(one), libc::pthread_mutex_unlock(one)), (0, 0));
            assert_eq!((libc::pthread_mutex_trylock(other), libc::pthread_mutex_unlock(other)), (0, 0));
        }
        end_thread();
    };
    spawn(run).join().unwrap();
}
