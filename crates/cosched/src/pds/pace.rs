//! The pace of a user's calls and connections, all together: each change of the table wakes the
//! agents of all jobs, at a real-time priority.
//!
//! The processes of a user's connections share a word: the time at which all calls until then are
//! paid. A call costs an interval. It waits as long as more is owed than a burst costs.
//!
//! A change of a job costs more, because it can get the job a turn before its time: when a job is
//! let go, for instance, the turn of one that was alone meanwhile ends.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::sleep;
use std::time::Duration;

use policy::{Instant, Span};
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;

const LENGTH: NonZeroUsize = NonZeroUsize::new(size_of::<u64>()).unwrap();
/// The price of a call that changes no job: the time between two such calls of a user.
pub(super) const PRICE: Span = Span::from_millis(20);
/// As many calls need not wait.
const BURST: u64 = 50;
/// A change of a job costs so many turns, and gets it at most one, unless turns are long.
const TURNS: u64 = 10;

/// The price of a change of a job if turns last so long. Clients do not wait for long.
pub(super) fn price_of_change(turn: Span) -> Span {
    Span::from_nanos(turn.as_nanos().saturating_mul(TURNS)).clamp(PRICE, Span::from_millis(1000))
}

/// The pace of the calls of a user, shared with other processes.
#[derive(Debug)]
pub struct Pace(View<AtomicU64>);

impl Pace {
    /// A file for [`Pace::open`], of a user who has not called yet.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create() -> io::Result<File> {
        UnnamedFile::of_length(LENGTH.get() as u64)?.file().try_clone()
    }

    /// The pace that this file has. It must be one of [`Pace::create`].
    ///
    /// # Errors
    /// If it is another one.
    pub fn open(file: impl AsFd) -> io::Result<Pace> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        if file.metadata()?.len() != LENGTH.get() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::new(&file, LENGTH)?.get(0).map(Pace).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Waits until the user may make a call of this price.
    pub(super) fn wait(&self, price: Span) {
        let now = wait::now();
        sleep(Duration::from_nanos(self.due(price, now).since(now).as_nanos()));
    }

    /// Whether all calls are paid, so that a new pace is the same as this one.
    pub fn is_paid(&self) -> bool {
        self.0.load(SeqCst) <= wait::now().as_nanos()
    }

    /// When a call of this price at `now` may be done.
    fn due(&self, price: Span, now: Instant) -> Instant {
        let pay = |paid: u64| Some(paid.max(now.as_nanos()).saturating_add(price.as_nanos()));
        let before = self.0.fetch_update(SeqCst, SeqCst, pay).unwrap_or_else(|before| before);
        Instant::from_nanos(before.saturating_sub(BURST * PRICE.as_nanos())).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_calls_need_not_wait_and_more_get_an_interval_each() {
        let file = Pace::create().unwrap();
        let [one, other] = [0, 1].map(|_| Pace::open(&file).unwrap());
        assert!(one.is_paid());
        let now = wait::now() + Span::from_millis(1_000_000);
        for call in 0..2 * BURST {
            // On any connection.
            let pace = if call % 2 == 0 { &one } else { &other };
            let late = Span::from_nanos(PRICE.as_nanos() * call.saturating_sub(BURST));
            assert_eq!(pace.due(PRICE, now), now + late, "{call}");
            assert!(!other.is_paid());
        }
        let later = now + Span::from_millis(100_000);
        assert_eq!(one.due(PRICE, later), later);
        let change = Span::from_millis(200);
        let due = [(); 8].map(|()| one.due(change, later).since(later).as_nanos() / 1_000_000);
        assert_eq!(due, [0, 0, 0, 0, 0, 20, 220, 420], "a change");
    }

    #[test]
    fn another_file_is_refused() {
        assert!(Pace::open(File::open("/dev/null").unwrap()).is_err());
    }
}
