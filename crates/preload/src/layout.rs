//! The fields of C library objects that are read directly. The ABI fixes them, since macros in
//! headers have been compiled into programs. For 64-bit machines with the GNU C library.

use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// The beginning of a `pthread_mutex_t`.
#[repr(C)]
pub(crate) struct Mutex {
    lock: AtomicI32,
    count: AtomicI32,
    owner: AtomicI32,
    users: AtomicI32,
    kind: AtomicI32,
}

/// The kinds without special rules: `PTHREAD_MUTEX_NORMAL`, the default, and
/// `PTHREAD_MUTEX_ADAPTIVE_NP`.
const PLAIN: [i32; 2] = [0, 3];
/// Bits for lock elision by transactions, which does not change the rules.
const ELISION: i32 = 256 | 512;

impl Mutex {
    /// Views a mutex.
    ///
    /// # Safety
    /// The mutex is initialized, and stays so for `'a`.
    pub(crate) unsafe fn of<'a>(mutex: *const libc::pthread_mutex_t) -> &'a Mutex {
        // SAFETY: a mutex begins like this; its changing fields are only read atomically.
        unsafe { &*mutex.cast() }
    }

    /// Whether no thread holds it.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.lock.load(Relaxed) == 0
    }

    /// Whether it has a kind without special rules and is private to this process.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        PLAIN.contains(&(self.kind.load(Relaxed) & !ELISION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a mutex of a kind, and returns whether it is considered plain.
    fn is_plain(prepare: impl Fn(*mut libc::pthread_mutexattr_t)) -> bool {
        let mut attributes = std::mem::MaybeUninit::uninit();
        let mut mutex = std::mem::MaybeUninit::uninit();
        // SAFETY: both are initialized before they are used.
        unsafe {
            assert_eq!(libc::pthread_mutexattr_init(attributes.as_mut_ptr()), 0);
            prepare(attributes.as_mut_ptr());
            assert_eq!(libc::pthread_mutex_init(mutex.as_mut_ptr(), attributes.as_ptr()), 0);
            Mutex::of(mutex.as_ptr()).is_plain()
        }
    }

    #[test]
    fn kinds_are_distinguished() {
        use libc::*;
        assert!(is_plain(|_| ()));
        // SAFETY: the attributes are initialized.
        unsafe {
            assert!(is_plain(|it| assert_eq!(pthread_mutexattr_settype(it, PTHREAD_MUTEX_NORMAL), 0)));
            assert!(is_plain(|it| assert_eq!(pthread_mutexattr_settype(it, 3), 0)));
            assert!(!is_plain(|it| assert_eq!(pthread_mutexattr_settype(it, PTHREAD_MUTEX_RECURSIVE), 0)));
            assert!(!is_plain(|it| assert_eq!(pthread_mutexattr_settype(it, PTHREAD_MUTEX_ERRORCHECK), 0)));
            assert!(!is_plain(|it| assert_eq!(pthread_mutexattr_setrobust(it, PTHREAD_MUTEX_ROBUST), 0)));
            assert!(!is_plain(|it| assert_eq!(pthread_mutexattr_setpshared(it, PTHREAD_PROCESS_SHARED), 0)));
            assert!(!is_plain(|it| assert_eq!(pthread_mutexattr_setprotocol(it, PTHREAD_PRIO_INHERIT), 0)));
        }
    }

    #[test]
    fn a_held_mutex_is_not_free() {
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: it is initialized, and neither moved nor used elsewhere.
        unsafe {
            let seen = Mutex::of(&raw const mutex);
            assert!(seen.is_free());
            libc::pthread_mutex_lock(&raw mut mutex);
            assert!(!seen.is_free());
            libc::pthread_mutex_unlock(&raw mut mutex);
            assert!(seen.is_free());
        }
    }
}
