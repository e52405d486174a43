//! A job with a PMIx server: what `rowlock prun` does, without turns.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, exit};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::Duration;

use rowlock_cosched::pmix::{Event, Server};
use sys::containment::{Contained, Manner};

/// The argument that makes this program a job.
const JOB: &str = "__job";

/// The command of a job whose ranks execute a program, as these applications.
pub(crate) fn command(applications: &[u32], program: impl AsRef<Path>) -> Command {
    let mut command = testing::command(std::env::current_exe().unwrap());
    let applications: Vec<_> = applications.iter().map(u32::to_string).collect();
    command.arg(JOB).arg(applications.join(",")).arg(program.as_ref());
    command
}

/// Runs a job and exits, if this process was started for that: with the code that a rank has asked
/// for, or that of the rank that has failed first. Prints each event.
pub(crate) fn run_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().is_none_or(|argument| argument != JOB) {
        return;
    }
    let applications: Vec<u32> = arguments.next().unwrap().split(',').map(|number| number.parse().unwrap()).collect();
    let words: Vec<String> = arguments.collect();
    let (server, events) = match Server::start(&applications) {
        Ok(started) => started,
        Err(why) => {
            println!("not started: {why}");
            exit(3);
        }
    };
    let mut ranks: Vec<Contained> = Vec::new();
    for rank in (0..).take(applications.len()) {
        let mut command = testing::command(&words[0]);
        command.args(&words[1..]).envs(std::env::vars_os()).envs(server.variables(rank));
        ranks.push(Contained::start(&mut command, Manner::Rank).unwrap());
    }
    let (is_over, asked_for) = (AtomicBool::new(false), AtomicI32::new(0));
    let code = scope(|scope| {
        scope.spawn(|| {
            for event in events {
                println!("{event:?}");
                match event {
                    Event::Abort { code, .. } => asked_for.store(code, SeqCst),
                    Event::Lost { .. } | Event::Missing { .. } => {}
                    Event::Refused { .. } => continue,
                }
                is_over.store(true, SeqCst);
            }
            println!("the server has ended");
            is_over.store(true, SeqCst);
        });
        let code = supervise(&mut ranks, &is_over);
        drop(ranks);
        drop(server);
        code
    });
    exit(match asked_for.into_inner() {
        0 => code,
        asked_for => asked_for,
    });
}

fn supervise(ranks: &mut [Contained], is_over: &AtomicBool) -> i32 {
    let mut first_failure = None;
    loop {
        let ended: Vec<_> = ranks.iter_mut().filter_map(|rank| rank.process().try_wait().unwrap()).collect();
        let failed = ended.iter().find(|status| !status.success());
        let code = failed.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap()));
        first_failure = first_failure.or(code);
        if ended.len() == ranks.len() {
            return first_failure.unwrap_or_default();
        }
        if first_failure.is_some() || is_over.load(SeqCst) {
            ranks.iter_mut().for_each(Contained::end);
        }
        sleep(Duration::from_millis(2));
    }
}
