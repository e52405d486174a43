//! The runs: what was observed, what is still to be run, and in which order.

use std::io::Read;

use scenario::draw::Stream;
use serde::{Deserialize, Serialize};

use super::arms::{Arm, Variant};

/// One run of a program. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The program.
    pub variant: Variant,
    /// The name of its arm.
    pub arm: String,
    /// The round, from zero, that it belongs to.
    pub round: u32,
    /// Processor time outside of the kernel.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// From its start to its end.
    pub clock_s: f64,
    /// Processor time in percent of clock time.
    pub used_percent: f64,
}

impl Observation {
    /// What one run of this arm took.
    pub fn new(arm: &Arm, round: u32, user_s: f64, system_s: f64, clock_s: f64) -> Observation {
        let used_percent = (user_s + system_s) / clock_s * 100.0;
        Observation { variant: arm.variant, arm: arm.name.to_owned(), round, user_s, system_s, clock_s, used_percent }
    }

    /// Whether it is a run of this arm.
    pub fn is_of(&self, arm: &Arm) -> bool {
        self.variant == arm.variant && self.arm == arm.name
    }
}

/// The runs that a file holds, as [`super::folder::Folder`] writes them.
///
/// # Errors
///
/// What is in it is something else.
pub fn read(file: impl Read) -> Result<Vec<Observation>, csv::Error> {
    csv::Reader::from_reader(file).into_deserialize().collect()
}

/// What is still to be run until there are `rounds` runs of each of the arms: their numbers, round by round. A round holds each arm once, in an
/// order of its own that is drawn from the seed, so that a machine that slowly gets busier weighs on all alike.
pub fn plan(arms: &[&Arm], made: &[Observation], rounds: u32, seed: u64) -> Vec<(u32, usize)> {
    let is_made = |round: u32, arm: &Arm| made.iter().any(|run| run.round == round && run.is_of(arm));
    (0..rounds)
        .flat_map(|round| {
            let mut of_round: Vec<usize> = (0..arms.len()).collect();
            Stream::named(seed, "order of runs", round).shuffle(&mut of_round);
            of_round.into_iter().map(move |arm| (round, arm))
        })
        .filter(|&(round, arm)| !is_made(round, arms[arm]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::Experiment;

    fn arms() -> Vec<&'static Arm> {
        Experiment::named("fg/table3").unwrap().arms()
    }

    #[test]
    fn each_round_holds_each_arm_once_in_an_order_of_its_own() {
        let arms = arms();
        let plan = plan(&arms, &[], 20, 7);
        let rounds: Vec<Vec<usize>> =
            plan.chunks(arms.len()).map(|round| round.iter().map(|&(_, arm)| arm).collect()).collect();
        assert_eq!(rounds.len(), 20);
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..arms.len()).collect::<Vec<_>>());
        }
        assert!(rounds.iter().any(|round| round != &rounds[0]));
    }

    #[test]
    fn what_was_run_is_not_run_again_and_the_rest_comes_as_it_would_have() {
        let arms = arms();
        let whole = plan(&arms, &[], 3, 7);
        let made: Vec<Observation> =
            whole[..8].iter().map(|&(round, arm)| Observation::new(arms[arm], round, 1.0, 1.0, 1.0)).collect();
        assert_eq!(plan(&arms, &made, 3, 7), whole[8..]);
        assert_eq!(plan(&arms, &made, 1, 7), []);
    }

    #[test]
    fn what_is_written_reads_back() {
        let run = Observation::new(arms()[1], 3, 1.5, 0.1, 0.8);
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(&run).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        assert!(
            text.starts_with(
                "variant,arm,round,user_s,system_s,clock_s,used_percent\ncompute-bound,nice-down-io,3,1.5,"
            )
        );
        assert_eq!(read(text.as_bytes()).unwrap(), [run]);
        assert!(read("variant,arm\nnonsense,x\n".as_bytes()).is_err());
    }
}
