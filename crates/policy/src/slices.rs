//! The layout of parallel jobs in time: the table of slices.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.2. A slice is a virtual machine: a mesh of its own, on which jobs have rectangles that
//! do not overlap. The slices take turns on the machine.
//!
//! 1. A job is placed in the first slice with room for it, or in a new slice.
//! 2. A job keeps its cells until it is released. It is entered in every other slice in which the
//!    same cells are free. In one slice it is a *single task*, in several a *multiple task*.
//! 3. A slice without a single task is dropped: all its jobs run in other slices, too. Redundant
//!    slices are dropped one at a time, the last one first.
//! 4. A release enters the jobs that now have room, then drops slices. No job is moved.
//!
//! Choices that the source leaves open: if no slice has room, a job is placed in the first one that
//! has room without its multiple tasks. Those in its way leave this slice, as they run in other
//! ones. Without this rule six jobs of 2 x 2 would need three slices on 8 x 2 cells; table 3 has
//! two. Jobs enter a slice in the order in which they were placed. A slice weighs as much as the
//! heaviest of its single tasks. The number of slices can be limited. Then requests wait in order
//! of arrival, and none overtakes another. After each release they are placed as if they arrived
//! then.
//!
//! A job can be taken [out of all slices](SliceTable::set_takes_turns): it is not bound to turns.
//! It keeps its cells, which others may have at the same time. If it takes turns again, it gets a
//! slice at once, beyond the limit if need be: it is running.
//!
//! Jobs that cooperate are one task, which has the smallest rectangle with the cells of all: see
//! `grow`.
//!
//! By these rules, a new job may get such cells although others are free. If it is to [avoid
//! them](SliceTable::avoiding_jobs_beside), it first looks for room without them, in all slices,
//! and only then as above. It gets a new slice only if no slice has room by the rules above.
//!
//! With [`Movement::WithinNode`], our addition, requests are placed in the same way. If another
//! table, in which jobs have other cells in some slices, gives the least served job a larger share,
//! this table is the one that is in force.

mod grow;
mod restore;
#[cfg(test)]
mod tests;
mod within_node;

use std::collections::{BTreeMap, VecDeque, btree_map};

pub(crate) use self::restore::PlacedTask;
pub use self::restore::RestoreError;
use self::within_node::Candidate;
use crate::layout::{Mesh, Occupancy, Partitioner, Rectangle, Request};
use crate::units::JobId;

/// Whether a job may have other cells in another slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Movement {
    /// Never: a job has the same cells in all its slices.
    #[default]
    Never,
    /// It may have other cells of the same node. The whole mesh counts as one node.
    WithinNode,
}

crate::parse::named!(
    Movement { Never = "never", WithinNode = "within-node", }
    |text| text, format!("`{text}` does not say whether jobs move")
);

/// One slice: a virtual machine, and the jobs that run on it at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slice {
    /// Its jobs with their cells, in the order in which they were entered.
    pub jobs: Vec<(JobId, Rectangle)>,
    /// Its share of the time, relative to that of the other slices: the largest weight of its
    /// single tasks, or one if jobs move.
    pub weight: u32,
}

impl Slice {
    /// Its cells as figure 3 draws them, row by row from the top: the number of the job, or a dot.
    pub fn rows(&self, mesh: Mesh) -> Vec<String> {
        let mut jobs = vec![None; mesh.cells() as usize];
        for &(job, rectangle) in &self.jobs {
            rectangle.cells(mesh).for_each(|cell| jobs[cell.0 as usize] = Some(job));
        }
        let words: Vec<String> = jobs.iter().map(|job| job.map_or(".".to_owned(), |job| job.to_string())).collect();
        let width = words.iter().map(String::len).max().unwrap_or(0);
        let row = |row: &[String]| row.iter().map(|word| format!("{word:>width$}")).collect::<Vec<_>>().join(" ");
        words.chunks(mesh.shape().columns.max(1) as usize).map(row).collect()
    }
}

