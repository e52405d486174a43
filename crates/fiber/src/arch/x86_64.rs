//! x86-64, with the System V ABI.
//!
//! A stack that was left has, from its lowest word up: where to continue, the modes of
//! floating-point arithmetic, rbx, rbp. The compiler is told that all other callee-saved registers
//! (r12 to r15) are clobbered, so it saves what it needs of them itself, often nothing. A switch
//! uses `jmp`: a `ret` would be mispredicted by the processor's stack of return addresses, which
//! costs 4 ns.
//!
//! The modes are MXCSR, with the exceptions that it has recorded, and the x87's control word. They
//! belong to the thread. To load them takes longer than to find that they are the same, as they
//! nearly always are.

use std::arch::{asm, naked_asm, x86_64::_rdtsc};

use super::{Begin, Context, Target};

/// The modes with which a program starts.
const INITIAL_MODES: usize = 0x037f_0000_1f80;

/// Stores the modes in the word at this address.
macro_rules! store_modes {
    ($address:literal) => {
        concat!("stmxcsr [", $address, "]\nfnstcw [", $address, " + 4]")
    };
}

/// Goes to the label if the words of modes at these addresses differ.
macro_rules! if_modes_differ {
    ($one:literal, $other:literal, $label:literal) => {
        concat!(
            "mov eax, [",
            $one,
            "]\ncmp eax, [",
            $other,
            "]\njne ",
            $label,
            "\n",
            "movzx eax, word ptr [",
            $one,
            " + 4]\ncmp ax, [",
            $other,
            " + 4]\njne ",
            $label
        )
    };
}

/// Loads the modes from the word at this address.
macro_rules! load_modes {
    ($address:literal) => {
        concat!("ldmxcsr [", $address, "]\nfldcw [", $address, " + 4]")
    };
}

/// Continues at the context in rsi, with the thread pointer in rdx. This stack's modes are at its
/// second lowest word.
macro_rules! continue_there {
    () => {
        concat!(
            "test rdx, rdx\njz 5f\nwrfsbase rdx\n5:\n",
            if_modes_differ!("rsp + 8", "rsi + 8", "4f"),
            "\n3: lea rsp, [rsi + 16]\njmp [rsi]\n4: ",
            load_modes!("rsi + 8"),
            "\njmp 3b"
        )
    };
}

/// Leaves this stack, stores its context in `save`, and continues at the target. Returns when
/// another switch comes back.
///
/// # Safety
/// `save` is writable. The target was left by a switch, or is a [`new_context`], and has not
/// continued since. The code on its stack may run on this kernel thread. The block is the one with
/// which it was left.
#[inline(always)]
pub(crate) unsafe fn switch(save: *mut Context, target: Target) {
    // SAFETY: all registers are saved here or declared as clobbered, the stack pointer is restored
    // when this continues, and the rest is the caller's promise. The compiler may have kept what it
    // computed from the thread pointer, which has the same value again.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "sub rsp, 16",
            "mov [rsp], rax",
            store_modes!("rsp + 8"),
            "mov [rdi], rsp",
            continue_there!(),
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") target.to.0 => _,
            inout("rdx") target.thread_pointer => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
}

/// Leaves this stack for good.
///
/// # Safety
/// As for [`switch`]. Nothing on this stack may be needed any more.
#[inline(always)]
pub(crate) unsafe fn leave(target: Target) -> ! {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "sub rsp, 16",
            store_modes!("rsp + 8"),
            continue_there!(),
            in("rsi") target.to.0,
            in("rdx") target.thread_pointer,
            options(noreturn)
        );
    }
}

/// Gives the calling thread the modes with which a program starts.
#[inline(always)]
pub(crate) fn reset_modes() {
    let (mut now, initial) = (0_u64, INITIAL_MODES);
    // SAFETY: Rust code requires these modes.
    unsafe {
        asm!(
            store_modes!("{now}"),
            if_modes_differ!("{now}", "{initial}", "4f"),
            "jmp 3f",
            "4:",
            load_modes!("{initial}"),
            "3:",
            now = in(reg) &raw mut now,
            initial = in(reg) &raw const initial,
            out("eax") _,
            options(nostack)
        );
    }
}

/// The thread pointer. Only if the processor and the kernel [let](sys::thread_block::check_support)
/// programs read it.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: it only reads a register.
    unsafe { asm!("rdfsbase {}", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// A context that starts on a stack with this top.
///
/// It looks as if [`outermost`] had called the function. There is no `call`, because the
/// processor's stack of return addresses would be off by one, and the returns of the code that made
/// the fiber run would be mispredicted until the two agree again.
///
/// # Safety
/// The top is a multiple of 16, and below it is memory that is writable and unused.
#[inline(always)]
pub(crate) unsafe fn new_context(top: *mut u8, begin: Begin) -> Context {
    // SAFETY: the caller's promise.
    unsafe {
        let words = top.cast::<[usize; 3]>().sub(1);
        // Unwinders look one byte before a return address.
        words.write([begin as usize, INITIAL_MODES, outermost as *const () as usize + 1]);
        Context(words.cast())
    }
}

/// Has no caller, so unwinders end here. Never runs.
#[unsafe(naked)]
extern "C" fn outermost() -> ! {
    naked_asm!(".cfi_startproc", ".cfi_undefined rip", "nop", "ud2", ".cfi_endproc")
}

/// Calls a function on this stack, but so that its callers are those of another stack that was
/// left. Nothing of that stack is used, so it may be full.
///
/// # Safety
/// The context was left by a switch, and does not continue meanwhile. The function takes the data,
/// and does not unwind.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn as_if_called_from(context: Context, function: extern "C" fn(*mut ()), data: *mut ()) {
    naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "mov rbx, rdi",
        // A switch stores the address to continue at, the modes, rbx, and rbp.
        ".cfi_remember_state",
        ".cfi_def_cfa rbx, 32",
        ".cfi_offset rip, -32",
        ".cfi_offset rbx, -16",
        ".cfi_offset rbp, -8",
        "mov rdi, rdx",
        "call rsi",
        ".cfi_restore_state",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
    )
}

/// Stores the caller's context in `save`, as if it had left its stack, and calls a function on the
/// same stack. As long as that lasts, the context serves for [backtraces](as_if_called_from).
///
/// # Safety
/// `save` is writable. The function takes the data, and does not unwind.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_as_if_left(save: *mut Context, function: extern "C" fn(*mut ()), data: *mut ()) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "lea rax, [rip + 2f]",
        "push 0",
        ".cfi_adjust_cfa_offset 8",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "mov [rdi], rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rdx",
        "call rsi",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        // An unwinder looks up the instruction before the address in the context.
        "nop",
        "2:",
        "ret",
        ".cfi_endproc",
    )
}

/// The processor's clock, in its own ticks.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has the instruction.
    unsafe { _rdtsc() }
}
