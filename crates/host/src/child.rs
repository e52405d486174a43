//! The process of one job: this program, started once more.

use std::process::exit;

use crate::executors::{command, fibers, pipeline, threads};
use crate::protocol::{Failure, JOB, MessageReader, Order, Reply, Task, reply};

/// Carries out a job and exits, where this process was started by [`Host::run`](crate::Host::run) to do so; else returns
/// at once. Belongs at the very beginning of the `main` of the program that [`Host`](crate::Host) names, before it reads
/// its arguments, starts threads or opens files.
///
/// Exits with status 0 when the job is over or the process that asked for it is gone, 1 when the job failed.
pub fn run_if_asked() {
    if std::env::args_os().nth(1).is_none_or(|argument| argument != JOB) {
        return;
    }
    // A thread that panics would leave its siblings waiting for it.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        print(what);
        exit(101);
    }));
    exit(match serve() {
        Ok(()) => 0,
        Err(failure) => {
            // A pipe that is closed has nobody at its other end to be told.
            let _ = reply(&Reply::Failed(failure));
            1
        }
    })
}

fn serve() -> Result<(), Failure> {
    let mut orders = MessageReader::<_, Order>::new(rustix::stdio::stdin());
    // The run sends nothing after the order until it is answered, so nothing is lost with this reader.
    let Some(order) = orders.wait().map_err(Failure::io("its order cannot be read"))? else { return Ok(()) };
    let requests = MessageReader::new(rustix::stdio::stdin());
    match order.task {
        Task::Pipeline(ref of) => pipeline::serve(&order, of, requests),
        Task::Fibers(ref of) => fibers::serve(&order, of, requests),
        Task::Barrier { .. } | Task::Lock { .. } | Task::Cpu { .. } => threads::serve(order, requests),
        Task::Command { argv } => {
            // The supervisor, too: a thread that is not its first would take the command with it when it ends.
            order.scheduling.take_effect()?;
            command::serve(&order.job, &argv, order.keep_running, requests)
        }
    }
}
