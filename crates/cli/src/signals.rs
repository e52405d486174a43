//! Ctrl-C and SIGTERM: the first asks for an orderly end, a second ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Signals this soon after the first are still the first: `timeout` sends its signal to the program and then to its whole
/// group, and impatient people take longer.
const STILL_THE_FIRST: Duration = Duration::from_millis(500);

/// What has been asked for by signals.
#[derive(Debug)]
pub(crate) struct Signals {
    cancel: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes the signals over, from now on.
    pub(crate) fn catch() -> io::Result<Signals> {
        Signals::catch_and(|_| {})
    }

    /// The same, and does this, in a thread of its own, when the first one comes; its number is known by then.
    pub(crate) fn catch_and(do_this: impl FnOnce(i32) + Send + 'static) -> io::Result<Signals> {
        let (cancel, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (cancels, sets) = (Arc::clone(&cancel), Arc::clone(&signal));
        let mut coming = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let attend = move || {
            let mut first: Option<Instant> = None;
            let mut do_this = Some(do_this);
            for number in coming.forever() {
                match first {
                    None => {
                        sets.store(number.unsigned_abs() as usize, Ordering::Relaxed);
                        cancels.store(true, Ordering::Release);
                        first = Some(Instant::now());
                        if let Some(do_this) = do_this.take() {
                            do_this(number);
                        }
                    }
                    Some(first) if first.elapsed() < STILL_THE_FIRST => {}
                    // The jobs see the end of this process and end too.
                    Some(_) => std::process::exit(128 + number),
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(attend)?;
        Ok(Signals { cancel, signal })
    }

    /// Becomes true when it is time to stop.
    pub(crate) fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    /// The number of the signal that came.
    pub(crate) fn number(&self) -> u8 {
        u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
