//! Real symbols: the functions that would have been called without this crate.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// A function of the C library. It is found when it is first called.
pub(super) struct RealSymbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl RealSymbol {
    pub(super) const fn new(name: &'static CStr) -> RealSymbol {
        RealSymbol { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address. Aborts the process if there is none: without this crate, the program would not
    /// have started.
    #[inline]
    pub(super) fn address(&self) -> *mut c_void {
        let address = self.address.load(Relaxed);
        if !address.is_null() {
            return address;
        }
        self.find();
        let address = self.address.load(Relaxed);
        if address.is_null() { std::process::abort() } else { address }
    }

    #[cold]
    pub(super) fn find(&self) {
        // SAFETY: the handle is always valid, and the name is a C string.
        self.address.store(unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }, Relaxed);
    }
}

/// Defines a module `real` with a function of the same name and type for each, which calls it.
macro_rules! real_symbols {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        mod real {
            use super::*;

            /// Finds all of them when the program starts: to do that later takes the loader's
            /// lock, and a signal handler must not.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static FIND: extern "C" fn() = {
                extern "C" fn find() {
                    $(symbols::$name.find();)*
                }
                find
            };

            #[allow(non_upper_case_globals)]
            mod symbols {
                use $crate::interposed::real_symbol::RealSymbol;

                $(pub(super) static $name: RealSymbol =
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => RealSymbol::new(name),
                        Err(_) => unreachable!(),
                    };)*
            }

            $(
                /// # Safety
                /// As for the function of this name.
                #[inline]
                pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                    // SAFETY: it is the function of this name, which has this type.
                    let function = unsafe {
                        std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C-unwind" fn($($type),*) -> $result,
                        >(symbols::$name.address())
                    };
                    // SAFETY: the caller's promise.
                    unsafe { function($($argument),*) }
                }
            )*
        }
    };
}
pub(super) use real_symbols;