/// The table of slices.
#[derive(Clone, Debug)]
pub struct SliceTable {
    mesh: Mesh,
    partitioner: Partitioner,
    movement: Movement,
    most_slices: usize,
    /// Whether new jobs avoid the cells of those that take no turns.
    avoid_jobs_beside: bool,
    jobs: BTreeMap<JobId, Job>,
    /// The jobs with cells, in the order in which they were placed.
    placed: Vec<(JobId, Rectangle)>,
    waiting: VecDeque<Waiting>,
    slices: Vec<Slice>,
    /// The cells of each slice.
    cells: Vec<Cells>,
    /// The slices in which some jobs have other cells, if these are in force.
    moved: Option<Vec<Slice>>,
}

/// A job that has cells.
#[derive(Clone, Debug)]
struct Job {
    rectangle: Rectangle,
    weight: u32,
    takes_turns: bool,
    /// The slices that it is in.
    slices: Vec<usize>,
}

/// A job that waits for cells.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: JobId,
    request: Request,
    weight: u32,
    takes_turns: bool,
}

/// The cells of a slice.
#[derive(Clone, Debug)]
struct Cells {
    taken: Occupancy,
    /// Those that its single tasks take.
    by_single: Occupancy,
    /// How many of its single tasks have each weight.
    single_weights: BTreeMap<u32, usize>,
    /// Where there may be room for jobs that are not in this slice: it is new, or a job left it.
    new_room: Vec<Rectangle>,
}

impl Cells {
    fn new(mesh: Mesh) -> Cells {
        let none = Occupancy::new(mesh);
        let new_room = vec![Rectangle::at_origin(mesh.shape())];
        Cells { taken: none.clone(), by_single: none, single_weights: BTreeMap::new(), new_room }
    }

    /// A job in this slice has become a single task.
    fn add_single(&mut self, job: &Job) {
        self.by_single.take(job.rectangle);
        *self.single_weights.entry(job.weight).or_default() += 1;
    }

    /// A single task has left this slice, or entered another one.
    fn remove_single(&mut self, job: &Job) {
        self.by_single.release(job.rectangle);
        if let btree_map::Entry::Occupied(mut jobs) = self.single_weights.entry(job.weight) {
            *jobs.get_mut() -= 1;
            if *jobs.get() == 0 {
                jobs.remove();
            }
        }
    }
}

/// The place of a job that has asked for cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has these cells.
    Placed(Rectangle),
    /// It waits until other jobs are released.
    Waits,
}

/// The reason why a call is refused. The table is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// No slice can have such a rectangle.
    #[error("{request} cells fit into a mesh of {mesh} in neither orientation")]
    TooLarge {
        /// The requested size.
        request: crate::layout::Shape,
        /// The size of the mesh.
        mesh: crate::layout::Shape,
    },
    /// Some of the cells do not exist.
    #[error("{} cells from column {} and row {} are not all on a mesh of {mesh}", .at.shape, .at.column, .at.row)]
    OffMesh {
        /// The requested cells.
        at: Rectangle,
        /// The size of the mesh.
        mesh: crate::layout::Shape,
    },
    /// The job is in the table already.
    #[error("job {0} is in the table already")]
    Twice(JobId),
    /// The job is not in the table, for example because it has been released.
    #[error("job {0} is not in the table")]
    Unknown(JobId),
    /// The job still waits for cells.
    #[error("job {0} has no cells yet")]
    Waiting(JobId),
}

/// Refuses a request that no slice can meet.
///
/// # Errors
///
/// [`SliceError::TooLarge`], [`SliceError::OffMesh`].
pub fn check_request(request: Request, mesh: Mesh) -> Result<(), SliceError> {
    match request {
        Request::Rectangle(request) if !mesh.can_hold(request) => {
            Err(SliceError::TooLarge { request, mesh: mesh.shape() })
        }
        Request::At(at) if !mesh.has(at) => Err(SliceError::OffMesh { at, mesh: mesh.shape() }),
        _ => Ok(()),
    }
}

impl SliceTable {
    /// An empty table of at most `most_slices` slices, where zero counts as one.
    pub fn new(mesh: Mesh, partitioner: Partitioner, movement: Movement, most_slices: Option<u32>) -> SliceTable {
        SliceTable {
            mesh,
            partitioner,
            movement,
            most_slices: most_slices.map_or(usize::MAX, |most| most.max(1) as usize),
            avoid_jobs_beside: false,
            jobs: BTreeMap::new(),
            placed: Vec::new(),
            waiting: VecDeque::new(),
            slices: Vec::new(),
            cells: Vec::new(),
            moved: None,
        }
    }

