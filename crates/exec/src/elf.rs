//! Properties of a program's ELF file that decide how it is loaded.

use std::cell::Cell;
use std::io::{Read, Seek};
use std::ops::Range;

use object::elf::{
    DT_NEEDED, ELF_NOTE_GO, ELFCLASS32, ELFCLASS64, EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64,
    FileClass, FileHeader32, FileHeader64, Machine, NT_GO_BUILD_ID,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionTable};
use object::{Endianness, FileKind, ReadCache, ReadRef};

use crate::obstacle::Obstacle;

/// The target platform of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    class: FileClass,
    machine: Machine,
    endian: Endianness,
}

/// The obstacle to preloading the library into this program, as far as its file tells. A file that
/// is not ELF, or cannot be read, has none.
pub(crate) fn obstacle(file: impl Read + Seek, library: &[u8]) -> Option<Obstacle> {
    let properties = examine_file(file)?;
    let target = examine(library).map_or(properties.target, |library| library.target);
    if properties.target != target {
        return Some(Obstacle::OtherMachine(description(properties.target)));
    }
    if let Some(first) = properties.needed.into_iter().find(|library| is_address_sanitizer(library)) {
        return Some(Obstacle::MustBeFirst(first));
    }
    match properties.loader {
        loader if properties.is_go => Some(Obstacle::Go { dynamic: loader.is_some() }),
        None => Some(Obstacle::Static),
        Some(loader) if is_of_glibc(&loader) => None,
        Some(loader) => Some(Obstacle::OtherLibrary(loader)),
    }
}

/// The loader that a program asks for.
pub(crate) fn loader(file: impl Read + Seek) -> Option<String> {
    examine_file(file)?.loader
}

/// The libraries that a program needs. None if it is no ELF file, or cannot be read.
pub(crate) fn libraries(file: impl Read + Seek) -> Vec<String> {
    examine_file(file).map_or_else(Vec::new, |properties| properties.needed)
}

/// The number of bytes read of a file. The headers and the names of libraries of a program are
/// shorter, but each of 65,535 segments may claim the whole of a large file.
const MOST_READ: u64 = 16 << 20;

/// A file of which no more than [`MOST_READ`] bytes are kept in memory.
struct Limited<R: Read + Seek> {
    file: ReadCache<R>,
    left: Cell<u64>,
}

impl<'data, R: Read + Seek> ReadRef<'data> for &'data Limited<R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        self.file.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        let bytes = self.file.read_bytes_at_until(range, delimiter)?;
        self.left.set(self.left.get().checked_sub(bytes.len() as u64 + 1).ok_or(())?);
        Ok(bytes)
    }
}

fn examine_file(file: impl Read + Seek) -> Option<FileProperties> {
    examine(&Limited { file: ReadCache::new(file), left: Cell::new(MOST_READ) })
}

/// The relevant properties of a file.
struct FileProperties {
    target: Target,
    /// The loader that it asks for.
    loader: Option<String>,
    is_go: bool,
    /// The libraries that it needs.
    needed: Vec<String>,
}

fn examine<'data>(data: impl ReadRef<'data>) -> Option<FileProperties> {
    match FileKind::parse(data).ok()? {
        FileKind::Elf32 => read::<FileHeader32<Endianness>>(data).ok(),
        FileKind::Elf64 => read::<FileHeader64<Endianness>>(data).ok(),
        _ => None,
    }
}

fn read<'data, Header: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> object::read::Result<FileProperties> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let (mut loader, mut is_go) = (None, false);
    for segment in header.program_headers(endian, data)? {
        loader = segment.interpreter(endian, data)?.or(loader);
        let Some(mut notes) = segment.notes(endian, data)? else { continue };
        while let Ok(Some(note)) = notes.next() {
            is_go |= note.name() == ELF_NOTE_GO && note.n_type(endian) == NT_GO_BUILD_ID;
        }
    }
    // Linkers other than Go's may drop the note. A file without sections is acceptable.
    let sections = header.sections(endian, data).unwrap_or_default();
    is_go |= sections.section_by_name(endian, b".go.buildinfo").is_some();
    let loader = loader.map(|loader| String::from_utf8_lossy(loader).into_owned());
    Ok(FileProperties {
        target: Target { class: header.e_ident().class, machine: header.e_machine(endian), endian },
        loader,
        is_go,
        needed: needed(&sections, endian, data),
    })
}

