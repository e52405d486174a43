//! The executor of one rank of a `message` job, on `rowlock-message`.
//!
//! Computation is a calibrated number of iterations, and a sleep is one. A message has the length
//! that the scenario says and arbitrary content. It goes through the memory of this machine, so the
//! latency and the bandwidth of the simulated network have no effect.

use std::ffi::CString;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use message::{Communicator, Waiting};
use policy::Span;
use rustix::thread::{gettid, set_name};
use scenario::draw::{Law, Stream};
use scenario::message::{Role, Step};
use scenario::result::JobOutcome;
use scenario::{Distribution, Message};
use sys::process::thread_usage;

use super::{Start, outcome, reply_failure, serve_program};
use crate::protocol::{Failure, Order, Reply, RequestReader, Spins, reply};
use crate::workload::{Rate, Workload};

/// All messages are of one kind.
const TAG: u32 = 0;

pub(crate) fn serve(order: &Order, of: &Message, number: u32, requests: RequestReader) -> Result<(), Failure> {
    // The name in lists of processes. Otherwise it would be that of the link to the program.
    if let Ok(name) = CString::new(format!("rank {number}")) {
        let _ = set_name(&name);
    }
    let start = Arc::new(Start::default());
    let (own, of, of_program) = (order.clone(), of.clone(), Arc::clone(&start));
    serve_program(order, "rank", move || reply_failure(run(&own, &of, &of_program)), &start, requests)
}

/// Runs the rank and reports its outcome. Then repeats its rounds forever if the job keeps running.
fn run(order: &Order, of: &Message, start: &Start) -> Result<(), Failure> {
    let waiting = Waiting::by(of.waiting).with_costs(order.costs).with_cpus(order.cpus);
    let world = message::join(waiting).map_err(|why| why.to_string())?;
    let mut rank = RankExecutor::new(order, of, &world)?;
    let started = start.wait(vec![gettid().as_raw_nonzero().get()]);
    let (began, before) = (Instant::now(), thread_usage());
    let round = |rank: &mut RankExecutor<'_>| rank.round().map_err(|why| why.to_string());
    (0..of.rounds).try_for_each(|_| round(&mut rank))?;
    let (ended, usage, waits) = (Instant::now(), thread_usage().since(before), world.statistics());
    let outcome = JobOutcome {
        start_ns: Some((began - started).into()),
        rounds: Some(of.rounds),
        spin_ns: Some(waits.spin_time),
        delivered_work_ns: Some(order.rate.time(rank.iterations, rank.computations)),
        ..outcome(&order.job.name, Some((ended - started).into()), usage)
    };
    // If the job's process is gone, the main thread sees the end of its input and ends this one.
    let _ = reply(&Reply::Spun(Spins { all: waits.spins, successful: waits.successful_spins }));
    let _ = reply(&Reply::Finished(outcome.into()));
    if order.keep_running {
        loop {
            round(&mut rank)?;
        }
    }
    Ok(())
}

/// A rank as it goes through its rounds.
struct RankExecutor<'a> {
    world: &'a Communicator,
    role: Role,
    compute: Option<Law>,
    sleep: Option<Law>,
    step: Span,
    rate: Rate,
    stream: Stream,
    workload: Workload,
    /// The message that it sends, always the same.
    sent: Vec<u8>,
    received: Vec<u8>,
    iterations: u64,
    computations: u64,
}

