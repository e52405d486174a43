//! How the kernel was built and started, as far as it tells.

use std::fs;
use std::io::Read;

use flate2::read::GzDecoder;
use policy::Span;
use rustix::time::{ClockId, clock_getres};

/// When code inside the kernel gives way to a thread that has become more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Where it blocks or returns to the program.
    None,
    /// At certain places besides.
    Voluntary,
    /// At the next tick, at the latest.
    Lazy,
    /// Almost anywhere.
    Full,
    /// Almost anywhere, interrupts and most locks included.
    RealTime,
}

impl Preemption {
    /// The kernel's own word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Preemption::None => "none",
            Preemption::Voluntary => "voluntary",
            Preemption::Lazy => "lazy",
            Preemption::Full => "full",
            Preemption::RealTime => "real time",
        }
    }

    fn from_word(word: &str) -> Option<Preemption> {
        match word {
            "none" => Some(Preemption::None),
            "voluntary" => Some(Preemption::Voluntary),
            "lazy" => Some(Preemption::Lazy),
            "full" => Some(Preemption::Full),
            _ => None,
        }
    }
}

/// What is known of the kernel's build and start. What it does not tell is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The period of its tick.
    pub tick: Option<Span>,
    /// Whether CPUs without work, or with one thread only, go without a tick: `NO_HZ_IDLE`, `NO_HZ_FULL`.
    pub tickless: Option<&'static str>,
    /// When its own code gives way.
    pub preemption: Option<Preemption>,
    /// Whether that can be changed without building another one.
    pub preemption_is_dynamic: bool,
}

/// The files that tell it.
struct Sources<'a> {
    /// `/proc/version`.
    version: &'a str,
    /// `/proc/cmdline`.
    command_line: &'a str,
    /// The build's configuration.
    config: &'a str,
    /// What debugfs says of preemption.
    debugfs: &'a str,
}

impl Kernel {
    /// This machine's.
    pub(super) fn here(release: &str) -> Kernel {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let sources = Sources {
            version: &read("/proc/version"),
            command_line: &read("/proc/cmdline"),
            config: &config(release),
            debugfs: &read("/sys/kernel/debug/sched/preempt"),
        };
        // The coarse clock advances with the tick and says so.
        let tick = clock_getres(ClockId::MonotonicCoarse);
        let nanos = u64::try_from(tick.tv_sec).ok().zip(u64::try_from(tick.tv_nsec).ok());
        let tick = nanos.map(|(seconds, nanos)| Span::from_nanos(seconds.saturating_mul(1_000_000_000) + nanos));
        // A tick has a period between those of 10 000 Hz and of 10 Hz; anything else is a clock of another kind.
        let is_tick = |tick: &Span| (100_000..=100_000_000).contains(&tick.as_nanos());
        Kernel { tick: tick.filter(is_tick), ..Kernel::parse(&sources) }
    }

    fn parse(sources: &Sources) -> Kernel {
        let is_set = |option: &str| {
            sources.config.lines().any(|line| line.strip_prefix(option).is_some_and(|rest| rest.trim_end() == "=y"))
        };
        let asked_for =
            sources.command_line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix("preempt="));
        // The words of debugfs, with the chosen one in parentheses.
        let chosen =
            sources.debugfs.split_ascii_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
        let built = [
            ("CONFIG_PREEMPT_NONE", Preemption::None),
            ("CONFIG_PREEMPT_VOLUNTARY", Preemption::Voluntary),
            ("CONFIG_PREEMPT_LAZY", Preemption::Lazy),
            ("CONFIG_PREEMPT", Preemption::Full),
        ];
        let built = || built.into_iter().find(|&(option, _)| is_set(option)).map(|(_, preemption)| preemption);
        let names = |wanted: &str| sources.version.split_ascii_whitespace().any(|word| word == wanted);
        let dynamic = names("PREEMPT_DYNAMIC");
        let preemption = if names("PREEMPT_RT") {
            Some(Preemption::RealTime)
        } else if dynamic {
            let told = chosen.or(asked_for).and_then(Preemption::from_word);
            told.or_else(built)
        } else if names("PREEMPT") {
            Some(Preemption::Full)
        } else {
            built()
        };
        let tickless = if is_set("CONFIG_NO_HZ_FULL") {
            Some("NO_HZ_FULL")
        } else if is_set("CONFIG_NO_HZ_IDLE") {
            Some("NO_HZ_IDLE")
        } else {
            None
        };
        Kernel { tick: None, tickless, preemption, preemption_is_dynamic: dynamic }
    }
}

/// The options that the running kernel was built with, a line each; empty where they are not told.
fn config(release: &str) -> String {
    let of_itself = || {
        let mut text = String::new();
        GzDecoder::new(fs::File::open("/proc/config.gz").ok()?).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let of_its_package = || {
        ["/boot/config-", "/lib/modules/"]
            .into_iter()
            .zip(["", "/config"])
            .find_map(|(before, after)| fs::read_to_string(format!("{before}{release}{after}")).ok())
    };
    of_itself().or_else(of_its_package).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = "Linux version 6.18.44 (a@b) (gcc) #1 SMP PREEMPT_DYNAMIC @0\n";
    const CONFIG: &str = "CONFIG_NO_HZ_IDLE=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_PREEMPT_BUILD=y\n\
                          CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n";

    fn preemption(version: &str, command_line: &str, config: &str, debugfs: &str) -> Option<Preemption> {
        Kernel::parse(&Sources { version, command_line, config, debugfs }).preemption
    }

    #[test]
    fn what_runs_now_goes_before_what_was_asked_for_at_the_start_and_that_before_what_was_built() {
        assert_eq!(
            preemption(DYNAMIC, "quiet preempt=full", CONFIG, "none (voluntary) full\n"),
            Some(Preemption::Voluntary)
        );
        assert_eq!(preemption(DYNAMIC, "quiet preempt=full", CONFIG, ""), Some(Preemption::Full));
        assert_eq!(preemption(DYNAMIC, "quiet", CONFIG, ""), Some(Preemption::None));
        assert_eq!(preemption(DYNAMIC, "quiet", "", ""), None);
    }

    #[test]
    fn a_kernel_that_cannot_change_its_preemption_ignores_what_it_is_asked_for() {
        let version = |word: &str| format!("Linux version 6.1.0 (a@b) (gcc) #1 SMP {word} Debian 6.1.0-1\n");
        assert_eq!(preemption(&version("PREEMPT"), "preempt=none", "", ""), Some(Preemption::Full));
        assert_eq!(preemption(&version("PREEMPT_RT"), "", "CONFIG_PREEMPT_NONE=y", ""), Some(Preemption::RealTime));
        assert_eq!(
            preemption(&version(""), "preempt=full", "CONFIG_PREEMPT_VOLUNTARY=y", ""),
            Some(Preemption::Voluntary)
        );
        assert_eq!(preemption(&version(""), "preempt=full", "CONFIG_PREEMPT_VOLUNTARY_BUILD=y", ""), None);
    }

    #[test]
    fn a_kernel_tells_by_its_configuration_when_it_goes_without_a_tick() {
        let tickless = |config| Kernel::parse(&Sources { version: "", command_line: "", config, debugfs: "" }).tickless;
        assert_eq!(tickless(CONFIG), Some("NO_HZ_IDLE"));
        assert_eq!(tickless("CONFIG_NO_HZ_FULL=y"), Some("NO_HZ_FULL"));
        assert_eq!(tickless("CONFIG_HZ_PERIODIC=y"), None);
    }
}
