//! The process of one job, or of one rank of a job: the program runs itself again, with a hidden
//! argument. So nothing else needs to be installed, and a job cannot disturb the measuring process.

use std::process::exit;

use scenario::JobKind;

use crate::executors::{command, fibers, pipeline, rank, ranks, threads};
use crate::protocol::{Failure, JOB, MessageReader, Order, Reply, reply};
use crate::scheduling;

/// Executes a job and exits, if [`Host::run`](crate::Host::run) started this process for that.
/// Otherwise returns immediately. Call it first in the `main` of the program that
/// [`Host`](crate::Host) names, before that reads its arguments, starts threads or opens files.
///
/// The exit status is 0 when the job is over or the run is gone, and 1 if the job failed.
pub fn run_if_asked() {
    if std::env::args_os().nth(1).is_none_or(|argument| argument != JOB) {
        return;
    }
    // If only one thread ended after a panic, its siblings would wait for it forever.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |what| {
        print(what);
        exit(101);
    }));
    exit(match serve() {
        Ok(()) => 0,
        Err(failure) => {
            // If the pipe is closed, the run is gone and does not need the reply.
            let _ = reply(&Reply::Failed(failure));
            1
        }
    })
}

fn serve() -> Result<(), Failure> {
    let mut orders = MessageReader::<_, Order>::new(rustix::stdio::stdin());
    // The run sends nothing after the order until it has a reply, so this reader has no request in
    // its buffer.
    let Some(order) = orders.wait().map_err(Failure::io("its order cannot be read"))? else { return Ok(()) };
    let requests = MessageReader::new(rustix::stdio::stdin());
    match &order.job.kind {
        JobKind::Pipeline(of) => pipeline::serve(&order, of, requests),
        JobKind::Fibers(of) => fibers::serve(&order, of, requests),
        JobKind::Barrier { .. } | JobKind::Lock { .. } | JobKind::Cpu { .. } => threads::serve(&order, requests),
        JobKind::Message(of) => match &order.rank {
            Some(own) => rank::serve(&order, of, own.number, requests),
            None => ranks::serve(&order, of, requests),
        },
        JobKind::Command { argv, .. } => {
            // On this thread too, and not on another one: the kernel would kill the command with
            // the thread that started it.
            scheduling::apply(&order.job.attributes)?;
            command::serve(&order.job.name, argv, order.keep_running, requests)
        }
    }
}
