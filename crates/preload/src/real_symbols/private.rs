//! What libraries have that were loaded for one caller only, as an interpreter does with its modules and what they need: a name that
//! is looked for in the usual order is not found there.

use std::ffi::{CStr, CString, c_int, c_void};

/// Where a function of this name is in one of the libraries that are loaded, the program itself and this library left out.
///
/// Takes memory and the loader's locks.
#[cold]
pub(super) fn find(name: &CStr) -> Option<*mut c_void> {
    // Libraries are opened when all are listed: the loader's locks are taken in one order only.
    libraries().iter().find_map(|path| {
        // SAFETY: a text with its zero; nothing is loaded that is not loaded already.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return None;
        }
        // SAFETY: the library is open.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        if address.is_null() {
            // SAFETY: as above; it stays loaded for those that have loaded it. Where the function was found, it stays for this library too.
            unsafe { libc::dlclose(library) };
            return None;
        }
        Some(address)
    })
}

/// The files of all libraries but this one, in the order in which they were loaded.
fn libraries() -> Vec<CString> {
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the callback gets what it expects, and nobody else has the list meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(take), (&raw mut paths).cast()) };
    paths
}

unsafe extern "C" fn take(library: *mut libc::dl_phdr_info, _: libc::size_t, paths: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library, and what `libraries` has given it.
    let (library, paths) = unsafe { (&*library, &mut *paths.cast::<Vec<CString>>()) };
    // SAFETY: where there is a name, it is a text with its zero.
    let path = if library.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(library.dlpi_name) } };
    let own = library.dlpi_addr == own_base();
    // The program has no name, and what the kernel maps has no file.
    if !own && path.to_bytes().contains(&b'/') {
        paths.push(path.to_owned());
    }
    0
}

/// Where this library begins.
fn own_base() -> u64 {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = own_base as fn() -> u64 as *const c_void;
    // SAFETY: an address, and room for what is known of it.
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
    fn what_a_loaded_library_has_is_found() {
        assert!(find(c"malloc").is_some());
        assert!(find(c"no_library_has_this").is_none());
    }

    #[test]
    fn neither_the_program_nor_what_the_kernel_maps_is_listed() {
        let paths = libraries();
        let program = std::env::current_exe().unwrap();
        assert!(paths.iter().any(|path| path.to_string_lossy().contains("libc.so")));
        assert!(paths.iter().all(|path| path.to_string_lossy() != program.to_string_lossy()));
    }
}
