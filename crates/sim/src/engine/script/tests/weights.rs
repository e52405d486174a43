use policy::layout::{Mesh, Shape};
use policy::{CellId, JobId};

use super::*;

fn groups(cells: Option<u32>) -> Machine {
    let cells = cells.and_then(|columns| Mesh::new(Shape { columns, rows: 1 }));
    Machine { cells, groups: true, context_switch: Span::ZERO, ..machine(Scheduler::Eevdf, 1) }
}

/// The share of the CPU that the first job had until it ended, beside another with two threads.
fn share(machine: &Machine, script: &[(u64, Action)]) -> f64 {
    let jobs = setting(vec![cpu("first", 1, us(20_000)), cpu("second", 2, us(400_000))]);
    20_000.0 / completion(machine, &jobs, script) as f64
}

fn weight(job: u32, cell: u32, weight: u32) -> Action {
    Action::Weight(JobId(job), CellId(cell), weight)
}

#[test]
fn the_cpu_is_divided_by_the_weights_of_groups_from_the_moment_at_which_they_are_set() {
    let is_near = |share: f64, expected: f64| assert!((share - expected).abs() < 0.02, "{share} for {expected}");
    let machine = groups(None);
    is_near(share(&machine, &[]), 0.5);
    is_near(share(&machine, &[(1, weight(1, 0, 256))]), 0.8);
    is_near(share(&machine, &[(1, weight(0, 0, 256))]), 0.2);
    // Half of the work in the time before, the other half after it.
    is_near(share(&machine, &[(20_000, weight(0, 0, 256))]), 20.0 / 70.0);
    is_near(share(&machine, &[(1, weight(0, 0, 2)), (2_001, weight(0, 0, 1024))]), 20.0 / 42.0);
    let without = Machine { groups: false, ..machine };
    assert_eq!(share(&without, &[(1, weight(1, 0, 256))]), share(&without, &[]));
}

#[test]
fn a_running_thread_whose_group_is_lowered_makes_way_at_once() {
    let jobs = || setting(vec![cpu("first", 1, us(60)), cpu("second", 1, us(60))]);
    let both = |script: &[(u64, Action)]| {
        let script: Vec<(Span, Action)> = script.iter().map(|&(at, action)| (us(at), action)).collect();
        let outcome = with_script(&script, || run(&groups(None), &jobs(), 1)).unwrap();
        [0, 1].map(|job| outcome.jobs[job].completion_ns.unwrap().as_nanos() / 1000)
    };
    // One runs for its request; lowered, it is not ahead of the other only until it has run.
    let (alone, runs_first) = (both(&[]), u32::from(both(&[])[1] < both(&[])[0]));
    let lowered = both(&[(10, weight(runs_first, 0, 2))]);
    assert_eq!(lowered[1 - runs_first as usize], 70, "{alone:?} {lowered:?}");
}

#[test]
fn a_weight_holds_in_its_cell_only() {
    // Both threads of the second job, and the first job, are on different cells.
    let machine = groups(Some(2));
    let jobs = setting(vec![cpu("first", 2, us(20_000)), cpu("second", 2, us(400_000))]);
    let end = |script: &[(u64, Action)]| completion(&machine, &jobs, script) as f64 / 20_000.0;
    assert!((end(&[]) - 2.0).abs() < 0.05);
    assert!((end(&[(1, weight(1, 0, 256))]) - 2.0).abs() < 0.05, "the other cell is as before");
    assert!((end(&[(1, weight(1, 0, 256)), (1, weight(1, 1, 256))]) - 1.25).abs() < 0.05);
}

#[test]
fn a_group_counts_only_threads_that_are_not_stopped() {
    let stops: Vec<(u64, Action)> = (0..40).flat_map(|n| [(50 * n, stop(0)), (50 * n + 20, resume(0))]).collect();
    let share = share(&groups(None), &stops);
    assert!((0.45..0.51).contains(&share), "{share}");
}
