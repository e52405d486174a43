//! The limit of a pipelined program: one of its resources, one of its stages, or its buffers.
//!
//! Source: Roysden, section 1: the least time that a pipelined program can take is that of its
//! limiting resource, and it is "difficult to determine the limiting resource directly, especially
//! on the fly". The source derives it from CPU utilization (section 4: 194.6 % of 200 is
//! compute-bound, 143.6 % is not) and by doubling the I/O. Current kernels report much more: how
//! long a thread waited for a CPU, how busy a device was, and the share of time in which threads
//! were stalled on either. So does the pipeline: how long each stage worked, and how long it waited
//! for others.
//!
//! # In this order
//!
//! 1. **The CPUs**, if the program used nearly all of them, or would have used them without other
//!    programs: the time that its threads ran plus the time that they waited for a CPU fills the
//!    CPUs. This comes first because the evidence is the most reliable. If the waiting was not
//!    measured but the kernel reports that threads mostly waited for CPUs, all the busy time of the
//!    computing stages counts.
//! 2. **The device**, if it was busy nearly all the time *and* so were the stages that do I/O,
//!    taken together: a device may be busy for other programs. A busy device could still do more;
//!    the run's verdict compares its throughput with its limit.
//! 3. **One stage**, if one worked nearly all the time: the busiest. Its waiting for a CPU is left
//!    out at first, since such waits make many stages look busy; it counts only if no stage is
//!    found without it. Or else the busiest of the stages that worked most of the time while most
//!    buffers of the pipeline waited for them: more buffers would wait there, too.
//! 4. **The CPUs** all the same, if most of the time a thread waited for one. At every moment at
//!    least one thread of a pipeline works or waits for a CPU, so stages that wait in turn lose the
//!    sum of their waits. Where threads ran and waited at the same time, the sum is compared with
//!    the time of all of them.
//! 5. **The buffers**, if no stage was busy, and yet one could not pass on what it had, or the
//!    first could not start because all buffers were in use.

use crate::priority::StageKind;
use crate::units::Span;

/// From this many thousandths of the time on, something is in use *nearly always*. It lies between
/// the source's 72 % of a program that the CPUs do not limit and the 97 % of one that they do,
/// nearer to the latter: a pipeline fills and drains, and context switches and the kernel's
/// accounting take time that is attributed to no resource.
pub const NEARLY_ALWAYS: u64 = 900;

/// From this many thousandths on, threads had to wait for a CPU *most* of the time, a stage worked
/// most of the time, or most buffers waited for it. A burst of all buffers, which a stage takes one
/// by one, leaves just under half of them waiting on average.
const MOST: u64 = 500;

/// From this many thousandths of the time on, it counts that a stage waits for those behind it.
const NOTABLE: u64 = 100;

/// The observed times of a stage since the last observation, all its copies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageObservation {
    /// Its main activity.
    pub kind: StageKind,
    /// How many copies of it work at a time; zero counts as one.
    pub copies: u32,
    /// How long it worked on buffers.
    pub busy: Span,
    /// How long it waited for a buffer from the stage before it.
    pub starved: Span,
    /// How long it waited for the stages behind it: for room in its output or for its turn or, as
    /// the first stage, for a free buffer.
    pub blocked: Span,
    /// How long its threads were ready to run without a CPU. Most of it is a part of `busy`, the
    /// rest are waits after a wakeup. `None` if unknown.
    pub waiting_for_cpu: Option<Span>,
    /// How many thousandths of its pipeline's buffers waited for it on average, when it took one.
    /// Zero if unknown, or if it counts as busy while a buffer waits.
    pub queued: u32,
}

impl StageObservation {
    /// Whether most buffers of its pipeline waited for it.
    pub const fn is_backed_up(&self) -> bool {
        self.queued as u64 >= MOST
    }
}

/// The observed use of the machine since the last observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MachineObservation {
    /// The length of the observation.
    pub since: Span,
    /// How many CPUs the program may use; zero counts as one.
    pub cpus: u32,
    /// How long all threads of the program ran.
    pub cpu_used: Span,
    /// How long the device was busy that the program reads or writes; `None` if unknown.
    pub device_busy: Option<Span>,
    /// In how many thousandths of the time some thread of the machine was ready without a CPU.
    pub pressure_cpu: Option<u32>,
    /// In how many thousandths of the time some thread of the machine was stalled on a device.
    pub pressure_io: Option<u32>,
}

