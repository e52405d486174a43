use proptest::prelude::*;

use super::*;
use crate::coscheduler::CoschedulingError;
use crate::gang::{Action, Class, Gang};
use crate::layout::{Request, Shape};
use crate::turn::LARGEST_WEIGHT;
use crate::units::{Instant, Span};

const THREE_BY_TWO: Shape = Shape { columns: 3, rows: 2 };
/// So many jobs are entered and released.
const JOBS: u32 = 6;

fn mesh() -> Mesh {
    Mesh::new(THREE_BY_TWO).unwrap()
}

fn rules() -> Rules {
    Rules { avoid_jobs_beside: true, slice: Span::from_millis(20), lag: Span::from_millis(50), ..Rules::default() }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}

fn rectangle(column: u32, row: u32, columns: u32, rows: u32) -> Rectangle {
    Rectangle { column, row, shape: Shape { columns, rows } }
}

fn restore(snapshot: Snapshot) -> Result<Coscheduler, RestoreError> {
    Coscheduler::restore(mesh(), rules(), snapshot)
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Enter(Gang, Request, u32),
    EnterAlong(JobId, Gang, Request, u32),
    Release,
    SetClass(Class),
    SetGang(Gang),
    SetHeld(bool),
    SetIdles(bool),
    SetWeight(u32),
}

impl Call {
    fn apply(self, of: &mut Coscheduler, job: JobId, now: Instant) -> Result<String, CoschedulingError> {
        match self {
            Call::Enter(gang, request, weight) => {
                of.enter_as(job, gang, request, weight, now).map(|entry| format!("{entry:?}"))
            }
            Call::EnterAlong(with, gang, request, weight) => {
                of.enter_along(job, with, gang, request, weight, now).map(|cells| format!("{cells:?}"))
            }
            Call::Release => of.release(job, now).map(|placed| format!("{placed:?}")),
            Call::SetClass(class) => of.set_class(job, class, now).map(|placed| format!("{placed:?}")),
            Call::SetGang(gang) => of.set_gang(job, gang, now).map(|placed| format!("{placed:?}")),
            Call::SetHeld(is_held) => of.set_held(job, is_held, now).map(|placed| format!("{placed:?}")),
            Call::SetIdles(idles) => of.set_idles(job, idles).map(|()| String::new()),
            Call::SetWeight(weight) => of.set_weight(job, weight, now).map(|()| String::new()),
        }
    }
}

/// A call, the job that it is for, and the milliseconds since the one before.
fn any_call() -> impl Strategy<Value = (JobId, Call, u64)> {
    let gang = prop::sample::select(vec![Gang::None, Gang::Moderate, Gang::Strict, Gang::Adaptive]);
    let place = (0_u32..3, 0_u32..2, 1_u32..4, 1_u32..3)
        .prop_map(|(column, row, columns, rows)| Request::At(rectangle(column, row, columns, rows)));
    let request = prop_oneof![(0_u32..8).prop_map(Request::Ranks), place];
    let weight = prop_oneof![3 => 1_u32..4, 1 => Just(LARGEST_WEIGHT)];
    let call = prop_oneof![
        2 => ((0..JOBS).prop_map(JobId), gang.clone(), request.clone(), weight.clone())
            .prop_map(|(with, gang, request, weight)| Call::EnterAlong(with, gang, request, weight)),
        5 => (gang.clone(), request, weight.clone())
            .prop_map(|(gang, request, weight)| Call::Enter(gang, request, weight)),
        2 => Just(Call::Release),
        2 => prop::sample::select(vec![Class::Unknown, Class::Spins, Class::Blocks, Class::Computes]).prop_map(Call::SetClass),
        1 => gang.prop_map(Call::SetGang),
        1 => any::<bool>().prop_map(Call::SetHeld),
        2 => any::<bool>().prop_map(Call::SetIdles),
        1 => weight.prop_map(Call::SetWeight),
    ];
    ((0..JOBS).prop_map(JobId), call, prop_oneof![Just(0), 0_u64..150])
}

