//! Messages: small cases by hand, and laws for every pattern, rule and scheduler.

use std::collections::{BTreeMap, VecDeque};

use policy::layout::{Mesh, Request, Shape};
use policy::record::{RecordedStep, Recorder, replay};
use policy::table::WAITING;
use policy::waiting::{Observation, Running};
use policy::{CpuId, Instant, Span, ThreadId};
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_sim::observer::{CpuState, Observer};
use rowlock_sim::{run, run_observed, run_recorded};
use scenario::draw::Stream;
use scenario::message::Pattern;
use scenario::{Bandwidth, Distribution, Job, JobKind, Machine, Message, Network, Scheduler, Setting};

use crate::timeline::{assert_timeline, cpu, setting, short, time_sharing, timeline};

pub(crate) fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// Ranks that compute for 10 us in each round.
pub(crate) fn message(pattern: Pattern, ranks: u32, rounds: u64, waiting: &str) -> Message {
    Message {
        request: Request::Ranks(ranks),
        pattern,
        bytes: 100,
        rounds,
        compute: Some(us(10).into()),
        sleep: None,
        waiting: waiting.parse().unwrap(),
        weight: 1,
    }
}

pub(crate) fn job(message: Message) -> Job {
    Job::new("job", 1, JobKind::Message(message))
}

fn rr(cpus: u32) -> Machine {
    Machine { scheduler: Scheduler::Rr, ..Machine::with_cpus(cpus) }
}

#[test]
fn a_spinning_rank_continues_at_the_moment_of_the_arrival() {
    let setting = setting(vec![job(message(Pattern::Ring, 2, 2, "always-spin"))]);
    let (text, outcome) = timeline(&rr(2), &setting, "ab", "ab");
    // a computes from 6 to 16, b to 26, a to 36, and b to 46.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         46 us cpu1: b ends, then idle
         46 us cpu0: a ends, then idle",
    );
    let job = &outcome.jobs[0];
    assert_eq!((job.completion_ns, job.rounds, job.delivered_work_ns), (Some(us(46)), Some(2), Some(us(40))));
    assert_eq!((job.ssr_percent, job.spin_ns, job.voluntary_switches), (Some(100.0), Some(us(40)), Some(0)));
}

#[test]
fn a_blocked_rank_is_woken_before_its_sender_waits() {
    let setting = setting(vec![job(message(Pattern::Ring, 2, 2, "always-block"))]);
    let (text, outcome) = timeline(&rr(2), &setting, "ab", "ab");
    // So the CPU of the sender finds it ready.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         6 us cpu1: b blocks, then idle
         12 us cpu1: idle
         16 us cpu0: a blocks, then b
         22 us cpu0: b
         32 us cpu0: b blocks, then a
         38 us cpu0: a
         48 us cpu0: a blocks, then b
         54 us cpu0: b
         64 us cpu0: b ends, then a
         70 us cpu0: a
         70 us cpu0: a ends, then idle",
    );
    let job = &outcome.jobs[0];
    assert_eq!((job.rounds, job.ssr_percent, job.voluntary_switches), (Some(2), None, Some(4)));
}

#[test]
fn a_message_to_a_rank_without_a_cpu_is_stored() {
    let setting = setting(vec![job(message(Pattern::Ring, 2, 1, "always-spin"))]);
    let (text, outcome) = timeline(&rr(1), &setting, "ab", "ab");
    // That of a, at 16, comes before b has run. That of b, at 122, finds a preempted.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         6 us cpu0: a
         106 us cpu0: a preempted, then b
         112 us cpu0: b
         122 us cpu0: b ends, then a
         128 us cpu0: a
         128 us cpu0: a ends, then idle",
    );
    assert_eq!((outcome.jobs[0].spin_ns, outcome.jobs[0].ssr_percent), (Some(us(90)), Some(100.0)));
}

#[test]
fn a_sleeping_rank_gives_its_cpu_away_and_then_sends() {
    let message = Message { sleep: Some(us(20).into()), ..message(Pattern::Ring, 2, 1, "always-spin") };
    let (text, outcome) = timeline(&rr(2), &setting(vec![job(message)]), "ab", "ab");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         6 us cpu0: a
         6 us cpu1: b
         16 us cpu0: a blocks, then idle
         22 us cpu0: idle
         36 us cpu0: idle, then a
         42 us cpu0: a
         52 us cpu1: b blocks, then idle
         58 us cpu1: idle
         72 us cpu1: idle, then b
         78 us cpu1: b
         78 us cpu1: b ends, then idle
         78 us cpu0: a ends, then idle",
    );
    assert_eq!((outcome.jobs[0].delivered_work_ns, outcome.jobs[0].voluntary_switches), (Some(us(20)), Some(2)));
}

