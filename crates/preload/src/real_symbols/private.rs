//! Symbols of libraries that were loaded privately for one caller, as an interpreter does with its
//! modules and their dependencies. The usual search order does not find them.

use std::ffi::{CStr, CString, c_void};

use crate::objects::{self, Library};

/// The address of a function in one of the loaded libraries, except the program itself and this
/// library. A library with such a function stays loaded.
///
/// Allocates, and takes the locks of the loader.
#[cold]
pub(super) fn find(name: &CStr) -> Option<*mut c_void> {
    // Libraries are opened after all are listed: the locks of the loader are taken in one order
    // only.
    libraries().iter().find_map(|path| {
        let library = Library::open(path)?;
        let address = library.function(name);
        (!address.is_null()).then(|| {
            std::mem::forget(library);
            address
        })
    })
}

/// The files of all libraries except this one, in load order.
fn libraries() -> Vec<CString> {
    let own = objects::range_around(libraries as fn() -> Vec<CString> as usize).unwrap_or_default();
    let mut paths = Vec::new();
    objects::for_each(|info| {
        // SAFETY: the name, if not null, is a C string.
        let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        // The program has no name, and objects mapped by the kernel have no file.
        if !own.contains(&(info.dlpi_addr as usize)) && path.to_bytes().contains(&b'/') {
            paths.push(path.to_owned());
        }
        true
    });
    paths
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
