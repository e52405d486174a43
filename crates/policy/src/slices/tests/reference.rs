//! A slow table of slices, written from the rules alone. It counts everything anew at each step.

use super::super::*;
use crate::layout::Shape;

/// A job with cells, in the order in which they were placed.
#[derive(Clone)]
struct Placed {
    job: JobId,
    weight: u32,
    rectangle: Rectangle,
    takes_turns: bool,
}

/// A job that waits for cells.
#[derive(Clone, Copy)]
struct Waiting {
    job: JobId,
    request: Request,
    weight: u32,
    takes_turns: bool,
}

pub(super) struct Reference {
    mesh: Mesh,
    partitioner: Partitioner,
    most: usize,
    avoids: bool,
    placed: Vec<Placed>,
    waiting: Vec<Waiting>,
    slices: Vec<Vec<Placed>>,
}

impl Reference {
    pub(super) fn new(mesh: Mesh, partitioner: Partitioner, most: Option<u32>, avoids: bool) -> Reference {
        let most = most.map_or(usize::MAX, |most| most.max(1) as usize);
        Reference { mesh, partitioner, most, avoids, placed: Vec::new(), waiting: Vec::new(), slices: Vec::new() }
    }

    pub(super) fn enter(&mut self, job: JobId, request: Request, weight: u32, takes_turns: bool) -> Entry {
        self.waiting.push(Waiting { job, request, weight, takes_turns });
        self.settle();
        let placed = self.placed.iter().find(|placed| placed.job == job);
        placed.map_or(Entry::Waits, |placed| Entry::Placed(placed.rectangle))
    }

    pub(super) fn release(&mut self, job: JobId) -> Vec<(JobId, Rectangle)> {
        self.waiting.retain(|waiting| waiting.job != job);
        self.placed.retain(|placed| placed.job != job);
        self.slices.iter_mut().for_each(|slice| slice.retain(|placed| placed.job != job));
        self.settle()
    }

    /// `None` if the job waits.
    pub(super) fn set_takes_turns(&mut self, job: JobId, takes_turns: bool) -> Option<Vec<(JobId, Rectangle)>> {
        let placed = self.placed.iter_mut().find(|placed| placed.job == job)?;
        placed.takes_turns = takes_turns;
        let placed = placed.clone();
        if !takes_turns {
            self.slices.iter_mut().for_each(|slice| slice.retain(|placed| placed.job != job));
        } else if self.count(job) == 0 {
            let own = Request::At(placed.rectangle);
            let slice = self.find(own).map_or(self.slices.len(), |found| found.0);
            self.enter_first(placed, slice);
        }
        Some(self.settle())
    }

    pub(super) fn slices(&self) -> Vec<Slice> {
        let jobs = |slice: &[Placed]| slice.iter().map(|placed| (placed.job, placed.rectangle)).collect();
        let weight = |slice: &[Placed]| {
            let single = slice.iter().filter(|placed| self.count(placed.job) == 1);
            single.map(|placed| placed.weight.max(1)).max().unwrap()
        };
        self.slices.iter().map(|slice| Slice { jobs: jobs(slice), weight: weight(slice) }).collect()
    }

    pub(super) fn waiting(&self) -> Vec<JobId> {
        self.waiting.iter().map(|waiting| waiting.job).collect()
    }

    pub(super) fn set_weight(&mut self, job: JobId, weight: u32) {
        let placed = self.placed.iter_mut().chain(self.slices.iter_mut().flatten()).filter(|placed| placed.job == job);
        placed.for_each(|placed| placed.weight = weight);
        self.waiting.iter_mut().filter(|waiting| waiting.job == job).for_each(|waiting| waiting.weight = weight);
    }

