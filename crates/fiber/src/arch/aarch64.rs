//! AArch64, with its procedure call standard.
//!
//! A stack that was left has, from its lowest word up: where to continue, x19, x29 (the frame
//! pointer), and the modes of floating-point arithmetic (FPCR) with the exceptions that were
//! recorded (FPSR), which belong to the thread. The compiler is told that all other callee-saved
//! registers are clobbered, so it saves what it needs of them itself.
//!
//! The functions are those in `x86_64.rs`, where they are described.

use std::arch::{asm, naked_asm};

use super::{Begin, Context, Target};

/// Reads the modes into x10. Changes x11.
macro_rules! read_modes {
    () => {
        "mrs x10, fpcr\nmrs x11, fpsr\norr x10, x10, x11, lsl #32"
    };
}

/// Writes the modes in x11, if those in x10 are in force and differ.
macro_rules! write_modes {
    () => {
        "cmp x10, x11\nb.eq 3f\nmsr fpcr, x11\nlsr x11, x11, #32\nmsr fpsr, x11\n3:"
    };
}

/// Continues at the context in x1, with the thread pointer in x2. This stack's modes are in x10.
macro_rules! continue_there {
    () => {
        concat!(
            "cbz x2, 5f\nmsr tpidr_el0, x2\n5: mov sp, x1\nldr x11, [sp, #24]\n",
            write_modes!(),
            "\nldr x9, [sp]\nbr x9"
        )
    };
}

/// # Safety
/// As on x86-64.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut Context, target: Target) {
    // SAFETY: all registers are saved here or declared as clobbered, the stack pointer is restored
    // when this continues, and the rest is the caller's promise. The compiler may have kept what it
    // computed from the thread pointer, which has the same value again.
    unsafe {
        asm!(
            "adr x9, 2f",
            "sub sp, sp, #32",
            "stp x9, x19, [sp]",
            read_modes!(),
            "stp x29, x10, [sp, #16]",
            "mov x9, sp",
            "str x9, [x0]",
            continue_there!(),
            "2:",
            "ldr x19, [sp, #8]",
            "ldr x29, [sp, #16]",
            "add sp, sp, #32",
            inout("x0") save => _,
            inout("x1") target.to.0 => _,
            inout("x2") target.thread_pointer => _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _, out("lr") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
}

/// # Safety
/// As on x86-64.
#[inline(always)]
pub(crate) unsafe fn leave(target: Target) -> ! {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            read_modes!(),
            continue_there!(),
            in("x1") target.to.0,
            in("x2") target.thread_pointer,
            options(noreturn)
        );
    }
}

#[inline(always)]
pub(crate) fn reset_modes() {
    // SAFETY: Rust code requires these modes.
    unsafe { asm!(read_modes!(), "mov x11, #0", write_modes!(), out("x10") _, out("x11") _, options(nostack)) };
}

#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: it only reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// # Safety
/// As on x86-64.
#[inline(always)]
pub(crate) unsafe fn new_context(top: *mut u8, begin: Begin) -> Context {
    // SAFETY: the caller's promise.
    unsafe {
        let words = top.cast::<[usize; 4]>().sub(1);
        words.write([outermost as *const () as usize, begin as *const () as usize, 0, 0]);
        Context(words.cast())
    }
}

/// Calls the first function of a stack. Has no caller, so unwinders end here. There is no `blr`,
/// because the processor's stack of return addresses would be off by one, and the returns of the
/// code that made the fiber run would be mispredicted until the two agree again.
///
/// # Safety
/// A switch enters it, on a stack that nothing uses.
#[unsafe(naked)]
unsafe extern "C" fn outermost() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "ldr x9, [sp, #8]",
        "adr x30, 2f",
        "br x9",
        "2:",
        "brk #1",
        ".cfi_endproc",
    )
}

/// # Safety
/// As on x86-64.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn as_if_called_from(context: Context, function: extern "C" fn(*mut ()), data: *mut ()) {
    naked_asm!(
        ".cfi_startproc",
        "stp x19, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_rel_offset x19, 0",
        ".cfi_rel_offset x30, 8",
        "mov x19, x0",
        // A switch stores the address to continue at, x19, x29, and the modes.
        ".cfi_remember_state",
        ".cfi_def_cfa x19, 32",
        ".cfi_offset x30, -32",
        ".cfi_offset x19, -24",
        ".cfi_offset x29, -16",
        "mov x0, x2",
        "blr x1",
        ".cfi_restore_state",
        "ldp x19, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x19",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
    )
}

/// # Safety
/// As on x86-64.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_as_if_left(save: *mut Context, function: extern "C" fn(*mut ()), data: *mut ()) {
    naked_asm!(
        ".cfi_startproc",
        // The context is that of the caller when this returns.
        "stp x30, x19, [sp, #-32]!",
        "stp x29, xzr, [sp, #16]",
        ".cfi_adjust_cfa_offset 32",
        ".cfi_rel_offset x30, 0",
        ".cfi_rel_offset x19, 8",
        ".cfi_rel_offset x29, 16",
        "mov x9, sp",
        "str x9, [x0]",
        "mov x0, x2",
        "blr x1",
        "ldr x29, [sp, #16]",
        "ldp x30, x19, [sp], #32",
        ".cfi_adjust_cfa_offset -32",
        ".cfi_restore x30",
        ".cfi_restore x19",
        ".cfi_restore x29",
        "ret",
        ".cfi_endproc",
    )
}

#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the virtual counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}
