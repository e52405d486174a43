//! What limits a pipelined program: one of its resources, one of its stages, or its buffers.
//!
//! Source: Roysden, section 1: the least time that a pipelined program can take is that of its limiting resource, and it is
//! "difficult to determine the limiting resource directly, especially on the fly". The source tells by the use of the CPUs (section 4:
//! 194.6 % of 200 is compute-bound, 143.6 % is not) and by doubling the I/O. The kernels of today tell much more: how long a
//! thread waited for a CPU, how busy a device was, and how much of the time threads were held up by either. So does the
//! pipeline: how long each stage worked, and how long it waited for others.
//!
//! # In this order
//!
//! 1. **The CPUs**, where the program used nearly all of them, or would have, had others not used them: what its threads ran and what they were
//!    kept waiting fill the CPUs. First, because this evidence is the surest. Where nobody measured the waiting, but the kernel says
//!    that threads mostly had to wait for CPUs, the computing stages count with all the time that they were busy.
//! 2. **The device**, where it was busy nearly all the time *and* so were the stages that do I/O, taken together: a device may be busy for
//!    other programs. That a device was busy does not mean that it could not do more; the run's verdict compares its bytes with what it can do.
//! 3. **One stage**, where one was at work nearly all the time: the busiest. What it waited for a CPU is left out at first, since
//!    such waits make many stages look busy; only where that finds none, it counts.
//! 4. **The buffers**, where no stage was busy and yet one could not get rid of what it had, or the first could not begin since all buffers
//!    were under way.

use crate::priority::StageKind;
use crate::units::Span;

/// From so many thousandths of the time on, something is in use *nearly always*. Between the source's 72 % of a program that the CPUs do not
/// limit and the 97 % of one that they do, nearer to the latter: a pipeline fills and drains, and what is lost to switches and in the
/// kernel's accounting is lost to no resource's name.
const NEARLY_ALWAYS: u64 = 900;

/// From so many thousandths on the kernel's pressure says that threads *mostly* had to wait for a CPU.
const MOSTLY: u32 = 500;

/// From so many thousandths of the time on, a stage that waits for those behind it is worth a word.
const NOTABLE: u64 = 100;

/// What a stage did since the last time, all its copies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageObservation {
    /// What it mostly does.
    pub kind: StageKind,
    /// How many copies of it work at a time; zero counts as one.
    pub copies: u32,
    /// How long it was at work on buffers.
    pub busy: Span,
    /// How long it waited for a buffer from the stage before it.
    pub starved: Span,
    /// How long it waited for the stages behind it: for room in its output or for its turn, or, as the first, for a free buffer.
    pub blocked: Span,
    /// How long its threads were ready to run and had no CPU, nearly all of which is a part of `busy`; zero where nobody knows.
    pub waiting_for_cpu: Span,
}

/// What the machine did since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MachineObservation {
    /// How long that is.
    pub since: Span,
    /// How many CPUs the program may use; zero counts as one.
    pub cpus: u32,
    /// How long all threads of the program ran.
    pub cpu_used: Span,
    /// How long the device was busy that the program reads or writes; nothing where nobody knows.
    pub device_busy: Option<Span>,
    /// In how many thousandths of the time some thread of the machine was ready and had no CPU.
    pub pressure_cpu: Option<u32>,
    /// In how many thousandths of the time some thread of the machine was held up by a device.
    pub pressure_io: Option<u32>,
}

/// What limits a pipelined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Limit {
    /// There are no more CPUs.
    Cpu,
    /// The device does not do more.
    Device,
    /// This stage, by its position, works all the time, and no resource is exhausted: it could be forked, split or made faster.
    Stage(usize),
    /// All buffers are under way while nobody is busy.
    Buffers,
    /// Nothing that could be seen.
    Unknown,
}

/// What limited a program whose stages, in the order of the pipeline, did this. For a part of a run or for all of it.
pub fn limit(stages: &[StageObservation], machine: &MachineObservation) -> Limit {
    if machine.since.is_zero() || stages.is_empty() {
        Limit::Unknown
    } else if cpus_are_full(stages, machine) {
        Limit::Cpu
    } else if device_is_full(stages, machine) {
        Limit::Device
    } else if let Some(at) = busiest(stages, machine, worked).or_else(|| busiest(stages, machine, |stage| stage.busy)) {
        Limit::Stage(at)
    } else if some_wait_for_buffers(stages, machine) {
        Limit::Buffers
    } else {
        Limit::Unknown
    }
}

