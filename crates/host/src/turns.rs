//! The turns of the jobs of a run: each is a job of [`cosched`] with an agent, as if `rowlock prun`
//! had started it.
//!
//! The table is the run's own, so the user's other jobs are not in it. The cells are the cores of
//! this machine, however many the simulated machine has.
//!
//! All jobs are in the table from the beginning, but suspended: agents leave them alone. A job
//! takes turns from its start to its end.

use std::sync::Arc;

use cosched::placement::Demand;
use cosched::topology::Topology;
use cosched::{Agent, AgentError, Entering, Quantiles, SLICES, State, Table, Times};
use policy::gang::{Gang, Lowering};
use policy::layout::Partitioner;
use policy::slices::Movement;
use rustix::process::Pid;
use scenario::coscheduling::Reschedule;
use scenario::result::{CoschedulingOutcome, Percentiles, SwitchTimes};
use scenario::{Coscheduling, JobKind, Message, Setting};
use sys::containment::JobGroup;
use sys::identity::Identity;
use sys::scheduling::{Thread, set_affinity};

use crate::error::Error;
use crate::machine::Machine;
use crate::protocol::Order;

/// The part of a setting that this machine cannot do, in words that go on after "only the simulator
/// has".
pub fn only_simulated(setting: &Setting) -> Option<String> {
    setting.coscheduling.as_ref().and_then(only_simulated_way)
}

fn only_simulated_way(of: &Coscheduling) -> Option<String> {
    let Coscheduling { how, slice, partition, movement, most_slices, lower, clock_skew, reschedule, .. } = *of;
    let usual = Coscheduling::default();
    // These say what the simulated machine costs: `create`, `start`, `switch_cost` and
    // `switch_cost_per_job`. This machine has costs of its own.
    let key = |key: &str, value: String, why: &str| Some(format!("`coscheduling.{key} = \"{value}\"`{why}"));
    let is_longest_lowering = matches!(lower, Lowering::Weight(2)) || lower == usual.lower;
    match how {
        Gang::Dynamic => return key("how", how.to_string(), ": here, no message prefers a thread"),
        Gang::CellOs | Gang::Original => return key("how", how.to_string(), ""),
        Gang::None | Gang::Implicit | Gang::Moderate | Gang::Strict | Gang::Adaptive => {}
    }
    if how.has_turns() && !SLICES.contains(&slice) {
        let why = format!(": turns on this machine last from {} to {}", SLICES.start(), SLICES.end());
        return key("slice", slice.to_string(), &why);
    }
    if partition != Partitioner::default() {
        return key("partition", partition.to_string(), "");
    }
    if movement != Movement::Never {
        return key("move", movement.to_string(), ": here, a job keeps its cells");
    }
    if let Some(most) = most_slices {
        return Some(format!("`coscheduling.most_slices = {most}`: here, no job waits for cells"));
    }
    if how == Gang::Moderate && !is_longest_lowering {
        return key("lower", lower.to_string(), ": here, a job is lowered as far as possible");
    }
    if clock_skew != usual.clock_skew {
        return key("clock_skew", clock_skew.to_string(), ": here, all cells have the same clock");
    }
    if reschedule != Reschedule::Boundary {
        return key("reschedule", reschedule.to_string(), ": here, agents wake at each boundary");
    }
    None
}

/// How the jobs of a setting share the cells of this machine. `None` if they are not to have any.
/// As in the simulator, jobs on a machine with `cells` take no turns if that is all that is
/// written.
pub(crate) fn sharing(setting: &Setting) -> Option<Coscheduling> {
    let without_turns = |_| Coscheduling { how: Gang::None, ..Coscheduling::default() };
    setting.coscheduling.or_else(|| setting.machine.cells.map(without_turns))
}

/// Refuses to lower jobs if that is not possible, where `find` looks for a way.
pub(crate) fn check_lowering<T, E>(setting: &Setting, find: impl FnOnce() -> Result<T, E>) -> Result<(), Error>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let is_lowered = setting.coscheduling.is_some_and(|of| of.how == Gang::Moderate);
    if is_lowered { find().map(drop).map_err(|why| Error::CannotLower(why.into())) } else { Ok(()) }
}

/// The number of cells that a machine has for jobs that share it.
pub fn cells(machine: &Machine) -> u32 {
    topology(machine).mesh().cells()
}

/// The cells of a machine. Under a quota, there are as many as can be used at a time.
fn topology(machine: &Machine) -> Topology {
    let usable = machine.cpus.max(1) as usize;
    let cpus: Vec<u32> = machine.cpus_allowed.iter().copied().take(usable).collect();
    Topology::of_this_machine(&cpus)
}

