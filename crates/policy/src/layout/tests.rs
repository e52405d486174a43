use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use crate::units::CellId;

fn shape(columns: u32, rows: u32) -> Shape {
    Shape { columns, rows }
}

fn rectangle(column: u32, row: u32, columns: u32, rows: u32) -> Rectangle {
    Rectangle { column, row, shape: shape(columns, rows) }
}

fn mesh(columns: u32, rows: u32) -> Mesh {
    Mesh::new(shape(columns, rows)).unwrap()
}

/// A mesh on which these rectangles are taken.
fn taken(mesh: Mesh, rectangles: &[Rectangle]) -> Occupancy {
    let mut occupancy = Occupancy::new(mesh);
    assert!(rectangles.iter().all(|&rectangle| occupancy.take(rectangle)));
    occupancy
}

#[test]
fn a_mesh_has_1_to_65536_cells() {
    assert!(
        [(0, 2), (2, 0), (65_537, 1), (257, 256), (u32::MAX, u32::MAX)]
            .iter()
            .all(|&(columns, rows)| Mesh::new(shape(columns, rows)).is_none())
    );
    for (columns, rows) in [(1, 1), (65_536, 1), (1, 65_536), (256, 256)] {
        let mesh = mesh(columns, rows);
        for partitioner in Partitioner::ALL {
            let mut occupancy = Occupancy::new(mesh);
            let all = partitioner.find(&occupancy, Request::Ranks(u32::MAX)).unwrap();
            assert_eq!(all, Rectangle::at_origin(mesh.shape()));
            assert!(occupancy.take(all));
            assert_eq!((occupancy.free_cells(), partitioner.find(&occupancy, Request::Ranks(1))), (0, None));
            occupancy.release(all);
            assert_eq!(occupancy.free_cells(), mesh.cells());
        }
    }
}

#[test]
fn ranks_get_the_most_square_rectangles_that_hold_them() {
    let shapes =
        |ranks: u32| Request::Ranks(ranks).shapes(mesh(8, 4)).map(|shape| shape.to_string()).collect::<Vec<_>>();
    assert_eq!(shapes(0), ["1x1"]);
    assert_eq!(shapes(1), ["1x1"]);
    assert_eq!(shapes(2), ["2x1"]);
    assert_eq!(shapes(5), ["3x2", "5x1"]);
    assert_eq!(shapes(7), ["3x3", "4x2", "7x1"]);
    assert_eq!(shapes(16), ["4x4", "6x3", "8x2", "16x1"]);
    assert_eq!(shapes(32), ["6x6", "7x5", "8x4", "11x3", "16x2", "32x1"]);
    assert_eq!(shapes(33), ["8x4"], "more ranks than cells");
}

#[test]
fn every_rectangle_that_holds_the_ranks_contains_one_of_the_shapes() {
    for ranks in 1..=100 {
        let shapes: Vec<Shape> = Request::Ranks(ranks).shapes(mesh(256, 256)).flat_map(Shape::orientations).collect();
        for (columns, rows) in (1..=100).flat_map(|columns| (1..=100).map(move |rows| (columns, rows))) {
            let contained = shapes.iter().filter(|shape| shape.columns <= columns && shape.rows <= rows).count();
            assert_eq!(columns * rows >= ranks, contained > 0, "{ranks} ranks in {columns}x{rows}");
            assert!(contained <= 1 || !shapes.contains(&shape(columns, rows)), "{columns}x{rows} is too large");
        }
        assert!(shapes.is_sorted_by_key(|shape| shape.columns.abs_diff(shape.rows)), "{shapes:?}");
    }
}

#[test]
fn ranks_go_row_by_row_and_start_again_if_there_are_more_of_them_than_cells() {
    let part = rectangle(2, 1, 3, 2);
    let cells: Vec<CellId> = (0..8).map(|rank| part.cell_of_rank(rank, mesh(8, 4))).collect();
    assert_eq!(cells, [10, 11, 12, 18, 19, 20, 10, 11].map(CellId));
    assert!(part.cells(mesh(8, 4)).eq(cells[..6].iter().copied()));
}

