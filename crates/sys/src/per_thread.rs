//! Thread-local values that are dropped when their thread ends.
//!
//! The `thread_local!` of the standard library registers a destructor when a thread first accesses
//! it, for which the C library takes the loader's lock. If a thread did so while a library is being
//! loaded whose constructor waits for that thread, both would wait forever. This module uses a key
//! of the C library's threads instead, which takes no lock.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

/// A value per thread, created by [`Default`] on the first access of the thread.
pub struct PerThread<T: 'static> {
    /// The key plus one, [`NO_KEY_YET`] or [`NO_MORE_KEYS`].
    ///
    /// It is not a [`OnceLock`](std::sync::OnceLock): the child of a fork would wait forever for a
    /// thread of its parent that creates the key.
    key: AtomicU32,
    values: PhantomData<fn() -> T>,
}

const NO_KEY_YET: u32 = 0;
/// The C library has no more keys.
const NO_MORE_KEYS: u32 = u32::MAX;

impl<T: Default> PerThread<T> {
    /// No thread has a value yet.
    pub const fn new() -> PerThread<T> {
        PerThread { key: AtomicU32::new(NO_KEY_YET), values: PhantomData }
    }

    /// Calls a closure with the value of the calling thread. Returns `None` without room for it.
    ///
    /// Allocates on the first access. Values are dropped when their threads end, but not when the
    /// process ends. A thread that accesses its value again while it ends gets a new one.
    #[inline]
    pub fn with<R>(&'static self, act: impl FnOnce(&T) -> R) -> Option<R> {
        let key = self.key()?;
        // SAFETY: the key is valid and never deleted.
        let mut value = unsafe { libc::pthread_getspecific(key) }.cast::<T>();
        if value.is_null() {
            // A vector, since a box without memory ends the process.
            let mut one = Vec::new();
            one.try_reserve_exact(1).ok()?;
            one.push(T::default());
            value = Box::into_raw(one.into_boxed_slice()).cast::<T>();
            // SAFETY: as above; the key owns the value now, and its destructor frees it.
            if unsafe { libc::pthread_setspecific(key, value.cast()) } != 0 {
                // SAFETY: the key did not take the value, so it is still owned here.
                drop(unsafe { Box::from_raw(value) });
                return None;
            }
        }
        // SAFETY: the value is this thread's own, is in a box, and lives until it ends.
        Some(act(unsafe { &*value }))
    }

    /// The key, which the first call creates.
    fn key(&self) -> Option<libc::pthread_key_t> {
        let mut key = self.key.load(Acquire);
        if key == NO_KEY_YET {
            let new = new_key::<T>();
            key = new.map_or(NO_MORE_KEYS, |new| new + 1);
            if let Err(earlier) = self.key.compare_exchange(NO_KEY_YET, key, AcqRel, Acquire) {
                if let Some(new) = new {
                    // SAFETY: no other code has this key.
                    unsafe { libc::pthread_key_delete(new) };
                }
                key = earlier;
            }
        }
        (key != NO_MORE_KEYS).then(|| key - 1)
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new()
    }
}

fn new_key<T>() -> Option<libc::pthread_key_t> {
    /// # Safety
    /// The value is from a `Box<T>`, which nothing owns any more.
    unsafe extern "C" fn drop_value<T>(value: *mut libc::c_void) {
        // SAFETY: `with` gave the value to the key, which has forgotten it by now.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    }

    let mut key = 0;
    // SAFETY: there is room for the key, and the destructor matches the values stored under it.
    (unsafe { libc::pthread_key_create(&raw mut key, Some(drop_value::<T>)) } == 0).then_some(key)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn each_thread_has_its_own_value_until_it_ends() {
        static DROPPED: AtomicUsize = AtomicUsize::new(0);

        #[derive(Default)]
        struct Counted(Cell<usize>);

        impl Drop for Counted {
            fn drop(&mut self) {
                DROPPED.fetch_add(self.0.get(), SeqCst);
            }
        }

        static VALUES: PerThread<Counted> = PerThread::new();
        let count = || {
            VALUES.with(|value| {
                value.0.set(value.0.get() + 1);
                value.0.get()
            })
        };
        for _ in 0..3 {
            std::thread::spawn(move || assert_eq!((count(), count()), (Some(1), Some(2)))).join().unwrap();
        }
        assert_eq!(DROPPED.load(SeqCst), 6);
        assert_eq!(count(), Some(1));
    }
}
