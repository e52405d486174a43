//! The layout of parallel jobs in space: which rectangle of a mesh of cells a job gets.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.2. Their machine is a torus that is used as a mesh.
//!
//! # Use
//!
//! An [`Occupancy`] has the taken cells. A [`Partitioner`] [finds](Partitioner::find) a free
//! rectangle for a [`Request`], which the caller then [takes](Occupancy::take). All partitioners
//! find a rectangle whenever there is one, as asked for or turned by 90 degrees. They differ in its
//! place and in the time that they need.
//!
//! Choices that the source leaves open: a request that is only a number of ranks gets the most
//! square rectangle that is free. If it has more ranks than the mesh has cells, it asks for the
//! whole mesh, and the cells have [several ranks each](Rectangle::cell_of_rank).

pub mod adaptive_scan;
mod best_fit;
mod first_fit;
mod occupancy;
#[cfg(test)]
mod tests;

use std::fmt;
use std::iter;
use std::str::FromStr;

pub use self::occupancy::Occupancy;

use crate::ParseError;
use crate::units::CellId;

/// A mesh of cells, numbered row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mesh(Shape);

/// The size of a rectangle of cells. Written as `"2x3"`: columns, then rows. A size that is read
/// has 1 to [`Mesh::MOST_CELLS`] cells. Other sizes fit nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Unchecked"))]
pub struct Shape {
    /// The number of columns, at least one.
    pub columns: u32,
    /// The number of rows, at least one.
    pub rows: u32,
}

/// A size that has been deserialized, but not checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    columns: u32,
    rows: u32,
}

/// A rectangle of cells. It may be empty or beyond a mesh, where no job gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    /// Exactly these cells.
    At(Rectangle),
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
    /// The free rectangle with the fewest free cells beside it.
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

    /// Whether a rectangle of this size fits, as written or turned by 90 degrees.
    pub fn can_hold(self, shape: Shape) -> bool {
        shape.orientations().any(|shape| self.has(Rectangle::at_origin(shape)))
    }

    /// Whether a rectangle has cells, all of them on the mesh.
    pub fn has(self, rectangle: Rectangle) -> bool {
        let is_within =
            |first: u32, count: u32, all: u32| first.checked_add(count).is_some_and(|end| first < end && end <= all);
        is_within(rectangle.column, rectangle.shape.columns, self.0.columns)
            && is_within(rectangle.row, rectangle.shape.rows, self.0.rows)
    }
}

impl Shape {
    /// The number of cells. It saturates.
    pub const fn cells(self) -> u32 {
        self.columns.saturating_mul(self.rows)
    }

    /// This size, then the one turned by 90 degrees if it differs.
    pub fn orientations(self) -> impl Iterator<Item = Shape> {
        let turned = Shape { columns: self.rows, rows: self.columns };
        iter::once(self).chain((turned != self).then_some(turned))
    }
}

impl Request {
    /// The sizes that meet the request on a mesh, the best first. Each may be turned by 90 degrees,
    /// unless the request says which cells.
    ///
    /// For a number of ranks, where zero counts as one, these are the rectangles that hold it, of
    /// which neither side can be shorter, the most square first.
    pub fn shapes(self, mesh: Mesh) -> impl Iterator<Item = Shape> {
        let (whole, ranks) = match self {
            Request::Rectangle(shape) | Request::At(Rectangle { shape, .. }) => (Some(shape), 0),
            Request::Ranks(ranks) if ranks > mesh.cells() => (Some(mesh.shape()), 0),
            Request::Ranks(ranks) => (None, ranks.max(1)),
        };
        let most_rows = ranks.saturating_sub(1).isqrt() + 1;
        let by_ranks = (1..=most_rows).rev().filter_map(move |rows| {
            let columns = ranks.div_ceil(rows);
            (columns >= rows).then_some(Shape { columns, rows })
        });
        whole.into_iter().chain(by_ranks)
    }
}