#[test]
fn a_request_is_turned_if_it_does_not_fit_as_written() {
    for partitioner in Partitioner::ALL {
        let occupancy = taken(mesh(4, 4), &[rectangle(0, 0, 3, 4)]);
        assert_eq!(partitioner.find(&occupancy, Request::Rectangle(shape(3, 1))), Some(rectangle(3, 0, 1, 3)));
        assert_eq!(partitioner.find(&occupancy, Request::Rectangle(shape(2, 1))), Some(rectangle(3, 0, 1, 2)));
        assert_eq!(partitioner.find(&occupancy, Request::Rectangle(shape(2, 2))), None);
        assert_eq!(partitioner.find(&occupancy, Request::Ranks(4)), Some(rectangle(3, 0, 1, 4)), "2x2 does not fit");
    }
}

#[test]
fn partitioners_choose_different_places() {
    let occupancy = taken(mesh(8, 4), &[rectangle(2, 0, 1, 4), rectangle(5, 2, 3, 2)]);
    let find = |partitioner: Partitioner| partitioner.find(&occupancy, Request::Rectangle(shape(3, 2)));
    assert_eq!(find(Partitioner::AdaptiveScan), Some(rectangle(3, 0, 3, 2)));
    assert_eq!(find(Partitioner::FirstFit), Some(rectangle(3, 0, 3, 2)));
    assert_eq!(find(Partitioner::BestFit), Some(rectangle(5, 0, 3, 2)), "two free cells beside it, not four or more");
}

#[test]
fn adaptive_scan_skips_past_the_tasks_that_it_meets() {
    let looks = |taken: &Occupancy, columns: u32, rows: u32| {
        let mut looks = 0;
        (adaptive_scan::find(taken, shape(columns, rows), &mut looks), looks)
    };
    // In row 0 it meets the task on the right at its first look, and the row is done. No task ends
    // below row 3, so row 3 is next.
    let occupancy = taken(mesh(6, 6), &[rectangle(0, 0, 6, 3)]);
    assert_eq!(looks(&occupancy, 2, 2), (Some(rectangle(0, 3, 2, 2)), 1 + 4));
    // Row 0: task, task. Row 1, where the first of them ends: free.
    let occupancy = taken(mesh(4, 4), &[rectangle(0, 0, 2, 1), rectangle(2, 0, 2, 3)]);
    assert_eq!(looks(&occupancy, 2, 2), (Some(rectangle(0, 1, 2, 2)), 2 + 1 + 4));
    assert_eq!(looks(&occupancy, 4, 4), (None, 2));
}

#[test]
fn only_taken_rectangles_are_released() {
    let mut occupancy = taken(mesh(4, 4), &[rectangle(1, 1, 2, 2)]);
    for other in [
        rectangle(1, 1, 1, 2),
        rectangle(0, 0, 4, 4),
        rectangle(3, 3, 2, 2),
        rectangle(3, 3, u32::MAX, 1),
        rectangle(1, 1, 0, 0),
    ] {
        occupancy.release(other);
        assert!(!occupancy.take(other) && occupancy.free_cells() == 12, "{other:?}");
    }
    occupancy.release(rectangle(1, 1, 2, 2));
    assert!(occupancy.take(rectangle(0, 0, 4, 4)));
}

/// All free cells, counted from the first cell on: a rectangle is free if it has as many as it has
/// cells.
struct Sums {
    width: usize,
    sums: Vec<u32>,
}

impl Sums {
    fn new(mesh: Shape, is_free: &[bool]) -> Sums {
        let width = mesh.columns as usize + 1;
        let mut sums = vec![0; width * (mesh.rows as usize + 1)];
        for (cell, &is_free) in is_free.iter().enumerate() {
            let at = (cell / (width - 1) + 1) * width + cell % (width - 1) + 1;
            sums[at] = sums[at - 1] + sums[at - width] - sums[at - width - 1] + u32::from(is_free);
        }
        Sums { width, sums }
    }

