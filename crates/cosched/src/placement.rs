//! The place of a job: which cells it asks for, and the CPUs that each of its ranks gets on those
//! that it was given.

use std::collections::BTreeSet;

use policy::CellId;
use policy::layout::{Rectangle, Request, Shape};
use serde::{Deserialize, Serialize};

use crate::topology::Topology;

/// The part of a machine that a job asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The number of its ranks. Without it, one rank gets all cells of the job.
    pub ranks: Option<u32>,
    /// The number of cells for each rank; without it, one.
    pub cells_per_rank: Option<u32>,
    /// The size of the rectangle of cells. Without it, and without the two numbers, the job asks
    /// for the whole machine.
    pub shape: Option<Shape>,
}

/// The permitted part of the mesh cannot hold the rectangle that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a mesh of {asked} cells does not fit on {largest}, which is what the permitted CPUs have")]
pub struct DoesNotFit {
    /// The size that was asked for.
    pub asked: Shape,
    /// The largest possible size.
    pub largest: Shape,
}

impl Demand {
    /// The request for a job that may use only these CPUs. If they are not on all cells, the cells
    /// are those that enclose them.
    ///
    /// # Errors
    /// If the rectangle does not fit, not even turned by 90 degrees.
    pub fn request(self, topology: &Topology, permitted: &[u32]) -> Result<Request, DoesNotFit> {
        let mesh = topology.mesh();
        let cells = topology.cells_of(permitted);
        let is_part = !cells.is_empty() && cells.len() < mesh.cells() as usize;
        let enclosing = if is_part { enclosing(&cells, mesh.shape()) } else { Rectangle::at_origin(mesh.shape()) };
        if let Some(asked) = self.shape {
            let largest = enclosing.shape;
            let fits = |shape: &Shape| shape.columns <= largest.columns && shape.rows <= largest.rows;
            let shape = asked.orientations().find(fits).ok_or(DoesNotFit { asked, largest })?;
            let at = Rectangle { shape, ..enclosing };
            return Ok(if is_part { Request::At(at) } else { Request::Rectangle(asked) });
        }
        Ok(match (self.ranks, self.cells_per_rank) {
            _ if is_part => Request::At(enclosing),
            (None, None) => Request::Rectangle(mesh.shape()),
            (ranks, cells) => Request::Ranks(ranks.unwrap_or(1).saturating_mul(cells.unwrap_or(1))),
        })
    }

    /// As `request`, of a job that may have no cell of the machine: then it is `None`. If a quota
    /// limits its CPUs, cells stand for no particular ones.
    ///
    /// # Errors
    /// As `request`.
    pub fn request_within(
        self,
        topology: &Topology,
        permitted: &[u32],
        has_quota: bool,
    ) -> Result<Option<Request>, DoesNotFit> {
        if has_quota {
            return self.request(topology, &[]).map(Some);
        }
        let has_cells = !topology.cells_of(permitted).is_empty();
        has_cells.then(|| self.request(topology, permitted)).transpose()
    }

    /// The CPUs of each rank of a job with these cells, ascending, of which it may use only the
    /// permitted ones. A rank on whose cells none is permitted gets all permitted ones.
    ///
    /// The ranks get their cells row by row, and from the first one again if there are too few.
    pub fn cpus_of_ranks(self, topology: &Topology, rectangle: Rectangle, permitted: &[u32]) -> Vec<Vec<u32>> {
        let permitted: BTreeSet<u32> = permitted.iter().copied().collect();
        let cells: Vec<CellId> = rectangle.cells(topology.mesh()).collect();
        let all = cells.len();
        let per_rank = match (self.ranks, self.cells_per_rank) {
            (None, None) => all,
            (_, cells) => (cells.unwrap_or(1).max(1) as usize).min(all),
        };
        let of_rank = |rank: u32| {
            let places = (0..per_rank).map(|place| (rank as usize * per_rank + place) % all);
            let cpus = places.flat_map(|place| topology.cpus_of(cells[place])).copied();
            let own: BTreeSet<u32> = cpus.filter(|cpu| permitted.contains(cpu)).collect();
            (if own.is_empty() { &permitted } else { &own }).iter().copied().collect()
        };
        (0..self.ranks.unwrap_or(1)).map(of_rank).collect()
    }
}