/// All that can be seen from outside, by clocks near a time.
fn seen(of: &Coscheduler, now: Instant) -> String {
    let clocks = [0, 30, 50].map(|lag| Instant::ZERO + (now.since(at(lag)))).into_iter();
    let clocks = clocks.chain([7, 20, 55].map(|ahead| now + Span::from_millis(ahead)));
    let by_clock = clocks.map(|clock| {
        let jobs: Vec<_> =
            (0..=JOBS).map(JobId).map(|job| (of.action(job, clock), of.cells(job, clock), of.facts(job))).collect();
        (jobs, of.next_boundary(clock), of.slices(clock).to_vec(), of.round(clock))
    });
    format!("{:?} {} {}", by_clock.collect::<Vec<_>>(), of.version(), of.most_slices())
}

proptest! {
    #[test]
    fn one_that_is_restored_before_each_call_behaves_as_one_that_never_is(
        calls in prop::collection::vec(any_call(), 1..60),
    ) {
        let (mut never, mut now) = (Coscheduler::new(mesh(), rules()), at(1_000));
        let mut often = never.clone();
        for (job, call, gap) in calls {
            now = now + Span::from_millis(gap);
            often = restore(often.snapshot()).unwrap();
            prop_assert_eq!(call.apply(&mut often, job, now), call.apply(&mut never, job, now));
            prop_assert_eq!(seen(&often, now), seen(&never, now));
            prop_assert_eq!(often.snapshot(), never.snapshot());
        }
    }
}

/// A change of one fact, by its number. The other numbers say where and to what.
#[derive(Clone, Copy, Debug)]
struct Mutation {
    field: u8,
    place: usize,
    inner: usize,
    value: u64,
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    let value = prop_oneof![
        6 => 0_u64..8,
        2 => (990_u64..1_200).prop_map(|millis| at(millis).as_nanos()),
        1 => (0_u64..3).prop_map(|less| u64::MAX / 2 - less),
        1 => (0_u64..3).prop_map(|less| u64::MAX - less),
        1 => any::<u64>(),
    ];
    (0_u8..33, any::<usize>(), any::<usize>(), value).prop_map(|(field, place, inner, value)| Mutation {
        field,
        place,
        inner,
        value,
    })
}

fn pick<T>(list: &mut [T], place: usize) -> Option<&mut T> {
    let length = list.len().max(1);
    list.get_mut(place % length)
}

/// Removes one, or doubles one at another place.
fn remove_or_double<T: Clone>(list: &mut Vec<T>, Mutation { inner, place, value, .. }: Mutation) {
    if let Some(one) = pick(list, place).cloned() {
        match value % 2 {
            0 => _ = list.remove(place % list.len()),
            _ => list.insert(inner % (list.len() + 1), one),
        }
    }
}

