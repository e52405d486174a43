//! The functions of a run-time system, as the library of the caller would have resolved them.
//!
//! Usually a process has one such system, which all its libraries use. But a library that is loaded
//! later may bring a private copy, as modules of an interpreter do, and several libraries may bring
//! different copies. A call must be passed to the copy that the caller uses for its other calls,
//! which are not interposed.
//!
//! The copies that have been found are a list, of which no element is ever changed or removed. A
//! thread prepares an element for the list that it has seen, and adds it if the list is still the
//! same; otherwise it looks again. So no thread waits for another: a child may be forked, or a
//! library may call us from its constructor, under the lock of the loader, while another thread
//! looks up a copy. If all libraries resolve the same copy, it is the only element.

use std::ffi::{CStr, c_void};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::{iter, ptr};

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
    /// The copy that was found last.
    latest: AtomicPtr<Known<F>>,
    /// A cache of the copies by call address.
    callers: [Caller<F>; CALLERS],
}

/// A copy that has been found.
struct Known<F: 'static> {
    /// The address of the identifying function. `None` if all libraries resolve this copy.
    marker: Option<usize>,
    functions: F,
    /// The copy that was found before it.
    before: Option<&'static Known<F>>,
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
            latest: AtomicPtr::new(ptr::null_mut()),
            callers: [const { Caller { address: AtomicUsize::new(0), functions: AtomicPtr::new(ptr::null_mut()) } };
                CALLERS],
        }
    }

    /// The functions that code at this address would have called. `None` if some are missing.
    #[inline]
    pub(crate) fn of(&self, caller: usize) -> Option<&'static F> {
        match self.latest() {
            Some(Known { marker: None, functions, .. }) => Some(functions),
            _ => self.look_up(caller),
        }
    }

    #[inline]
    fn latest(&self) -> Option<&'static Known<F>> {
        // SAFETY: only values that live forever are stored.
        unsafe { self.latest.load(Acquire).as_ref() }
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
        let functions = &self.find(caller)?.functions;
        let mut free = places();
        if let Some(place) = free.find(|place| place.address.compare_exchange(0, caller, Relaxed, Relaxed).is_ok()) {
            place.functions.store(ptr::from_ref(functions).cast_mut(), Release);
        }
        Some(functions)
    }

    /// The copy that the library at this address depends on.
    fn find(&self, caller: usize) -> Option<&'static Known<F>> {
        loop {
            let latest = self.latest();
            if let Some(Known { marker: None, .. }) = latest {
                return latest;
            }
            // SAFETY: the handle is always valid, and the names are C strings.
            let next = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            let common = if latest.is_none() { F::find(next) } else { None };
            let found = if let Some(functions) = common {
                Known { marker: None, functions, before: None }
            } else {
                let marker = self.marker_of(caller)?;
                let mut known = iter::successors(latest, |copy| copy.before);
                if let Some(copy) = known.find(|copy| copy.marker == Some(marker)) {
                    return Some(copy);
                }
                // It stays loaded, since its functions are called from here.
                let library = std::mem::ManuallyDrop::new(Library::at(marker)?);
                Known { marker: Some(marker), functions: F::find(|name| library.function(name))?, before: latest }
            };
            if let Some(copy) = self.add(found) {
                return Some(copy);
            }
        }
    }

    /// The address of the identifying function for the library at this address.
    fn marker_of(&self, caller: usize) -> Option<usize> {
        let marker = Library::at(caller).map_or(ptr::null_mut(), |library| library.function(self.marker));
        // A library that needs the caller may provide it.
        let marker = if marker.is_null() { RealSymbol::new(self.marker).address()? } else { marker };
        Some(marker.addr())
    }

    /// Adds a copy. `None` if another thread has added one since: this one is not used then, and
    /// keeps its memory.
    fn add(&self, copy: Known<F>) -> Option<&'static Known<F>> {
        let copy: &'static Known<F> = Box::leak(Box::new(copy));
        let before = copy.before.map_or(ptr::null_mut(), |before| ptr::from_ref(before).cast_mut());
        let added = self.latest.compare_exchange(before, ptr::from_ref(copy).cast_mut(), Release, Relaxed);
        added.is_ok().then_some(copy)
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

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Once, mpsc};
    use std::thread;

    use super::*;

    static IS_FOUND: Barrier = Barrier::new(2);
    static MAY_END: Barrier = Barrier::new(2);

    /// Functions whose first search lasts until the test has looked them up.
    struct SlowlyFound;

    impl Functions for SlowlyFound {
        fn find(_look_up: impl Fn(&CStr) -> *mut c_void) -> Option<SlowlyFound> {
            static FIRST: Once = Once::new();
            let mut is_first = false;
            FIRST.call_once(|| is_first = true);
            if is_first {
                IS_FOUND.wait();
                MAY_END.wait();
            }
            Some(SlowlyFound)
        }
    }

    /// A child that is forked while a thread of its parent looks up a copy has no such thread.
    #[test]
    fn no_search_for_a_copy_waits_for_that_of_another_thread() {
        static FAMILY: Family<SlowlyFound> = Family::new(c"malloc");
        let look_up = || ptr::from_ref(FAMILY.of(0).unwrap()).addr();
        let slow = thread::spawn(look_up);
        IS_FOUND.wait();
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(look_up()));
        let found = receive.recv_timeout(testing::child::limit()).expect("a search that waits for no other");
        MAY_END.wait();
        assert_eq!(slow.join().unwrap(), found);
    }
}
