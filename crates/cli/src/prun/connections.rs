//! By what ranks find each other: servers for MPI programs, and the memory of rowlock's own
//! messages.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

use ::exec::{Launch, MpiLibrary};
use anyhow::anyhow;
use cosched::pmi::Refused;
use cosched::pmix::{Call, Events, PmixError};
use cosched::ranks::Failures;
use cosched::{pmi, pmix};
use counters::Environment;
use message::environment;
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
    pmi: Option<pmi::Server>,
    pmix: Option<(pmix::Server, Events)>,
    /// How many ranks have been connected, of how many.
    connected: u32,
    ranks: u32,
    /// The memory for messages. `None` if there is none, or for too many ranks: then ranks that
    /// need it fail when they join.
    messages: Option<UnnamedFile>,
    /// The file in which ranks with the preloaded library agree how they wait. `None` if there is
    /// no memory for it: then they call their library as they would without.
    roster: Option<UnnamedFile>,
}

impl Connections {
    /// Those for ranks, given the number of the program of each, and the programs.
    ///
    /// # Errors
    /// If there is no PMIx server although it is needed, or the ranks are of several libraries.
    pub(super) fn new(mpi: Mpi, programs: &[usize], launches: &[Launch]) -> Result<Connections, Stop> {
        let applications: Vec<u32> = programs.iter().map(|&program| program as u32).collect();
        let ranks = applications.len() as u32;
        let of = |library| launches.iter().find(|launch| launch.mpi() == library);
        let (of_open_mpi, of_other) = (of(MpiLibrary::OpenMpi), of(MpiLibrary::Other));
        if let (Some(one), Some(other), true) = (of_open_mpi, of_other, mpi != Mpi::None) {
            let [one, other] = [one, other].map(|launch| launch.name().display());
            return Err(Stop::Input(anyhow!(
                "{one} is linked to Open MPI, and {other} to another library of MPI: their ranks cannot find each other; \
                 start two jobs, or with `--mpi none` each rank alone"
            )));
        }
        let server = || pmix::Server::start(&applications);
        let pmix = match mpi {
            Mpi::Pmix => Some(server().or_failed()?),
            Mpi::Auto if of_open_mpi.is_some() && ranks > 1 => Some(
                server()
                    .map_err(|why| Stop::Failed(anyhow!("{why}; with `--mpi none`, each rank of Open MPI is alone")))?,
            ),
            Mpi::Auto if of_open_mpi.is_some() || of(MpiLibrary::Unknown).is_some() && ranks > 1 => {
                server().map_err(|why| warn_of_missing(&why, launches)).ok()
            }
            Mpi::Auto | Mpi::Pmi | Mpi::None => None,
        };
        Ok(Connections {
            pmi: (mpi != Mpi::None).then(|| pmi::Server::new(applications)),
            pmix,
            connected: 0,
            ranks,
            messages: message::memory::create(ranks).ok(),
            roster: UnnamedFile::of_length(Environment::ROSTER_LENGTH).ok(),
        })
    }

    /// Lets the child of `command` be the next rank.
    pub(super) fn connect(&mut self, command: &mut Command) -> io::Result<()> {
        let rank = self.connected;
        self.connected += 1;
        command.envs(self.roster.as_ref().map(|roster| (Environment::ROSTER, roster.path())));
        command.envs(environment::of_rank(rank, self.ranks, self.messages.as_ref().map(UnnamedFile::path)));
        if let Some((pmix, _)) = &self.pmix {
            let is_set = |name: &OsStr| command.get_envs().any(|(set, value)| set == name && value.is_some());
            let variables: Vec<_> = pmix.variables(rank).filter(|(name, _)| !is_set(name)).collect();
            command.envs(variables);
            // The launcher of Open MPI sets them as well, and programs choose a device by them.
            for (part, number) in
                [("RANK", rank), ("SIZE", self.ranks), ("LOCAL_RANK", rank), ("LOCAL_SIZE", self.ranks)]
            {
                command.env(format!("OMPI_COMM_WORLD_{part}"), number.to_string());
            }
        }
        self.pmi.as_mut().map_or(Ok(()), |pmi| pmi.connect(command))
    }

    /// Serves the ranks until they end. Returns the failures that the servers find.
    pub(super) fn serve(&mut self) -> Result<Failures, Stop> {
        let (pmi, pmix) = (self.pmi.take(), self.pmix.take());
        if pmi.is_none() && pmix.is_none() {
            return Ok(Failures::none());
        }
        let (reporter, mut failures) = Failures::reported().or_failed()?;
        if let Some((pmix, events)) = pmix {
            let say = |rank, call: Call| say_refused(rank, &call.to_string(), call == Call::Spawn);
            let note_end = pmix.watch(events, reporter.try_clone().or_failed()?, say).or_failed()?;
            failures.tell_ends(note_end);
        }
        if let Some(pmi) = pmi {
            let say = |rank, call: Refused| say_refused(rank, call.function(), call == Refused::Spawn);
            pmi.serve(reporter, say).or_failed()?;
        }
        Ok(failures)
    }
}

/// Warns that there is no server, unless that is most likely no loss: Open MPI needs libpmix, so
/// without that most machines have no programs of Open MPI.
fn warn_of_missing(why: &PmixError, launches: &[Launch]) {
    if !matches!(why, PmixError::NoLibrary(_)) || launches.iter().any(Launch::names_open_mpi) {
        print_message(format_args!("rowlock: {why}; each rank of Open MPI is alone"));
    }
}

/// Says why a call of MPI has failed.
fn say_refused(rank: u32, call: &str, spawns: bool) {
    let why = match spawns {
        true => "a job has as many ranks as it was started with",
        false => "a job neither publishes names nor connects with others",
    };
    print_message(format_args!("rowlock: {call} of rank {rank} was refused: {why}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_for_messages_reads_the_number_of_cpus_where_it_is_written() {
        assert_eq!(environment::CPUS, Environment::CPUS);
    }

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
