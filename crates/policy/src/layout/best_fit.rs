//! Best-fit: the free rectangle with the fewest free cells beside it, so that those which remain
//! are together.
//!
//! Source: Zhu, "Efficient processor allocation strategies for mesh-connected parallel computers"
//! (1992). Deviations: it compares both orientations, and counts all cells that share a side with
//! the rectangle. Among equals the first is taken: as asked for, then by row and column.

use crate::layout::{Occupancy, Rectangle, Shape};

/// The best free rectangle of this size.
pub(super) fn find(occupancy: &Occupancy, shape: Shape) -> Option<Rectangle> {
    let all = shape.orientations().flat_map(|shape| occupancy.free_rectangles(shape));
    all.min_by_key(|&rectangle| free_cells_beside(occupancy, rectangle))
}

/// The number of free cells that share a side with a rectangle. The edge of the mesh has none.
fn free_cells_beside(occupancy: &Occupancy, rectangle: Rectangle) -> usize {
    let Rectangle { column, row, shape } = rectangle;
    let (end_column, end_row) = (column + shape.columns, row + shape.rows);
    let mesh = occupancy.mesh().shape();
    let is_free =
        |column: u32, row: u32| column < mesh.columns && row < mesh.rows && occupancy.task_at(column, row).is_none();
    // The column or row below the first wraps around and is not on the mesh.
    let (left, below) = (column.wrapping_sub(1), row.wrapping_sub(1));
    let rows = (row..end_row).flat_map(|row| [(left, row), (end_column, row)]);
    let columns = (column..end_column).flat_map(|column| [(column, below), (column, end_row)]);
    rows.chain(columns).filter(|&(column, row)| is_free(column, row)).count()
}
