//! First-fit: the free rectangle at the lowest row, in it at the lowest column.
//!
//! Source: Zhu, "Efficient processor allocation strategies for mesh-connected parallel computers"
//! (1992). Deviation: it tries the size as asked for, then the one turned by 90 degrees, as
//! Adaptive Scan does.

use crate::layout::{Occupancy, Rectangle, Shape};

/// The first free rectangle of this size.
pub(super) fn find(occupancy: &Occupancy, shape: Shape) -> Option<Rectangle> {
    shape.orientations().find_map(|shape| occupancy.free_rectangles(shape).next())
}
