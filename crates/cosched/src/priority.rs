//! The priority of the thread that switches.
//!
//! It competes for a CPU with jobs that spin. With a real-time priority it runs as soon as a
//! boundary wakes it. Without, it mostly does as well, because it has hardly run before, but it
//! sometimes waits for a tick.
//!
//! A thread that is bound to a CPU before it has its priority may wait behind the spinning threads
//! there for seconds, and the jobs that it is to continue wait with it. So only a thread with its
//! [`Priority`] can bind itself.

use std::marker::PhantomData;

use sys::cpus::{Pinned, pin};
use sys::scheduling::{Policy, Thread, set_policy};

/// The lowest real-time priority, which is above all ordinary threads.
const REAL_TIME: Policy = Policy::Fifo(1);

/// The calling thread has the best priority that it may have.
#[derive(Debug)]
pub(crate) struct Priority {
    of_this_thread: PhantomData<*const ()>,
}

impl Priority {
    /// Raises the priority of the calling thread as far as that is permitted: to a real-time
    /// priority, or not at all.
    pub(crate) fn raise() -> Priority {
        let _ = set_policy(Thread::current(), REAL_TIME);
        Priority { of_this_thread: PhantomData }
    }

    /// Binds the calling thread to a CPU until the guard is dropped. `None` if it may not use it.
    pub(crate) fn pin(&self, cpu: u32) -> Option<Pinned> {
        pin(cpu).ok()
    }
}

#[cfg(test)]
mod tests {
    use sys::priorities::check_real_time;
    use sys::scheduling::attributes;

    use super::*;

    #[test]
    fn a_thread_has_a_real_time_priority_if_that_is_permitted_before_it_can_bind_itself() {
        let bound = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let priority = Priority::raise();
                let cpu = sys::cpus::allowed().unwrap()[0];
                let _there = priority.pin(cpu).unwrap();
                (attributes(Thread::current()).unwrap().policy, sys::cpus::allowed().unwrap() == [cpu])
            });
            thread.join().unwrap()
        });
        let policy = if check_real_time().is_ok() { REAL_TIME } else { Policy::Other };
        assert_eq!(bound, (policy, true));
    }
}
