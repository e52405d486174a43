//! Thread-locals become new: they are copied from the initial values in their libraries again,
//! except those of the C library. Its caches of memory serve the next thread as well, and only
//! `errno` and the locale are reset.
//!
//! Most programs load no libraries by themselves. There, copies of all values are ready, and their
//! places are known. Otherwise the loader is asked each time, which takes some 100 ns.

use std::ffi::{CStr, CString};
use std::mem::transmute;
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut, with_exposed_provenance};

use super::{offset, own, private};

/// The process's locale (`LC_GLOBAL_LOCALE`).
pub(super) const GLOBAL_LOCALE: libc::locale_t = null_mut::<libc::c_void>().wrapping_byte_sub(1);

/// The means to make thread-locals new.
pub(super) struct Renewal {
    /// The offsets of those of libraries that are never unloaded, and their initial values. `None`
    /// if some are not at the same offset in all threads.
    images: Option<Vec<(usize, Vec<u8>)>>,
    /// The loader's record of the last of these libraries. If another follows, there are more.
    last: NonNull<LinkMap>,
    /// The offset of `errno`.
    last_error: usize,
    /// The offset of the locale, and its value if the thread has none of its own.
    locale: (usize, usize),
}

// SAFETY: the record stays as long as the process, and is only read.
unsafe impl Send for Renewal {}
// SAFETY: as above.
unsafe impl Sync for Renewal {}

/// The beginning of the loader's record of a library (`link_map`).
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const libc::c_char,
    dynamic: usize,
    next: *mut LinkMap,
}

impl Renewal {
    /// Makes the calling thread's thread-locals new, except for the one that is kept.
    ///
    /// # Safety
    /// As for [`end`](super::end).
    #[inline]
    pub(super) unsafe fn renew(&self, kept: &Range<usize>) {
        // SAFETY: the caller's promise. Offsets lead to what the calling thread has.
        unsafe {
            match &self.images {
                Some(images) if self.last.as_ref().next.is_null() => {
                    for (offset, initial) in images {
                        own::<u8>(*offset).copy_from_nonoverlapping(initial.as_ptr(), initial.len());
                    }
                }
                _ => renew_all(kept),
            }
            own::<libc::c_int>(self.last_error).write(0);
            if own::<usize>(self.locale.0).read() != self.locale.1 {
                libc::uselocale(GLOBAL_LOCALE);
            }
        }
    }

    pub(super) fn new(kept: &Range<usize>) -> Option<Renewal> {
        let mut last = None;
        // Until none of the libraries can disappear any more.
        while let (names, now) = libraries()?
            && last.replace(now) != Some(now)
        {
            for name in names {
                let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
                // SAFETY: it is loaded, so this runs no code of its.
                unsafe { libc::dlopen(name.as_ptr(), flags) };
            }
        }
        let (mut images, mut locale) = (Some(Vec::new()), None);
        let room = static_size();
        for_each_library(|library| {
            if library.is_c_library {
                locale = locale_in(&library);
                return;
            }
            let first = offset(library.values.addr());
            if library.values.is_null() || first.cast_signed().unsigned_abs() >= room {
                images = None;
            } else if let Some(images) = &mut images {
                for part in library.parts(kept) {
                    let value = |at| library.initial.get(at).copied().unwrap_or(0);
                    images.push((first.wrapping_add(part.start), part.map(value).collect()));
                }
            }
        });
        // SAFETY: it has no conditions.
        let last_error = offset(unsafe { libc::__errno_location() }.addr());
        Some(Renewal { images, last: last?, last_error, locale: locale? })
    }
}

/// The names of all libraries, and the loader's record of the last one.
fn libraries() -> Option<(Vec<CString>, NonNull<LinkMap>)> {
    /// # Safety
    /// `dl_iterate_phdr` calls it with what is to be completed. Meanwhile records stay.
    unsafe extern "C" fn look(_: *mut libc::dl_phdr_info, _: libc::size_t, found: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the promise above.
        unsafe {
            let (names, last) = &mut *found.cast::<(Vec<CString>, NonNull<LinkMap>)>();
            while let Some(next) = NonNull::new(last.as_ref().next) {
                names.push(CStr::from_ptr(next.as_ref().name).to_owned());
                *last = next;
            }
        }
        1
    }
    let mut first = null_mut::<LinkMap>();
    // SAFETY: a handle of the program itself leads to the first record.
    unsafe {
        let program = NonNull::new(libc::dlopen(null(), libc::RTLD_LAZY))?;
        libc::dlinfo(program.as_ptr(), libc::RTLD_DI_LINKMAP, (&raw mut first).cast());
    }
    let mut found = (Vec::new(), NonNull::new(first)?);
    // SAFETY: the function gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    Some(found)
}

/// The size of the static thread-locals of all libraries.
fn static_size() -> usize {
    let (mut size, mut alignment) = (0_usize, 0_usize);
    if let Some(get) = private(c"_dl_get_tls_static_info") {
        // SAFETY: it is the C library's function, which has this type, and there is room.
        unsafe {
            let get = transmute::<NonNull<libc::c_void>, unsafe extern "C" fn(*mut usize, *mut usize)>(get);
            get(&raw mut size, &raw mut alignment);
        }
    }
    size
}

