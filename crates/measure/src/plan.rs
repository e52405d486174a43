//! The plan: the order of the runs of a scenario. A repetition is a round of [`interleaving`] that
//! holds every arm in every world.

use scenario::result::World;
use scenario::{Experiment, Scenario};

use crate::interleaving;

/// One run to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The world.
    pub world: World,
    /// The number of the arm in the scenario.
    pub arm: usize,
    /// The repetition, from zero.
    pub repeat: u32,
    /// The seed, the same for all arms and worlds of a repetition, so that their draws are equal.
    pub seed: u64,
}

/// The arm, world and repetition of a run.
pub type StepKey = (usize, World, u32);

impl Step {
    /// The key of the run.
    pub fn key(&self) -> StepKey {
        (self.arm, self.world, self.repeat)
    }
}

/// All runs of an experiment and their order.
#[derive(Clone, Debug)]
pub struct Plan {
    arms: usize,
    worlds: Vec<World>,
    /// The first repetition of this plan.
    from: u32,
    repeat: u32,
    seed: u64,
}

impl Plan {
    /// The plan of a scenario in these worlds.
    pub fn new(scenario: &Scenario, worlds: &[World]) -> Plan {
        let Experiment { repeat, seed, .. } = scenario.experiment;
        Plan { arms: scenario.arms.len(), worlds: worlds.to_vec(), from: 0, repeat, seed }
    }

    /// The plan that continues this one up to a total of `repeat` repetitions.
    pub fn extend(&self, repeat: u32) -> Plan {
        Plan { from: self.repeat, repeat: repeat.max(self.repeat), ..self.clone() }
    }

    /// The total number of runs, including those of earlier plans.
    pub fn runs(&self) -> u64 {
        self.runs_of(self.repeat)
    }

    /// The number of runs of earlier plans.
    pub fn made(&self) -> u64 {
        self.runs_of(self.from)
    }

    fn runs_of(&self, repetitions: u32) -> u64 {
        self.arms as u64 * self.worlds.len() as u64 * u64::from(repetitions)
    }

    /// Whether all runs are simulated, and therefore do not disturb each other.
    pub fn is_simulated(&self) -> bool {
        !self.worlds.contains(&World::Host)
    }

    /// A preceding run on the host that does not count, because it pays for cold caches and a
    /// sleeping machine.
    pub fn warm_up(&self) -> Option<Step> {
        let host = self.worlds.contains(&World::Host) && self.from == 0 && self.repeat > 0 && self.arms > 0;
        host.then_some(Step { world: World::Host, arm: 0, repeat: 0, seed: self.seed })
    }

    /// The runs in their order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let cells = self.arms * self.worlds.len();
        interleaving::rounds(cells, self.from..self.repeat, self.seed).map(|(repeat, cell)| Step {
            world: self.worlds[cell % self.worlds.len()],
            arm: cell / self.worlds.len(),
            repeat,
            seed: self.seed.wrapping_add(u64::from(repeat)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan { arms: 5, worlds: vec![World::Sim, World::Host], from: 0, repeat: 4, seed }
    }

    #[test]
    fn every_block_holds_every_arm_in_every_world_once() {
        let steps: Vec<Step> = plan(7).steps().collect();
        assert_eq!(steps.len() as u64, plan(7).runs());
        for (repeat, block) in steps.chunks(10).enumerate() {
            assert!(block.iter().all(|step| step.repeat == repeat as u32 && step.seed == 7 + repeat as u64));
            let mut keys: Vec<_> = block.iter().map(|step| (step.arm, step.world)).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 10);
        }
    }

    #[test]
    fn only_the_host_is_warmed_up() {
        let mut plan = plan(3);
        assert_eq!(plan.warm_up(), Some(Step { world: World::Host, arm: 0, repeat: 0, seed: 3 }));
        plan.worlds = vec![World::Sim];
        assert_eq!(plan.warm_up(), None);
    }

    #[test]
    fn an_extended_plan_has_the_runs_of_a_longer_one() {
        let (long, first) = (Plan { repeat: 7, ..plan(5) }, plan(5));
        let rest = first.extend(7);
        assert!(first.steps().chain(rest.steps()).eq(long.steps()));
        assert_eq!((rest.made(), rest.runs(), rest.warm_up()), (40, 70, None));
        assert_eq!(first.extend(2).steps().count(), 0);
    }

    #[test]
    fn seeds_wrap_around_at_the_end_of_their_range() {
        assert_eq!(plan(u64::MAX).steps().last().map(|step| step.seed), Some(2));
    }
}
