//! The functions of a run-time system, as the library of the caller would have resolved them.
//!
//! Usually a process has one such system, which all its libraries use. But a library that is loaded
//! later may bring a private copy, as modules of an interpreter do, and several libraries may bring
//! different copies. A call must be passed to the copy that the caller uses for its other calls,
//! which are not interposed.

use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use crate::objects::Library;
use crate::real_symbols::RealSymbol;

/// The functions of one copy.
pub(crate) trait Functions: Sized + Send + Sync + 'static {
    /// Resolves them by name. Returns `None` if one is missing.
    fn find(look_up: impl Fn(&CStr) -> *mut c_void) -> Option<Self>;
}

/// All copies of a run-time system.
pub(crate) struct Family<F: 'static> {
    /// The function that identifies a copy.
    marker: &'static CStr,
    /// The copy that all libraries resolve.
    common: AtomicPtr<F>,
    /// A cache of the other copies by call address.
    callers: [Caller<F>; CALLERS],
    /// The other copies, each with the address of the identifying function.
    copies: Mutex<Vec<(usize, &'static F)>>,
}

/// The size of the cache. Other callers take the slow path.
const CALLERS: usize = 1024;

struct Caller<F> {
    /// Zero if unused.
    address: AtomicUsize,
    /// Written after the address.
    functions: AtomicPtr<F>,
}

impl<F: Functions> Family<F> {
    pub(crate) const fn new(marker: &'static CStr) -> Family<F> {
        Family {
            marker,
            common: AtomicPtr::new(std::ptr::null_mut()),
            callers: [const { Caller { address: AtomicUsize::new(0), functions: AtomicPtr::new(std::ptr::null_mut()) } };
                CALLERS],
            copies: Mutex::new(Vec::new()),
        }
    }

    /// The functions that code at this address would have called. `None` if some are missing.
    #[inline]
    pub(crate) fn of(&self, caller: usize) -> Option<&'static F> {
        // SAFETY: only values that live forever are stored.
        unsafe { self.common.load(Acquire).as_ref() }.or_else(|| self.look_up(caller))
    }

    #[cold]
    fn look_up(&self, caller: usize) -> Option<&'static F> {
        let first = (caller >> 2) % CALLERS;
        let places = || (0..8).map(|further| &self.callers[(first + further) % CALLERS]);
        for place in places().filter(|place| place.address.load(Relaxed) == caller) {
            // SAFETY: only values that live forever are stored.
            if let Some(functions) = unsafe { place.functions.load(Acquire).as_ref() } {
                return Some(functions);
            }
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        // Each copy is listed once, as it is identified by its address.
        // SAFETY: only values that live forever are stored.
        if let Some(common) = unsafe { self.common.load(Relaxed).as_ref() } {
            return Some(common);
        }
        let functions = if copies.is_empty()
            // SAFETY: the handle is always valid, and the names are C strings.
            && let Some(functions) = F::find(|name| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
        {
            let functions: &'static F = Box::leak(Box::new(functions));
            self.common.store(std::ptr::from_ref(functions).cast_mut(), Release);
            return Some(functions);
        } else {
            self.copy_of(caller, &mut copies)?
        };
        let mut free = places();
        if let Some(place) = free.find(|place| place.address.compare_exchange(0, caller, Relaxed, Relaxed).is_ok()) {
            place.functions.store(std::ptr::from_ref(functions).cast_mut(), Release);
        }
        Some(functions)
    }

    /// The copy that the library at this address depends on.
    fn copy_of(&self, caller: usize, copies: &mut Vec<(usize, &'static F)>) -> Option<&'static F> {
        let mut marker = Library::at(caller).map_or(std::ptr::null_mut(), |library| library.function(self.marker));
        if marker.is_null() {
            // A library that needs the caller may provide it.
            marker = RealSymbol::new(self.marker).address()?;
        }
        if let Some((_, known)) = copies.iter().find(|(at, _)| *at == marker.addr()) {
            return Some(known);
        }
        // It stays loaded, since its functions are called from here.
        let copy = std::mem::ManuallyDrop::new(Library::at(marker.addr())?);
        let functions: &'static F = Box::leak(Box::new(F::find(|name| copy.function(name))?));
        copies.push((marker.addr(), functions));
        Some(functions)
    }
}

/// Defines a struct of this name with these functions, a function that calls each, and the
/// [real symbols](crate::real_symbols).
macro_rules! family {
    ($(#[$about:meta])* struct $family:ident {
        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $crate::real_symbols::real_symbols! {
            $(fn $name($($argument: $type),*) $(-> $result)?;)*
        }

        $(#[$about])*
        #[allow(non_snake_case)]
        struct $family {
            $($name: unsafe extern "C-unwind" fn($($type),*) $(-> $result)?,)*
        }

        #[allow(non_snake_case)]
        impl $family {
            $(
                /// Calls the function of this copy, or the real symbol if the copy is unknown.
                ///
                /// # Safety
                /// As for the function of this name.
                #[inline]
                #[allow(clippy::too_many_arguments)] // As many as it has.
                unsafe fn $name(copy: Option<&Self>, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: the caller's promise to it.
                    unsafe {
                        match copy {
                            Some(copy) => (copy.$name)($($argument),*),
                            None => real::$name($($argument),*),
                        }
                    }
                }
            )*
        }

        impl $crate::family::Functions for $family {
            fn find(look_up: impl Fn(&std::ffi::CStr) -> *mut std::ffi::c_void) -> Option<Self> {
                // SAFETY: they are the functions of these names, which have these types, or null.
                unsafe { Some($family { $($name: std::mem::transmute::<
                    *mut std::ffi::c_void,
                    Option<unsafe extern "C-unwind" fn($($type),*) $(-> $result)?>,
                >(look_up($crate::real_symbols::name(concat!(stringify!($name), "\0"))))?,)* }) }
            }
        }
    };
}
pub(crate) use family;
