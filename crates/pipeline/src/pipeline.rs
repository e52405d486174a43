//! The description of a pipeline: its stages in order, its buffers, and how it is run unless configuration says otherwise.

use policy::priority::StageKind;

use crate::buffer::Buffer;
use crate::ending::Canceller;
use crate::error::Error;
use crate::program::Program;
use crate::report::RunReport;
use crate::scheduling::Scheduling;
use crate::stage::{Flow, Function, Result, Round, Stage};
use crate::structure::{Fork, RequestedAttribute, StageTurn, Structure};

/// How many buffers a pipeline has that does not say.
const BUFFERS: usize = 8;

/// How large they are, in bytes.
const BLOCK: usize = 64 * 1024;

/// A row of stages through which buffers travel.
///
/// Buffers are made once. The first stage gets a free one and fills it; each stage passes it on when it returns; and when the last stage has
/// returned it, it is free again. So there is never more in flight than there are buffers.
///
/// Stages that may block (of the kinds `io` and `communicate`) have a thread each, and compute stages are carried by workers, as many as there are CPUs: a worker takes
/// a buffer through as many stages as it can. All of that can be changed without touching a stage: by
/// [`structured`](Pipeline::structured), and from outside by the variable `ROWLOCK_PIPELINE`.
///
/// ```
/// use rowlock_pipeline::{Flow, Pipeline};
///
/// let text = b"the quick brown fox\njumps over\nthe lazy dog\n";
/// let (mut rest, mut lines) = (&text[..], 0);
/// Pipeline::new("lines")
///     .buffers(4, 16)
///     .io("read", |_round, buffer| {
///         let read = buffer.fill_from(&mut rest)?;
///         Ok(if read == 0 { Flow::End } else { Flow::Convey })
///     })
///     .compute("count", |_round, buffer| {
///         lines += buffer.filled().iter().filter(|&&byte| byte == b'\n').count();
///         Ok(Flow::Convey)
///     })
///     .run()?;
/// assert_eq!(lines, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a pipeline does nothing until it is run"]
pub struct Pipeline<'a, T = ()> {
    pub(crate) name: String,
    pub(crate) buffers: usize,
    pub(crate) block: usize,
    pub(crate) rounds: Option<u64>,
    pub(crate) stages: Vec<Spec<'a, T>>,
    /// How it is run unless somebody says otherwise, as its stages were described.
    pub(crate) own: Structure,
    /// What the program says otherwise.
    pub(crate) structured: Structure,
    pub(crate) shows_progress: bool,
}

/// A stage as described.
pub(crate) struct Spec<'a, T> {
    pub(crate) name: String,
    pub(crate) kind: StageKind,
    pub(crate) maker: Maker<'a, T>,
    pub(crate) auxiliary: usize,
}

/// Where the copies of a stage come from.
pub(crate) enum Maker<'a, T> {
    /// There is one.
    Single(Box<dyn Stage<T> + 'a>),
    /// As many as wanted.
    Many(Box<dyn FnMut() -> Box<dyn Stage<T> + 'a> + 'a>),
    /// Another part of the program, which accepts and conveys by itself.
    Junction,
}

impl<'a> Pipeline<'a> {
    /// A pipeline of this name, with no stages yet, whose buffers carry bytes only.
    pub fn new(name: impl Into<String>) -> Pipeline<'a> {
        Pipeline::tagged(name)
    }
}