/// The smallest rectangle with these cells of a mesh of this size.
fn enclosing(cells: &[CellId], mesh: Shape) -> Rectangle {
    let span = |place: fn(u32, u32) -> u32| {
        let places = cells.iter().map(|cell| place(cell.0, mesh.columns));
        let (first, last) = places.fold((u32::MAX, 0), |(first, last), place| (first.min(place), last.max(place)));
        (first, last.saturating_sub(first) + 1)
    };
    let (column, columns) = span(|cell, columns| cell % columns);
    let (row, rows) = span(|cell, columns| cell / columns);
    Rectangle { column, row, shape: Shape { columns, rows } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    /// Two rows of four cells with two CPUs each: CPUs 0 and 1 on cell 0, and so on.
    fn topology() -> Topology {
        let cells: Vec<_> = (0..8).map(|cell| vec![2 * cell, 2 * cell + 1]).collect();
        serde_json::from_value(serde_json::json!({ "shape": { "columns": 4, "rows": 2 }, "cells": cells })).unwrap()
    }

    fn rectangle(column: u32, row: u32, columns: u32, rows: u32) -> Rectangle {
        Rectangle { column, row, shape: Shape { columns, rows } }
    }

    fn ranks(ranks: u32, cells_per_rank: Option<u32>) -> Demand {
        Demand { ranks: Some(ranks), cells_per_rank, shape: None }
    }

    fn shape(columns: u32, rows: u32) -> Demand {
        Demand { shape: Some(Shape { columns, rows }), ..Demand::default() }
    }

    #[test]
    fn a_job_asks_for_its_ranks_its_rectangle_or_the_whole_machine() {
        let request = |demand: Demand| demand.request(&topology(), &ALL).unwrap();
        assert_eq!(request(Demand::default()), Request::Rectangle(Shape { columns: 4, rows: 2 }));
        assert_eq!(request(ranks(3, None)), Request::Ranks(3));
        assert_eq!(request(ranks(3, Some(2))), Request::Ranks(6));
        assert_eq!(request(ranks(u32::MAX, Some(2))), Request::Ranks(u32::MAX));
        let cells_only = Demand { cells_per_rank: Some(5), ..Demand::default() };
        assert_eq!(request(cells_only), Request::Ranks(5));
        assert_eq!(request(shape(2, 4)), Request::Rectangle(Shape { columns: 2, rows: 4 }));
    }

    #[test]
    fn a_job_with_some_of_the_cpus_asks_for_the_cells_around_them() {
        let request = |demand: Demand, permitted: &[u32]| demand.request(&topology(), permitted).unwrap();
        for demand in [Demand::default(), ranks(1, None), ranks(9, Some(9))] {
            assert_eq!(request(demand, &[2, 13]), Request::At(rectangle(1, 0, 2, 2)));
            assert_eq!(request(demand, &[15]), Request::At(rectangle(3, 1, 1, 1)));
        }
        // One CPU of each cell, or none that is known.
        assert_eq!(request(ranks(2, None), &[0, 2, 4, 6, 8, 10, 12, 14]), Request::Ranks(2));
        assert_eq!(request(ranks(2, None), &[99]), Request::Ranks(2));
        assert_eq!(request(shape(1, 2), &[2, 13]), Request::At(rectangle(1, 0, 1, 2)));
        assert_eq!(request(shape(1, 3), &[8, 10, 12]), Request::At(rectangle(0, 1, 3, 1)));
    }

    #[test]
    fn a_rectangle_that_does_not_fit_is_refused() {
        for (demand, permitted) in [(shape(5, 1), &ALL[..]), (shape(3, 3), &ALL), (shape(2, 1), &[0, 1])] {
            demand.request(&topology(), permitted).unwrap_err();
        }
        let why = shape(3, 3).request(&topology(), &[0, 3]).unwrap_err();
        assert_eq!(why.to_string(), "a mesh of 3x3 cells does not fit on 2x1, which is what the permitted CPUs have");
    }

    #[test]
    fn each_rank_gets_the_cpus_of_its_cell() {
        let place = |demand: Demand, at: Rectangle| demand.cpus_of_ranks(&topology(), at, &ALL);
        let at = rectangle(1, 0, 2, 2);
        assert_eq!(place(ranks(5, None), at), [[2, 3], [4, 5], [10, 11], [12, 13], [2, 3]]);
        for rank in 0..5 {
            let cell = at.cell_of_rank(rank, topology().mesh());
            assert_eq!(place(ranks(5, None), at)[rank as usize], topology().cpus_of(cell));
        }
        assert_eq!(place(Demand::default(), at), [[2, 3, 4, 5, 10, 11, 12, 13]]);
        assert!(place(ranks(0, None), at).is_empty());
    }

    #[test]
    fn each_rank_gets_several_cells_row_by_row() {
        let place = |demand: Demand, at: Rectangle| demand.cpus_of_ranks(&topology(), at, &ALL);
        let three = rectangle(0, 0, 3, 1);
        assert_eq!(place(ranks(2, Some(2)), three), [[0, 1, 2, 3], [0, 1, 4, 5]]);
        assert_eq!(place(ranks(2, Some(9)), three), [[0, 1, 2, 3, 4, 5]; 2]);
        assert_eq!(place(ranks(1, Some(0)), three), [[0, 1]]);
        let one = Demand { cells_per_rank: Some(2), ..Demand::default() };
        assert_eq!(place(one, three), [[0, 1, 2, 3]]);
    }

    #[test]
    fn a_rank_gets_only_permitted_cpus_and_never_none() {
        let place = |permitted: &[u32], at: Rectangle| ranks(2, None).cpus_of_ranks(&topology(), at, permitted);
        assert_eq!(place(&[1, 7, 6], rectangle(0, 0, 2, 1)), [vec![1], vec![1, 6, 7]]);
        for empty in [rectangle(0, 0, 0, 0), rectangle(9, 9, 1, 1), rectangle(u32::MAX, 0, u32::MAX, 1)] {
            assert_eq!(place(&[3], empty), [[3], [3]]);
        }
    }
}