/// The offset of the word of the C library with the calling thread's locale, and its value if that
/// is the process's.
fn locale_in(library: &Library) -> Option<(usize, usize)> {
    // SAFETY: a locale is not freed before another one is in use. The words are the thread's.
    unsafe {
        let own = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), null_mut());
        let before = libc::uselocale(own);
        let mut words = (0..library.length / size_of::<usize>()).map(|index| library.values.cast::<usize>().add(index));
        let word = words.find(|word| word.read_volatile() == own.addr());
        libc::uselocale(GLOBAL_LOCALE);
        let global = word.map(|word| (offset(word.addr()), word.read_volatile()));
        libc::uselocale(before);
        libc::freelocale(own);
        global
    }
}

/// A library with thread-locals, for the calling thread.
struct Library {
    /// Where they are. Null if the loader does not know of any use.
    values: *mut u8,
    /// The first of them. Others are zero.
    initial: &'static [u8],
    length: usize,
    /// By which the loader knows it.
    number: usize,
    /// They may be used without the loader's knowledge.
    is_static: bool,
    is_c_library: bool,
}

impl Library {
    /// The parts of the thread-locals that are not kept.
    fn parts(&self, kept: &Range<usize>) -> [Range<usize>; 2] {
        let place = |address: usize| address.saturating_sub(self.values.addr()).min(self.length);
        [0..place(kept.start), place(kept.end)..self.length]
    }

    /// Gives them their initial values, except for what is kept.
    ///
    /// # Safety
    /// They exist, and no code uses them.
    unsafe fn renew(&self, kept: &Range<usize>) {
        for part in self.parts(kept) {
            let [start, middle] = [part.start, part.end].map(|at| at.min(self.initial.len()));
            // SAFETY: both are parts of them, and the first one has initial values.
            unsafe {
                let initial = &self.initial[start..middle];
                self.values.add(start).copy_from_nonoverlapping(initial.as_ptr(), initial.len());
                let zero = part.start.max(middle);
                self.values.add(zero).write_bytes(0, part.end - zero);
            }
        }
    }
}

/// Calls a function for each library. It must not load libraries.
fn for_each_library<F: FnMut(Library)>(mut call: F) {
    /// # Safety
    /// `dl_iterate_phdr` calls it with a library and the function.
    unsafe extern "C" fn look<F: FnMut(Library)>(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        call: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the arguments are valid, and a library's segments are in memory.
        unsafe {
            let info = &*info;
            let segments = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            if let Some(segment) = segments.iter().find(|segment| segment.p_type == libc::PT_TLS) {
                let (values, length) = (info.dlpi_tls_data.cast::<u8>(), segment.p_memsz as usize);
                let initial = with_exposed_provenance((info.dlpi_addr + segment.p_vaddr) as usize);
                (*call.cast::<F>())(Library {
                    values,
                    initial: std::slice::from_raw_parts(initial, segment.p_filesz as usize),
                    length,
                    number: info.dlpi_tls_modid,
                    is_static: has_static_flag(info.dlpi_addr as usize, segments),
                    is_c_library: offset(libc::__errno_location().addr()).wrapping_sub(offset(values.addr())) < length,
                });
            }
        }
        0
    }
    // SAFETY: the function gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look::<F>), (&raw mut call).cast()) };
}

/// Whether a library at this address says that it uses its thread-locals at fixed offsets.
///
/// # Safety
/// They are the segments of a library that is loaded there.
unsafe fn has_static_flag(address: usize, segments: &[libc::Elf64_Phdr]) -> bool {
    let Some(segment) = segments.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC) else { return false };
    let mut entry = with_exposed_provenance::<[usize; 2]>(address + segment.p_vaddr as usize);
    loop {
        // SAFETY: entries follow each other up to an empty one.
        match unsafe { entry.read() } {
            [0, _] => return false,
            // DT_FLAGS and DF_STATIC_TLS.
            [30, flags] => return flags & 0x10 != 0,
            // SAFETY: as above.
            _ => entry = unsafe { entry.add(1) },
        }
    }
}

unsafe extern "C" {
    /// Returns the address at an offset in a library's thread-locals, which it makes if necessary.
    fn __tls_get_addr(number_and_offset: *const [usize; 2]) -> *mut libc::c_void;
}

/// Gives all thread-locals of the calling thread their initial values, except for what is kept.
///
/// # Safety
/// As for [`end`](super::end).
#[cold]
unsafe fn renew_all(kept: &Range<usize>) {
    for _ in 0..2 {
        let mut unknown = Vec::new();
        for_each_library(|library| {
            if !library.values.is_null() && !library.is_c_library {
                // SAFETY: they are the thread's.
                unsafe { library.renew(kept) };
            } else if library.values.is_null() && library.is_static {
                unknown.push([library.number, 0]);
            }
        });
        if unknown.is_empty() {
            return;
        }
        for library in unknown {
            // SAFETY: it was loaded.
            unsafe { __tls_get_addr(&raw const library) };
        }
    }
}
