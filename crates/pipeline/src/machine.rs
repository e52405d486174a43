//! Observes the machine while a program of pipelines runs, for [`policy::priority`].

use std::time::{Duration, Instant};

use policy::Span;
use policy::priority::MachineObservation;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sys::block_device::BlockDevice;
use sys::pressure::{Resource, some};
use sys::task_group::TaskGroup;
use sys::traffic::Traffic;

use crate::interval::span;

/// Observes the CPUs, and the devices on which this process has files open.
///
/// Each observation looks up the open files. A file opened later counts from the next observation
/// on. A file opened and closed between two observations may be missed. Facts that this machine
/// does not provide are omitted.
#[derive(Debug)]
pub struct Machine {
    cpus: u32,
    start: Moment,
    last: Moment,
    devices: Vec<Watched>,
}

/// A device, and its busy time at the first and the last observation.
#[derive(Debug)]
struct Watched {
    device: BlockDevice,
    first: Duration,
    last: Duration,
}

/// All totals at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    clock: Instant,
    cpu_used: Duration,
    pressure_cpu: Option<Duration>,
    pressure_io: Option<Duration>,
    traffic: Option<Traffic>,
}

/// The machine during a whole run, for its report. Unknown facts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReport {
    /// The busiest device on which the process had files open.
    pub device: Option<String>,
    /// How long that device was busy, in nanoseconds.
    pub device_busy_ns: Option<u64>,
    /// The bytes that the process read from devices.
    pub read_bytes: Option<u64>,
    /// The bytes that it wrote and did not discard again.
    pub written_bytes: Option<u64>,
    /// The share of the time in which some thread of the machine waited for a CPU, in thousandths.
    pub pressure_cpu: Option<u32>,
    /// The share of the time in which some thread of the machine waited for a device, in
    /// thousandths.
    pub pressure_io: Option<u32>,
    /// Against which programs nice values count.
    #[serde(default)]
    pub nice_scope: NiceScope,
}

/// The programs against which the nice values of this process count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NiceScope {
    /// All of the machine, as far as known.
    #[default]
    Machine,
    /// Those of its session: the kernel gives each session an equal share (autogroup).
    Session,
    /// Those of its control group, which has a share of its own.
    ControlGroup,
}

impl NiceScope {
    fn current() -> NiceScope {
        match TaskGroup::of(std::process::id()) {
            Some(TaskGroup::Group(_)) => NiceScope::ControlGroup,
            Some(TaskGroup::Session(_)) => NiceScope::Session,
            Some(TaskGroup::Root) | None => NiceScope::Machine,
        }
    }
}

impl Moment {
    fn now() -> Moment {
        let cpu_used = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default();
        let [pressure_cpu, pressure_io] = [Resource::Cpu, Resource::Io].map(some);
        Moment { clock: Instant::now(), cpu_used, pressure_cpu, pressure_io, traffic: Traffic::own() }
    }
}

impl Machine {
    /// Starts to observe, for a program that may use this many CPUs.
    pub fn watch(cpus: u32) -> Machine {
        let now = Moment::now();
        let mut machine = Machine { cpus, start: now, last: now, devices: Vec::new() };
        machine.update_devices();
        machine
    }

    /// The observation since the last call, or since the start. Reads some files below `/proc` and
    /// `/sys`, which takes a few dozen microseconds.
    pub fn since_last(&mut self) -> MachineObservation {
        let busiest = self.update_devices();
        self.since(Moment::now(), busiest)
    }

    /// The observation from the last moment to this one, which becomes the last.
    fn since(&mut self, now: Moment, device_busy: Option<Duration>) -> MachineObservation {
        let earlier = std::mem::replace(&mut self.last, now);
        self.between(earlier, now, device_busy)
    }

    /// The observation since the start.
    pub fn report(&mut self) -> MachineReport {
        self.update_devices();
        let now = Moment::now();
        let busiest = self.devices.iter().max_by_key(|watched| watched.busy());
        let MachineObservation { device_busy, pressure_cpu, pressure_io, .. } =
            self.between(self.start, now, busiest.map(Watched::busy));
        let traffic = now.traffic.zip(self.start.traffic).map(|(now, start)| now.since(start));
        MachineReport {
            device: busiest.map(|watched| watched.device.name()),
            device_busy_ns: device_busy.map(Span::as_nanos),
            read_bytes: traffic.map(|traffic| traffic.read),
            written_bytes: traffic.map(|traffic| traffic.written),
            pressure_cpu,
            pressure_io,
            nice_scope: NiceScope::current(),
        }
    }

