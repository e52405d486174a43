//! The `rowlock` command: parses its arguments, calls the responsible crate, and prints.
#![forbid(unsafe_code)]

mod arguments;
mod attach;
mod calibrate;
mod check;
mod doctor;
mod exchange;
mod exec;
mod input;
mod jobs;
mod output;
mod paper;
mod pds;
mod pipeline;
mod policies;
mod precision;
mod progress;
mod prun;
mod regress;
mod results;
mod run;
mod signals;
mod sort;
mod spool;
mod stack;
mod stop;
mod trace;

use std::process::ExitCode;
use std::sync::Arc;

use sys::heap::{self, Heap};

use crate::arguments::{Arguments, Command};
use crate::stop::Stop;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    // With a handler, a write beyond the limit of a file's size is an error and no signal. Programs
    // that this one starts get the default again.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    heap::report_refused_signal_stacks();
    stack::with_room(command)
}

/// Runs the command that this process was started for.
fn command() -> ExitCode {
    // The processes of host jobs run this program.
    host::child::run_if_asked();
    // So do the processes of a comparison's load.
    ::exec::serve_if_asked();
    // So do the PMIx servers of jobs.
    if let Some(code) = cosched::pmix::serve_if_asked() {
        return code;
    }
    // So do the processes that measure threads.
    if let Some(code) = paper::threads::child::serve_if_asked() {
        return code;
    }
    let done = match Arguments::read() {
        Ok(arguments) => execute(arguments.command),
        Err(refusal) => sort::refuse(refusal),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}

fn execute(command: Command) -> Result<(), Stop> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check { file } => check::check(&file),
        Command::Exec(arguments) => exec::exec(&arguments),
        Command::Paper(arguments) => paper::paper(&arguments),
        Command::Pipeline { command } => pipeline::pipeline(&command),
        Command::Sort(arguments) => sort::sort(&arguments),
        Command::Policies { format } => policies::policies(format),
        Command::Calibrate { fresh, format } => calibrate::calibrate(fresh, format),
        Command::Doctor { format } => doctor::doctor(format),
        Command::Import(arguments) => exchange::import(&arguments),
        Command::Export(arguments) => exchange::export(&arguments),
        Command::Regress(arguments) => regress::regress(&arguments),
        Command::Prun(arguments) => prun::prun(&arguments),
        Command::Pds(arguments) => pds::pds(&arguments),
        Command::Jobs(arguments) => jobs::jobs(&arguments),
        Command::Kill(arguments) => jobs::kill(&arguments),
        Command::Hold { job } => jobs::hold(job),
        Command::Resume { job } => jobs::resume(job),
        Command::Attach { job } => attach::attach(job),
        Command::Set(arguments) => jobs::set(&arguments),
    }
}
