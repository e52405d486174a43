//! The fluid model: slices share the time, a job advances in proportion to the slices that it is
//! in, and jobs with the same work start together.

use super::*;

/// The time until the last of `count` equal jobs ends, in units of the time of one alone.
fn total(size: Shape, count: u32, movement: Movement) -> f64 {
    let mesh = Mesh::new(shape(8, 2)).unwrap();
    let mut table = SliceTable::new(mesh, Partitioner::AdaptiveScan, movement, None);
    let mut left: Vec<(JobId, f64)> = (0..count).map(|job| (JobId(job), 1.0)).collect();
    for &(job, _) in &left {
        table.enter(job, Request::Rectangle(size), 1).unwrap();
    }
    let mut now = 0.0;
    while !left.is_empty() {
        let all: u32 = table.slices().iter().map(|slice| slice.weight).sum();
        let share = |job: JobId| {
            let its = table.slices().iter().filter(|slice| slice.jobs.iter().any(|&(other, _)| other == job));
            f64::from(its.map(|slice| slice.weight).sum::<u32>()) / f64::from(all)
        };
        let shares: Vec<f64> = left.iter().map(|&(job, _)| share(job)).collect();
        let step = left.iter().zip(&shares).map(|((_, work), share)| work / share).fold(f64::INFINITY, f64::min);
        now += step;
        left.iter_mut().zip(&shares).for_each(|((_, work), share)| *work -= share * step);
        for (job, _) in left.extract_if(.., |&mut (_, work)| work < 1e-9) {
            table.release(job).unwrap();
        }
    }
    now
}

fn check(size: Shape, movement: Movement, expected: [f64; 12]) {
    for (count, expected) in (1..).zip(expected) {
        let total = total(size, count, movement);
        assert!((total - expected).abs() < 1e-6, "{count} jobs of {size}, {movement}: {total}, not {expected}");
    }
}

#[test]
fn jobs_that_keep_their_cells_need_as_long_as_the_slices_that_hold_them() {
    check(shape(2, 2), Movement::Never, [1., 1., 1., 1., 2., 2., 2., 2., 3., 3., 3., 3.]);
    check(shape(4, 2), Movement::Never, [1., 1., 2., 2., 3., 3., 4., 4., 5., 5., 6., 6.]);
    check(shape(1, 1), Movement::Never, [1.; 12]);
    check(shape(8, 2), Movement::Never, [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
}

#[test]
fn jobs_that_move_need_as_long_as_all_cells_need_for_their_work() {
    check(shape(2, 2), Movement::WithinNode, [1., 1., 1., 1., 1.25, 1.5, 1.75, 2., 2.25, 2.5, 2.75, 3.]);
    check(shape(4, 2), Movement::WithinNode, [1., 1., 1.5, 2., 2.5, 3., 3.5, 4., 4.5, 5., 5.5, 6.]);
    check(shape(1, 1), Movement::WithinNode, [1.; 12]);
    check(shape(8, 2), Movement::WithinNode, [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
}
