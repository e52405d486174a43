//! The description of a pipeline: its stages in order, its buffers, and its default structure.

use policy::priority::StageKind;

use crate::buffer::Buffer;
use crate::scheduling::Scheduling;
use crate::stage::{Flow, Result, Round, Stage};
use crate::structure::{Fork, RequestedAttribute, StageTurn, Structure};

/// The default number of buffers.
const BUFFERS: usize = 8;

/// The default size of a buffer, in bytes.
const BLOCK: usize = 64 * 1024;

/// A sequence of stages through which buffers travel.
///
/// Buffers are allocated once. The first stage gets a free one and fills it. Each stage passes it
/// on when it returns. When the last stage has returned it, it is free again. So the number of
/// buffers limits the work in flight.
///
/// Stages that may block (of the kinds `io` and `communicate`) have a thread each. Compute stages
/// are run by workers, one for each CPU: a worker takes a buffer through as many stages as it can.
/// All of that can change without changing a stage: with [`structured`](Pipeline::structured), and
/// from outside with the variable `ROWLOCK_PIPELINE`.
#[must_use = "a pipeline does nothing until it is run"]
pub struct Pipeline<'a, T = ()> {
    pub(crate) name: String,
    pub(crate) buffers: usize,
    pub(crate) block: usize,
    pub(crate) rounds: Option<u64>,
    pub(crate) stages: Vec<StageSpec<'a, T>>,
    /// The default structure, as its stages were described.
    pub(crate) own: Structure,
    /// The structure that the program lays over it.
    pub(crate) structured: Structure,
    pub(crate) shows_progress: bool,
}

/// The description of a stage.
pub(crate) struct StageSpec<'a, T> {
    pub(crate) name: String,
    pub(crate) kind: StageKind,
    pub(crate) maker: StageSource<'a, T>,
    pub(crate) auxiliary: usize,
}

impl<T> StageSpec<'_, T> {
    pub(crate) fn can_fork(&self) -> bool {
        matches!(self.maker, StageSource::Many(_))
    }

    pub(crate) fn is_junction(&self) -> bool {
        matches!(self.maker, StageSource::Junction)
    }
}

/// The source of the copies of a stage.
pub(crate) enum StageSource<'a, T> {
    /// A single one.
    Single(Box<dyn Stage<T> + 'a>),
    /// As many as requested.
    Many(Box<dyn FnMut() -> Box<dyn Stage<T> + 'a> + 'a>),
    /// The place of a junction.
    Junction,
}

impl<'a> Pipeline<'a> {
    /// A pipeline of this name, without stages, whose buffers have no tag.
    pub fn new(name: impl Into<String>) -> Pipeline<'a> {
        Pipeline::tagged(name)
    }
}

