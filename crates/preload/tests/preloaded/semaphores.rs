//! Semaphores.

use std::thread;

use counters::WaitKind;
use libc::*;

use crate::{Shared, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("as many threads pass as there are permits", hand_over, |entries| {
        assert!(waits(entries, WaitKind::Semaphore).statistics.waits <= 40_000);
    }),
    ("an immediate down is not counted and keeps errno", take, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.waits, 0);
    }),
    ("a wait keeps errno", wait, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.waits, 1);
    }),
    ("a long wait blocks by every rule", wait_for_long, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.blocks, 1);
    }),
    ("a thread with a real-time policy queues at once", wait_in_real_time, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.spins, 0);
    }),
];

/// Needs a privilege. Without it, there is no wait.
fn wait_in_real_time() {
    let wait = semaphore(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the parameters are valid.
            if unsafe { sched_setscheduler(0, SCHED_FIFO, &sched_param { sched_priority: 1 }) } == 0 {
                down(&wait);
            }
        });
        thread::sleep(std::time::Duration::from_millis(5));
        up(&wait);
    });
}

fn semaphore(permits: u32) -> Shared<sem_t> {
    let semaphore = Shared::zeroed();
    // SAFETY: there is room for it. A semaphore may be moved before its first use.
    assert_eq!(unsafe { sem_init(semaphore.get(), 0, permits) }, 0);
    semaphore
}

fn down(semaphore: &Shared<sem_t>) {
    // SAFETY: it is initialized.
    assert_eq!(unsafe { sem_wait(semaphore.get()) }, 0);
}

fn up(semaphore: &Shared<sem_t>) {
    // SAFETY: it is initialized.
    assert_eq!(unsafe { sem_post(semaphore.get()) }, 0);
}

fn hand_over() {
    let semaphores = [semaphore(0), semaphore(0)];
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..20_000).for_each(|_| {
                down(&semaphores[0]);
                up(&semaphores[1]);
            });
        });
        (0..20_000).for_each(|_| {
            up(&semaphores[0]);
            down(&semaphores[1]);
        });
    });
    // SAFETY: it is initialized.
    assert_eq!(unsafe { sem_trywait(semaphores[0].get()) }, -1);
}

/// Checks that an action does not change errno.
fn assert_keeps_errno(act: impl FnOnce()) {
    // SAFETY: each thread has its own errno.
    unsafe { *__errno_location() = ENOTTY };
    act();
    // SAFETY: as above.
    assert_eq!(unsafe { *__errno_location() }, ENOTTY);
}

fn take() {
    let semaphore = semaphore(3);
    assert_keeps_errno(|| (0..3).for_each(|_| down(&semaphore)));
}

fn wait() {
    let semaphore = semaphore(0);
    thread::scope(|scope| {
        scope.spawn(|| assert_keeps_errno(|| down(&semaphore)));
        crate::await_counts(WaitKind::Semaphore, |waits| waits.statistics.waits == 1);
        up(&semaphore);
    });
}

fn wait_for_long() {
    let semaphore = semaphore(0);
    thread::scope(|scope| {
        scope.spawn(|| down(&semaphore));
        crate::await_counts(WaitKind::Semaphore, |waits| waits.statistics.blocks == 1);
        up(&semaphore);
    });
}
