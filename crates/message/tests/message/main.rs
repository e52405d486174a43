//! Ranks that are threads of one process.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod collective;
mod errors;
mod mixed;
mod point_to_point;
mod switcher;
mod traffic;
mod turns;
mod window;

use rowlock_message::Communicator;
use wait::Waiting;

/// Runs `rank` in as many threads. Returns their results by rank.
fn run_by<T: Send>(ranks: u32, waiting: Waiting, rank: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    let world = rowlock_message::threads(ranks, waiting).unwrap();
    let rank = &rank;
    std::thread::scope(|scope| {
        let threads: Vec<_> = world.into_iter().map(|world| scope.spawn(move || rank(world))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn run<T: Send>(ranks: u32, rank: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    run_by(ranks, Waiting::default(), rank)
}
