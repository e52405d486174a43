//! The load of the machine, for rules that depend on it.
//!
//! `/proc/loadavg` tells how many threads of all programs run or are ready. Reading it takes a
//! microsecond, so one thread reads it, at most once a millisecond, for all. It excludes threads
//! that sleep in a wait of this crate, which compete again as soon as they are woken. So these are
//! counted here, for all objects of the process.

#[cfg(not(loom))]
pub(crate) use self::world::{Asleep, count};

#[cfg(not(loom))]
mod world {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use policy::{Instant, Span};

    use crate::machine::CachedNumber;

    /// The number of sleeping threads of this process whose rule needs the load.
    static ASLEEP: AtomicU32 = AtomicU32::new(0);

    /// Counts a thread as sleeping until dropped.
    pub(crate) struct Asleep(());

    impl Asleep {
        pub(crate) fn begin() -> Asleep {
            ASLEEP.fetch_add(1, Relaxed);
            Asleep(())
        }
    }

    impl Drop for Asleep {
        fn drop(&mut self) {
            ASLEEP.fetch_sub(1, Relaxed);
        }
    }

    /// The number of threads that run or are ready, read little more than a millisecond before
    /// `now`, plus the sleeping ones of this process. `None` if the kernel does not tell.
    pub(crate) fn count(now: Instant) -> Option<u32> {
        #[cfg(test)]
        if let Some(load) = crate::sync::script::load() {
            return Some(load);
        }
        static RUNNABLE: CachedNumber = CachedNumber::new();
        // The unit of its times.
        const HOLDS: Span = Span::from_nanos(1 << 20);
        Some(RUNNABLE.get(now, HOLDS, runnable)? + ASLEEP.load(Relaxed))
    }

    fn runnable() -> Option<u32> {
        static LOADAVG: OnceLock<Option<File>> = OnceLock::new();
        let file = LOADAVG.get_or_init(|| File::open("/proc/loadavg").ok()).as_ref()?;
        let mut text = [0; 64];
        let length = file.read_at(&mut text, 0).ok()?;
        parse(&text[..length])
    }

    /// The number before the slash in the fourth field.
    fn parse(text: &[u8]) -> Option<u32> {
        let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let (runnable, _) = fields.nth(3)?.split_once('/')?;
        runnable.parse().ok()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_fourth_field_is_the_number_of_runnable_threads() {
            assert_eq!(parse(b"0.20 0.18 0.12 17/801 11206\n"), Some(17));
            for other in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 17 801", "0.20 0.18 0.12 x/801 1", "\u{fffd}"] {
                assert_eq!(parse(other.as_bytes()), None, "{other}");
            }
        }

        #[test]
        fn sleeping_threads_are_counted() {
            let now = crate::sync::now();
            // No time passes, so the file is not read again. No other thread of this process sleeps
            // by a rule that needs the load.
            let Some(before) = count(now) else { return };
            let asleep = [Asleep::begin(), Asleep::begin()];
            assert_eq!(count(now), Some(before + 2));
            drop(asleep);
            assert_eq!(count(now), Some(before));
        }
    }
}

#[cfg(loom)]
pub(crate) use self::model::{Asleep, count};

#[cfg(loom)]
mod model {
    pub(crate) struct Asleep(());

    impl Asleep {
        pub(crate) fn begin() -> Asleep {
            Asleep(())
        }
    }

    pub(crate) fn count(_: policy::Instant) -> Option<u32> {
        None
    }
}