impl<'a, T: Default + Send + 'a> Pipeline<'a, T> {
    /// A pipeline of this name, without stages, whose buffers have a tag.
    pub fn tagged(name: impl Into<String>) -> Pipeline<'a, T> {
        let (name, own, structured) = (name.into(), Structure::default(), Structure::default());
        let (buffers, block, rounds, stages) = (BUFFERS, BLOCK, None, Vec::new());
        Pipeline { name, buffers, block, rounds, stages, own, structured, shows_progress: false }
    }

    /// Sets the number of buffers and their size, which may be 0 if only the tags matter. The
    /// default is 8 of 64 KiB.
    pub fn buffers(mut self, count: usize, bytes: usize) -> Self {
        (self.buffers, self.block) = (count, bytes);
        self
    }

    /// Sets the number of rounds: the first stage is called this often, and its last call knows
    /// that it is the last. Without this, the first stage ends the stream.
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Adds a stage that reads or writes.
    pub fn io<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Io, function)
    }

    /// Adds a stage that computes, one buffer at a time.
    pub fn compute<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Compute, function)
    }

    /// Adds a stage that sends or receives.
    pub fn communicate<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Communicate, function)
    }

    /// Adds a stage that may work on several buffers at once, in copies of this function. Buffers
    /// leave it in the order in which they came, unless it is [`unordered`](Pipeline::unordered).
    pub fn forkable<F>(self, name: &str, kind: StageKind, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Clone + Send + 'a,
    {
        self.forkable_stage(name, kind, move || function.clone())
    }

    /// Adds a stage that implements [`Stage`].
    pub fn stage(self, name: &str, kind: StageKind, stage: impl Stage<T> + 'a) -> Self {
        self.add(name, kind, StageSource::Single(Box::new(stage)))
    }

    /// Adds a stage that may work on several buffers at once. `make` creates its copies.
    pub fn forkable_stage<S: Stage<T> + 'a>(
        self,
        name: &str,
        kind: StageKind,
        mut make: impl FnMut() -> S + 'a,
    ) -> Self {
        self.add(name, kind, StageSource::Many(Box::new(move || Box::new(make()))))
    }

    /// Joins the pipeline at the [junction](crate::Program::junction) of this name.
    pub fn join_at(self, junction: &str) -> Self {
        self.add(junction, StageKind::Compute, StageSource::Junction)
    }

    fn add(mut self, name: &str, kind: StageKind, maker: StageSource<'a, T>) -> Self {
        self.stages.push(StageSpec { name: name.to_owned(), kind, maker, auxiliary: 0 });
        self
    }

    /// Sets the number of copies of the stage added last. By default a forkable compute stage has
    /// as many as there are workers, and others have one.
    pub fn fork(mut self, copies: usize) -> Self {
        self.change_last_fork(|fork| fork.copies = copies);
        self
    }

    /// Lets the copies of the stage added last pass buffers on in the order in which they finish.
    /// The last buffer remains the last.
    pub fn unordered(mut self) -> Self {
        self.change_last_fork(|fork| fork.ordered = false);
        self
    }

    /// Gives each copy of the stage added last this many auxiliary buffers.
    pub fn auxiliary(mut self, count: usize) -> Self {
        if let Some(last) = self.stages.last_mut() {
            last.auxiliary = count;
        }
        self
    }

    /// Requests scheduling for the stage added last, which then gets its own thread. Replaces its
    /// earlier requests for the same attributes.
    pub fn scheduled(mut self, scheduling: &Scheduling) -> Self {
        if let Some(stage) = self.last_name() {
            let attribute = |(key, value)| RequestedAttribute { key, stage: stage.clone(), value };
            let requested = scheduling.requested().into_iter().map(attribute).collect();
            self.own = Structure { requested, ..Structure::default() }.laid_over(&self.own);
        }
        self
    }

    /// Gives the stage added last its own thread, even if it only computes.
    pub fn own_thread(mut self) -> Self {
        let turns = self.last_name().map(|stage| vec![StageTurn { stage, repeat: 1 }]);
        self.own.thread.extend(turns.filter(|turns| !self.own.thread.contains(turns)));
        self
    }

    /// Runs the stage added last as one with the stage before it, without a queue in between. A
    /// structure can [split](Structure::split) them.
    pub fn fused(mut self) -> Self {
        if let [.., before, last] = &self.stages[..]
            && !self.own.fuse.iter().flatten().any(|name| *name == last.name)
        {
            let (before, last) = (before.name.clone(), last.name.clone());
            match self.own.fuse.iter_mut().find(|group| group.last() == Some(&before)) {
                Some(group) => group.push(last),
                None => self.own.fuse.push(vec![before, last]),
            }
        }
        self
    }

    /// Lays a structure over the previous ones. The variable `ROWLOCK_PIPELINE` overrides them all.
    pub fn structured(mut self, structure: &Structure) -> Self {
        self.structured = structure.laid_over(&self.structured);
        self
    }

    /// Shows the progress of the run, and how busy each stage of its program is, if standard error
    /// is a terminal.
    pub fn progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    fn last_name(&self) -> Option<String> {
        self.stages.last().map(|stage| stage.name.clone())
    }

    fn change_last_fork(&mut self, change: impl FnOnce(&mut Fork)) {
        let Some(stage) = self.last_name() else { return };
        let earlier = self.own.fork.pop_if(|fork| fork.stage == stage);
        // Zero means the default number of copies.
        let mut fork = earlier.unwrap_or(Fork { stage, copies: 0, ordered: true });
        change(&mut fork);
        self.own.fork.push(fork);
    }
}
