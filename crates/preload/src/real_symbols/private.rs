//! Symbols of libraries that were loaded privately for one caller, as an interpreter does with its
//! modules and their dependencies. The usual search order does not find them.

use std::ffi::{CStr, CString, c_int, c_void};

/// The address of a function in one of the loaded libraries, except the program itself and this
/// library.
///
/// Allocates, and takes the locks of the loader.
#[cold]
pub(super) fn find(name: &CStr) -> Option<*mut c_void> {
    // Libraries are opened after all are listed: the locks of the loader are taken in one order
    // only.
    libraries().iter().find_map(|path| {
        // SAFETY: the path is a C string, and no library is loaded that is not loaded already.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is open.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        if address.is_null() {
            // SAFETY: as above; it remains loaded for those that have loaded it. If the function is
            // found, the library stays open for this one too.
            unsafe { libc::dlclose(library) };
            return None;
        }
        Some(address)
    })
}

/// The files of all libraries except this one, in load order.
fn libraries() -> Vec<CString> {
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the expected pointer, and no other code accesses the list
    // meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(take), (&raw mut paths).cast()) };
    paths
}

unsafe extern "C" fn take(library: *mut libc::dl_phdr_info, _: libc::size_t, paths: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library, and the pointer given by `libraries`.
    let (library, paths) = unsafe { (&*library, &mut *paths.cast::<Vec<CString>>()) };
    // SAFETY: the name, if not null, is a C string.
    let path = if library.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(library.dlpi_name) } };
    let own = library.dlpi_addr == own_base();
    // The program has no name, and objects mapped by the kernel have no file.
    if !own && path.to_bytes().contains(&b'/') {
        paths.push(path.to_owned());
    }
    0
}

/// The base address of this library.
fn own_base() -> u64 {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = own_base as fn() -> u64 as *const c_void;
    // SAFETY: an address, and room for the answer.
    match unsafe { libc::dladdr(here, info.as_mut_ptr()) } {
        0 => 0,
        // SAFETY: it has been filled.
        _ => unsafe { info.assume_init() }.dli_fbase.addr() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_loaded_libraries_are_found() {
        assert!(find(c"malloc").is_some());
        assert!(find(c"no_library_has_this").is_none());
    }

    #[test]
    fn the_program_and_kernel_objects_are_not_listed() {
        let paths = libraries();
        let program = std::env::current_exe().unwrap();
        assert!(paths.iter().any(|path| path.to_string_lossy().contains("libc.so")));
        assert!(paths.iter().all(|path| path.to_string_lossy() != program.to_string_lossy()));
    }
}
