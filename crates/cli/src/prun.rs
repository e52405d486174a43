//! `rowlock prun`: starts a parallel job that shares this machine with others in turns.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

use ::exec::{Launch, end_as};
use cosched::pds::JobRequest;
use cosched::placement::{Demand, DoesNotFit};
use cosched::ranks::{Ended, Input, Io, Listener, Output, RankStart, Ranks, StartError, block_requests_to_end};
use cosched::topology::Topology;
use cosched::{
    Agent, AgentError, Entering, Program, State, StateError, StopChoice, StopMechanism, Table, own_ancestors,
};
use counters::{Environment, Region};
use policy::gang::Gang;
use policy::layout::{Occupancy, Partitioner, Rectangle, Request};
use policy::waiting::{Costs, WaitingRule};
use policy::{CpuId, JobId, Span};
use sys::containment::JobGroup;
use sys::identity::Identity;
use sys::signals::BlockedSignals;
use sys::unnamed::UnnamedFile;

use crate::arguments::prun::{Bind, JOB, MOST_RANKS, Mpi, Prun, Stdin, Wait};
use crate::jobs::look;
use crate::output::{print, print_message};
use crate::pds;
use crate::prun::connections::{Connections, remove_variables_of_launchers};
use crate::prun::queue::InQueue;
use crate::prun::session::Session;
use crate::prun::turns::{Taker, Turns};
use crate::spool::{self, Record};
use crate::stop::{OrStop, Stop};

mod adopted;
mod connections;
mod queue;
mod session;
mod turns;

/// How long a turn lasts if no job says so.
pub(crate) const SLICE: Span = Span::from_millis(20);

/// Runs a job to its end, and ends this process as it did.
pub(crate) fn prun(arguments: &Prun) -> Result<(), Stop> {
    if arguments.detach && !arguments.dry_run && !session::is_here() {
        return session::start();
    }
    if let Some(process) = arguments.pid {
        return adopted::adopt(arguments, process);
    }
    let mut plan = Plan::new(arguments)?;
    // A job within a job is a part of it: it takes turns together with all of it.
    let is_part = is_within_a_job();
    if is_part {
        plan.check_as_part()?;
        plan.unbound.get_or_insert_with(|| "because the job is a part of another".to_owned());
    }
    if arguments.dry_run {
        return print(&plan.describe()?);
    }
    // Output that cannot be kept is a reason not to wait in the queue.
    let place = arguments.detach.then(|| session::Place::prepare(&plan.place)).transpose()?;
    let (agent, requests) = if is_part { (None, None) } else { plan.enter_anywhere()? };
    // It is dropped last: a job that does not start leaves the table when its ranks have ended.
    let mut turns = Turns { agent };
    let agent = turns.agent.as_ref();
    let (topology, cells) = match agent {
        Some(agent) => {
            let state = agent.state()?;
            plan.compare_with_table(&state, agent.job());
            (state.topology().clone(), state.job(agent.job()).or_failed()?.cells)
        }
        None => (plan.topology(), None),
    };
    let cpus = plan.cpus(&topology, cells);
    if arguments.report_bindings {
        print_message(plan.bindings(cpus.as_deref()));
    }
    if let Some(warning) = plan.sharing(cpus.as_deref()) {
        print_message(format_args!("rowlock: {warning}"));
    }
    let job = agent.map(Taker::job);
    let detached = place.zip(job).map(|(place, job)| (place, job, Record::new(plan.command(), plan.ranks())));
    let mut session = detached.map(|(place, job, record)| Session::new(place, job, record)).transpose()?;
    let groups: Vec<&JobGroup> = agent.into_iter().flat_map(Taker::groups).collect();
    // The agent of pds does not read it.
    let region = agent.filter(|agent| matches!(agent, Taker::Own(_))).and_then(|_| plan.waits_region());
    let path = region.as_ref().map(|(_, file)| file.path());
    let begun = Instant::now();
    let mut connections = Connections::new(arguments.mpi, &plan.programs, &plan.launches)?;
    let spawn = |rank, command: &mut Command| {
        let launch = plan.launch(rank);
        connections.connect(command).map_err(|why| launch.not_started(why))?;
        launch.spawn(command)
    };
    let ranks = match Ranks::start(plan.starts(agent, cpus, path), &plan.io(), &groups, requests, spawn) {
        Err(StartError::Asked(signal)) => {
            drop((session, turns));
            end_as(ExitStatus::from_raw(signal))
        }
        ranks => ranks.map_err(not_started)?,
    };
    // The file must stay open as long as programs may start that open it by its path.
    let (waits, _file) = region.map(|(region, file)| (region.into_wait_counter(), file)).unzip();
    let taking_turns = turns.agent.as_mut().map_or(Ok(()), |agent| agent.start(ranks.keepers(), waits));
    let started = taking_turns.and_then(|()| session.as_mut().map_or(Ok(()), Session::begin));
    // Ranks that are to end must be able to react.
    let failures = started.and_then(|()| connections.serve()).inspect_err(|_| turns.end())?;
    let status = report(ranks.supervise(&mut turns, failures, arguments.time_limit));
    // Its end is known before it has left the table.
    if let Some(Err(why)) = session.map(|session| session.end(status, begun.elapsed())) {
        print_message(format_args!("rowlock: cannot keep the end of the job: {why}"));
    }
    if let Some(Err(why)) = turns.agent.map(Taker::leave) {
        print_message(format_args!("rowlock: the job has not taken turns to its end: {why}"));
    }
    end_as(status)
}

