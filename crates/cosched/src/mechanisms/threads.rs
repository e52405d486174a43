//! Lowers the threads of a job one by one, and raises them again.
//!
//! No state says which threads are lowered: those are that have the priority of lowered ones. So
//! whatever a switcher has left undone, the next switch corrects. A thread to which its program or
//! a user has given any other priority keeps it. Only one that has been given just that of lowered
//! ones is taken for ours, and raised.
//!
//! A new thread or process inherits the priority of the thread that creates it. So the threads of
//! a process are listed anew until there is none to change. A new process is found by its agent,
//! which then switches again.

use std::path::PathBuf;

use sys::identity::Identity;
use sys::scheduling::Thread;

use super::Target;
use crate::processes::threads;

/// A process that creates threads faster than they are found is left at that.
const MOST_PASSES: usize = 10;

/// Changes all threads of a job: `change` changes a thread if it is one of those to change, and
/// returns whether it is; `undo` does the reverse.
pub(super) fn change_all(target: &Target<'_>, change: impl Fn(Thread) -> bool, undo: impl Fn(Thread) -> bool) {
    for (process, _) in target.list.iter() {
        // All passes but the last have changed a thread.
        let _ = (0..MOST_PASSES).all(|_| change_once(process, &change, &undo));
    }
}

/// Changes the threads that a process has now. Returns whether there was one to change.
fn change_once(process: Identity, change: impl Fn(Thread) -> bool, undo: impl Fn(Thread) -> bool) -> bool {
    let mut has_changed = false;
    for thread in threads(process).into_iter().flatten().filter_map(Thread::from_number) {
        if change(thread) {
            has_changed = true;
            // It may have ended before, and its id be that of another one.
            if !PathBuf::from(format!("/proc/{}/task/{}", process.pid, thread.number())).exists() {
                undo(thread);
            }
        }
    }
    has_changed
}

#[cfg(test)]
mod tests;