/// The limit of a pipelined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Limit {
    /// All CPUs are in use.
    Cpu,
    /// The device is fully used.
    Device,
    /// This stage, by its position, works all the time while no resource is exhausted. It could be
    /// forked, split or made faster.
    Stage(usize),
    /// All buffers are in use while no stage is busy.
    Buffers,
    /// Nothing that was observed.
    Unknown,
}

/// Finds the limit of a program with these stages, in the order of the pipeline, in a part of a run
/// or in all of it.
pub fn limit(stages: &[StageObservation], machine: &MachineObservation) -> Limit {
    if machine.since.is_zero() || stages.is_empty() {
        Limit::Unknown
    } else if cpus_are_full(stages, machine) {
        Limit::Cpu
    } else if device_is_full(stages, machine) {
        Limit::Device
    } else if let Some(at) = busiest_stage(stages, machine) {
        Limit::Stage(at)
    } else if stages_wait_for_cpus_in_turn(stages, machine) {
        Limit::Cpu
    } else if some_wait_for_buffers(stages, machine) {
        Limit::Buffers
    } else {
        Limit::Unknown
    }
}

fn cpus_are_full(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let is_measured = stages.iter().any(|stage| stage.waiting_for_cpu.is_some());
    let computing: Span = stages.iter().filter(|stage| stage.kind == StageKind::Compute).map(|stage| stage.busy).sum();
    let is_scarce = !is_measured && machine.pressure_cpu.is_some_and(|pressure| u64::from(pressure) >= MOST);
    let wanted = if is_scarce { machine.cpu_used.max(computing) } else { machine.cpu_used + waited_for_cpus(stages) };
    thousandths(wanted, machine.since, machine.cpus) >= NEARLY_ALWAYS
}

fn device_is_full(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let in_io: Span = stages.iter().filter(|stage| stage.kind == StageKind::Io).map(worked).sum();
    let is_busy = match (machine.device_busy, machine.pressure_io) {
        (Some(busy), _) => thousandths(busy, machine.since, 1) >= NEARLY_ALWAYS,
        (None, Some(pressure)) => u64::from(pressure) >= NEARLY_ALWAYS,
        (None, None) => false,
    };
    is_busy && thousandths(in_io, machine.since, 1) >= NEARLY_ALWAYS
}

/// The stage that limits the program, if one does.
fn busiest_stage(stages: &[StageObservation], machine: &MachineObservation) -> Option<usize> {
    let backed_up = |stage: &StageObservation| if stage.is_backed_up() { stage.busy } else { Span::ZERO };
    busiest(stages, machine, NEARLY_ALWAYS, worked)
        .or_else(|| busiest(stages, machine, NEARLY_ALWAYS, |stage| stage.busy))
        .or_else(|| busiest(stages, machine, MOST, backed_up))
}

/// The busiest stage by this measure, if that is at least so many thousandths of the time; the
/// first among equals.
fn busiest(
    stages: &[StageObservation],
    machine: &MachineObservation,
    least: u64,
    measure: impl Fn(&StageObservation) -> Span,
) -> Option<usize> {
    let shares = stages.iter().map(|stage| thousandths(measure(stage), machine.since, stage.copies));
    let (at, share) = shares.enumerate().reduce(|best, other| if other.1 > best.1 { other } else { best })?;
    (share >= least).then_some(at)
}

fn stages_wait_for_cpus_in_turn(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let waited = waited_for_cpus(stages);
    thousandths(waited, machine.since.max(machine.cpu_used + waited), 1) >= MOST
}

/// How long all threads waited for CPUs.
fn waited_for_cpus(stages: &[StageObservation]) -> Span {
    stages.iter().filter_map(|stage| stage.waiting_for_cpu).sum()
}

fn some_wait_for_buffers(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let first = stages.first().map(|first| (first.starved, first.copies));
    let blocked = stages.iter().map(|stage| (stage.blocked, stage.copies));
    blocked.chain(first).any(|(waited, copies)| thousandths(waited, machine.since, copies) >= NOTABLE)
}

/// How long a stage worked, without its waiting for a CPU.
fn worked(stage: &StageObservation) -> Span {
    stage.busy - stage.waiting_for_cpu.unwrap_or(Span::ZERO)
}

