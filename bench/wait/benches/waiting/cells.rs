//! The cells: the number of threads at a barrier or lock, the number of hogs beside them, and the
//! work in between.

use std::fmt;
use std::str::FromStr;

use policy::Span;
use serde::{Deserialize, Serialize};

/// The work of threads between two waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Work between two waits at a barrier.
    Meet {
        /// The mean of the work.
        grain: Span,
    },
    /// Work inside and outside of a lock.
    Lock {
        /// The mean of the work with the lock held.
        inside: Span,
        /// The mean of the work before acquiring it again.
        outside: Span,
    },
}

/// A setting in which all arms run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) threads: u32,
    /// Processes that always compute.
    pub(crate) hogs: u32,
    pub(crate) work: Work,
}

impl Cell {
    /// Barriers: 2, 3, 4, 8 threads with 0 and 2 hogs and 2, 4, 8 with 1 and 4, with work of 0.5,
    /// 5, 50 and 500 us.
    pub(crate) fn meetings() -> Vec<Cell> {
        let grains = [500, 5_000, 50_000, 500_000].map(Span::from_nanos);
        let threads = |hogs| if hogs % 2 == 0 && hogs < 4 { &[2, 3, 4, 8][..] } else { &[2, 4, 8] };
        let teams = [0, 1, 2, 4].into_iter().flat_map(|hogs| threads(hogs).iter().map(move |&threads| (threads, hogs)));
        teams
            .flat_map(|(threads, hogs)| grains.map(|grain| Cell { threads, hogs, work: Work::Meet { grain } }))
            .collect()
    }

    /// An uncontended lock, and 2, 4, 8, 16 threads with 0, 1 and 2 hogs with short and with long
    /// sections.
    pub(crate) fn locks() -> Vec<Cell> {
        let section =
            |inside, outside| Work::Lock { inside: Span::from_nanos(inside), outside: Span::from_nanos(outside) };
        let mut cells = vec![Cell { threads: 1, hogs: 0, work: section(0, 0) }];
        for hogs in [0, 1, 2] {
            for threads in [2, 4, 8, 16] {
                cells.extend([section(100, 400), section(1_000, 5_000)].map(|work| Cell { threads, hogs, work }));
            }
        }
        cells
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Meet { grain } => grain.fmt(f),
            Work::Lock { inside, outside } => write!(f, "{inside}/{outside}"),
        }
    }
}

impl FromStr for Work {
    type Err = policy::ParseSpanError;

    fn from_str(text: &str) -> Result<Work, Self::Err> {
        match text.split_once('/') {
            None => Ok(Work::Meet { grain: text.parse()? }),
            Some((inside, outside)) => Ok(Work::Lock { inside: inside.parse()?, outside: outside.parse()? }),
        }
    }
}

/// Why a text is not a list of cells.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParseCellsError {
    #[error(
        "`{0}` is not a cell: write THREADS:HOGS:GRAIN, as in 2:0:0.5us, or THREADS:HOGS:INSIDE/OUTSIDE; or all, alone, hogs"
    )]
    Form(String),
    #[error("`{0}`: {1}")]
    Work(String, #[source] policy::ParseSpanError),
    #[error("`{0}`: a cell has 1 to 64 threads and at most 64 hogs")]
    Size(String),
}

impl FromStr for Cell {
    type Err = ParseCellsError;

    fn from_str(text: &str) -> Result<Cell, ParseCellsError> {
        let form = || ParseCellsError::Form(text.to_owned());
        let mut parts = text.trim().splitn(3, ':');
        let mut part = || parts.next().ok_or_else(form);
        let (threads, hogs, work) = (part()?, part()?, part()?);
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| form());
        let (threads, hogs) = (number(threads)?, number(hogs)?);
        if !(1..=64).contains(&threads) || hogs > 64 {
            return Err(ParseCellsError::Size(text.to_owned()));
        }
        let work = work.parse().map_err(|why| ParseCellsError::Work(text.to_owned(), why))?;
        Ok(Cell { threads, hogs, work })
    }
}

/// Parses `all`, `alone` (without hogs), `hogs` (with hogs), or a list of cells. The words select
/// from `known`.
pub(crate) fn parse(text: &str, known: &[Cell]) -> Result<Vec<Cell>, ParseCellsError> {
    let some = |keep: fn(&Cell) -> bool| known.iter().copied().filter(keep).collect();
    match text {
        "all" => Ok(known.to_vec()),
        "alone" => Ok(some(|cell| cell.hogs == 0)),
        "hogs" => Ok(some(|cell| cell.hogs > 0)),
        list => list.split(',').map(str::parse).collect(),
    }
}
