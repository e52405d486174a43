//! A cell of a grid: a machine with its jobs, without the rule.

use std::fmt;

use policy::Instant;
use policy::waiting::WaitingRule;
use scenario::draw::Stream;
use scenario::result::JobOutcome;
use scenario::{Arrival, Compute, Distribution, Job, JobKind, MachineKeys, Scheduler, Setting, Span};
use serde::{Deserialize, Serialize};
use sim::Limit;

use super::grid::Grid;

/// What runs beside the team that is measured, or with which other teams it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Company {
    /// Nothing: all threads are one team.
    Alone,
    /// Threads that only compute.
    Hogs,
    /// Threads that only compute for one phase and are gone for the next.
    Phases,
    /// Pairs of threads that meet, and block at once.
    Blockers,
    /// A team that always spins.
    Spinners,
    /// Equal teams, all measured.
    Equal,
    /// Equal teams, all measured, beside as many threads that only compute.
    EqualAndHogs,
    /// Teams of three grains, all measured.
    Mix,
}

impl Company {
    /// All companies.
    pub const ALL: [Company; 8] = [
        Company::Alone,
        Company::Hogs,
        Company::Phases,
        Company::Blockers,
        Company::Spinners,
        Company::Equal,
        Company::EqualAndHogs,
        Company::Mix,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Company::Alone => "alone",
            Company::Hogs => "hogs",
            Company::Phases => "phases",
            Company::Blockers => "blockers",
            Company::Spinners => "spinners",
            Company::Equal => "equal",
            Company::EqualAndHogs => "equal and hogs",
            Company::Mix => "mix",
        }
    }

    /// Whether several teams are measured.
    pub const fn has_several_teams(self) -> bool {
        matches!(self, Company::Equal | Company::EqualAndHogs | Company::Mix)
    }

    /// The smallest number of threads in total, with teams of two.
    pub(super) const fn fewest_threads(self) -> u32 {
        match self {
            Company::Alone => 2,
            Company::Hogs | Company::Phases => 3,
            Company::Blockers | Company::Spinners | Company::Equal => 4,
            Company::EqualAndHogs | Company::Mix => 6,
        }
    }

    /// The size of the largest team among this many threads.
    pub(super) const fn largest_team(self, threads: u32) -> u32 {
        match self {
            Company::Alone => threads,
            Company::Hogs | Company::Phases => threads - 1,
            Company::Blockers | Company::Spinners => threads - 2,
            Company::Equal => threads / 2,
            Company::EqualAndHogs => threads / 3,
            Company::Mix => threads / 3,
        }
    }
}

/// The kernel of a machine, by its scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A simulated one.
    Simulated(Scheduler),
    /// That of this machine.
    Host(String),
}

impl Kernel {
    /// The scheduler's name.
    pub fn name(&self) -> &str {
        match self {
            Kernel::Simulated(scheduler) => scheduler.name(),
            Kernel::Host(name) => name,
        }
    }

    /// Whether it is simulated by this scheduler.
    fn is(&self, scheduler: Scheduler) -> bool {
        *self == Kernel::Simulated(scheduler)
    }
}

/// A machine with its jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The grid to which it belongs.
    pub grid: Grid,
    /// Its number there, from one.
    pub number: u32,
    /// The kernel.
    #[serde(rename = "scheduler", serialize_with = "name")]
    pub kernel: Kernel,
    /// The number of CPUs.
    pub cpus: u32,
    /// The cost of a switch.
    #[serde(rename = "context_switch_ns")]
    pub context_switch: Span,
    /// The cost of waking an idle CPU.
    #[serde(rename = "wakeup_cost_ns")]
    pub wakeup_cost: Span,
    /// The mean time between two barriers, in multiples of CS: of both costs together. Of three
    /// grains it is the middle one.
    pub grain: f64,
    /// The company.
    pub company: Company,
    /// The total number of threads.
    pub threads: u32,
    /// The number of threads of each team.
    pub team: u32,
}

fn name<S: serde::Serializer>(kernel: &Kernel, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kernel.name())
}

/// Teams of one grain.
struct Teams {
    name: &'static str,
    copies: u32,
    /// In multiples of CS.
    grain: f64,
}