/// Prints messages about the end of a job, and returns its status.
fn report(ended: io::Result<Ended>) -> ExitStatus {
    match ended.or_failed() {
        Ok(ended) => {
            if let Some(cause) = ended.cause() {
                print_message(format_args!("rowlock: {cause}"));
            }
            let Some(why) = ended.lost_output else { return ended.status };
            print_message(format_args!("rowlock: a part of the output is lost: {why}"));
            if ended.status.success() { failed() } else { ended.status }
        }
        Err(why) => {
            why.report();
            failed()
        }
    }
}

/// The status of a process with the exit code 1.
fn failed() -> ExitStatus {
    ExitStatus::from_raw(1 << 8)
}

/// Whether this process belongs to a job, which is in a table. The job may have been started before
/// pds. A program that runs already can only be in the table of this user.
fn is_within_a_job() -> bool {
    let ancestors = own_ancestors();
    let is_in = |table: Option<(Arc<State>, _)>| {
        let mut jobs = table.iter().flat_map(|(state, _)| state.jobs());
        jobs.any(|(_, job)| ancestors.contains(&job.ancestor()) && job.agent().is_alive())
    };
    let has_job = std::env::var_os(JOB).is_some();
    is_in(Table::look(&cosched::place()).ok().flatten()) || has_job && is_in(look().ok().flatten())
}

/// A job as the arguments describe it.
struct Plan<'a> {
    arguments: &'a Prun,
    /// The program of each rank.
    launches: Vec<Launch>,
    /// The number of the program of each rank.
    programs: Vec<usize>,
    /// The CPUs that the job may use.
    permitted: Vec<u32>,
    /// How many of them it may use at a time, if a quota limits that.
    quota: Option<f64>,
    /// Why ranks are not bound, if they are not.
    unbound: Option<String>,
    /// The folder around the table.
    place: PathBuf,
    /// Where output goes.
    output: Output,
    /// A program that runs already, instead of ranks.
    program: Option<&'a Program>,
}