/// A job's kind with the rule by which it waits in this setting.
pub(crate) fn with_waiting(setting: &Setting, mut kind: JobKind) -> JobKind {
    let rule = match &mut kind {
        JobKind::Barrier { waiting, .. } | JobKind::Message(Message { waiting, .. }) => Some(waiting),
        _ => None,
    };
    if let (Some(rule), Some(of)) = (rule, &setting.coscheduling) {
        *rule = of.how.waiting(*rule);
    }
    kind
}

/// The table of the jobs of a run.
#[derive(Debug)]
pub(crate) struct Turns {
    table: Arc<Table>,
    gang: Gang,
    /// The CPUs that the jobs may use.
    permitted: Vec<u32>,
    /// Whether cells are particular CPUs, to which threads are bound. Under a quota they are not: a
    /// bound thread would wait while CPUs are idle.
    is_bound: bool,
    /// The most slices that were seen.
    slices_most: u32,
}

impl Turns {
    /// Creates the table of a run with this co-scheduling.
    pub(crate) fn begin(of: &Coscheduling, machine: &Machine) -> Result<Turns, Error> {
        let permitted = machine.cpus_allowed.clone();
        let is_bound = machine.cpus as usize >= permitted.len();
        // Without turns, slices have no length.
        let slice = of.slice.clamp(*SLICES.start(), *SLICES.end());
        let empty = || State::new(topology(machine), slice);
        let table = Table::create_own(&cosched::place(), empty).map_err(|why| Error::Turns(why.into()))?;
        let gang = if of.how.has_table() { of.how } else { Gang::None };
        Ok(Turns { table: Arc::new(table), gang, permitted, is_bound, slices_most: 0 })
    }

    /// Enters a job, which takes no turns yet.
    pub(crate) fn enter(&self, order: &Order) -> Result<JobTurns, Error> {
        let threads = order.job.kind.threads(order.cpus).max(1);
        let demand = Demand { ranks: Some(threads), cells_per_rank: None, shape: None };
        let entering = |state: &State| Entering {
            agent: Identity::own(),
            stolen: cosched::stolen(),
            command: order.job.name.clone(),
            ranks: threads,
            request: demand.request(state.topology(), &[]).ok(),
            weight: if let JobKind::Message(message) = &order.job.kind { message.weight } else { 1 },
            gang: self.gang,
            with: None,
            waits_for_cells: false,
            memory: None,
            client: None,
            program: None,
        };
        let enter = || {
            let agent = Agent::enter(self.table.clone(), None, entering, &mut ())?;
            agent.set_suspended(true)?;
            let cells = agent.cells()?.filter(|_| self.is_bound);
            let topology = self.table.state()?.topology().clone();
            let cpus = cells.map(|cells| demand.cpus_of_ranks(&topology, cells, &self.permitted));
            let is_command = matches!(order.job.kind, JobKind::Command { .. });
            Ok(JobTurns { agent, cpus: cpus.unwrap_or_default(), is_command })
        };
        enter().map_err(|why| refused(&order.job.name, &why))
    }

    /// Looks at the present slices.
    pub(crate) fn look(&mut self) {
        if let Ok(state) = self.table.state() {
            self.slices_most = self.slices_most.max(state.slices(cosched::now()).len() as u32);
        }
    }

    /// The outcome so far.
    pub(crate) fn outcome(&self) -> CoschedulingOutcome {
        let cells = self.table.state().map_or(1, |state| state.topology().mesh().cells());
        let Times { lateness, duration, skew, delay } = self.table.times();
        let of = |times: Quantiles| Percentiles { p50_ns: times.median, p90_ns: times.of_90_percent };
        let switches = SwitchTimes { lateness: of(lateness), duration: of(duration), skew: of(skew) };
        CoschedulingOutcome {
            slices_most: self.slices_most,
            // A switch is that of all cells.
            turns: delay.map_or(0, |delay| delay.switches) * u64::from(cells),
            delay_mean_ns: delay.map(|delay| delay.mean),
            delay_sd_ns: delay.map(|delay| delay.deviation),
            switches: delay.map(|_| switches),
        }
    }
}

/// The turns of one job.
#[derive(Debug)]
pub(crate) struct JobTurns {
    agent: Agent,
    /// The CPUs of each thread. Empty if threads are not bound.
    cpus: Vec<Vec<u32>>,
    is_command: bool,
}

impl JobTurns {
    /// The control groups that the job's process must be in.
    pub(crate) fn groups(&self) -> Vec<&JobGroup> {
        self.agent.groups().collect()
    }

