//! Stages that repeat their work, to show its cost.

use rowlock_pipeline::{Buffer, Flow, Pipeline, Result, Round, RunReport, Stage, StageKind};

/// Counts down, and can repeat a call without effect.
struct Source {
    left: u64,
    again: u64,
}

impl Stage<()> for &mut Source {
    fn process(&mut self, _round: &mut Round<'_>, _buffer: &mut Buffer) -> Result<Flow> {
        self.left -= 1;
        Ok(if self.left == 0 { Flow::Last } else { Flow::Convey })
    }

    fn again(&mut self, _round: &mut Round<'_>, _buffer: &mut Buffer) -> Result<bool> {
        self.again += 1;
        Ok(true)
    }
}

fn run(structure: &str) -> (RunReport, u64) {
    let mut source = Source { left: 5, again: 0 };
    let report = Pipeline::new("doubled")
        .stage("read", StageKind::Io, &mut source)
        .io("write", |_round, _buffer| Ok(Flow::Convey))
        .structured(&structure.parse().unwrap())
        .run()
        .unwrap();
    (report, source.again)
}

#[test]
fn stages_of_the_kind_repeat_their_work_if_they_can_and_the_report_counts_it() {
    let (report, again) = run("double=io");
    let stages: Vec<(u64, u64)> = report.stages.iter().map(|stage| (stage.calls, stage.repeated)).collect();
    assert_eq!((again, stages), (5, vec![(5, 5), (5, 0)]));
    for structure in ["", "double=compute"] {
        let (report, again) = run(structure);
        assert_eq!((again, report.stages[0].repeated), (0, 0), "{structure}");
    }
}
