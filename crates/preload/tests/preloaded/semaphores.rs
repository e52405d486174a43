//! Semaphores.

use std::thread;

use counters::WaitKind;
use libc::*;

use crate::{Shared, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("as many come through as there are permits", hand_over, |entries| {
        assert!(waits(entries, WaitKind::Semaphore).statistics.waits <= 40_000);
    }),
    ("who need not wait is not counted, and keeps its errno", take, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.waits, 0);
    }),
    ("who waits keeps its errno", wait, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.waits, 1);
    }),
    ("who waits for long sleeps, by whatever rule", wait_for_long, |entries| {
        assert_eq!(waits(entries, WaitKind::Semaphore).statistics.blocks, 1);
    }),
];

fn semaphore(permits: u32) -> Shared<sem_t> {
    let semaphore = Shared::zeroed();
    // SAFETY: there is room for it; a semaphore may be moved before it is used.
    assert_eq!(unsafe { sem_init(semaphore.get(), 0, permits) }, 0);
    semaphore
}

fn down(semaphore: &Shared<sem_t>) {
    // SAFETY: it is initialised.
    assert_eq!(unsafe { sem_wait(semaphore.get()) }, 0);
}

fn up(semaphore: &Shared<sem_t>) {
    // SAFETY: it is initialised.
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
    // SAFETY: it is initialised.
    assert_eq!(unsafe { sem_trywait(semaphores[0].get()) }, -1);
}

/// Does something, and sees that it leaves the errno as it was.
fn keeps_errno(act: impl FnOnce()) {
    // SAFETY: each thread has one.
    unsafe { *__errno_location() = ENOTTY };
    act();
    // SAFETY: as above.
    assert_eq!(unsafe { *__errno_location() }, ENOTTY);
}

fn take() {
    let semaphore = semaphore(3);
    keeps_errno(|| (0..3).for_each(|_| down(&semaphore)));
}

fn wait() {
    let semaphore = semaphore(0);
    thread::scope(|scope| {
        scope.spawn(|| keeps_errno(|| down(&semaphore)));
        crate::await_written(WaitKind::Semaphore, |waits| waits.statistics.waits == 1);
        up(&semaphore);
    });
}

fn wait_for_long() {
    let semaphore = semaphore(0);
    thread::scope(|scope| {
        scope.spawn(|| down(&semaphore));
        crate::await_written(WaitKind::Semaphore, |waits| waits.statistics.blocks == 1);
        up(&semaphore);
    });
}
