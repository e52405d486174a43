//! `dlopen`: records whether there may be libraries that call the C library directly.
//!
//! A library that is loaded with `RTLD_DEEPBIND` or into a namespace of its own resolves the
//! functions of the C library before ours. If it signals a condition variable, our spinning waiters
//! do not notice, and it would take a barrier of ours for one of the C library. So both are left to
//! the C library as soon as there may be such a library.
//!
//! The loader uses the address of its caller to decide where and how to search for a library. So
//! these functions do not call the real symbol but jump to it with the original return address.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

#[cfg(target_arch = "x86_64")]
use crate::real_symbols::RealSymbol;

/// Whether there may be such libraries.
static BYPASSED: AtomicBool = AtomicBool::new(false);

/// Whether some library may call the C library directly. This becomes true before such a library is
/// loaded.
pub(crate) fn is_bypassed() -> bool {
    BYPASSED.load(SeqCst)
}

/// Resolves the real symbols.
pub(crate) fn resolve() {
    #[cfg(target_arch = "x86_64")]
    [&hooks::DLOPEN, &hooks::DLMOPEN].into_iter().for_each(RealSymbol::resolve);
}

#[cfg(target_arch = "x86_64")]
mod hooks {
    use std::ffi::c_void;

    use super::BYPASSED;
    use crate::real_symbols::RealSymbol;

    pub(super) static DLOPEN: RealSymbol = RealSymbol::new(c"dlopen");
    pub(super) static DLMOPEN: RealSymbol = RealSymbol::new(c"dlmopen");

    extern "C" fn dlopen_of_the_loader() -> *mut c_void {
        DLOPEN.required()
    }

    extern "C" fn dlmopen_of_the_loader() -> *mut c_void {
        DLMOPEN.required()
    }

    /// `void *dlopen(const char *path, int flags)`
    ///
    /// # Safety
    /// As for the real symbol.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    unsafe extern "C" fn dlopen() {
        std::arch::naked_asm!(
            "endbr64",
            "test esi, {deep_binding}",
            "jz 2f",
            "mov byte ptr [rip + {bypassed}], 1",
            "2: push rdi",
            "push rsi",
            // A third word, to align the stack.
            "push rdx",
            "call {original}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            deep_binding = const libc::RTLD_DEEPBIND,
            bypassed = sym BYPASSED,
            original = sym dlopen_of_the_loader,
        )
    }

    /// `void *dlmopen(Lmid_t namespace, const char *path, int flags)`
    ///
    /// # Safety
    /// As for the real symbol.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    unsafe extern "C" fn dlmopen() {
        std::arch::naked_asm!(
            "endbr64",
            // The namespace of the program is number zero.
            "test rdi, rdi",
            "jnz 2f",
            "test edx, {deep_binding}",
            "jz 3f",
            "2: mov byte ptr [rip + {bypassed}], 1",
            "3: push rdi",
            "push rsi",
            "push rdx",
            "call {original}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            deep_binding = const libc::RTLD_DEEPBIND,
            bypassed = sym BYPASSED,
            original = sym dlmopen_of_the_loader,
        )
    }
}
