//! x86-64, with the System V ABI.

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
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        "sub rsp, 8",
        "mov [rdx], rbp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "lea rsp, [rbp - 40]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
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
        "mov rbp, rdi",
        "mov rax, rsi",
        "lea rsp, [rbp - 40]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// MXCSR, and the control word of the x87.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u32, u16);

impl Modes {
    #[inline(always)]
    pub(crate) fn current() -> Modes {
        let (mut vector, mut x87) = (0_u32, 0_u16);
        // SAFETY: both are only written.
        unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut vector, in(reg) &raw mut x87, options(nostack)) };
        Modes(vector, x87)
    }

    /// Does nothing if they are the current ones: loading them takes longer than comparing.
    #[inline(always)]
    pub(crate) fn set(self) {
        if Modes::current() != self {
            // SAFETY: they have been the processor's before, in C code, which may choose them.
            unsafe {
                asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const self.0, in(reg) &raw const self.1, options(nostack));
            };
        }
    }
}