impl RankExecutor<'_> {
    fn new<'a>(order: &Order, of: &Message, world: &'a Communicator) -> Result<RankExecutor<'a>, Failure> {
        let mut workload = Workload::new();
        // The first pass brings code and data into the cache.
        workload.run(1000);
        Ok(RankExecutor {
            world,
            role: of.pattern.role(world.rank(), world.ranks()),
            compute: of.compute.as_ref().map(Distribution::law),
            sleep: of.sleep.as_ref().map(Distribution::law),
            step: order.step,
            rate: order.rate,
            stream: Stream::named(order.seed, &order.job.name, world.rank()),
            workload,
            sent: buffer(of.bytes)?,
            received: buffer(of.bytes)?,
            iterations: 0,
            computations: 0,
        })
    }

    fn round(&mut self) -> Result<(), message::Error> {
        for step in self.role.steps {
            match step {
                Step::Compute => self.compute(),
                Step::Sleep => self.sleep(),
                Step::Send => self.role.receivers.iter().try_for_each(|&to| self.world.send(to, TAG, &self.sent))?,
                Step::Receive => {
                    for &from in &self.role.senders {
                        self.world.receive(from, TAG, &mut self.received)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn compute(&mut self) {
        let Some(law) = &self.compute else { return };
        let iterations = self.rate.iterations(law.draw(&mut self.stream, self.step));
        self.workload.run(iterations);
        self.iterations += iterations;
        self.computations += 1;
    }

    fn sleep(&mut self) {
        let Some(law) = &self.sleep else { return };
        let span = law.draw(&mut self.stream, self.step);
        // The shortest that is drawn stands for none.
        if span > self.step {
            thread::sleep(span.into());
        }
    }
}

/// Memory for a message.
fn buffer(bytes: u64) -> Result<Vec<u8>, Failure> {
    let mut buffer = Vec::new();
    let refused = |_| Failure { message: format!("there is no memory for a message of {bytes} bytes"), is_input: true };
    let length = usize::try_from(bytes).unwrap_or(usize::MAX);
    buffer.try_reserve_exact(length).map_err(refused)?;
    // The memory is touched before the rounds are timed.
    buffer.resize(length, 1);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use policy::layout::Request;
    use policy::waiting::WaitingRule;
    use scenario::message::Pattern;
    use scenario::{Job, JobKind, MachineKeys, Setting};

    use super::*;
    use crate::calibration::sample_calibration;
    use crate::machine::Machine;
    use crate::protocol::Recording;
    use crate::run::Host;

    const ROUNDS: u64 = 20;

    fn us(micros: u64) -> Span {
        Span::from_micros(micros)
    }

    fn order(of: &Message, step: Span) -> Order {
        let mut calibration = sample_calibration(Machine::current().unwrap());
        calibration.rate = Rate { iteration_ps: 2_000, start_ps: 0 };
        let host = Host { program: "/nowhere".into(), calibration };
        let jobs = vec![Job::new("ring", 1, JobKind::Message(of.clone()))];
        let machine = MachineKeys { step: Some(step), ..MachineKeys::default() };
        let setting = Setting { machine, jobs, coscheduling: None, keep_running: false };
        host.orders(&setting, 3, Recording::Nothing).remove(0)
    }

    fn job(pattern: Pattern, ranks: u32, bytes: u64) -> Message {
        Message {
            request: Request::Ranks(ranks),
            pattern,
            bytes,
            rounds: ROUNDS,
            compute: Some(Distribution::Normal { mean: us(3), sd: us(1) }),
            sleep: None,
            waiting: WaitingRule::AlwaysBlock,
            weight: 1,
        }
    }

    /// The numbers of computations and iterations of each rank, as threads of this process.
    fn run_all(of: &Message, step: Span) -> Vec<(u64, u64)> {
        let order = &order(of, step);
        let worlds = message::threads(of.ranks(), Waiting::by(of.waiting)).unwrap();
        thread::scope(|scope| {
            let rank = |world: Communicator| {
                let mut rank = RankExecutor::new(order, of, &world).unwrap();
                (0..of.rounds).for_each(|_| rank.round().unwrap());
                (rank.computations, rank.iterations)
            };
            let ranks: Vec<_> = worlds.into_iter().map(|world| scope.spawn(move || rank(world))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_of_every_pattern_do_all_of_their_rounds_with_short_and_long_messages() {
        for pattern in Pattern::ALL {
            for (ranks, bytes) in [(2, 1), (3, 10), (5, 2_000), (3, 100_000)] {
                let ranks = run_all(&job(pattern, ranks, bytes), Span::from_nanos(1));
                let begins = |rank: usize| pattern != Pattern::OneToAll || rank == 0;
                let expected = (0..ranks.len()).map(|rank| if begins(rank) { ROUNDS } else { 0 });
                assert!(ranks.iter().map(|rank| rank.0).eq(expected), "{pattern:?}: {ranks:?}");
            }
        }
    }

    #[test]
    fn ranks_compute_and_sleep_as_long_as_those_of_the_simulator() {
        let sleep = Distribution::Normal { mean: us(1), sd: Span::from_nanos(100) };
        let of = Message { sleep: Some(sleep), ..job(Pattern::Exchange, 2, 10) };
        let (step, rate) = (us(1), order(&of, us(1)).rate);
        // Sleeps of one step are drawn between the computations, and left out.
        let [compute, sleep] = [&of.compute, &of.sleep].map(|time| time.as_ref().map(Distribution::law).unwrap());
        let drawn = |rank| {
            let mut stream = Stream::named(3, "ring", rank);
            let iterations = (0..ROUNDS).map(|_| {
                let span = compute.draw(&mut stream, step);
                sleep.draw(&mut stream, step);
                rate.iterations(span)
            });
            iterations.sum()
        };
        let all = run_all(&of, step);
        assert_ne!(all[0].1, all[1].1, "the ranks have separate draws");
        assert_eq!(all, [0, 1].map(|rank| (ROUNDS, drawn(rank))));
    }

    #[test]
    fn a_message_that_does_not_fit_into_memory_is_refused() {
        let refused = buffer(u64::MAX).unwrap_err();
        assert!(refused.is_input && refused.message.contains("18446744073709551615 bytes"), "{refused:?}");
    }
}