    fn settle(&mut self) -> Vec<(JobId, Rectangle)> {
        let mut entered = Vec::new();
        loop {
            for slice in 0..self.slices.len() {
                for placed in self.placed.clone() {
                    if placed.takes_turns && self.has_room(&self.slices[slice], &placed) {
                        self.slices[slice].push(placed);
                    }
                }
            }
            let is_redundant =
                |table: &Reference, slice: &[Placed]| slice.iter().all(|placed| table.count(placed.job) > 1);
            while let Some(last) = (0..self.slices.len()).rfind(|&slice| is_redundant(self, &self.slices[slice])) {
                self.slices.remove(last);
            }
            if self.waiting.is_empty() || !self.place_first() {
                return entered;
            }
            let job = self.waiting.remove(0).job;
            entered.push((job, self.placed.last().unwrap().rectangle));
        }
    }

    fn place_first(&mut self) -> bool {
        let Waiting { job, request, weight, takes_turns } = self.waiting[0];
        let new = || Some((self.slices.len(), self.find_beside(&[], request)?));
        let found = self.find(request).or_else(|| new().filter(|new| !takes_turns || new.0 < self.most));
        if let Some((slice, rectangle)) = found {
            let placed = Placed { job, weight, rectangle, takes_turns };
            self.placed.push(placed.clone());
            if takes_turns {
                self.enter_first(placed, slice);
            }
        }
        found.is_some()
    }

    /// The first slice with room, with its multiple tasks or else without them. All this first
    /// without the cells that are avoided.
    fn find(&self, request: Request) -> Option<(usize, Rectangle)> {
        [(self.avoids, usize::MAX), (self.avoids, 1), (false, usize::MAX), (false, 1)].into_iter().find_map(
            |(avoids, most)| {
                self.slices.iter().enumerate().find_map(|(slice, jobs)| {
                    let stay = jobs.iter().filter(|placed| self.count(placed.job) <= most);
                    let stay: Vec<Rectangle> = stay.map(|placed| placed.rectangle).collect();
                    Some((slice, self.find_apart(&stay, request, avoids)?))
                })
            },
        )
    }

    /// Cells beside those that are taken, first without those that are avoided.
    fn find_beside(&self, taken: &[Rectangle], request: Request) -> Option<Rectangle> {
        [self.avoids, false].into_iter().find_map(|avoids| self.find_apart(taken, request, avoids))
    }

    fn find_apart(&self, taken: &[Rectangle], request: Request, avoids: bool) -> Option<Rectangle> {
        let mut occupancy = Occupancy::new(self.mesh);
        taken.iter().for_each(|&rectangle| assert!(occupancy.take(rectangle)));
        let beside = self.placed.iter().filter(|placed| avoids && !placed.takes_turns);
        for cell in beside.flat_map(|placed| placed.rectangle.cells(self.mesh)) {
            let columns = self.mesh.shape().columns;
            let one = Shape { columns: 1, rows: 1 };
            occupancy.take(Rectangle { column: cell.0 % columns, row: cell.0 / columns, shape: one });
        }
        self.partitioner.find(&occupancy, request)
    }

    fn enter_first(&mut self, new: Placed, slice: usize) {
        if slice == self.slices.len() {
            self.slices.push(Vec::new());
        }
        let mut first = std::mem::take(&mut self.slices[slice]);
        first.retain(|placed| self.has_room(std::slice::from_ref(placed), &new));
        first.push(new.clone());
        self.slices[slice] = first;
        for slice in 0..self.slices.len() {
            if self.has_room(&self.slices[slice], &new) {
                self.slices[slice].push(new.clone());
            }
        }
    }

    /// The number of slices that have a job.
    fn count(&self, job: JobId) -> usize {
        self.slices.iter().flatten().filter(|placed| placed.job == job).count()
    }

    fn has_room(&self, slice: &[Placed], new: &Placed) -> bool {
        let taken = |cell| slice.iter().any(|placed| placed.rectangle.cells(self.mesh).any(|other| other == cell));
        !new.rectangle.cells(self.mesh).any(taken)
    }
}
