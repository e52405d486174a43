//! Windows: memory of each rank that the others read and change without its help.
//!
//! Each rank has a file without a name in shared memory, of a fixed length, and maps those of all.
//! It consists of atomic words, so a rank that puts while another one gets does no harm: each word
//! is old or new. A fence orders more than that: it is a barrier, whose messages release what was
//! put before and acquire what is got after.
//!
//! The files exist as long as a rank has them mapped, also if their owner has died.
//!
//! Ranks register memory, and tell each other where it is, by messages only. A rank that drops its
//! window removes its own mappings and no words: others get from theirs what was put last, and the
//! mappings of a window cannot be removed while a call uses it. So this has no lock-free protocol
//! of its own. The one by which a sender takes its memory back from a receiver is in `ring`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::AcqRel;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use sys::elements;
use sys::files;
use sys::identity;
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;
use sys::words;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::memory;

/// The memory of all ranks of a communicator that they registered together:
/// [`Communicator::window`].
#[derive(Debug)]
pub struct Window<'c> {
    communicator: &'c Communicator,
    /// By rank.
    parts: Vec<View<[AtomicU64]>>,
}

impl Communicator {
    /// Registers memory of so many words of 64 bits, full of zeros. All ranks must call this, and
    /// each chooses the length of its own part. Zero counts as one.
    ///
    /// The others can use the memory of a rank as long as they keep their windows, also if that
    /// rank has dropped its own, or has died.
    ///
    /// # Errors
    /// At all ranks, if one has less memory than all parts need together or cannot open those of
    /// the others, or if not all are on one machine.
    pub fn window(&self, words: usize) -> Result<Window<'_>, Error> {
        self.expect_one_machine()?;
        self.expect_memory(words)?;
        let own = create(words);
        // No path if there is no memory.
        let path = own.as_ref().map_or(OsStr::new(""), |file| file.path().as_os_str());
        let paths = self.all_gather_texts(path)?;
        let open = |(path, &rank): (&OsString, &u32)| open(Path::new(path)).map_err(Error::window(rank));
        let parts: Result<Vec<_>, _> = paths.iter().zip(self.members.iter()).map(open).collect();
        // Files are open in all ranks before the first one closes its own, or fails.
        let mut failed = [u8::from(parts.is_err())];
        self.all_reduce(&mut failed, u8::max)?;
        let rank = self.endpoint.rank;
        own.map_err(Error::window(rank))?;
        match (parts, failed) {
            (Ok(parts), [0]) => Ok(Window { communicator: self, parts }),
            (Ok(_), _) => Err(Error::window(rank)(io::Error::other("another rank cannot open that of all"))),
            (Err(why), _) => Err(why),
        }
    }
}

impl Communicator {
    /// A path names another file, or none, on another machine.
    fn expect_one_machine(&self) -> Result<(), Error> {
        let (boot, namespace) = (identity::boot(), identity::pid_namespace());
        let machine = if boot.is_empty() { identity::machine() } else { boot };
        let machines = self.all_gather_texts(OsStr::new(&format!("{namespace} {machine}")))?;
        let elsewhere = machines.iter().zip(self.members.iter()).find(|(machine, _)| **machine != machines[0]);
        elsewhere.map_or(Ok(()), |(_, &rank)| {
            let first = self.members[0];
            let why = format!("a window is for ranks on one machine and in one PID namespace, and this one is not in that of rank {first}");
            Err(Error::Window { rank, why })
        })
    }

    /// The kernel would end processes, rather than refuse memory. So all ranks look at the memory
    /// that is left before one of them takes any, and all judge in the same way.
    fn expect_memory(&self, words: usize) -> Result<(), Error> {
        let mut all = vec![0; self.ranks() as usize * 2];
        self.all_gather(&[words as u64, sys::memory::available()], &mut all)?;
        shortage(all.as_chunks().0).map_or(Ok(()), |(rank, why)| Err(Error::Window { rank: self.members[rank], why }))
    }
}