#[test]
fn the_first_rank_is_woken_by_the_last_answer() {
    let setting = setting(vec![job(message(Pattern::OneToAll, 3, 1, "always-block"))]);
    let (text, outcome) = timeline(&rr(3), &setting, "abc", "abc");
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         0 ns cpu2: idle, then c
         6 us cpu0: a
         6 us cpu1: b
         6 us cpu1: b blocks, then idle
         6 us cpu2: c
         6 us cpu2: c blocks, then idle
         12 us cpu1: idle
         12 us cpu2: idle
         16 us cpu0: a blocks, then b
         16 us cpu1: idle, then c
         22 us cpu0: b
         22 us cpu0: b ends, then idle
         22 us cpu1: c
         22 us cpu1: c ends, then a
         28 us cpu0: idle
         28 us cpu1: a
         28 us cpu1: a ends, then idle",
    );
    assert_eq!((outcome.jobs[0].delivered_work_ns, outcome.jobs[0].rounds), (Some(us(10)), Some(1)));
}

#[test]
fn neighbours_that_exchange_messages_continue_with_the_last_of_them() {
    let setting = setting(vec![job(message(Pattern::Exchange, 3, 2, "always-spin"))]);
    let (text, outcome) = timeline(&rr(3), &setting, "abc", "abc");
    // c sends last, at 16 and 26. It has all that it needs by then, and the others spin.
    assert_timeline(
        &text,
        "0 ns cpu0: idle, then a
         0 ns cpu1: idle, then b
         0 ns cpu2: idle, then c
         6 us cpu0: a
         6 us cpu1: b
         6 us cpu2: c
         26 us cpu2: c ends, then idle
         26 us cpu0: a ends, then idle
         26 us cpu1: b ends, then idle",
    );
    assert_eq!((outcome.jobs[0].delivered_work_ns, outcome.jobs[0].ssr_percent), (Some(us(60)), Some(100.0)));
}

/// Checks that every rank that sends or receives has a CPU, and that each message is received once
/// and has travelled for long enough.
#[derive(Default)]
struct Post {
    /// How many ranks have cells of their own. The others share those. Zero if there are no cells.
    cells: u32,
    /// How long a message to another cell travels.
    time: Span,
    cpus: Vec<Option<ThreadId>>,
    /// The moments at which the messages were sent that have not been received.
    under_way: BTreeMap<(ThreadId, ThreadId), VecDeque<Instant>>,
    received: BTreeMap<(ThreadId, ThreadId), u64>,
}

impl Observer for Post {
    fn cpu_changed(&mut self, _: Instant, cpu: CpuId, state: CpuState) {
        self.cpus.resize(self.cpus.len().max(cpu.index() + 1), None);
        self.cpus[cpu.index()] = match state {
            CpuState::Running(thread) => Some(thread),
            CpuState::Idle | CpuState::Switching { .. } => None,
        };
    }

    fn message_sent(&mut self, at: Instant, from: ThreadId, to: ThreadId) {
        assert!(self.cpus.contains(&Some(from)), "thread {from} sends at {at} without a CPU");
        self.under_way.entry((from, to)).or_default().push_back(at);
    }

    fn message_received(&mut self, at: Instant, from: ThreadId, to: ThreadId) {
        assert!(self.cpus.contains(&Some(to)), "thread {to} receives at {at} without a CPU");
        let sent = self.under_way.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let is_far = self.cells > 0 && from.0 % self.cells != to.0 % self.cells;
        let time = if is_far { self.time } else { Span::ZERO };
        assert!(sent.is_some_and(|sent| sent + time <= at), "from {from} to {to} at {at}: {sent:?}");
        *self.received.entry((from, to)).or_default() += 1;
    }
}

/// The pairs of ranks that exchange messages in a round.
fn pairs(pattern: Pattern, ranks: u32) -> usize {
    let ranks = ranks as usize;
    match pattern {
        Pattern::Ring => ranks,
        Pattern::OneToAll => 2 * (ranks - 1),
        Pattern::Exchange if ranks == 2 => 2,
        Pattern::Exchange => 2 * ranks,
    }
}

