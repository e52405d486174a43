//! Random small machines with random jobs.

use policy::waiting::{Bound, WaitingRule};
use policy::wakeup::Scheme;
use policy::{CpuId, Span};
use proptest::prelude::*;
use scenario::{
    Accounting, Arrivals, Attributes, Cfs, Compute, Distribution, Granularity, Job, JobKind, Linux24, Machine,
    MachineKeys, Scheduler, Setting, TickPhase, Tie, Topology,
};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn any_rule() -> impl Strategy<Value = WaitingRule> {
    let multiple = |thousandths, plus| WaitingRule::TwoPhase(Bound::OfCs { thousandths, plus });
    prop_oneof![
        Just(WaitingRule::AlwaysBlock),
        Just(WaitingRule::AlwaysSpin),
        Just(multiple(1000, false)),
        Just(multiple(1000, true)),
        Just(multiple(2000, true)),
        (0_u64..40_000).prop_map(|n| WaitingRule::TwoPhase(Bound::Fixed(Span::from_nanos(n)))),
        (0_u64..3_000, prop::bool::ANY).prop_map(move |(thousandths, plus)| multiple(thousandths, plus)),
    ]
}

fn any_compute() -> impl Strategy<Value = Compute> {
    prop_oneof![
        1 => prop::sample::select(&Granularity::ALL[..]).prop_map(Compute::Granularity),
        3 => (0_u64..30_000, 0_u64..10_000)
            .prop_map(|(mean, sd)| Compute::Drawn(Distribution::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) })),
        1 => (0_u64..12, 0_u64..12)
            .prop_map(|(from, more)| Compute::Drawn(Distribution::Uniform { from: us(from), to: us(from + more) })),
        1 => (1_u64..12).prop_map(|n| Compute::Drawn(Distribution::Normal { mean: us(n), sd: Span::ZERO })),
    ]
}

fn any_job() -> impl Strategy<Value = Job> {
    // A tree of counters has more than 8 threads.
    let threads = prop_oneof![8 => 1_u32..6, 1 => 9_u32..40];
    let barrier = (threads, any_compute(), 1_u64..25, any_rule())
        .prop_map(|(threads, compute, rounds, waiting)| JobKind::Barrier { threads, compute, rounds, waiting });
    let cpu = (1_u32..8, prop::option::of(1_u64..600)).prop_map(|(threads, work)| {
        // In jobs with an even number of threads, these draw their work.
        let drawn = |n: u64| if threads % 2 == 0 { Distribution::Exponential { mean: us(n) } } else { us(n).into() };
        JobKind::Cpu { threads, work: work.map(drawn) }
    });
    (1_u32..4, prop_oneof![3 => barrier, 1 => cpu]).prop_map(|(copies, kind)| Job::new("", copies, kind))
}

/// Jobs of which at least one ends.
pub(crate) fn any_setting() -> impl Strategy<Value = Setting> {
    let jobs = prop::collection::vec(any_job(), 1..5);
    (jobs, prop::bool::ANY).prop_map(|(mut jobs, keep_running)| {
        if jobs.iter().all(|job| job.kind.is_endless()) {
            jobs[0].kind = JobKind::Cpu { threads: 2, work: Some(us(50).into()) };
        }
        jobs.iter_mut().enumerate().for_each(|(n, job)| job.name = format!("job{n}"));
        Setting { machine: MachineKeys::default(), jobs, coscheduling: None, keep_running }
    })
}

fn any_linux_2_4() -> impl Strategy<Value = Linux24> {
    let ticks = (1_u32..25, 0_u32..20, 0_u32..4, 0_u32..4);
    let scheme = prop::sample::select(&Scheme::ALL[..]);
    let accounting = prop::sample::select(&Accounting::ALL[..]);
    (ticks, scheme, accounting, prop::bool::ANY, prop::bool::ANY).prop_map(
        |((allocation, penalty, bonus, threshold), wakeup, accounting, charge_switch, tail)| Linux24 {
            allocation,
            penalty,
            bonus,
            threshold,
            accounting,
            charge_switch,
            tail,
            wakeup,
        },
    )
}

