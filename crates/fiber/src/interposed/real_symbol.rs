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
    /// The symbol of this name, which ends with a zero.
    pub(super) const fn new(name: &'static str) -> RealSymbol {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => RealSymbol { name, address: AtomicPtr::new(std::ptr::null_mut()) },
            Err(_) => unreachable!(),
        }
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

            $(
                /// # Safety
                /// As for the function of this name.
                #[inline]
                pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                    static SYMBOL: $crate::interposed::real_symbol::RealSymbol =
                        $crate::interposed::real_symbol::RealSymbol::new(concat!(stringify!($name), "\0"));
                    /// Finds it when the program starts: to do that later takes the loader's lock,
                    /// and a signal handler must not.
                    #[used]
                    #[unsafe(link_section = ".init_array")]
                    static FIND: extern "C" fn() = {
                        extern "C" fn find() {
                            SYMBOL.find();
                        }
                        find
                    };
                    // SAFETY: it is the function of this name, which has this type.
                    let function = unsafe {
                        std::mem::transmute::<
                            *mut std::ffi::c_void,
                            unsafe extern "C-unwind" fn($($type),*) -> $result,
                        >(SYMBOL.address())
                    };
                    // SAFETY: the caller's promise.
                    unsafe { function($($argument),*) }
                }
            )*
        }
    };
}
pub(super) use real_symbols;
