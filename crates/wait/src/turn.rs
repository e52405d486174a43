//! The page that says whose turn it is.
//!
//! Where parallel jobs take turns (`rowlock prun`), each job has a small file to which a *switcher*
//! writes whose turn it is and until when. The threads of the job map it for reading, and no wait
//! takes CPU time from the job whose turn it is: see `policy::waiting`.
//!
//! # Layout
//!
//! Two words of 64 bits. The first is the length of a slice in nanoseconds, which never changes.
//! The second is the turn: in its two lowest bits 0 for no turns, 1 for *ours* and 2 for *others'*,
//! and in the rest the time of the next boundary on `CLOCK_MONOTONIC`, in nanoseconds. So a turn is
//! read by one load, and never torn. Threads that nothing else wakes sleep on that word. A switcher
//! wakes them when others' turn is over; `turn/model.rs` checks with loom that it misses none.
//!
//! # No thread waits for a turn that does not come
//!
//! The content is data of any process of this user. A boundary that passed more than two slices
//! ago, or is more than two slices ahead, means that there are no turns: the switchers have ended,
//! or the word is nonsense. So do other states, other lengths, and a page that cannot be mapped. A
//! switcher may be late by less: until then it remains others' turn, and a thread looks again after
//! a millisecond.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use policy::waiting::Turn;
use policy::{Instant, Span};
use sys::files;
use sys::shared_memory::Mapping;

use crate::sync::{self, ReadOnlyWords, Scope, WrittenWords};

/// The variable with the path of the page.
pub const VARIABLE: &str = "ROWLOCK_TURN";
/// The length of the file, in bytes.
pub const LENGTH: NonZeroUsize = NonZeroUsize::new(WORDS * size_of::<u64>()).unwrap();

const SLICE: usize = 0;
const TURN: usize = 1;
const WORDS: usize = 2;

/// The longest slice that is believed.
const LONGEST_SLICE: Span = Span::from_millis(60_000);
/// How long a thread sleeps out of its turn when the switch is late.
const RETRY: Span = Span::from_millis(1);

/// The page of a job, as switchers write it.
#[derive(Debug)]
pub struct WrittenPage(WrittenWords);

impl WrittenPage {
    /// The page in a file of [`LENGTH`] bytes. `None` if it is shorter.
    pub fn new(mapping: &Arc<Mapping>) -> Option<WrittenPage> {
        Some(WrittenPage(sync::written_words(mapping, WORDS)?))
    }

    /// Sets the length of slices, before the ranks start.
    pub fn set_slice(&self, slice: Span) {
        self.0[SLICE].store(slice.as_nanos(), SeqCst);
    }

    /// Says whose turn it is. Wakes the threads that sleep until the turn of others is over.
    pub fn set(&self, turn: Turn) {
        let is_over = !turn.is_others();
        let before = self.0[TURN].swap(encode(turn), SeqCst);
        if is_over && before & STATE == OTHERS {
            sync::wake_on(&self.0[TURN], u32::MAX, Scope::Shared);
        }
    }
}

/// The page of this process's job, as its threads read it.
#[derive(Debug)]
pub struct TurnPage {
    words: ReadOnlyWords<WORDS>,
    slice: Span,
}

