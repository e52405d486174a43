//! The structure of a pipeline: everything that configuration can change without a change of its
//! stages.
//!
//! Its text format is one line of `key=value` words, in any order:
//!
//! ```
//! # use rowlock_pipeline as pipeline;
//! use pipeline::structure::Structure;
//!
//! let own: Structure = "buffers=8 block=128KiB fork=compress*2".parse()?;
//! let tried: Structure = "fork=compress*4:unordered thread=read*2,write*2".parse()?;
//! assert_eq!(
//!     tried.laid_over(&own).to_string(),
//!     "buffers=8 block=128KiB thread=read*2,write*2 fork=compress*4:unordered"
//! );
//! # Ok::<(), pipeline::structure::StructureError>(())
//! ```
//!
//! [`KEYS`] lists all keys. The printed form parses to the same structure if all names in it are
//! valid ([`is_name`]).

mod keys;
mod read;

use std::collections::BTreeSet;
use std::fmt;

use policy::priority::{self, StageKind};
use policy::waiting;

pub use keys::{KEYS, StructureKey};
pub use read::{StructureError, did_you_mean, parse_size};
pub(crate) use read::{hint, whole};

/// A structure. Unset parts have the program's values, or else the defaults.
///
/// Stages are named as in the program. Every stage runs in one place only: [`Structure::check`]
/// finds contradictions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// The number of buffers, which limits the work in flight.
    pub buffers: Option<usize>,
    /// The size of a buffer, in bytes.
    pub block: Option<usize>,
    /// The number of workers that run the compute stages.
    pub workers: Option<usize>,
    /// The stages that have their own threads.
    pub threads: Option<Threads>,
    /// Multistage threads: the stages of each, in order. A stage alone has its own thread.
    pub thread: Vec<Vec<StageTurn>>,
    /// The stages that run in several copies.
    pub fork: Vec<Fork>,
    /// Neighbours that run as one stage, at least two each, in the order of the pipeline.
    pub fuse: Vec<Vec<String>>,
    /// Stages that are separated from the one before them, on a thread or in a fused group.
    pub split: Vec<String>,
    /// The rule that raises stages.
    pub priority: Option<priority::PriorityRule>,
    /// The requested scheduling of single stages.
    pub requested: Vec<RequestedAttribute>,
    /// How threads wait for buffers.
    pub waiting: Option<waiting::WaitingRule>,
    /// The stages of this kind do their work twice, to show its cost.
    pub double: Option<StageKind>,
}

/// The stages that have their own threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threads {
    /// All stages.
    Each,
    /// Stages that may block: all kinds except `compute`, whose stages are run by workers.
    Blocking,
}

/// The turn of a stage on a thread that runs several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StageTurn {
    /// The stage.
    pub stage: String,
    /// How many buffers it processes before the next stage's turn. At least one.
    pub repeat: usize,
}

/// A stage that runs in copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fork {
    /// The stage.
    pub stage: String,
    /// The number of copies. At least one.
    pub copies: usize,
    /// Whether buffers leave in the order in which they came.
    pub ordered: bool,
}

/// One requested attribute of a stage's scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestedAttribute {
    /// The attribute: a key with [`StructureKey::is_scheduling_attribute`].
    pub key: &'static str,
    /// The stage.
    pub stage: String,
    /// The requested value. Empty for `yield`.
    pub value: String,
}

/// Whether a structure can contain a stage of this name. It must not be empty, and must contain
/// neither blanks nor any of `= * , + :`.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"=*,+:".contains(c);
    !name.is_empty() && name.chars().all(is_plain)
}

