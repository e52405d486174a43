//! The pipelines of this crate.

use std::hint::black_box;

use rowlock_pipeline::StageKind;
use rowlock_pipeline::{Buffer, Flow, Pipeline, Result, Round, Stage, Structure};

use crate::load::{Load, STAGES};

/// Runs the load, with a structure laid over the default one. Stages that sleep are of a kind that
/// has threads, and the others are run by workers.
pub(crate) fn run(load: &Load, structure: &str) -> anyhow::Result<()> {
    let structure: Structure = structure.parse()?;
    let mut pipeline = Pipeline::<u64>::tagged("bench").buffers(load.buffers, 0).structured(&structure);
    for number in 0..STAGES {
        let kind = if number % 2 == 0 && !load.sleep.is_zero() { StageKind::Io } else { StageKind::Compute };
        pipeline = match number {
            0 => pipeline.stage("stage-0", kind, First { load, made: 0 }),
            number if number == STAGES - 1 => pipeline.stage("stage-4", kind, Last { load, seen: 0 }),
            number => pipeline.stage(&format!("stage-{number}"), kind, Middle { load, number }),
        };
    }
    pipeline.run()?;
    Ok(())
}

struct First<'a> {
    load: &'a Load,
    made: u64,
}

impl Stage<u64> for First<'_> {
    fn process(&mut self, _round: &mut Round<'_, u64>, buffer: &mut Buffer<u64>) -> Result<Flow> {
        buffer.tag = self.made;
        self.made += 1;
        self.load.stage(0);
        Ok(if self.made == self.load.items { Flow::Last } else { Flow::Convey })
    }
}

struct Middle<'a> {
    load: &'a Load,
    number: usize,
}

impl Stage<u64> for Middle<'_> {
    fn process(&mut self, _round: &mut Round<'_, u64>, buffer: &mut Buffer<u64>) -> Result<Flow> {
        black_box(&buffer.tag);
        self.load.stage(self.number);
        Ok(Flow::Convey)
    }
}

struct Last<'a> {
    load: &'a Load,
    seen: u64,
}

impl Stage<u64> for Last<'_> {
    fn process(&mut self, round: &mut Round<'_, u64>, buffer: &mut Buffer<u64>) -> Result<Flow> {
        if buffer.tag != self.seen {
            return Err(format!("item {} arrived in place of {}", buffer.tag, self.seen).into());
        }
        self.load.stage(STAGES - 1);
        self.seen += 1;
        if round.is_last && self.seen != self.load.items {
            return Err(format!("{} of {} items arrived", self.seen, self.load.items).into());
        }
        Ok(Flow::Convey)
    }
}
