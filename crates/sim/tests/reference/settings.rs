//! Random small machines with random jobs.

use policy::Span;
use policy::waiting::{Bound, Rule};
use policy::wakeup::Scheme;
use proptest::prelude::*;
use scenario::{Accounting, Compute, Granularity, Job, Kind, Linux24, Machine, MachineKeys, Scheduler, Setting, Tie};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let multiple = |thousandths, plus| Rule::TwoPhase(Bound::OfCs { thousandths, plus });
    prop_oneof![
        Just(Rule::AlwaysBlock),
        Just(Rule::AlwaysSpin),
        Just(multiple(1000, false)),
        Just(multiple(1000, true)),
        Just(multiple(2000, true)),
        (0_u64..40_000).prop_map(|n| Rule::TwoPhase(Bound::Fixed(Span::from_nanos(n)))),
        (0_u64..3_000, prop::bool::ANY).prop_map(move |(thousandths, plus)| multiple(thousandths, plus)),
    ]
}

fn any_compute() -> impl Strategy<Value = Compute> {
    prop_oneof![
        1 => prop::sample::select(&Granularity::ALL[..]).prop_map(Compute::Granularity),
        3 => (0_u64..30_000, 0_u64..10_000)
            .prop_map(|(mean, sd)| Compute::Normal { mean: Span::from_nanos(mean), sd: Span::from_nanos(sd) }),
        1 => (1_u64..12).prop_map(|n| Compute::Normal { mean: us(n), sd: Span::ZERO }),
    ]
}

fn any_job() -> impl Strategy<Value = Job> {
    let barrier = (1_u32..6, any_compute(), 1_u64..25, any_rule())
        .prop_map(|(threads, compute, rounds, waiting)| Kind::Barrier { threads, compute, rounds, waiting });
    let cpu =
        (1_u32..8, prop::option::of(1_u64..600)).prop_map(|(threads, work)| Kind::Cpu { threads, work: work.map(us) });
    (1_u32..4, prop_oneof![3 => barrier, 1 => cpu]).prop_map(|(copies, kind)| Job { name: String::new(), copies, kind })
}

/// Jobs of which at least one ends.
pub(crate) fn any_setting() -> impl Strategy<Value = Setting> {
    let jobs = prop::collection::vec(any_job(), 1..5);
    (jobs, prop::bool::ANY).prop_map(|(mut jobs, keep_running)| {
        if jobs.iter().all(|job| job.kind.is_endless()) {
            jobs[0].kind = Kind::Cpu { threads: 2, work: Some(us(50)) };
        }
        jobs.iter_mut().enumerate().for_each(|(n, job)| job.name = format!("job{n}"));
        Setting { machine: MachineKeys::default(), jobs, keep_running }
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

/// A machine under `scheduler` whose durations need not be whole steps.
pub(crate) fn any_machine(scheduler: Scheduler) -> impl Strategy<Value = Machine> {
    let fraction = || prop_oneof![2 => Just(0_u64), 1 => 0_u64..1000];
    let step = prop_oneof![3 => Just(us(1)), 1 => (500_u64..3_000).prop_map(Span::from_nanos)];
    let spans = (0_u64..10, fraction(), 1_u64..60, fraction(), 0_u64..8, 1_u64..16, fraction(), 1_u64..80);
    let tie = prop::sample::select(&Tie::ALL[..]);
    (step, 1_u32..7, spans, tie, any_linux_2_4()).prop_map(move |(step, cpus, spans, tie, linux_2_4)| {
        let (switch, switch_fraction, quantum, quantum_fraction, margin, tick, tick_fraction, slice) = spans;
        Machine {
            scheduler,
            step,
            context_switch: us(switch) + Span::from_nanos(switch_fraction),
            quantum: us(quantum) + Span::from_nanos(quantum_fraction),
            spin_margin: Bound::Fixed(us(margin)),
            slice: us(slice),
            tick: us(tick) + Span::from_nanos(tick_fraction),
            tie,
            linux_2_4,
            ..Machine::with_cpus(cpus)
        }
    })
}
