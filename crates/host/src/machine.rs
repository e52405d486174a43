//! Properties of this machine, and its idle time.

use policy::{CpuId, CpuSet, Span};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use sys::load::CpuTime;

use crate::error::Error;
use crate::procfs::read;

/// The properties on which costs depend. If one changes, the costs are measured again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the processor.
    pub cpu_model: String,
    /// The release of the kernel.
    pub kernel: String,
    /// The number of CPUs that are online, including those that this process may not use.
    pub cpus_online: u32,
    /// The numbers of the CPUs that this process may run on.
    pub cpus_allowed: Vec<u32>,
    /// The CPU time that it may use, in CPUs. A quota can make this less than the allowed CPUs.
    pub cpus: u32,
}

impl Machine {
    /// This machine, as this process may use it now.
    ///
    /// # Errors
    /// If the kernel does not report the allowed CPUs.
    pub fn current() -> Result<Machine, Error> {
        let allowed = sys::cpus::allowed().map_err(|why| Error::Calibration(why.to_string()))?;
        let online = read("/sys/devices/system/cpu/online").parse::<CpuSet>();
        Ok(Machine {
            cpu_model: cpu_model(&read("/proc/cpuinfo")).unwrap_or("unknown").to_owned(),
            kernel: uname().release().to_string_lossy().into_owned(),
            cpus_online: online.map_or(allowed.len(), |online| online.iter().count()) as u32,
            cpus_allowed: allowed,
            cpus: sys::cpus::usable(),
        })
    }

    /// The kernel's scheduler for ordinary threads: `unknown` if its release is not a version.
    pub fn scheduler(&self) -> String {
        if read("/sys/kernel/sched_ext/state").trim() == "enabled" {
            return format!("sched_ext {}", read("/sys/kernel/sched_ext/root/ops").trim()).trim_end().to_owned();
        }
        // EEVDF replaced CFS in Linux 6.6.
        match version(&self.kernel) {
            Some((6, 6..) | (7.., _)) => "eevdf",
            Some(_) => "cfs",
            None => "unknown",
        }
        .to_owned()
    }
}

/// The first processor's name: `model name`, or the field that other architectures use.
fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let field = |wanted: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
    };
    ["model name", "Model", "cpu", "CPU part"].into_iter().find_map(field)
}

/// CPUs as a set, which is displayed like `0-3,8`.
pub(crate) fn cpu_set(cpus: &[u32]) -> CpuSet {
    cpus.iter().map(|&cpu| CpuId(cpu)).collect()
}

/// Major and minor number of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The time that these CPUs together have spent idle since the boot. Returns `None` if the kernel
/// does not report it.
pub(crate) fn idle_time(cpus: &[u32]) -> Option<Span> {
    idle_time_in(&read("/proc/stat"), cpus)
}

fn idle_time_in(stat: &str, cpus: &[u32]) -> Option<Span> {
    cpus.iter().map(|cpu| Some(Span::from(CpuTime::parse(stat, &format!("cpu{cpu}"))?.idle))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_follows_from_the_kernel_release() {
        let machine = |kernel: &str| Machine {
            cpu_model: String::new(),
            kernel: kernel.into(),
            cpus_online: 1,
            cpus_allowed: vec![],
            cpus: 1,
        };
        for (kernel, scheduler) in [
            ("6.18.44-fc-v657", "eevdf"),
            ("6.6.0", "eevdf"),
            ("6.5.13", "cfs"),
            ("5.15.0-91-generic", "cfs"),
            ("7.0.0", "eevdf"),
            ("", "unknown"),
            ("custom", "unknown"),
        ] {
            let found = machine(kernel).scheduler();
            assert!(found == scheduler || found.starts_with("sched_ext"), "{kernel}: {found}");
        }
    }

    #[test]
    fn the_processor_s_name_is_found() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\nmodel\t: 17\n"), Some("AMD EPYC"));
        assert_eq!(cpu_model("processor : 0\nCPU part : 0xd0c\n"), Some("0xd0c"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn idle_time_is_summed_over_the_given_cpus() {
        let stat = "cpu0 5 0 5 100 20 0 0 0\ncpu1 5 0 5 300 0 0 0 0\ncpu10 1 1 1 7 0 0 0 0\nintr 4\n";
        let idle = |cpus: &[u32]| idle_time_in(stat, cpus);
        assert_eq!(idle(&[0]), Some(Span::from_millis(1_200)));
        assert_eq!(idle(&[0, 1]), Some(Span::from_millis(4_200)));
        assert_eq!(idle(&[10]), Some(Span::from_millis(70)));
        assert_eq!(idle(&[2]), None);
    }
}
