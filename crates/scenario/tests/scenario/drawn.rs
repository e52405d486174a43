//! Draws valid scenarios.

use policy::feedback::{Boost, FeedbackRules};
use policy::gang::{Gang, Lowering};
use policy::layout::{Mesh, Partitioner, Request, Shape};
use policy::slices::Movement;
use policy::waiting::{Bound, WaitingRule};
use policy::wakeup::Scheme;
use policy::{CpuId, Span, priority};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_scenario::coscheduling::Reschedule;
use rowlock_scenario::fibers::{FiberCosts, FiberGroup};
use rowlock_scenario::message::Pattern;
use rowlock_scenario::pipeline::{Stage, StageTurn, Structure};
use rowlock_scenario::{
    Accounting, Arm, Arrival, Arrivals, Attributes, Bandwidth, Compute, Coscheduling, Distribution, Empirical,
    Experiment, Fibers, Granularity, Job, JobKind, Machine, MachineKeys, Message, Pipeline, Scenario, Scheduler,
    Setting, TickPhase, Tie, Topology,
};

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![(1_u64..10_000).prop_map(Span::from_micros), (1_u64..10_000_000_000).prop_map(Span::from_nanos)]
}

fn bound() -> impl Strategy<Value = Bound> {
    let of_cs = (0_u64..100_000, any::<bool>()).prop_map(|(thousandths, plus)| Bound::OfCs { thousandths, plus });
    prop_oneof![span().prop_map(Bound::Fixed), of_cs]
}

fn margin() -> impl Strategy<Value = Bound> {
    bound().prop_map(|bound| match bound {
        Bound::OfCs { thousandths, .. } => Bound::OfCs { thousandths, plus: false },
        fixed @ Bound::Fixed(_) => fixed,
    })
}

fn rule() -> impl Strategy<Value = WaitingRule> {
    let named = policy::table::WAITING.iter().filter_map(|entry| entry.rule).collect::<Vec<_>>();
    let load_aware = (0_u64..100_000).prop_map(|thousandths| WaitingRule::LoadAware { thousandths });
    prop_oneof![select(named), bound().prop_map(WaitingRule::TwoPhase), load_aware]
}

fn machine() -> impl Strategy<Value = MachineKeys> {
    let spans = vec(option::of(span()), 16);
    let topology =
        (1..5_u32, 1..9_u32, 1..4_u32).prop_map(|(nodes, cores, threads)| Topology::new(nodes, cores, threads));
    let topology = (prop_oneof![3 => Just(None), 1 => topology], option::of(1..=100_u32));
    let rest = (any::<bool>(), 1..1000_u32, option::of(margin()), option::of(select(Scheduler::ALL.to_vec())));
    let ticks = vec(option::of(1..100_u32), 6);
    let named = (
        option::of(select(Tie::ALL.to_vec())),
        option::of(select(TickPhase::ALL.to_vec())),
        option::of(select(Accounting::ALL.to_vec())),
        option::of(select(Scheme::ALL.to_vec())),
        option::of(select(Arrivals::ALL.to_vec())),
    );
    let flags = (option::of(any::<bool>()), option::of(any::<bool>()), option::of(any::<bool>()));
    type Rest = (bool, u32, Option<Bound>, Option<Scheduler>);
    type Cores = (Option<Topology>, Option<u32>);
    let machine =
        |(spans, rest, ticks, named, flags, cores): (Vec<_>, Rest, Vec<_>, (_, _, _, _, _), (_, _, _), Cores)| {
            let (like_host, cpus, spin_margin, scheduler) = rest;
            let (tie, tick_phase, accounting, wakeup, arrivals) = named;
            let (charge_switch, tail, groups) = flags;
            let (topology, smt_speed) = cores;
            // With a topology, the number of CPUs is its own or not written.
            let count = topology.map_or(cpus, Topology::cpus);
            let is_written = cpus % 2 == 0 || (!like_host && topology.is_none());
            MachineKeys {
                like_host,
                cpus: is_written.then_some(count),
                topology,
                cache_refill: spans[13],
                node_refill: spans[14],
                smt_speed,
                // As `on_cells` draws them.
                cells: None,
                network_latency: None,
                bandwidth: None,
                barrier_latency: None,
                step: spans[0],
                context_switch: spans[1],
                wakeup_cost: spans[2],
                yield_cost: spans[3],
                line_transfer: spans[15],
                arrivals,
                spin_margin,
                scheduler,
                quantum: spans[4],
                tick: spans[5],
                tick_phase,
                slice: spans[6],
                latency: spans[7],
                granularity: spans[8],
                wakeup_granularity: spans[9],
                migration_cost: spans[10],
                levels: ticks[5],
                running_time: spans[11],
                boost: spans[12]
                    .map(|period| if period > Span::from_millis(1) { Boost::Every(period) } else { Boost::Never }),
                tie,
                allocation: ticks[0],
                penalty: ticks[1],
                bonus: ticks[2],
                threshold: ticks[3],
                device_depth: ticks[4],
                accounting,
                charge_switch,
                tail,
                groups,
                wakeup,
                timeslice: ticks[5],
            }
        };
    (spans, rest, ticks, named, flags, topology).prop_map(machine)
}

