//! The end of a thread, as other code sees it, if what it ran on goes to another thread: its
//! destructors run, its robust mutexes are released, and its thread-locals become new.
//!
//! The C library does this when a kernel thread ends. A fiber ends without one, and its thread
//! control block is used by the next fiber. What the C library does not offer by itself:
//!
//! * `__call_tls_dtors` runs the destructors that languages have registered for thread-locals.
//! * The values of `pthread_key_create` and their destructors are where the C library tells
//!   debuggers that they are (`_thread_db_...`). A flag says whether there is a value. It follows
//!   them, which is tried out.
//! * Thread-locals become new (see the module `renewal`).
//!
//! With another C library than GNU's, nothing is done. Nor is this for programs with a sanitizer,
//! which has state of its own in thread-locals and keys.

mod renewal;

use std::ffi::CStr;
use std::mem::transmute;
use std::ops::Range;
use std::ptr::{NonNull, null, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use self::renewal::Renewal;
use crate::futex::{self, Scope};
use crate::thread_block::{robust_list, thread_pointer};

/// The facts that hold for all threads. Offsets are from the thread pointer, wrapping around.
struct Facts {
    run_destructors: unsafe extern "C" fn(),
    keys: Option<Keys>,
    /// The offset of the list of robust mutexes.
    robust_list: Option<usize>,
    renewal: Option<Renewal>,
}

/// Where values of keys are.
struct Keys {
    /// For each key its generation and its destructor.
    all: NonNull<[usize; 2]>,
    /// The offset of a table of tables, each for [`KEYS`] values.
    tables: usize,
    /// The offset of the flag that there are values.
    flag: usize,
}

// SAFETY: what the pointers refer to stays as long as the process, and is only read.
unsafe impl Send for Facts {}
// SAFETY: as above.
unsafe impl Sync for Facts {}

/// The number of tables of values, and of values in each.
const KEYS: usize = 32;

/// The C library calls destructors again for values that destructors have set, so many times
/// (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;

/// Flags of a robust mutex.
const OWNER_DIED: u32 = 0x4000_0000;
const HAS_WAITERS: u32 = 0x8000_0000;

/// Ends the thread that the caller is: runs the destructors of its thread-locals, which may do what
/// any code may do. Afterwards it is a new thread, except that the thread-local that is `kept`,
/// always the same one, stays unchanged.
///
/// # Safety
/// No thread-local of the caller is borrowed any more, except for the one that is kept. There is no
/// sanitizer.
#[inline]
pub unsafe fn end(kept: Range<usize>) {
    static FACTS: OnceLock<Option<Facts>> = OnceLock::new();
    let Some(facts) = FACTS.get_or_init(|| Facts::new(&kept)) else { return };
    // SAFETY: the caller's promise. Offsets lead to what the calling thread has.
    unsafe {
        (facts.run_destructors)();
        if let Some(keys) = &facts.keys
            && own::<u8>(keys.flag).read() != 0
        {
            keys.end_values();
        }
        if let Some(head) = facts.robust_list.map(own::<usize>)
            && head.read() != head.addr()
        {
            release_robust_mutexes(head);
        }
        if let Some(renewal) = &facts.renewal {
            renewal.renew(&kept);
        }
    }
}

/// The data of the calling thread at this offset.
#[inline]
fn own<T>(offset: usize) -> *mut T {
    with_exposed_provenance_mut(thread_pointer().wrapping_add(offset))
}

/// The offset of an address.
fn offset(address: usize) -> usize {
    address.wrapping_sub(thread_pointer())
}

/// The offset of the thread's description by the C library.
fn description() -> usize {
    // SAFETY: it has no conditions.
    offset(unsafe { libc::pthread_self() } as usize)
}

/// A symbol that the C library keeps for its own parts and for debuggers.
#[cfg(target_env = "gnu")]
fn private(name: &CStr) -> Option<NonNull<libc::c_void>> {
    // SAFETY: the names are strings.
    NonNull::new(unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), c"GLIBC_PRIVATE".as_ptr()) })
}

#[cfg(not(target_env = "gnu"))]
fn private(_: &CStr) -> Option<NonNull<libc::c_void>> {
    None
}

