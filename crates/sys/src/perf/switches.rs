//! Context switches, which the kernel records when it switches to a thread or away from it. A user
//! may record own threads without privileges, unless `kernel.perf_event_paranoid` exceeds 2.

use std::io;
use std::sync::atomic::{Ordering::Acquire, fence};
use std::time::Duration;

use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

use super::event::{
    ANY, Attributes, CONTEXT_SWITCH, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, SAMPLE_ID_ALL, SOFTWARE, TASK,
    THIS_THREAD, USE_CLOCK, open,
};
use super::ring::{Ring, WhenFull};

/// A software event that counts nothing.
const DUMMY: u64 = 9;

const SAMPLE_THREAD: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;

/// A record begins with a word: a type, 16 bits of which one says that the switch is away from the
/// thread, and a size.
const SWITCH_OUT: u64 = 1 << (32 + 13);

fn attributes(flags: u64) -> Attributes {
    let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | CONTEXT_SWITCH | flags;
    Attributes { kind: SOFTWARE, config: DUMMY, flags, ..Attributes::default() }
}

/// The last switch of one thread.
#[derive(Debug)]
pub struct LastSwitch(Ring);

impl LastSwitch {
    /// A record of a switch is its first word.
    const RECORD: u64 = 8;

    /// Lets the kernel note the switches of a thread of this process, or of the calling thread if
    /// the number is 0. Fails if the kernel or a filter of system calls refuses.
    pub fn of(thread: u32) -> io::Result<LastSwitch> {
        let event = open(attributes(0), thread as libc::pid_t, ANY)?;
        Ok(LastSwitch(Ring::new(event, page_size(), WhenFull::Overwrite)?))
    }

    /// Whether the thread is on a CPU. `None` if it has not been switched yet.
    pub fn is_on_cpu(&self) -> Option<bool> {
        let last = self.0.head().checked_sub(Self::RECORD)?;
        let record = self.0.word(last);
        fence(Acquire);
        Some(record & SWITCH_OUT == 0)
    }
}

/// A recording of the times in which threads are on a CPU: those of the thread that began it, and of
/// all threads and processes that this one has started since.
#[derive(Debug)]
pub struct Recording {
    /// Those of each CPU of the machine.
    rings: Vec<Ring>,
}

/// An interval in which a thread was on a CPU. Times are those of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stint {
    /// The number of the thread, as in the namespace of the process that records.
    pub thread: u32,
    /// The number of the CPU.
    pub cpu: u32,
    /// The switch to the thread.
    pub from: Duration,
    /// The switch away from it, or the end of the thread or of the recording.
    pub to: Duration,
}

/// The time of the monotonic clock.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The rings had no room left, so that later switches may be missing.
#[derive(Debug, thiserror::Error)]
#[error("there were more context switches than the {0} bytes of a CPU have room for")]
pub struct Full(usize);

impl Recording {
    /// The room on all CPUs together, if the limits allow it.
    const ROOM: usize = 64 << 20;

    /// At the end of each record: the process and the thread, the time, and the CPU.
    const SAMPLE: u64 = 24;
    /// The largest records are those of the starts and ends of threads: five words and the sample.
    const LARGEST: u64 = 40 + Self::SAMPLE;

    const SWITCH: u32 = 14;
    const EXIT: u32 = 4;

    /// Starts to record what the calling thread and its descendants do. Fails if the kernel or a
    /// filter of system calls refuses.
    pub fn start() -> io::Result<Recording> {
        Recording::with_room(Self::ROOM)
    }

    fn with_room(room: usize) -> io::Result<Recording> {
        let cpus = crate::cpus::of_all_processes().map_err(io::Error::other)?;
        let event = |cpu: u32| {
            let attributes = Attributes {
                sample_type: SAMPLE_THREAD | SAMPLE_TIME | SAMPLE_CPU,
                clock: libc::CLOCK_MONOTONIC,
                ..attributes(INHERIT | TASK | SAMPLE_ID_ALL | USE_CLOCK)
            };
            open(attributes, THIS_THREAD, cpu as libc::c_int)
        };
        let mut size = (room / cpus.len().max(1)).next_power_of_two().max(page_size());
        loop {
            let ring = |&cpu: &u32| Ring::new(event(cpu)?, size, WhenFull::Drop);
            // A user may lock a certain amount of memory only.
            match cpus.iter().map(ring).collect() {
                Err(_) if size > page_size() => size /= 2,
                rings => return Ok(Recording { rings: rings? }),
            }
        }
    }