fn cpus_are_full(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let kept_waiting: Span = stages.iter().map(|stage| stage.waiting_for_cpu).sum();
    let computing: Span = stages.iter().filter(|stage| stage.kind == StageKind::Compute).map(|stage| stage.busy).sum();
    let is_scarce = kept_waiting.is_zero() && machine.pressure_cpu.is_some_and(|pressure| pressure >= MOSTLY);
    let wanted = if is_scarce { machine.cpu_used.max(computing) } else { machine.cpu_used + kept_waiting };
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

/// The stage that is busiest by this measure, if that is nearly all the time; the first of equals.
fn busiest(
    stages: &[StageObservation],
    machine: &MachineObservation,
    measure: impl Fn(&StageObservation) -> Span,
) -> Option<usize> {
    let shares = stages.iter().map(|stage| thousandths(measure(stage), machine.since, stage.copies));
    let (at, share) = shares.enumerate().reduce(|best, other| if other.1 > best.1 { other } else { best })?;
    (share >= NEARLY_ALWAYS).then_some(at)
}

fn some_wait_for_buffers(stages: &[StageObservation], machine: &MachineObservation) -> bool {
    let first = stages.first().map(|first| (first.starved, first.copies));
    let blocked = stages.iter().map(|stage| (stage.blocked, stage.copies));
    blocked.chain(first).any(|(waited, copies)| thousandths(waited, machine.since, copies) >= NOTABLE)
}

/// How long a stage was at work without what it waited for a CPU.
fn worked(stage: &StageObservation) -> Span {
    stage.busy - stage.waiting_for_cpu
}

/// A time as thousandths of what so many could have had.
pub(super) fn thousandths(time: Span, since: Span, of: u32) -> u64 {
    let all = u128::from(since.as_nanos()) * u128::from(of.max(1));
    let share = u128::from(time.as_nanos()) * 1000 / all.max(1);
    share.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stage that was busy for so many milliseconds of a hundred, and starved else.
    pub(in super::super) fn stage(kind: StageKind, busy: u64) -> StageObservation {
        let ms = Span::from_millis;
        let starved = ms(100) - ms(busy);
        StageObservation { kind, copies: 1, busy: ms(busy), starved, blocked: Span::ZERO, waiting_for_cpu: Span::ZERO }
    }

    /// Two CPUs that were used for so many milliseconds in a hundred.
    pub(in super::super) fn machine(cpu_used: u64) -> MachineObservation {
        let (since, cpu_used) = (Span::from_millis(100), Span::from_millis(cpu_used));
        MachineObservation { since, cpus: 2, cpu_used, device_busy: None, pressure_cpu: None, pressure_io: None }
    }

    fn five(read: u64, compute: u64, send: u64, merge: u64, write: u64) -> [StageObservation; 5] {
        let (io, computing) = (|busy| stage(StageKind::Io, busy), |busy| stage(StageKind::Compute, busy));
        [io(read), computing(compute), stage(StageKind::Communicate, send), computing(merge), io(write)]
    }

    #[test]
    fn the_two_programs_of_the_source_are_told_apart() {
        let compute_bound = MachineObservation { cpu_used: Span::from_micros(194_600), ..machine(0) };
        assert_eq!(limit(&five(60, 98, 20, 97, 40), &compute_bound), Limit::Cpu);
        let ms = Span::from_millis;
        let io_bound =
            MachineObservation { cpu_used: Span::from_micros(143_600), device_busy: Some(ms(99)), ..machine(0) };
        assert_eq!(limit(&five(55, 70, 20, 74, 44), &io_bound), Limit::Device);
    }

    #[test]
    fn cpus_that_others_use_are_full_as_well() {
        let mut stages = five(10, 99, 0, 99, 10);
        stages[1].waiting_for_cpu = Span::from_millis(50);
        stages[3].waiting_for_cpu = Span::from_millis(50);
        assert_eq!(limit(&stages, &machine(99)), Limit::Cpu);
        // Where nobody has measured the waiting, the kernel's word for it is taken.
        let stages = five(10, 99, 0, 99, 10);
        assert_eq!(limit(&stages, &MachineObservation { pressure_cpu: Some(800), ..machine(99) }), Limit::Cpu);
        assert_eq!(limit(&stages, &MachineObservation { pressure_cpu: Some(100), ..machine(99) }), Limit::Stage(1));
    }

    #[test]
    fn one_stage_that_waits_for_cpus_does_not_make_them_full() {
        let mut stages = five(10, 99, 0, 30, 10);
        stages[1].waiting_for_cpu = Span::from_millis(40);
        assert_eq!(limit(&stages, &machine(100)), Limit::Stage(1));
    }

    #[test]
    fn who_works_all_the_time_limits_rather_than_who_waits_for_a_cpu() {
        let mut stages = five(10, 100, 0, 95, 10);
        stages[1].waiting_for_cpu = Span::from_millis(60);
        assert_eq!(limit(&stages, &machine(110)), Limit::Stage(3));
    }

    #[test]
    fn a_device_that_is_busy_for_others_does_not_limit() {
        let busy = MachineObservation { device_busy: Some(Span::from_millis(100)), ..machine(100) };
        assert_eq!(limit(&five(20, 95, 0, 5, 20), &busy), Limit::Stage(1));
        assert_eq!(limit(&five(50, 60, 0, 5, 45), &busy), Limit::Device);
    }

    #[test]
    fn without_a_device_to_look_at_the_kernels_pressure_is_taken() {
        let pressed = |pressure| MachineObservation { pressure_io: Some(pressure), ..machine(100) };
        assert_eq!(limit(&five(50, 60, 0, 5, 45), &pressed(950)), Limit::Device);
        assert_eq!(limit(&five(50, 60, 0, 5, 45), &pressed(500)), Limit::Buffers);
        let idle = MachineObservation { device_busy: Some(Span::ZERO), ..pressed(950) };
        assert_eq!(limit(&five(50, 60, 0, 5, 45), &idle), Limit::Buffers, "what is measured counts before pressure");
    }

    #[test]
    fn a_forked_stage_is_busy_when_all_its_copies_are() {
        let mut stages = five(10, 95, 0, 5, 10);
        stages[1].copies = 2;
        assert_eq!(limit(&stages, &machine(100)), Limit::Buffers);
        stages[1].busy = Span::from_millis(190);
        assert_eq!(limit(&stages, &machine(100)), Limit::Stage(1));
    }

    #[test]
    fn buffers_limit_where_the_first_stage_waits_for_them_and_nobody_is_busy() {
        assert_eq!(limit(&five(40, 50, 0, 5, 40), &machine(60)), Limit::Buffers);
        let mut stages = five(40, 50, 0, 5, 40);
        stages[0].starved = Span::ZERO;
        assert_eq!(limit(&stages, &machine(60)), Limit::Unknown);
        stages[0].blocked = Span::from_millis(30);
        assert_eq!(limit(&stages, &machine(60)), Limit::Buffers);
    }

    #[test]
    fn nothing_is_known_of_nobody_and_of_no_time() {
        assert_eq!(limit(&[], &machine(200)), Limit::Unknown);
        assert_eq!(
            limit(&five(9, 9, 9, 9, 9), &MachineObservation { since: Span::ZERO, ..machine(200) }),
            Limit::Unknown
        );
    }

    pub(in super::super) fn any_stages() -> impl Strategy<Value = Vec<StageObservation>> {
        let ms = || (0_u64..150).prop_map(Span::from_millis);
        let one = (0..3_usize, 0_u32..4, ms(), ms(), ms(), ms());
        let one = one.prop_map(|(kind, copies, busy, starved, blocked, waiting_for_cpu)| StageObservation {
            kind: StageKind::ALL[kind],
            copies,
            busy,
            starved,
            blocked,
            waiting_for_cpu,
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
                waiting_for_cpu: longer(stage.waiting_for_cpu),
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
        fn a_stage_that_limits_is_one_of_them(stages in any_stages(), machine in any_machine()) {
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
