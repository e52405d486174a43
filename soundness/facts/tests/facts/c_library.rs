//! What the C library keeps for a thread.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use ways::{switch, together, until};

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn fesetround(mode: c_int) -> c_int;
    fn fegetround() -> c_int;
}

const CANCEL_ENABLE: c_int = 0;
const CANCEL_DISABLE: c_int = 1;

fn the_last_error_belongs_to_a_strand() -> Vec<Option<i32>> {
    let paths = ["/nowhere/at/all".to_owned(), "/proc/self/mem/none".to_owned(), "x".repeat(300)];
    together(3, |who| {
        assert!(File::open(&paths[who]).is_err());
        switch();
        io::Error::last_os_error().raw_os_error()
    })
}

fn modes_of_arithmetic_belong_to_a_strand() -> Vec<(c_int, f32)> {
    #[cfg(target_arch = "x86_64")]
    const MODES: [c_int; 3] = [0, 0x400, 0x800];
    #[cfg(not(target_arch = "x86_64"))]
    const MODES: [c_int; 3] = [0, 0x80_0000, 0x40_0000];
    together(3, |who| {
        // SAFETY: the results of Rust's own arithmetic are not looked at with another mode.
        unsafe { fesetround(MODES[who]) };
        switch();
        // SAFETY: as above.
        let mode = unsafe { fegetround() };
        // SAFETY: it is the mode that a thread begins with.
        unsafe { fesetround(0) };
        switch();
        (mode, std::hint::black_box(1.0_f32) / 3.0)
    })
}

/// Another mode stays with the strand that has set it.
fn modes_of_arithmetic_are_those_of_a_new_strand() -> Vec<c_int> {
    let strand = |_| {
        // SAFETY: nothing is computed with the other mode.
        unsafe {
            let mode = fegetround();
            fesetround(if cfg!(target_arch = "x86_64") { 0x400 } else { 0x80_0000 });
            mode
        }
    };
    (0..4).flat_map(|_| together(1, strand)).collect()
}

fn the_locale_belongs_to_a_strand() -> Vec<bool> {
    together(3, |who| {
        // SAFETY: a locale is made, used by this thread alone, and freed when it is not in use.
        unsafe {
            let global = libc::uselocale(ptr::null_mut());
            switch();
            if who == 0 {
                return libc::uselocale(ptr::null_mut()) == global;
            }
            let own = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut());
            libc::uselocale(own);
            switch();
            let right = libc::uselocale(global) == own;
            switch();
            libc::freelocale(own);
            right
        }
    })
}

fn the_cancellation_state_belongs_to_a_strand() -> Vec<c_int> {
    together(3, |who| {
        let mut before = -1;
        // SAFETY: there is room for the old state; no thread is cancelled.
        unsafe {
            if who != 0 {
                pthread_setcancelstate(CANCEL_DISABLE, &raw mut before);
            }
            switch();
            pthread_setcancelstate(CANCEL_ENABLE, &raw mut before);
        }
        switch();
        before
    })
}

/// A key whose destructor counts.
fn key() -> libc::pthread_key_t {
    static KEY: Mutex<Option<libc::pthread_key_t>> = Mutex::new(None);
    extern "C" fn counts(_: *mut c_void) {
        ENDED.fetch_add(1, SeqCst);
    }
    *KEY.lock().unwrap().get_or_insert_with(|| {
        let mut key = 0;
        // SAFETY: there is room for the key.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(counts)) }, 0);
        key
    })
}

static ENDED: AtomicUsize = AtomicUsize::new(0);

fn values_of_keys_belong_to_a_strand() -> Vec<usize> {
    let key = key();
    together(3, |who| {
        // SAFETY: it is no pointer to the C library, and the destructor does not follow it.
        unsafe {
            libc::pthread_setspecific(key, ptr::without_provenance(100 + who));
            switch();
            let value = libc::pthread_getspecific(key).addr();
            libc::pthread_setspecific(key, ptr::null());
            value
        }
    })
}

