//! A program's pipelines, read from the reports that it writes if `ROWLOCK_PIPELINE_REPORT` is set.

use policy::priority::StageKind;
use serde::{Deserialize, Deserializer, Serialize};

/// The pipelines of a program. A pipeline that runs several times counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// In the order in which they are first reported.
    pub pipelines: Vec<PipelineProfile>,
}

/// A pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineProfile {
    /// Its name.
    pub name: String,
    /// The number of its buffers.
    pub buffers: usize,
    /// The size of a buffer in bytes.
    pub block: usize,
    /// Its stages in order.
    #[serde(skip_deserializing)]
    pub stages: Vec<StageProfile>,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProfile {
    /// Its name.
    pub name: String,
    /// Its main activity.
    pub kind: StageKind,
    /// Whether it can run in copies.
    pub can_fork: bool,
    /// The number of copies in which it ran.
    pub copies: usize,
    /// Whether it ran as one with the stage before it.
    pub is_fused: bool,
    /// Whether several pipelines meet in it.
    #[serde(rename(deserialize = "place"), deserialize_with = "is_junction")]
    pub is_junction: bool,
    /// How many times it has repeated its work, as a test. `None` if the report does not say.
    pub repeated: Option<u64>,
}

fn is_junction<'de, D: Deserializer<'de>>(place: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(place)? == "junction")
}

/// The necessary part of a report. Other versions of the crate may report more or other fields.
#[derive(Deserialize)]
struct ReportedRun {
    pipelines: Vec<PipelineProfile>,
    stages: Vec<ReportedStage>,
}

#[derive(Deserialize)]
struct ReportedStage {
    pipeline: String,
    #[serde(flatten)]
    stage: StageProfile,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There are no reports.
    #[error(
        "the program has written no report of a pipeline: either it is not built on the crate rowlock-pipeline, or \
         it ran no pipeline with these arguments"
    )]
    None,
    /// The reports cannot be read.
    #[error(
        "the program's report cannot be read ({0}): it may be built on another version of the crate rowlock-pipeline"
    )]
    Unreadable(#[from] serde_json::Error),
}

impl Profile {
    /// Reads reports, one per line.
    pub fn read(reports: &str) -> Result<Profile, ProfileError> {
        let mut pipelines: Vec<PipelineProfile> = Vec::new();
        for report in reports.lines().filter(|line| !line.trim().is_empty()) {
            let ReportedRun { pipelines: reported, stages } = serde_json::from_str(report)?;
            let first = pipelines.len();
            for pipeline in reported {
                if pipelines.iter().all(|known| known.name != pipeline.name) {
                    pipelines.push(pipeline);
                }
            }
            for ReportedStage { pipeline, stage } in stages {
                let new = pipelines[first..].iter_mut().find(|new| new.name == pipeline);
                new.into_iter().for_each(|new| new.stages.push(stage.clone()));
            }
        }
        if pipelines.is_empty() { Err(ProfileError::None) } else { Ok(Profile { pipelines }) }
    }

    /// The stages of all pipelines.
    pub fn stages(&self) -> impl Iterator<Item = &StageProfile> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.stages)
    }

    /// The kinds of its stages, each once.
    pub fn kinds(&self) -> Vec<StageKind> {
        StageKind::ALL.into_iter().filter(|&kind| self.has(kind)).collect()
    }

    /// Whether some stage is of this kind.
    pub fn has(&self, kind: StageKind) -> bool {
        self.stages().any(|stage| stage.kind == kind)
    }
}

#[cfg(test)]
impl StageProfile {
    /// A stage that can do nothing special.
    pub(super) fn plain(name: &str, kind: StageKind) -> StageProfile {
        let (can_fork, is_fused, is_junction) = (false, false, false);
        StageProfile { name: name.to_owned(), kind, can_fork, copies: 1, is_fused, is_junction, repeated: Some(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"schema_version":1,"program":"merge","structure":"","clock_ns":5,"pipelines":[{"name":"left","buffers":8,
        "buffers_back":8,"block":4096,"rounds":3},{"name":"right","buffers":2,"block":0}],"stages":[
        {"name":"read","pipeline":"left","kind":"io","place":"threads","can_fork":false,"copies":1,"is_ordered":true,"is_fused":false,"calls":3},
        {"name":"sort","pipeline":"left","kind":"compute","place":"workers","can_fork":true,"copies":2,"is_fused":true,"repeated":7},
        {"name":"merge","pipeline":"right","kind":"compute","place":"junction","can_fork":false,"copies":1,"is_fused":false}]}"#;

    #[test]
    fn a_report_has_pipelines_and_their_stages() {
        let line = REPORT.replace('\n', " ");
        let profile = Profile::read(&format!("{line}\n\n{line}\n")).unwrap();
        let [left, right] = &profile.pipelines[..] else { panic!("{profile:?}") };
        assert_eq!((left.name.as_str(), left.buffers, left.block, left.stages.len()), ("left", 8, 4096, 2));
        assert_eq!((right.name.as_str(), right.buffers, right.block, right.stages.len()), ("right", 2, 0, 1));
        let sort = &left.stages[1];
        assert!(sort.can_fork && sort.is_fused && !sort.is_junction && sort.kind == StageKind::Compute);
        assert_eq!((sort.copies, sort.repeated, left.stages[0].repeated), (2, Some(7), None));
        assert!(right.stages[0].is_junction);
        assert_eq!(profile.kinds(), [StageKind::Io, StageKind::Compute]);
    }

    #[test]
    fn an_unreadable_report_differs_from_a_missing_one() {
        assert!(matches!(Profile::read(" \n"), Err(ProfileError::None)));
        assert!(matches!(Profile::read("{\"schema_version\":9}"), Err(ProfileError::Unreadable(_))));
        assert!(matches!(Profile::read("{\"pipelines\":[],\"stages\":[]}"), Err(ProfileError::None)));
    }
}
