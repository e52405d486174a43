//! The programs and libraries loaded into this process. The names of the functions that they import
//! show which features they may use.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

/// An entry of an object's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// A relocation: an address that the loader must write.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Tags of dynamic sections.
mod tag {
    pub(super) const NULL: i64 = 0;
    pub(super) const PLT_SIZE: i64 = 2;
    pub(super) const STRINGS: i64 = 5;
    pub(super) const SYMBOLS: i64 = 6;
    pub(super) const RELOCATIONS: i64 = 7;
    pub(super) const RELOCATIONS_SIZE: i64 = 8;
    pub(super) const PLT: i64 = 23;
    pub(super) const RELATIVE_COUNT: i64 = 0x6fff_fff9;
}

/// The number of objects loaded so far. Results of [`for_each_import`] are valid until it changes.
pub(crate) fn load_count() -> u64 {
    let mut loads = 0;
    for_each(|info| {
        loads = info.dlpi_adds;
        false
    });
    loads
}

/// Calls a closure with the name of every import of the loaded objects. A name may be repeated.
/// Does not allocate.
pub(crate) fn for_each_import(mut visit: impl FnMut(&CStr)) {
    for_each(|info| {
        // SAFETY: the loader does not unload an object during the callback.
        unsafe { for_each_import_of(info, &mut visit) };
        true
    });
}

/// The address range of the object that contains this address.
pub(crate) fn range_around(address: usize) -> Option<Range<usize>> {
    let mut found = None;
    for_each(|info| {
        // SAFETY: the loader does not unload an object during the callback.
        let loaded = unsafe { headers(info) }.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let ranges = loaded.map(|header| {
            let start = (info.dlpi_addr + header.p_vaddr) as usize;
            start..start + header.p_memsz as usize
        });
        let whole = ranges.reduce(|whole, range| whole.start.min(range.start)..whole.end.max(range.end));
        found = whole.filter(|whole| whole.contains(&address));
        found.is_none()
    });
    found
}

/// Calls a closure with every object, until it returns `false`.
pub(crate) fn for_each<F: FnMut(&dl_phdr_info) -> bool>(mut visit: F) {
    /// # Safety
    /// The loader describes an object, and `visit` points to a closure that nothing else uses now.
    unsafe extern "C" fn call<F: FnMut(&dl_phdr_info) -> bool>(
        info: *mut dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes the given pointer, and a description that is valid during the
        // callback.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<F>()) };
        (!visit(info)).into()
    }
    // SAFETY: `call` gets the address of `visit`, and is only called before this returns.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut visit).cast()) };
}

/// A loaded library, kept loaded by this reference.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// A library that is loaded already, by its path.
    pub(crate) fn open(path: &CStr) -> Option<Library> {
        // SAFETY: the path is a C string, and no code of the library runs, since it is loaded
        // already.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!library.is_null()).then_some(Library(library))
    }

    /// The library that contains this address.
    pub(crate) fn at(address: usize) -> Option<Library> {
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: there is room for the answer, whose path is a C string. The library remains
        // loaded during the query.
        unsafe {
            let found = libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0;
            found.then(|| Library::open(CStr::from_ptr(info.assume_init().dli_fname)))?
        }
    }

    /// A function of this library or of its dependencies; null if there is none.
    pub(crate) fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is valid, and the name is a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is owned.
        unsafe { libc::dlclose(self.0) };
    }
}

/// # Safety
/// The object stays loaded during `'_`.
unsafe fn headers(info: &dl_phdr_info) -> &[Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the loader provides their address and number.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
}

/// Calls a closure with the name of every import of an object. Reads the relocations: they name all
/// imported functions, since the loader must write their addresses somewhere. (The symbol table has
/// no length.)
///
/// # Safety
/// The object stays loaded meanwhile.
unsafe fn for_each_import_of(info: &dl_phdr_info, visit: &mut impl FnMut(&CStr)) {
    // SAFETY: the caller's promise.
    let headers = unsafe { headers(info) };
    let Some(dynamic) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else { return };
    let base = info.dlpi_addr;
    // Some loaders replace file addresses by memory addresses, but not on all platforms.
    let at = |address: u64| if address < base { address + base } else { address };

    let [mut strings, mut symbols, mut relocations, mut plt] = [0; 4];
    let [mut relocations_size, mut plt_size, mut relative] = [0; 3];
    let mut entry = (base + dynamic.p_vaddr) as *const Dynamic;
    // SAFETY: a dynamic section ends with this tag.
    while let Dynamic { tag, value } = unsafe { entry.read() }
        && tag != tag::NULL
    {
        match tag {
            tag::STRINGS => strings = at(value),
            tag::SYMBOLS => symbols = at(value),
            tag::RELOCATIONS => relocations = at(value),
            tag::RELOCATIONS_SIZE => relocations_size = value,
            tag::PLT => plt = at(value),
            tag::PLT_SIZE => plt_size = value,
            tag::RELATIVE_COUNT => relative = value,
            _ => {}
        }
        // SAFETY: it was not the last.
        entry = unsafe { entry.add(1) };
    }
    if strings == 0 || symbols == 0 {
        return;
    }
    for (table, size, skipped) in [(plt, plt_size, 0), (relocations, relocations_size, relative as usize)] {
        let length = size as usize / size_of::<Relocation>();
        if table == 0 || length == 0 {
            continue;
        }
        // SAFETY: the dynamic section provides its address.
        let table = unsafe { std::slice::from_raw_parts(table as *const Relocation, length) };
        // Relative relocations come first and name no symbol; in large objects they are the
        // majority.
        for relocation in table.iter().skip(skipped) {
            let number = relocation.info >> 32;
            if number == 0 {
                continue;
            }
            // SAFETY: the symbol of a relocation is in the symbol table, and its name in the string
            // table.
            unsafe {
                let symbol = &*(symbols as *const Elf64_Sym).add(number as usize);
                // The object itself defines all other symbols.
                if symbol.st_shndx == 0 {
                    visit(CStr::from_ptr((strings as *const c_char).add(symbol.st_name as usize)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn called_functions_are_imports() {
        let mut found = 0;
        for_each_import(|name| found += usize::from(name == c"dl_iterate_phdr"));
        assert!(found > 0);
        for_each_import(|name| assert_ne!(name, c"for_each_import_of"));
    }

    #[test]
    fn loading_a_library_is_counted() {
        let before = load_count();
        assert_eq!(load_count(), before);
        let library =
            [c"libnss_dns.so.2", c"libanl.so.1", c"libthread_db.so.1", c"libnss_compat.so.2"].iter().find_map(|name| {
                // SAFETY: the name is a C string.
                let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
                (!library.is_null()).then_some(library)
            });
        if library.is_some() {
            assert!(load_count() > before);
        }
    }
}
