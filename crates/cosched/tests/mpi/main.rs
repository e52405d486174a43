//! Programs of Open MPI that start by the PMIx server, without a launcher.
//!
//! `.ci/setup-mpi` installs the requirements on Debian.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::print_stdout, reason = "a job prints what its test reads")]

mod job;
mod libraries;
mod open_mpi;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(code) = rowlock_cosched::pmix::serve_if_asked() {
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
    job::run_if_asked();
    let arguments = Arguments::from_args();
    let trial = |&(name, body): &(&str, fn())| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    };
    let trials = libraries::TRIALS.iter().map(trial);
    let trials = trials.chain(open_mpi::TRIALS.iter().map(|of| trial(of).with_ignored_flag(true)));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
