//! A run-time system's functions as the caller's own library would have found them.
//!
//! Mostly there is one such system in a process, where everybody finds it. But what a program loads later may bring one of
//! its own that only it is to see: an interpreter's modules do, several of them, each another copy. A call is to go on to the copy that the caller's other
//! calls go to, of which we hear nothing.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use crate::real_symbols::RealSymbol;

/// The functions of one copy.
pub(crate) trait Functions: Sized + Send + Sync + 'static {
    /// As far as they are found by name; nothing where one is not.
    fn find(look: impl Fn(&CStr) -> *mut c_void) -> Option<Self>;
}

/// All copies of a run-time system.
pub(crate) struct Family<F: 'static> {
    /// By which function a copy is recognised.
    sign: &'static CStr,
    /// The copy that everybody finds.
    common: AtomicPtr<F>,
    /// Which of the others belongs to what calls from an address.
    callers: [Caller<F>; CALLERS],
    /// The others, each with where it has the function by which it is recognised.
    copies: Mutex<Vec<(usize, &'static F)>>,
}

/// Beyond these it takes longer to find out.
const CALLERS: usize = 1024;

struct Caller<F> {
    /// Zero for none.
    address: AtomicUsize,
    /// Written after the address.
    functions: AtomicPtr<F>,
}

impl<F: Functions> Family<F> {
    pub(crate) const fn new(sign: &'static CStr) -> Family<F> {
        Family {
            sign,
            common: AtomicPtr::new(std::ptr::null_mut()),
            callers: [const { Caller { address: AtomicUsize::new(0), functions: AtomicPtr::new(std::ptr::null_mut()) } };
                CALLERS],
            copies: Mutex::new(Vec::new()),
        }
    }

    /// The functions that code at this address would have called; nothing where they are not all there.
    #[inline]
    pub(crate) fn of(&self, caller: usize) -> Option<&'static F> {
        // SAFETY: only what lives for ever is stored.
        unsafe { self.common.load(Acquire).as_ref() }.or_else(|| self.look(caller))
    }

    #[cold]
    fn look(&self, caller: usize) -> Option<&'static F> {
        let first = (caller >> 2) % CALLERS;
        let places = || (0..8).map(|further| &self.callers[(first + further) % CALLERS]);
        for place in places().filter(|place| place.address.load(Relaxed) == caller) {
            // SAFETY: only what lives for ever is stored.
            if let Some(functions) = unsafe { place.functions.load(Acquire).as_ref() } {
                return Some(functions);
            }
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        // Each copy is there once: it is known by its address.
        // SAFETY: only what lives for ever is stored.
        if let Some(common) = unsafe { self.common.load(Relaxed).as_ref() } {
            return Some(common);
        }
        let functions = if copies.is_empty()
            // SAFETY: a handle that is always valid, and names with their zeros.
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
        let mut sign = Library::at(caller).map_or(std::ptr::null_mut(), |library| library.function(self.sign));
        if sign.is_null() {
            // What needs the caller depends on it.
            sign = RealSymbol::new(self.sign).address()?;
        }
        if let Some((_, known)) = copies.iter().find(|(at, _)| *at == sign.addr()) {
            return Some(known);
        }
        // It stays loaded from now on: its functions are called from here.
        let copy = std::mem::ManuallyDrop::new(Library::at(sign.addr())?);
        let functions: &'static F = Box::leak(Box::new(F::find(|name| copy.function(name))?));
        copies.push((sign.addr(), functions));
        Some(functions)
    }
}

/// A library that is loaded, and stays so meanwhile.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// The one with this address in it.
    pub(crate) fn at(address: usize) -> Option<Library> {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: there is room for the answer; a name that is loaded is not loaded again, and stays while it is asked for.
        unsafe {
            if libc::dladdr(address as *const c_void, info.as_mut_ptr()) == 0 {
                return None;
            }
            let library = libc::dlopen(info.assume_init().dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            (!library.is_null()).then_some(Library(library))
        }
    }

    /// A function of its own, or of one that it depends on; null where there is none.
    pub(crate) fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a valid handle, and a name with its zero.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is this one's own.
        unsafe { libc::dlclose(self.0) };
    }
}

/// A type of this name with these functions, each of which it calls.
macro_rules! family {
    ($(#[$about:meta])* struct $family:ident {
        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        struct $family {
            $($name: unsafe extern "C-unwind" fn($($type),*) $(-> $result)?,)*
        }

        #[allow(non_snake_case)]
        impl $family {
            $(
                #[inline]
                #[allow(clippy::too_many_arguments)] // As many as it has.
                unsafe fn $name(&self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: the caller's promise to it.
                    unsafe { (self.$name)($($argument),*) }
                }
            )*
        }

        impl $crate::family::Functions for $family {
            fn find(look: impl Fn(&std::ffi::CStr) -> *mut std::ffi::c_void) -> Option<Self> {
                $(
                    let $name = look(
                        std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).ok()?,
                    );
                    if $name.is_null() {
                        return None;
                    }
                )*
                // SAFETY: they are the functions of these names, which have these types.
                unsafe { Some($family { $($name: std::mem::transmute::<
                    *mut std::ffi::c_void,
                    unsafe extern "C-unwind" fn($($type),*) $(-> $result)?,
                >($name),)* }) }
            }
        }
    };
}
pub(crate) use family;
