//! The C library's barrier and mutex.
#![allow(unsafe_code)] // They are reached by raw calls.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// `pthread_barrier_t`.
pub(crate) struct Barrier(Box<UnsafeCell<libc::pthread_barrier_t>>);

// SAFETY: a pthread barrier is made for being used by several threads at once.
unsafe impl Sync for Barrier {}

impl Barrier {
    /// Nothing where the C library refuses: it does for no threads at all.
    pub(crate) fn new(threads: u32) -> Option<Barrier> {
        let mut barrier = MaybeUninit::uninit();
        // SAFETY: the pointers are to writable memory and null (for default attributes).
        let failure = unsafe { libc::pthread_barrier_init(barrier.as_mut_ptr(), std::ptr::null(), threads) };
        // SAFETY: it was initialised where there was no failure. Moving it is in order before its first use.
        (failure == 0).then(|| Barrier(Box::new(UnsafeCell::new(unsafe { barrier.assume_init() }))))
    }

    pub(crate) fn wait(&self) {
        // SAFETY: the barrier is initialised, and destroyed only with `self`.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed while anybody waits.
        unsafe { libc::pthread_barrier_destroy(self.0.get()) };
    }
}

/// `pthread_mutex_t` of the default kind, with what it protects.
pub(crate) struct Mutex {
    mutex: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<u64>,
}

// SAFETY: a pthread mutex is made for several threads, and the value is touched only by the one that holds it.
unsafe impl Sync for Mutex {}

impl Mutex {
    pub(crate) fn new() -> Mutex {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        Mutex { mutex, value: UnsafeCell::new(0) }
    }

    #[inline]
    pub(crate) fn with(&self, inside: impl FnOnce(&mut u64)) {
        // SAFETY: the mutex is initialised and stays where it is. `inside` cannot reach it, so it is not taken twice.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        // SAFETY: nobody else holds the mutex, so nobody else has a reference to the value.
        inside(unsafe { &mut *self.value.get() });
        // SAFETY: this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // SAFETY: `self` is borrowed while anybody holds it or waits.
        unsafe { libc::pthread_mutex_destroy(self.mutex.get()) };
    }
}