    /// Updates the busy times, and adds the devices of files that are open now. Returns how long
    /// the busiest device was busy since the last update.
    pub fn update_devices(&mut self) -> Option<Duration> {
        let mut busiest = None;
        for Watched { device, last, .. } in &mut self.devices {
            let busy = device.busy().unwrap_or(*last);
            busiest = busiest.max(Some(busy.saturating_sub(std::mem::replace(last, busy))));
        }
        for device in BlockDevice::under_open_files() {
            if self.devices.iter().any(|watched| watched.device == device) {
                continue;
            }
            if let Some(first) = device.busy() {
                // A device without an earlier observation counts as idle.
                busiest = busiest.max(Some(Duration::ZERO));
                self.devices.push(Watched { device, first, last: first });
            }
        }
        busiest
    }

    fn between(&self, earlier: Moment, now: Moment, device_busy: Option<Duration>) -> MachineObservation {
        let since = now.clock.saturating_duration_since(earlier.clock);
        let pressure = |now: Option<Duration>, earlier: Option<Duration>| {
            let held_up = now?.saturating_sub(earlier?);
            // The kernel adds the counts of a CPU with a delay, so the sum may exceed the interval.
            let thousandths = held_up.as_nanos() * 1000 / since.as_nanos().max(1);
            Some(thousandths.min(1000) as u32)
        };
        MachineObservation {
            since: span(since),
            cpus: self.cpus,
            cpu_used: span(now.cpu_used.saturating_sub(earlier.cpu_used)),
            device_busy: device_busy.map(span),
            pressure_cpu: pressure(now.pressure_cpu, earlier.pressure_cpu),
            pressure_io: pressure(now.pressure_io, earlier.pressure_io),
        }
    }
}

impl Watched {
    fn busy(&self) -> Duration {
        self.last.saturating_sub(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The totals this many milliseconds after `start`.
    fn moment(start: Instant, clock: u64, cpu_used: u64, pressure: Option<u64>) -> Moment {
        let (clock, cpu_used) = (start + Duration::from_millis(clock), Duration::from_millis(cpu_used));
        let pressure_cpu = pressure.map(Duration::from_millis);
        Moment { clock, cpu_used, pressure_cpu, pressure_io: None, traffic: None }
    }

    fn machine(first: Moment) -> Machine {
        Machine { cpus: 2, start: first, last: first, devices: Vec::new() }
    }

    #[test]
    fn each_observation_counts_cpu_time_once() {
        let start = Instant::now();
        let mut machine = machine(moment(start, 0, 7, None));
        let seen = |since, cpu_used| {
            let [since, cpu_used] = [since, cpu_used].map(Span::from_millis);
            let (cpus, device_busy, pressure_cpu, pressure_io) = (2, None, None, None);
            MachineObservation { since, cpus, cpu_used, device_busy, pressure_cpu, pressure_io }
        };
        assert_eq!(machine.since(moment(start, 10, 12, None), None), seen(10, 5));
        assert_eq!(machine.since(moment(start, 40, 30, None), None), seen(30, 18));
        // Clocks that do not advance.
        assert_eq!(machine.since(moment(start, 40, 30, None), None), seen(0, 0));
        // The whole run is measured from its start.
        assert_eq!(machine.between(machine.start, machine.last, None), seen(40, 23));
    }

    #[test]
    fn a_moment_lies_between_readings_of_the_same_clocks_before_and_after() {
        let read = || (Instant::now(), Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap());
        let (before, now, after) = (read(), Moment::now(), read());
        assert!((before.0..=after.0).contains(&now.clock));
        assert!((before.1..=after.1).contains(&now.cpu_used));
    }

    #[test]
    fn shares_of_the_time_are_thousandths() {
        let start = Instant::now();
        let first = moment(start, 0, 0, Some(100));
        let machine = machine(first);
        let share = |clock, held_up| {
            let seen = machine.between(first, moment(start, clock, 0, held_up), None);
            assert_eq!(seen.pressure_io, None);
            seen.pressure_cpu
        };
        assert_eq!(share(50, Some(110)), Some(200));
        assert_eq!(share(50, Some(100)), Some(0));
        assert_eq!((share(50, Some(90)), share(50, None)), (Some(0), None));
        // The kernel's sum may exceed the interval.
        assert_eq!((share(50, Some(200)), share(0, Some(101))), (Some(1000), Some(1000)));
    }

    #[test]
    fn a_device_is_observed_once_a_file_on_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        let device = BlockDevice::under(&folder.path().join("file"));
        let mut machine = Machine::watch(1);
        let seen = machine.since_last();
        drop(file);
        if let Some(device) = device {
            assert!(seen.device_busy.is_some());
            assert!(machine.devices.iter().any(|watched| watched.device == device));
            // It is observed even after the file is closed.
            let report = machine.report();
            assert!(report.device_busy_ns.is_some() && report.device.is_some(), "{report:?}");
        }
    }
}
