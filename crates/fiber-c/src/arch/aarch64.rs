//! AArch64, with its procedure call standard.

use std::arch::{asm, naked_asm};
use std::ffi::c_void;

/// Calls a function with an argument, and returns its result. Before that it stores in `frame` what
/// it takes to [`leave`] the function.
///
/// # Safety
/// The function may be called with the argument, and `frame` is writable.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call(
    function: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    frame: *mut *mut u8,
) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-160]!",
        ".cfi_def_cfa_offset 160",
        ".cfi_offset x29, -160",
        ".cfi_offset x30, -152",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        ".cfi_offset x19, -144",
        ".cfi_offset x20, -136",
        ".cfi_offset x21, -128",
        ".cfi_offset x22, -120",
        ".cfi_offset x23, -112",
        ".cfi_offset x24, -104",
        ".cfi_offset x25, -96",
        ".cfi_offset x26, -88",
        ".cfi_offset x27, -80",
        ".cfi_offset x28, -72",
        "str x29, [x2]",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes a [`call`] return this value. The frames below are discarded without being unwound.
///
/// # Safety
/// The frame belongs to a call on this stack that has not returned, and the frames below have
/// nothing to clean up.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave(frame: *mut u8, value: *mut c_void) -> ! {
    naked_asm!(
        "mov sp, x0",
        "mov x0, x1",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

/// FPCR.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u64);

impl Modes {
    #[inline(always)]
    pub(crate) fn current() -> Modes {
        let modes: u64;
        // SAFETY: it only reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) modes, options(nomem, nostack)) };
        Modes(modes)
    }

    /// Does nothing if they are the current ones: loading them takes longer than comparing.
    #[inline(always)]
    pub(crate) fn set(self) {
        if Modes::current() != self {
            // SAFETY: they have been the processor's before, in C code, which may choose them.
            unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack)) };
        }
    }
}