/// Boxed, since many of them would fill the stack.
fn distribution() -> BoxedStrategy<Distribution> {
    let normal = (span(), 0..=1000_u64).prop_map(|(mean, part)| Distribution::Normal { mean, sd: mean.scaled(part) });
    let weighted = vec((span(), 0.1..9.0), 1..5).prop_map(|list| {
        let (values, weights) = list.into_iter().unzip();
        Empirical::new(values, Some(weights))
    });
    let seen = vec(span(), 1..5).prop_map(|values| Empirical::new(values, None));
    prop_oneof![
        2 => normal,
        1 => (span(), span()).prop_map(|(from, more)| Distribution::Uniform { from, to: from + more }),
        1 => span().prop_map(|mean| Distribution::Exponential { mean }),
        1 => (span(), span()).prop_map(|(mean, sd)| Distribution::LogNormal { mean, sd }),
        1 => prop_oneof![weighted, seen].prop_filter_map("nothing to draw", |list| list.map(Distribution::Empirical)),
    ]
    .boxed()
}

fn barrier() -> impl Strategy<Value = JobKind> {
    let compute = prop_oneof![
        distribution().prop_map(Compute::Drawn),
        select(Granularity::ALL.to_vec()).prop_map(Compute::Granularity)
    ];
    (1..200_u32, compute, 1..500_u64, rule()).prop_map(|(threads, compute, rounds, waiting)| JobKind::Barrier {
        threads,
        compute,
        rounds,
        waiting,
    })
}

fn lock() -> impl Strategy<Value = JobKind> {
    (1..200_u32, distribution(), distribution(), 1..500_u64, rule()).prop_map(
        |(threads, compute, critical, rounds, waiting)| JobKind::Lock { threads, compute, critical, rounds, waiting },
    )
}

fn stage() -> impl Strategy<Value = Stage> {
    let kind = select(priority::StageKind::ALL.to_vec());
    (kind, option::of(distribution()), distribution(), distribution(), 1..9_u32, -20..20_i8).prop_map(
        |(kind, compute, required, device, fork, nice)| {
            let computes = kind == priority::StageKind::Compute;
            let compute = compute.or(computes.then_some(required));
            Stage { name: String::new(), kind, compute, device: (!computes).then_some(device), fork, nice }
        },
    )
}

fn pipeline() -> impl Strategy<Value = JobKind> {
    let rules = policy::table::PRIORITY.iter().map(|entry| entry.example).collect::<Vec<_>>();
    let rest = (1..100_u32, 1..500_u64, select(Structure::ALL.to_vec()), select(rules), rule());
    // The shared thread of each stage, if any, and its rounds in a row.
    let places = vec((option::of(0..3_usize), 1..5_u32), 6);
    (vec(stage(), 1..6), rest, places).prop_map(
        |(mut stages, (buffers, rounds, structure, priority, waiting), places)| {
            let mut shared = vec![Vec::new(); 3];
            for (number, (stage, (thread, times))) in stages.iter_mut().zip(places).enumerate() {
                stage.name = format!("stage{number}");
                if let Some(thread) = thread {
                    stage.fork = 1;
                    let times = shared[thread].first().map_or(times.min(buffers), |turn: &StageTurn| turn.times);
                    shared[thread].push(StageTurn { stage: number, times });
                }
            }
            shared.retain(|turns| !turns.is_empty());
            let mut pipeline = Pipeline { stages, buffers, rounds, structure, shared, priority, waiting };
            while pipeline.can_deadlock() {
                pipeline.shared.pop();
            }
            JobKind::Pipeline(pipeline)
        },
    )
}

fn group() -> impl Strategy<Value = FiberGroup> {
    let lengths = (distribution(), option::of(distribution()), option::of(distribution()));
    let counts = (1..300_u32, 1..300_u32, option::of(1..90_u32), option::of(span()));
    (lengths, counts).prop_map(|((compute, critical, think), (fibers, bursts, join_every, checkpoint))| FiberGroup {
        name: String::new(),
        fibers,
        bursts,
        compute,
        critical,
        checkpoint,
        think,
        join_every,
    })
}