    /// Binds the threads of a job that has not started to its cells, or its process, from which a
    /// command inherits that.
    pub(crate) fn bind(&self, job: &str, process: u32, threads: &[i32]) -> Result<(), Error> {
        let bind = |thread: u32, cpus: &[u32]| match Thread::from_number(thread) {
            Some(thread) => {
                set_affinity(thread, cpus).map(drop).map_err(|why| Error::of_job(job, why.to_string(), false))
            }
            None => Ok(()),
        };
        if self.is_command && !self.cpus.is_empty() {
            return bind(process, &self.cpus.concat());
        }
        threads.iter().zip(&self.cpus).try_for_each(|(thread, cpus)| bind(thread.unsigned_abs(), cpus))
    }

    /// Lets the job, which this process keeps, take turns.
    pub(crate) fn start(&mut self, job: &str, keeper: Pid) -> Result<(), Error> {
        let started = self.agent.start(vec![keeper], || 0).and_then(|()| self.agent.set_suspended(false));
        started.map_err(|why| failed(job, &why))
    }

    /// The job has ended: it takes no more turns, although its process waits for the end of the
    /// run.
    pub(crate) fn finish(&self, job: &str) -> Result<(), Error> {
        self.agent.set_suspended(true).map_err(|why| failed(job, &why))
    }

    /// Lets the job run at any time, because it is to end.
    pub(crate) fn release(&self) {
        // If the table cannot be changed, it ends all the same, at its turn.
        let _ = self.agent.set_ending();
    }

    /// Takes the job, whose processes have ended, out of the table.
    pub(crate) fn leave(self, job: &str) -> Result<(), Error> {
        let failed = |why| Error::of_job(job, format!("it has not taken turns to its end: {why}"), false);
        self.agent.leave().map_err(failed)
    }
}

/// The error for a job that cannot enter the table: this machine may lack what it asks for.
fn refused(job: &str, why: &AgentError) -> Error {
    let is_input = matches!(why, AgentError::Lowering(_) | AgentError::State(_));
    Error::of_job(job, why.to_string(), is_input)
}

/// The error for a job that is in the table.
fn failed(job: &str, why: &AgentError) -> Error {
    Error::of_job(job, why.to_string(), false)
}

#[cfg(test)]
mod tests {
    use policy::Span;
    use policy::gang::Gang;
    use policy::layout::Request;
    use policy::waiting::WaitingRule;
    use scenario::message::Pattern;
    use scenario::{Compute, Granularity, Job, MachineKeys};

    use super::*;
    use crate::calibration::sample_calibration;
    use crate::protocol::Recording;
    use crate::run::Host;

    fn setting(coscheduling: Coscheduling) -> Setting {
        let (jobs, machine) = (Vec::new(), MachineKeys::default());
        Setting { machine, jobs, coscheduling: Some(coscheduling), keep_running: false }
    }

    fn ranks() -> Message {
        Message {
            request: Request::Ranks(2),
            pattern: Pattern::Ring,
            bytes: 1,
            rounds: 1,
            compute: None,
            sleep: None,
            waiting: WaitingRule::AlwaysBlock,
            weight: 3,
        }
    }

    fn of(coscheduling: Coscheduling) -> Option<String> {
        only_simulated(&setting(coscheduling))
    }

    #[test]
    fn a_setting_that_lowers_jobs_is_refused_where_that_is_not_possible() {
        let check = |how, is_possible: bool| {
            let find = || is_possible.then_some(()).ok_or("a right is missing");
            check_lowering(&setting(Coscheduling { how, ..Coscheduling::default() }), find)
        };
        let refused = check(Gang::Moderate, false).unwrap_err();
        assert!(refused.is_input() && refused.to_string() == "a right is missing", "{refused}");
        assert!(check(Gang::Moderate, true).is_ok() && check(Gang::Strict, false).is_ok());
    }

    #[test]
    fn a_job_that_is_lost_from_the_table_is_no_bad_input() {
        let machine = Machine::current().unwrap();
        let host = Host { program: "/nowhere".into(), calibration: sample_calibration(machine.clone()) };
        let jobs = vec![Job::new("hog", 1, JobKind::Cpu { threads: 1, work: None })];
        let setting = Setting { jobs, ..setting(Coscheduling::default()) };
        let turns = Turns::begin(&Coscheduling::default(), &machine).unwrap();
        let job = turns.enter(&host.orders(&setting, 1, Recording::Nothing)[0]).unwrap();
        job.finish("hog").unwrap();
        turns.table.update(|state, now| state.release(job.agent.job(), now).map_err(AgentError::from)).unwrap();
        let lost = job.finish("hog").unwrap_err();
        assert!(!lost.is_input() && lost.to_string().starts_with("job `hog`: there is no job"), "{lost}");
    }

