//! The timeline of a run: how many threads of each job were running or ready, and how many asleep, now and then.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use policy::{JobId, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::procfs::Stat;

/// The states of one job's threads at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSample {
    /// Since the start of the run.
    pub at_ns: Span,
    /// The job.
    pub job: JobId,
    /// Threads that run or would if they had a CPU.
    pub runnable: u32,
    /// Threads that sleep.
    pub sleeping: u32,
}

/// One CPU may spend one part in so many on sampling: what is observed should not notice.
const SHARE: u32 = 200;

/// The shortest time between two samples.
const SHORTEST: Duration = Duration::from_millis(10);

/// No more threads than this are watched: each needs an open file, and a process may usually have 1024.
const MOST_THREADS: usize = 256;

/// Looks at threads from time to time.
pub(crate) struct Sampler {
    started: Instant,
    due: Instant,
    /// The threads' `stat` files, kept open: reading one again is a third of the cost of opening it too.
    jobs: Vec<(JobId, Vec<File>)>,
    samples: Vec<StateSample>,
}

impl Sampler {
    /// A sampler of the threads with these ids in these processes; of none where there are too many to be cheap.
    pub(crate) fn new<'a>(jobs: impl Iterator<Item = (JobId, u32, &'a [i32])> + Clone) -> Sampler {
        let threads: usize = jobs.clone().map(|(_, _, threads)| threads.len()).sum();
        let open = |(job, process, threads): (JobId, u32, &[i32])| {
            let files = threads.iter().filter_map(|id| File::open(format!("/proc/{process}/task/{id}/stat")).ok());
            (job, files.collect())
        };
        let jobs = if threads <= MOST_THREADS { jobs.map(open).collect() } else { Vec::new() };
        let now = Instant::now();
        Sampler { started: now, due: now, jobs, samples: Vec::new() }
    }

    /// When the next sample is due; never where there is nothing to look at.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.jobs.is_empty()).then_some(self.due)
    }

    /// Takes a sample, if one is due.
    pub(crate) fn look(&mut self) {
        self.look_at(Instant::now());
    }

    /// Takes a sample, if one is due at this time.
    fn look_at(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let before = cpu_time();
        let at_ns = crate::units::span(now.saturating_duration_since(self.started));
        for (job, files) in &mut self.jobs {
            let (mut runnable, mut sleeping) = (0, 0);
            // A thread that has ended cannot be read any more.
            files.retain(|file| {
                let state = state(file);
                match state {
                    Some(b'R') => runnable += 1,
                    Some(b'S' | b'D') => sleeping += 1,
                    _ => {}
                }
                state.is_some()
            });
            if runnable + sleeping > 0 {
                self.samples.push(StateSample { at_ns, job: *job, runnable, sleeping });
            }
        }
        let cost = cpu_time().saturating_sub(before);
        self.due = now + (cost * SHARE).max(SHORTEST);
    }

    /// What was seen.
    pub(crate) fn into_samples(self) -> Vec<StateSample> {
        self.samples
    }
}

fn state(file: &File) -> Option<u8> {
    // The state stands behind a name of at most 64 bytes.
    let mut bytes = [0; 128];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(Stat::parse(&String::from_utf8_lossy(&bytes[..length]))?.state)
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_seen_asleep_and_the_one_that_looks_is_seen_running() {
        let (tell, hear) = std::sync::mpsc::channel();
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let sleeper = std::thread::spawn(move || {
            tell.send(id()).unwrap();
            let _ = wait.recv();
        });
        let threads = [id(), hear.recv().unwrap()];
        // It says who it is before it goes to sleep.
        let stat = format!("/proc/self/task/{}/stat", threads[1]);
        while Stat::parse(&std::fs::read_to_string(&stat).unwrap()).unwrap().state != b'S' {
            std::thread::yield_now();
        }
        let mut sampler = Sampler::new([(JobId(3), std::process::id(), &threads[..])].into_iter());
        // The first look does not come too early, and the next samples are taken when they are due.
        const SAMPLES: usize = 100;
        let mut times = vec![sampler.due().unwrap()];
        for _ in 0..SAMPLES {
            sampler.look_at(times[times.len() - 1]);
            let due = sampler.due().unwrap();
            sampler.look_at(due - Duration::from_nanos(1));
            assert_eq!(sampler.due(), Some(due));
            times.push(due);
        }
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= SHORTEST), "{times:?}");
        drop(finish);
        sleeper.join().unwrap();
        let samples = sampler.into_samples();
        let is_right =
            |sample: &StateSample| matches!(sample, StateSample { job: JobId(3), runnable: 1, sleeping: 1, .. });
        assert!(samples.len() == SAMPLES && samples.iter().all(is_right), "{samples:?}");
        let taken =
            samples.iter().zip(&times).all(|(sample, time)| sample.at_ns == crate::units::span(*time - times[0]));
        assert!(taken, "{samples:?}, {times:?}");
    }

    #[test]
    fn too_many_threads_are_not_watched() {
        let threads = vec![1; MOST_THREADS + 1];
        let sampler = Sampler::new([(JobId(0), std::process::id(), &threads[..])].into_iter());
        assert_eq!(sampler.due(), None);
    }
}