/// The sum of the computations that the ranks draw. One that begins a round computes for a step at
/// least.
fn drawn(message: &Message, seed: u64, step: Span) -> Span {
    let of_rank = |number: u32| -> Span {
        let mut stream = Stream::named(seed, "job", number);
        let begins = number == 0 || message.pattern == Pattern::Exchange;
        let round = |_| {
            let mut draw = |law: &Option<Distribution>| law.as_ref().map(|law| law.law().draw(&mut stream, step));
            let (compute, _) = (draw(&message.compute), draw(&message.sleep));
            compute.unwrap_or(if begins { step } else { Span::ZERO })
        };
        (0..message.rounds).map(round).sum()
    };
    let computing = if message.pattern == Pattern::OneToAll { 1 } else { message.ranks() };
    (0..computing).map(of_rank).sum()
}

fn any_message() -> impl Strategy<Value = Message> {
    let lengths = || {
        let length = (0_u64..40, 0_u64..10);
        prop::option::of(length.prop_map(|(mean, sd)| Distribution::Normal { mean: us(mean), sd: us(sd.min(mean)) }))
    };
    let kind = (select(Pattern::ALL.to_vec()), 2_u32..7, 1_u64..30, lengths(), lengths(), 0..WAITING.len());
    kind.prop_map(|(pattern, ranks, rounds, compute, sleep, rule)| Message {
        compute,
        sleep,
        waiting: WAITING[rule].example,
        ..message(pattern, ranks, rounds, "cs")
    })
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let machine = (1_u32..5, 0_u64..9, 0_u64..30, 1_u64..3_000, 10_u64..200, select(time_sharing()));
    let cells = prop::option::of((1_u32..3, 1_u32..3, 0_u64..20, 1_u64..30));
    (machine, cells).prop_map(|((cpus, switch, wakeup, step, quantum, scheduler), cells)| {
        let (cpus, cells, network) = match cells {
            None => (cpus, None, Network::default()),
            Some((columns, rows, latency, megabytes)) => {
                let bandwidth = Bandwidth::from_megabytes(megabytes);
                let network = Network { latency: us(latency), bandwidth, ..Network::default() };
                (cpus.div_ceil(2), Mesh::new(Shape { columns, rows }), network)
            }
        };
        short(Machine {
            step: Span::from_nanos(step),
            context_switch: us(switch),
            wakeup_cost: us(wakeup),
            quantum: us(quantum),
            tick: us(10 * quantum),
            slice: us(7 * quantum),
            scheduler,
            cells,
            network,
            ..Machine::with_cpus(cpus)
        })
    })
}

proptest! {
    /// Meanwhile, debug builds check after each event that no rank waits for messages that it has.
    #[test]
    fn every_message_is_received_once_and_the_work_is_that_of_the_draws(
        (machine, message, crowd) in (any_machine(), any_message(), 0_u32..4), seed in 0_u64..1_000,
    ) {
        let mut jobs = vec![job(message.clone())];
        jobs.extend((0..crowd).map(|number| cpu(&format!("x{number}"), None)));
        let cells = machine.cells.map_or(0, Mesh::cells).min(message.ranks());
        let of_bytes = machine.network.bandwidth.time_of(message.bytes);
        let time = machine.network.latency.floor_to(machine.step) + of_bytes.floor_to(machine.step);
        let mut post = Post { cells, time, ..Post::default() };
        let outcome = run_observed(&machine, &setting(jobs.clone()), seed, &mut post).unwrap();
        prop_assert_eq!(&outcome, &run(&machine, &setting(jobs), seed).unwrap());
        prop_assert!(post.under_way.values().all(VecDeque::is_empty));
        prop_assert_eq!(post.received.len(), pairs(message.pattern, message.ranks()));
        prop_assert!(post.received.values().all(|&messages| messages == message.rounds));
        prop_assert_eq!(outcome.jobs[0].rounds, Some(message.rounds));
        prop_assert_eq!(outcome.jobs[0].delivered_work_ns, Some(drawn(&message, seed, machine.step)));
    }
}