impl Partitioner {
    /// A free rectangle for a request. `None` if there is none.
    pub fn find(self, occupancy: &Occupancy, request: Request) -> Option<Rectangle> {
        if let Request::At(rectangle) = request {
            return occupancy.is_free(rectangle).then_some(rectangle);
        }
        let mesh = occupancy.mesh();
        let can_fit = |shape: &Shape| mesh.can_hold(*shape) && shape.cells() <= occupancy.free_cells();
        request.shapes(mesh).filter(can_fit).find_map(|shape| match self {
            Partitioner::AdaptiveScan => adaptive_scan::find(occupancy, shape, &mut 0),
            Partitioner::FirstFit => first_fit::find(occupancy, shape),
            Partitioner::BestFit => best_fit::find(occupancy, shape),
        })
    }
}

impl Rectangle {
    /// The rectangle of this size at the first cell.
    pub const fn at_origin(shape: Shape) -> Rectangle {
        Rectangle { column: 0, row: 0, shape }
    }

    /// Its cells that are on a mesh, row by row.
    pub fn cells(self, mesh: Mesh) -> impl Iterator<Item = CellId> {
        let within = |first: u32, count: u32, all: u32| first..first.saturating_add(count).min(all);
        let rows = within(self.row, self.shape.rows, mesh.0.rows);
        let columns = within(self.column, self.shape.columns, mesh.0.columns);
        rows.flat_map(move |row| columns.clone().map(move |column| CellId(row * mesh.0.columns + column)))
    }

    /// Whether two rectangles have a cell in common.
    pub fn overlaps(self, other: Rectangle) -> bool {
        let meet = |one: u32, ones: u32, other: u32, others: u32| {
            let end = |first: u32, count: u32| u64::from(first) + u64::from(count);
            u64::from(one.max(other)) < end(one, ones).min(end(other, others))
        };
        meet(self.column, self.shape.columns, other.column, other.shape.columns)
            && meet(self.row, self.shape.rows, other.row, other.shape.rows)
    }

    /// The smallest rectangle that contains two.
    pub(crate) fn enclosing(self, other: Rectangle) -> Rectangle {
        let span = |one: u32, ones: u32, other: u32, others: u32| {
            let end = one.saturating_add(ones).max(other.saturating_add(others));
            (one.min(other), end - one.min(other))
        };
        let (column, columns) = span(self.column, self.shape.columns, other.column, other.shape.columns);
        let (row, rows) = span(self.row, self.shape.rows, other.row, other.shape.rows);
        Rectangle { column, row, shape: Shape { columns, rows } }
    }

    /// The cell of a rank of the job that has this rectangle: row by row, and from the first cell
    /// again if the job has more ranks than cells. Of a rectangle that is empty or reaches beyond
    /// the mesh, a cell of the mesh that is near it.
    pub fn cell_of_rank(self, rank: u32, mesh: Mesh) -> CellId {
        let place = rank.checked_rem(self.shape.cells()).unwrap_or(0);
        let columns = self.shape.columns.max(1);
        let within = |first: u32, further: u32, all: u32| first.saturating_add(further).min(all - 1);
        let row = within(self.row, place / columns, mesh.0.rows);
        CellId(row * mesh.0.columns + within(self.column, place % columns, mesh.0.columns))
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
            digits.parse().ok().filter(|_| plain)
        };
        let shape = text.trim().split_once('x').and_then(|(columns, rows)| {
            Mesh::new(Shape { columns: number(columns.trim())?, rows: number(rows.trim())? })
        });
        shape.map(Mesh::shape).ok_or_else(|| not_a_size(text))
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Shape {
    type Error = ParseError;

    fn try_from(Unchecked { columns, rows }: Unchecked) -> Result<Shape, ParseError> {
        let shape = Shape { columns, rows };
        Mesh::new(shape).map(Mesh::shape).ok_or_else(|| not_a_size(shape))
    }
}

fn not_a_size(text: impl fmt::Display) -> ParseError {
    ParseError(format!("`{text}` is not a size of 1 to {} cells such as `8x2`", Mesh::MOST_CELLS))
}
