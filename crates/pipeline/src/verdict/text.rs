//! The text of a verdict.

use std::fmt;
use std::time::Duration;

use policy::priority::{Limit, StageKind};

use super::{Floor, LimitingResource, Unit, Verdict};
use crate::machine::NiceScope;
use crate::plan::Place;
use crate::report::RunReport;

/// Whether it used almost all CPUs.
fn has_all_cpus(report: &RunReport) -> bool {
    cpus_used(report) >= 0.9 * report.cpus as f64
}

/// The average number of CPUs in use.
fn cpus_used(report: &RunReport) -> f64 {
    Duration::from_nanos(report.cpu_ns()).as_secs_f64() / report.clock().as_secs_f64().max(1e-9)
}

/// How long its threads waited for CPUs, in nanoseconds. `None` if the kernel does not count that.
fn counted_waits(report: &RunReport) -> Option<u64> {
    report.stages.iter().filter_map(|stage| stage.waiting_for_cpu_ns).reduce(u64::saturating_add)
}

/// The observations that support a limit.
pub(super) fn evidence(found: Limit, report: &RunReport, units: &[Unit<'_>]) -> String {
    let clock = report.clock_ns.max(1);
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let cpus = format!("{:.2} of {} CPUs were in use", cpus_used(report), report.cpus);
    match found {
        Limit::Cpu if has_all_cpus(report) => cpus,
        Limit::Cpu => match (counted_waits(report), report.machine.pressure_cpu) {
            (Some(waited), _) => format!("{cpus}, and its threads waited for them, {} in all", format_time(waited)),
            (None, Some(pressure)) => {
                let waited = percent(f64::from(pressure) / 1000.0);
                format!("{cpus}, and other programs wanted them: some thread waited for a CPU {waited} of the time")
            }
            (None, None) => format!("{cpus}, and its threads waited for them"),
        },
        Limit::Device => {
            let busy = report.machine.device_busy_ns.map(|busy| percent(busy as f64 / clock as f64));
            let pressure = report.machine.pressure_io.map(|pressure| percent(f64::from(pressure) / 1000.0));
            match (busy, pressure) {
                (Some(busy), _) => format!("it was busy {busy} of the time; {cpus}"),
                (None, Some(pressure)) => format!("some thread waited for it {pressure} of the time; {cpus}"),
                (None, None) => cpus,
            }
        }
        Limit::Stage(at) => {
            let unit = &units[at];
            let queued = match unit.observation() {
                seen if seen.is_backed_up() => {
                    format!(", while {} of the buffers waited for it", percent(f64::from(seen.queued) / 1000.0))
                }
                _ => String::new(),
            };
            let busy = unit.sum(|stage| stage.busy_ns);
            let waited = match busy - unit.work() {
                waited if waited > busy / 10 => {
                    format!(" ({} of that waiting for a CPU)", percent(waited as f64 / busy as f64))
                }
                _ => String::new(),
            };
            format!("at work {} of the time{waited}{queued}; {cpus}", percent(unit.share(clock)))
        }
        Limit::Buffers | Limit::Unknown => {
            let closest = units.iter().max_by(|a, b| a.share(clock).total_cmp(&b.share(clock)));
            let closest = closest
                .map(|unit| format!("'{}' was busiest, {} of the time; ", unit.name(), percent(unit.share(clock))));
            let waited =
                units.iter().map(|unit| unit.sum(|stage| stage.blocked_ns) as f64 / clock as f64).fold(0.0, f64::max);
            let waited = match found {
                Limit::Buffers => format!("no buffer was free {} of the time; ", percent(waited)),
                _ => String::new(),
            };
            format!("{waited}{}{cpus}", closest.unwrap_or_default())
        }
    }
}

/// Advice that would make the run faster.
pub(super) fn advice(found: Limit, report: &RunReport, units: &[Unit<'_>]) -> String {
    let advice = match found {
        Limit::Stage(at) => return stage_advice(&units[at], report),
        Limit::Buffers => {
            let most = report.pipelines.iter().map(|pipeline| pipeline.buffers).max().unwrap_or(1);
            return format!("more buffers (`buffers={}`)", most.saturating_mul(2));
        }
        Limit::Cpu if !has_all_cpus(report) => match report.machine.nice_scope {
            NiceScope::Machine => {
                "the CPUs for itself, or a better nice value than theirs (`priority=nice-down-compute`, if permitted)"
            }
            NiceScope::Session => {
                "the CPUs for itself, or a better nice value for its session (as root, `echo -10 > /proc/self/autogroup` \
                 in its shell), since the nice values of threads count only within a session"
            }
            NiceScope::ControlGroup => {
                "the CPUs for itself, or a larger share for its control group (`cpu.weight` or `cpu.shares`), since nice \
                 values count only within the group"
            }
        },
        Limit::Cpu => "less to compute, or more CPUs; priorities can only save switches (`priority=nice-up-io`)",
        Limit::Device => "fewer bytes, or a faster device; priorities can only keep it busy (`priority=nice-down-io`)",
        Limit::Unknown => "finding what it waited for, which was not observed; a longer run may show more",
    };
    advice.to_owned()
}

fn stage_advice(unit: &Unit<'_>, report: &RunReport) -> String {
    if unit.sum(|stage| stage.setup_ns) * 2 > unit.sum(|stage| stage.busy_ns)
        && let Some(stage) = unit.stages.iter().max_by_key(|stage| stage.setup_ns)
    {
        let time = format_time(stage.setup_ns);
        return format!("less to do in `init` and `cleanup` of '{}', which took {time}", stage.name);
    }
    let (stage, name) = match unit.stages.as_slice() {
        [stage] => (stage, &stage.name),
        [stage, ..] if stage.place == Place::Junction => {
            return format!("less to do in junction '{}', for example by stages before or after it", stage.name);
        }
        several => {
            let last = several.last().map_or("", |stage| &stage.name);
            return format!("a thread for each of them (`split={last}`)");
        }
    };
    match stage.kind {
        StageKind::Compute if stage.copies > 1 && stage.copies >= report.cpus => {
            let ran = 100.0 * stage.cpu_ns() as f64 / stage.busy_ns.max(1) as f64;
            format!(
                "'{name}' has a copy for each CPU already, but ran for only {ran:.0} % of its busy time: find out what it waits for"
            )
        }
        StageKind::Compute if stage.can_fork => {
            let copies = stage.copies + 1;
            let lacks_workers = stage.place == Place::Workers && report.workers < copies;
            let workers = if lacks_workers { format!("workers={copies} ") } else { String::new() };
            format!("more copies of it (`{workers}fork={name}*{copies}`), or less to compute in it")
        }
        StageKind::Compute => {
            format!(
                "'{name}' works on one buffer at a time: split it in two, make it forkable, or give it less to compute"
            )
        }
        _ if stage.can_fork => {
            format!("several requests at a time (`fork={name}*{}`), or larger blocks (`block=`)", stage.copies * 2)
        }
        _ => format!("larger blocks (`block=`), or several requests at a time: make '{name}' forkable"),
    }
}

impl fmt::Display for LimitingResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitingResource::Cpu => f.write_str("the CPUs"),
            LimitingResource::Device(name) if name.is_empty() => f.write_str("the device"),
            LimitingResource::Device(name) => write!(f, "the device {name}"),
            LimitingResource::Stage(name) if name.contains('+') => write!(f, "the stages '{name}' in turn"),
            LimitingResource::Stage(name) => write!(f, "stage '{name}'"),
            LimitingResource::Buffers => f.write_str("the number of buffers"),
            LimitingResource::Unknown => f.write_str("nothing that was observed"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, limited by {}: {}", format_time(self.clock_ns), self.limit, self.evidence)?;
        if let (Some(times), Some(Floor { resource, .. })) = (self.times_floor(), self.floors.first()) {
            let sets = if is_many(resource) { "set" } else { "sets" };
            writeln!(f, "{times:.2} times its floor, which {resource} {sets}")?;
        }
        for Floor { resource, ns, calculation } in &self.floors {
            writeln!(f, "  at least {:>7} by {resource} ({calculation})", format_time(*ns))?;
        }
        write!(f, "faster by: {}", self.advice)
    }
}

fn is_many(resource: &LimitingResource) -> bool {
    *resource == LimitingResource::Cpu || matches!(resource, LimitingResource::Stage(name) if name.contains('+'))
}

/// Formats a time with three significant digits, as `1.39 s`.
pub fn format_time(ns: u64) -> String {
    three_digits(ns as f64, [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)])
}

/// Formats a number of bytes with three significant digits, as `61.3 MB`.
pub fn format_bytes(bytes: u64) -> String {
    three_digits(bytes as f64, [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0)])
}

fn three_digits(number: f64, units: [(&str, f64); 4]) -> String {
    let (unit, length) = units.into_iter().find(|&(_, length)| number >= length).unwrap_or(units[3]);
    let number = number / length;
    let places = match number {
        _ if length == 1.0 || number >= 100.0 => 0,
        number if number >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.places$} {unit}")
}
