use policy::layout::{Mesh, Shape};
use policy::slices::Movement;
use policy::{CellId, JobId};
use scenario::Coscheduling;

use super::super::with_homes;
use super::*;

/// Cells with so many CPUs each.
fn cells(cells: u32, cpus: u32, scheduler: Scheduler) -> Machine {
    Machine { cells: Mesh::new(Shape { columns: cells, rows: 1 }), ..machine(scheduler, cpus) }
}

/// A setting whose jobs may have other cells while they run.
fn moving(jobs: Vec<Job>) -> Setting {
    let coscheduling = Coscheduling { how: Gang::None, movement: Movement::WithinNode, ..Coscheduling::default() };
    Setting { coscheduling: Some(coscheduling), ..setting(jobs) }
}

fn relocate(job: u32, first: u32) -> Action {
    Action::Relocate(JobId(job), CellId(first))
}

#[test]
fn cells_share_no_queue() {
    for scheduler in Scheduler::ALL {
        let two = setting(vec![cpu("two", 2, us(100))]);
        let alone = completion(&machine(scheduler, 1), &two, &[]);
        let machine = cells(2, 1, scheduler);
        assert_eq!(completion(&machine, &two, &[]), 106, "{scheduler:?}: a thread on each cell");
        let together = with_homes(&[0], || completion(&machine, &two, &[]));
        assert_eq!(together, alone, "{scheduler:?}: the other cell helps");
    }
}

#[test]
fn a_thread_that_moves_to_another_cell_leaves_its_cpu_and_is_ready_there() {
    for scheduler in Scheduler::ALL {
        let one = |jobs: Vec<Job>, script: &[(u64, Action)]| completion(&cells(2, 1, scheduler), &moving(jobs), script);
        let solo = || vec![cpu("solo", 1, us(60))];
        // After 44 us of its work, two switches.
        assert_eq!(one(solo(), &[(50, relocate(0, 1))]), 62 + 16, "{scheduler:?}");
        // During the switch to it: that ends, and then two switches.
        assert_eq!(one(solo(), &[(3, relocate(0, 1))]), 18 + 60, "{scheduler:?}");
        // There and back again, the second time during the switch away from it.
        assert_eq!(one(solo(), &[(50, relocate(0, 1)), (52, relocate(0, 0))]), 62 + 16, "{scheduler:?}");
        // While it is stopped.
        let script = [(50, stop(0)), (100, relocate(0, 1)), (200, resume(0))];
        assert_eq!(one(solo(), &script), 206 + 16, "{scheduler:?}");
        // While it waits behind another thread, or has the CPU before it.
        let both = vec![cpu("first", 1, us(60)), cpu("second", 1, us(2_000))];
        let at = with_homes(&[0, 0], || one(both, &[(30, relocate(0, 1))]));
        assert!([30 + 6 + 60, 36 + 6 + 36].contains(&at), "{scheduler:?}: {at}");
    }
}

#[test]
fn jobs_that_spin_take_turns_however_often_they_are_stopped() {
    let message = |waiting: &str| Message {
        request: Request::Ranks(2),
        pattern: Pattern::Exchange,
        bytes: 8,
        rounds: 30_000,
        compute: Some(us(10).into()),
        sleep: None,
        waiting: waiting.parse().unwrap(),
        weight: 1,
    };
    let jobs = ["one", "other"].map(|name| Job::new(name, 1, JobKind::Message(message("always-spin"))));
    let slice = Span::from_millis(3);
    let coscheduling = Coscheduling { how: Gang::Adaptive, slice, ..Coscheduling::default() };
    let setting = Setting { coscheduling: Some(coscheduling), ..setting(jobs.into()) };
    let outcome = run(&cells(2, 1, Scheduler::Eevdf), &setting, 1).unwrap();
    let turns = outcome.machine.coscheduling.unwrap().turns as f64;
    // Each cell, at every boundary while both jobs run.
    let boundaries = outcome.jobs[0].completion_ns.unwrap().as_secs_f64() / slice.as_secs_f64();
    assert!(turns > 1.8 * boundaries, "{turns} turns, {boundaries} boundaries");
}

