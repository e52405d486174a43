//! Mixed stress tests: teams of 2 to 64 threads use all kinds of objects, by all rules, with and
//! without deadlines. A lost wakeup makes the team deadlock, which is reported with all that is
//! needed to reproduce it.
//!
//! An episode is one action of one thread: an arrival at the barrier, a lock, a permit and so on.

use policy::waiting::WaitingRule;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::costs;
use crate::team::{Action, Team, rules_that_block};

/// The approximate number of episodes of a team.
const EPISODES: u64 = 20_000;
/// The same if its threads never block.
const FEW_EPISODES: u64 = 2_000;

#[test]
fn a_team_that_uses_every_object_never_deadlocks() {
    testing::for_each_seed(12, |seed| run_team(&mut Xoshiro256PlusPlus::seed_from_u64(seed)));
}

/// Runs one team.
fn run_team(random: &mut Xoshiro256PlusPlus) {
    let mut below = |limit: u64| random.next_u64() % limit;
    let rules: Vec<WaitingRule> = rules_that_block().collect();
    // With few threads, the awaited one is usually running. With many, it is not.
    let threads = [2, 2, 2, 3, 4, 8, 16, 64][below(8) as usize];
    let (rule, rounds) = if threads == 2 && below(8) == 0 {
        ([WaitingRule::AlwaysSpin, WaitingRule::AlwaysYield][below(2) as usize], FEW_EPISODES / 2)
    } else {
        (rules[below(rules.len() as u64) as usize], EPISODES / threads)
    };
    let cpus = [None, Some(1), Some(2), Some(64)][below(4) as usize];
    let (meets, yields) = ([1, 2, 8, 64][below(4) as usize], [1_000_000, 100, 3][below(3) as usize]);
    Episodes { threads, rule, cpus, rounds, meets, yields, seed: below(u64::MAX) }.run();
}

/// The work of one team.
#[derive(Debug)]
pub(crate) struct Episodes {
    pub(crate) threads: u64,
    pub(crate) rule: WaitingRule,
    /// The number of CPUs that objects assume. `None`: that of the machine.
    pub(crate) cpus: Option<u32>,
    /// The actions of a thread.
    pub(crate) rounds: u64,
    /// One of so many actions is an arrival at the barrier.
    pub(crate) meets: u64,
    /// One of so many actions is followed by a yield.
    pub(crate) yields: u64,
    pub(crate) seed: u64,
}

impl Episodes {
    /// Runs the team until all its threads have finished.
    pub(crate) fn run(&self) {
        let Episodes { threads, rule, cpus, rounds, meets, yields, seed } = *self;
        eprintln!("{self:?}");
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
                        // All meet in the same rounds, and act randomly in the others.
                        if round % meets == 0 {
                            party.wait();
                        } else {
                            team.act(Action::draw(&mut random), &mut random);
                        }
                        if random.next_u64() % yields == 0 {
                            std::thread::yield_now();
                        }
                    }
                    team.finish();
                });
            }
        });
        assert!(team.is_at_rest(), "{team:?}");
    }
}
