//! What a program says of itself: the reports that it writes where `ROWLOCK_PIPELINE_REPORT` asks for them.

use policy::priority::StageKind;
use serde::{Deserialize, Serialize};

/// The pipelines of a program. What is run several times counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// In the order in which they are first reported.
    pub pipelines: Vec<Line>,
}

/// A pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// How many buffers it had.
    pub buffers: usize,
    /// Of how many bytes each.
    pub block: usize,
    /// Its stages in order.
    pub stages: Vec<Stage>,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// What it mostly does.
    pub kind: StageKind,
    /// Whether it can run in copies.
    pub can_fork: bool,
    /// In how many it ran.
    pub copies: usize,
    /// Whether it was run as one with the stage before it.
    pub is_fused: bool,
    /// Whether several pipelines meet in it.
    pub is_junction: bool,
    /// How many times it has done its work once more, as a test; nothing where the report does not say.
    pub repeated: Option<u64>,
}

/// Of a report, what is needed here. Versions of the crate that report more, or other things beside, are understood as well.
#[derive(Deserialize)]
struct Report {
    pipelines: Vec<ReportedLine>,
    stages: Vec<ReportedStage>,
}

#[derive(Deserialize)]
struct ReportedLine {
    name: String,
    buffers: usize,
    block: usize,
}

#[derive(Deserialize)]
struct ReportedStage {
    name: String,
    pipeline: String,
    kind: StageKind,
    place: String,
    can_fork: bool,
    copies: usize,
    is_fused: bool,
    repeated: Option<u64>,
}

impl ReportedStage {
    fn stage(self) -> Stage {
        let ReportedStage { name, kind, can_fork, copies, is_fused, repeated, .. } = self;
        Stage { name, kind, can_fork, copies, is_fused, is_junction: self.place == "junction", repeated }
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// There are no reports.
    #[error(
        "the program has written no report of a pipeline: either it is not built on the crate rowlock-pipeline, or it ran no pipeline with \
         these arguments"
    )]
    None,
    /// They cannot be read.
    #[error(
        "the program's report cannot be read ({0}): it may be built on another version of the crate rowlock-pipeline"
    )]
    Unreadable(#[from] serde_json::Error),
}

impl Profile {
    /// Reads reports, one a line.
    ///
    /// # Errors
    /// When there is none, or one is no report.
    pub fn read(reports: &str) -> Result<Profile, ProfileError> {
        let mut pipelines: Vec<Line> = Vec::new();
        for report in reports.lines().filter(|line| !line.trim().is_empty()) {
            let Report { pipelines: lines, mut stages } = serde_json::from_str(report)?;
            for ReportedLine { name, buffers, block } in lines {
                let (own, others) = stages.into_iter().partition(|stage| stage.pipeline == name);
                stages = others;
                let own: Vec<ReportedStage> = own;
                if pipelines.iter().all(|known| known.name != name) {
                    let stages = own.into_iter().map(ReportedStage::stage).collect();
                    pipelines.push(Line { name, buffers, block, stages });
                }
            }
        }
        if pipelines.is_empty() { Err(ProfileError::None) } else { Ok(Profile { pipelines }) }
    }

    /// The stages of all pipelines.
    pub fn stages(&self) -> impl Iterator<Item = &Stage> {
        self.pipelines.iter().flat_map(|line| &line.stages)
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
mod tests {
    use super::*;

    const REPORT: &str = r#"{"schema_version":1,"program":"merge","structure":"","clock_ns":5,"pipelines":[{"name":"left","buffers":8,
        "buffers_back":8,"block":4096,"rounds":3},{"name":"right","buffers":2,"block":0}],"stages":[
        {"name":"read","pipeline":"left","kind":"io","place":"threads","can_fork":false,"copies":1,"is_ordered":true,"is_fused":false,"calls":3},
        {"name":"sort","pipeline":"left","kind":"compute","place":"workers","can_fork":true,"copies":2,"is_fused":true,"repeated":7},
        {"name":"merge","pipeline":"right","kind":"compute","place":"junction","can_fork":false,"copies":1,"is_fused":false}]}"#;

    #[test]
    fn a_report_tells_of_pipelines_and_their_stages() {
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
    fn what_is_no_report_is_told_from_none() {
        assert!(matches!(Profile::read(" \n"), Err(ProfileError::None)));
        assert!(matches!(Profile::read("{\"schema_version\":9}"), Err(ProfileError::Unreadable(_))));
        assert!(matches!(Profile::read("{\"pipelines\":[],\"stages\":[]}"), Err(ProfileError::None)));
    }
}