/// Jobs without a device and a hardware barrier, which would be those of the whole machine. They
/// arrive after the start, whose random order depends on all threads.
fn separate(mut jobs: Vec<Job>, letter: char) -> Vec<Job> {
    for (number, job) in jobs.iter_mut().enumerate() {
        job.name = format!("{letter}{number}");
        job.arrival.at = job.arrival.at.max(us(1));
        if let JobKind::Pipeline(Pipeline { rounds, waiting, .. }) | JobKind::Barrier { rounds, waiting, .. } = job.kind
        {
            let normal = |mean| Distribution::Normal { mean: us(mean), sd: us(mean / 3) };
            job.kind = JobKind::Lock { threads: 3, compute: normal(12), critical: normal(6), rounds, waiting };
        }
    }
    jobs
}

fn threads(jobs: &[Job], cpus: u32) -> u32 {
    jobs.iter().map(|job| job.kind.threads(cpus)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn two_cells_are_two_machines(
        (here, there) in (any_jobs(), any_jobs()),
        scheduler in select(Scheduler::ALL.to_vec()),
        cpus in 1_u32..4,
        stops in prop::collection::vec((0_u64..900, any::<bool>(), 0_u32..12), 0..20),
        seed in 0_u64..1_000,
    ) {
        let (mut here, mut there) = (separate(here, 'a'), separate(there, 'b'));
        tamed(&mut here, scheduler);
        tamed(&mut there, scheduler);
        let (first, count) = (threads(&here, cpus), threads(&there, cpus));
        // The same stops in both machines, of other threads in the second.
        let script = |offset: u32, count: u32| -> Vec<(Span, Action)> {
            let act = |&(at, stops, thread): &(u64, bool, u32)| {
                (us(at), if stops { stop(offset + thread % count) } else { resume(offset + thread % count) })
            };
            let all = (0..count).map(|thread| (us(1_000), resume(offset + thread)));
            stops.iter().map(act).chain(all).collect()
        };
        let one = machine(scheduler, cpus);
        let alone = |jobs: &[Job], count| {
            with_script(&script(0, count), || run(&one, &setting(jobs.to_vec()), seed)).unwrap().jobs
        };
        let expected: Vec<_> = alone(&here, first).into_iter().chain(alone(&there, count)).collect();
        let both: Vec<(Span, Action)> = script(0, first).into_iter().chain(script(first, count)).collect();
        let homes: Vec<u32> = here.iter().map(|_| 0).chain(there.iter().map(|_| 1)).collect();
        let jobs: Vec<Job> = here.into_iter().chain(there).collect();
        let run = || run(&cells(2, cpus, scheduler), &setting(jobs), seed).unwrap().jobs;
        let together = with_script(&both, || with_homes(&homes, run));
        prop_assert_eq!(together, expected);
    }

    /// Meanwhile, the engine's invariants are checked after every event.
    #[test]
    fn jobs_that_move_between_cells_lose_no_work(
        mut jobs in any_jobs(),
        scheduler in select(Scheduler::ALL.to_vec()),
        (count, cpus) in (1_u32..5, 1_u32..3),
        (switch, groups) in (0_u64..9, any::<bool>()),
        moves in prop::collection::vec((0_u32..3, 0_u32..5), 0..25),
        stops in prop::collection::vec((0_u64..900, any::<bool>(), 0_u32..12), 0..30),
        seed in 0_u64..1_000,
    ) {
        tamed(&mut jobs, scheduler);
        let (all, threads) = (jobs.len() as u32, threads(&jobs, cpus));
        let setting = moving(jobs);
        let machine = Machine { context_switch: us(switch), groups, ..cells(count, cpus, scheduler) };
        // Two switches take less than the time between two moves.
        let mut script: Vec<(Span, Action)> =
            (0..).zip(moves).map(|(n, (job, cell))| (us(40 * n), relocate(job % all, cell % count))).collect();
        let act = |(at, stops, thread): (u64, bool, u32)| {
            (us(at), if stops { stop(thread % threads) } else { resume(thread % threads) })
        };
        script.extend(stops.into_iter().map(act));
        script.extend((0..threads).map(|thread| (us(1_000), resume(thread))));
        let undisturbed = run(&machine, &setting, seed).unwrap();
        let mut watch = Watch::default();
        let outcome = with_script(&script, || crate::run_observed(&machine, &setting, seed, &mut watch)).unwrap();
        for (with, without) in outcome.jobs.iter().zip(&undisturbed.jobs) {
            prop_assert!(with.completion_ns.is_some());
            prop_assert_eq!((with.rounds, with.delivered_work_ns), (without.rounds, without.delivered_work_ns));
        }
        prop_assert_eq!(with_script(&script, || run(&machine, &setting, seed)).unwrap(), outcome);
    }
}