fn recorded(machine: &Machine, waiting: &str) -> Vec<RecordedStep> {
    let compute = Some(Distribution::Normal { mean: us(20), sd: us(5) });
    let message = Message { compute, ..message(Pattern::Exchange, 5, 100, waiting) };
    let setting = setting(vec![job(message), cpu("x", None)]);
    let (outcome, records) = run_recorded(machine, &setting, 1).unwrap();
    assert_eq!(outcome.jobs[0].rounds, Some(100), "{waiting}");
    records[0].entries()
}

#[test]
fn every_policy_waits_for_messages_under_every_scheduler_and_its_record_replays() {
    for entry in WAITING {
        for scheduler in time_sharing() {
            let machine = short(Machine { scheduler, tick: us(40), slice: us(30), ..Machine::with_cpus(3) });
            let record = recorded(&machine, &entry.example.to_string());
            assert!(record.len() >= 100, "{} entries", record.len());
            assert_eq!(replay(entry.example, machine.costs(), &record), [], "{}", entry.form);
            // A rank knows the neighbours of which it has no message.
            for entry in record.iter().filter(|entry| entry.decision.is_some()) {
                let neighbours = [(entry.thread.0 + 1) % 5, (entry.thread.0 + 4) % 5];
                assert!((1..=2).contains(&entry.missing.len()) && entry.threads == 5, "{entry:?}");
                assert!(entry.missing.iter().all(|missing| neighbours.contains(&missing.thread.0)), "{entry:?}");
            }
            let is_known = |entry: &&RecordedStep| entry.missing.iter().all(|missing| missing.last_seen.is_some());
            assert!(record.iter().filter(is_known).count() > record.len() / 2);
        }
    }
}

#[test]
fn nothing_is_known_about_whether_ranks_on_other_cells_run() {
    let cells = Mesh::new(Shape { columns: 2, rows: 1 });
    let short_time = Machine { scheduler: Scheduler::Eevdf, tick: us(40), slice: us(30), ..Machine::with_cpus(2) };
    let machine = short(Machine { cells, ..short_time });
    let compute = Some(Distribution::Normal { mean: us(20), sd: us(5) });
    // The first and the last rank share a cell, and have a neighbour on the other one.
    let message = Message { compute, ..message(Pattern::Exchange, 3, 200, "owner-running") };
    let jobs = vec![job(message), Job::new("hogs", 2, JobKind::Cpu { threads: 2, work: None })];
    let (_, records) = run_recorded(&machine, &setting(jobs), 1).unwrap();
    let mut answers: BTreeMap<bool, Vec<Running>> = BTreeMap::new();
    for entry in &records[0].entries() {
        let (Observation::Checked(running), Some(_)) = (entry.seen, entry.decision) else { continue };
        let is_elsewhere = entry.missing.iter().any(|missing| missing.thread.0 % 2 != entry.thread.0 % 2);
        answers.entry(is_elsewhere).or_default().push(running);
    }
    let has = |is_elsewhere, running| answers[&is_elsewhere].contains(&running);
    assert!(has(false, Running::NotAll) && !has(false, Running::Unknown), "{answers:?}");
    assert!(has(true, Running::NotAll) && has(true, Running::Unknown) && !has(true, Running::All), "{answers:?}");
}

#[test]
fn rounds_beyond_those_of_a_job_that_keeps_running_are_not_counted() {
    for pattern in Pattern::ALL {
        let jobs = vec![job(message(pattern, 3, 10, "cs")), cpu("long", Some(us(5_000)))];
        let keep = Setting { keep_running: true, ..setting(jobs) };
        let outcome = run(&rr(1), &keep, 1).unwrap();
        assert_eq!(outcome.jobs[0].rounds, Some(10));
        assert!(outcome.jobs[0].delivered_work_ns.unwrap() <= us(330), "what it does after its end is not counted");
        assert!(outcome.jobs[1].completion_ns.unwrap() > us(5_500), "the ranks continue beside it");
    }
}

#[test]
fn rounds_without_any_time_do_not_stop_the_clock() {
    for pattern in Pattern::ALL {
        let none = Message { compute: None, ..message(pattern, 3, 100, "always-spin") };
        let free = Machine { context_switch: Span::ZERO, ..rr(4) };
        let keep = Setting { keep_running: true, ..setting(vec![job(none), cpu("long", Some(us(50)))]) };
        let outcome = run(&free, &keep, 1).unwrap();
        assert_eq!((outcome.jobs[0].rounds, outcome.jobs[0].completion_ns), (Some(100), Some(Span::from_nanos(100))));
    }
}
