//! Frees the space of temporary files in a background thread.
//!
//! Freeing takes long if the disk is told of it (`discard`): as long as writing the files. A thread
//! that finds the disk full can wait for files that are being freed.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::uncached::Uncached;

/// The files that all sorts of this process free.
static STATE: Mutex<State> = Mutex::new(State { pending: 0, done: 0 });

/// Signals that a file has been freed.
static CHANGED: Condvar = Condvar::new();

struct State {
    /// The number of files being freed.
    pending: usize,
    /// The number of files freed.
    done: u64,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of files that this process has freed.
pub(super) fn reclaimed_count() -> u64 {
    state().done
}

/// Whether more than `done` files have been freed. If not, waits for the next file if one is being
/// freed.
pub(super) fn wait_for_more_than(done: u64) -> bool {
    let mut state = state();
    while state.done == done && state.pending > 0 {
        state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.done > done
}

/// A thread that frees files.
pub(super) struct FileReclaimer {
    files: Sender<PendingFile>,
    thread: JoinHandle<()>,
}

impl FileReclaimer {
    /// Starts the thread. Returns `None` if no thread can be created.
    pub(super) fn start() -> Option<FileReclaimer> {
        let (files, returning) = channel::<PendingFile>();
        let work = move || returning.into_iter().for_each(drop);
        let thread = thread::Builder::new().name("sort-reclaim".to_owned()).spawn(work).ok()?;
        Some(FileReclaimer { files, thread })
    }

    /// Frees this file in the background.
    pub(super) fn reclaim(&self, file: Arc<Uncached>) {
        state().pending += 1;
        // If the thread is gone, the file is dropped here.
        let _ = self.files.send(PendingFile(Some(file)));
    }

    /// Waits until all files have been freed.
    pub(super) fn finish(self) {
        drop(self.files);
        // The thread runs no code that can panic.
        let _ = self.thread.join();
    }
}

/// A file that is being freed and counts as pending.
struct PendingFile(Option<Arc<Uncached>>);

impl Drop for PendingFile {
    fn drop(&mut self) {
        self.0 = None;
        let mut state = state();
        state.pending -= 1;
        state.done += 1;
        CHANGED.notify_all();
    }
}