    /// The stints until now, in the order of time on each CPU.
    ///
    /// # Errors
    /// If there was not enough room.
    pub fn finish(self) -> Result<Vec<Stint>, Full> {
        let now = now();
        let mut stints = Vec::new();
        for ring in &self.rings {
            let head = ring.head();
            if head + Self::LARGEST >= ring.size() as u64 {
                return Err(Full(ring.size()));
            }
            let (mut at, mut current) = (0, None::<Stint>);
            while at < head {
                let record = ring.word(at);
                at += record >> 48;
                let sample = [24, 16, 8].map(|before| ring.word(at - before));
                let [thread, cpu] = [sample[0] >> 32, sample[2] & u64::from(u32::MAX)].map(|number| number as u32);
                let time = Duration::from_nanos(sample[1]);
                let is_switch = record as u32 == Self::SWITCH;
                if is_switch && record & SWITCH_OUT == 0 {
                    current = Some(Stint { thread, cpu, from: time, to: now });
                } else if is_switch || record as u32 == Self::EXIT {
                    // That of a thread that was on the CPU when the recording began is unknown.
                    stints.extend(current.take().map(|stint| Stint { to: time, ..stint }));
                }
            }
            stints.extend(current);
        }
        Ok(stints)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread::{sleep, spawn};

    use super::*;

    fn own_number() -> u32 {
        rustix::thread::gettid().as_raw_pid().unsigned_abs()
    }

    /// The number of this thread, and times between which it has slept.
    fn times() -> (u32, Vec<Duration>) {
        let note = |_| {
            sleep(Duration::from_millis(1));
            now()
        };
        (own_number(), (0..5).map(note).collect())
    }

    /// `None` if the kernel permits no records, which is reported.
    fn permitted<T>(records: io::Result<T>) -> Option<T> {
        let why = |why: &io::Error| {
            let why = format!("records of context switches: {why}");
            testing::skip_part(
                "ROWLOCK_REQUIRE_ENVIRONMENTS",
                &why,
                "`sysctl kernel.perf_event_paranoid=2` permits them",
            );
        };
        records.inspect_err(why).ok()
    }

    #[test]
    fn a_recording_has_the_cpus_and_times_of_all_threads_that_are_started_later() {
        let (ends, end) = channel::<()>();
        let earlier = spawn(move || {
            let _ = end.recv();
            times().0
        });
        let Some(recording) = permitted(Recording::start()) else { return };
        let all = crate::cpus::allowed().unwrap();
        // A thread starts on the CPU that its parent is bound to.
        let times_on = |cpu| {
            let _pinned = crate::cpus::pin(cpu).unwrap();
            spawn(|| spawn(times).join().unwrap()).join().unwrap()
        };
        let threads = [all[0], all[all.len() - 1]].map(|cpu| (cpu, times_on(cpu)));
        drop(ends);
        let earlier = earlier.join().unwrap();
        let stints = recording.finish().unwrap();
        assert!(stints.iter().all(|stint| stint.thread != earlier && stint.from < stint.to));
        for (cpu, (thread, times)) in threads {
            let own: Vec<&Stint> = stints.iter().filter(|stint| stint.thread == thread).collect();
            assert!(own.iter().all(|stint| stint.cpu == cpu), "{cpu}: {own:?}");
            let of_time = |time: &Duration| own.iter().position(|stint| stint.from < *time && *time < stint.to);
            let found: Vec<usize> = times.iter().map(|time| of_time(time).expect("a stint")).collect();
            assert!(found.is_sorted_by(|one, next| one < next), "it slept in between: {found:?}");
        }
    }

    #[test]
    fn a_recording_without_enough_room_says_so() {
        let Some(recording) = permitted(Recording::with_room(0)) else { return };
        let _pinned = crate::cpus::pin(crate::cpus::allowed().unwrap()[0]).unwrap();
        (0..page_size()).for_each(|_| sleep(Duration::from_nanos(1)));
        assert_eq!(recording.finish().unwrap_err().0, page_size());
    }

    #[test]
    fn the_last_switch_of_a_running_thread_is_to_it_and_that_of_a_sleeping_one_away_from_it() {
        let (sender, receiver) = channel::<()>();
        let (number, numbers) = channel();
        // It sleeps again and again.
        let other = spawn(move || {
            number.send(own_number()).unwrap();
            while receiver.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {}
        });
        let Some(last) = permitted(LastSwitch::of(numbers.recv().unwrap())) else { return };
        let own = LastSwitch::of(0).unwrap();
        sleep(Duration::from_millis(1));
        assert_eq!(own.is_on_cpu(), Some(true));
        while last.is_on_cpu() != Some(false) {
            sleep(Duration::from_micros(100));
        }
        drop(sender);
        other.join().unwrap();
    }
}
