//! The runs and their observations.

use pipeline::RunReport;
use serde::{Deserialize, Serialize};

use super::arms::{Arm, Variant};

/// One run of a program. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The program.
    pub variant: Variant,
    /// The name of its arm.
    pub arm: String,
    /// The number of the round, from zero.
    pub round: u32,
    /// Processor time in user mode.
    pub user_s: f64,
    /// Processor time in the kernel.
    pub system_s: f64,
    /// Clock time from start to end.
    pub clock_s: f64,
    /// Processor time in percent of clock time.
    pub used_percent: f64,
    /// The reports of its pipelines. Empty if no prediction needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<RunReport>,
}

impl Observation {
    /// A run of this arm with these times.
    pub fn new(arm: &Arm, round: u32, user_s: f64, system_s: f64, clock_s: f64) -> Observation {
        let used_percent = (user_s + system_s) / clock_s * 100.0;
        let (variant, arm) = (arm.variant, arm.name.to_owned());
        Observation { variant, arm, round, user_s, system_s, clock_s, used_percent, reports: Vec::new() }
    }

    /// Whether it is a run of this arm.
    pub fn is_of(&self, arm: &Arm) -> bool {
        self.variant == arm.variant && self.arm == arm.name
    }

    /// The row of the run in the table of runs.
    pub fn row(&self) -> Observation {
        Observation { reports: Vec::new(), arm: self.arm.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::RULES;

    #[test]
    fn rows_of_the_table_of_runs_have_no_reports_of_pipelines() {
        let reports = vec![RunReport::default()];
        let run = Observation { reports, ..Observation::new(&RULES[1], 3, 1.5, 0.1, 0.8) };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(run.row()).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let header = "variant,arm,round,user_s,system_s,clock_s,used_percent\n";
        assert!(text.starts_with(&format!("{header}compute-bound,nice-down-io,3,1.5,")), "{text}");
        let record = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&record).unwrap(), run);
    }
}
