//! Random jobs that share cells in random ways: they end, do their work and repeat themselves.

use policy::Span;
use policy::gang::{Gang, Lowering};
use policy::layout::{Mesh, Partitioner, Request, Shape};
use policy::slices::Movement;
use proptest::prelude::*;
use proptest::sample::select;
use rowlock_sim::{Error, run};
use scenario::coscheduling::Reschedule;
use scenario::draw::Stream;
use scenario::message::Pattern;
use scenario::{
    Arrival, Attributes, Compute, Coscheduling, Distribution, Job, JobKind, Machine, Message, Network, Scheduler,
    Setting,
};

use crate::timeline::{setting, short};

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

/// A mesh of up to eight cells with one or two CPUs each.
fn any_machine() -> impl Strategy<Value = Machine> {
    let mesh = select(vec![(4, 2), (2, 1), (3, 2), (1, 4), (1, 1)]);
    let kernel = (select(Scheduler::ALL.to_vec()), any::<bool>(), select(vec![us(1_000), us(4_000)]));
    let costs = (0_u64..6, 0_u64..20, 1_u64..3_000, 0_u64..100);
    (mesh, 1_u32..3, kernel, costs).prop_map(|((columns, rows), cpus, (scheduler, groups, tick), costs)| {
        let (switch, wakeup, step, latency) = costs;
        let machine = Machine::with_cpus(cpus);
        short(Machine {
            cells: Mesh::new(Shape { columns, rows }),
            scheduler,
            groups,
            tick,
            slice: us(1_500),
            context_switch: us(switch),
            wakeup_cost: us(wakeup),
            step: Span::from_nanos(step),
            network: Network { latency: us(latency), ..machine.network },
            ..machine
        })
    })
}

/// A job of few short rounds. Some have more ranks than the machine has cells.
fn any_job() -> impl Strategy<Value = Job> {
    let request = prop_oneof![
        3 => (1_u32..5, 1_u32..3).prop_map(|(columns, rows)| Request::Rectangle(Shape { columns, rows })),
        1 => (2_u32..13).prop_map(Request::Ranks),
    ];
    let waiting = select(vec!["always-block", "always-spin", "50 us", "2cs+", "adaptive"]);
    let times = (prop::option::of(1_u64..300), prop::option::of(1_u64..1_000), select(vec![1_u64, 100, 20_000]));
    let message = (request, select(Pattern::ALL.to_vec()), waiting.clone(), times, 1_u32..4).prop_map(
        |(request, pattern, waiting, (compute, sleep, bytes), weight)| {
            let alone = Request::Rectangle(Shape { columns: 1, rows: 1 });
            JobKind::Message(Message {
                request: if request == alone { Request::Ranks(2) } else { request },
                pattern,
                bytes,
                rounds: 12,
                compute: compute.map(|compute| us(compute).into()),
                sleep: sleep.map(|sleep| us(sleep).into()),
                waiting: waiting.parse().unwrap(),
                weight,
            })
        },
    );
    let barrier = (2_u32..6, 1_u64..400, waiting).prop_map(|(threads, compute, waiting)| JobKind::Barrier {
        threads,
        compute: Compute::Drawn(us(compute).into()),
        rounds: 10,
        waiting: waiting.parse().unwrap(),
    });
    // One in four has no end.
    let cpu = (1_u32..4, 0_u64..4_000)
        .prop_map(|(threads, work)| JobKind::Cpu { threads, work: (work >= 1_000).then(|| us(work).into()) });
    // Half of the jobs arrive at the start.
    let arrival = (0_u64..80_000, prop::option::of(1_u64..20_000))
        .prop_map(|(at, every)| Arrival { at: us(at) - us(40_000), every: every.map(|every| us(every).into()) });
    let kind = prop_oneof![4 => message, 1 => barrier, 1 => cpu];
    (kind, 1_u32..4, arrival, select(vec![0_i8, 0, 0, 5])).prop_map(|(kind, copies, arrival, nice)| {
        let attributes = Attributes { nice, ..Attributes::default() };
        Job { arrival, attributes, ..Job::new("job", copies, kind) }
    })
}

fn any_rules() -> impl Strategy<Value = Coscheduling> {
    let named = (select(Gang::ALL.to_vec()), select(Reschedule::ALL.to_vec()), select(Partitioner::ALL.to_vec()));
    let lower = select(vec![Lowering::Nice(15), Lowering::Nice(3), Lowering::Weight(2), Lowering::Weight(100)]);
    let times = (4_000_u64..40_000, 0_u64..5_000, 0_u64..2_000, 0_u64..500, 0_u64..200, 0_u64..20);
    let (most_slices, moves) = (prop::option::weighted(0.2, 1_u32..4), any::<bool>());
    (named, lower, (most_slices, moves), times).prop_map(
        |(
            (how, reschedule, partition),
            lower,
            (most_slices, moves),
            (slice, create, start, skew, cost, cost_per_job),
        )| Coscheduling {
            how,
            slice: us(slice),
            partition,
            movement: if moves { Movement::WithinNode } else { Movement::Never },
            lower,
            clock_skew: us(skew),
            reschedule,
            create: us(create),
            start: us(start),
            switch_cost: us(cost),
            switch_cost_per_job: us(cost_per_job),
            most_slices,
        },
    )
}

