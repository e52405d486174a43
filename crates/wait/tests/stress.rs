//! Mixed stress: teams of 2 to 64 threads use everything there is to wait at, by all rules, with and without deadlines.
//! A lost wakeup is a team that comes to a standstill, which is told with all that is needed to do it again.
//!
//! `ROWLOCK_EPISODES` says how many episodes there are, each of them one deed of one thread: an arrival at the barrier, a
//! lock, a permit and so on. `ROWLOCK_SEED` does it again.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test that cannot go on has failed")]

#[path = "common/costs.rs"]
mod costs;
#[path = "common/team.rs"]
mod team;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use policy::waiting::Rule;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use team::{Deed, Team, rules_that_block};

/// A team is at a standstill when nobody has done anything for so long.
const STANDSTILL: Duration = Duration::from_secs(60);
/// How many episodes a team lives for, about.
const BOUT: u64 = 100_000;
/// Of teams in which nobody ever blocks.
const SHORT_BOUT: u64 = 2_000;

/// All episodes so far.
static EPISODES: AtomicU64 = AtomicU64::new(0);
/// What the team of the moment is.
static TEAM: Mutex<String> = Mutex::new(String::new());

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is no number: {value}")))
}

fn main() {
    let episodes = number("ROWLOCK_EPISODES").unwrap_or(200_000);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("ROWLOCK_SEED").unwrap_or(now.as_nanos() as u64);
    println!("stress: {episodes} episodes, ROWLOCK_SEED={seed}");
    std::thread::spawn(watch);
    let begin = Instant::now();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut teams = 0;
    while EPISODES.load(Relaxed) < episodes {
        bout(&mut random);
        teams += 1;
    }
    println!("stress: {} episodes of {teams} teams in {:.1?}", EPISODES.load(Relaxed), begin.elapsed());
}

/// Looks on, and ends the program when nothing goes on any more.
fn watch() {
    let mut before = (0, Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let episodes = EPISODES.load(Relaxed);
        if episodes != before.0 {
            before = (episodes, Instant::now());
        } else if before.1.elapsed() > STANDSTILL {
            eprintln!("stress: a standstill after {episodes} episodes: {}", TEAM.lock().unwrap());
            std::process::abort();
        }
    }
}

/// One team's life.
fn bout(random: &mut Xoshiro256PlusPlus) {
    let mut below = |limit: u64| random.next_u64() % limit;
    let rules: Vec<Rule> = rules_that_block().collect();
    // Few threads find each other running, many do not.
    let threads = [2, 2, 2, 3, 4, 8, 16, 64][below(8) as usize];
    let (rule, rounds) = if threads == 2 && below(8) == 0 {
        ([Rule::AlwaysSpin, Rule::AlwaysYield][below(2) as usize], SHORT_BOUT / 2)
    } else {
        (rules[below(rules.len() as u64) as usize], BOUT / threads)
    };
    let cpus = [None, Some(1), Some(2), Some(64)][below(4) as usize];
    // One in so many deeds is an arrival at the barrier, and one in so many is followed by a yield.
    let (meets, yields) = ([1, 2, 8, 64][below(4) as usize], [1_000_000, 100, 3][below(3) as usize]);
    let seed = below(u64::MAX);
    *TEAM.lock().unwrap() =
        format!("{threads} threads by {rule} on {cpus:?} CPUs, a meeting in {meets} deeds, seed {seed}");
    let waiting = costs::by(rule);
    let waiting = cpus.map_or(waiting, |cpus| waiting.with_cpus(cpus));
    let team = Team::new(threads as u32, waiting);
    std::thread::scope(|scope| {
        for number in 0..threads as u32 {
            let team = &team;
            scope.spawn(move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(number) << 48);
                let mut party = team.party(number);
                for round in 0..rounds {
                    // All meet in the same rounds, and do what they like in the others.
                    if round % meets == 0 {
                        party.wait();
                    } else {
                        team.act(Deed::draw(&mut random), &mut random);
                    }
                    if random.next_u64() % yields == 0 {
                        std::thread::yield_now();
                    }
                    if round % 64 == 0 {
                        EPISODES.fetch_add(64.min(rounds - round), Relaxed);
                    }
                }
                team.finish();
            });
        }
    });
    assert!(team.is_at_rest(), "{team:?}");
}
