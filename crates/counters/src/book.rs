//! The book: a file of pages.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use policy::Span;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use sys::shared_memory::{Mapping, View};
use wait::Statistics;

use crate::page::Page;
use crate::subject::{Reason, Subject};

/// How many processes one book has pages for. The file has holes where nothing is written.
const PAGES: usize = 1024;
/// "rowlock" and a number that is new with each change of what is in a book.
const MAGIC: u64 = u64::from_ne_bytes(*b"rowlock\x01");
/// Before the pages: the magic number, and how many pages are taken, or would be if there were as many.
const HEADER: usize = 128;
const LENGTH: usize = HEADER + PAGES * size_of::<Page>();

/// A book of accounts.
#[derive(Debug)]
pub struct Book {
    file: File,
    mapping: Arc<Mapping>,
}

/// Why there is no book.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The file cannot be made, opened or mapped.
    #[error("cannot use the book of accounts: {0}")]
    System(#[from] io::Error),
    /// The file is something else, or was made by another version of this library.
    #[error("this file is no book of accounts of this version")]
    Foreign,
}

/// What a process did with its waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The process.
    pub pid: u32,
    /// What program it was, as the kernel knows it: at most 15 bytes of its file's name.
    pub name: String,
    /// Whether it came to its end by itself. If not it runs still, was killed, or executed another program.
    pub ended: bool,
    /// What it believed that waking a sleeper costs.
    pub cs: Span,
    /// What it waited at, without subjects at which it never waited.
    pub waits: Vec<Waits>,
}

/// What a process's waits at one subject came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// What it waited at.
    pub subject: Subject,
    /// Those waits that went by a rule.
    pub statistics: Statistics,
    /// How many waits, or objects to wait at, were left to the original, and why.
    pub left: Vec<(Reason, u64)>,
}

impl Waits {
    /// An estimate of the time that was saved: each spin that succeeded has saved that the thread was put to sleep and woken.
    pub fn time_saved(&self, cs: Span) -> Span {
        Span::from_nanos(self.statistics.successful_spins.saturating_mul(cs.as_nanos()))
    }
}

