//! Four ranks beside MPICH: a message that goes around, without other work.

use std::process::Command;

use rowlock_bench_exec::{Window, number_of, start};

use crate::{Arguments, RANK, print};

const RANKS: &str = "4";

/// Measures the rate in units of MPICH with `rowlock exec`.
pub(crate) fn measure(rowlock: &str, arguments: &Arguments) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let Some(program) = rowlock_bench_exec::compile_mpi("mpich", folder.path())? else { return Ok(()) };
    let mpich = |words: &[&str], rounds: u32| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["mpirun.mpich", "-n", RANKS]).arg(&program);
        command.args([&rounds.to_string(), "0", "ring"]);
        anyhow::Ok(f64::from(rounds) / number_of(start(&mut command)?)?)
    };
    let message = || {
        let window = Window::of(arguments.seconds);
        let mut command = Command::new(rowlock);
        command.args(["prun", "-n", RANKS, "--"]).arg(std::env::current_exe()?).args([RANK, "around", "0"]);
        window.add_to(&mut command);
        anyhow::Ok(number_of(start(&mut command)?)? / window.seconds())
    };
    let (mut of_exec, mut of_plain) = (Vec::new(), Vec::new());
    for _ in 0..arguments.repetitions {
        let exec = mpich(&[rowlock, "exec", "--"], (100_000.0 * arguments.seconds) as u32 + 1)?;
        let plain = mpich(&["env"], (200.0 * arguments.seconds) as u32 + 1)?;
        let message = message()?;
        of_exec.push(message / exec);
        of_plain.push(message / plain);
    }
    print("4 ranks, of MPICH exec", 1, "message", of_exec);
    print("4 ranks, of MPICH plain", 1, "message", of_plain);
    Ok(())
}