impl TurnPage {
    /// Maps the page at this path.
    ///
    /// # Errors
    /// If there is no file of the right length, or if it has no sensible length of slices.
    pub fn open(path: &Path) -> io::Result<TurnPage> {
        let file = files::open_existing(path)?;
        if file.metadata()?.len() != LENGTH.get() as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = ReadOnlyWords::new(file)?;
        let slice = Span::from_nanos(words.load(SLICE));
        let is_sensible = !slice.is_zero() && slice <= LONGEST_SLICE;
        is_sensible.then_some(TurnPage { words, slice }).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whose turn it is at `now`.
    #[inline]
    pub fn turn(&self, now: Instant) -> Turn {
        decode(self.words.load(TURN), self.slice, now)
    }

    /// Sleeps until the turn of others is over, or may be, or until `deadline`. Returns whether it
    /// is others' turn at `now`; otherwise it does not sleep.
    fn park(&self, now: Instant, deadline: Option<Instant>) -> bool {
        let word = self.words.load(TURN);
        let Turn::OthersUntil(boundary) = decode(word, self.slice, now) else { return false };
        // The next turn may be that of others again, so most sleeps end by a wake.
        let bound = deadline.map_or(boundary + self.slice, |deadline| deadline.min(boundary + self.slice));
        #[cfg(all(test, not(loom)))]
        if crate::sync::script::sleep(|| true, Some(bound)) {
            return true;
        }
        self.words.wait(TURN, word as u32, Duration::from_nanos(bound.as_nanos()));
        true
    }

    /// Sleeps until the turn of others is over, or until `deadline`.
    pub(crate) fn await_turn(&self, deadline: Option<Instant>) {
        loop {
            let now = sync::now();
            if deadline.is_some_and(|deadline| now >= deadline) || !self.park(now, deadline) {
                return;
            }
        }
    }
}

/// The page of this process's job. `None` if it has none. The first call reads the environment and
/// maps it; a call in another thread meanwhile finds none.
#[inline]
pub fn page() -> Option<&'static TurnPage> {
    static PAGE: OnceLock<Option<TurnPage>> = OnceLock::new();
    #[cfg(all(test, not(loom)))]
    if let Some(page) = crate::sync::script::turn_page() {
        return Some(page);
    }
    match PAGE.get() {
        Some(page) => page.as_ref(),
        None => find(&PAGE),
    }
}