/// The name of the jobs that are no team.
const CROWD: &str = "crowd";
/// Standard deviation over mean of a computation, as in the paper.
const VARIATION: f64 = 0.1;
/// The most rounds of all threads together. A cell that would have more has less work, which
/// affects fine grains on large machines.
const MOST_ROUNDS: f64 = 1e6;
/// Finer grains, in multiples of CS, have as many rounds as this one.
const FINEST: f64 = 0.5;
/// The most events of a run.
const MOST_EVENTS: u64 = 6_000_000;
/// The fewest rounds of a team.
const FEWEST_ROUNDS: f64 = 50.0;
/// Machines of up to this many CPUs have more work.
const SMALL: u32 = 16;
/// The ticks of work on small machines: 0.5 s, if a tick is 4 ms.
const TICKS_OF_SMALL: u64 = 125;
/// The ticks of work on the others.
const TICKS_OF_LARGE: u64 = 25;
/// The ticks of a phase: 100 ms.
const TICKS_OF_PHASE: u64 = 25;
/// The phases' worth of work beside threads that come and go.
const PHASES: u64 = 4;
/// How many times as long as a fair share allows a run may take.
const PATIENCE: f64 = 3.0;
/// The length of a run on this machine.
pub const HOST_RUN: Span = Span::from_millis(500);
/// The most processes of teams, or of blockers, on this machine.
const MOST_PROCESSES: u32 = 64;

impl Cell {
    /// CS: the cost of getting a blocked thread running again.
    pub fn cs(&self) -> Span {
        self.context_switch + self.wakeup_cost
    }

    /// The number of threads for each CPU.
    pub fn load(&self) -> f64 {
        f64::from(self.threads) / f64::from(self.cpus)
    }

    /// The unit of work: a tick of today's kernels, or an allocation of `linux-2.4`.
    fn tick(&self) -> Span {
        if self.kernel.is(Scheduler::Linux24) { Span::from_micros(200) } else { Span::from_millis(4) }
    }

    fn is_on_host(&self) -> bool {
        matches!(self.kernel, Kernel::Host(_))
    }

    fn teams(&self) -> Vec<Teams> {
        let teams = |name, copies, grain| Teams { name, copies, grain };
        match self.company {
            Company::Equal => vec![teams("crew", (self.threads / self.team).max(1), self.grain)],
            Company::EqualAndHogs => vec![teams("crew", (self.threads / 2 / self.team).max(1), self.grain)],
            Company::Mix => {
                let copies = (self.threads / 3 / self.team).max(1);
                let grains = [("fine", 0.2), ("medium", 1.0), ("coarse", 4.0)];
                grains.map(|(name, times)| teams(name, copies, times * self.grain)).into()
            }
            _ => vec![teams("crew", 1, self.grain)],
        }
    }

    /// The mean computation of a team of this grain.
    fn compute(&self, grain: f64) -> f64 {
        grain * self.cs().as_nanos() as f64
    }

    /// The computing time of each thread, in nanoseconds.
    fn work(&self) -> f64 {
        if self.is_on_host() {
            // As much as a thread can do if no wait costs anything.
            return HOST_RUN.as_nanos() as f64 / self.load().max(1.0);
        }
        let ticks = match self.company {
            Company::Phases => PHASES * TICKS_OF_PHASE,
            // Its timeslices are 25 ticks long.
            _ if self.cpus <= SMALL || self.kernel.is(Scheduler::LinuxO1) => TICKS_OF_SMALL,
            _ => TICKS_OF_LARGE,
        };
        let work = (self.tick().as_nanos() * ticks) as f64;
        let rounds = |of: &Teams| f64::from(of.copies * self.team) * work / self.counted(of.grain);
        let rounds: f64 = self.teams().iter().map(rounds).sum();
        work * (MOST_ROUNDS / rounds).min(1.0)
    }

    /// The mean computation by which rounds are counted. On this machine the time bounds them.
    fn counted(&self, grain: f64) -> f64 {
        self.compute(if self.is_on_host() { grain } else { grain.max(FINEST) })
    }

    fn rounds(&self, grain: f64) -> u64 {
        (self.work() / self.counted(grain)).max(FEWEST_ROUNDS).ceil() as u64
    }

    /// How long all teams need if each has its fair share of the CPUs, and each round costs four
    /// switches, in nanoseconds.
    fn fair(&self) -> f64 {
        let round = |of: &Teams| self.rounds(of.grain) as f64 * (self.compute(of.grain) + self.compute(4.0));
        self.teams().iter().map(round).fold(0.0, f64::max) * self.load().max(1.0)
    }

    /// Where a run ends, whether or not its jobs have ended.
    pub fn limit(&self) -> Limit {
        if self.is_on_host() {
            return Limit { at: Instant::ZERO + HOST_RUN, events: u64::MAX };
        }
        Limit { at: Instant::from_nanos((PATIENCE * self.fair()) as u64) + self.tick(), events: MOST_EVENTS }
    }

