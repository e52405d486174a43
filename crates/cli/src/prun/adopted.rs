//! `prun --pid`: lets a program that runs already take turns.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use anyhow::{Context, anyhow};
use cosched::{Agent, Program};
use rustix::process::{Signal, getpid, kill_process};
use sys::signals::{BlockedSignals, is_ignored};

use super::Plan;
use crate::arguments::prun::Prun;
use crate::output::print_message;
use crate::pds;
use crate::stop::{OrStop, Stop};

/// The signals of terminals, and of shells that end: they end the turns and not the program.
const RELEASING: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::QUIT];
/// The signals that are passed on to the program.
const FORWARDED: [Signal; 3] = [Signal::TERM, Signal::USR1, Signal::USR2];

/// Lets a program take turns until it ends, or until a signal ends only its turns.
pub(super) fn adopt(arguments: &Prun, process: u32) -> Result<(), Stop> {
    if pds::find()?.is_some() {
        return Err(Stop::Input(anyhow!(
            "--pid: `rowlock pds` takes no programs that run already; ROWLOCK_PDS=none lets this one take turns with other \
             jobs of this user that are started so"
        )));
    }
    let program = Program::find(process).or_input()?;
    let caught = RELEASING.into_iter().chain(FORWARDED).map(Signal::as_raw).filter(|&number| !is_ignored(number));
    let caught: Vec<i32> = caught.chain([Signal::CHILD.as_raw()]).collect();
    let signals = BlockedSignals::new(&caught).or_failed()?;
    let plan = Plan::of_program(arguments, &program)?;
    let mut agent = plan.enter()?;
    plan.compare_with_table(&*agent.state().or_failed()?, agent.job());
    agent.adopt(&program).or_failed()?;
    let asked = wait_for_end(Arc::new(program), &signals);
    Agent::leave(agent).context("the program has not taken turns to its end").or_failed()?;
    match asked? {
        Some(signal) => {
            print_message(format_args!("rowlock: process {process} goes on, and takes no turns any more"));
            Err(Stop::Interrupted(signal as u8))
        }
        None => Ok(()),
    }
}

/// Passes signals on to the program until it ends. Returns the signal that has ended this before.
fn wait_for_end(program: Arc<Program>, signals: &BlockedSignals) -> Result<Option<i32>, Stop> {
    let has_ended = Arc::new(AtomicBool::new(false));
    let wait = {
        let (program, has_ended) = (program.clone(), has_ended.clone());
        move || {
            let waited = program.wait();
            has_ended.store(true, SeqCst);
            let _ = kill_process(getpid(), Signal::CHILD);
            waited
        }
    };
    let waiting = thread::Builder::new().name("program".to_owned()).spawn(wait).or_failed()?;
    loop {
        let signal = signals.next().or_failed()?;
        if signal.number == Signal::CHILD.as_raw() {
            if has_ended.load(SeqCst) {
                waiting.join().unwrap_or(Ok(())).context("cannot observe the program").or_failed()?;
                return Ok(None);
            }
        } else if FORWARDED.map(Signal::as_raw).contains(&signal.number) {
            // It may have ended meanwhile.
            let _ = program.signal(signal.number);
        } else {
            return Ok(Some(signal.number));
        }
    }
}
