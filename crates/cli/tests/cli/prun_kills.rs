//! Kills of the processes of jobs in turns: no process, no table and no control group stays of what
//! was killed, and no other job remains stopped or lowered.
//!
//! The number of a game says what is killed, and after which event. So all pairs occur in turn. In
//! half of the games some time passes in between, so that a kill can come in the middle of a switch
//! or of a change of the table.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use cosched::State;
use policy::JobId;
use policy::gang::Action;
use rustix::process::{Pid, Signal, kill_process};
use testing::family::Family;
use testing::{Child, Terminal, child, processes};

use crate::groups;
use crate::kills::{Draws, kill_if_alive, name};
use crate::prun::{Table, is_stopped, mechanisms};
use crate::prun_lowering::{can_lower, is_lowered};
use crate::prun_pds::{ONE, Pds};

/// A rank with a child, and with a daemon that detaches itself. They end by themselves if the test
/// is killed.
const RANK: &str = "ulimit -t 60; (setsid sleep 1000 &); sh -c 'while :; do :; done; true' & while :; do :; done";

/// The number of games that are played at a time.
const AT_A_TIME: u64 = 4;

/// The victim of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The `prun` of a job.
    Prun,
    /// The agent of a job: its `prun`, or a process of pds.
    Agent,
    /// The agents of all jobs at once.
    AllAgents,
    /// All processes named rowlock at once, as by `pkill -KILL rowlock`.
    Named,
    /// The keeper of a rank.
    Keeper,
    /// The `prun` of a job, its agent and its keepers at once.
    AllButRanks,
    /// pds. Without it, a `prun`.
    Pds,
    /// A rank.
    Rank,
    /// Any process of a job.
    Any,
    /// The terminal of a job.
    Terminal,
}

const VICTIMS: [Victim; 10] = {
    use Victim::*;
    [Prun, Agent, AllAgents, Named, Keeper, AllButRanks, Pds, Rank, Any, Terminal]
};

/// The event of its job after which it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The job is in the table.
    Entered,
    /// A rank is there.
    Starting,
    /// All ranks have begun.
    Started,
    /// The turn of another job has begun.
    GivesWay,
    /// Its turn has begun again.
    RunsAgain,
    /// It is held.
    Held,
    /// Its agent is stopped.
    AgentStopped,
    /// It was asked to end.
    Ending,
}

const MOMENTS: [Moment; 8] = {
    use Moment::*;
    [Entered, Starting, Started, GivesWay, RunsAgain, Held, AgentStopped, Ending]
};

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Ends,
    GoesOn,
    Either,
}

/// The table of all jobs.
enum Place {
    OfUser(Table),
    OfPds(Pds),
}

impl Place {
    fn rowlock(&self, arguments: &[&str]) -> Command {
        match self {
            Place::OfUser(table) => {
                let mut command = table.rowlock(arguments);
                // Otherwise the commands of other tests would remove what is left there.
                command.env("TMPDIR", table.place());
                command
            }
            Place::OfPds(pds) => pds.rowlock(ONE, arguments),
        }
    }

    fn state(&self) -> Option<Arc<State>> {
        let folder = match self {
            Place::OfUser(table) => table.place().to_owned(),
            Place::OfPds(pds) => pds.table(),
        };
        cosched::Table::look(&folder).unwrap().map(|(state, _)| state)
    }

    fn jobs(&self) -> Vec<JobId> {
        self.state().map_or_else(Vec::new, |state| state.jobs().map(|(id, _)| id).collect())
    }

    /// The processes that are there for all jobs.
    fn servers(&self) -> Vec<u32> {
        if let Place::OfPds(pds) = self { pds.family.members() } else { Vec::new() }
    }

    /// Starts pds again if it was killed.
    fn restart_after(&mut self, victims: &[u32]) {
        let Place::OfPds(pds) = self else { return };
        if let Some(killed) = pds.process.take_if(|pds| victims.contains(&pds.id())) {
            killed.wait().expect_signal(Signal::KILL.as_raw());
            pds.restart();
        }
    }

    #[track_caller]
    fn expect_gone(self) {
        match self {
            Place::OfUser(table) => {
                table.expect_gone();
                assert_eq!(fs::read_dir(table.place()).unwrap().count(), 0);
            }
            Place::OfPds(pds) => drop(pds.end()),
        }
    }
}

enum Starter {
    Child(Child),
    Terminal(Terminal),
}

