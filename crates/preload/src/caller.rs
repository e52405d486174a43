//! Who called: the address to which a function will return says in which library its caller is.

/// Exports functions that go on to others of the same arguments and one more, the address of their caller. What they return
/// is what those return.
///
/// With each stands how many arguments it has, which have to be integers or pointers.
macro_rules! with_caller {
    ($($name:ident: $count:tt => $target:ident,)*) => {
        $(
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

/// The register of the argument with this number, counted from zero.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    (0) => {
        "rdi"
    };
    (2) => {
        "rdx"
    };
}
/// The register of the argument with this number, counted from zero.
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
