//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What has been asked for by signals.
#[derive(Debug)]
pub(crate) struct Signals {
    cancel: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes the signals over, from now on.
    pub(crate) fn catch() -> io::Result<Signals> {
        let (cancel, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for number in [SIGINT, SIGTERM] {
            // Actions are taken in the order of their registration: the first signal finds the flag not set yet.
            flag::register_conditional_shutdown(number, 128 + number, Arc::clone(&cancel))?;
            flag::register_usize(number, Arc::clone(&signal), number.unsigned_abs() as usize)?;
            flag::register(number, Arc::clone(&cancel))?;
        }
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