/// A job, and all processes that it has started.
struct Job {
    prun: u32,
    /// `None` after its end.
    starter: Option<Starter>,
    family: Family,
    /// The mechanism that stops it.
    by: &'static str,
}

impl Job {
    fn start(place: &Place, name: &str, cpu: &str, is_on_terminal: bool, draws: &mut Draws) -> Job {
        let is_of_user = matches!(place, Place::OfUser(_));
        let ways =
            if is_of_user && can_lower() { &["strict", "adaptive", "moderate"][..] } else { &["strict", "adaptive"] };
        let how = ways[draws.below(ways.len())];
        // A job that is lowered does not give way by itself.
        let hint: &[&str] = if how == "moderate" { &[] } else { &["hint"] };
        let mechanisms = if is_of_user { [mechanisms(), hint].concat() } else { vec!["signals"] };
        let by = mechanisms[draws.below(mechanisms.len())];
        let arguments = ["prun", "-n", "2", "--cpus", cpu, "--slice", "5 ms", "--wait", "none", "--how", how];
        // Its keepers are those of ranks: there is no PMIx server.
        let arguments = [&arguments[..], &["--mpi", "pmi"]].concat();
        let mut command = place.rowlock(&[&arguments[..], &["--mechanism", by, "--", "sh", "-c", RANK]].concat());
        let family = Family::new(name);
        family.adopt(&mut command);
        let (prun, starter) = if is_on_terminal {
            let terminal = Terminal::start(&mut command);
            (terminal.id(), Starter::Terminal(terminal))
        } else {
            let child = Child::start(&mut command);
            (child.id(), Starter::Child(child))
        };
        Job { prun, starter: Some(starter), family, by }
    }

    /// Its number and its agent in the table.
    fn entry(&self, place: &Place) -> Option<(JobId, u32)> {
        let state = place.state()?;
        let (id, job) = state.jobs().find(|(_, job)| job.starter().pid == self.prun)?;
        Some((id, job.agent().pid))
    }

    fn keepers(&self) -> Vec<u32> {
        processes::children(self.prun).into_iter().filter(|&child| name(child) == "keeper\n").collect()
    }

    /// The ranks. A keeper gets other children later.
    fn ranks(&self) -> Vec<u32> {
        self.keepers().into_iter().filter_map(|keeper| processes::children(keeper).first().copied()).collect()
    }

    fn has_begun(&self) -> bool {
        let ranks = self.ranks();
        ranks.len() == 2 && ranks.into_iter().all(|rank| name(rank) == "sh\n")
    }

    /// Whether it is not its turn.
    fn gives_way(&self, place: &Place) -> bool {
        if self.by == "hint" {
            // If it gets little of a CPU, it may ignore that.
            let state = place.state().zip(self.entry(place));
            return state.is_some_and(|(state, (id, _))| state.action(id, cosched::now()) != Some(Action::Run));
        }
        self.ranks().into_iter().any(|rank| !runs(rank))
    }

    fn has_ended(&mut self) -> bool {
        let process = match &mut self.starter {
            Some(Starter::Child(child)) => child.process(),
            Some(Starter::Terminal(terminal)) => terminal.process(),
            None => return true,
        };
        process.try_wait().unwrap().is_some()
    }

    /// Its processes, without those that remove the table when the other jobs have ended as well.
    fn processes(&self) -> Vec<u32> {
        self.family.members().into_iter().filter(|&member| name(member) != "successor\n").collect()
    }

    /// Waits until a condition holds.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Job) -> bool) {
        let deadline = Instant::now() + child::limit();
        while !is_so(self) {
            if Instant::now() > deadline {
                let left: String = self.family.members().into_iter().map(processes::describe_tree).collect();
                let (groups, has_ended) = (groups::of(self.prun), self.has_ended());
                panic!(
                    "the job of process {} is not {what}; has it ended: {has_ended}; groups: {groups:?}\n{left}",
                    self.prun
                );
            }
            sleep(Duration::from_millis(1));
        }
    }

    fn expect_end(&mut self) {
        self.until("at its end", |job| job.has_ended() && job.processes().is_empty());
    }

    /// None of its processes remains stopped or lowered, unless it has ended.
    fn expect_to_go_on(&mut self) {
        self.until("started", |job| job.has_begun() || job.has_ended());
        let is_program = |&process: &u32| !["rowlock\n", "keeper\n"].contains(&&*name(process));
        for process in self.processes().into_iter().filter(is_program) {
            self.until("running", |_| runs(process));
        }
    }
}