impl<'a, T: Default + Send + 'a> Pipeline<'a, T> {
    /// A pipeline of this name, with no stages yet, whose buffers carry a tag beside the bytes.
    pub fn tagged(name: impl Into<String>) -> Pipeline<'a, T> {
        let (own, structured) = (Structure::default(), Structure::default());
        Pipeline {
            name: name.into(),
            buffers: BUFFERS,
            block: BLOCK,
            rounds: None,
            stages: Vec::new(),
            own,
            structured,
            shows_progress: false,
        }
    }

    /// So many buffers, each of so many bytes, which may be none where all that matters is in the tag. Without this, 8 of 64 KiB.
    pub fn buffers(mut self, count: usize, bytes: usize) -> Self {
        (self.buffers, self.block) = (count, bytes);
        self
    }

    /// So many rounds: the first stage is called as often, and told of the last. Without this it goes on until the first stage says that it is over.
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.rounds = Some(rounds);
        self
    }

    /// Adds a stage that reads or writes.
    pub fn io<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Io, Function::new(function))
    }

    /// Adds a stage that computes, one buffer at a time.
    pub fn compute<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Compute, Function::new(function))
    }

    /// Adds a stage that sends or receives.
    pub fn communicate<F>(self, name: &str, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Send + 'a,
    {
        self.stage(name, StageKind::Communicate, Function::new(function))
    }

    /// Adds a stage that may work on several buffers at once, in copies of this function. Unless [`unordered`](Pipeline::unordered), buffers leave
    /// it in the order in which they came.
    pub fn forkable<F>(self, name: &str, kind: StageKind, function: F) -> Self
    where
        F: FnMut(&mut Round<'_, T>, &mut Buffer<T>) -> Result<Flow> + Clone + Send + 'a,
    {
        self.forkable_stage(name, kind, move || Function::new(function.clone()))
    }

    /// Adds a stage that is more than a function.
    pub fn stage(self, name: &str, kind: StageKind, stage: impl Stage<T> + 'a) -> Self {
        self.add(name, kind, Maker::Single(Box::new(stage)))
    }

    /// Adds a stage that may work on several buffers at once, in as many copies as this makes.
    pub fn forkable_stage<S: Stage<T> + 'a>(
        self,
        name: &str,
        kind: StageKind,
        mut make: impl FnMut() -> S + 'a,
    ) -> Self {
        self.add(name, kind, Maker::Many(Box::new(move || Box::new(make()))))
    }

    /// Adds the place where this pipeline goes through a [junction](Program::junction) of that name.
    pub fn join_at(self, junction: &str) -> Self {
        self.add(junction, StageKind::Compute, Maker::Junction)
    }

    fn add(mut self, name: &str, kind: StageKind, maker: Maker<'a, T>) -> Self {
        self.stages.push(Spec { name: name.to_owned(), kind, maker, auxiliary: 0 });
        self
    }

    /// The stage added last runs in so many copies. Without this a forkable compute stage has as many as there are workers, and others have one.
    pub fn fork(mut self, copies: usize) -> Self {
        let ordered = self.fork_of_last().is_none_or(|fork| fork.ordered);
        self.set_fork(copies, ordered);
        self
    }

    /// The copies of the stage added last pass buffers on as they finish them, in any order; only the last one remains the last.
    pub fn unordered(mut self) -> Self {
        // Zero stands for as many as there would be.
        let copies = self.fork_of_last().map_or(0, |fork| fork.copies);
        self.set_fork(copies, false);
        self
    }

    /// The stage added last, each copy of it, gets so many buffers of its own beside the one that it works on.
    pub fn auxiliary(mut self, count: usize) -> Self {
        if let Some(last) = self.stages.last_mut() {
            last.auxiliary = count;
        }
        self
    }

    /// The stage added last is to be scheduled like this, for which it gets a thread of its own.
    pub fn scheduled(mut self, scheduling: &Scheduling) -> Self {
        if let Some(stage) = self.last_name() {
            let requested = scheduling.requested().into_iter();
            self.own.requested.extend(requested.map(|(key, value)| RequestedAttribute {
                key,
                stage: stage.clone(),
                value,
            }));
        }
        self
    }

    /// The stage added last gets a thread of its own, though it only computes.
    pub fn own_thread(mut self) -> Self {
        self.own.thread.extend(self.last_name().map(|stage| vec![StageTurn { stage, repeat: 1 }]));
        self
    }

    /// The stage added last is run as one with the one before it, with no queue in between, until somebody [splits](Structure::split) them.
    pub fn fused(mut self) -> Self {
        if let [.., before, last] = &self.stages[..] {
            let (before, last) = (before.name.clone(), last.name.clone());
            match self.own.fuse.iter_mut().find(|group| group.last() == Some(&before)) {
                Some(group) => group.push(last),
                None => self.own.fuse.push(vec![before, last]),
            }
        }
        self
    }

    /// Lays a structure over what was said so far. The variable `ROWLOCK_PIPELINE` is laid over both.
    pub fn structured(mut self, structure: &Structure) -> Self {
        self.structured = structure.laid_over(&self.structured);
        self
    }

    /// Shows on the terminal, if the standard error output is one, how far the run is and how busy its stages are.
    pub fn progress(mut self) -> Self {
        self.shows_progress = true;
        self
    }

    /// Runs it to its end, in threads of its own, and waits for that.
    ///
    /// # Errors
    /// [`Error::Structure`] where it cannot be built as described, [`Error::Memory`] where there is none for the buffers, before anything is begun.
    /// [`Error::Failed`] with the first stage that returned an error or panicked, where the run was cancelled, or all its threads wait for each
    /// other. Then too all stages have been cleaned up and all threads are gone.
    pub fn run(self) -> std::result::Result<RunReport, Error> {
        Program::of_one(self).run()
    }

    /// As [`Pipeline::run`], to be ended early by this.
    ///
    /// # Errors
    /// As [`Pipeline::run`].
    pub fn run_until(self, canceller: &Canceller) -> std::result::Result<RunReport, Error> {
        Program::of_one(self).run_until(canceller)
    }

    fn last_name(&self) -> Option<String> {
        self.stages.last().map(|stage| stage.name.clone())
    }

    fn fork_of_last(&self) -> Option<&Fork> {
        let last = &self.stages.last()?.name;
        self.own.fork.iter().find(|fork| fork.stage == *last)
    }

    fn set_fork(&mut self, copies: usize, ordered: bool) {
        if let Some(stage) = self.last_name() {
            self.own.fork.retain(|fork| fork.stage != stage);
            self.own.fork.push(Fork { stage, copies, ordered });
        }
    }
}
