//! The fields of C library objects that are read directly. The ABI fixes them, since macros in
//! headers have been compiled into programs. For 64-bit machines with the GNU C library.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicI32, fence};

use libc::{pthread_cond_t, pthread_condattr_t};

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

    /// The kernel's number of the thread that holds it. Zero if none does, or if the C library has
    /// replaced the lock by a transaction.
    #[inline]
    pub(crate) fn owner(&self) -> i32 {
        self.owner.load(Relaxed)
    }

    /// Whether this owner has released it, or never held it. If so, what it did before is visible.
    ///
    /// `unlock` first clears the owner, which has no effect on the order of other accesses, and
    /// then the lock, which has. The next thread first takes the lock, and then becomes the owner.
    pub(crate) fn is_released_by(&self, owner: i32) -> bool {
        let now = self.owner();
        let is_released = now != owner && (now != 0 || self.is_free());
        fence(Acquire);
        is_released
    }

    /// Whether it has a kind without special rules and is private to this process.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        PLAIN.contains(&(self.kind.load(Relaxed) & !ELISION))
    }
}

/// The words of a condition variable.
const WORDS: usize = size_of::<pthread_cond_t>() / size_of::<u32>();

/// The place of the word of a condition variable whose lowest bit says that it is shared between
/// processes. It differs between versions of the C library, and `None` means that this one has no
/// such word.
pub(crate) fn shared_word() -> Option<usize> {
    let [private, shared] = [libc::PTHREAD_PROCESS_PRIVATE, libc::PTHREAD_PROCESS_SHARED].map(condition_words);
    let (private, shared) = (private?, shared?);
    let mut different = (0..WORDS).filter(|&word| private[word] != shared[word]);
    let word = different.next()?;
    (different.next().is_none() && private[word] & 1 == 0 && shared[word] & 1 == 1).then_some(word)
}

/// The content of a new condition variable.
fn condition_words(shared: i32) -> Option<[u32; WORDS]> {
    let mut attributes = MaybeUninit::<pthread_condattr_t>::uninit();
    let mut words = [0; WORDS];
    // SAFETY: the attributes are initialized before their use, and there is room for the condition
    // variable, which has no resources.
    unsafe {
        let is_created = libc::pthread_condattr_init(attributes.as_mut_ptr()) == 0
            && libc::pthread_condattr_setpshared(attributes.as_mut_ptr(), shared) == 0
            && libc::pthread_cond_init(words.as_mut_ptr().cast(), attributes.as_ptr()) == 0;
        is_created.then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_condition_variables_are_distinguished_by_one_word() {
        let word = shared_word().unwrap();
        assert_eq!(condition_words(libc::PTHREAD_PROCESS_PRIVATE).unwrap()[word], 0);
        assert_eq!(condition_words(libc::PTHREAD_PROCESS_SHARED).unwrap()[word], 1);
    }

    #[test]
    fn a_mutex_records_its_owner_until_it_is_released() {
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: it is initialized, and neither moved nor used elsewhere.
        unsafe {
            let seen = Mutex::of(&raw const mutex);
            libc::pthread_mutex_lock(&raw mut mutex);
            let owner = seen.owner();
            assert_eq!(owner, libc::gettid());
            assert!(!seen.is_released_by(owner) && seen.is_released_by(owner + 1));
            libc::pthread_mutex_unlock(&raw mut mutex);
            assert!(seen.is_released_by(owner));
        }
    }

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