/// Spans for which ticks are neither rare nor dominant.
pub(crate) fn any_cfs() -> impl Strategy<Value = Cfs> {
    (1_u64..120, 1_u64..30, 0_u64..40, 0_u64..60).prop_map(|(latency, granularity, wakeup, migration)| Cfs {
        latency: us(latency),
        granularity: us(granularity),
        wakeup_granularity: us(wakeup),
        migration_cost: us(migration),
    })
}

/// The attributes of a job: most often none.
pub(crate) fn any_attributes() -> impl Strategy<Value = Attributes> {
    let nice = prop_oneof![3 => Just(0_i8), 1 => -20_i8..20];
    let cpus = prop::collection::vec(0_u32..7, 1..4).prop_map(|cpus| cpus.into_iter().map(CpuId).collect());
    let cpus = prop_oneof![3 => Just(None), 1 => cpus.prop_map(Some)];
    (nice, cpus).prop_map(|(nice, cpus)| Attributes { nice, cpus, slice: None })
}

/// A setting whose jobs have these attributes. CPU sets with no CPU of the machine are ignored.
pub(crate) fn with_attributes(mut setting: Setting, cpus: u32, attributes: Vec<Attributes>) -> Setting {
    for (job, attributes) in setting.jobs.iter_mut().zip(attributes) {
        let are_there = attributes.cpus.as_ref().is_some_and(|set| set.iter().any(|cpu| cpu.0 < cpus));
        job.attributes = Attributes { cpus: attributes.cpus.filter(|_| are_there), ..attributes };
    }
    setting
}

/// A topology, most often a flat one, what moving costs in units of `unit`, and the speed of CPUs
/// that share a core.
fn any_cores(unit: Span) -> impl Strategy<Value = (Topology, [Span; 2], u32)> {
    let named = &["1x1x2", "1x2x2", "2x1x2", "2x2x1", "1x3x2", "2x3x1", "1x2x3", "2x2x2", "3x1x2", "4x2x1"][..];
    let named = prop::sample::select(named).prop_map(|text: &str| text.parse().unwrap());
    let topology = prop_oneof![(1_u32..7).prop_map(Topology::flat), named];
    let cost = move || prop_oneof![2 => Just(Span::ZERO), 1 => (1_u64..16).prop_map(move |n| unit.scaled(250 * n))];
    (topology, [cost(), cost()], prop_oneof![1 => Just(100_u32), 2 => 1_u32..101])
}

/// The machine with these cores.
fn with_cores(machine: Machine, (topology, refills, smt_speed): (Topology, [Span; 2], u32)) -> Machine {
    let [cache_refill, node_refill] = refills;
    Machine { cpus: topology.cpus(), topology: Some(topology), cache_refill, node_refill, smt_speed, ..machine }
}

/// A machine under `scheduler` whose durations need not be whole steps.
///
/// A new option must be drawn here, unless it is drawn by the test of its scheduler in
/// `properties.rs`, as those of CFS, `linux-o1` and `feedback` are, or like `groups` by
/// [`any_machine_of_milliseconds`].
pub(crate) fn any_machine(scheduler: Scheduler) -> impl Strategy<Value = Machine> {
    let fraction = || prop_oneof![2 => Just(0_u64), 1 => 0_u64..1000];
    let step = prop_oneof![3 => Just(us(1)), 1 => (500_u64..3_000).prop_map(Span::from_nanos)];
    let spans = (0_u64..10, fraction(), 1_u64..60, fraction(), 0_u64..8, 1_u64..16, fraction(), 1_u64..80);
    let tie = prop::sample::select(&Tie::ALL[..]);
    let lines = (prop_oneof![2 => Just(0_u64), 1 => 1_u64..6_000], prop::sample::select(&Arrivals::ALL[..]));
    let rest = (tie, prop::sample::select(&TickPhase::ALL[..]), any_linux_2_4(), lines);
    (step, any_cores(us(5)), spans, rest).prop_map(move |(step, cores, spans, (tie, tick_phase, linux_2_4, lines))| {
        let (switch, switch_fraction, quantum, quantum_fraction, margin, tick, tick_fraction, slice) = spans;
        let machine = Machine {
            scheduler,
            step,
            context_switch: us(switch) + Span::from_nanos(switch_fraction),
            quantum: us(quantum) + Span::from_nanos(quantum_fraction),
            spin_margin: Bound::Fixed(us(margin)),
            slice: us(slice),
            tick: us(tick) + Span::from_nanos(tick_fraction),
            tick_phase,
            tie,
            line_transfer: Span::from_nanos(lines.0),
            arrivals: lines.1,
            linux_2_4,
            ..Machine::with_cpus(cores.0.cpus())
        };
        with_cores(machine, cores)
    })
}

