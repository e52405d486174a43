//! The layout of parallel jobs in space: which rectangle of a mesh of cells a job gets.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.2. Their machine is a torus that is used as a mesh.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;
use crate::units::CellId;

/// A mesh of cells, numbered row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh(Shape);

/// The size of a rectangle of cells. Written as `"2x3"`: columns, then rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// The number of columns, at least one.
    pub columns: u32,
    /// The number of rows, at least one.
    pub rows: u32,
}

/// A rectangle of cells of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rectangle {
    /// Its lowest column.
    pub column: u32,
    /// Its lowest row.
    pub row: u32,
    /// Its size.
    pub shape: Shape,
}

/// The cells that a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Request {
    /// A rectangle, as written or turned by 90 degrees.
    Rectangle(Shape),
    /// Any rectangle with a cell for each of this many ranks.
    Ranks(u32),
}

/// An algorithm that finds a free rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Partitioner {
    /// Ding and Bhuyan (1993): skips past the tasks that it meets.
    #[default]
    AdaptiveScan,
    /// The first free rectangle, cell by cell.
    FirstFit,
    /// The free rectangle with the fewest free cells around it.
    BestFit,
}

crate::parse::named!(
    Partitioner { AdaptiveScan = "adaptive-scan", FirstFit = "first-fit", BestFit = "best-fit", }
    |text| text, format!("`{text}` is not a partitioner")
);

impl Mesh {
    /// The most cells of a mesh.
    pub const MOST_CELLS: u32 = 65_536;

    /// The mesh of this size. `None` without cells or with more than [`Mesh::MOST_CELLS`].
    pub fn new(shape: Shape) -> Option<Mesh> {
        let cells = shape.columns.checked_mul(shape.rows)?;
        (1..=Mesh::MOST_CELLS).contains(&cells).then_some(Mesh(shape))
    }

    /// Its size.
    pub const fn shape(self) -> Shape {
        self.0
    }

    /// The number of its cells.
    pub const fn cells(self) -> u32 {
        self.0.cells()
    }
}

impl Shape {
    /// The number of cells.
    pub const fn cells(self) -> u32 {
        self.columns * self.rows
    }
}

impl Rectangle {
    /// The rectangle of this size at the first cell.
    pub const fn at_origin(shape: Shape) -> Rectangle {
        Rectangle { column: 0, row: 0, shape }
    }

    /// Its cells on a mesh, row by row.
    pub fn cells(self, mesh: Mesh) -> impl Iterator<Item = CellId> {
        let rows = self.row..self.row + self.shape.rows;
        let columns = self.column..self.column + self.shape.columns;
        rows.flat_map(move |row| columns.clone().map(move |column| CellId(row * mesh.0.columns + column)))
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}x{}", self.columns, self.rows))
    }
}

impl FromStr for Shape {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Shape, ParseError> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|&number| plain && (1..=Mesh::MOST_CELLS).contains(&number))
        };
        let shape = text.trim().split_once('x').and_then(|(columns, rows)| {
            let shape = Shape { columns: number(columns.trim())?, rows: number(rows.trim())? };
            (u64::from(shape.columns) * u64::from(shape.rows) <= u64::from(Mesh::MOST_CELLS)).then_some(shape)
        });
        let most = Mesh::MOST_CELLS;
        shape.ok_or_else(|| ParseError(format!("`{text}` is not a size of 1 to {most} cells such as `8x2`")))
    }
}
