//! Sorted runs: for each cell and arm the rates, repetition by repetition.

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
    /// By arm, then by repetition. `None` if an arm did not run.
    pub(crate) rates: Vec<Vec<Option<f64>>>,
    /// By arm, medians in percent: the successful spin rate of barriers; for locks the turns of the
    /// thread with the fewest, divided by the mean.
    pub(crate) aside: Vec<Option<f64>>,
}

impl Rates {
    /// Whether the threads use a lock rather than a barrier.
    pub(crate) fn is_lock(&self) -> bool {
        self.work.contains('/')
    }
}

/// The index of an item in a list, to which it is added if it is missing.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

impl Sheet {
    /// Sorts the runs. A repetition is identified by its batch and number, so that batches can be
    /// combined.
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

    /// The cells that satisfy a condition.
    pub(crate) fn only(&self, keep: impl Fn(&Rates) -> bool) -> Sheet {
        Sheet { arms: self.arms.clone(), cells: self.cells.iter().filter(|cell| keep(cell)).cloned().collect() }
    }

    /// The index of the first copy of the arm.
    pub(crate) fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|label| label.arm == name && label.copy == 1)
    }
}

/// The median of the values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[last.div_ceil(2)]) / 2.0)
}