    /// The machine and the jobs, in the run with this seed. Jobs begin at random phases of a tick.
    pub fn setting(&self, rule: WaitingRule, seed: u64) -> Setting {
        let mut stream = Stream::named(seed, "start", 0);
        let tick = self.tick();
        let mut arrival = |copies: u32| {
            // On this machine all have begun soon after the start.
            let copies = if self.is_on_host() { u64::from(copies) } else { 1 };
            let to = Span::from_nanos(tick.as_nanos() / copies);
            let at = Span::from_nanos(stream.below(tick.as_nanos()));
            Arrival { at, every: Some(Distribution::Uniform { from: Span::ZERO, to }) }
        };
        let mut jobs: Vec<Job> = Vec::new();
        for Teams { name, copies, grain } in self.teams() {
            let kind = self.barrier(self.team, grain, self.rounds(grain), rule);
            jobs.push(Job { arrival: arrival(copies), ..Job::new(name, copies, kind) });
        }
        let others = self.threads.saturating_sub(jobs.iter().map(|job| job.copies * self.team).sum());
        // All jobs go on until the last team is done, so one round of the others is enough.
        let crowd = match self.company {
            Company::Alone | Company::Equal | Company::Mix => None,
            Company::Hogs | Company::EqualAndHogs => Some((1, JobKind::Cpu { threads: others, work: None })),
            Company::Phases => Some((self.phases(), self.phase(others))),
            Company::Blockers => {
                let group = self.blockers(others);
                Some((others / group, self.barrier(group, 5.0, 1, WaitingRule::AlwaysBlock)))
            }
            Company::Spinners => Some((1, self.barrier(others, 5.0, 1, WaitingRule::AlwaysSpin))),
        };
        if let Some((copies, kind)) = crowd {
            let phase = Distribution::exactly(self.phase_length().scaled(2000));
            let every = if self.company == Company::Phases { Some(phase) } else { None };
            jobs.push(Job { arrival: Arrival { every, ..arrival(1) }, ..Job::new(CROWD, copies, kind) });
        }
        // Threads that come and go must end.
        Setting { machine: self.machine(), jobs, coscheduling: None, keep_running: self.company != Company::Phases }
    }

    fn machine(&self) -> MachineKeys {
        let Kernel::Simulated(scheduler) = self.kernel else {
            return MachineKeys { like_host: true, ..MachineKeys::default() };
        };
        MachineKeys {
            cpus: Some(self.cpus),
            scheduler: Some(scheduler),
            step: self.kernel.is(Scheduler::Linux24).then_some(Span::from_micros(1)),
            context_switch: Some(self.context_switch),
            wakeup_cost: Some(self.wakeup_cost),
            ..MachineKeys::default()
        }
    }

    /// How many blockers meet: two, or more if pairs would be too many processes on this machine.
    fn blockers(&self, others: u32) -> u32 {
        if self.is_on_host() { 2 * others.div_ceil(2 * MOST_PROCESSES).max(1) } else { 2 }
    }

    /// The same with equal teams of as many threads as few enough processes take.
    pub(super) fn in_few_processes(self) -> Cell {
        let team = match self.company {
            Company::Equal => self.team.max(self.threads.div_ceil(MOST_PROCESSES)),
            _ => self.team,
        };
        Cell { team, ..self }
    }

    fn barrier(&self, threads: u32, grain: f64, rounds: u64, waiting: WaitingRule) -> JobKind {
        let mean = self.compute(grain);
        let [mean, sd] = [mean, VARIATION * mean].map(|nanos| Span::from_nanos(nanos as u64));
        JobKind::Barrier { threads, compute: Compute::Drawn(Distribution::Normal { mean, sd }), rounds, waiting }
    }

    fn phase_length(&self) -> Span {
        self.tick().scaled(1000 * TICKS_OF_PHASE)
    }

    /// How often the crowd comes: for half as long again as all should take.
    fn phases(&self) -> u32 {
        (1.5 * self.fair() / (2.0 * self.phase_length().as_nanos() as f64)).ceil() as u32
    }

    /// A crowd that has done its work after about one phase.
    fn phase(&self, threads: u32) -> JobKind {
        let work = self.phase_length().as_nanos() as f64 / self.load().max(1.0);
        JobKind::Cpu { threads, work: Some(Distribution::exactly(Span::from_nanos(work as u64))) }
    }

    /// How long each copy of a job of [`Cell::setting`] ran in a simulation until `end`.
    pub fn ran_until(setting: &Setting, seed: u64, end: Instant) -> Vec<Span> {
        let step = setting.machine.step.unwrap_or(Span::from_nanos(1));
        let arrivals = setting.arrivals(seed, step).into_iter();
        arrivals.map(|arrives| end.since(Instant::ZERO + arrives)).collect()
    }