impl Plan<'_> {
    fn new(arguments: &Prun) -> Result<Plan<'_>, Stop> {
        if (arguments.mechanism, arguments.how) == (Some(StopChoice::Hint), Gang::Moderate) {
            return Err(Stop::Input(anyhow::anyhow!(
                "--mechanism hint: with --how moderate, a job is lowered in the turns of others, and does not give way by \
                 itself"
            )));
        }
        let permitted = permitted(arguments)?;
        // Both are paths in the folder of the caller.
        let place = absolute(&cosched::place())?;
        let output = match &arguments.output {
            Some(path) => Output::File(absolute(path)?),
            None if arguments.label => Output::Labelled,
            None => Output::Inherited,
        };
        if let Some(folder) = &arguments.chdir {
            std::env::set_current_dir(folder)
                .map_err(|why| Stop::Input(anyhow::anyhow!("cannot start ranks in {}: {why}", folder.display())))?;
        }
        let (mut launches, mut programs) = (Vec::new(), Vec::new());
        for (ranks, words) in parts(arguments)? {
            let Some((command, words)) = words.split_first() else {
                return Err(Stop::Input(anyhow::anyhow!("there is no program beside ` : `")));
            };
            let launch = Launch::new(command, words, rule(arguments.wait), costs(arguments.wait)).or_failed()?;
            launch.check()?;
            if let (Wait::By(_), Some((program, obstacle))) = (arguments.wait, launch.obstacle()) {
                print_message(format_args!("rowlock: {} {obstacle}", program.display()));
            }
            programs.extend((0..ranks).map(|_| launches.len()));
            launches.push(launch);
        }
        let quota = sys::cpus::quota().filter(|&quota| quota < permitted.len() as f64);
        let unbound = match (arguments.bind, quota) {
            (Bind::None, _) => Some("as asked".to_owned()),
            (Bind::Cores, Some(quota)) => Some(format!(
                "because a quota allows {quota:.1} of {} CPUs, so that a bound rank would wait while CPUs are idle",
                permitted.len()
            )),
            _ => None,
        };
        let most = Topology::of_this_machine(&permitted).cells_of(&permitted).len();
        if let (Some(cores), None) = (arguments.cores.filter(|&cores| cores as usize > most), &unbound) {
            return Err(Stop::Input(anyhow::anyhow!("-c {cores}: the permitted CPUs have only {most} cores")));
        }
        Ok(Plan { arguments, launches, programs, permitted, quota, unbound, place, output, program: None })
    }

    /// That of a program that runs already.
    fn of_program<'a>(arguments: &'a Prun, program: &'a Program) -> Result<Plan<'a>, Stop> {
        let permitted = program.cpus();
        let quota = sys::cpus::quota().filter(|&quota| quota < permitted.len() as f64);
        Ok(Plan {
            arguments,
            launches: Vec::new(),
            programs: Vec::new(),
            permitted,
            quota,
            unbound: None,
            place: absolute(&cosched::place())?,
            output: Output::default(),
            program: Some(program),
        })
    }

    fn ranks(&self) -> u32 {
        self.programs.len() as u32
    }

    fn launch(&self, rank: u32) -> &Launch {
        &self.launches[self.programs[rank as usize]]
    }

    /// All CPUs, also those that this job may not use: others may. Under a quota, as many as can be
    /// used at a time.
    fn topology(&self) -> Topology {
        let mut cpus = sys::cpus::of_all_processes().unwrap_or_else(|_| self.permitted.clone());
        cpus.truncate(self.quota.map_or(cpus.len(), |quota| (quota.ceil() as usize).max(1)));
        Topology::of_this_machine(&cpus)
    }

    /// The cells that the job asks for.
    fn demand(&self) -> Demand {
        let &Prun { ranks, cores: cells_per_rank, mesh: shape, .. } = self.arguments;
        let ranks = (ranks.is_some() || self.launches.len() > 1).then(|| self.ranks());
        Demand { ranks, cells_per_rank, shape }
    }

    /// The request for them. `None` if the job may use none of the machine's CPUs.
    fn request(&self, topology: &Topology) -> Result<Option<Request>, DoesNotFit> {
        self.demand().request_within(topology, &self.permitted, self.quota.is_some())
    }

    /// Refuses what no job can have.
    fn check(&self) -> Result<(), Stop> {
        self.output.check::<::exec::StartError>(self.programs.len()).map_err(not_started)?;
        self.arguments.memory.map_or(Ok(()), queue::check_memory)
    }

    /// Refuses options that a job within another one cannot have, and names those without effect.
    fn check_as_part(&self) -> Result<(), Stop> {
        let &Prun { with, queue, memory, detach, .. } = self.arguments;
        let options = [("with", with.is_some()), ("queue", queue), ("memory", memory.is_some()), ("detach", detach)];
        if let Some((name, _)) = options.into_iter().find(|&(_, is_there)| is_there) {
            return Err(Stop::Input(anyhow::anyhow!("--{name}: a job within a job is a part of that one")));
        }
        let &Prun { slice, weight, how, mechanism, mesh, .. } = self.arguments;
        let options = [
            ("--slice", slice.is_some()),
            ("--weight", weight != 1),
            ("--how", how != Gang::default()),
            ("--mechanism", mechanism.is_some()),
            ("--mesh", mesh.is_some()),
        ];
        let without_effect: Vec<&str> = options.iter().filter(|option| option.1).map(|option| option.0).collect();
        if !without_effect.is_empty() {
            let options = without_effect.join(", ");
            print_message(format_args!("rowlock: a job within a job is a part of that one: no effect of {options}"));
        }
        Ok(())
    }

    /// Enters the job into the table of pds if that is there, or into that of this user. Then it
    /// blocks requests to end: this process has to leave the table itself.
    fn enter_anywhere(&self) -> Result<(Option<Taker>, Option<BlockedSignals>), Stop> {
        self.check()?;
        let Some(client) = pds::find()? else {
            let requests = block_requests_to_end().or_failed()?;
            return Ok((Some(Taker::Own(Box::new(self.enter()?))), Some(requests)));
        };
        let &Prun { weight, how: gang, with, queue, memory, mechanism, .. } = self.arguments;
        let signals = StopChoice::By(StopMechanism::Signals);
        if let Some(mechanism) = mechanism.filter(|&mechanism| mechanism != signals) {
            let name = mechanism.name();
            return Err(Stop::Input(anyhow::anyhow!("--mechanism {name}: pds stops jobs by signals")));
        }
        let request = JobRequest {
            command: self.command(),
            ranks: self.ranks(),
            demand: self.demand(),
            cpus: self.permitted.clone(),
            has_quota: self.quota.is_some(),
            weight,
            gang,
            with: with.map(|JobId(with)| with),
            waits_for_cells: queue,
            memory,
            first_number: spool::first_number(&self.place),
        };
        let served = client.enter(request, &mut InQueue).map_err(pds::stop)?;
        Ok((Some(Taker::Served(served)), None))
    }

    /// Warns if turns are not as long as asked for, or do not keep a job from running.
    fn compare_with_table(&self, state: &State, job: JobId) {
        if let Some(other) = state.lowered_in_vain(job) {
            print_message(format_args!(
                "rowlock: job {other} competes with this one even while it is lowered: it is in another session or \
                 control group, so the kernel does not compare the priorities of their threads"
            ));
        }
        if let Some(slice) = self.arguments.slice.filter(|&slice| slice != state.slice()) {
            print_message(format_args!(
                "rowlock: turns last {} instead of {slice}: the first of the present jobs, or `rowlock pds`, has set that",
                state.slice()
            ));
        }
    }

    /// Enters the job into the table of this user.
    fn enter(&self) -> Result<Agent, Stop> {
        let slice = self.arguments.slice;
        let empty =
            || State::new(self.topology(), slice.unwrap_or(SLICE)).numbered_from(spool::first_number(&self.place));
        let table = Table::enter(&self.place, empty).or_failed()?;
        let state = table.state().or_failed()?;
        if let Some(process) = table.user_of_other_version() {
            print_message(format_args!(
                "rowlock: process {process} is of another version of rowlock: its jobs and this one take no turns together"
            ));
        }
        self.program.map_or(Ok(()), |program| program.check(&table, &state)).or_input()?;
        self.request(state.topology()).or_input()?;
        let entering = |state: &State| Entering {
            agent: Identity::own(),
            stolen: cosched::stolen(),
            command: self.command(),
            ranks: self.ranks(),
            request: self.request(state.topology()).ok().flatten(),
            weight: self.arguments.weight,
            gang: self.arguments.how,
            with: self.arguments.with,
            waits_for_cells: self.arguments.queue,
            memory: self.arguments.memory,
            client: None,
            program: self.program.map(Program::identity),
        };
        let mechanism = self.program.map(|_| StopChoice::By(StopMechanism::Signals)).or(self.arguments.mechanism);
        Agent::enter(table, mechanism, entering, &mut InQueue).map_err(|why| match why {
            AgentError::State(why) => Stop::Input(why.into()),
            AgentError::Mechanism(why) => Stop::Input(why.into()),
            AgentError::Lowering(why) => Stop::Input(why.into()),
            AgentError::Asked(signal) => Stop::Interrupted(signal as u8),
            why => Stop::Failed(why.into()),
        })
    }

    /// The CPUs of each rank. `None` if they may use those of this process.
    fn cpus(&self, topology: &Topology, cells: Option<Rectangle>) -> Option<Vec<Vec<u32>>> {
        match cells.filter(|_| self.unbound.is_none()) {
            Some(cells) => Some(self.demand().cpus_of_ranks(topology, cells, &self.permitted)),
            None => self.arguments.cpus.is_some().then(|| vec![self.permitted.clone(); self.programs.len()]),
        }
    }

    /// Where the ranks count their waits by the preloaded library. `None` if they have none, or
    /// count for the report of a caller, or if there is no place.
    fn waits_region(&self) -> Option<(Region, UnnamedFile)> {
        let is_counted = matches!(self.arguments.wait, Wait::By(_)) && std::env::var_os(Environment::REGION).is_none();
        is_counted.then(Region::unnamed)?.ok()
    }

    /// How many CPUs all ranks have together, which have these or may use all.
    fn cpus_together(&self, cpus: Option<&[Vec<u32>]>) -> usize {
        let own = cpus.map(|cpus| cpus.iter().flatten().collect::<BTreeSet<_>>().len());
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
        own.unwrap_or(self.permitted.len()).min(quota).max(1)
    }

    fn starts(&self, agent: Option<&Taker>, cpus: Option<Vec<Vec<u32>>>, region: Option<&Path>) -> Vec<RankStart> {
        let together = self.cpus_together(cpus.as_deref()).to_string();
        let mut cpus = cpus.map(Vec::into_iter);
        let start = |rank: u32| {
            let cpus = cpus.as_mut().and_then(Iterator::next);
            let mut command = self.launch(rank).command(matches!(self.arguments.wait, Wait::By(_)));
            command.env_remove(session::VARIABLE).env_remove(message::environment::MESSAGES);
            if self.arguments.mpi != Mpi::None {
                remove_variables_of_launchers(&mut command);
            }
            command.envs(region.map(|path| (Environment::REGION, path))).env(Environment::CPUS, &together);
            if let Some(agent) = agent {
                // An outer job may be in another table.
                command.env_remove(wait::turn::VARIABLE);
                command.env(JOB, agent.job().to_string()).envs(agent.turn_variable());
            }
            command.envs(self.arguments.env.iter().map(|(name, value)| (name, value)));
            self.set_threads(&mut command, cpus.as_ref().filter(|_| self.unbound.is_none()).map(Vec::len));
            RankStart { command, cpus }
        };
        (0..self.ranks()).map(start).collect()
    }

    /// Tells OpenMP how many threads a rank has room for.
    fn set_threads(&self, command: &mut Command, cpus: Option<usize>) {
        const THREADS: &str = "OMP_NUM_THREADS";
        let is_set = std::env::var_os(THREADS).is_some() || self.arguments.env.iter().any(|(name, _)| name == THREADS);
        if let (Some(cores), false) = (self.arguments.cores, is_set) {
            command.env(THREADS, cpus.unwrap_or(cores as usize).to_string());
        }
    }

    fn io(&self) -> Io {
        let input = match self.arguments.stdin {
            _ if self.arguments.detach => Input::None,
            Stdin::First => Input::First,
            Stdin::All => Input::All,
            Stdin::None => Input::None,
        };
        Io { input, output: self.output.clone() }
    }

    /// The command, for people.
    fn command(&self) -> String {
        if let Some(program) = self.program {
            return program.command();
        }
        let words: Vec<_> = self.arguments.command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// The CPUs of each rank, in words.
    fn bindings(&self, cpus: Option<&[Vec<u32>]>) -> String {
        match (&self.unbound, cpus) {
            (Some(why), _) => format!("rowlock: ranks are not bound to CPUs, {why}"),
            (None, None) => {
                "rowlock: ranks are not bound to CPUs, because the table of jobs has none of these".to_owned()
            }
            (None, Some(cpus)) => {
                let lines = cpus.iter().enumerate().map(|(rank, cpus)| format!("  rank {rank}: {}", list(cpus)));
                format!("rowlock: CPUs of each rank\n{}", lines.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// A warning if there are fewer CPUs than ranks, which wait as they were written. Two ranks
    /// that spin do 0.03 of their work on one CPU.
    fn sharing(&self, cpus: Option<&[Vec<u32>]>) -> Option<String> {
        let ranks = cpus.filter(|_| matches!(self.arguments.wait, Wait::AsWritten))?;
        let cpus = self.cpus_together(Some(ranks));
        (cpus < ranks.len()).then(|| {
            let cpus = report::words::counted(cpus as u64, "CPU");
            format!(
                "{} ranks share {cpus}: with `--wait none`, those that spin for another one keep it from running",
                ranks.len()
            )
        })
    }

    /// A text that says which ranks would be started, and where.
    fn describe(&self) -> Result<String, Stop> {
        self.check()?;
        if let Some(with) = self.arguments.with {
            let table = look()?;
            let known = table.as_ref().map_or(Err(StateError::Unknown(with)), |(state, _)| state.job(with));
            known.or_input()?;
        }
        let topology = &self.topology();
        let request = self.request(topology).or_input()?;
        let cells = request.and_then(|request| Partitioner::default().find(&Occupancy::new(topology.mesh()), request));
        let cpus = self.cpus(topology, cells);
        let (ranks, mesh) = (report::words::counted(self.ranks().into(), "rank"), topology.mesh());
        let mut text = format!("would start {ranks} of `{}` on a mesh of {mesh} cores\n", self.command());
        text += &self.bindings(cpus.as_deref()).replace("rowlock: ", "");
        text.extend(self.sharing(cpus.as_deref()).map(|warning| format!("\n{warning}")));
        Ok(text + "\n")
    }
}

/// The CPUs that the job may use.
fn permitted(arguments: &Prun) -> Result<Vec<u32>, Stop> {
    let allowed = sys::cpus::allowed().or_failed()?;
    let Some(asked) = &arguments.cpus else { return Ok(allowed) };
    let missing: Vec<u32> = asked.iter().map(|CpuId(cpu)| cpu).filter(|cpu| !allowed.contains(cpu)).collect();
    if !missing.is_empty() {
        let (missing, allowed) = (list(&missing), list(&allowed));
        return Err(Stop::Input(anyhow::anyhow!("--cpus: CPU {missing} may not be used here; allowed are {allowed}")));
    }
    Ok(asked.iter().map(|CpuId(cpu)| cpu).collect())
}

fn absolute(path: &Path) -> Result<PathBuf, Stop> {
    std::path::absolute(path).or_input()
}

fn list(cpus: &[u32]) -> String {
    let mut set = policy::CpuSet::default();
    cpus.iter().for_each(|&cpu| set.insert(CpuId(cpu)));
    set.to_string()
}

/// The programs with the number of their ranks: divided at ` : `, each but the first may begin with
/// `-n N`.
fn parts(arguments: &Prun) -> Result<Vec<(u32, &[OsString])>, Stop> {
    let mut words = arguments.command.split(|word| word == ":");
    let first = words.next().map(|words| Ok((arguments.ranks.unwrap_or(1), words)));
    let parts: Vec<_> = first.into_iter().chain(words.map(further_part)).collect::<Result<_, Stop>>()?;
    if parts.iter().map(|&(ranks, _)| u64::from(ranks)).sum::<u64>() > u64::from(MOST_RANKS) {
        return Err(Stop::Input(anyhow::anyhow!("a job has at most {MOST_RANKS} ranks")));
    }
    Ok(parts)
}

/// A part that follows ` : `.
fn further_part(words: &[OsString]) -> Result<(u32, &[OsString]), Stop> {
    let (ranks, words) = match words {
        [option, ranks, words @ ..] if option == "-n" => {
            let ranks = ranks.to_str().and_then(|ranks| ranks.parse().ok());
            let ranks = ranks.filter(|ranks| (1..=MOST_RANKS).contains(ranks));
            let missing = || anyhow::anyhow!("write a number of ranks from 1 to {MOST_RANKS} after `: -n`");
            (ranks.ok_or_else(missing).or_input()?, words)
        }
        words => (1, words),
    };
    match words {
        [dashes, words @ ..] if dashes == "--" => Ok((ranks, words)),
        [option, ..] if option.as_encoded_bytes().starts_with(b"-") => {
            let option = option.to_string_lossy();
            Err(Stop::Input(anyhow::anyhow!("{option}: `-n` is the only option after ` : `; all others come first")))
        }
        words => Ok((ranks, words)),
    }
}

fn rule(wait: Wait) -> WaitingRule {
    match wait {
        Wait::By(rule) => rule,
        Wait::AsWritten => WaitingRule::default(),
    }
}

fn costs(wait: Wait) -> Costs {
    match wait {
        Wait::By(_) => crate::exec::costs(),
        Wait::AsWritten => Costs::default(),
    }
}

fn not_started(why: StartError<::exec::StartError>) -> Stop {
    let code = match &why {
        StartError::Rank { why, .. } => why.exit_code(),
        StartError::OneFile(_) => 2,
        _ => 1,
    };
    Stop::NotStarted(why.into(), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_can_no_longer_be_supervised_has_failed() {
        assert_eq!(report(Err(io::ErrorKind::Other.into())).code(), Some(1));
    }
}