/// Jobs that may run on the machine as a file could ask for.
pub(crate) fn any_shared_cells() -> impl Strategy<Value = (Machine, Setting)> {
    let all = (any_machine(), any_rules(), prop::collection::vec(any_job(), 1..4), any::<bool>());
    let all = all.prop_map(|(machine, rules, mut jobs, keep_running)| {
        jobs.iter_mut().zip(["a", "b", "c"]).for_each(|(job, name)| job.name = name.to_owned());
        (machine, Setting { coscheduling: Some(rules), keep_running, ..setting(jobs) })
    });
    all.prop_filter("refused before the run", |(machine, setting)| {
        let fits = |job: &Job| match &job.kind {
            JobKind::Message(Message { request: Request::Rectangle(shape), .. }) => {
                machine.cells.is_some_and(|mesh| mesh.can_hold(*shape))
            }
            _ => true,
        };
        setting.jobs.iter().all(fits) && setting.conflicts_on(machine).is_empty()
    })
}

/// The work of a job, all of it of constant lengths: its computations, and the start of its ranks.
/// `None` if it has no end.
fn work(job: &Job, rules: &Coscheduling, machine: &Machine) -> Option<Span> {
    let threads = u64::from(job.kind.threads(machine.cpus));
    let each = |of: &Distribution| of.law().draw(&mut Stream::named(0, "constant", 0), machine.step);
    let (computation, count, start) = match &job.kind {
        JobKind::Message(Message { pattern, rounds, compute, .. }) => {
            // A rank that begins a round computes for a step at least.
            let all_compute = *pattern == Pattern::Exchange || *pattern == Pattern::Ring && compute.is_some();
            let computing = if all_compute { threads } else { 1 };
            (compute.as_ref().map_or(machine.step, each), rounds * computing, rules.start.floor_to(machine.step))
        }
        JobKind::Barrier { compute: Compute::Drawn(of), rounds, .. } => (each(of), rounds * threads, Span::ZERO),
        JobKind::Cpu { work, .. } => (each(work.as_ref()?), threads, Span::ZERO),
        kind => panic!("no job here is a {}", kind.name()),
    };
    Some(computation.scaled(1_000 * count) + start.scaled(1_000 * threads))
}

/// Whether a setting may end with this error instead of an outcome.
fn is_proper(error: &Error, machine: &Machine, setting: &Setting) -> bool {
    match error {
        // A job without end has the whole machine, or is in the last slice.
        Error::NeverPlaced { .. } => {
            setting.coscheduling.is_some_and(|of| of.how == Gang::CellOs || of.most_slices.is_some())
                && (setting.keep_running || setting.jobs.iter().any(|job| job.kind.is_endless()))
        }
        // A thread that has a CPU keeps it: see `fifo`. Under `linux-o1`, a thread that never runs
        // at the tick is never charged. Under `cfs`, switches may take all of a thread's share.
        Error::NoHeadway { .. } | Error::Hogged { .. } => match machine.scheduler {
            Scheduler::Fifo => true,
            Scheduler::LinuxO1 | Scheduler::Cfs => setting.keep_running,
            // If cells look when their schedulers choose, they may never look at the same job.
            _ => setting.coscheduling.is_some_and(|of| of.how.has_turns() && of.reschedule == Reschedule::Choice),
        },
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]
    /// Meanwhile, debug builds check the engine's invariants after every event.
    #[test]
    fn jobs_that_share_cells_in_any_way_end_do_their_work_and_repeat_themselves(
        (machine, setting) in any_shared_cells(),
        seed in 0_u64..1_000,
    ) {
        let rules = setting.coscheduling.unwrap();
        let outcome = run(&machine, &setting, seed);
        prop_assert_eq!(&outcome, &run(&machine, &setting, seed));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                prop_assert!(is_proper(&error, &machine, &setting), "{}", error);
                return Ok(());
            }
        };
        for ((name, job), came) in setting.jobs_with_copies().zip(&outcome.jobs) {
            prop_assert_eq!(&came.job, &name);
            prop_assert_eq!(came.completion_ns.is_none(), job.kind.is_endless());
            let delivered = came.delivered_work_ns.unwrap();
            prop_assert!(came.spin_ns.unwrap() + delivered <= came.cpu_ns.unwrap());
            if let Some(work) = work(job, &rules, &machine) {
                // Threads that are done sooner than others go on until the last one is done.
                let is_whole = delivered == work || setting.keep_running && delivered > work;
                prop_assert!(is_whole, "{}: {} instead of {}", name, delivered, work);
            }
        }
    }
}