    #[test]
    fn ranks_have_the_share_of_the_turns_that_their_job_asks_for() {
        let machine = Machine::current().unwrap();
        let host = Host { program: "/nowhere".into(), calibration: sample_calibration(machine.clone()) };
        let kinds = [JobKind::Message(ranks()), JobKind::Cpu { threads: 1, work: None }];
        let jobs = kinds.into_iter().zip(["ranks", "hog"]).map(|(kind, name)| Job::new(name, 1, kind));
        let setting = Setting { jobs: jobs.collect(), ..setting(Coscheduling::default()) };
        let turns = Turns::begin(&Coscheduling::default(), &machine).unwrap();
        let weights = host.orders(&setting, 1, Recording::Nothing).into_iter().map(|order| {
            let job = turns.enter(&order).unwrap();
            turns.table.state().unwrap().facts(job.agent.job()).unwrap().weight
        });
        assert_eq!(weights.collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn what_only_the_simulator_has_is_named_by_its_key() {
        let usual = Coscheduling::default();
        let way = |how| Coscheduling { how, ..usual };
        let sentences = [
            way(Gang::Dynamic),
            way(Gang::CellOs),
            way(Gang::Original),
            Coscheduling { slice: Span::from_millis(1), ..usual },
            Coscheduling { partition: Partitioner::BestFit, ..usual },
            Coscheduling { movement: Movement::WithinNode, ..usual },
            Coscheduling { most_slices: Some(2), ..usual },
            Coscheduling { lower: Lowering::Nice(5), ..way(Gang::Moderate) },
            Coscheduling { clock_skew: Span::from_millis(1), ..usual },
            Coscheduling { reschedule: Reschedule::Tick, ..usual },
        ];
        let sentences = sentences.map(|case| Error::OnlySimulated(of(case).unwrap()).to_string()).join("\n");
        insta::assert_snapshot!(sentences, @r#"
        only the simulator has `coscheduling.how = "dynamic"`: here, no message prefers a thread; add `--world sim`
        only the simulator has `coscheduling.how = "cellos"`; add `--world sim`
        only the simulator has `coscheduling.how = "original"`; add `--world sim`
        only the simulator has `coscheduling.slice = "1 ms"`: turns on this machine last from 5 ms to 10 s; add `--world sim`
        only the simulator has `coscheduling.partition = "best-fit"`; add `--world sim`
        only the simulator has `coscheduling.move = "within-node"`: here, a job keeps its cells; add `--world sim`
        only the simulator has `coscheduling.most_slices = 2`: here, no job waits for cells; add `--world sim`
        only the simulator has `coscheduling.lower = "nice 5"`: here, a job is lowered as far as possible; add `--world sim`
        only the simulator has `coscheduling.clock_skew = "1 ms"`: here, all cells have the same clock; add `--world sim`
        only the simulator has `coscheduling.reschedule = "tick"`: here, agents wake at each boundary; add `--world sim`
        "#);
    }

    #[test]
    fn costs_of_the_simulated_machine_and_what_has_no_effect_are_no_obstacle() {
        let cost = Span::from_millis(1);
        let costs = Coscheduling { create: cost, start: cost, switch_cost: cost, ..Coscheduling::default() };
        assert_eq!(of(costs), None);
        let short = Coscheduling { slice: cost, lower: Lowering::Nice(5), how: Gang::None, ..costs };
        assert_eq!(of(short), None);
        let lowest = Coscheduling { lower: Lowering::Weight(2), how: Gang::Moderate, ..costs };
        assert_eq!(of(lowest), None);
    }

    #[test]
    fn every_wait_is_bounded_under_implicit_coscheduling() {
        let waiting = WaitingRule::AlwaysSpin;
        let kinds = [
            JobKind::Barrier { threads: 2, compute: Compute::Granularity(Granularity::Fine), rounds: 1, waiting },
            JobKind::Message(Message { waiting, ..ranks() }),
        ];
        for kind in kinds {
            let rule = |how| {
                let setting = setting(Coscheduling { how, ..Coscheduling::default() });
                match with_waiting(&setting, kind.clone()) {
                    JobKind::Barrier { waiting, .. } | JobKind::Message(Message { waiting, .. }) => waiting,
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(rule(Gang::Strict), waiting);
            assert_eq!(Ok(rule(Gang::Implicit)), "2cs+".parse());
        }
    }
}
