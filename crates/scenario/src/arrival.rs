//! The arrival of jobs: with the start of the run, later, or one copy after the other.

use policy::Span;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::draw::Stream;
use crate::model::Setting;

/// When the copies of a job arrive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// The arrival of the first copy, or of all, from the start of the run.
    pub at: Span,
    /// The gap between a copy and the next, drawn for each; without it all arrive at the same time.
    pub every: Option<Distribution>,
}

impl Setting {
    /// When each job arrives, with one item for each copy as in [`Setting::jobs_with_copies`], in
    /// whole steps from the start of the run. The gaps of a job come from a random stream of their
    /// own, which depends only on its name and the seed.
    pub fn arrivals(&self, seed: u64, step: Span) -> Vec<Span> {
        let of_job = |job: &crate::Job| {
            let gaps = job.arrival.every.as_ref().map(Distribution::law);
            let mut stream = Stream::named(seed, &format!("arrivals of {}", job.name), 0);
            let mut next = job.arrival.at.floor_to(step);
            let arrive = move |_| {
                let arrives = next;
                next += gaps.as_ref().map_or(Span::ZERO, |law| law.draw(&mut stream, step));
                arrives
            };
            (0..job.copies).map(arrive).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, JobKind, MachineKeys};

    fn setting(copies: u32, every: Option<Distribution>) -> Setting {
        let kind = || JobKind::Cpu { threads: 1, work: None };
        let arrival = Arrival { at: Span::from_nanos(2_500), every };
        let jobs = vec![Job::new("there", 2, kind()), Job { arrival, ..Job::new("later", copies, kind()) }];
        Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running: false }
    }

    #[test]
    fn copies_arrive_together_or_a_gap_apart_in_whole_steps() {
        let us = Span::from_micros;
        let of = |every: Option<Distribution>| setting(3, every).arrivals(1, us(1));
        assert_eq!(of(None), [0, 0, 2, 2, 2].map(us));
        assert_eq!(of(Some(us(10).into())), [0, 0, 2, 12, 22].map(us));
    }

    #[test]
    fn exponential_gaps_have_their_mean_and_more_copies_change_no_arrival() {
        let mean = Span::from_micros(50);
        let of = |copies, seed| {
            setting(copies, Some(Distribution::Exponential { mean })).arrivals(seed, Span::from_nanos(1))
        };
        let many = of(4_000, 1);
        assert_eq!(of(10, 1), many[..12]);
        assert_ne!(of(10, 2), many[..12]);
        assert!(many[2..].is_sorted());
        let gap = many.last().unwrap().as_nanos() as f64 / 3_999.0;
        assert!((gap / 50_000.0 - 1.0).abs() < 0.06, "{gap}");
    }
}
