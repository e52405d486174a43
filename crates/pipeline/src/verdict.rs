//! The verdict on a run: its limit, and how far it was from the least possible time.
//!
//! [`policy::priority::limit`] determines the limit, both here and while a program runs. A *floor*
//! is the time that one resource alone needs for the same work. No schedule is below the highest
//! floor, so the ratio of the run's time to it shows how much better scheduling could gain at most.
//! A run at 1.05 times its floor needs less work, or more of the limiting resource, but not another
//! schedule.

mod text;

use policy::Span;
use policy::priority::{Limit, MachineObservation, StageKind, StageObservation, limit};
use serde::Serialize;

use crate::bandwidth::Bandwidth;
use crate::counters::Takes;
use crate::plan::Place;
use crate::report::{RunReport, StageReport};
use crate::structure::Structure;
use text::{advice, evidence};
pub use text::{format_bytes, format_time};

/// The limit of a run, and its floors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The duration of the run, in nanoseconds.
    pub clock_ns: u64,
    /// The limiting resource.
    pub limit: LimitingResource,
    /// The observations that support this.
    pub evidence: String,
    /// Advice that would make it faster.
    pub advice: String,
    /// The floors, highest first.
    pub floors: Vec<Floor>,
}

/// A resource that limits a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitingResource {
    /// The CPUs.
    Cpu,
    /// The device of this name, which is empty if unknown.
    Device(String),
    /// This stage, or the stages that one thread runs.
    Stage(String),
    /// The number of buffers.
    Buffers,
    /// Nothing that was observed.
    Unknown,
}

/// The least time that one resource needs for the work of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Floor {
    /// The resource.
    pub resource: LimitingResource,
    /// The time, in nanoseconds.
    pub ns: u64,
    /// How the time was calculated.
    #[serde(rename = "reckoned")]
    pub calculation: String,
}

/// Stages that cannot work at the same time, because they are fused or share a thread. Or the ports
/// of a junction.
#[derive(Debug)]
struct Unit<'r> {
    report: &'r RunReport,
    shared: Option<Shared<'r>>,
    stages: Vec<&'r StageReport>,
}

/// The reason why stages form a unit, unless they are fused.
#[derive(Debug, PartialEq, Eq)]
enum Shared<'r> {
    /// The index of a thread of the structure.
    Thread(usize),
    /// The name of a junction.
    Junction(&'r str),
}

impl Verdict {
    /// The verdict on a run, optionally with the [measured](Bandwidth::measure) bandwidth of its
    /// device.
    pub fn of(report: &RunReport, bandwidth: Option<&Bandwidth>) -> Verdict {
        let units = units(report);
        let stages: Vec<StageObservation> = units.iter().map(Unit::observation).collect();
        let machine = &report.machine;
        let observation = MachineObservation {
            since: Span::from_nanos(report.clock_ns),
            cpus: report.cpus.try_into().unwrap_or(u32::MAX),
            cpu_used: Span::from_nanos(report.cpu_ns()),
            device_busy: machine.device_busy_ns.map(Span::from_nanos),
            pressure_cpu: machine.pressure_cpu,
            pressure_io: machine.pressure_io,
        };
        let found = limit(&stages, &observation);
        let limit = match found {
            Limit::Cpu => LimitingResource::Cpu,
            Limit::Device => LimitingResource::Device(machine.device.clone().unwrap_or_default()),
            Limit::Stage(at) => LimitingResource::Stage(units[at].name()),
            Limit::Buffers => LimitingResource::Buffers,
            Limit::Unknown => LimitingResource::Unknown,
        };
        let mut floors = floors(report, &units, bandwidth);
        floors.sort_by_key(|floor| std::cmp::Reverse(floor.ns));
        let clock_ns = report.clock_ns;
        let (evidence, advice) = (evidence(found, report, &units), advice(found, report, &units));
        Verdict { clock_ns, limit, evidence, advice, floors }
    }

    /// The ratio of the run's time to its highest floor. `None` if all floors are zero.
    pub fn times_floor(&self) -> Option<f64> {
        let highest = self.floors.first().filter(|floor| floor.ns > 0)?;
        Some(self.clock_ns as f64 / highest.ns as f64)
    }
}

/// The stages of a report, grouped if they are fused or share a thread, in the order of the first
/// of each.
fn units(report: &RunReport) -> Vec<Unit<'_>> {
    let structure: Structure = report.structure.parse().unwrap_or_default();
    // The index of the shared thread that runs a stage.
    let thread = |stage: &StageReport| {
        structure.thread.iter().position(|turns| turns.len() > 1 && turns.iter().any(|turn| turn.stage == stage.name))
    };
    let mut units: Vec<Unit<'_>> = Vec::new();
    let mut before = None;
    for stage in &report.stages {
        let shared = thread(stage).map(Shared::Thread);
        let shared = shared.or_else(|| (stage.place == Place::Junction).then_some(Shared::Junction(&stage.name)));
        let known = units.iter().position(|unit| shared.is_some() && unit.shared == shared);
        let at = known.or(before.filter(|_| stage.is_fused)).unwrap_or(units.len());
        if at == units.len() {
            units.push(Unit { report, shared, stages: Vec::new() });
        }
        units[at].stages.push(stage);
        before = Some(at);
    }
    units
}