impl Facts {
    fn new(kept: &Range<usize>) -> Option<Facts> {
        let run_destructors = private(c"__call_tls_dtors")?;
        // SAFETY: it is the C library's function, which has this type.
        let run_destructors = unsafe { transmute::<NonNull<libc::c_void>, unsafe extern "C" fn()>(run_destructors) };
        let robust_list = robust_list().map(|list| list.wrapping_add(description()));
        Some(Facts { run_destructors, keys: Keys::new(), robust_list, renewal: Renewal::new(kept) })
    }
}

impl Keys {
    fn new() -> Option<Keys> {
        // SAFETY: a description has the bits of an element, how many there are, and the offset.
        let describe = |name: &CStr| Some(unsafe { private(name)?.cast::<[u32; 3]>().read() });
        let tables = describe(c"_thread_db_pthread_specific")?;
        let is_known = [tables[0], tables[1]] == [64 * KEYS as u32, 1]
            && describe(c"_thread_db___pthread_keys")? == [128, (KEYS * KEYS) as u32, 0]
            && describe(c"_thread_db_pthread_key_struct_destr")? == [64, 1, 8]
            && describe(c"_thread_db_pthread_key_data_data")? == [64, 1, 8]
            && describe(c"_thread_db_pthread_key_data_level2_data")? == [128, KEYS as u32, 0];
        let tables = description().wrapping_add(tables[2] as usize);
        let flag = tables.wrapping_add(KEYS * size_of::<usize>());
        (is_known && is_flag(flag)).then_some(Keys { all: private(c"__pthread_keys")?.cast(), tables, flag })
    }

    /// Removes all values, and runs their destructors.
    ///
    /// # Safety
    /// As for [`end`].
    #[cold]
    unsafe fn end_values(&self) {
        // Of each value the generation of its key, and the value.
        let tables = own::<[*mut [[usize; 2]; KEYS]; KEYS]>(self.tables);
        for round in 0..=ROUNDS {
            // SAFETY: these are the thread's own. A value counts if the key has its generation.
            unsafe {
                own::<u8>(self.flag).write(0);
                for index in 0..KEYS * KEYS {
                    let table = (*tables)[index / KEYS];
                    if table.is_null() {
                        continue;
                    }
                    let [generation, value] = std::mem::take(&mut (*table)[index % KEYS]);
                    let [current, destructor] = self.all.add(index).read_volatile();
                    let destructor = transmute::<usize, Option<unsafe extern "C" fn(*mut libc::c_void)>>(destructor);
                    let is_called = value != 0 && generation == current && round < ROUNDS;
                    if let Some(destructor) = destructor.filter(|_| is_called) {
                        destructor(with_exposed_provenance_mut(value));
                    }
                }
                if own::<u8>(self.flag).read() == 0 {
                    return;
                }
            }
        }
    }
}

/// Whether the byte at this offset of the thread says that there are values of keys.
fn is_flag(flag: usize) -> bool {
    let (flag, mut key) = (own::<u8>(flag), 0);
    // SAFETY: it is in the thread's description, which is larger, and there is room for a key.
    unsafe {
        let before = flag.read_volatile();
        if before > 1 || libc::pthread_key_create(&raw mut key, None) != 0 {
            return false;
        }
        flag.write_volatile(0);
        libc::pthread_setspecific(key, with_exposed_provenance(1));
        let is_set = flag.read_volatile() == 1;
        flag.write_volatile(before);
        libc::pthread_setspecific(key, null());
        libc::pthread_key_delete(key);
        is_set
    }
}

/// Does for the calling thread, whose list is there, what the kernel does for a thread that ends
/// with robust mutexes.
///
/// # Safety
/// As for [`end`].
#[cold]
unsafe fn release_robust_mutexes(head: *mut usize) {
    // SAFETY: the list is the thread's, and its mutexes exist. Their words are at the same offset.
    unsafe {
        let mut entry = head.read();
        while entry & !1 != head.addr() {
            let at = with_exposed_provenance_mut::<usize>(entry & !1);
            let word = AtomicU32::from_ptr(at.byte_offset(head.add(1).read().cast_signed()).cast());
            // One that inherits priority is marked: the kernel alone can hand it over.
            let is_plain = entry & 1 == 0;
            entry = at.read();
            if is_plain
                && let Ok(before) = word.fetch_update(SeqCst, SeqCst, |word| Some(word & HAS_WAITERS | OWNER_DIED))
                && before & HAS_WAITERS != 0
            {
                futex::wake(word, 1, Scope::Shared);
            }
        }
        head.write(head.addr());
    }
}

#[cfg(test)]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"), not(rowlock_asan)))]
mod tests;
