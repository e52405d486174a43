//! Runs, sorted: for each cell and arm the rates, repetition by repetition.

use crate::arms::Label;
use crate::runs::Run;

/// The runs of one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sheet {
    /// By rank.
    pub(crate) arms: Vec<Label>,
    /// By hogs, then in the order in which they first ran.
    pub(crate) cells: Vec<Rates>,
}

/// The runs of one cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) threads: u32,
    pub(crate) hogs: u32,
    pub(crate) work: String,
    /// By arm, then by repetition; `None` where an arm did not take part.
    pub(crate) rates: Vec<Vec<Option<f64>>>,
    /// By arm, in percent, medians of what there is: of barriers the successful spin rate, of locks the turns of the thread
    /// that had the fewest, over the mean.
    pub(crate) aside: Vec<Option<f64>>,
}

impl Rates {
    /// Whether the threads take turns at a lock, rather than meet.
    pub(crate) fn is_lock(&self) -> bool {
        self.work.contains('/')
    }
}

/// Where an item is in a list, to which it is added if it is not.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

impl Sheet {
    /// Sorts the runs. A repetition is known by its batch and number, so that batches add up.
    pub(crate) fn of(runs: &[Run]) -> Sheet {
        let (mut arms, mut keys, mut repetitions) = (Vec::new(), Vec::new(), Vec::<Vec<(u64, u32)>>::new());
        let label = |run: &Run| Label { arm: run.arm.clone(), copy: run.copy };
        runs.iter().for_each(|run| {
            place(&mut arms, label(run));
        });
        arms.sort_by_cached_key(Label::rank);
        let places: Vec<[usize; 3]> = runs
            .iter()
            .map(|run| {
                let arm = place(&mut arms, label(run));
                let cell = place(&mut keys, (run.threads, run.hogs, run.work.clone()));
                repetitions.resize(keys.len(), Vec::new());
                [arm, cell, place(&mut repetitions[cell], (run.batch, run.repetition))]
            })
            .collect();
        let mut cells: Vec<Rates> = keys
            .into_iter()
            .zip(&repetitions)
            .map(|((threads, hogs, work), repetitions)| Rates {
                threads,
                hogs,
                work,
                rates: vec![vec![None; repetitions.len()]; arms.len()],
                aside: vec![None; arms.len()],
            })
            .collect();
        let mut asides = vec![vec![Vec::new(); arms.len()]; cells.len()];
        for (run, [arm, cell, repetition]) in runs.iter().zip(places) {
            cells[cell].rates[arm][repetition] = Some(run.rate);
            asides[cell][arm].extend(run.least_share.map(|share| 100.0 * share).or(run.ssr_percent));
        }
        for (cell, asides) in cells.iter_mut().zip(asides) {
            cell.aside = asides.into_iter().map(median).collect();
        }
        cells.sort_by_key(|cell| cell.hogs);
        Sheet { arms, cells }
    }

    /// The cells that are kept.
    pub(crate) fn only(&self, keep: impl Fn(&Rates) -> bool) -> Sheet {
        Sheet { arms: self.arms.clone(), cells: self.cells.iter().filter(|cell| keep(cell)).cloned().collect() }
    }

    /// Where the first copy of the arm is.
    pub(crate) fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|label| label.arm == name && label.copy == 1)
    }
}

/// The middle of the values, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}
