//! The wait of a job in the queue: messages of `rowlock prun`, and the memory that it finds.

use cosched::{State, Waiting};
use policy::JobId;
use report::words::counted;

use crate::output::print_message;
use crate::stop::Stop;

/// The most jobs that are named.
const MOST_NAMED: usize = 8;

/// The process of a job in the queue.
pub(super) struct InQueue;

impl Waiting for InQueue {
    fn begin(&mut self, state: &State, job: JobId) {
        print_message(sentence(state, job));
    }

    fn available_memory(&self) -> u64 {
        sys::memory::available()
    }
}

/// Refuses a job that no end of others could give enough memory.
pub(super) fn check_memory(asked: u64) -> Result<(), Stop> {
    match sys::memory::most() {
        Some(most) if asked > most => Err(Stop::Input(anyhow::anyhow!(
            "--memory: a job can have at most {} MiB here, not {}",
            most >> 20,
            asked >> 20
        ))),
        _ => Ok(()),
    }
}

/// A sentence about the jobs that a job waits for.
fn sentence(state: &State, job: JobId) -> String {
    let running: Vec<_> = state.jobs().filter(|(_, of)| !of.is_queued()).map(|(id, _)| id.to_string()).collect();
    let before = state.queue().take_while(|&other| other != job).count() as u64;
    let named = running[..running.len().min(MOST_NAMED)].join(", ");
    let more = running.len().saturating_sub(MOST_NAMED) as u64;
    let more = if more > 0 { format!(" and {} more", counted(more, "job")) } else { String::new() };
    let running = match running.len() {
        0 => "no other job runs".to_owned(),
        1 => format!("job {named} runs"),
        _ => format!("jobs {named}{more} run"),
    };
    match before {
        0 => format!("rowlock: job {job} waits; {running}"),
        before => format!("rowlock: job {job} waits behind {}; {running}", counted(before, "other")),
    }
}