/// The libraries that a program needs, as far as its section headers tell.
fn needed<'data, Header: FileHeader<Endian = Endianness>, Data: ReadRef<'data>>(
    sections: &SectionTable<'data, Header, Data>,
    endian: Endianness,
    data: Data,
) -> Vec<String> {
    let Ok(Some((entries, strings))) = sections.dynamic(endian, data) else { return Vec::new() };
    let Ok(strings) = sections.strings(endian, data, strings) else { return Vec::new() };
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let names = needed.filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Whether this is the address sanitizer of gcc or clang, which aborts if another library was
/// loaded first.
fn is_address_sanitizer(library: &str) -> bool {
    ["libasan.so", "libclang_rt.asan"].iter().any(|begin| library.starts_with(begin))
}

/// Whether this is the loader of the GNU C library, by its names on all platforms, in any folder.
fn is_of_glibc(loader: &str) -> bool {
    let name = loader.rsplit('/').next().unwrap_or(loader);
    ["ld-linux", "ld64.so", "ld.so", "ld-2."].iter().any(|begin| name.starts_with(begin))
}

fn description(Target { class, machine, .. }: Target) -> String {
    let machine = match machine {
        EM_386 => "i386".to_owned(),
        EM_X86_64 if class == ELFCLASS32 => "x32".to_owned(),
        EM_X86_64 => "x86_64".to_owned(),
        EM_ARM => "arm".to_owned(),
        EM_AARCH64 => "aarch64".to_owned(),
        EM_PPC64 => "powerpc64".to_owned(),
        EM_RISCV => "riscv".to_owned(),
        EM_S390 => "s390x".to_owned(),
        Machine(number) => format!("machine {number}"),
    };
    match class {
        ELFCLASS32 => format!("{machine} (32 bits)"),
        ELFCLASS64 => format!("{machine} (64 bits)"),
        FileClass(number) => format!("{machine} (class {number})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, SeekFrom, Write};

    use super::*;
    use crate::library::EMBEDDED;

    /// The obstacle in a changed copy of this test's program.
    fn obstacle_after(change: impl FnOnce(&mut Vec<u8>)) -> Option<Obstacle> {
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        change(&mut bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        obstacle(&file, EMBEDDED)
    }

    /// The offset of the program header for the interpreter.
    fn interpreter(bytes: &[u8]) -> usize {
        let number = |at: usize, length: usize| {
            bytes[at..at + length].iter().rev().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
        };
        let (start, size, count) = (number(32, 8), number(54, 2), number(56, 2));
        (0..count).map(|index| start + index * size).find(|&header| number(header, 4) == 3).unwrap()
    }

    #[test]
    fn an_ordinary_program_is_no_obstacle_and_one_without_a_loader_is_static() {
        assert_eq!(obstacle_after(|_| {}), None);
        let without_loader = |bytes: &mut Vec<u8>| {
            let header = interpreter(bytes);
            bytes[header] = 0;
        };
        assert_eq!(obstacle_after(without_loader), Some(Obstacle::Static));
    }

    #[test]
    fn programs_for_other_machines_and_libraries_are_recognized() {
        let machine = |number: u8| obstacle_after(|bytes| bytes[18] = number);
        assert_eq!(machine(243), Some(Obstacle::OtherMachine("riscv (64 bits)".into())));
        let musl = obstacle_after(|bytes| {
            let header = interpreter(bytes);
            let at = bytes[header + 8..header + 16].iter().rev().fold(0, |at, &byte| at << 8 | usize::from(byte));
            let name = b"/lib/ld-musl-x86\0";
            bytes[at..at + name.len()].copy_from_slice(name);
            bytes[header + 32..header + 40].copy_from_slice(&name.len().to_le_bytes());
        });
        assert_eq!(musl, Some(Obstacle::OtherLibrary("/lib/ld-musl-x86".into())));
    }

    #[test]
    fn a_program_with_the_address_sanitizer_is_recognized() {
        // This program needs a library whose name has the same length.
        let with = |name: &'static [u8]| {
            move |bytes: &mut Vec<u8>| {
                let old = b"\0libgcc_s.so.1\0";
                let at = bytes.windows(old.len()).position(|found| found == old).unwrap() + 1;
                bytes[at..at + name.len()].copy_from_slice(name);
            }
        };
        assert_eq!(obstacle_after(with(b"libasan.so.8\0")), Some(Obstacle::MustBeFirst("libasan.so.8".into())));
        assert_eq!(obstacle_after(with(b"libtsan.so.2\0")), None);
        assert!(is_address_sanitizer("libclang_rt.asan-x86_64.so"));
    }

    #[test]
    fn programs_of_another_word_size_are_recognized() {
        let mut header = b"\x7fELF\x01\x01\x01".to_vec();
        header.resize(52, 0);
        // A program for i386 without segments and sections.
        header[16] = 2;
        header[18] = 3;
        header[40] = 52;
        assert_eq!(obstacle_after(|bytes| *bytes = header), Some(Obstacle::OtherMachine("i386 (32 bits)".into())));
    }

    /// A file of a gigabyte: a beginning, then zeros. Counts the bytes that are read.
    struct Sparse<'test> {
        beginning: &'test [u8],
        place: u64,
        read: &'test Cell<u64>,
    }

    impl Read for Sparse<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(0);
            let rest = self.beginning.get(self.place as usize..).unwrap_or_default();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            self.place += into.len() as u64;
            self.read.set(self.read.get() + into.len() as u64);
            Ok(into.len())
        }
    }

    impl Seek for Sparse<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.place = match to {
                SeekFrom::Start(place) => place,
                _ => 1 << 30,
            };
            Ok(self.place)
        }
    }

    #[test]
    fn a_program_whose_segments_claim_much_is_not_read_into_memory() {
        const SEGMENTS: u16 = 200;
        let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap()[..64].to_vec();
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[56..58].copy_from_slice(&SEGMENTS.to_le_bytes());
        for segment in 0..u64::from(SEGMENTS) {
            // Notes of a megabyte at different places.
            let fields = [4, segment * 4, 0, 0, 1 << 20, 1 << 20, 4];
            bytes.extend(fields.iter().flat_map(|field: &u64| field.to_le_bytes()));
        }
        let read = Cell::new(0);
        assert_eq!(obstacle(Sparse { beginning: &bytes, place: 0, read: &read }, EMBEDDED), None);
        assert!(read.get() <= 2 * MOST_READ, "{}", read.get());
    }

    #[test]
    fn incomplete_and_other_files_have_no_obstacle() {
        assert_eq!(obstacle_after(Vec::clear), None);
        assert_eq!(obstacle_after(|bytes| bytes.truncate(80)), None);
        assert_eq!(obstacle_after(|bytes| bytes[..4].fill(b'x')), None);
    }

    #[test]
    fn loaders_of_glibc_are_recognised_in_any_folder() {
        for loader in ["/lib64/ld-linux-x86-64.so.2", "/nix/store/x/lib/ld-linux-aarch64.so.1", "/lib64/ld64.so.2"] {
            assert!(is_of_glibc(loader), "{loader}");
        }
        for loader in ["/lib/ld-musl-x86_64.so.1", "/system/bin/linker64", ""] {
            assert!(!is_of_glibc(loader), "{loader}");
        }
    }
}
