//! Real symbols: the functions that the program would have called without this library.

mod private;

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// A function of a library later in the search order.
///
/// Resolving it takes the lock of the loader. While a library is loaded, its constructor runs under
/// that lock and may wait for another thread. So functions that every program calls must not be
/// resolved on demand: those of the C library are [resolved](RealSymbol::resolve) at
/// initialization.
pub(crate) struct RealSymbol {
    name: &'static CStr,
    /// Null until it has been resolved.
    address: AtomicPtr<c_void>,
}

/// Its address marks a symbol that is permanently absent.
static ABSENT: u8 = 0;

impl RealSymbol {
    pub(crate) const fn new(name: &'static CStr) -> RealSymbol {
        RealSymbol { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address. `None` if no library has it, which may change later. Allocates only then.
    #[inline]
    pub(crate) fn address(&self) -> Option<*mut c_void> {
        let address = self.address.load(Relaxed);
        if address.is_null() { self.look_up() } else { Some(address).filter(|address| !Self::is_absent(*address)) }
    }

    /// Resolves it permanently: it is in the C library or absent.
    pub(crate) fn resolve(&self) {
        let found = self.find();
        self.address.store(if found.is_null() { (&raw const ABSENT).cast_mut().cast() } else { found }, Relaxed);
    }

    fn is_absent(address: *mut c_void) -> bool {
        std::ptr::eq(address.cast_const().cast(), &raw const ABSENT)
    }

    fn find(&self) -> *mut c_void {
        let address = newer(self.name);
        if !address.is_null() {
            return address;
        }
        // SAFETY: the handle is always valid, and the name is a C string.
        unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) }
    }

    #[cold]
    fn look_up(&self) -> Option<*mut c_void> {
        let mut address = self.find();
        if address.is_null() {
            address = private::find(self.name).unwrap_or(address);
        }
        self.address.store(address, Relaxed);
        (!address.is_null()).then_some(address)
    }

    /// Like [`RealSymbol::address`], but aborts if it is missing.
    #[inline]
    pub(crate) fn required(&self) -> *mut c_void {
        match self.address() {
            Some(address) => address,
            None => missing(self.name),
        }
    }
}

/// The newer of two functions of this name. The C library has two versions of condition variables
/// on this architecture, and before 2022 an unversioned lookup returned the older one.
fn newer(name: &CStr) -> *mut c_void {
    const VERSIONED: [&CStr; 3] = [c"pthread_cond_wait", c"pthread_cond_signal", c"pthread_cond_broadcast"];
    if cfg!(target_arch = "x86_64") && VERSIONED.contains(&name) {
        // SAFETY: the handle is always valid, and the names are C strings.
        unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr()) }
    } else {
        std::ptr::null_mut()
    }
}

/// Aborts: the program has called a function that no library has. Without this library it would not
/// have started.
#[cold]
pub(crate) fn missing(name: &CStr) -> ! {
    for text in [c"rowlock: there is no ", name, c" in this program\n"] {
        // SAFETY: the descriptor and the bytes are valid.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.count_bytes()) };
    }
    std::process::abort()
}

/// Converts a text that ends with a zero to a C string.
pub(crate) const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

/// Defines a module `real` with a function of the same name and type for each required symbol,
/// which calls it.
macro_rules! real_symbols {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions that would have been called without this library.
        #[allow(non_snake_case)] // Their libraries name them.
        #[allow(clippy::too_many_arguments)]
        #[allow(dead_code)] // Some are only resolved, and others only called.
        pub(crate) mod real {
            #[allow(unused_imports)]
            use super::*;

            /// Their symbols.
            #[allow(non_upper_case_globals)]
            pub(crate) mod at {
                $(
                    pub(crate) static $name: $crate::real_symbols::RealSymbol =
                        $crate::real_symbols::RealSymbol::new($crate::real_symbols::name(concat!(stringify!($name), "\0")));
                )*
            }

            /// Resolves all of them permanently: they are in the C library.
            pub(crate) fn resolve() {
                $(at::$name.resolve();)*
            }

            $(
                /// # Safety
                /// As for the function of this name.
                #[inline]
                pub(crate) unsafe fn $name($($argument: $type),*) $(-> $result)? {
                    let address = at::$name.required();
                    // SAFETY: it is the function of this name, which has this type.
                    let function = unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>(address)
                    };
                    // SAFETY: the caller's promise to it.
                    unsafe { function($($argument),*) }
                }
            )*
        }
    };
}
pub(crate) use real_symbols;
