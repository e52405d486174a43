//! The counters of the threads of a job: how long they run, and how often they block.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;

use policy::Span;
use policy::gang::ThreadCounters;
use sys::identity::Identity;

use super::status::fields;

/// The counters of a thread since the last observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadDelta {
    /// Its process.
    pub process: Identity,
    /// The id of the thread.
    pub thread: u32,
    /// Its running time and switches.
    pub counters: ThreadCounters,
}

/// The switches that a stop adds to the voluntary ones of a thread. Measured, and as the kernel has
/// it: a thread that stops gives up its CPU by itself, which is one. If it was asleep, it has to
/// fall asleep again when it is continued, which is another.
const SWITCHES_OF_A_STOP: u64 = 2;

/// Observes threads, one interval after the other.
///
/// The kernel updates the running time of a thread that runs at each tick, so it may be that much
/// late. Without `CONFIG_SCHED_INFO` it is known only in units of 10 ms.
///
/// Stops by us count as voluntary switches and are subtracted: up to two for each stop of the
/// process that the thread has seen. A thread that was running when it was stopped has only one, so
/// one of its own blocks for each stop may be missed. They are in no order that could be relied
/// on: a stop is counted before it acts, and its second switch follows when it is over. So what was
/// not found is subtracted later, two at most.
#[derive(Debug, Default)]
pub struct Observer {
    processes: BTreeMap<(u32, u64), Observed>,
    /// For files; kept to allocate it only once.
    text: Vec<u8>,
}

/// A process at the last observation.
#[derive(Debug)]
struct Observed {
    stops: u32,
    threads: BTreeMap<u32, Thread>,
}

/// A thread at the last observation.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    total: ThreadCounters,
    /// The switches to be subtracted that have not been found.
    owed: u64,
}

impl Observer {
    /// The counters of each live thread of these processes since the last call. Those of a thread
    /// that was not there begin with it. With each process comes how often it was stopped by us
    /// (`mark::stops`). One that was not there has missed the first `missed` of them.
    ///
    /// Processes that are not in the list are forgotten.
    pub fn observe(&mut self, processes: impl IntoIterator<Item = (Identity, u32)>, missed: u32) -> Vec<ThreadDelta> {
        let mut before = std::mem::take(&mut self.processes);
        let mut deltas = Vec::new();
        for (process, stops) in processes {
            let key = (process.pid, process.started);
            let Some(threads) = threads(process) else { continue };
            let last = before.remove(&key).unwrap_or_else(|| Observed { stops: missed, threads: BTreeMap::new() });
            let switches = SWITCHES_OF_A_STOP * u64::from(stops.wrapping_sub(last.stops));
            let mut now = Observed { stops, threads: BTreeMap::new() };
            for thread in threads {
                let last = last.threads.get(&thread).copied().unwrap_or_default();
                let Some(total) = self.read(process.pid, thread, last.total) else { continue };
                let (counters, owed) = difference(last, total, switches);
                now.threads.insert(thread, Thread { total, owed });
                deltas.push(ThreadDelta { process, thread, counters });
            }
            self.processes.insert(key, now);
        }
        deltas
    }

    /// The counters of a thread since it began, given those of the last time.
    fn read(&mut self, process: u32, thread: u32, last: ThreadCounters) -> Option<ThreadCounters> {
        let path = |name| format!("/proc/{process}/task/{thread}/{name}");
        let ran = match self.text(&path("schedstat")).and_then(running_time) {
            // A thread that has not run has not blocked, either.
            Some(ran) if ran == last.ran => return Some(last),
            Some(ran) => ran,
            None => self.text(&path("stat")).and_then(running_ticks)?,
        };
        Some(ThreadCounters { ran, blocks: self.text(&path("status")).and_then(blocks)? })
    }

    fn text(&mut self, path: &str) -> Option<&[u8]> {
        self.text.clear();
        File::open(path).ok()?.read_to_end(&mut self.text).ok()?;
        Some(&self.text)
    }
}

/// The counters of a thread since the last look, without so many switches of stops, and how many of
/// these were not found. If a counter has gone down, the id is that of a new thread.
fn difference(last: Thread, total: ThreadCounters, switches: u64) -> (ThreadCounters, u64) {
    let is_same = total.ran >= last.total.ran && total.blocks >= last.total.blocks;
    let last = if is_same { last } else { Thread::default() };
    let blocks = total.blocks - last.total.blocks;
    let owed = last.owed.min(SWITCHES_OF_A_STOP) + switches;
    let excess = blocks.min(owed);
    (ThreadCounters { ran: total.ran - last.total.ran, blocks: blocks - excess }, owed - excess)
}

/// The threads of a process, if it is the one.
pub(crate) fn threads(process: Identity) -> Option<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{}/task", process.pid)).ok()?;
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    process.is_alive().then_some(ids)
}

/// The first field of `schedstat`, in nanoseconds.
fn running_time(text: &[u8]) -> Option<Span> {
    let mut fields = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    Some(Span::from_nanos(fields.next()?.parse().ok()?))
}

/// The fields 14 and 15 of `stat`, in ticks: the times in user and in kernel mode.
fn running_ticks(text: &[u8]) -> Option<Span> {
    let name = text.iter().rposition(|&byte| byte == b')')?;
    // The first of these is the third of all.
    let mut fields = std::str::from_utf8(text.get(name + 1..)?).ok()?.split_ascii_whitespace();
    let (user, kernel): (u64, u64) = (fields.nth(11)?.parse().ok()?, fields.next()?.parse().ok()?);
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(Span::from_nanos(user.saturating_add(kernel).saturating_mul(tick)))
}

