//! The process of the server.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};

use pmix::{Event, Job, Library, LoadError, Server, ServerError};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdout, stderr, stdout};
use sys::process::own_program;

use super::protocol::{self, LONGEST_ORDER, Order, Report};

/// The argument that makes this program the server of a job.
const ARGUMENT: &str = "__pmix";

/// The command of the server. libpmix must not take it for a rank of the launcher around this one.
pub(super) fn command() -> Command {
    let mut command = own_program();
    command.arg(ARGUMENT);
    let is_of_launcher = |name: &[u8]| name.starts_with(b"PMIX_") && !name.starts_with(b"PMIX_MCA_");
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_launcher(name.as_encoded_bytes())) {
        command.env_remove(name);
    }
    command
}

/// If [`super::Server::start`] started this process, serves the job until standard input ends.
/// Otherwise returns `None` immediately. Call it at the beginning of `main`.
pub fn serve_if_asked() -> Option<ExitCode> {
    if env::args_os().nth(1).is_none_or(|argument| argument != ARGUMENT) {
        return None;
    }
    let Ok(output) = Output::take() else { return Some(ExitCode::FAILURE) };
    let (mut input, output) = (BufReader::new(io::stdin().lock()), Arc::new(output));
    let server = match start(&mut input, &output) {
        Ok(server) => server,
        Err(report) => {
            output.say(&report);
            return Some(ExitCode::FAILURE);
        }
    };
    let ended = input.split(b'\n').map_while(Result::ok);
    ended.filter_map(|line| protocol::parse(&line).ok()).for_each(|rank| server.note_ended(rank));
    drop(server);
    Some(ExitCode::SUCCESS)
}

/// Reads the order, and starts the server.
fn start(input: &mut impl BufRead, output: &Arc<Output>) -> Result<Server, Report> {
    let mut line = Vec::new();
    let read = input.take(LONGEST_ORDER).read_until(b'\n', &mut line).and_then(|_| protocol::parse(&line));
    let order: Order = read.map_err(|why| Report::Failed(format!("the PMIx server got no order: {why}")))?;
    let library = Library::load().map_err(|why| match why {
        LoadError::NotFound(_) => Report::NoLibrary(why.to_string()),
        why => Report::Failed(why.to_string()),
    })?;
    let job = Job { name: &order.name, applications: &order.applications, folder: Path::new(&order.folder) };
    let (novel, events) = (Mutex::new(Novel::default()), Arc::clone(output));
    let tell = move |event| {
        if novel.lock().unwrap_or_else(PoisonError::into_inner).is_novel(&event) {
            events.say(&Report::Event(event));
        }
    };
    let failed = |why: ServerError| Report::Failed(why.to_string());
    let server = Server::start(library, job, tell).map_err(failed)?;
    let variables = (0..).zip(&order.applications).map(|(rank, _)| server.variables(rank));
    let variables = variables.collect::<Result<_, _>>().map_err(failed)?;
    output.say(&Report::Ready(variables));
    Ok(server)
}

/// Each kind of call is refused with a report once.
#[derive(Default)]
struct Novel {
    refused: BTreeSet<pmix::Call>,
}

impl Novel {
    fn is_novel(&mut self, event: &Event) -> bool {
        match event {
            Event::Refused { call, .. } => self.refused.insert(*call),
            Event::Abort { .. } | Event::Missing { .. } | Event::Lost { .. } => true,
        }
    }
}

/// The pipe to the job, which was standard output. The library prints to standard
/// error instead.
struct Output(Mutex<File>);

impl Output {
    fn take() -> io::Result<Output> {
        let output = fcntl_dupfd_cloexec(stdout(), 3)?;
        dup2_stdout(stderr())?;
        Ok(Output(Mutex::new(output.into())))
    }

    /// Writes a line.
    fn say(&self, report: &Report) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If the job does not read it, it is about to end.
        let _ = output.write_all(&protocol::line(report));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_reported_once_for_each_kind() {
        let mut novel = Novel::default();
        let mut refused = |rank, call| novel.is_novel(&Event::Refused { rank, call });
        assert!(refused(1, pmix::Call::Spawn) && refused(0, pmix::Call::Lookup));
        assert!(!refused(1, pmix::Call::Spawn) && !refused(2, pmix::Call::Lookup));
        let lost = Event::Lost { rank: 0 };
        assert!(novel.is_novel(&lost) && novel.is_novel(&lost));
    }
}
