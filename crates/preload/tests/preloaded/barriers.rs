//! Barriers.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use counters::{ProcessReport, Reason, WaitKind};
use libc::*;

use crate::{Shared, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("threads meet, and one of them leads", meet, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 3 * 2000);
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, []);
        assert!(entries[0].ended);
    }),
    ("a barrier is destroyed while other threads are leaving", destroy_immediately, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 2 * 2000);
    }),
    ("abandoned barriers take no memory", abandon, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, []);
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 20_000);
    }),
    ("the number of barriers is limited", many, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, [(Reason::TooMany, 1001)]);
    }),
    ("the memory of all barriers together is limited", have_large_teams, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, [(Reason::TooMany, 84)]);
    }),
    ("a barrier whose memory cannot be had is passed through", init_without_memory, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, [(Reason::Memory, 2)]);
    }),
    ("threads meet without memory", wait_without_memory, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 20);
    }),
    ("errors are reported as usual", reject, no_check),
    ("a barrier for several processes is passed through", share, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).passed_through, [(Reason::ProcessShared, 1)]);
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 0);
    }),
    ("teams of threads succeed each other", renew_team, |entries| {
        assert_eq!(waits(entries, WaitKind::Barrier).statistics.waits, 600);
    }),
];

fn no_check(_: &[ProcessReport]) {}

type Barrier = Shared<pthread_barrier_t>;

fn init(barrier: &Barrier, count: u32) {
    // SAFETY: there is room for it.
    assert_eq!(unsafe { pthread_barrier_init(barrier.get(), std::ptr::null(), count) }, 0);
}

/// Returns whether this thread is the leader.
fn wait(barrier: &Barrier) -> bool {
    // SAFETY: it is initialized.
    match unsafe { pthread_barrier_wait(barrier.get()) } {
        0 => false,
        PTHREAD_BARRIER_SERIAL_THREAD => true,
        other => panic!("pthread_barrier_wait: {other}"),
    }
}

fn destroy(barrier: &Barrier) {
    // SAFETY: it is initialized, and no thread will use it.
    assert_eq!(unsafe { pthread_barrier_destroy(barrier.get()) }, 0);
}

fn meet() {
    let (barrier, arrived, leaders) = (Barrier::zeroed(), AtomicUsize::new(0), AtomicUsize::new(0));
    init(&barrier, 3);
    let team = || {
        for round in 1..=1000 {
            arrived.fetch_add(1, SeqCst);
            leaders.fetch_add(wait(&barrier).into(), SeqCst);
            assert_eq!(arrived.load(SeqCst), 3 * round);
            leaders.fetch_add(wait(&barrier).into(), SeqCst);
        }
    };
    thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(team))));
    assert_eq!(leaders.into_inner(), 2000);
    destroy(&barrier);
}

fn destroy_immediately() {
    for _ in 0..2000 {
        let barrier = Barrier::zeroed();
        init(&barrier, 2);
        let one = || {
            if wait(&barrier) {
                destroy(&barrier);
                // The other thread must see the end of its round in spite of this. SAFETY: the
                // barrier is destroyed.
                unsafe { barrier.get().write_bytes(0xff, 1) };
            }
        };
        thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(one))));
    }
}

fn abandon() {
    let barrier = Barrier::zeroed();
    for _ in 0..20_000 {
        init(&barrier, 1);
        assert!(wait(&barrier));
    }
}

fn many() {
    let barriers: Vec<Barrier> = (0..4096 + 1000).map(|_| Barrier::zeroed()).collect();
    barriers.iter().for_each(|barrier| init(barrier, 1));
    barriers.iter().for_each(|barrier| assert!(wait(barrier)));
    barriers.iter().for_each(destroy);
    // There is room again, but not for as many parties.
    init(&barriers[0], 1);
    assert!(wait(&barriers[0]));
    destroy(&barriers[0]);
    init(&barriers[0], 5000);
    destroy(&barriers[0]);
}

fn have_large_teams() {
    let barriers: Vec<Barrier> = (0..100).map(|_| Barrier::zeroed()).collect();
    // Those that were destroyed do not count.
    for _ in 0..2 {
        barriers.iter().take(16).for_each(|barrier| init(barrier, 4096));
        barriers.iter().take(16).for_each(destroy);
    }
    barriers.iter().for_each(|barrier| init(barrier, 4096));
    barriers.iter().for_each(destroy);
}

/// Runs a closure while the process can have no more memory.
fn without_memory(act: impl FnOnce()) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    let mut blocks = std::ptr::null_mut::<*mut c_void>();
    // SAFETY: each block has room for the address of the one before, and is freed once.
    unsafe {
        let mut limit = std::mem::zeroed::<rlimit>();
        assert_eq!(getrlimit(RLIMIT_AS, &raw mut limit), 0);
        let lower = rlimit { rlim_cur: pages * 4096, ..limit };
        assert_eq!(setrlimit(RLIMIT_AS, &raw const lower), 0);
        // Use up the free blocks of the heap, down to the smallest.
        for size in (4..=20).rev().map(|power| 1 << power) {
            loop {
                let block = malloc(size).cast::<*mut c_void>();
                if block.is_null() {
                    break;
                }
                block.write(blocks.cast());
                blocks = block;
            }
        }
        act();
        while !blocks.is_null() {
            let before = blocks.read().cast();
            free(blocks.cast());
            blocks = before;
        }
        assert_eq!(setrlimit(RLIMIT_AS, &raw const limit), 0);
    }
}

fn init_without_memory() {
    let barriers = [const { Barrier::zeroed() }; 2];
    without_memory(|| {
        init(&barriers[0], 4096);
        init(&barriers[1], 1);
        (0..10).for_each(|_| assert!(wait(&barriers[1])));
    });
    barriers.iter().for_each(destroy);
}

fn wait_without_memory() {
    let barrier = Barrier::zeroed();
    init(&barrier, 1);
    without_memory(|| (0..10).for_each(|_| assert!(wait(&barrier))));
    (0..10).for_each(|_| assert!(wait(&barrier)));
    destroy(&barrier);
}

fn reject() {
    let barrier = Barrier::zeroed();
    // SAFETY: there is room for it.
    assert_eq!(unsafe { pthread_barrier_init(barrier.get(), std::ptr::null(), 0) }, EINVAL);
}

fn share() {
    // SAFETY: new memory, attributes, and a barrier in it that two processes use.
    unsafe {
        let memory = mmap(std::ptr::null_mut(), 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ne!(memory, MAP_FAILED);
        let (barrier, mut attributes) = (memory.cast::<pthread_barrier_t>(), std::mem::zeroed());
        assert_eq!(pthread_barrierattr_init(&raw mut attributes), 0);
        assert_eq!(pthread_barrierattr_setpshared(&raw mut attributes, PTHREAD_PROCESS_SHARED), 0);
        assert_eq!(pthread_barrier_init(barrier, &raw const attributes, 2), 0);
        let child = fork();
        let leads = (0..100).filter(|_| pthread_barrier_wait(barrier) != 0).count();
        if child == 0 {
            _exit(leads as i32);
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &raw mut status, 0), child);
        assert!(WIFEXITED(status));
        assert_eq!(leads + WEXITSTATUS(status) as usize, 100);
        assert_eq!(pthread_barrier_destroy(barrier), 0);
    }
}

fn renew_team() {
    let barrier = Barrier::zeroed();
    init(&barrier, 3);
    for _ in 0..20 {
        let team = || (0..10).for_each(|_| _ = wait(&barrier));
        thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(team))));
    }
    destroy(&barrier);
}