impl Structure {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Structure::default()
    }

    /// Combines two structures. The values of `self` override those of `base`.
    ///
    /// A stage that `self` puts on a thread or fuses leaves its group in `base`. A stage that
    /// `self` splits off divides its group in `base`. The rest of each group stays together.
    pub fn laid_over(&self, base: &Structure) -> Structure {
        let placed = |stage: &str| self.threaded().chain(self.fused()).any(|name| name == stage);
        let joined = |stage: &str| self.joined().any(|name| name == stage);
        let split = |stage: &str| self.split.iter().any(|name| name == stage);
        let left = |group: &[StageTurn]| left_of(group, |turn| placed(&turn.stage), |turn| split(&turn.stage));
        let thread = base.thread.iter().flat_map(|turns| left(turns));
        let fuse = base.fuse.iter().flat_map(|names| left_of(names, |name| placed(name), |name| split(name)));
        let fork = base.fork.iter().filter(|fork| self.fork.iter().all(|own| own.stage != fork.stage));
        let is_own = |key: &str, stage: &str| self.requested.iter().any(|own| own.key == key && own.stage == stage);
        let requested = base.requested.iter().filter(|attribute| !is_own(attribute.key, &attribute.stage));
        let splits = base.split.iter().filter(|name| !split(name) && !joined(name));
        Structure {
            buffers: self.buffers.or(base.buffers),
            block: self.block.or(base.block),
            workers: self.workers.or(base.workers),
            threads: self.threads.or(base.threads),
            thread: thread.chain(self.thread.iter().cloned()).collect(),
            fork: fork.chain(&self.fork).cloned().collect(),
            fuse: fuse.filter(|names| names.len() > 1).chain(self.fuse.iter().cloned()).collect(),
            split: splits.chain(&self.split).cloned().collect(),
            priority: self.priority.or(base.priority),
            requested: requested.chain(&self.requested).cloned().collect(),
            waiting: self.waiting.or(base.waiting),
            double: self.double.or(base.double),
        }
    }

    /// The names of all stages mentioned, with repetitions.
    pub fn stages(&self) -> impl Iterator<Item = &str> {
        let forked = self.fork.iter().map(|fork| fork.stage.as_str());
        let requested = self.requested.iter().map(|attribute| attribute.stage.as_str());
        let split = self.split.iter().map(String::as_str);
        self.threaded().chain(forked).chain(self.fused()).chain(split).chain(requested)
    }

    /// Checks that all mentioned stages are among these.
    ///
    /// # Errors
    /// The first unknown name, with the most similar stage.
    pub fn check_stages(&self, stages: &[&str]) -> Result<(), StructureError> {
        let Some(stage) = self.stages().find(|name| !stages.contains(name)) else { return Ok(()) };
        let near = hint(stage, stages.iter().copied());
        // A junction is a stage in each of its pipelines. List it once.
        let is_first = |at: &usize| !stages[..*at].contains(&stages[*at]);
        let stages: Vec<&str> = (0..stages.len()).filter(is_first).map(|at| stages[at]).collect();
        Err(StructureError(format!("there is no stage `{stage}`{near}; the stages are {}", stages.join(", "))))
    }

    /// Checks for contradictions: a stage in two places, forked twice, fused with the stage that it
    /// is split from, or with two values of one attribute; and for numbers that are zero. A parsed
    /// structure has none.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), StructureError> {
        let scalars = [("buffers", self.buffers), ("block", self.block), ("workers", self.workers)];
        let scalars = scalars.into_iter().filter_map(|(key, number)| Some((key, number?)));
        let repeats = self.thread.iter().flatten().map(|turn| ("thread", turn.repeat));
        let copies = self.fork.iter().map(|fork| ("fork", fork.copies));
        if let Some((key, _)) = scalars.chain(repeats).chain(copies).find(|&(_, number)| number == 0) {
            return Err(StructureError(format!("`{key}` is zero, and must be at least one")));
        }
        if let Some(group) = self.fuse.iter().find(|group| group.len() < 2) {
            let stage = group.first().map_or("", String::as_str);
            let what = format!("stage `{stage}` is fused with no other: fusing takes two, as in `fuse={stage}+next`");
            return Err(StructureError(what));
        }
        let attributes = self.requested.iter().map(|attribute| (attribute.stage.as_str(), attribute.key));
        let (requested, key) = first_repeated(attributes).unzip();
        let given_twice = format!("given `{}` twice", key.unwrap_or_default());
        let is_split = |stage: &&str| self.split.iter().any(|name| name == stage);
        // A thread may run a group of fused stages, named by the first one.
        let is_threaded = |stage: &&str| self.threaded().any(|name| name == *stage);
        let problems = [
            (first_repeated(self.threaded()), "put on a thread twice"),
            (first_repeated(self.fused()), "fused twice"),
            (first_repeated(self.fork.iter().map(|fork| fork.stage.as_str())), "forked twice"),
            (first_repeated(self.split.iter().map(String::as_str)), "split off twice"),
            (requested, &given_twice),
            (self.joined().find(is_split), "both split from and joined to the stage before it"),
            (self.fused_on().find(is_threaded), "both fused with the stage before it and put on a thread"),
        ];
        match problems.into_iter().find_map(|(stage, what)| Some((stage?, what))) {
            None => Ok(()),
            Some((stage, what)) => Err(StructureError(format!("stage `{stage}` is {what}, which is contradictory"))),
        }
    }

    fn threaded(&self) -> impl Iterator<Item = &str> {
        self.thread.iter().flatten().map(|turn| turn.stage.as_str())
    }

    fn fused(&self) -> impl Iterator<Item = &str> {
        self.fuse.iter().flatten().map(String::as_str)
    }

    /// The stages that are fused with the one before them.
    fn fused_on(&self) -> impl Iterator<Item = &str> {
        self.fuse.iter().flat_map(|group| group.iter().skip(1)).map(String::as_str)
    }

    /// The stages that are joined to the one before them, on a thread or in a fused group.
    fn joined(&self) -> impl Iterator<Item = &str> {
        let turns = self.thread.iter().flat_map(|turns| turns.iter().skip(1));
        turns.map(|turn| turn.stage.as_str()).chain(self.fused_on())
    }
}

