//! Tasks of several jobs, which are in the same slices.
//!
//! Source: our own. Jobs that wait for each other, such as a producer and a consumer, or two that
//! share a lock, lose whole turns if they are in different slices.
//!
//! 1. The task of such jobs has the smallest rectangle with the cells of all.
//! 2. A further job gets cells beside the others, in the first slice with room for the task that
//!    has them as well, or else in a new slice. Of several places, it gets the one that makes the
//!    task the smallest.
//! 3. If the mesh has no such cells, the job shares some with the others.
//! 4. The task with its further job is placed as if it arrived then. All jobs keep their cells.
//! 5. If one of its jobs is released, the task becomes smaller, and remains in its slices.
//!
//! Deviation from the source of the slices: a task there is one job. Cells between those of its
//! jobs belong to the task as well, so that it is one rectangle like all others.

use super::{SliceError, SliceTable, check_request};
use crate::layout::{Occupancy, Rectangle, Request};
use crate::units::JobId;

impl SliceTable {
    /// Finds cells for a further job of a task. The task does not have them yet.
    ///
    /// # Errors
    ///
    /// As [`enter`](SliceTable::enter), if the task is unknown, and if it waits for cells.
    pub(crate) fn find_beside(
        &self,
        task: JobId,
        members: &[Rectangle],
        request: Request,
    ) -> Result<Rectangle, SliceError> {
        check_request(request, self.mesh)?;
        let own = self.rectangle(task)?;
        let empty = Occupancy::new(self.mesh);
        let rooms = || {
            let without = |slice: usize, room: &Occupancy| {
                let mut room = room.clone();
                if self.jobs.get(&task).is_some_and(|placed| placed.slices.contains(&slice)) {
                    room.release(own);
                }
                room
            };
            let free = self.cells.iter().enumerate().map(move |(slice, cells)| without(slice, &cells.taken));
            let with_multiple =
                self.cells.iter().enumerate().map(move |(slice, cells)| without(slice, &cells.by_single));
            free.chain(with_multiple)
        };
        let beside = |room: &Occupancy, avoided: &[Rectangle]| {
            let mut free = room.clone();
            members.iter().chain(avoided).for_each(|&cells| free.take_free_cells(cells));
            self.nearest(own, request, &free, room)
        };
        let found = self.avoided().find_map(|avoided| rooms().find_map(|room| beside(&room, &avoided)));
        let found = found.or_else(|| beside(&empty, &[])).or_else(|| self.nearest(own, request, &empty, &empty));
        // A request that the mesh can hold has room on an empty one.
        Ok(found.unwrap_or(own))
    }

    /// The free cells for a request that make a task the smallest, in a slice with this room.
    fn nearest(&self, task: Rectangle, request: Request, free: &Occupancy, room: &Occupancy) -> Option<Rectangle> {
        let has_room = |cells: &Rectangle| room.is_free(task.enclosing(*cells));
        if let Request::At(cells) = request {
            return Some(cells).filter(|&cells| free.is_free(cells)).filter(has_room);
        }
        request.shapes(self.mesh).find_map(|shape| {
            let places = shape.orientations().flat_map(|shape| free.free_rectangles(shape));
            places.filter(has_room).min_by_key(|&cells| task.enclosing(cells).shape.cells())
        })
    }

    /// Gives a task other cells and another weight, and lets it take turns or not. Returns the jobs
    /// that had to wait and have been placed, in the order of their arrival.
    ///
    /// # Errors
    ///
    /// As [`set_takes_turns`](SliceTable::set_takes_turns).
    pub(crate) fn reshape(
        &mut self,
        task: JobId,
        rectangle: Rectangle,
        weight: u32,
        takes_turns: bool,
    ) -> Result<Vec<(JobId, Rectangle)>, SliceError> {
        let own = self.rectangle(task)?;
        let Some(before) = self.jobs.get(&task).cloned() else { return Err(SliceError::Unknown(task)) };
        self.leave_all(task);
        if let Some(placed) = self.jobs.get_mut(&task) {
            (placed.rectangle, placed.weight, placed.takes_turns) = (rectangle, weight, takes_turns);
        }
        self.placed.iter_mut().filter(|(other, _)| *other == task).for_each(|(_, cells)| *cells = rectangle);
        if takes_turns && before.takes_turns && own.enclosing(rectangle) == own {
            before.slices.iter().for_each(|&slice| self.enter_if_free(task, rectangle, slice));
        } else if takes_turns {
            let found = self.find_room(Request::At(rectangle));
            self.enter_first(task, rectangle, found.map(|(slice, _)| slice));
        }
        Ok(self.settle())
    }
}
