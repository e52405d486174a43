//! When threads were on a CPU: the kernel's events of context switches, recorded by tracefs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where tracefs is mounted.
const TRACEFS: &str = "/sys/kernel/tracing";

/// The text has microseconds, rounded. A time that is nearer to a switch is before or after it.
const ROUNDING: Duration = Duration::from_micros(1);

/// A recording of the context switches of some threads. It has buffers of its own, so that other
/// users of tracefs do not notice it.
#[derive(Debug)]
pub struct Recording(PathBuf);

impl Recording {
    /// Starts to record. `threads` are kernel thread IDs of the outermost PID namespace.
    ///
    /// # Errors
    /// If tracefs is not mounted, or if this user may not use it.
    pub fn start(threads: &[u32]) -> io::Result<Recording> {
        let recording = Recording(Path::new(TRACEFS).join(format!("instances/rowlock-{}", std::process::id())));
        fs::create_dir(&recording.0)?;
        recording.set("trace_clock", "mono")?;
        recording.set("buffer_size_kb", "16384")?;
        let conditions: Vec<String> =
            threads.iter().map(|id| format!("prev_pid == {id} || next_pid == {id}")).collect();
        recording.set("events/sched/sched_switch/filter", &conditions.join(" || "))?;
        recording.set("events/sched/sched_switch/enable", "1")?;
        Ok(recording)
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(file), value)
    }

    /// Stops to record.
    ///
    /// # Errors
    /// If the events cannot be read.
    ///
    /// # Panics
    /// If the kernel has lost events, or if an event is unreadable.
    pub fn finish(self) -> io::Result<Switches> {
        self.set("tracing_on", "0")?;
        Ok(Switches::read(&fs::read_to_string(self.0.join("trace"))?))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// An event of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When, by the monotonic clock.
    pub at: Duration,
    /// To the thread, or away from it.
    pub way: Way,
}

/// What a context switch is for one of its two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The CPU begins to run it.
    To,
    /// The CPU stops running it, although it is ready.
    FromReady,
    /// It has blocked, stopped or ended.
    FromBlocked,
}

/// The context switches of threads.
#[derive(Debug)]
pub struct Switches(BTreeMap<u32, Vec<Switch>>);

impl Switches {
    /// Reads the text of tracefs.
    fn read(text: &str) -> Switches {
        let mut threads = BTreeMap::<u32, Vec<Switch>>::new();
        for line in text.lines() {
            if let Some(counts) = line.strip_prefix("# entries-in-buffer/entries-written: ") {
                let (kept, written) = counts.split_once('/').expect("two counts");
                assert_eq!(Some(kept), written.split_whitespace().next(), "the kernel has lost events");
            }
            let Some((head, event)) = line.split_once(": sched_switch: ") else { continue };
            let field = |name: &str| {
                let value = event.rsplit_once(name).and_then(|(_, rest)| rest.split_whitespace().next());
                value.unwrap_or_else(|| panic!("no {name} in: {line}"))
            };
            let at = time(head.rsplit(' ').next().expect("a time"));
            let thread = |name| field(name).parse::<u32>().expect("a thread");
            let way = if field(" prev_state=").starts_with('R') { Way::FromReady } else { Way::FromBlocked };
            threads.entry(thread(" prev_pid=")).or_default().push(Switch { at, way });
            threads.entry(thread(" next_pid=")).or_default().push(Switch { at, way: Way::To });
        }
        Switches(threads)
    }

    /// The switches of a thread, in their order.
    pub fn of(&self, thread: u32) -> &[Switch] {
        self.0.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// The last switch of a thread before one time and the next one, which is after another time of
    /// the monotonic clock. `None` if there is one between these times. `None` also if the two
    /// contradict each other, since the kernel has lost one: that happens, and its counts do not
    /// tell.
    pub fn around(&self, thread: u32, from: Duration, until: Duration) -> Option<(Switch, Option<Switch>)> {
        let switches = self.of(thread);
        let later = switches.partition_point(|switch| switch.at + ROUNDING <= from);
        let (before, next) = (switches[..later].last()?, switches.get(later));
        let fits = |next: &Switch| until + ROUNDING <= next.at && (before.way == Way::To) != (next.way == Way::To);
        next.is_none_or(fits).then(|| (*before, next.copied()))
    }

    /// Whether a thread was on a CPU from one time until another of the monotonic clock. `None` if
    /// that changed or is unknown.
    pub fn was_on_cpu(&self, thread: u32, from: Duration, until: Duration) -> Option<bool> {
        Some(self.around(thread, from, until)?.0.way == Way::To)
    }
}

/// A time in seconds, with six digits after the point.
fn time(text: &str) -> Duration {
    let (seconds, micros) = text.split_once('.').expect("a time with a point");
    let number = |digits: &str| digits.parse::<u64>().expect("a number");
    Duration::from_secs(number(seconds)) + Duration::from_micros(number(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
# entries-in-buffer/entries-written: 3/3   #P:2
          <idle>-0       [001] d..2.    10.000100: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 \
        prev_state=R ==> next_comm=a prev_pid=9 b next_pid=7 next_prio=120
               a-7       [001] d..2.    10.000300: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 \
        prev_state=R+ ==> next_comm=b next_pid=8 next_prio=120
               b-8       [001] d..2.    10.000500: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 \
        prev_state=S ==> next_comm=a next_pid=7 next_prio=120
";

    fn micros(micros: u64) -> Duration {
        Duration::from_secs(10) + Duration::from_micros(micros)
    }

    #[test]
    fn a_thread_is_on_a_cpu_between_a_switch_to_it_and_the_next_from_it() {
        let switches = Switches::read(TEXT);
        let was = |from, until| switches.was_on_cpu(7, micros(from), micros(until));
        assert_eq!(was(50, 60), None, "it was not switched before");
        assert_eq!((was(101, 299), was(301, 499), was(501, 9_000)), (Some(true), Some(false), Some(true)));
        assert_eq!((was(100, 200), was(200, 300), was(250, 350)), (None, None, None));
        assert_eq!(switches.was_on_cpu(5, micros(101), micros(102)), None);
        assert_eq!(switches.of(8)[1], Switch { at: micros(500), way: Way::FromBlocked });
        assert_eq!(switches.of(7)[1].way, Way::FromReady);
    }

    #[test]
    fn a_thread_is_unknown_where_an_event_is_missing() {
        let text = TEXT.lines().filter(|line| !line.contains("10.000300:")).collect::<Vec<_>>().join("\n");
        let switches = Switches::read(&text);
        assert_eq!(switches.was_on_cpu(7, micros(101), micros(102)), None);
        assert_eq!(switches.was_on_cpu(7, micros(501), micros(502)), Some(true));
    }

    #[test]
    #[should_panic(expected = "the kernel has lost events")]
    fn lost_events_are_noticed() {
        Switches::read(&TEXT.replace("3/3", "3/4"));
    }
}
