//! The kernel's configuration, as far as it can be found.

use std::fs;
use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;
use policy::Span;
use rustix::time::{ClockId, clock_getres};

use crate::procfs::read;

/// When kernel code can be preempted by a thread with higher priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preemption {
    /// When it blocks or returns to the program.
    None,
    /// Also at certain explicit places.
    Voluntary,
    /// At the next tick at the latest.
    Lazy,
    /// Almost everywhere.
    Full,
    /// Almost everywhere, including interrupts and most locks.
    RealTime,
}

impl Preemption {
    /// The kernel's word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Preemption::None => "none",
            Preemption::Voluntary => "voluntary",
            Preemption::Lazy => "lazy",
            Preemption::Full => "full",
            Preemption::RealTime => "real time",
        }
    }

    /// The mode with this word, if it can be chosen.
    fn from_word(word: &str) -> Option<Preemption> {
        let modes = [Preemption::None, Preemption::Voluntary, Preemption::Lazy, Preemption::Full];
        modes.into_iter().find(|preemption| preemption.word() == word)
    }
}

/// The kernel's build and boot options. `None` if they could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// The period of its tick.
    pub(super) tick: Option<Span>,
    /// Whether CPUs that are idle, or run only one thread, have no tick: `NO_HZ_IDLE`,
    /// `NO_HZ_FULL`.
    pub(super) tickless: Option<&'static str>,
    /// When kernel code can be preempted.
    pub(super) preemption: Option<Preemption>,
    /// Whether the preemption mode can change without a new build.
    pub(super) preemption_is_dynamic: bool,
}

/// The contents of the files with this information.
struct Sources<'a> {
    /// `/proc/version`.
    version: &'a str,
    /// `/proc/cmdline`.
    command_line: &'a str,
    /// The build configuration.
    config: &'a str,
    /// The preemption mode in debugfs.
    debugfs: &'a str,
}

impl Kernel {
    /// The options of the running kernel.
    pub(super) fn current(release: &str) -> Kernel {
        let sources = Sources {
            version: &read("/proc/version"),
            command_line: &read("/proc/cmdline"),
            config: &config(release),
            debugfs: &read("/sys/kernel/debug/sched/preempt"),
        };
        // The coarse clock advances with the tick, and its resolution is the tick's period.
        let tick = Duration::try_from(clock_getres(ClockId::MonotonicCoarse)).ok().map(Span::from);
        // Ticks have 10 Hz to 10,000 Hz. Any other resolution belongs to another kind of clock.
        let is_tick = |tick: &Span| (100_000..=100_000_000).contains(&tick.as_nanos());
        Kernel { tick: tick.filter(is_tick), ..Kernel::parse(&sources) }
    }

    fn parse(sources: &Sources) -> Kernel {
        let is_set = |option: &str| {
            sources.config.lines().any(|line| line.strip_prefix(option).is_some_and(|rest| rest.trim_end() == "=y"))
        };
        let requested =
            sources.command_line.split_ascii_whitespace().rev().find_map(|word| word.strip_prefix("preempt="));
        // The file lists all modes, with the current one in parentheses.
        let chosen =
            sources.debugfs.split_ascii_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
        let built = [
            ("CONFIG_PREEMPT_NONE", Preemption::None),
            ("CONFIG_PREEMPT_VOLUNTARY", Preemption::Voluntary),
            ("CONFIG_PREEMPT_LAZY", Preemption::Lazy),
            ("CONFIG_PREEMPT", Preemption::Full),
        ];
        let built = || built.into_iter().find(|&(option, _)| is_set(option)).map(|(_, preemption)| preemption);
        let mentions = |wanted: &str| sources.version.split_ascii_whitespace().any(|word| word == wanted);
        let dynamic = mentions("PREEMPT_DYNAMIC");
        let preemption = if mentions("PREEMPT_RT") {
            Some(Preemption::RealTime)
        } else if dynamic {
            let named = chosen.or(requested).and_then(Preemption::from_word);
            named.or_else(built)
        } else if mentions("PREEMPT") {
            Some(Preemption::Full)
        } else {
            built()
        };
        let tickless = [("CONFIG_NO_HZ_FULL", "NO_HZ_FULL"), ("CONFIG_NO_HZ_IDLE", "NO_HZ_IDLE")];
        let tickless = tickless.into_iter().find(|&(option, _)| is_set(option)).map(|(_, name)| name);
        Kernel { tick: None, tickless, preemption, preemption_is_dynamic: dynamic }
    }
}

/// The running kernel's build options, one per line. Empty if they cannot be found.
fn config(release: &str) -> String {
    let from_proc = || unpacked(fs::File::open("/proc/config.gz").ok()?);
    let from_package = || {
        ["/boot/config-", "/lib/modules/"]
            .into_iter()
            .zip(["", "/config"])
            .find_map(|(before, after)| fs::read_to_string(format!("{before}{release}{after}")).ok())
    };
    from_proc().or_else(from_package).unwrap_or_default()
}

/// A packed text, as far as it has a possible length.
fn unpacked(packed: impl Read) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(packed).take(LONGEST_CONFIG).read_to_string(&mut text).ok()?;
    Some(text)
}

/// More than the options of any kernel take.
const LONGEST_CONFIG: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::read::GzEncoder;

    use super::*;

    const DYNAMIC: &str = "Linux version 6.18.44 (a@b) (gcc) #1 SMP PREEMPT_DYNAMIC @0\n";
    const CONFIG: &str = "CONFIG_NO_HZ_IDLE=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_PREEMPT_BUILD=y\n\
                          CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n";

    fn preemption(version: &str, command_line: &str, config: &str, debugfs: &str) -> Option<Preemption> {
        Kernel::parse(&Sources { version, command_line, config, debugfs }).preemption
    }

    #[test]
    fn the_present_mode_precedes_the_command_line_and_that_precedes_the_configuration() {
        assert_eq!(
            preemption(DYNAMIC, "quiet preempt=full", CONFIG, "none (voluntary) full\n"),
            Some(Preemption::Voluntary)
        );
        assert_eq!(preemption(DYNAMIC, "quiet preempt=full", CONFIG, ""), Some(Preemption::Full));
        assert_eq!(preemption(DYNAMIC, "quiet", CONFIG, ""), Some(Preemption::None));
        assert_eq!(preemption(DYNAMIC, "quiet", "", ""), None);
    }

    #[test]
    fn a_kernel_without_dynamic_preemption_ignores_the_command_line() {
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
    fn packed_options_cannot_fill_the_memory() {
        let bytes = vec![b'#'; 5 << 20];
        let mut packed = Vec::new();
        GzEncoder::new(bytes.as_slice(), Compression::default()).read_to_end(&mut packed).unwrap();
        assert!(unpacked(packed.as_slice()).is_some_and(|text| text.len() as u64 == LONGEST_CONFIG));
    }

    #[test]
    fn the_configuration_says_when_a_kernel_is_tickless() {
        let tickless = |config| Kernel::parse(&Sources { version: "", command_line: "", config, debugfs: "" }).tickless;
        assert_eq!(tickless(CONFIG), Some("NO_HZ_IDLE"));
        assert_eq!(tickless("CONFIG_NO_HZ_FULL=y"), Some("NO_HZ_FULL"));
        assert_eq!(tickless("CONFIG_HZ_PERIODIC=y"), None);
    }
}