    /// This table, where new jobs avoid the cells of jobs that take no turns, or do not.
    #[must_use]
    pub fn avoiding_jobs_beside(self, avoid_jobs_beside: bool) -> SliceTable {
        SliceTable { avoid_jobs_beside, ..self }
    }

    /// Enters a job with a weight of at least one; zero counts as one.
    ///
    /// # Errors
    ///
    /// [`SliceError::TooLarge`], [`SliceError::OffMesh`], [`SliceError::Twice`].
    pub fn enter(&mut self, job: JobId, request: Request, weight: u32) -> Result<Entry, SliceError> {
        self.request(Waiting { job, request, weight, takes_turns: true })
    }

    /// Enters a job that takes no turns: it gets cells, and is in no slice. It may wait behind
    /// others, but not for a slice.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    pub fn enter_beside(&mut self, job: JobId, request: Request, weight: u32) -> Result<Entry, SliceError> {
        self.request(Waiting { job, request, weight, takes_turns: false })
    }

    fn request(&mut self, new: Waiting) -> Result<Entry, SliceError> {
        let job = new.job;
        if !matches!(self.rectangle(job), Err(SliceError::Unknown(_))) {
            return Err(SliceError::Twice(job));
        }
        check_request(new.request, self.mesh)?;
        self.waiting.push_back(Waiting { weight: new.weight.max(1), ..new });
        self.settle();
        Ok(self.rectangle(job).map_or(Entry::Waits, Entry::Placed))
    }

    /// Releases the cells of a job, or its place among those that wait. Returns the jobs that had
    /// to wait and have been placed, in the order of their arrival.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn release(&mut self, job: JobId) -> Result<Vec<(JobId, Rectangle)>, SliceError> {
        match self.rectangle(job) {
            Ok(_) => {
                self.leave_all(job);
                self.jobs.remove(&job);
                self.placed.retain(|&(placed, _)| placed != job);
            }
            Err(SliceError::Waiting(_)) => self.waiting.retain(|waiting| waiting.job != job),
            Err(error) => return Err(error),
        }
        Ok(self.settle())
    }

    /// Lets a placed job take turns, or takes it out of all slices. It keeps its cells. Returns the
    /// jobs that had to wait and have been placed, in the order of their arrival.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`], [`SliceError::Waiting`].
    pub fn set_takes_turns(&mut self, job: JobId, takes_turns: bool) -> Result<Vec<(JobId, Rectangle)>, SliceError> {
        let rectangle = self.rectangle(job)?;
        let Some(placed) = self.jobs.get_mut(&job).filter(|placed| placed.takes_turns != takes_turns) else {
            return Ok(Vec::new());
        };
        placed.takes_turns = takes_turns;
        if takes_turns {
            let found = self.find_room(Request::At(rectangle));
            self.enter_first(job, rectangle, found.map(|(slice, _)| slice));
        } else {
            self.leave_all(job);
        }
        Ok(self.settle())
    }

    /// Gives a job another weight of at least one; zero counts as one.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn set_weight(&mut self, job: JobId, weight: u32) -> Result<(), SliceError> {
        let weight = weight.max(1);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.job == job) {
            waiting.weight = weight;
            return Ok(());
        }
        let placed = self.jobs.get_mut(&job).ok_or(SliceError::Unknown(job))?;
        let before = placed.clone();
        placed.weight = weight;
        if let [only] = placed.slices[..] {
            self.cells[only].remove_single(&before);
            self.cells[only].add_single(placed);
        }
        self.settle();
        Ok(())
    }

    /// The slices, in the order in which they were made.
    pub fn slices(&self) -> &[Slice] {
        self.moved.as_ref().unwrap_or(&self.slices)
    }

    /// The cells that a job was given when it was placed. If jobs move, it may have others in some
    /// slices.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`], [`SliceError::Waiting`].
    pub fn rectangle(&self, job: JobId) -> Result<Rectangle, SliceError> {
        match self.jobs.get(&job) {
            Some(placed) => Ok(placed.rectangle),
            None if self.waiting.iter().any(|waiting| waiting.job == job) => Err(SliceError::Waiting(job)),
            None => Err(SliceError::Unknown(job)),
        }
    }

    /// The jobs that wait for cells, in the order of their arrival.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> {
        self.waiting.iter().map(|waiting| waiting.job)
    }

    /// The mesh.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }

    /// Enters all jobs where their cells are free, drops the slices that are redundant, and places
    /// the jobs that wait, until none of them can be placed. Returns those that it placed.
    fn settle(&mut self) -> Vec<(JobId, Rectangle)> {
        let mut placed = Vec::new();
        loop {
            self.spread();
            self.drop_redundant();
            let Some(&next) = self.waiting.front() else { break };
            let Some(rectangle) = self.place(next) else { break };
            self.waiting.pop_front();
            placed.push((next.job, rectangle));
        }
        self.weigh();
        self.moved = self.move_jobs();
        placed
    }

    /// Places a job in the first slice with room, or in a new one. A job that takes no turns gets
    /// the same cells, but no slice.
    fn place(&mut self, Waiting { job, request, weight, takes_turns }: Waiting) -> Option<Rectangle> {
        let found = self.find_room(request);
        let rectangle = match found {
            Some((_, rectangle)) => rectangle,
            None if !takes_turns || self.slices.len() < self.most_slices => {
                self.avoided().find_map(|avoided| self.find(&Occupancy::new(self.mesh), request, &avoided))?
            }
            None => return None,
        };
        self.jobs.insert(job, Job { rectangle, weight, takes_turns, slices: Vec::new() });
        self.placed.push((job, rectangle));
        if takes_turns {
            self.enter_first(job, rectangle, found.map(|(slice, _)| slice));
        }
        Some(rectangle)
    }

    /// The first slice with room, or else the first one with room without its multiple tasks.
    fn find_room(&self, request: Request) -> Option<(usize, Rectangle)> {
        let slices = || self.cells.iter().enumerate();
        let has_multiple = |cells: &Cells| cells.by_single.free_cells() > cells.taken.free_cells();
        self.avoided().find_map(|avoided| {
            let find = |occupancy: &Occupancy| self.find(occupancy, request, &avoided);
            let free = slices().find_map(|(slice, cells)| Some((slice, find(&cells.taken)?)));
            let mut with_multiple = slices().filter(|(_, cells)| has_multiple(cells));
            free.or_else(|| with_multiple.find_map(|(slice, cells)| Some((slice, find(&cells.by_single)?))))
        })
    }

    /// Cells for a request that no job has, in any slice or beside them. `None` if there are none.
    pub fn find_unused(&self, request: Request) -> Option<Rectangle> {
        let all: Vec<Rectangle> = self.placed.iter().map(|&(_, cells)| cells).collect();
        self.find(&Occupancy::new(self.mesh), request, &all)
    }

    /// The cells that new jobs avoid, those of each job beside the slices, and then none.
    fn avoided(&self) -> impl Iterator<Item = Vec<Rectangle>> {
        let beside = self.jobs.values().filter(|job| self.avoid_jobs_beside && !job.takes_turns);
        let beside: Vec<Rectangle> = beside.map(|job| job.rectangle).collect();
        let is_any = !beside.is_empty();
        is_any.then_some(beside).into_iter().chain([Vec::new()])
    }

    /// Free cells for a request that are not avoided.
    fn find(&self, occupancy: &Occupancy, request: Request, avoided: &[Rectangle]) -> Option<Rectangle> {
        if avoided.is_empty() {
            return self.partitioner.find(occupancy, request);
        }
        let mut occupancy = occupancy.clone();
        avoided.iter().for_each(|&cells| occupancy.take_free_cells(cells));
        self.partitioner.find(&occupancy, request)
    }

    /// Enters a job in a slice, which the multiple tasks in its way leave, or in a new one, and in
    /// all others in which its cells are free.
    fn enter_first(&mut self, job: JobId, rectangle: Rectangle, slice: Option<usize>) {
        let slice = slice.unwrap_or_else(|| self.add_slice());
        self.leave_if(slice, |_, other| other.overlaps(rectangle));
        self.enter_if_free(job, rectangle, slice);
        (0..self.slices.len()).for_each(|slice| self.enter_if_free(job, rectangle, slice));
    }

    /// Enters all jobs in the slices with new room. A job that has room now has cells there.
    fn spread(&mut self) {
        for slice in 0..self.slices.len() {
            let mut new_room = std::mem::take(&mut self.cells[slice].new_room);
            new_room.retain(|&room| self.cells[slice].taken.has_free_cell(room));
            for place in 0..self.placed.len() {
                if new_room.is_empty() || self.cells[slice].taken.free_cells() == 0 {
                    break;
                }
                let (job, rectangle) = self.placed[place];
                if new_room.iter().any(|room| room.overlaps(rectangle)) {
                    self.enter_if_free(job, rectangle, slice);
                }
            }
        }
    }

    /// Enters a job that takes turns in a slice, if its cells are free there.
    fn enter_if_free(&mut self, job: JobId, rectangle: Rectangle, slice: usize) {
        if !self.cells[slice].taken.is_free(rectangle) {
            return;
        }
        let Some(placed) = self.jobs.get_mut(&job).filter(|placed| placed.takes_turns) else { return };
        self.cells[slice].taken.take(rectangle);
        self.slices[slice].jobs.push((job, rectangle));
        placed.slices.push(slice);
        match placed.slices[..] {
            [only] => self.cells[only].add_single(placed),
            [first, _] => self.cells[first].remove_single(placed),
            _ => {}
        }
    }

    /// Takes a job out of all slices.
    fn leave_all(&mut self, job: JobId) {
        let slices = self.jobs.get(&job).map(|placed| placed.slices.clone());
        slices.into_iter().flatten().for_each(|slice| self.leave_if(slice, |other, _| other == job));
    }

    /// Takes some of its jobs out of a slice.
    fn leave_if(&mut self, slice: usize, leaves: impl Fn(JobId, Rectangle) -> bool) {
        let cells = &mut self.cells[slice];
        let leaving = self.slices[slice].jobs.extract_if(.., |&mut (job, cells)| leaves(job, cells));
        let leaving: Vec<_> = leaving.inspect(|&(_, rectangle)| cells.taken.release(rectangle)).collect();
        for (job, rectangle) in leaving {
            self.cells[slice].new_room.push(rectangle);
            let Some(placed) = self.jobs.get_mut(&job) else { continue };
            if let [only] = placed.slices[..] {
                self.cells[only].remove_single(placed);
            }
            placed.slices.retain(|&other| other != slice);
            if let [last] = placed.slices[..] {
                self.cells[last].add_single(placed);
            }
        }
    }

    fn add_slice(&mut self) -> usize {
        self.slices.push(Slice::default());
        self.cells.push(Cells::new(self.mesh));
        self.slices.len() - 1
    }

    /// Drops the slices without a single task, one at a time, the last one first.
    fn drop_redundant(&mut self) {
        for slice in (0..self.slices.len()).rev() {
            if self.cells[slice].single_weights.is_empty() {
                self.drop_slice(slice);
            }
        }
    }

    fn drop_slice(&mut self, slice: usize) {
        self.cells.remove(slice);
        for placed in self.jobs.values_mut() {
            placed.slices.retain(|&other| other != slice);
            placed.slices.iter_mut().filter(|other| **other > slice).for_each(|later| *later -= 1);
        }
        for (job, _) in self.slices.remove(slice).jobs {
            let Some(placed) = self.jobs.get(&job) else { continue };
            if let [last] = placed.slices[..] {
                self.cells[last].add_single(placed);
            }
        }
    }

    fn weigh(&mut self) {
        for (slice, cells) in self.slices.iter_mut().zip(&self.cells) {
            slice.weight = cells.single_weights.last_key_value().map_or(1, |(&weight, _)| weight);
        }
    }

    fn move_jobs(&self) -> Option<Vec<Slice>> {
        if self.movement == Movement::Never || self.slices.len() <= 1 {
            return None;
        }
        let jobs = self.placed.iter().filter_map(|(job, _)| Some((*job, self.jobs.get(job)?)));
        let candidates: Vec<Candidate> = jobs
            .filter(|(_, placed)| placed.takes_turns)
            .map(|(job, placed)| Candidate { job, weight: placed.weight, rectangle: placed.rectangle })
            .collect();
        within_node::improve(&self.slices, self.mesh, self.partitioner, &candidates, self.most_slices)
    }
}
