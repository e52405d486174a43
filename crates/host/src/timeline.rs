//! The timeline of a run: samples of how many threads of each job are runnable or asleep.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use policy::{JobId, Span};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sys::identity::Stat;

/// The states of one job's threads at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSample {
    /// The time since the start of the run.
    pub at_ns: Span,
    /// The job.
    pub job: JobId,
    /// The number of threads that run or are ready.
    pub runnable: u32,
    /// The number of threads that sleep.
    pub sleeping: u32,
}

/// Sampling takes at most one part in so many of one CPU, to disturb the run little.
const SHARE: u32 = 200;

/// The minimum time between two samples.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// More threads are not sampled: each needs an open file, and the usual limit of a process is 1024.
const MAX_THREADS: usize = 256;

/// Samples the states of threads.
pub(crate) struct Sampler {
    started: Instant,
    due: Instant,
    /// The threads' open `stat` files. Reading an open file takes a third of the time of opening
    /// and reading it.
    jobs: Vec<(JobId, Vec<File>)>,
    pub(crate) samples: Vec<StateSample>,
}

impl Sampler {
    /// Samples the threads with these ids, or none if there are too many.
    pub(crate) fn new<'a>(jobs: impl Iterator<Item = (JobId, &'a [i32])> + Clone) -> Sampler {
        let threads: usize = jobs.clone().map(|(_, threads)| threads.len()).sum();
        let open = |(job, threads): (JobId, &[i32])| {
            // Threads of a job may be in several processes. The folder of a thread's id is that of
            // its process.
            let files = threads.iter().filter_map(|id| File::open(format!("/proc/{id}/task/{id}/stat")).ok());
            (job, files.collect())
        };
        let jobs = if threads <= MAX_THREADS { jobs.map(open).collect() } else { Vec::new() };
        let now = Instant::now();
        Sampler { started: now, due: now, jobs, samples: Vec::new() }
    }

    /// When the next sample is due. `None` if there are no threads to sample.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.jobs.is_empty()).then_some(self.due)
    }

    /// Takes a sample if one is due at time `now`.
    pub(crate) fn sample_if_due(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let before = cpu_time();
        let at_ns = now.saturating_duration_since(self.started).into();
        for (job, files) in &mut self.jobs {
            let (mut runnable, mut sleeping) = (0, 0);
            // The file of a thread that has ended cannot be read.
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
        self.due = now + (cost * SHARE).max(MIN_INTERVAL);
    }
}

fn state(file: &File) -> Option<u8> {
    // More than the fields that are read take.
    let mut bytes = [0; 512];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(Stat::parse(&bytes[..length])?.state)
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_is_seen_asleep_and_the_sampling_thread_running() {
        let (id_sender, id_receiver) = std::sync::mpsc::channel();
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let sleeper = std::thread::spawn(move || {
            id_sender.send(id()).unwrap();
            let _ = wait.recv();
        });
        let threads = [id(), id_receiver.recv().unwrap()];
        // The thread sends its id before it goes to sleep.
        let stat = format!("/proc/self/task/{}/stat", threads[1]);
        while Stat::parse(&std::fs::read(&stat).unwrap()).unwrap().state != b'S' {
            std::thread::yield_now();
        }
        let mut sampler = Sampler::new([(JobId(3), &threads[..])].into_iter());
        // The first sample is not early, and the others are taken when they are due.
        const SAMPLES: usize = 100;
        let mut times = vec![sampler.due().unwrap()];
        for _ in 0..SAMPLES {
            sampler.sample_if_due(times[times.len() - 1]);
            let due = sampler.due().unwrap();
            sampler.sample_if_due(due - Duration::from_nanos(1));
            assert_eq!(sampler.due(), Some(due));
            times.push(due);
        }
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= MIN_INTERVAL), "{times:?}");
        drop(finish);
        sleeper.join().unwrap();
        let samples = sampler.samples;
        let is_right =
            |sample: &StateSample| matches!(sample, StateSample { job: JobId(3), runnable: 1, sleeping: 1, .. });
        assert!(samples.len() == SAMPLES && samples.iter().all(is_right), "{samples:?}");
        let times_match = samples.iter().zip(&times).all(|(sample, time)| sample.at_ns == Span::from(*time - times[0]));
        assert!(times_match, "{samples:?}, {times:?}");
    }

    #[test]
    fn too_many_threads_are_not_sampled() {
        let threads = vec![1; MAX_THREADS + 1];
        let sampler = Sampler::new([(JobId(0), &threads[..])].into_iter());
        assert_eq!(sampler.due(), None);
    }
}