impl Drop for Job {
    /// Ends what is left if the test fails.
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.processes().is_empty() && Instant::now() < deadline {
            self.processes().into_iter().for_each(kill_if_alive);
        }
    }
}

/// Whether a process is neither stopped nor lowered.
fn runs(process: u32) -> bool {
    is_stopped(process) != Some(true) && !is_lowered(process)
}

fn send(process: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal);
}

fn one_of(processes: &[u32], draws: &mut Draws) -> Vec<u32> {
    processes.get(draws.below(processes.len().max(1))).copied().into_iter().collect()
}

/// Waits for the moment of a job, which is in the table.
fn wait_for(moment: Moment, job: &mut Job, place: &Place) {
    let Some((id, agent)) = job.entry(place) else { panic!("the job of process {} is not in the table", job.prun) };
    match moment {
        Moment::Entered => return,
        Moment::Starting => return job.until("starting", |job| !job.ranks().is_empty()),
        _ => job.until("started", |job| job.has_begun()),
    }
    match moment {
        Moment::GivesWay | Moment::RunsAgain => {
            job.until("giving way", |job| job.gives_way(place));
            let is_over = moment == Moment::GivesWay;
            job.until("running again", |job| is_over || !job.gives_way(place));
        }
        Moment::Held => {
            testing::run(&mut place.rowlock(&["hold", &id.to_string()])).expect_success();
            job.until("held", |job| job.ranks().into_iter().any(|rank| is_stopped(rank) == Some(true)));
        }
        Moment::AgentStopped => {
            send(agent, Signal::STOP);
            job.until("without an agent", |_| processes::state(agent) == Some('T'));
        }
        Moment::Ending => send(job.prun, Signal::TERM),
        _ => {}
    }
}

/// Kills processes. `chosen` is the number of the job whose processes are killed, if not those of
/// all. Returns the processes, and what becomes of the jobs.
fn kill(
    victim: Victim,
    moment: Moment,
    jobs: &mut [Job],
    chosen: usize,
    place: &Place,
    draws: &mut Draws,
) -> (Vec<u32>, Vec<Fate>) {
    let is_of_pds = matches!(place, Place::OfPds(_));
    let job = &jobs[chosen];
    let agent = job.entry(place).map_or(job.prun, |(_, agent)| agent);
    let victims = match victim {
        Victim::Agent => vec![agent],
        Victim::AllAgents => jobs.iter().filter_map(|job| Some(job.entry(place)?.1)).collect(),
        Victim::Named => {
            let all = jobs.iter().flat_map(|job| job.family.members()).chain(place.servers());
            all.filter(|&process| name(process) == "rowlock\n").collect()
        }
        Victim::Keeper => one_of(&job.keepers(), draws),
        Victim::AllButRanks => [&[job.prun, agent][..], &job.keepers()].concat(),
        Victim::Rank => one_of(&job.ranks(), draws),
        Victim::Any => one_of(&job.family.members(), draws),
        Victim::Terminal => Vec::new(),
        Victim::Prun | Victim::Pds => match place {
            Place::OfPds(Pds { process: Some(pds), .. }) if victim == Victim::Pds => vec![pds.id()],
            _ => vec![job.prun],
        },
    };
    victims.iter().copied().for_each(kill_if_alive);
    if let Some(Starter::Terminal(terminal)) = &mut jobs[chosen].starter {
        terminal.hang_up();
    }
    let fate = |number: usize| match victim {
        _ if moment == Moment::Ending && number == chosen => Fate::Ends,
        Victim::Named => Fate::Ends,
        // A job whose agent has not answered yet that it has started ends.
        Victim::AllAgents if is_of_pds => Fate::Either,
        Victim::AllAgents => Fate::Ends,
        _ if number != chosen => Fate::GoesOn,
        Victim::Agent if is_of_pds => Fate::Either,
        Victim::Pds if is_of_pds => Fate::GoesOn,
        Victim::Keeper | Victim::Rank if victims.is_empty() => Fate::GoesOn,
        Victim::Any => Fate::Either,
        _ => Fate::Ends,
    };
    let fates = (0..jobs.len()).map(fate).collect();
    (victims, fates)
}

/// The victim of a game, and the moment. Each of 80 numbers in a row has another pair.
fn drawn(number: u64) -> (Victim, Moment) {
    let (victim, round) = (number % 10, number / 10);
    (VICTIMS[victim as usize], MOMENTS[((victim + 3 * round) % 8) as usize])
}

