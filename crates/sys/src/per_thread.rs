//! A value of each thread's own, which is dropped when the thread ends.
//!
//! As the standard library's `thread_local!`, but of another make. That one registers what has to be dropped when a thread first comes to
//! it, for which the C library takes the loader's lock. A thread that did so while a library is being loaded whose
//! constructor waits for that thread would wait for ever. This one keeps to a key of the C library's threads, which takes no
//! lock.

use std::marker::PhantomData;
use std::sync::OnceLock;

/// A value for each thread, made by [`Default`] when the thread first asks for it.
pub struct PerThread<T: 'static> {
    /// Nothing where the C library has no more keys.
    key: OnceLock<Option<libc::pthread_key_t>>,
    values: PhantomData<fn() -> T>,
}

impl<T: Default> PerThread<T> {
    /// No thread has a value yet.
    pub const fn new() -> PerThread<T> {
        PerThread { key: OnceLock::new(), values: PhantomData }
    }

    /// Does something with the calling thread's value. Nothing where there is none, since the C library has no more room for
    /// such.
    ///
    /// Takes memory the first time. Values are dropped when their threads end, but not at the end of the process; a thread that asks again while it
    /// ends gets a new value, which the C library has dropped as well.
    pub fn with<R>(&'static self, act: impl FnOnce(&T) -> R) -> Option<R> {
        let key = (*self.key.get_or_init(new_key::<T>))?;
        // SAFETY: the key is one, and never deleted.
        let mut value = unsafe { libc::pthread_getspecific(key) }.cast::<T>();
        if value.is_null() {
            value = Box::into_raw(Box::<T>::default());
            // SAFETY: as above; the value is given to the key, whose destructor takes it back.
            if unsafe { libc::pthread_setspecific(key, value.cast()) } != 0 {
                // SAFETY: it was not taken, so it is still ours.
                drop(unsafe { Box::from_raw(value) });
                return None;
            }
        }
        // SAFETY: the value belongs to this thread, was made by a box, and is there until the thread ends.
        Some(act(unsafe { &*value }))
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new()
    }
}

fn new_key<T>() -> Option<libc::pthread_key_t> {
    unsafe extern "C" fn drop_it<T>(value: *mut libc::c_void) {
        // SAFETY: it is what `with` has given to the key, which forgets it now.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    }

    let mut key = 0;
    // SAFETY: there is room for the key; the destructor is for what is kept by it.
    (unsafe { libc::pthread_key_create(&raw mut key, Some(drop_it::<T>)) } == 0).then_some(key)
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
