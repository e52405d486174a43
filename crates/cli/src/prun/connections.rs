//! By what ranks find each other: servers for MPI programs, and the memory of rowlock's own
//! messages.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use cosched::pmi::{Refused, Server};
use cosched::ranks::Failures;
use counters::Environment;
use sys::unnamed::UnnamedFile;

use crate::arguments::prun::Mpi;
use crate::output::print_message;
use crate::stop::{OrStop, Stop};

/// The beginnings of variables that other launchers set for their ranks: MPICH, PMIx, and Open MPI,
/// whose parameters for users begin alike.
const PREFIXES_OF_LAUNCHERS: [&str; 7] =
    ["PMI_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix"];
/// Further such variables.
const VARIABLES_OF_LAUNCHERS: [&str; 10] = [
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_initial_wdir",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
];

/// Removes the variables of another launcher that has started this process: its ranks are others.
pub(super) fn remove_variables_of_launchers(command: &mut Command) {
    for name in std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_launcher(name)) {
        command.env_remove(name);
    }
}

fn is_of_launcher(name: &OsStr) -> bool {
    let is_one = |name: &str| {
        VARIABLES_OF_LAUNCHERS.contains(&name) || PREFIXES_OF_LAUNCHERS.iter().any(|prefix| name.starts_with(prefix))
    };
    name.to_str().is_some_and(is_one)
}

/// The servers and the memory of a job. The memory must exist as long as ranks may start to use it.
pub(super) struct Connections {
    pmi: Option<Server>,
    /// The memory for messages. `None` if there is none, or for too many ranks: then ranks that
    /// need it fail when they join.
    messages: Option<UnnamedFile>,
    /// The file in which ranks with the preloaded library agree how they wait. `None` if there is
    /// no memory for it: then they call their library as they would without.
    roster: Option<UnnamedFile>,
}

impl Connections {
    /// Those for ranks of these programs, whose numbers count from 0.
    pub(super) fn new(mpi: Mpi, programs: &[usize]) -> Connections {
        let applications = || programs.iter().map(|&program| program as u32).collect();
        let has_pmi = matches!(mpi, Mpi::Auto | Mpi::Pmi);
        let roster = UnnamedFile::of_length(Environment::ROSTER_LENGTH).ok();
        let messages = message::create(programs.len() as u32).ok();
        Connections { pmi: has_pmi.then(|| Server::new(applications())), messages, roster }
    }

    /// Lets the child of `command` be the next rank.
    pub(super) fn connect(&mut self, command: &mut Command) -> io::Result<()> {
        command.envs(self.roster.as_ref().map(|roster| (Environment::ROSTER, roster.path())));
        command.envs(self.messages.as_ref().map(|messages| (message::MEMORY, messages.path())));
        self.pmi.as_mut().map_or(Ok(()), |pmi| pmi.connect(command))
    }

    /// Serves the ranks until they end. Returns the failures that the servers find.
    pub(super) fn serve(&mut self) -> Result<Failures, Stop> {
        let Some(pmi) = self.pmi.take() else { return Ok(Failures::none()) };
        let (reporter, failures) = Failures::reported().or_failed()?;
        pmi.serve(reporter, say_refused).or_failed()?;
        Ok(failures)
    }
}

/// Says why a call of MPI has failed.
fn say_refused(rank: u32, call: Refused) {
    let why = match call {
        Refused::Spawn => "a job has as many ranks as it was started with",
        Refused::Publish | Refused::LookUp | Refused::Unpublish => "there is no name service",
    };
    print_message(format_args!("rowlock: {} of rank {rank} was refused: {why}", call.function()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_launchers_are_told_from_those_of_users() {
        for name in ["PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_hnp_uri", "MPI_LOCALNRANKS"] {
            assert!(is_of_launcher(name.as_ref()), "{name}");
        }
        for name in
            ["PATH", "OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "MPICH_ASYNC_PROGRESS", "ROWLOCK_RANK", "SLURM_STEP_ID"]
        {
            assert!(!is_of_launcher(name.as_ref()), "{name}");
        }
    }
}