fn destructors_of_keys_have_run_when_a_strand_is_joined() -> usize {
    let (key, before) = (key(), ENDED.load(SeqCst));
    together(3, |_| {
        // SAFETY: as above.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(1)) };
        switch();
    });
    ENDED.load(SeqCst) - before
}

fn handles_of_threads_are_different_and_stay() -> (Vec<bool>, usize) {
    let handles = Mutex::new(BTreeSet::new());
    let stay = together(4, |_| {
        // SAFETY: it has no conditions.
        let own = || unsafe { libc::pthread_self() };
        let before = own();
        handles.lock().unwrap().insert(before);
        until(|| handles.lock().unwrap().len() == 4);
        own() == before
    });
    (stay, handles.into_inner().unwrap().len())
}

fn a_handle_is_that_of_a_thread() -> Vec<c_int> {
    together(3, |_| {
        switch();
        // SAFETY: it only asks whether there is this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), 0) }
    })
}

fn the_stack_is_where_the_c_library_says() -> Vec<bool> {
    together(3, |_| {
        switch();
        let mut attributes = MaybeUninit::uninit();
        let (mut low, mut size) = (ptr::null_mut(), 0);
        // SAFETY: the attributes are initialised before they are read, and destroyed.
        unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return false;
            }
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        let here = (&raw const size).addr();
        (low.addr()..low.addr() + size).contains(&here)
    })
}

fn the_c_library_knows_the_cpu() -> Vec<bool> {
    together(3, |_| {
        (0..10).all(|_| {
            switch();
            // SAFETY: it has no conditions.
            unsafe { libc::sched_getcpu() >= 0 }
        })
    })
}

/// Whether the kernel keeps the number of the CPU in the thread's own area of restartable
/// sequences. Libraries that find none use another way.
fn restartable_sequences_are_registered() -> Vec<bool> {
    together(3, |_| {
        switch();
        // SAFETY: the C library says where the area of the calling thread is, before or after the
        // thread pointer, and the second word has the number of the CPU.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
            let pointer: *const u8;
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly));
            offset.is_null() || pointer.offset(*offset).cast::<i32>().add(1).read_volatile() >= 0
        }
        #[cfg(not(target_arch = "x86_64"))]
        true
    })
}

/// The C library makes all of its threads change their user.
fn the_user_can_be_set() -> Vec<c_int> {
    together(2, |_| {
        switch();
        // SAFETY: it has no conditions.
        let result = unsafe { libc::setuid(libc::getuid()) };
        switch();
        result
    })
}

/// Shadow stacks would have to be switched, too. The C library enables none.
fn there_is_no_shadow_stack() -> Vec<bool> {
    together(2, |_| {
        let mut features = 0_u64;
        switch();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is room for the answer. Older kernels refuse the number.
        unsafe {
            const ARCH_SHSTK_STATUS: c_int = 0x5005;
            libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &raw mut features);
        }
        features == 0
    })
}

mod in_blocks {
    use super::*;
    ways::in_every_way! {
        the_last_error_belongs_to_a_strand
        the_locale_belongs_to_a_strand
        the_cancellation_state_belongs_to_a_strand
        values_of_keys_belong_to_a_strand
        destructors_of_keys_have_run_when_a_strand_is_joined
        handles_of_threads_are_different_and_stay
        the_stack_is_where_the_c_library_says
        the_c_library_knows_the_cpu
        there_is_no_shadow_stack
        a_handle_is_that_of_a_thread
        modes_of_arithmetic_belong_to_a_strand
        modes_of_arithmetic_are_those_of_a_new_strand
        the_user_can_be_set
    }
}

mod in_the_kernel {
    use super::*;
    ways::in_every_way! {
        only_on_kernel_threads: "the kernel and the C library know the worker's thread only";
        restartable_sequences_are_registered
    }
}