fn blocks(text: &[u8]) -> Option<u64> {
    // It is near the end of a long file.
    fields(text).rev().find(|(name, _)| *name == b"voluntary_ctxt_switches")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;

    use rustix::thread::gettid;
    use testing::Child;

    use super::*;
    use crate::processes::tests::{identity, state, until};
    use crate::processes::{Process, mark};

    fn counters(ran: u64, blocks: u64) -> ThreadCounters {
        ThreadCounters { ran: Span::from_nanos(ran), blocks }
    }

    #[test]
    fn a_thread_that_sleeps_blocks_and_one_that_computes_does_not() {
        testing::isolated(|| {
            let own = || [(Identity::own(), 0)];
            let (tell, told) = channel();
            let (end, ended) = channel::<()>();
            let computes = std::thread::spawn(move || {
                tell.send(gettid()).unwrap();
                while ended.try_recv().is_err() {}
            });
            let computes_id = told.recv().unwrap().as_raw_nonzero().get().unsigned_abs();
            let sleeps_id = gettid().as_raw_nonzero().get().unsigned_abs();
            let mut observer = Observer::default();
            observer.observe(own(), 0);
            (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
            let mut sums = BTreeMap::<u32, ThreadCounters>::new();
            until(|| {
                for ThreadDelta { thread, counters, .. } in observer.observe(own(), 0) {
                    let sum = sums.entry(thread).or_default();
                    *sum = ThreadCounters { ran: sum.ran + counters.ran, blocks: sum.blocks + counters.blocks };
                }
                sums[&computes_id].ran >= Span::from_millis(50)
            });
            assert_eq!(sums[&computes_id].blocks, 0);
            assert!(sums[&sleeps_id].blocks >= 5);
            end.send(()).unwrap();
            computes.join().unwrap();
            until(|| !std::path::Path::new(&format!("/proc/self/task/{computes_id}")).exists());
            assert!(observer.observe(own(), 0).iter().all(|delta| delta.thread != computes_id));
        });
    }

    #[test]
    fn a_new_thread_counts_since_it_began_and_a_process_that_is_another_is_left_out() {
        let own = Identity::own();
        let first = Observer::default().observe([(own, 0)], 0);
        assert!(first.iter().any(|delta| !delta.counters.ran.is_zero()));
        let other = Identity { started: own.started + 1, ..own };
        assert_eq!(Observer::default().observe([(other, 0)], 0), []);
    }

    #[test]
    fn stops_by_us_are_not_blocks() {
        for script in ["while :; do :; done", "exec sleep 1000"] {
            let child = Child::start(testing::command("sh").args(["-c", script]));
            let is_calm = || if script.starts_with("exec") { state(child.id()) == b'S' } else { true };
            let is_started =
                || !script.starts_with("exec") || sys::identity::Stat::of(child.id()).unwrap().name() == b"sleep";
            until(|| is_started() && is_calm());
            let (identity, mark) = (identity(child.id()), AtomicU32::new(0));
            let process = Process::open(identity).unwrap();
            let (mut observer, mut blocks) = (Observer::default(), 0);
            observer.observe([(identity, 0)], 0);
            for _ in 0..20 {
                process.stop(&mark);
                until(|| state(child.id()) == b'T');
                process.resume(&mark);
                until(|| state(child.id()) != b'T' && is_calm());
                let deltas = observer.observe([(identity, mark::stops(mark.load(SeqCst)))], 0);
                blocks += deltas.iter().map(|delta| delta.counters.blocks).sum::<u64>();
            }
            assert_eq!(blocks, 0, "{script}");
        }
    }

    #[test]
    fn switches_of_stops_are_subtracted_now_or_later() {
        let last = Thread { total: counters(100, 10), owed: 0 };
        assert_eq!(difference(last, counters(150, 17), 0), (counters(50, 7), 0));
        assert_eq!(difference(last, counters(150, 17), 4), (counters(50, 3), 0));
        assert_eq!(difference(last, counters(150, 11), 4), (counters(50, 0), 3));
        let last = Thread { owed: 9, ..last };
        assert_eq!(difference(last, counters(150, 17), 0), (counters(50, 5), 0), "two at most");
    }

    #[test]
    fn a_thread_whose_counters_went_down_is_new() {
        let last = Thread { total: counters(100, 10), owed: 2 };
        assert_eq!(difference(last, counters(50, 20), 0), (counters(50, 20), 0));
        assert_eq!(difference(last, counters(200, 5), 0), (counters(200, 5), 0));
    }

    #[test]
    fn counters_are_read_from_each_file_and_nonsense_is_refused() {
        assert_eq!(running_time(b"196653 2238460 2\n"), Some(Span::from_nanos(196_653)));
        assert_eq!(blocks(b"State:\tR\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t1\n"), Some(7));
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let stat = b"17 (a) R 9) R 1 17 17 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 4711 2703360 400";
        assert_eq!(running_ticks(stat), Some(Span::from_nanos(42 * tick)));
        for text in [&b""[..], b"x", b"\xff", b"17 (a) R 1 2 3", b"nonvoluntary_ctxt_switches:\t1\n"] {
            assert_eq!(
                (running_time(text).filter(|_| text != b"17 (a) R 1 2 3"), running_ticks(text), blocks(text)),
                (None, None, None)
            );
        }
    }
}
