//! Starts a run: a child process, its result, and a time limit.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use policy::waiting::Costs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::process::{RequestsToEnd, end_with_this_thread};

use crate::arms::{Arm, OpenMp};
use crate::cells::{Cell, Work};
use crate::locks::Turns;
use crate::order::{HIDDEN, Meetings, Order};
use crate::runs::Outcome;
use crate::work::Speed;

/// How long a run may exceed its time.
const GRACE_PERIOD: Duration = Duration::from_secs(20);

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot start a process: {0}")]
    Start(#[from] std::io::Error),
    #[error("cannot wait for a process: {0}")]
    Poll(#[from] rustix::io::Errno),
    #[error("the run ended without a result ({0}); it printed: {1}")]
    Failed(std::process::ExitStatus, String),
    #[error("cannot write an order: {0}")]
    Json(#[from] serde_json::Error),
}

/// A command that carries out an order with this program. The child ends with the calling thread.
pub(crate) fn child(order: &Order) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(HIDDEN).arg(serde_json::to_string(order)?);
    end_with_this_thread(&mut command, RequestsToEnd::Ignore);
    Ok(command)
}

/// The conditions of all runs.
#[derive(Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) seconds: f64,
    pub(crate) speed: Speed,
    pub(crate) costs: Option<Costs>,
}

/// Runs the arm once in the cell. The caller starts the hogs. Returns `None` if the run had to be
/// killed.
pub(crate) fn run(arm: Arm, cell: Cell, conditions: &Conditions) -> Result<Option<Outcome>, Error> {
    let mut child = command(arm, cell, conditions)?.stdout(Stdio::piped()).spawn()?;
    let answer = answer(&mut child, conditions.seconds);
    if !matches!(answer, Ok(Some(_))) {
        // Fails only if the child has already ended.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let Some(text) = answer? else { return Ok(None) };
    serde_json::from_str(text.trim()).map(Some).map_err(|_| Error::Failed(status, text))
}

fn command(arm: Arm, cell: Cell, conditions: &Conditions) -> Result<Command, Error> {
    let Conditions { seconds, speed, costs } = *conditions;
    let threads = cell.threads;
    match (cell.work, arm) {
        (Work::Meet { grain }, Arm::Peer(peer, waiting)) => {
            let mut command = Command::new(peer.program());
            command.args([threads.to_string(), speed.iterations(grain).to_string(), seconds.to_string()]);
            for (name, _) in std::env::vars_os() {
                // Remove the user's settings for other programs, which would be measured too.
                if ["OMP_", "GOMP_", "KMP_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                    command.env_remove(name);
                }
            }
            command.envs(waiting.map(|waiting: OpenMp| ("OMP_WAIT_POLICY", waiting.name())));
            end_with_this_thread(&mut command, RequestsToEnd::Ignore);
            Ok(command)
        }
        (Work::Meet { grain }, arm) => {
            let meetings = Meetings { threads, iterations: speed.iterations(grain), seconds, costs };
            child(&Order::Meet { arm: arm.to_string(), meetings })
        }
        (Work::Lock { inside, outside }, arm) => {
            let [inside, outside] = [inside, outside].map(|work| speed.iterations(work));
            child(&Order::Lock { arm: arm.to_string(), turns: Turns { threads, inside, outside, seconds, costs } })
        }
    }
}

/// The output of the child. `None` if it prints nothing in time.
fn answer(child: &mut Child, seconds: f64) -> Result<Option<String>, Error> {
    let Some(mut output) = child.stdout.take() else { return Ok(None) };
    let time_limit = GRACE_PERIOD + Duration::from_secs_f64(seconds);
    let limit = Timespec { tv_sec: time_limit.as_secs() as i64, tv_nsec: time_limit.subsec_nanos().into() };
    let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&limit));
    // An interrupt requests the end of the benchmark, and the run is discarded.
    if matches!(ready, Ok(0) | Err(rustix::io::Errno::INTR)) {
        return Ok(None);
    }
    ready?;
    let mut text = String::new();
    output.read_to_string(&mut text)?;
    Ok(Some(text))
}