/// Kills processes of jobs after an event, and expects that nothing stays of them and that the
/// others go on.
fn play(number: u64) {
    let draws = &mut Draws(number);
    let (victim, moment) = drawn(number);
    let needs_pds = [Victim::Agent, Victim::Pds].contains(&victim) || draws.below(4) == 0;
    let pds = if needs_pds { Pds::start() } else { None };
    let mut place = pds.map_or_else(|| Place::OfUser(Table::new()), Place::OfPds);
    let cpus = sys::cpus::allowed().unwrap();
    let cpu = cpus[number as usize % cpus.len()].to_string();
    let count = 2 + draws.below(2);
    let chosen = draws.below(count);
    let start = |job: usize| {
        let is_on_terminal = victim == Victim::Terminal && job == chosen;
        Job::start(&place, &format!("game-{number}-job-{job}"), &cpu, is_on_terminal, draws)
    };
    let mut jobs: Vec<Job> = (0..count).map(start).collect();
    for job in &mut jobs {
        job.until("in the table", |job| job.entry(&place).is_some() || job.has_ended());
    }
    let entry = jobs[chosen].entry(&place);
    wait_for(moment, &mut jobs[chosen], &place);
    if draws.below(2) == 0 {
        sleep(draws.moment());
    }
    let before = place.jobs();
    let (victims, fates) = kill(victim, moment, &mut jobs, chosen, &place, draws);
    place.restart_after(&victims);
    if let (Some((_, agent)), Moment::AgentStopped) = (entry, moment) {
        send(agent, Signal::CONT);
    }
    if let (Some((id, _)), Moment::Held) = (entry, moment) {
        // It may be gone.
        testing::run(&mut place.rowlock(&["resume", &id.to_string()]));
    }
    if [Victim::Named, Victim::AllButRanks, Victim::Any].contains(&victim) {
        // It ends what the keepers would have ended, as soon as they have ended themselves.
        let are_gone = || victims.iter().all(|&victim| matches!(processes::state(victim), None | Some('Z' | 'X')));
        jobs[chosen].until("killed", |_| are_gone());
        testing::run(&mut place.rowlock(&["prun", "--wait", "none", "--", "true"])).expect_success();
    }
    for (job, fate) in jobs.iter_mut().zip(fates) {
        match fate {
            Fate::Ends => job.expect_end(),
            Fate::GoesOn => job.expect_to_go_on(),
            Fate::Either => job.expect_to_go_on(),
        }
        let has_ended = job.has_ended();
        assert!(fate != Fate::GoesOn || !has_ended, "the job of process {} has ended", job.prun);
    }
    if victim == Victim::Pds && moment != Moment::Ending && matches!(place, Place::OfPds(_)) {
        assert_eq!(place.jobs(), before, "the jobs of the new pds");
    }
    for job in &mut jobs {
        if !job.has_ended() {
            send(job.prun, Signal::TERM);
        }
    }
    for job in &mut jobs {
        job.until("gone", |job| job.has_ended() && job.family.members().is_empty() && groups::of(job.prun).is_empty());
    }
    for job in &mut jobs {
        if let Some(Starter::Child(child)) = job.starter.take() {
            let output = child.wait();
            assert!(!output.stderr.contains("panicked"), "{output}");
        }
    }
    place.expect_gone();
}

/// Plays some games at a time.
fn play_some(seed: u64) {
    thread::scope(|scope| {
        for number in 0..AT_A_TIME {
            let number = seed.wrapping_mul(AT_A_TIME) + number;
            scope.spawn(move || {
                let played = catch_unwind(AssertUnwindSafe(|| play(number)));
                played.unwrap_or_else(|why| {
                    eprintln!("this was game {number}: {:?}", drawn(number));
                    resume_unwind(why)
                });
            });
        }
    });
}

#[test]
#[expect(clippy::redundant_closure, reason = "the closure names this test in a replay")]
fn nothing_stays_of_jobs_whose_processes_are_killed_and_the_others_go_on() {
    testing::for_each_seed(7, |seed| play_some(seed));
}

#[test]
#[ignore = "takes a while; ./check --full runs it, and ./soak with other seeds"]
#[expect(clippy::redundant_closure, reason = "the closure names this test in a replay")]
fn nothing_stays_of_many_killed_jobs() {
    testing::for_each_seed(50, |seed| play_some(seed));
}
