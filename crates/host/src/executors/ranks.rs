//! The executor of a `message` job: starts a process for each rank, and adds up what they report.
//!
//! To the ranks it is the run: they are prepared before any of them begins, and their times count
//! from the start of the job. They share memory that this process creates, and that has no name. If
//! one of them dies, the others get an error from their next wait, and the job fails. This process
//! ends after its ranks.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use policy::Span;
use scenario::Message;
use scenario::result::JobOutcome;

use super::{Start, on_clock_of_requests, reply_failure, serve_program};
use crate::error::Error;
use crate::jobs::Jobs;
use crate::protocol::{Failure, Order, Rank, Reply, RequestReader, Spins, reply};

/// This program, also if its file was replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// The state that the thread of the ranks shares with the one that reads from the run.
#[derive(Default)]
struct Shared {
    start: Start,
    /// The run is gone, or needs the job no more.
    is_over: AtomicBool,
    /// No rank is left.
    ended: OnceLock<()>,
}

pub(crate) fn serve(order: &Order, of: &Message, requests: RequestReader) -> Result<(), Failure> {
    let (shared, ranks) = (Arc::new(Shared::default()), of.ranks());
    let (order_of_all, of_ranks) = (order.clone(), Arc::clone(&shared));
    let program = move || {
        let _ended = Ended(&of_ranks);
        reply_failure(run(&order_of_all, ranks, &of_ranks));
    };
    let served = serve_program(order, "ranks", program, &shared.start, requests);
    shared.is_over.store(true, Ordering::Relaxed);
    shared.start.set(Instant::now());
    shared.ended.wait();
    served
}

/// Tells when it is dropped that no rank is left, also if a panic ends their thread.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let _ = self.0.ended.set(());
    }
}

/// Runs the ranks and reports the outcome. If the job keeps running, watches them from then on.
fn run(order: &Order, ranks: u32, shared: &Shared) -> Result<(), Failure> {
    let memory = message::memory::create(ranks).map_err(Failure::io("cannot create memory for messages"))?;
    let rank = |number| Rank { number, ranks, memory: memory.path().to_owned() };
    let orders: Vec<Order> = (0..ranks).map(|number| Order { rank: Some(rank(number)), ..order.clone() }).collect();
    let mut jobs = Jobs::start(Path::new(PROGRAM), &orders, None, &shared.is_over).map_err(of_rank)?;
    let threads = jobs.jobs.iter().flat_map(|rank| rank.threads.iter().flatten()).copied().collect();
    let began = on_clock_of_requests(shared.start.wait(threads));
    jobs.jobs.iter_mut().try_for_each(|rank| rank.go(began)).map_err(of_rank)?;
    let ended = jobs.wait_until(&shared.is_over, None, None, |ranks| {
        ranks.iter().map(|rank| rank.outcome.clone()).collect::<Option<Vec<_>>>()
    });
    let spins = jobs.jobs.iter().map(|rank| rank.spins);
    let outcome = sum(&order.job.name, &ended.map_err(of_rank)?, spins);
    // If the run is gone, it does not need the reply.
    let _ = reply(&Reply::Finished(outcome.into()));
    if order.keep_running { jobs.wait_until(&shared.is_over, None, None, |_| None).map_err(of_rank) } else { Ok(()) }
}

/// The outcome of a job whose ranks have these. Their number of rounds is the same.
fn sum(job: &str, ranks: &[JobOutcome], spins: impl Iterator<Item = Spins>) -> JobOutcome {
    let total = |of: fn(&JobOutcome) -> Option<Span>| ranks.iter().map(of).sum::<Option<Span>>();
    let count = |of: fn(&JobOutcome) -> Option<u64>| ranks.iter().map(of).sum::<Option<u64>>();
    let spins = spins
        .fold(Spins::default(), |sum, of| Spins { all: sum.all + of.all, successful: sum.successful + of.successful });
    JobOutcome {
        job: job.to_owned(),
        completion_ns: ranks.iter().filter_map(|rank| rank.completion_ns).max(),
        start_ns: ranks.iter().filter_map(|rank| rank.start_ns).min(),
        rounds: ranks.iter().filter_map(|rank| rank.rounds).min(),
        ssr_percent: (spins.all > 0).then(|| 100.0 * spins.successful as f64 / spins.all as f64),
        cpu_ns: total(|rank| rank.cpu_ns),
        spin_ns: total(|rank| rank.spin_ns),
        delivered_work_ns: total(|rank| rank.delivered_work_ns),
        voluntary_switches: count(|rank| rank.voluntary_switches),
        involuntary_switches: count(|rank| rank.involuntary_switches),
        ..JobOutcome::default()
    }
}

/// Why the job fails if a rank does.
fn of_rank(error: Error) -> Failure {
    let is_input = error.is_input();
    let message = match error {
        Error::Failed { job: rank, why } | Error::Refused { job: rank, why } => format!("{rank}: {why}"),
        other => other.to_string(),
    };
    Failure { message, is_input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_begins_with_its_first_rank_and_ends_with_its_last_one() {
        let us = |micros| Some(Span::from_micros(micros));
        let rank = |completion, start, work| JobOutcome {
            completion_ns: us(completion),
            start_ns: us(start),
            rounds: Some(7),
            cpu_ns: us(work),
            spin_ns: us(1),
            delivered_work_ns: us(work),
            voluntary_switches: Some(work),
            involuntary_switches: Some(2),
            ..JobOutcome::default()
        };
        let spins = [(3, 1), (1, 1)].map(|(all, successful)| Spins { all, successful });
        let job = sum("ring", &[rank(90, 3, 10), rank(80, 2, 20)], spins.into_iter());
        assert_eq!((&*job.job, job.completion_ns, job.start_ns, job.rounds), ("ring", us(90), us(2), Some(7)));
        assert_eq!((job.ssr_percent, job.cpu_ns, job.spin_ns), (Some(50.0), us(30), us(2)));
        assert_eq!((job.voluntary_switches, job.involuntary_switches), (Some(30), Some(4)));
        let blocked = sum("ring", &[rank(90, 3, 10)], [Spins::default()].into_iter());
        assert_eq!(blocked.ssr_percent, None);
    }

    #[test]
    fn a_failure_names_the_rank_once() {
        let failure = of_rank(Error::of_job("rank 3", "it has died".to_owned(), false));
        assert_eq!((&*failure.message, failure.is_input), ("rank 3: it has died", false));
        assert!(of_rank(Error::of_job("rank 3", String::new(), true)).is_input);
    }
}