fn fibers() -> impl Strategy<Value = JobKind> {
    let boost = prop_oneof![Just(Boost::Never), span().prop_map(Boost::Every)];
    let rules = (1..1025_u32, span(), boost).prop_map(|(levels, running_time, boost)| FeedbackRules {
        levels,
        running_time,
        boost,
    });
    let cost = || 0..2_000_u64;
    let costs = (cost(), cost(), cost()).prop_map(|costs| {
        let [create, switch, lock] = <[u64; 3]>::from(costs).map(Span::from_nanos);
        FiberCosts { create, switch, lock }
    });
    let counts = (1..9_u32, 1..99_u32, any::<bool>());
    (vec(group(), 1..4), counts, rules, costs).prop_map(|(mut groups, (workers, locks, preemptible), rules, costs)| {
        groups.iter_mut().enumerate().for_each(|(number, group)| group.name = format!("group{number}"));
        let locks = if groups.iter().any(|group| group.critical.is_some()) { locks } else { 1 };
        JobKind::Fibers(Fibers { groups, workers, rules, locks, preemptible, costs })
    })
}

fn message() -> impl Strategy<Value = Message> {
    let times = (option::of(distribution()), option::of(distribution()));
    // All weights together are short of the longest round.
    let counts = (2..100_u32, 1..9_000_u64, 1..500_u64, 1..=100_u32);
    (counts, select(Pattern::ALL.to_vec()), times, rule()).prop_map(
        |((ranks, bytes, rounds, weight), pattern, (compute, sleep), waiting)| {
            let request = Request::Ranks(ranks);
            Message { request, pattern, bytes, rounds, compute, sleep, waiting, weight }
        },
    )
}

fn kind() -> impl Strategy<Value = JobKind> {
    let cpu = (1..200_u32, option::of(distribution())).prop_map(|(threads, work)| JobKind::Cpu { threads, work });
    let word = "[^\0]{0,12}";
    let command = ("[a-z\"'\\\\ ]{1,8}", vec(word, 0..4), 1..9_u32, option::of(span()));
    let command = command.prop_map(|(program, mut argv, threads, work)| {
        argv.insert(0, program);
        JobKind::Command { argv, threads, work }
    });
    prop_oneof![barrier(), lock(), cpu, command, pipeline(), fibers(), message().prop_map(JobKind::Message)]
}

/// CPU 0 exists on any machine.
fn attributes() -> impl Strategy<Value = Attributes> {
    let cpus = vec(0..8192_u32, 0..9).prop_map(|cpus| cpus.into_iter().chain([0]).map(CpuId).collect());
    let attributes = |(nice, cpus, slice)| Attributes { nice, cpus, slice };
    (-20..20_i8, option::of(cpus), option::of(span())).prop_map(attributes)
}

fn arrival() -> impl Strategy<Value = Arrival> {
    (prop_oneof![Just(Span::ZERO), span()], option::of(distribution())).prop_map(|(at, every)| Arrival { at, every })
}

fn coscheduling() -> impl Strategy<Value = Coscheduling> {
    let lower = prop_oneof![(1..=39_u8).prop_map(Lowering::Nice), (2..=1023_u16).prop_map(Lowering::Weight)];
    let named = (
        select(Gang::ALL.to_vec()),
        select(Partitioner::ALL.to_vec()),
        select(Movement::ALL.to_vec()),
        select(Reschedule::ALL.to_vec()),
    );
    let slices = option::of(1..=10_000_u32);
    let all = (named, slices, lower, vec(span(), 6));
    all.prop_map(|((how, partition, movement, reschedule), most_slices, lower, spans)| Coscheduling {
        how,
        slice: spans[0],
        partition,
        movement,
        most_slices,
        lower,
        clock_skew: spans[1],
        reschedule,
        create: spans[2],
        start: spans[3],
        switch_cost: spans[4],
        switch_cost_per_job: spans[5].scaled(1),
    })
}

/// A machine of eight by three cells with a network, how jobs share them, and a job of a rectangle.
fn cells() -> impl Strategy<Value = (MachineKeys, Coscheduling, Job)> {
    let megabytes = option::of((1..2_000_u64).prop_map(Bandwidth::from_megabytes));
    let shape = (2..=8_u32, 1..=3_u32, any::<bool>()).prop_map(|(columns, rows, is_turned)| match is_turned {
        true => Shape { columns: rows, rows: columns },
        false => Shape { columns, rows },
    });
    (vec(option::of(span()), 2), megabytes, coscheduling(), shape, message())
        .prop_map(|(spans, bandwidth, coscheduling, shape, message)| {
            let cells = Mesh::new(Shape { columns: 8, rows: 3 });
            let network = MachineKeys {
                cells,
                network_latency: spans[0],
                bandwidth,
                barrier_latency: spans[1],
                ..MachineKeys::default()
            };
            let message = Message { request: Request::Rectangle(shape), ..message };
            (network, coscheduling, Job::new("rectangle", 1, JobKind::Message(message)))
        })
        .boxed()
}

