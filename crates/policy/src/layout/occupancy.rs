//! The taken cells of one slice.

use crate::layout::{Mesh, Rectangle, Shape};
use crate::units::CellId;

/// The taken cells of a mesh. Each one has the rectangle that it belongs to, so that a scan can
/// skip past it.
#[derive(Clone, Debug)]
pub struct Occupancy {
    mesh: Mesh,
    free: u32,
    /// For each taken cell the last one of its rectangle, row by row.
    last_cells: Vec<Option<Last>>,
}

/// The last column and row of a rectangle. On a mesh of 65 536 cells both are below 65 536.
#[derive(Clone, Copy, Debug)]
struct Last {
    column: u16,
    row: u16,
}

impl Occupancy {
    /// A mesh without taken cells.
    pub fn new(mesh: Mesh) -> Occupancy {
        Occupancy { mesh, free: mesh.cells(), last_cells: vec![None; mesh.cells() as usize] }
    }

    /// The mesh.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// The number of free cells.
    pub fn free_cells(&self) -> u32 {
        self.free
    }

    /// Whether all cells of a rectangle are free. False if some are not on the mesh.
    pub fn is_free(&self, rectangle: Rectangle) -> bool {
        self.mesh.has(rectangle) && self.rows(rectangle).all(|cells| self.last_cells[cells].iter().all(Option::is_none))
    }

    /// Whether a cell of a rectangle is free. False if some are not on the mesh.
    pub(crate) fn has_free_cell(&self, rectangle: Rectangle) -> bool {
        self.mesh.has(rectangle) && self.rows(rectangle).any(|cells| self.last_cells[cells].iter().any(Option::is_none))
    }

    /// Takes a rectangle, if it is [free](Occupancy::is_free). Returns whether it was.
    pub fn take(&mut self, rectangle: Rectangle) -> bool {
        let is_free = self.is_free(rectangle);
        if is_free {
            let Rectangle { column, row, shape } = rectangle;
            let last = Last { column: (column + shape.columns - 1) as u16, row: (row + shape.rows - 1) as u16 };
            self.set(rectangle, Some(last));
            self.free -= shape.cells();
        }
        is_free
    }

    /// Takes the free cells of a rectangle, each as a rectangle of its own.
    pub(crate) fn take_free_cells(&mut self, rectangle: Rectangle) {
        let columns = self.mesh.shape().columns;
        for CellId(cell) in rectangle.cells(self.mesh) {
            let shape = Shape { columns: 1, rows: 1 };
            self.take(Rectangle { column: cell % columns, row: cell / columns, shape });
        }
    }

    /// Frees a rectangle that was taken. Other rectangles change nothing.
    pub fn release(&mut self, rectangle: Rectangle) {
        let Rectangle { column, row, shape } = rectangle;
        let end = (column.saturating_add(shape.columns), row.saturating_add(shape.rows));
        if self.mesh.has(rectangle) && self.task_at(column, row) == Some(end) {
            self.set(rectangle, None);
            self.free += shape.cells();
        }
    }

    /// The first column and row beyond the rectangle that a taken cell belongs to. `None` if the
    /// cell is free.
    pub(super) fn task_at(&self, column: u32, row: u32) -> Option<(u32, u32)> {
        let last = self.last_cells[(row * self.mesh.shape().columns + column) as usize]?;
        Some((u32::from(last.column) + 1, u32::from(last.row) + 1))
    }

    /// All free rectangles of a size as written, the lowest row first, in it the lowest column.
    pub(crate) fn free_rectangles(&self, shape: Shape) -> impl Iterator<Item = Rectangle> {
        let Shape { columns, rows } = self.mesh.shape();
        // For each column, the number of free cells from the current row downwards.
        let mut free = vec![0; columns as usize];
        (0..rows).flat_map(move |row| {
            let mut run = 0;
            let mut found = Vec::new();
            for column in 0..columns {
                let free = &mut free[column as usize];
                *free = if self.task_at(column, row).is_none() { *free + 1 } else { 0 };
                run = if *free >= shape.rows { run + 1 } else { 0 };
                if run >= shape.columns {
                    found.push(Rectangle { column: column + 1 - shape.columns, row: row + 1 - shape.rows, shape });
                }
            }
            found
        })
    }

    fn set(&mut self, rectangle: Rectangle, to: Option<Last>) {
        for cells in self.rows(rectangle) {
            self.last_cells[cells].fill(to);
        }
    }

    /// The cells of each row of a rectangle that is on the mesh.
    fn rows(&self, rectangle: Rectangle) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let (width, shape) = (self.mesh.shape().columns, rectangle.shape);
        (rectangle.row..rectangle.row + shape.rows).map(move |row| {
            let first = (row * width + rectangle.column) as usize;
            first..first + shape.columns as usize
        })
    }
}