impl Unit<'_> {
    fn name(&self) -> String {
        let mut names: Vec<&str> = self.stages.iter().map(|stage| stage.name.as_str()).collect();
        // A junction has the same name in all pipelines.
        names.dedup();
        names.join("+")
    }

    fn sum(&self, what: impl Fn(&StageReport) -> u64) -> u64 {
        self.stages.iter().map(|stage| what(stage)).fold(0, u64::saturating_add)
    }

    fn copies(&self) -> u64 {
        self.stages.iter().map(|stage| stage.copies as u64).max().unwrap_or(1).max(1)
    }

    fn observation(&self) -> StageObservation {
        let busiest = self.stages.iter().max_by_key(|stage| stage.busy_ns);
        let ns = |what: fn(&StageReport) -> u64| Span::from_nanos(self.sum(what));
        StageObservation {
            kind: busiest.map_or(StageKind::Compute, |stage| stage.kind),
            copies: self.copies().try_into().unwrap_or(u32::MAX),
            busy: ns(|stage| stage.busy_ns),
            starved: ns(|stage| stage.starved_ns),
            blocked: ns(|stage| stage.blocked_ns),
            waiting_for_cpu: self.waiting_for_cpu(),
            queued: self.queued(),
        }
    }

    /// How long it waited for CPUs, also while it had no buffer if the kernel counts that. `None`
    /// if it is unknown of all stages.
    fn waiting_for_cpu(&self) -> Option<Span> {
        let waited = |stage: &StageReport| stage.waiting_for_cpu_ns.or_else(|| waited_for_cpu(stage, self.report));
        self.stages.iter().filter_map(|stage| waited(stage)).map(Span::from_nanos).reduce(|sum, more| sum + more)
    }

    /// How many thousandths of the buffers waited for it. A junction needs a buffer from each of
    /// its pipelines, so the fewest count. All that wait for one thread count together.
    fn queued(&self) -> u32 {
        let of_stages = self.stages.iter().filter(|stage| !stage.is_fused);
        let of_stages = of_stages.map(|stage| Takes::of(&stage.depths).queued(self.report.buffers_of(stage)));
        let is_junction = self.stages.iter().any(|stage| stage.place == Place::Junction);
        if is_junction { of_stages.min().unwrap_or(0) } else { of_stages.sum::<u32>().min(1000) }
    }

    /// The busy time of all copies, without their waits for a CPU.
    fn work(&self) -> u64 {
        self.sum(|stage| stage.busy_ns - waited_for_cpu(stage, self.report).unwrap_or(0))
    }

    /// The least time for the work of each copy.
    fn floor(&self) -> u64 {
        self.work() / self.copies()
    }

    /// The busy share of the run's time.
    fn share(&self, clock: u64) -> f64 {
        self.sum(|stage| stage.busy_ns) as f64 / (clock.max(1) * self.copies()) as f64
    }
}

/// How long a stage waited for a CPU while it had a buffer: as long as the kernel counted, at most
/// all the time in which it did not run. If the kernel does not count, a compute stage that does
/// not run waits for a CPU, as far as the pressure on the CPUs confirms it; for other stages this
/// is unknown.
fn waited_for_cpu(stage: &StageReport, report: &RunReport) -> Option<u64> {
    let by_pressure = || {
        let pressure = u64::from(report.machine.pressure_cpu.unwrap_or(1000));
        let most = u128::from(report.clock_ns) * stage.copies.max(1) as u128 * u128::from(pressure) / 1000;
        most.try_into().unwrap_or(u64::MAX)
    };
    let most = match (stage.waiting_for_cpu_ns, stage.kind) {
        (Some(counted), _) => counted,
        (None, StageKind::Compute) => by_pressure(),
        (None, StageKind::Io | StageKind::Communicate) => return None,
    };
    Some(stage.busy_ns.saturating_sub(stage.cpu_ns()).min(most))
}

fn floors(report: &RunReport, units: &[Unit<'_>], bandwidth: Option<&Bandwidth>) -> Vec<Floor> {
    let cpus = report.cpus.max(1) as u64;
    let of_cpus = Floor {
        resource: LimitingResource::Cpu,
        ns: report.cpu_ns() / cpus,
        calculation: format!(
            "{} of CPU time on {cpus} CPU{}",
            format_time(report.cpu_ns()),
            if cpus == 1 { "" } else { "s" }
        ),
    };
    let of_stage = |unit: &Unit<'_>| {
        let (work, copies) = (unit.work(), unit.copies());
        let among = if copies == 1 { String::new() } else { format!(" by {copies} copies") };
        Floor {
            resource: LimitingResource::Stage(unit.name()),
            ns: unit.floor(),
            calculation: format!("{} of work{among}", format_time(work)),
        }
    };
    let busiest = units.iter().max_by_key(|unit| unit.floor()).map(of_stage);
    let of_device = bandwidth.and_then(|bandwidth| {
        let (read, written) = (report.machine.read_bytes?, report.machine.written_bytes?);
        let at = |bytes: u64, speed: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(speed.max(1))) as u64;
        Some(Floor {
            resource: LimitingResource::Device(report.machine.device.clone().unwrap_or_default()),
            // A device may read and write at the same time.
            ns: at(read, bandwidth.read).max(at(written, bandwidth.write)),
            calculation: format!(
                "{} read at {}/s, {} written at {}/s",
                format_bytes(read),
                format_bytes(bandwidth.read),
                format_bytes(written),
                format_bytes(bandwidth.write)
            ),
        })
    });
    [of_cpus].into_iter().chain(busiest).chain(of_device).collect()
}

#[cfg(test)]
mod tests;