impl Book {
    /// Makes a new book, for this user's processes. The file must not exist; whoever makes it removes it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> Result<Book, BookError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(LENGTH as u64)?;
        let book = Book::map(file)?;
        book.take_room(0, HEADER)?;
        book.header(0).ok_or(BookError::Foreign)?.store(MAGIC, Relaxed);
        Ok(book)
    }

    /// Opens a book that another process has made.
    ///
    /// # Errors
    /// The system's, or that the file is none.
    pub fn open(path: &Path) -> Result<Book, BookError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != LENGTH as u64 {
            return Err(BookError::Foreign);
        }
        let book = Book::map(file)?;
        let magic = book.header(0).ok_or(BookError::Foreign)?;
        if magic.load(Relaxed) == MAGIC { Ok(book) } else { Err(BookError::Foreign) }
    }

    fn map(file: File) -> Result<Book, BookError> {
        let length = NonZeroUsize::new(LENGTH).ok_or(BookError::Foreign)?;
        let mapping = Mapping::new(&file, length)?;
        Ok(Book { file, mapping })
    }

    /// Makes sure that there is room for what is written there: who writes to a part of the file for which there is none is killed.
    fn take_room(&self, offset: usize, length: usize) -> io::Result<()> {
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset as u64, length as u64)) {
            // A file system that cannot promise room mostly has some.
            Err(Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    fn header(&self, number: usize) -> Option<View<AtomicU64>> {
        self.mapping.get(number * size_of::<AtomicU64>())
    }

    fn page(&self, number: usize) -> Option<View<Page>> {
        if number < PAGES { self.mapping.get(HEADER + number * size_of::<Page>()) } else { None }
    }

    /// A page for the calling process; nothing where all are taken, or there is no room for it on the disk.
    pub fn claim(&self) -> Option<View<Page>> {
        let number = usize::try_from(self.header(1)?.fetch_add(1, Relaxed)).ok()?;
        let page = self.page(number)?;
        self.take_room(HEADER + number * size_of::<Page>(), size_of::<Page>()).ok()?;
        Some(page)
    }

    /// How many processes came too late for a page.
    pub fn turned_away(&self) -> u64 {
        self.header(1).map_or(0, |taken| taken.load(Relaxed).saturating_sub(PAGES as u64))
    }

    /// What is written so far, by process, in the order in which they came.
    pub fn entries(&self) -> Vec<Entry> {
        let taken = self.header(1).map_or(0, |taken| taken.load(Relaxed).min(PAGES as u64));
        // Whose page found no room has written nothing, and to read it would be as deadly.
        let has_room = |&number: &usize| self.take_room(HEADER + number * size_of::<Page>(), size_of::<Page>()).is_ok();
        let pages = (0..taken as usize).filter(has_room).filter_map(|number| self.page(number));
        pages.filter(|page| page.pid() != 0).map(|page| entry(&page)).collect()
    }
}

fn entry(page: &Page) -> Entry {
    let waits = Subject::ALL.into_iter().filter_map(|subject| {
        let statistics = page.statistics(subject);
        let left = Reason::ALL.into_iter().map(|reason| (reason, page.left(subject, reason)));
        let left: Vec<_> = left.filter(|&(_, times)| times > 0).collect();
        (statistics != Statistics::default() || !left.is_empty()).then_some(Waits { subject, statistics, left })
    });
    Entry { pid: page.pid(), name: page.name(), ended: page.has_ended(), cs: page.cs(), waits: waits.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> (tempfile::TempDir, std::path::PathBuf, Book) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        let book = Book::create(&path).unwrap();
        (folder, path, book)
    }

    #[test]
    fn what_a_process_writes_is_read_by_who_made_the_book() {
        let (_folder, path, book) = book();
        let page = Book::open(&path).unwrap().claim().unwrap();
        page.begin(7, b"a-name-that-is-too-long", Span::from_micros(20));
        for thread in 0..9 {
            page.tally(Subject::Mutex, thread).waited(2);
        }
        let spins = Statistics { spins: 5, successful_spins: 4, ..Statistics::default() };
        page.tally(Subject::Mutex, 1).counters.merge(&spins);
        page.leave(Subject::Gomp, Reason::Tasks, 3);
        page.end(8);
        assert!(!book.entries()[0].ended);
        page.end(7);
        let mutexes = Waits { subject: Subject::Mutex, statistics: Statistics { waits: 18, ..spins }, left: vec![] };
        assert_eq!(mutexes.time_saved(Span::from_micros(20)), Span::from_micros(80));
        let barriers =
            Waits { subject: Subject::Gomp, statistics: Statistics::default(), left: vec![(Reason::Tasks, 3)] };
        let expected = Entry {
            pid: 7,
            name: "a-name-that-is-".to_owned(),
            ended: true,
            cs: Span::from_micros(20),
            waits: vec![mutexes, barriers],
        };
        assert_eq!(book.entries(), [expected]);
    }

    #[test]
    fn each_process_has_a_page_until_there_are_none() {
        let (_folder, _, book) = book();
        for pid in 1..=PAGES as u32 {
            book.claim().unwrap().begin(pid, b"x", Span::ZERO);
        }
        assert!(book.claim().is_none());
        assert_eq!((book.entries().len(), book.turned_away()), (PAGES, 1));
    }

    #[test]
    fn what_is_no_book_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        assert!(matches!(Book::open(&path), Err(BookError::System(_))));
        for length in [0, LENGTH as u64] {
            File::create(&path).unwrap().set_len(length).unwrap();
            assert!(matches!(Book::open(&path), Err(BookError::Foreign)), "{length}");
        }
        assert!(matches!(Book::create(&path), Err(BookError::System(_))));
    }
}
