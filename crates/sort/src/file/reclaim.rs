//! Giving files back to their file system, which can take long: where the disk is told of what it may forget (`discard`), as long as writing them took.
//! It is done in a thread of its own. Who finds the disk full in the meantime can wait for what is on its way.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::uncached::Uncached;

/// What this process is giving back, in all its sorts.
static RECLAIM: Reclaim = Reclaim { state: Mutex::new(State { pending: 0, done: 0 }), changed: Condvar::new() };

struct Reclaim {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// How many files are being given back.
    pending: usize,
    /// How many have been.
    done: u64,
}

fn state() -> MutexGuard<'static, State> {
    RECLAIM.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many files this process has given back.
pub(super) fn reclaimed_count() -> u64 {
    state().done
}

/// Whether more files have been given back than that; waits for the next if one is on its way.
pub(super) fn wait_for_more_than(done: u64) -> bool {
    let mut state = state();
    while state.done == done && state.pending > 0 {
        state = RECLAIM.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.done > done
}

/// A thread that gives files back.
pub(super) struct FileReclaimer {
    files: Sender<PendingFile>,
    thread: JoinHandle<()>,
}

impl FileReclaimer {
    /// Nothing where there can be no more threads.
    pub(super) fn start() -> Option<FileReclaimer> {
        let (files, returning) = channel::<PendingFile>();
        let work = move || returning.into_iter().for_each(drop);
        let thread = thread::Builder::new().name("sort-reclaim".to_owned()).spawn(work).ok()?;
        Some(FileReclaimer { files, thread })
    }

    /// Gives this file back, later.
    pub(super) fn reclaim(&self, file: Arc<Uncached>) {
        // What cannot be sent is dropped here.
        let _ = self.files.send(PendingFile::new(file));
    }

    /// Waits until all have been given back.
    pub(super) fn finish(self) {
        drop(self.files);
        // It does nothing that can panic.
        let _ = self.thread.join();
    }
}

/// A file that is on its way.
struct PendingFile {
    file: Option<Arc<Uncached>>,
}

impl PendingFile {
    fn new(file: Arc<Uncached>) -> PendingFile {
        state().pending += 1;
        PendingFile { file: Some(file) }
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        self.file = None;
        let mut state = state();
        state.pending -= 1;
        state.done += 1;
        RECLAIM.changed.notify_all();
    }
}
