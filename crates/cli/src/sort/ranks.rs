//! Sorting by several ranks. `rowlock sort --ranks N` becomes `rowlock prun`, which starts it again
//! in each rank.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use ::sort::{Input, Output};
use anyhow::anyhow;
use message::{Communicator, Waiting, Window, environment};
use pipeline::Canceller;
use report::words::counted;

use super::{INTERRUPTED, catch, is_dash, prepare, report, stop_for};
use crate::arguments::sort::Sort;
use crate::output::print_message;
use crate::stop::{OrStop, Stop};

/// Whether this process is a rank of a job.
pub(super) fn is_rank() -> bool {
    std::env::var_os(environment::RANK).is_some()
}

/// Starts the ranks, which inherit all arguments. Returns only if that fails, or if the arguments
/// are wrong: they are checked here, so that not each rank says it.
pub(super) fn start(arguments: &Sort, ranks: u32) -> Result<(), Stop> {
    check(arguments)?;
    let program = std::env::current_exe().or_failed()?;
    let mut command = Command::new(&program);
    // A rank has threads that compute and threads that wait for the disk: any CPU may run them.
    command.args(["prun", "--bind", "none", "-n", &ranks.to_string(), "--"]);
    let why = command.arg(&program).args(std::env::args_os().skip(1)).exec();
    Err(Stop::Failed(anyhow!("cannot start {}: {why}", program.display())))
}

/// The sort that the arguments describe.
fn check(arguments: &Sort) -> Result<sort::Sort, Stop> {
    if is_dash(&arguments.input) || is_dash(&arguments.output) {
        return Err(Stop::Input(anyhow!(
            "--ranks: IN and OUT have to be files, because each rank reads and writes a part"
        )));
    }
    prepare(arguments)
}

/// Sorts as one of the ranks. Rank 0 prints the summary.
pub(super) fn sort_as_rank(arguments: &Sort, ranks: u32) -> Result<(), Stop> {
    let fits = sort::fit_into_limits();
    in_job(|world| fits.or_input().and_then(|()| run(arguments, ranks, world)))
}

/// Joins the job for what its ranks do together. If that fails, one rank says why.
pub(super) fn in_job(run: impl FnOnce(&Communicator) -> Result<(), Stop>) -> Result<(), Stop> {
    let world = message::join(Waiting::ADAPTIVE).or_input()?;
    let failures = world.window(1).or_failed()?;
    let stopped = run(&world).map_err(|stop| say_once(stop, &failures, world.rank()));
    drop(failures);
    // `prun` takes the first rank that ends for the one that has failed. So others notice the
    // failure of the one that says why when it has ended, and end after it.
    match &stopped {
        Ok(()) => {}
        Err(Stop::Silent(_)) => drop(world.barrier()),
        Err(_) => std::mem::forget(world),
    }
    stopped
}

fn run(arguments: &Sort, ranks: u32, world: &Communicator) -> Result<(), Stop> {
    if ranks != world.ranks() {
        let ranks_of_job = counted(world.ranks().into(), "rank");
        return Err(Stop::Input(anyhow!(
            "--ranks {ranks}: this job has {ranks_of_job}, and all of them sort together"
        )));
    }
    let sort = check(arguments)?;
    let canceller = Canceller::new();
    let signals = catch(canceller.clone(), None, false)?;
    let started = Instant::now();
    let input = Input::open_by(world, &arguments.input).or_input()?;
    let output = Output::create_by(world, &arguments.output).or_input()?;
    match sort.run_as_rank(world, input, output, &canceller) {
        Ok(outcome) if world.rank() == 0 => report(arguments, &outcome, started.elapsed()),
        Ok(_) => Ok(()),
        Err(_) if signals.number() != 0 => Err(signals.interruption()),
        Err(why) => Err(stop_for(why, false)),
    }
}

/// Lets the first rank that fails say why. The others mostly fail because of that.
fn say_once(stop: Stop, failures: &Window<'_>, rank: u32) -> Stop {
    // If it is unknown, two messages are better than none.
    if failures.add(0, 0, 1).unwrap_or(0) > 0 {
        return Stop::Silent(stop.code());
    }
    match stop {
        Stop::Failed(why) => Stop::Failed(why.context(format!("rank {rank}"))),
        Stop::Interrupted(_) => {
            print_message(INTERRUPTED);
            stop
        }
        stop => stop,
    }
}
