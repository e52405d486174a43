//! The C library's barrier and mutex.
#![allow(unsafe_code)] // Calls the C library.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// `pthread_barrier_t`.
pub(crate) struct Barrier(Box<UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: a pthread barrier may be used by several threads at the same time.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// Returns `None` if the C library refuses, as for zero threads.
    pub(crate) fn new(threads: u32) -> Option<Barrier> {
        let mut barrier = MaybeUninit::uninit();
        // SAFETY: the pointers are to writable memory and null (for default attributes).
        let failure = unsafe { libc::pthread_barrier_init(barrier.as_mut_ptr(), std::ptr::null(), threads) };
        // SAFETY: it is initialized if there was no failure. It may be moved before its first use.
        (failure == 0).then(|| Barrier(Box::new(UnsafeCell::new(unsafe { barrier.assume_init() }))))
    }

    pub(crate) fn wait(&self) {
        // SAFETY: the barrier is initialized, and destroyed only with `self`.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed while any thread waits.
        unsafe { libc::pthread_barrier_destroy(self.0.get()) };
    }
}

/// A `pthread_mutex_t` of the default kind, with its value.
pub(crate) struct Mutex {
    mutex: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<u64>,
}

// SAFETY: a pthread mutex may be used by several threads, and only the holder accesses the value.
unsafe impl Sync for Mutex {}

impl Mutex {
    pub(crate) fn new() -> Mutex {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        Mutex { mutex, value: UnsafeCell::new(0) }
    }

    #[inline]
    pub(crate) fn with(&self, inside: impl FnOnce(&mut u64)) {
        // SAFETY: the mutex is initialized and does not move. `inside` cannot reach it, so it is
        // not locked recursively.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        // SAFETY: this thread holds the mutex, so there is no other reference to the value.
        inside(unsafe { &mut *self.value.get() });
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed while any thread holds it or waits.
        unsafe { libc::pthread_mutex_destroy(self.mutex.get()) };
    }
}