/// A time in thousandths of the time that `of` units had together.
pub(super) fn thousandths(time: Span, since: Span, of: u32) -> u64 {
    let all = u128::from(since.as_nanos()) * u128::from(of.max(1));
    let share = u128::from(time.as_nanos()) * 1000 / all.max(1);
    share.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stage that was busy for this many milliseconds of a hundred, and starved otherwise.
    pub(in super::super) fn stage(kind: StageKind, busy: u64) -> StageObservation {
        let ms = Span::from_millis;
        let starved = ms(100) - ms(busy);
        let (blocked, waiting_for_cpu, queued) = (Span::ZERO, None, 0);
        StageObservation { kind, copies: 1, busy: ms(busy), starved, blocked, waiting_for_cpu, queued }
    }

    /// Two CPUs that were used for this many milliseconds in a hundred.
    pub(in super::super) fn machine(cpu_used: u64) -> MachineObservation {
        let (since, cpu_used) = (Span::from_millis(100), Span::from_millis(cpu_used));
        MachineObservation { since, cpus: 2, cpu_used, device_busy: None, pressure_cpu: None, pressure_io: None }
    }

    fn five(read: u64, compute: u64, send: u64, merge: u64, write: u64) -> [StageObservation; 5] {
        let (io, computing) = (|busy| stage(StageKind::Io, busy), |busy| stage(StageKind::Compute, busy));
        [io(read), computing(compute), stage(StageKind::Communicate, send), computing(merge), io(write)]
    }

    /// Stages of which some, by position, waited for a CPU for this many milliseconds.
    fn kept_waiting(mut stages: [StageObservation; 5], waits: &[(usize, u64)]) -> [StageObservation; 5] {
        waits.iter().for_each(|&(at, ms)| stages[at].waiting_for_cpu = Some(Span::from_millis(ms)));
        stages
    }

    #[test]
    fn the_limit_follows_from_the_use_of_the_resources() {
        let ms = Span::from_millis;
        let used = |micros| MachineObservation { cpu_used: Span::from_micros(micros), ..machine(0) };
        let device = |busy, machine| MachineObservation { device_busy: Some(ms(busy)), ..machine };
        let pressed = |pressure| MachineObservation { pressure_cpu: Some(pressure), ..machine(99) };
        let stalled = |pressure| MachineObservation { pressure_io: Some(pressure), ..machine(100) };
        let (full, io) = (five(10, 99, 0, 99, 10), five(50, 60, 0, 5, 45));
        let (mut one_copy, mut both_copies) = (five(10, 95, 0, 5, 10), five(10, 190, 0, 5, 10));
        (one_copy[1].copies, both_copies[1].copies) = (2, 2);
        let (mut supplied, mut blocked) = (five(40, 50, 0, 5, 40), five(40, 50, 0, 5, 40));
        (supplied[0].starved, blocked[0].starved, blocked[0].blocked) = (Span::ZERO, Span::ZERO, ms(30));
        let (mut backed_up, mut idle) = (blocked, five(40, 50, 0, 5, 40));
        (backed_up[1].busy, backed_up[1].queued) = (ms(84), 563);
        (idle[0].blocked, idle[4].queued) = (ms(30), 600);
        let stopped = MachineObservation { since: Span::ZERO, ..machine(200) };
        for (case, stages, machine, expected) in [
            ("compute-bound program of the source", five(60, 98, 20, 97, 40), used(194_600), Limit::Cpu),
            ("I/O-bound program of the source", five(55, 70, 20, 74, 44), device(99, used(143_600)), Limit::Device),
            ("CPUs in use by other programs", kept_waiting(full, &[(1, 50), (3, 50)]), machine(99), Limit::Cpu),
            ("unmeasured waits, high pressure", full, pressed(800), Limit::Cpu),
            ("unmeasured waits, low pressure", full, pressed(100), Limit::Stage(1)),
            ("waiting in turn", kept_waiting(five(10, 50, 0, 50, 10), &[(1, 40), (3, 40)]), machine(30), Limit::Cpu),
            (
                "waiting less than running",
                kept_waiting(five(10, 50, 0, 50, 10), &[(1, 25), (3, 26)]),
                machine(60),
                Limit::Buffers,
            ),
            ("one waiter", kept_waiting(five(10, 99, 0, 30, 10), &[(1, 40)]), machine(100), Limit::Stage(1)),
            ("work over waiting", kept_waiting(five(10, 100, 0, 95, 10), &[(1, 60)]), machine(110), Limit::Stage(3)),
            ("device busy for others", five(20, 95, 0, 5, 20), device(100, machine(100)), Limit::Stage(1)),
            ("device busy for the program", io, device(100, machine(100)), Limit::Device),
            ("unmeasured device, high pressure", io, stalled(950), Limit::Device),
            ("unmeasured device, low pressure", io, stalled(500), Limit::Buffers),
            ("measurement over pressure", io, device(0, stalled(950)), Limit::Buffers),
            ("one of two copies busy", one_copy, machine(100), Limit::Buffers),
            ("both copies busy", both_copies, machine(100), Limit::Stage(1)),
            ("first stage starved", five(40, 50, 0, 5, 40), machine(60), Limit::Buffers),
            ("first stage supplied", supplied, machine(60), Limit::Unknown),
            ("first stage blocked", blocked, machine(60), Limit::Buffers),
            ("buffers wait for a stage", backed_up, machine(110), Limit::Stage(1)),
            ("buffers wait for an idle stage", idle, machine(60), Limit::Buffers),
            ("sleeping stages, high pressure", kept_waiting(full, &[(1, 0)]), pressed(800), Limit::Stage(1)),
            ("no time", five(9, 9, 9, 9, 9), stopped, Limit::Unknown),
        ] {
            assert_eq!(limit(&stages, &machine), expected, "{case}");
        }
        assert_eq!(limit(&[], &machine(200)), Limit::Unknown);
    }

    pub(in super::super) fn any_stages() -> impl Strategy<Value = Vec<StageObservation>> {
        let ms = || (0_u64..150).prop_map(Span::from_millis);
        let waits = (ms(), ms(), prop::option::of(ms()), 0_u32..1001);
        let one = (prop::sample::select(&StageKind::ALL[..]), 0_u32..4, ms(), waits);
        let one = one.prop_map(|(kind, copies, busy, (starved, blocked, waiting_for_cpu, queued))| StageObservation {
            kind,
            copies,
            busy,
            starved,
            blocked,
            waiting_for_cpu,
            queued,
        });
        prop::collection::vec(one, 0..6)
    }

    pub(in super::super) fn any_machine() -> impl Strategy<Value = MachineObservation> {
        let optional = || prop::option::of(0_u32..1001);
        let device = prop::option::of((0_u64..150).prop_map(Span::from_millis));
        (0_u64..150, 0_u32..4, 0_u64..400, device, optional(), optional()).prop_map(
            |(since, cpus, cpu_used, device_busy, pressure_cpu, pressure_io)| {
                let (since, cpu_used) = (Span::from_millis(since), Span::from_millis(cpu_used));
                MachineObservation { since, cpus, cpu_used, device_busy, pressure_cpu, pressure_io }
            },
        )
    }

    proptest! {
        #[test]
        fn the_length_of_a_run_does_not_change_its_limit(stages in any_stages(), machine in any_machine(), times in 1_u64..1000) {
            let longer = |span: Span| span.scaled(times * 1000);
            let all: Vec<StageObservation> = stages.iter().map(|&stage| StageObservation {
                busy: longer(stage.busy),
                starved: longer(stage.starved),
                blocked: longer(stage.blocked),
                waiting_for_cpu: stage.waiting_for_cpu.map(longer),
                ..stage
            }).collect();
            let same = MachineObservation {
                since: longer(machine.since),
                cpu_used: longer(machine.cpu_used),
                device_busy: machine.device_busy.map(longer),
                ..machine
            };
            prop_assert_eq!(limit(&all, &same), limit(&stages, &machine));
        }

        #[test]
        fn a_limiting_stage_is_in_the_pipeline(stages in any_stages(), machine in any_machine()) {
            if let Limit::Stage(at) = limit(&stages, &machine) {
                prop_assert!(at < stages.len());
            }
        }
    }

    #[test]
    fn no_length_of_time_is_too_long() {
        let all = StageObservation { busy: Span::MAX, copies: u32::MAX, ..stage(StageKind::Io, 0) };
        let long = MachineObservation { since: Span::MAX, cpus: u32::MAX, cpu_used: Span::MAX, ..machine(0) };
        assert_eq!(limit(&[all], &long), Limit::Unknown);
        let short = MachineObservation { since: Span::from_nanos(1), ..long };
        assert_eq!(limit(&[all], &short), Limit::Cpu);
    }
}
