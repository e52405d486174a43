//! How many threads the machine has to place, for rules that go by it.
//!
//! `/proc/loadavg` tells how many threads run or are ready, all programs' together. Reading it takes a microsecond, so one thread
//! reads it, once a millisecond at most, and all go by what it came to. Threads that sleep in a wait of ours are not in it and
//! compete again as soon as they are woken: they are counted here, all objects of the process together.

#[cfg(not(loom))]
pub(crate) use self::world::{Asleep, count};

#[cfg(not(loom))]
mod world {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    use policy::Instant;

    /// How many threads of this process sleep while a rule wants to know the load.
    static ASLEEP: AtomicU32 = AtomicU32::new(0);

    /// A thread sleeps, until this is dropped.
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

    /// All threads that run or are ready, as read not much more than a millisecond before `now`, and those of this process that
    /// sleep; nothing where the kernel does not tell.
    pub(crate) fn count(now: Instant) -> Option<u32> {
        #[cfg(test)]
        if let Some(load) = crate::sync::script::load() {
            return Some(load);
        }
        /// When it was read in units of 2^20 ns, and below in 20 bits one more than what it came to; zero before the first time.
        static RUNNABLE: AtomicU64 = AtomicU64::new(0);
        let last = RUNNABLE.load(Relaxed);
        let moment = now.as_nanos() >> 20;
        let known = (last as u32 & 0xf_ffff).checked_sub(1);
        let runnable = match known {
            Some(known) if moment <= last >> 20 => known,
            // One reads, and the others go on with what was.
            Some(known)
                if RUNNABLE.compare_exchange(last, moment << 20 | last & 0xf_ffff, Relaxed, Relaxed).is_err() =>
            {
                known
            }
            _ => {
                let runnable = runnable()?.min(0xf_fffe);
                RUNNABLE.store(moment << 20 | u64::from(runnable + 1), Relaxed);
                runnable
            }
        };
        Some(runnable + ASLEEP.load(Relaxed))
    }

    fn runnable() -> Option<u32> {
        static LOADAVG: OnceLock<Option<File>> = OnceLock::new();
        let file = LOADAVG.get_or_init(|| File::open("/proc/loadavg").ok()).as_ref()?;
        let mut text = [0; 64];
        let length = file.read_at(&mut text, 0).ok()?;
        parsed(&text[..length])
    }

    /// The number before the slash in the fourth field.
    fn parsed(text: &[u8]) -> Option<u32> {
        let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let (runnable, _) = fields.nth(3)?.split_once('/')?;
        runnable.parse().ok()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_fourth_field_tells_how_many_are_runnable() {
            assert_eq!(parsed(b"0.20 0.18 0.12 17/801 11206\n"), Some(17));
            for other in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 17 801", "0.20 0.18 0.12 x/801 1", "\u{fffd}"] {
                assert_eq!(parsed(other.as_bytes()), None, "{other}");
            }
        }

        #[test]
        fn whoever_sleeps_is_counted() {
            let now = crate::sync::now();
            // No time passes, so nothing is read anew; nobody else in this process sleeps by a rule that wants the load.
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
