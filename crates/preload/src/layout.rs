//! What of the C library's objects is looked at directly: where the ABI fixes it, since macros in headers have been compiled into
//! programs. On 64-bit machines with the GNU C library.

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

/// The kinds without rules of their own: `PTHREAD_MUTEX_NORMAL`, which is the default, and `PTHREAD_MUTEX_ADAPTIVE_NP`.
const PLAIN: [i32; 2] = [0, 3];
/// Bits that say whether the lock may be elided by a transaction, which is no rule.
const ELISION: i32 = 256 | 512;

impl Mutex {
    /// # Safety
    /// It is a mutex that is initialised, and stays so for `'a`.
    pub(crate) unsafe fn of<'a>(mutex: *const libc::pthread_mutex_t) -> &'a Mutex {
        // SAFETY: a mutex begins like this; what changes in it is only ever looked at as atomic.
        unsafe { &*mutex.cast() }
    }

    /// Whether nobody has it.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.lock.load(Relaxed) == 0
    }

    /// Whether it is of a kind without rules of its own, and of this process alone.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        PLAIN.contains(&(self.kind.load(Relaxed) & !ELISION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a mutex of a kind, and says what it is taken for.
    fn is_plain(prepare: impl Fn(*mut libc::pthread_mutexattr_t)) -> bool {
        let mut attributes = std::mem::MaybeUninit::uninit();
        let mut mutex = std::mem::MaybeUninit::uninit();
        // SAFETY: both are initialised before they are used.
        unsafe {
            assert_eq!(libc::pthread_mutexattr_init(attributes.as_mut_ptr()), 0);
            prepare(attributes.as_mut_ptr());
            assert_eq!(libc::pthread_mutex_init(mutex.as_mut_ptr(), attributes.as_ptr()), 0);
            Mutex::of(mutex.as_ptr()).is_plain()
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        use libc::*;
        assert!(is_plain(|_| ()));
        // SAFETY: the attributes are initialised.
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
    fn a_mutex_that_is_held_is_seen_to_be() {
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: it is initialised, and neither moved nor used elsewhere.
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