/// The setting on cells, without what cells do not allow.
fn on_cells(setting: Setting, (network, coscheduling, job): (MachineKeys, Coscheduling, Job)) -> Setting {
    let MachineKeys { cells, network_latency, bandwidth, barrier_latency, .. } = network;
    let mut machine = MachineKeys { cells, network_latency, bandwidth, barrier_latency, ..setting.machine };
    let mut coscheduling = coscheduling;
    if coscheduling.movement == Movement::WithinNode && coscheduling.reschedule == Reschedule::Choice {
        coscheduling.reschedule = Reschedule::Tick;
    }
    match coscheduling.how {
        Gang::Moderate | Gang::Original => {
            let by_weight = matches!(coscheduling.lower, Lowering::Weight(_));
            (machine.scheduler, machine.groups) = (Some(Scheduler::Eevdf), Some(by_weight));
        }
        Gang::Dynamic => {
            (machine.scheduler, machine.groups) = (Some(Scheduler::Eevdf), Some(false));
            coscheduling.lower = Lowering::default();
        }
        Gang::Strict | Gang::Adaptive if coscheduling.reschedule == Reschedule::Choice => {
            machine.scheduler = Some(Scheduler::Rr);
        }
        // It excludes `keep_running`, which is swept.
        Gang::CellOs => coscheduling.how = Gang::None,
        _ => {}
    }
    let mut jobs = setting.jobs;
    jobs.retain(|job| !matches!(job.kind, JobKind::Lock { .. } | JobKind::Pipeline(_) | JobKind::Fibers(_)));
    jobs.push(job);
    for job in &mut jobs {
        job.attributes.cpus = None;
        job.attributes.nice = job.attributes.nice.clamp(-19, 18);
    }
    let costs = machine.complete(&Machine::with_cpus(1));
    let copies: u64 = jobs.iter().map(|job| u64::from(job.copies)).sum();
    let Coscheduling { switch_cost, switch_cost_per_job, .. } = coscheduling;
    let switches = (costs.context_switch + costs.wakeup_cost + switch_cost + switch_cost_per_job.scaled(1000 * copies))
        .scaled(2000);
    let coscheduling = Coscheduling { slice: coscheduling.slice + costs.tick + switches, ..coscheduling };
    Setting { machine, jobs, coscheduling: Some(coscheduling), ..setting }
}

/// A scenario with one arm. Its first job is a barrier, so that it ends.
pub(crate) fn single() -> impl Strategy<Value = Scenario> {
    let jobs = (barrier(), vec(kind(), 0..4), vec(("[a-zß0-9_-]{1,9}", 1..20_u32, (attributes(), arrival())), 5));
    let rest = ("[^\\p{Cc}]{0,30}", 1..1000_u32, 0..=i64::MAX as u64, any::<bool>());
    (machine(), jobs, rest, option::of(cells())).prop_map(|(machine, (first, kinds, names), rest, cells)| {
        let (title, repeat, seed, keep_running) = rest;
        let kinds = std::iter::once(first).chain(kinds);
        let jobs = kinds.zip(names).enumerate().map(|(index, (kind, (name, copies, (attributes, arrival))))| {
            // The number makes the names unique.
            Job { attributes, arrival, ..Job::new(format!("{name}{index}"), copies, kind) }
        });
        let setting = Setting { machine, jobs: jobs.collect(), coscheduling: None, keep_running };
        let setting = match cells {
            Some(cells) => on_cells(setting, cells),
            None => setting,
        };
        let experiment = Experiment { repeat, seed, compare: None, x: None };
        Scenario { title, arms: vec![Arm { factors: Vec::new(), setting }], experiment }
    })
}

/// Sweeps the first job's waiting rule, then the number of CPUs, then `keep_running`. Other
/// combinations of keys would only repeat these three forms.
pub(crate) fn swept(scenario: Scenario, rules: &[WaitingRule], cpus: &[u32]) -> Scenario {
    let waiting = format!("job.{}.waiting", scenario.arms[0].setting.jobs[0].name);
    let mut arms = Vec::new();
    for rule in rules {
        for count in cpus {
            for keep_running in [true, false] {
                let mut setting = scenario.arms[0].setting.clone();
                setting.machine.cpus = Some(*count);
                setting.machine.topology = None;
                setting.keep_running = keep_running;
                if let JobKind::Barrier { waiting, .. } = &mut setting.jobs[0].kind {
                    *waiting = *rule;
                }
                let factors = vec![
                    (waiting.clone(), toml::Value::from(rule.to_string())),
                    ("machine.cpus".to_owned(), toml::Value::from(*count)),
                    ("experiment.keep_running".to_owned(), toml::Value::from(keep_running)),
                ];
                arms.push(Arm { factors, setting });
            }
        }
    }
    let compare = Some(waiting);
    Scenario {
        arms,
        experiment: Experiment { compare, x: Some("machine.cpus".to_owned()), ..scenario.experiment },
        ..scenario
    }
}
