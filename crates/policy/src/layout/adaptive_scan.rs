//! Adaptive Scan: skips past the tasks that it meets.
//!
//! Source: Ding and Bhuyan, "An adaptive submesh allocation strategy for two-dimensional mesh
//! connected systems" (1993). It tries the size as asked for, then the one turned by 90 degrees. In
//! a row it goes on behind the task that it met. The next row is higher by the least height at
//! which one of the tasks that it met in this row is passed.
//!
//! No free rectangle is missed: a task that blocks a window blocks all windows to its right up to
//! the end of the task, and all windows above of that column up to the top of the task.
//!
//! Choices that the source leaves open: of the tasks in a window it meets the one that is furthest
//! to the right, and of those the highest, which gives the longest stride.

use crate::layout::{Occupancy, Rectangle, Shape};

/// A free rectangle of this size, as written or turned by 90 degrees. Adds to `looks` how many
/// cells it has looked at.
pub fn find(occupancy: &Occupancy, shape: Shape, looks: &mut u64) -> Option<Rectangle> {
    shape.orientations().find_map(|shape| scan(occupancy, shape, looks))
}

fn scan(occupancy: &Occupancy, shape: Shape, looks: &mut u64) -> Option<Rectangle> {
    let mesh = occupancy.mesh();
    let mut window = Rectangle::at_origin(shape);
    while mesh.has(window) {
        let mut next_row = mesh.shape().rows;
        while mesh.has(window) {
            let Some((end_column, end_row)) = met(occupancy, window, looks) else { return Some(window) };
            window.column = end_column;
            next_row = next_row.min(end_row);
        }
        window = Rectangle { column: 0, row: next_row, shape };
    }
    None
}

/// The end of the task that the scan meets in a window: the first column and row beyond it.
fn met(occupancy: &Occupancy, window: Rectangle, looks: &mut u64) -> Option<(u32, u32)> {
    let Rectangle { column, row, shape } = window;
    let columns = (column..column + shape.columns).rev();
    let mut cells = columns.flat_map(|column| (row..row + shape.rows).rev().map(move |row| (column, row)));
    cells.find_map(|(column, row)| {
        *looks += 1;
        occupancy.task_at(column, row)
    })
}
