//! The same program with and without help, run by turns.

use std::io;
use std::sync::atomic::AtomicBool;

use crate::execution::{ExecuteError, Execution, RunLimits};
use crate::launch::Launch;
use crate::load::Load;

/// A run without and one with help, one right after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Without.
    pub plain: Execution,
    /// With.
    pub helped: Execution,
}

/// Why programs could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The program could not be run.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// What is to run beside it could not be started.
    #[error("cannot start what is to run beside the program: {0}")]
    Load(#[source] io::Error),
}

impl Launch {
    /// Runs the program in so many pairs, beside a load, and hands each over as it is made. Which of a pair comes first alternates. A
    /// pair before them all warms up the machine and is not handed over. Ends early, without error, once `cancel` is true: what runs is
    /// ended then, with all of its process group.
    ///
    /// A program's standard input is empty, and it has a process group of its own; its output is not shown.
    ///
    /// # Errors
    /// When something cannot be started. That a program fails is none.
    pub fn compare(
        &self,
        pairs: u32,
        load: &Load,
        cancel: &AtomicBool,
        each: &mut dyn FnMut(Pair),
    ) -> Result<(), CompareError> {
        let _running = load.start().map_err(CompareError::Load)?;
        for number in 0..=pairs {
            let plain_first = number % 2 == 0;
            let run = |is_plain: bool| {
                let mut command = if is_plain { self.invocation.command() } else { self.preloading_command(None) };
                self.invocation.execute(&mut command, RunLimits { cancel, limit: None })
            };
            let Ok(first) = run(plain_first)? else { return Ok(()) };
            let Ok(second) = run(!plain_first)? else { return Ok(()) };
            let (plain, helped) = if plain_first { (first, second) } else { (second, first) };
            if number > 0 {
                each(Pair { plain, helped });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use policy::waiting::WaitingRule;

    use super::*;
    use crate::execution::STDERR_TAIL;

    fn shell(script: &str) -> Launch {
        Launch::for_test("sh", &["-c", script], WaitingRule::default())
    }

    fn compared(script: &str, pairs: u32, cancel: &AtomicBool) -> Vec<Pair> {
        let mut made = Vec::new();
        shell(script).compare(pairs, &Load::default(), cancel, &mut |pair| made.push(pair)).unwrap();
        made
    }

    #[test]
    fn both_of_a_pair_are_run_by_turns_and_the_first_pair_does_not_count() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let script =
            format!("echo ${{LD_PRELOAD:+with}} >> {}; echo out; echo err >&2; exit 3", place.path().display());
        let pairs = compared(&script, 2, &AtomicBool::new(false));
        assert_eq!(pairs.len(), 2);
        let order = std::fs::read_to_string(place.path()).unwrap();
        assert_eq!(order.split('\n').collect::<Vec<_>>(), ["", "with", "with", "", "", "with", ""]);
        for of in pairs.iter().flat_map(|pair| [&pair.plain, &pair.helped]) {
            assert_eq!((of.status.code(), of.stdout_bytes, of.stderr.as_str()), (Some(3), 4, "err\n"));
            // That of "out\n".
            assert!(of.stdout_sha256.starts_with("54034ac5"), "{}", of.stdout_sha256);
        }
    }

    #[test]
    fn who_is_told_to_stop_ends_what_runs() {
        let cancel = AtomicBool::new(true);
        assert_eq!(compared("exec sleep 600", 5, &cancel), []);
        // One that does not obey, and its child.
        assert_eq!(compared("trap '' TERM; sleep 600; sleep 600", 5, &cancel), []);
    }

    #[test]
    fn a_program_that_wants_the_terminal_is_not_waited_for() {
        let launch = shell("kill -TTOU $$");
        let found = launch.compare(1, &Load::default(), &AtomicBool::new(false), &mut |_| {});
        assert!(matches!(found, Err(CompareError::Execute(ExecuteError::Terminal))), "{found:?}");
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        let launch = Launch::for_test("/dev/null", &[], WaitingRule::default());
        let found = launch.compare(1, &Load::default(), &AtomicBool::new(false), &mut |_| {});
        assert!(matches!(found, Err(CompareError::Execute(ExecuteError::Start(_)))));
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let pairs =
            compared("i=0; while [ $i -lt 1000 ]; do echo 123456789 >&2; i=$((i+1)); done", 1, &AtomicBool::new(false));
        assert_eq!(pairs[0].plain.stderr.len() as u64, STDERR_TAIL);
    }
}