/// The rank with the longest part, and the reason, if the parts of all need more memory than one of
/// them has. Each rank has a number of words, and of bytes that are left.
fn shortage(ranks: &[[u64; 2]]) -> Option<(usize, String)> {
    // The sum of 256 lengths is beyond 64 bits.
    let needed: u128 = ranks.iter().map(|&[words, _]| u128::from(words.max(1)) * size_of::<u64>() as u128).sum();
    let left = ranks.iter().map(|&[_, left]| left).min()?;
    if needed <= u128::from(left) {
        return None;
    }
    let most = ranks.iter().map(|&[words, _]| words).max()?;
    let longest = ranks.iter().position(|&[words, _]| words == most)?;
    Some((longest, format!("the parts of all ranks need {needed} bytes together, of {left} that are available")))
}

fn create(words: usize) -> io::Result<UnnamedFile> {
    let length = words.max(1).checked_mul(size_of::<u64>()).ok_or(Errno::NOMEM)?;
    let file = UnnamedFile::of_length(length as u64)?;
    memory::reserve(file.file(), 0, length)?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<View<[AtomicU64]>> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOMEM.into());
    }
    let file = files::open_existing(path)?;
    // An access beyond the end of a file that becomes shorter would end this process.
    if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
        return Err(Errno::PERM.into());
    }
    let length = usize::try_from(file.metadata()?.len()).map_err(|_| Errno::NOMEM)?;
    let mapping = Mapping::new(&file, NonZeroUsize::new(length).ok_or(Errno::INVAL)?)?;
    mapping.slice(0, length / size_of::<u64>()).ok_or_else(|| Errno::INVAL.into())
}

impl Window<'_> {
    /// The words of this rank.
    pub fn own(&self) -> &[AtomicU64] {
        &self.parts[self.communicator.rank() as usize]
    }

    /// Writes words to the memory of a rank, from this place on.
    ///
    /// # Errors
    /// If there is no such rank, or the words are not within its memory.
    pub fn put(&self, rank: u32, place: usize, words: &[u64]) -> Result<(), Error> {
        let to = self.words(rank, place, words.len())?;
        words::store(to, elements::bytes(words).as_chunks().0);
        Ok(())
    }

    /// Reads words from the memory of a rank, from this place on.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(&self, rank: u32, place: usize, words: &mut [u64]) -> Result<(), Error> {
        let from = self.words(rank, place, words.len())?;
        words::load(from, elements::bytes_mut(words).as_chunks_mut().0);
        Ok(())
    }

    /// Adds to a word in the memory of a rank, in one step, modulo 2^64. Returns the value before.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn add(&self, rank: u32, place: usize, value: u64) -> Result<u64, Error> {
        Ok(self.words(rank, place, 1)?[0].fetch_add(value, AcqRel))
    }

    /// Waits until all ranks have called this. Then all that they put before is there.
    ///
    /// # Errors
    /// As [`Communicator::barrier`].
    pub fn fence(&self) -> Result<(), Error> {
        self.communicator.barrier()
    }

    fn words(&self, rank: u32, place: usize, count: usize) -> Result<&[AtomicU64], Error> {
        let member = self.communicator.member(rank)?;
        let all = &self.parts[rank as usize];
        let range: Range<usize> = place..place.saturating_add(count);
        let beyond = Error::BeyondWindow { rank: member, end: range.end as u64, length: all.len() as u64 };
        all.get(range).ok_or(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_only_fit_alone_are_a_shortage_that_names_the_first_of_the_longest() {
        assert_eq!(shortage(&[[100, 1_600], [100, 1_600]]), None);
        let why =
            |needed, left| format!("the parts of all ranks need {needed} bytes together, of {left} that are available");
        assert_eq!(shortage(&[[100, 1_600], [101, 1_600], [101, 1_600]]), Some((1, why("2416", "1600"))));
        // One rank has less memory than the others.
        assert_eq!(shortage(&[[100, 1_600], [100, 1_599]]), Some((0, why("1600", "1599"))));
        // Zero counts as one.
        assert_eq!(shortage(&[[0, 16], [0, 16]]), None);
        assert_eq!(shortage(&[[0, 15], [0, 15]]), Some((0, why("16", "15"))));
        assert_eq!(
            shortage(&[[u64::MAX, u64::MAX]; 2]),
            Some((0, why("295147905179352825840", "18446744073709551615")))
        );
    }
}
