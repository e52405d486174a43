//! Identifies callers: the return address of a function shows which library called it.

/// Exports functions that jump to others, with the same arguments and the return address. A
/// function is followed by its number of arguments, which must be integers or pointers.
macro_rules! with_caller {
    ($($name:ident: $count:tt => $target:ident,)*) => {
        $(
            /// # Safety
            /// As for the real symbol of this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C-unwind" fn $name() {
                #[cfg(target_arch = "x86_64")]
                std::arch::naked_asm!(
                    concat!("mov ", $crate::caller::register!($count), ", [rsp]"),
                    "jmp {target}",
                    target = sym $target,
                );
                #[cfg(target_arch = "aarch64")]
                std::arch::naked_asm!(
                    concat!("mov ", $crate::caller::register!($count), ", x30"),
                    "b {target}",
                    target = sym $target,
                );
            }
        )*
    };
}

/// The register of the argument with this zero-based number.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    (0) => {
        "rdi"
    };
    (2) => {
        "rdx"
    };
}
/// The register of the argument with this zero-based number.
#[cfg(target_arch = "aarch64")]
macro_rules! register {
    (0) => {
        "x0"
    };
    (2) => {
        "x2"
    };
}
pub(crate) use {register, with_caller};