    /// All free rectangles of a size as written, by row and column.
    fn free(&self, mesh: Shape, size: Shape) -> impl Iterator<Item = Rectangle> {
        let starts = |all: u32, part: u32| 0..(all + 1).saturating_sub(part);
        let all = starts(mesh.rows, size.rows)
            .flat_map(move |row| starts(mesh.columns, size.columns).map(move |column| (column, row)));
        let sum = |column: u32, row: u32| self.sums[row as usize * self.width + column as usize];
        all.filter(move |&(column, row)| {
            let (right, top) = (column + size.columns, row + size.rows);
            sum(right, top) + sum(column, row) - sum(right, row) - sum(column, top) == size.cells()
        })
        .map(move |(column, row)| Rectangle { column, row, shape: size })
    }
}

/// Enters and releases jobs as drawn, and compares what the partitioner finds with all free
/// rectangles. Returns the number of requests.
fn compare_with_brute_force(partitioner: Partitioner, size: Shape, draws: &[u32]) -> usize {
    let mesh = Mesh::new(size).unwrap();
    let mut occupancy = Occupancy::new(mesh);
    let mut is_free = vec![true; mesh.cells() as usize];
    let mut jobs: Vec<Rectangle> = Vec::new();
    let mut requests = 0;
    for draw in draws {
        let (kind, columns, rows) = (draw % 32, draw / 32 % 4096, draw / (32 * 4096));
        if kind < 14 && !jobs.is_empty() {
            let job = jobs.swap_remove(columns as usize % jobs.len());
            occupancy.release(job);
            job.cells(mesh).for_each(|cell| is_free[cell.index()] = true);
            continue;
        }
        // Few of them may be as large as the mesh, so that it has many jobs.
        let part = if kind == 31 { 1 } else { 3 };
        let request = shape(1 + columns % size.columns.div_ceil(part), 1 + rows % size.rows.div_ceil(part));
        let sums = Sums::new(size, &is_free);
        let first = request.orientations().find_map(|request| sums.free(size, request).next());
        let found = partitioner.find(&occupancy, Request::Rectangle(request));
        assert_eq!(found.is_some(), first.is_some(), "{partitioner} looks for {request} on {size}: {jobs:?}");
        assert!(partitioner != Partitioner::FirstFit || found == first, "{found:?} is not the first");
        requests += 1;
        if let Some(found) = found {
            assert!(request.orientations().any(|request| request == found.shape), "{found:?} for {request}");
            for cell in found.cells(mesh) {
                assert!(std::mem::replace(&mut is_free[cell.index()], false), "cell {cell} is taken");
            }
            assert!(occupancy.take(found));
            jobs.push(found);
        }
        assert_eq!(occupancy.free_cells() as usize, is_free.iter().filter(|&&is_free| is_free).count());
    }
    requests
}

/// Compares with brute force on random meshes of at most this many columns and rows, for at least
/// so many requests.
fn compare_many(partitioner: Partitioner, most: u32, requests: usize) {
    let mut count = 0;
    let mut runner = proptest::test_runner::TestRunner::default();
    let draws = prop::collection::vec(any::<u32>(), 400);
    while count < requests {
        let case = (1..=most, 1..=most, &draws).new_tree(&mut runner).unwrap().current();
        count += compare_with_brute_force(partitioner, shape(case.0, case.1), &case.2);
    }
}

#[test]
fn adaptive_scan_finds_a_rectangle_whenever_there_is_one() {
    compare_many(Partitioner::AdaptiveScan, 10, 80_000);
    compare_many(Partitioner::AdaptiveScan, 32, 18_000);
    compare_many(Partitioner::AdaptiveScan, 64, 2_000);
}

#[test]
fn first_fit_finds_the_first_rectangle_and_best_fit_one_whenever_there_is_one() {
    compare_many(Partitioner::FirstFit, 20, 5_000);
    compare_many(Partitioner::BestFit, 20, 5_000);
}

