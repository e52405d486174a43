//! The recorder writes the runs of a scenario into the result folder.

use std::collections::BTreeMap;

use host::StateSample;
use policy::JobId;
use scenario::result::Run;
use scenario::{Scenario, Span};

use serde::Serialize;

use crate::disturbance::Disturbance;
use crate::factor;
use crate::folder::{Folder, FolderError, RECORDS, TIMELINE};
use crate::plan::{Step, StepKey};
use crate::results::csv as rows;
use report::words;

/// A line of [`RECORDS`].
#[derive(Serialize)]
struct Record<'a> {
    #[serde(flatten)]
    run: &'a Run,
    disturbance: Option<Disturbance>,
}

/// Writes runs, and knows those that an earlier experiment made.
#[derive(Debug)]
pub struct Recorder<'a> {
    /// The folder.
    pub folder: &'a mut Folder,
    factors: Vec<String>,
    earlier: BTreeMap<StepKey, Run>,
}

impl<'a> Recorder<'a> {
    /// Begins the table of the runs with those of the earlier experiment, if the folder has one.
    ///
    /// # Errors
    ///
    /// [`FolderError::Read`] if an earlier run is not of this scenario.
    pub fn new(folder: &'a mut Folder, scenario: &Scenario) -> Result<Recorder<'a>, FolderError> {
        let factors = rows::factors(scenario);
        let runs: Vec<Run> = folder.earlier()?;
        folder.keep_rows([rows::header(&factors)]);
        folder.keep_rows(runs.iter().flat_map(|run| rows::rows(run, &factors)));
        let arms: Vec<_> = scenario.arms.iter().map(factor::of).collect();
        let mut earlier = BTreeMap::new();
        for run in runs {
            let arm = arms.iter().position(|factors| *factors == run.factors).ok_or_else(|| FolderError::Read {
                path: folder.path().join(RECORDS),
                why: "a run belongs to no arm of the scenario".to_owned(),
            })?;
            earlier.insert((arm, run.world, run.repeat), run);
        }
        Ok(Recorder { folder, factors, earlier })
    }

    /// Takes out the runs that an earlier experiment made in these steps.
    pub fn take_earlier(&mut self, steps: impl Iterator<Item = Step>) -> Vec<(Step, Run)> {
        steps.filter_map(|step| Some((step, self.earlier.remove(&step.key())?))).collect()
    }

    /// The timeline of a run that an earlier experiment made on the host. Leaves out rows that
    /// cannot be read: the last one may have been cut short when that experiment was killed.
    pub fn earlier_timeline(&self, run: &Run) -> Vec<StateSample> {
        let of_run = self.timeline_fields(run);
        let sample = |row: csv::StringRecord| {
            let fields: Vec<String> = row.iter().map(str::to_owned).collect();
            let [at_ns, job, runnable, sleeping] = fields.strip_prefix(of_run.as_slice())? else { return None };
            Some(StateSample {
                at_ns: Span::from_nanos(at_ns.parse().ok()?),
                job: JobId(run.outcome.jobs.iter().position(|outcome| outcome.job == *job)? as u32),
                runnable: runnable.parse().ok()?,
                sleeping: sleeping.parse().ok()?,
            })
        };
        let Ok(reader) = csv::Reader::from_path(self.folder.path().join(TIMELINE)) else { return Vec::new() };
        reader.into_records().filter_map(Result::ok).filter_map(sample).collect()
    }

    /// The fields with which each row of a run's timeline begins.
    fn timeline_fields(&self, run: &Run) -> Vec<String> {
        let factors = self.factors.iter();
        let factors = factors.map(|path| run.factors.get(path).map(words::value).unwrap_or_default());
        [run.world.name().to_owned(), run.repeat.to_string()].into_iter().chain(factors).collect()
    }

    /// Writes a run; when this returns, the files have it.
    pub fn keep(&mut self, run: &Run, timeline: &[StateSample], disturbance: Option<Disturbance>) {
        self.folder.keep(&Record { run, disturbance }, rows::rows(run, &self.factors));
        if !timeline.is_empty() {
            self.keep_timeline(run, timeline);
        }
    }

    fn keep_timeline(&mut self, run: &Run, timeline: &[StateSample]) {
        let names = ["world", "repeat"].into_iter().chain(self.factors.iter().map(String::as_str));
        let header = names.chain(["at_ns", "job", "runnable", "sleeping"]);
        let run_fields = self.timeline_fields(run);
        let row = |sample: &StateSample| {
            let StateSample { at_ns, job, runnable, sleeping } = sample;
            let job = run.outcome.jobs.get(job.0 as usize).map(|outcome| outcome.job.clone()).unwrap_or_default();
            let fields = [at_ns.as_nanos().to_string(), job, runnable.to_string(), sleeping.to_string()];
            run_fields.iter().cloned().chain(fields).collect::<Vec<String>>()
        };
        self.folder.append_to_table(TIMELINE, header, timeline.iter().map(row));
    }
}