/// The remaining pieces of a group, without some members and divided before others.
fn left_of<T: Clone>(group: &[T], is_gone: impl Fn(&T) -> bool, is_cut: impl Fn(&T) -> bool) -> Vec<Vec<T>> {
    let mut pieces = vec![Vec::new()];
    for member in group {
        if is_cut(member) {
            pieces.push(Vec::new());
        }
        if let Some(piece) = pieces.last_mut().filter(|_| !is_gone(member)) {
            piece.push(member.clone());
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn first_repeated<T: Ord + Copy>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.find(|&item| !seen.insert(item))
}

impl Threads {
    /// Both values.
    pub const ALL: [Threads; 2] = [Threads::Each, Threads::Blocking];
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Threads::Each => "each",
            Threads::Blocking => "blocking",
        })
    }
}

impl fmt::Display for StageTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repeat {
            1 => f.write_str(&self.stage),
            repeat => write!(f, "{}*{repeat}", self.stage),
        }
    }
}

impl fmt::Display for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}{}", self.stage, self.copies, if self.ordered { "" } else { ":unordered" })
    }
}

/// One line, in the order of [`KEYS`].
impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut say = |key: &str, value: String| words.push(format!("{key}={value}"));
        let text = |item: &dyn fmt::Display| item.to_string();
        self.buffers.iter().for_each(|buffers| say("buffers", text(buffers)));
        self.block.iter().for_each(|&block| say("block", format_size(block)));
        self.workers.iter().for_each(|workers| say("workers", text(workers)));
        self.threads.iter().for_each(|threads| say("threads", text(threads)));
        for turns in &self.thread {
            say("thread", turns.iter().map(|turn| text(turn)).collect::<Vec<_>>().join(","));
        }
        self.fork.iter().for_each(|fork| say("fork", text(fork)));
        self.fuse.iter().for_each(|group| say("fuse", group.join("+")));
        self.split.iter().for_each(|stage| say("split", stage.clone()));
        self.priority.iter().for_each(|rule| say("priority", text(rule)));
        for RequestedAttribute { key, stage, value } in &self.requested {
            say(key, if value.is_empty() { stage.clone() } else { format!("{stage}:{value}") });
        }
        // One word, with colons for blanks.
        self.waiting.iter().for_each(|rule| say("waiting", rule.to_string().replace(' ', ":")));
        self.double.iter().for_each(|kind| say("double", text(kind)));
        f.pad(&words.join(" "))
    }
}

/// Formats a size in the largest unit of which it is a multiple.
pub fn format_size(bytes: usize) -> String {
    match (bytes.is_multiple_of(1 << 20), bytes.is_multiple_of(1 << 10)) {
        (true, _) => format!("{}MiB", bytes >> 20),
        (_, true) => format!("{}KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests;
