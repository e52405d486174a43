//! A family of calls, and the runs of its cases.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testing::Output;

use crate::{library, steps};

/// A family of calls, and the cases that check each promise.
pub(crate) struct Family {
    /// The name of the source.
    pub(crate) source: &'static str,
    /// The compiler, and its options.
    pub(crate) compiler: &'static [&'static str],
    /// The command that starts the program. `{cpu}` stands for one that it may use.
    pub(crate) launcher: &'static [&'static str],
    /// The functions of the preloaded library that the cases call.
    pub(crate) calls: &'static [&'static str],
    pub(crate) promises: &'static [(&'static str, &'static [&'static str])],
}

/// The first one always spins. The usual one soon stops spinning where it does not pay.
const RULES: [&str; 2] = ["2cs+", "adaptive"];

/// How often each case is run by each rule in the gate, each time with naps at another step.
/// Ranks take long to start.
const TURNS: u64 = 2;
const TURNS_OF_RANKS: u64 = 1;

/// A built family, whose cases have been run without naps.
pub(crate) struct Lab {
    family: &'static Family,
    folder: TempDir,
    program: PathBuf,
    naps: PathBuf,
    runs: Vec<Run>,
}

/// A case, run by a rule.
struct Run {
    case: &'static str,
    rule: &'static str,
    /// Without the preloaded library.
    expected: Output,
    /// The steps that threads have reached.
    steps: Vec<u64>,
}

impl Lab {
    /// Builds a family, and runs each case with the preloaded library and without: the results must
    /// be equal, and all calls of the family must be called. `None` without a compiler.
    pub(crate) fn open(family: &'static Family) -> Option<Lab> {
        let folder = tempfile::tempdir().unwrap();
        let program = build(folder.path(), family.source, family.compiler)?;
        let naps = build(folder.path(), "naps", &["cc", "-shared", "-fPIC"])?;
        let mut lab = Lab { family, folder, program, naps, runs: Vec::new() };
        let cases: Vec<&str> = family.promises.iter().flat_map(|(_, cases)| *cases).copied().collect();
        let listed = testing::run(&mut testing::command(&lab.program)).expect_success();
        assert_eq!(listed.stdout.lines().collect::<BTreeSet<_>>(), cases.iter().copied().collect());
        let steps = steps::of(library::preload())?;
        for (case, rule) in cases.iter().flat_map(|&case| RULES.map(|rule| (case, rule))) {
            let expected = testing::run(&mut lab.command(case, &[])).expect_success();
            let mut run = Run { case, rule, expected, steps: steps.all.iter().copied().collect() };
            run.steps = lab.reached(&run);
            lab.runs.push(run);
        }
        let reached: BTreeSet<u64> = lab.runs.iter().flat_map(|run| &run.steps).copied().collect();
        let missed = family.calls.iter().filter(|call| !reached.contains(&steps.functions[**call]));
        assert_eq!(missed.collect::<Vec<_>>(), [&""; 0], "no case calls these functions");
        Some(lab)
    }

    /// The number of seeds in the gate.
    pub(crate) fn seeds(&self) -> u64 {
        let turns = if self.family.launcher.is_empty() { TURNS } else { TURNS_OF_RANKS };
        turns * self.runs.len() as u64
    }

    /// Runs a case by a rule, with naps at a step: successive seeds take all of them in turn.
    pub(crate) fn take(&self, seed: u64) {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let count = self.runs.len() as u64;
        let run = &self.runs[(seed % count) as usize];
        // Any number of successive turns is spread evenly over the steps.
        let turn = u128::from((seed / count).wrapping_mul(GOLDEN));
        let step = run.steps[((turn * run.steps.len() as u128) >> 64) as usize];
        self.compare(run, &[step]);
    }

    /// The steps that threads reach in a run without naps.
    fn reached(&self, run: &Run) -> Vec<u64> {
        const REACHED: u64 = 1 << 63;
        let marked = std::fs::read(self.compare(run, &run.steps)).unwrap();
        let marked = marked.as_chunks().0.iter().map(|step| u64::from_le_bytes(*step));
        marked.filter(|step| step & REACHED != 0).map(|step| step & !REACHED).collect()
    }

    /// Checks that a run with the preloaded library and these steps has the expected result, and
    /// returns the file of the steps.
    fn compare(&self, run: &Run, steps: &[u64]) -> PathBuf {
        // The name shows the step of a run that hangs.
        let file = self.folder.path().join(format!("steps-{:#x}", steps[0]));
        std::fs::write(&file, steps.iter().flat_map(|step| step.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        // The last one is initialized first, without naps: no thread can be ahead of it.
        let preloaded = [self.naps.as_os_str(), library::preload().as_os_str()].join(OsStr::new(":"));
        let variables = [("LD_PRELOAD", preloaded), ("ROWLOCK_WAIT", run.rule.into()), ("NAPS", file.clone().into())];
        let seen = testing::run(&mut self.command(run.case, &variables));
        let is_equal = |of: fn(&Output) -> &str| of(&seen) == of(&run.expected);
        let holds = seen.status == run.expected.status && is_equal(|run| &run.stdout) && is_equal(|run| &run.stderr);
        let step = format!("addr2line -Cfipe {} {:#x}", library::preload().display(), steps[0]);
        seen.expect(holds, &format!("the result without the library; naps were at `{step}`\n{}\n\nseen", run.expected));
        file
    }

    /// A case, in an environment with these variables, which the launcher does not have.
    fn command(&self, case: &str, variables: &[(&str, OsString)]) -> Command {
        let cpu = sys::cpus::allowed().unwrap()[0].to_string();
        let launcher = self.family.launcher.iter().map(|word| word.replace("{cpu}", &cpu).into());
        let variables = variables.iter().map(|(name, value)| [OsStr::new(name), value].join(OsStr::new("=")));
        let program = [self.program.clone().into(), case.into()];
        let mut words = launcher.chain(["env".into()]).chain(variables).chain(program);
        let mut command = testing::command(words.next().unwrap());
        command.args(words).env("OMP_CANCELLATION", "true");
        command
    }
}

/// Builds a source of this folder. `None` without the compiler.
fn build(folder: &Path, source: &str, compiler: &[&str]) -> Option<PathBuf> {
    let mut command = testing::command(testing::tool(&compiler[0].to_uppercase(), compiler[0])?);
    let built = folder.join(source);
    command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o"]).arg(&built);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/conformance/{source}.c")));
    command.args(&compiler[1..]);
    testing::run(&mut command).expect_success();
    Some(built)
}
