//! Random messages between processes that share CPUs, that the test stops and continues at random
//! times, and whose turns alternate with those of another job: none is lost, doubled, misdelivered
//! or torn.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rowlock_message::memory;
use rustix::process::Pid;
use wait::turn::VARIABLE;

use crate::rank::{Rank, start_in};
use crate::switcher::Switcher;
use crate::traffic::RANKS;
use crate::trial;

/// The number of messages of each rank for one seed.
const MESSAGES: u32 = 8_000;
/// Without those that never block: a rank that yields its CPU in vain gets it back late where other
/// programs compute.
const RULES: [&str; 7] =
    ["adaptive", "always-block", "2cs+", "randomized", "variable-competitive", "owner-running", "grain-aware"];
/// The most time of a stop, and between two of them, in microseconds. A turn takes 5 ms.
const LONGEST: u64 = 12_000;

pub(crate) fn trials() -> Vec<Trial> {
    // The name by which a replay finds it.
    vec![trial(
        "stopped::no_message_is_lost_doubled_misdelivered_or_torn",
        no_message_is_lost_doubled_misdelivered_or_torn,
    )]
}

fn no_message_is_lost_doubled_misdelivered_or_torn() {
    let (begun, mut messages) = (Instant::now(), 0);
    testing::for_each_seed(RULES.len() as u64, |seed| {
        exchange_with_stops(seed);
        messages += u64::from(RANKS * MESSAGES);
    });
    if testing::search().is_some() {
        let rate = messages as f64 / begun.elapsed().as_secs_f64();
        eprintln!("measured: {messages} messages between processes, {rate:.0} a second");
    }
}

fn exchange_with_stops(seed: u64) {
    let switcher = Switcher::start();
    let rule = RULES[seed as usize % RULES.len()];
    let page = [(VARIABLE, switcher.path().to_str().unwrap().to_owned())];
    let part = |_| format!("exchange {rule} {seed} {MESSAGES}");
    let (_memory, ranks) = start_in(memory::create(RANKS).unwrap(), RANKS, &page, part);
    let pids: Vec<Pid> = ranks.iter().map(|rank| Pid::from_raw(rank.pid().cast_signed()).unwrap()).collect();
    let have_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        // Until they are waited for below, their ids are theirs.
        scope.spawn(|| stop_some(&pids, seed, &have_ended));
        ranks.iter().for_each(|rank| _ = rank.wait_until_ended());
        have_ended.store(true, Relaxed);
    });
    ranks.into_iter().for_each(Rank::expect_success);
}

/// Stops random ranks for random times, a quarter of them on average.
fn stop_some(ranks: &[Pid], seed: u64, have_ended: &AtomicBool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    while !have_ended.load(Relaxed) {
        let chosen = random.next_u32() & random.next_u32();
        let chosen: Vec<Pid> =
            (0..).zip(ranks).filter(|(rank, _)| chosen >> rank & 1 != 0).map(|(_, &pid)| pid).collect();
        for signal in [libc::SIGSTOP, libc::SIGCONT] {
            chosen.iter().for_each(|&pid| sys::signals::send(pid, signal).unwrap());
            thread::sleep(Duration::from_micros(random.next_u64() % LONGEST));
        }
    }
}