impl Mutation {
    /// Changes nothing where there is nothing to change.
    fn apply(self, snapshot: &mut Snapshot) -> Option<()> {
        let Mutation { field, place, inner, value } = self;
        let Snapshot { jobs, tables, waiting, most_slices } = snapshot;
        let number = value as u32;
        match field {
            0 => pick(jobs, place)?.job = JobId(number),
            1 => pick(jobs, place)?.cells.column = number,
            2 => pick(jobs, place)?.cells.row = number,
            3 => pick(jobs, place)?.cells.shape.columns = number,
            4 => pick(jobs, place)?.cells.shape.rows = number,
            5 => pick(jobs, place)?.facts.weight = number,
            6 => pick(jobs, place)?.facts.gang = Gang::ALL[value as usize % Gang::ALL.len()],
            7 => {
                let all = [Class::Unknown, Class::Spins, Class::Blocks, Class::Computes];
                pick(jobs, place)?.facts.class = all[value as usize % 4];
            }
            8 => pick(jobs, place)?.facts.is_held ^= true,
            9 => remove_or_double(jobs, self),
            10 => *pick(jobs, place)? = *pick(&mut jobs.clone(), inner)?,
            11 => pick(tables, place)?.turns.version = value,
            12 => pick(tables, place)?.turns.reference = Instant::from_nanos(value),
            13 => pick(tables, place)?.turns.slice = Span::from_nanos(value),
            14 => *pick(&mut pick(tables, place)?.turns.order, inner)? = number,
            15 => remove_or_double(&mut pick(tables, place)?.turns.order, self),
            16 => pick(tables, place)?.turns.order.reverse(),
            17 => remove_or_double(tables, self),
            18 => remove_or_double(&mut pick(tables, place)?.slices, self),
            19 => pick(tables, place)?.slices.push(Slice::default()),
            20 => pick(&mut pick(tables, place)?.slices, inner)?.weight = number,
            21 => remove_or_double(&mut pick(&mut pick(tables, place)?.slices, inner)?.jobs, self),
            22 => pick(&mut pick(&mut pick(tables, place)?.slices, inner)?.jobs, place)?.0 = JobId(number),
            23 => pick(&mut pick(&mut pick(tables, place)?.slices, inner)?.jobs, place)?.1.column = number,
            24 => pick(&mut pick(&mut pick(tables, place)?.slices, inner)?.jobs, place)?.1.shape.rows = number,
            25 => remove_or_double(waiting, self),
            26 => pick(waiting, place)?.job = JobId(number),
            27 => pick(waiting, place)?.since = Instant::from_nanos(value),
            28 => pick(waiting, place)?.was_active ^= true,
            29 => *most_slices = value,
            30 => tables.reverse(),
            31 => pick(jobs, place)?.task = (value % 4 != 0).then_some(JobId(number)),
            _ => *snapshot = Snapshot { jobs: jobs.clone(), ..Snapshot::default() },
        }
        Some(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_forged_snapshot_is_refused_or_does_no_harm(
        calls in prop::collection::vec(any_call(), 1..25),
        mutations in prop::collection::vec(any_mutation(), 1..4),
        further in prop::collection::vec(any_call(), 1..25),
        later in prop_oneof![Just(0), any::<u64>()],
    ) {
        let (mut of, mut now) = (Coscheduler::new(mesh(), rules()), at(1_000));
        for (job, call, gap) in calls {
            now = now + Span::from_millis(gap);
            call.apply(&mut of, job, now).ok();
        }
        let mut forged = of.snapshot();
        mutations.iter().for_each(|mutation| _ = mutation.apply(&mut forged));
        let Ok(mut of) = restore(forged) else { return Ok(()) };
        now = now + Span::from_nanos(later);
        for (job, call, gap) in further {
            now = now + Span::from_millis(gap);
            call.apply(&mut of, job, now).ok();
            seen(&of, now);
            let in_turn = |job: &JobId| of.facts(*job).is_some_and(|facts| facts.takes_turns() && !facts.is_accompanied());
            let runs = |job: &JobId| of.action(*job, now) == Action::Run;
            let jobs = (0..JOBS).map(JobId).filter(in_turn).filter(runs);
            let active: Vec<_> = jobs.filter_map(|job| Some((of.task(job), of.cells(job, now)?))).collect();
            let is_apart = |one: &(JobId, Rectangle), other: &(JobId, Rectangle)| {
                one.0 == other.0 || !one.1.overlaps(other.1)
            };
            prop_assert!(active.iter().all(|one| active.iter().all(|other| is_apart(one, other))), "{:?}", of);
            let is_too_large = now.as_nanos().max(of.version()) > u64::MAX / 2;
            prop_assert!(is_too_large || restore(of.snapshot()).is_ok(), "{:?}", of);
        }
    }
}

/// Two jobs that take turns, one beside them, and a table that is in force later.
fn example() -> Snapshot {
    let mut of = Coscheduler::new(mesh(), rules());
    of.enter(JobId(0), Request::At(rectangle(0, 0, 3, 2)), 1, at(0)).unwrap();
    of.enter(JobId(1), Request::At(rectangle(0, 0, 2, 2)), 2, at(5)).unwrap();
    of.enter_as(JobId(2), Gang::None, Request::At(rectangle(2, 0, 1, 1)), 1, at(5)).unwrap();
    of.enter(JobId(3), Request::At(rectangle(2, 1, 1, 1)), 1, at(6)).unwrap();
    of.snapshot()
}

type Forge = fn(&mut Snapshot);

#[test]
fn a_fact_that_is_impossible_is_refused_with_the_reason() {
    let snapshot = example();
    assert_eq!((snapshot.jobs.len(), snapshot.tables.len(), snapshot.waiting.len()), (4, 3, 3));
    assert_eq!(snapshot.tables[2].slices.len(), 2);
    assert_eq!(restore(snapshot).map(|of| of.snapshot()), Ok(example()));
    let cases: [(Forge, &str); 31] = [
        (|of| of.jobs[2].cells.column = 3, "job 2 has cells that are not on a mesh of 3x2"),
        (|of| of.jobs[2].facts.weight = 0, "job 2 has a weight of zero"),
        (|of| of.jobs[2].job = JobId(0), "there are two jobs 0"),
        (|of| of.jobs[2].facts.weight = 10_000, "a round of 10004 turns is longer than 10000"),
        (|of| of.jobs[0].facts.gang = Gang::Implicit, "a job cannot be scheduled as `implicit`"),
        (|of| of.jobs[2].task = Some(JobId(0)), "there are two jobs 0"),
        (|of| of.jobs[3].task = Some(JobId(9)), "slice 1 cannot have its jobs"),
        (|of| of.jobs[0].facts.is_held = true, "slice 0 cannot have its jobs"),
        (|of| of.jobs[0].facts.class = Class::Blocks, "slice 0 cannot have its jobs"),
        (|of| of.jobs[2].facts.gang = Gang::Strict, "job 2 takes turns and is in no slice"),
        (|of| of.jobs[1].cells.shape.rows = 1, "slice 1 cannot have its jobs"),
        (|of| _ = of.jobs.remove(1), "slice 1 cannot have its jobs"),
        (|of| of.jobs[1].facts.weight = 3, "slice 1 cannot have its jobs, or not its weight"),
        (|of| of.tables[2].turns.version = 2, "table 2 does not follow the one before"),
        (|of| of.tables[0].turns.version = 0, "table 0 does not follow the one before"),
        (|of| of.tables[2].turns.version = u64::MAX, "table 18446744073709551615 does not follow the one before"),
        (|of| of.tables[2].turns.reference = Instant::from_nanos(u64::MAX), "table 3 does not follow the one before"),
        (|of| of.tables[1].turns.reference = at(0), "table 2 does not follow the one before"),
        (|of| of.tables[1].turns.slice = Span::ZERO, "table 2 has slices of 0 ns, not 20 ms"),
        (|of| of.tables[1].turns.order[0] = 2, "the turns of table 2 are not those of its slices"),
        (|of| _ = of.tables[1].turns.order.pop(), "the turns of table 2 are not those of its slices"),
        (|of| of.tables[1].turns.order.push(1), "the turns of table 2 are not those of its slices"),
        (|of| of.tables[1].slices[0].weight = 0, "slice 0 has a weight of zero"),
        (|of| of.tables[1].slices[0].weight = 10_001, "a round of 10003 turns is longer than 10000"),
        (|of| of.tables[1].slices[0].jobs[0].1.row = 9, "job 0 has no cells of its own in a slice"),
        (
            |of| of.tables[1].slices[0].jobs.push((JobId(7), rectangle(2, 1, 1, 1))),
            "job 7 has no cells of its own in a slice",
        ),
        (
            |of| of.tables[1].slices[1].jobs.push((JobId(1), rectangle(2, 1, 1, 1))),
            "job 1 has no cells of its own in a slice",
        ),
        (|of| _ = of.waiting.pop(), "the jobs that wait for turns are not those of the slices"),
        (|of| of.waiting.push(of.waiting[0]), "the jobs that wait for turns are not those of the slices"),
        (|of| of.waiting[0].since = at(26), "job 0 waits only from 26 ms on"),
        (|of| of.most_slices = 1, "there were never more than 1 slices"),
    ];
    for (forge, expected) in cases {
        let mut snapshot = example();
        forge(&mut snapshot);
        let error = restore(snapshot).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}, not {expected}");
    }
}

#[test]
fn a_slice_that_no_job_needs_is_refused() {
    let mut snapshot = example();
    let last = &mut snapshot.tables[2];
    last.slices.push(Slice { weight: 1, ..last.slices[0].clone() });
    last.turns.order.push(2);
    assert_eq!(restore(snapshot.clone()).unwrap_err().to_string(), "slice 0 has no single task");
    let last = &mut snapshot.tables[2];
    (3..9).for_each(|slice| last.turns.order.push(slice));
    last.slices.extend(vec![Slice { weight: 1, jobs: Vec::new() }; 6]);
    assert_eq!(restore(snapshot).unwrap_err().to_string(), "4 jobs have 9 slices");
}

#[test]
fn rules_by_which_jobs_may_wait_or_move_are_refused() {
    for rules in [
        Rules { gang: Gang::None, ..rules() },
        Rules { gang: Gang::CellOs, ..rules() },
        Rules { movement: Movement::WithinNode, ..rules() },
        Rules { most_slices: Some(9), ..rules() },
    ] {
        let refused = Coscheduler::restore(mesh(), rules, Snapshot::default());
        assert!(refused.is_err(), "{rules:?}");
    }
    assert!(restore(Snapshot::default()).is_ok());
}
