//! Ctrl-C and SIGTERM: the first one requests an orderly end, a second one ends the process
//! immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use measure::world::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::stop::Stop;

/// Signals within this time of the first count as the same request. `timeout` sends its signal
/// first to the program and then to its whole group. A user takes longer to press Ctrl-C again.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// The requests by signals so far.
#[derive(Debug)]
pub(crate) struct Signals {
    cancel: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn catch() -> anyhow::Result<Signals> {
        Signals::catch_and(|_| {})
    }

    /// Installs the handlers, and calls `on_first` in another thread when the first signal comes.
    /// The signal's number is available by then.
    pub(crate) fn catch_and(on_first: impl FnOnce(i32) + Send + 'static) -> anyhow::Result<Signals> {
        let (cancel, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (handler_cancel, handler_signal) = (Arc::clone(&cancel), Arc::clone(&signal));
        let failed = "cannot catch signals";
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context(failed)?;
        let handle = move || {
            let mut first: Option<Instant> = None;
            let mut on_first = Some(on_first);
            for number in signals.forever() {
                match first {
                    None => {
                        handler_signal.store(number.unsigned_abs() as usize, Ordering::Relaxed);
                        handler_cancel.store(true, Ordering::Release);
                        first = Some(Instant::now());
                        if let Some(on_first) = on_first.take() {
                            on_first(number);
                        }
                    }
                    Some(first) if first.elapsed() < SAME_REQUEST => {}
                    // The jobs notice the end of this process and end, too.
                    Some(_) => std::process::exit(128 + number),
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(handle).context(failed)?;
        Ok(Signals { cancel, signal })
    }

    /// True once it is time to stop.
    pub(crate) fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    /// The end that the signal has requested.
    pub(crate) fn interruption(&self) -> Stop {
        Stop::Interrupted(self.number())
    }

    /// The reason to end after a failure, which may be a reaction to the signal.
    pub(crate) fn stop_for(&self, failure: Failure) -> Stop {
        if matches!(failure, Failure::Cancelled) { self.interruption() } else { failure.into() }
    }

    /// The number of the signal. Zero if there was none.
    pub(crate) fn number(&self) -> u8 {
        u8::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
