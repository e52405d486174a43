//! `rayon`: the pool to which a thread belongs, and its deque.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder, current_num_threads, current_thread_index, join, scope};
use ways::{Part, each, switch, together};

/// A pool whose only thread is the caller.
fn own_pool() -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok()
}

fn sum(from: u64, to: u64) -> u64 {
    switch();
    if to - from < 4 {
        return (from..to).sum();
    }
    let middle = from.midpoint(to);
    let (low, high) = join(|| sum(from, middle), || sum(middle, to));
    switch();
    low + high
}

/// Each strand is a pool, and runs all callbacks itself.
fn a_strand_is_a_pool_of_its_own() -> Vec<Option<(u64, usize, u64)>> {
    together(3, |who| {
        let pool = own_pool()?;
        let spawned = AtomicUsize::new(0);
        pool.scope(|scope| {
            for _ in 0..4 {
                switch();
                scope.spawn(|scope| {
                    switch();
                    scope.spawn(|_| switch());
                    spawned.fetch_add(1, Relaxed);
                });
            }
        });
        let sums = (sum(0, 50 + who as u64), (0..100_u64).into_par_iter().inspect(|_| switch()).sum());
        switch();
        (current_thread_index() == Some(0)).then_some((sums.0, spawned.into_inner(), sums.1))
    })
}

/// Strands call a pool of threads, and wait in the kernel.
fn strands_share_a_pool_of_threads() -> Vec<(u64, usize)> {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    together(3, |who| {
        let sum = pool.install(|| (0..1_000_u64).into_par_iter().map(|each| each ^ who as u64).sum());
        switch();
        let (one, other) = pool.join(|| 1, || 2);
        assert_eq!((one, other, current_thread_index()), (1, 2, None));
        (sum, pool.install(current_num_threads))
    })
}

/// The threads of the pool are strands, which wait in the kernel for work.
fn strands_are_the_threads_of_a_pool() -> (u64, usize) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let spawn = |thread| sender.send(thread).map_err(|_| std::io::ErrorKind::Other.into());
    let pool = ThreadPoolBuilder::new().num_threads(3).spawn_handler(spawn).build().unwrap();
    let caller: Part<(u64, usize)> = Box::new(move || {
        let spawned = AtomicUsize::new(0);
        let sum = pool.install(|| {
            scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|_| {
                        switch();
                        spawned.fetch_add(1, Relaxed);
                    });
                }
            });
            sum(0, 200)
        });
        (sum, spawned.into_inner())
    });
    let threads = receiver.into_iter().take(3).map(|thread| {
        let runs = move || {
            thread.run();
            (0_u64, 0_usize)
        };
        Box::new(runs) as Part<(u64, usize)>
    });
    each(std::iter::once(caller).chain(threads), |part| part())[0]
}

mod switching {
    use super::*;
    ways::in_every_way! {
        a_strand_is_a_pool_of_its_own
    }
}

mod calling {
    use super::*;
    ways::in_every_way! {
        strands_share_a_pool_of_threads
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        if_calls_are_interposed;
        strands_are_the_threads_of_a_pool
    }
}