/// Any number, often one near an end.
fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..6_u32, 1 => (u32::MAX - 3)..=u32::MAX, 1 => 250..260_u32, 1 => any::<u32>()]
}

fn any_rectangle() -> impl Strategy<Value = Rectangle> {
    let [column, row, columns, rows] = std::array::from_fn(|_| any_number());
    (column, row, columns, rows).prop_map(|(column, row, columns, rows)| rectangle(column, row, columns, rows))
}

proptest! {
    #[test]
    fn rectangles_of_any_numbers_are_harmless(
        size in prop_oneof![4 => (1..6_u32, 1..6_u32), 1 => Just((16, 16)), 1 => Just((300, 1))],
        one in any_rectangle(), other in any_rectangle(), rank in any_number(),
    ) {
        let mesh = mesh(size.0, size.1);
        let cells: Vec<CellId> = one.cells(mesh).collect();
        prop_assert!(cells.is_sorted() && cells.iter().all(|cell| cell.0 < mesh.cells()));
        prop_assert!(one.cell_of_rank(rank, mesh).0 < mesh.cells());
        if mesh.has(one) {
            prop_assert_eq!(cells.len(), one.shape.cells() as usize);
            prop_assert_eq!(one.cell_of_rank(rank, mesh), cells[rank as usize % cells.len()]);
        }
        prop_assert_eq!(one.overlaps(other), other.overlaps(one));
        prop_assert_eq!(one.overlaps(one), one.shape.columns > 0 && one.shape.rows > 0);
        prop_assert!(one.overlaps(other) || other.cells(mesh).all(|cell| !cells.contains(&cell)));
        if mesh.has(one) && mesh.has(other) {
            prop_assert_eq!(one.overlaps(other), other.cells(mesh).any(|cell| cells.contains(&cell)));
        }
        let mut occupancy = Occupancy::new(mesh);
        prop_assert_eq!(occupancy.take(one), mesh.has(one));
        prop_assert_eq!(occupancy.is_free(other), mesh.has(other) && !(mesh.has(one) && one.overlaps(other)));
        for request in [Request::Rectangle(other.shape), Request::Ranks(rank), Request::At(other)] {
            prop_assert!(request.shapes(mesh).count() <= 17);
            for partitioner in Partitioner::ALL {
                let exactly = occupancy.is_free(other).then_some(other);
                prop_assert_eq!(partitioner.find(&occupancy, Request::At(other)), exactly);
                let found = partitioner.find(&occupancy, request);
                prop_assert!(found.is_none_or(|found| occupancy.is_free(found)), "{:?}", found);
            }
        }
        prop_assert!(adaptive_scan::find(&occupancy, other.shape, &mut 0).is_none_or(|found| occupancy.is_free(found)));
        occupancy.release(other);
        occupancy.release(one);
        prop_assert_eq!(occupancy.free_cells(), mesh.cells());
        let text = one.shape.to_string();
        prop_assert_eq!(text.parse::<Shape>().ok(), Mesh::new(one.shape).map(Mesh::shape));
    }
}

#[cfg(feature = "serde")]
#[test]
fn only_sizes_of_meshes_are_deserialized() {
    use serde::Deserialize as _;
    use serde::de::value::{Error, MapDeserializer};

    let read = |columns: u32, rows: u32| {
        Shape::deserialize(MapDeserializer::<_, Error>::new([("columns", columns), ("rows", rows)].into_iter()))
    };
    assert_eq!(read(8, 2), Ok(shape(8, 2)));
    assert_eq!(read(1, 65_536), Ok(shape(1, 65_536)));
    for (columns, rows) in [(0, 1), (1, 0), (65_537, 1), (65_536, 65_536)] {
        let error = read(columns, rows).unwrap_err().to_string();
        assert_eq!(error, format!("`{columns}x{rows}` is not a size of 1 to 65536 cells such as `8x2`"));
    }
}