    /// How long each team took to make its rounds, in seconds, from the outcome of the jobs of
    /// [`Cell::setting`]. A team that was cut off when it had `ran` for so long counts as if it had
    /// gone on at the same speed, and as having made half a round if it had made none. A team that
    /// had not begun is left out.
    pub fn seconds(setting: &Setting, jobs: &[JobOutcome], ran: &[Span]) -> Vec<f64> {
        let seconds = |(((_, job), outcome), ran): (((String, &Job), &JobOutcome), &Span)| {
            let JobKind::Barrier { rounds, .. } = job.kind else { return None };
            if job.name == CROWD || (outcome.completion_ns.is_none() && ran.is_zero()) {
                return None;
            }
            let made = outcome.rounds.map_or(0.5, |made| (made as f64).max(0.5));
            let cut_off = || ran.as_secs_f64() * (rounds as f64 / made).max(1.0);
            Some(outcome.completion_ns.map_or_else(cut_off, Span::as_secs_f64))
        };
        setting.jobs_with_copies().zip(jobs).zip(ran).filter_map(seconds).collect()
    }
}

/// In a few words: the kernel, the machine and the jobs.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { kernel, cpus, wakeup_cost, team, company, .. } = self;
        let copies: u32 = self.teams().iter().map(|of| of.copies).sum();
        let teams = if copies > 1 { format!("{copies} x {team}") } else { team.to_string() };
        let (grain, load, company) = (self.grain, self.load(), company.name());
        write!(
            f,
            "{}, {cpus} CPUs, wakeup {wakeup_cost}, {company}, {teams} threads of {grain} cs, load {load:.2}",
            kernel.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::today::grid::Grid;

    fn of(company: Company) -> Cell {
        let cells = Grid::First.cells();
        cells.into_iter().find(|cell| cell.company == company && cell.cpus == 4).unwrap()
    }

    #[test]
    fn every_cell_is_valid_and_has_the_threads_that_it_says() {
        for cell in Grid::SIMULATED.iter().flat_map(|grid| grid.cells()) {
            let setting = cell.setting(WaitingRule::Adaptive, 1);
            assert!(setting.conflicts().is_empty(), "{cell}");
            // Threads that come and go count once; the remainder of a division is left out.
            let copies = |job: &Job| if job.name == CROWD && cell.company == Company::Phases { 1 } else { job.copies };
            let threads: u32 = setting.jobs.iter().map(|job| copies(job) * job.kind.threads(cell.cpus)).sum();
            let missing = cell.threads.checked_sub(threads);
            assert!(missing.is_some_and(|missing| missing < 3 * cell.team), "{cell}: {threads} of {}", cell.threads);
        }
    }

    #[test]
    fn a_team_that_was_cut_off_counts_as_if_it_had_gone_on() {
        let cell = of(Company::Alone);
        let setting = cell.setting(WaitingRule::Adaptive, 1);
        let JobKind::Barrier { rounds, .. } = setting.jobs[0].kind else { panic!("{setting:?}") };
        let seconds = |made: u64, completion_ns| {
            let outcome = JobOutcome { rounds: Some(made), completion_ns, ..JobOutcome::default() };
            Cell::seconds(&setting, &[outcome], &Cell::ran_until(&setting, 1, cell.limit().at))
        };
        assert_eq!(seconds(rounds, Some(Span::from_millis(7))), [0.007]);
        let ran = cell.limit().at.as_nanos() as f64 * 1e-9 - setting.arrivals(1, Span::from_nanos(1))[0].as_secs_f64();
        assert!((seconds(rounds / 2, None)[0] / ran - 2.0).abs() < 0.01);
        assert!((seconds(0, None)[0] / ran / (2.0 * rounds as f64) - 1.0).abs() < 0.01);
        let not_begun = JobOutcome { rounds: Some(0), ..JobOutcome::default() };
        assert_eq!(Cell::seconds(&setting, &[not_begun], &[Span::ZERO]), [0.0; 0]);
    }

    #[test]
    fn runs_of_every_company_end_and_measure_its_teams_alone() {
        for company in Company::ALL {
            let cell = of(company);
            let setting = cell.setting(WaitingRule::AlwaysBlock, 1);
            let machine = setting.machine.complete(&scenario::Machine::with_cpus(cell.cpus));
            let (outcome, end) = sim::run_until(&machine, &setting, 1, cell.limit()).unwrap();
            let seconds = Cell::seconds(&setting, &outcome.jobs, &Cell::ran_until(&setting, 1, end));
            let teams: u32 = cell.teams().iter().map(|of| of.copies).sum();
            assert_eq!(seconds.len(), teams as usize, "{cell}");
            assert!(seconds.iter().all(|seconds| *seconds > 0.0), "{cell}");
        }
    }
}