/// A machine under `eevdf` on which milliseconds are short, so that caches cool, busy CPUs balance
/// and loads change. A new option of eevdf must be drawn here too.
pub(crate) fn any_machine_of_milliseconds() -> impl Strategy<Value = Machine> {
    let spans = (0_u64..3, 1_u64..8, 1_u64..10);
    let named = (prop::sample::select(&Tie::ALL[..]), prop::sample::select(&TickPhase::ALL[..]));
    (prop::sample::select(&[500_u64, 250][..]), any_cores(us(250)), spans, named, any::<bool>()).prop_map(
        |(step, cores, (switch, tick, slice), (tie, tick_phase), groups)| {
            let machine = Machine {
                groups,
                scheduler: Scheduler::Eevdf,
                step: us(step),
                context_switch: us(step * switch),
                spin_margin: Bound::Fixed(us(1_000)),
                slice: us(step * slice),
                tick: us(step * tick),
                tick_phase,
                tie,
                ..Machine::with_cpus(cores.0.cpus())
            };
            with_cores(machine, cores)
        },
    )
}

/// The attributes of a job, with a slice.
pub(crate) fn any_attributes_and_slice() -> impl Strategy<Value = Attributes> {
    let nice = prop_oneof![2 => Just(0_i8), 1 => -20_i8..20];
    let cpus = prop::collection::vec(0_u32..7, 1..4).prop_map(|cpus| cpus.into_iter().map(CpuId).collect());
    let cpus = prop_oneof![4 => Just(None), 1 => cpus.prop_map(Some)];
    let slice = prop::option::of((1_u64..200).prop_map(|tenths| us(100 * tenths)));
    (nice, cpus, slice).prop_map(|(nice, cpus, slice)| Attributes { nice, cpus, slice })
}

/// The distribution with its times scaled.
fn scaled(times: &Distribution, thousandths: u64) -> Distribution {
    match *times {
        Distribution::Normal { mean, sd } => {
            Distribution::Normal { mean: mean.scaled(thousandths), sd: sd.scaled(thousandths) }
        }
        Distribution::Uniform { from, to } => {
            Distribution::Uniform { from: from.scaled(thousandths), to: to.scaled(thousandths) }
        }
        Distribution::Exponential { mean } => Distribution::Exponential { mean: mean.scaled(thousandths) },
        ref other => panic!("no setting here has {other:?}"),
    }
}

/// The setting with computations that are a thousand times as long, and fewer rounds.
pub(crate) fn a_thousand_times_as_long(mut setting: Setting) -> Setting {
    for job in &mut setting.jobs {
        match &mut job.kind {
            JobKind::Barrier { compute, rounds, .. } => {
                if let Compute::Drawn(times) = compute {
                    *times = scaled(times, 1_000_000);
                }
                *rounds = rounds.div_ceil(3);
            }
            JobKind::Cpu { work, .. } => *work = work.as_ref().map(|work| scaled(work, 500_000)),
            _ => {}
        }
    }
    setting
}