#[cold]
fn find(page: &'static OnceLock<Option<TurnPage>>) -> Option<&'static TurnPage> {
    static SOUGHT: AtomicBool = AtomicBool::new(false);
    if cfg!(loom) || SOUGHT.swap(true, Relaxed) {
        return None;
    }
    let found = std::env::var_os(VARIABLE).and_then(|path| TurnPage::open(path.as_ref()).ok());
    page.get_or_init(|| found).as_ref()
}

/// Whose turn it is at `now`, for this process.
#[inline]
pub fn turn(now: Instant) -> Turn {
    page().map_or(Turn::NoTurns, |page| page.turn(now))
}

/// Sleeps if it is others' turn at `now`, until it is over or may be. Returns whether it is. For
/// threads that poll, and that no other thread wakes.
pub fn park(now: Instant) -> bool {
    page().is_some_and(|page| page.park(now, None))
}

const STATE: u64 = 3;
const OURS: u64 = 1;
const OTHERS: u64 = 2;

fn encode(turn: Turn) -> u64 {
    let word = |boundary: Instant, state| boundary.as_nanos().min(u64::MAX >> 2) << 2 | state;
    match turn {
        Turn::NoTurns => 0,
        Turn::OursUntil(boundary) => word(boundary, OURS),
        Turn::OthersUntil(boundary) => word(boundary, OTHERS),
    }
}

#[inline]
fn decode(word: u64, slice: Span, now: Instant) -> Turn {
    let boundary = Instant::from_nanos(word >> 2);
    let limit = slice + slice;
    if now.since(boundary) > limit || boundary.since(now) > limit {
        return Turn::NoTurns;
    }
    match word & STATE {
        OURS => Turn::OursUntil(boundary),
        OTHERS if boundary > now => Turn::OthersUntil(boundary),
        OTHERS => Turn::OthersUntil(now + RETRY),
        _ => Turn::NoTurns,
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    const SLICE_LENGTH: Span = Span::from_millis(20);
    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// A page for a script.
    pub(crate) fn written() -> (WrittenPage, &'static TurnPage) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LENGTH.get() as u64).unwrap();
        let written = WrittenPage::new(&Mapping::new(&file, LENGTH).unwrap()).unwrap();
        written.set_slice(SLICE_LENGTH);
        let read = TurnPage::open(file.path()).unwrap();
        (written, Box::leak(Box::new(read)))
    }

    #[test]
    fn a_turn_is_read_as_it_was_written() {
        let (written, page) = written();
        assert_eq!(page.turn(NOW), Turn::NoTurns);
        let boundary = NOW + Span::from_nanos(1);
        for turn in [Turn::OthersUntil(boundary), Turn::OursUntil(boundary), Turn::NoTurns] {
            written.set(turn);
            assert_eq!(page.turn(NOW), turn);
        }
    }

    #[test]
    fn a_boundary_that_is_more_than_two_slices_away_means_no_turns() {
        let limit = SLICE_LENGTH + SLICE_LENGTH;
        let boundary = NOW + limit;
        let end = boundary + limit;
        let after = |instant: Instant| instant + Span::from_nanos(1);
        for make in [Turn::OursUntil, Turn::OthersUntil] {
            let word = encode(make(boundary));
            assert_eq!(decode(word, SLICE_LENGTH, NOW), make(boundary));
            assert!(!decode(word, SLICE_LENGTH, end).is_none());
            assert_eq!(decode(word, SLICE_LENGTH, after(end)), Turn::NoTurns);
            let word = encode(make(after(boundary)));
            assert_eq!(decode(word, SLICE_LENGTH, NOW), Turn::NoTurns);
        }
    }

    #[test]
    fn as_long_as_a_switch_is_late_the_time_of_the_turn_is_ahead() {
        let word = encode(Turn::OthersUntil(NOW));
        for now in [NOW, NOW + SLICE_LENGTH] {
            assert_eq!(decode(word, SLICE_LENGTH, now), Turn::OthersUntil(now + RETRY));
        }
        assert_eq!(decode(encode(Turn::OursUntil(NOW)), SLICE_LENGTH, NOW + SLICE_LENGTH), Turn::OursUntil(NOW));
    }

    #[test]
    fn no_word_and_no_time_makes_a_thread_wait_for_more_than_four_slices() {
        let latest = SLICE_LENGTH.scaled(4_000);
        for turn in [Turn::OthersUntil(Instant::from_nanos(u64::MAX)), Turn::OursUntil(Instant::ZERO)] {
            for bits in 0..64 {
                let word = encode(turn) ^ (1 << bits);
                for now in [Instant::ZERO, NOW, Instant::from_nanos(word >> 2), Instant::from_nanos(u64::MAX)] {
                    let end = now + latest + Span::from_nanos(1);
                    let is_over = now == Instant::from_nanos(u64::MAX) || !decode(word, SLICE_LENGTH, end).is_others();
                    assert!(is_over || !decode(word, SLICE_LENGTH, now).is_others(), "{word:x} {now:?}");
                }
            }
        }
        assert_eq!(decode(encode(Turn::OthersUntil(NOW)) | STATE, SLICE_LENGTH, NOW), Turn::NoTurns);
    }

    #[test]
    fn a_file_that_is_no_page_is_refused() {
        for content in [&[][..], &[0; 15], &[0; 17], &[0; LENGTH.get()], &[0xff; LENGTH.get()]] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(content).unwrap();
            assert!(TurnPage::open(file.path()).is_err(), "{content:?}");
        }
        assert!(TurnPage::open(Path::new("/")).is_err());
        assert!(TurnPage::open(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_thread_sleeps_only_in_the_turn_of_others_and_is_woken_when_that_is_over() {
        let (written, page) = written();
        let now = sync::now();
        written.set(Turn::OursUntil(now + SLICE_LENGTH));
        assert!(!page.park(now, None));
        // A page that is about to be stale ends the sleep by its deadline.
        written.set(Turn::OthersUntil(now));
        assert!(page.park(now, None));
        assert!(sync::now() >= now + RETRY);
        // The clock of the sleeper is ahead by an hour, so that only a wake can end its sleep.
        let later = now + Span::from_millis(3_600_000);
        written.set(Turn::OthersUntil(later));
        let sleeper = std::thread::spawn(move || while !page.park(later, None) {});
        while !sleeper.is_finished() {
            written.set(Turn::OursUntil(later));
            written.set(Turn::OthersUntil(later));
            std::thread::sleep(Duration::from_millis(1));
        }
        sleeper.join().unwrap();
    }
}
