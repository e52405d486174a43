//! The raw results: one line per run.

use std::path::Path;

use rowlock_wait::Statistics;
use serde::{Deserialize, Serialize};

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outcome {
    /// The number of rounds of a barrier, or of turns at a lock.
    pub(crate) count: u64,
    pub(crate) seconds: f64,
    /// The successful spin rate.
    pub(crate) ssr_percent: Option<f64>,
    pub(crate) spins: Option<u64>,
    pub(crate) yields: Option<u64>,
    pub(crate) blocks: Option<u64>,
    pub(crate) strikes: Option<u64>,
    /// For locks: the turns of the thread with the fewest, divided by the mean.
    pub(crate) least_share: Option<f64>,
}

impl Outcome {
    /// Adds the statistics of one of rowlock's objects.
    pub(crate) fn with(self, statistics: &Statistics) -> Outcome {
        Outcome {
            ssr_percent: statistics.ssr_percent(),
            spins: Some(statistics.spins),
            yields: Some(statistics.yields),
            blocks: Some(statistics.blocks),
            strikes: Some(statistics.overload_marks),
            ..self
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The start of the benchmark: seconds since 1970.
    pub(crate) batch: u64,
    pub(crate) arm: String,
    /// The copy of the arm, from one, if it is listed more than once.
    pub(crate) copy: u32,
    pub(crate) threads: u32,
    pub(crate) hogs: u32,
    /// As it is written in a cell.
    pub(crate) work: String,
    /// Arms with the same number ran in sequence.
    pub(crate) repetition: u32,
    /// Rounds, or turns at a lock, per second. A run that was killed counts as one in all its time.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    /// CPU time of the whole process.
    pub(crate) cpu_seconds: f64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    /// The share of the machine that other programs used, without hogs.
    pub(crate) foreign: Option<f64>,
    pub(crate) ssr_percent: Option<f64>,
    pub(crate) spins: Option<u64>,
    pub(crate) yields: Option<u64>,
    pub(crate) blocks: Option<u64>,
    pub(crate) strikes: Option<u64>,
    pub(crate) least_share: Option<f64>,
}

impl Run {
    /// Adds the result of the run. `None` if it was killed after this many seconds.
    pub(crate) fn with(self, outcome: Option<Outcome>, took: f64) -> Run {
        let Some(outcome) = outcome else { return Run { rate: 1.0 / took, seconds: took, ..self } };
        Run {
            rate: outcome.count.max(1) as f64 / outcome.seconds,
            seconds: outcome.seconds,
            ssr_percent: outcome.ssr_percent,
            spins: outcome.spins,
            yields: outcome.yields,
            blocks: outcome.blocks,
            strikes: outcome.strikes,
            least_share: outcome.least_share,
            ..self
        }
    }
}

/// Why raw results could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub(crate) struct Error {
    path: String,
    #[source]
    why: csv::Error,
}

fn at(path: &Path) -> impl Fn(csv::Error) -> Error {
    let path = path.display().to_string();
    move |why| Error { path: path.clone(), why }
}

/// A file to which runs are appended.
pub(crate) struct File {
    writer: csv::Writer<std::fs::File>,
    path: std::path::PathBuf,
}

impl File {
    /// Opens or creates the file, with a header if it is empty.
    pub(crate) fn append(path: &Path) -> Result<File, Error> {
        let open = || {
            let file = sys::files::append(path)?;
            let empty = file.metadata()?.len() == 0;
            Ok(csv::WriterBuilder::new().has_headers(empty).from_writer(file))
        };
        let writer = open().map_err(|why: std::io::Error| at(path)(why.into()))?;
        Ok(File { writer, path: path.to_owned() })
    }

    /// Appends a run. It is in the file when this returns.
    pub(crate) fn add(&mut self, run: &Run) -> Result<(), Error> {
        let added = self.writer.serialize(run).and_then(|()| self.writer.flush().map_err(csv::Error::from));
        added.map_err(at(&self.path))
    }
}

/// Reads the runs of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Run>, Error> {
    csv::Reader::from_path(path).and_then(|reader| reader.into_deserialize().collect()).map_err(at(path))
}
