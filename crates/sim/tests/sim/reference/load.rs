//! Loads by the rules at the head of `sim::kernels::load`: averages that are carried forward step
//! by step.

use crate::reference::world::{Cpu, Thread};

/// In nanoseconds.
const PERIOD: i128 = 1 << 20;

fn decayed(value: i128) -> i128 {
    value * 0xfa83_b2da / (1 << 32)
}

#[derive(Clone, Copy, Default)]
struct Average {
    /// In parts of 2^20.
    value: i128,
    /// The weight times the nanoseconds of this period.
    sum: i128,
}

impl Average {
    fn pass(&mut self, weight: i128, mut from: i128, to: i128) {
        while from < to {
            let end = (from / PERIOD + 1) * PERIOD;
            let until = end.min(to);
            self.sum += weight * (until - from);
            if until == end {
                self.value = decayed(self.value) + (self.sum - decayed(self.sum));
                self.sum = 0;
            }
            from = until;
        }
    }

    fn add(&mut self, other: Average, times: i128) {
        self.value = (self.value + times * other.value).max(0);
        self.sum = (self.sum + times * other.sum).max(0);
    }

    fn rounded(self) -> i128 {
        (self.value + PERIOD / 2) / PERIOD
    }
}

#[derive(Clone, Copy, Default)]
struct Part {
    presence: Average,
    weight: i128,
    /// The CPU that has its load.
    cpu: Option<Cpu>,
    is_present: bool,
    /// Its load when it last went to sleep.
    at_sleep: i128,
}

pub(crate) struct Loads {
    now: i128,
    cpus: Vec<Average>,
    threads: Vec<Part>,
}

impl Loads {
    pub(crate) fn new(cpus: usize) -> Loads {
        Loads { now: 0, cpus: vec![Average::default(); cpus], threads: Vec::new() }
    }

    pub(crate) fn pass_until(&mut self, now: i128) {
        for (cpu, average) in self.cpus.iter_mut().enumerate() {
            let present = self.threads.iter().filter(|part| part.is_present && part.cpu == Some(cpu));
            average.pass(present.map(|part| part.weight).sum(), self.now, now);
        }
        for part in &mut self.threads {
            part.presence.pass(part.is_present.into(), self.now, now);
        }
        self.now = now;
    }

    pub(crate) fn begin(&mut self, thread: Thread) {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Part::default());
        }
        self.threads[thread].presence = Average { value: PERIOD, sum: self.now % PERIOD };
    }

    /// A thread is present on a CPU from now on, to which it takes its load.
    pub(crate) fn join(&mut self, thread: Thread, cpu: Cpu, weight: i128) {
        let Part { cpu: before, weight: its, .. } = self.threads[thread];
        if before != Some(cpu) || its != weight {
            self.take_along(thread);
            let part = &mut self.threads[thread];
            (part.cpu, part.weight) = (Some(cpu), weight);
            self.cpus[cpu].add(part.presence, weight);
        }
        self.threads[thread].is_present = true;
    }

    pub(crate) fn sleep(&mut self, thread: Thread) {
        self.threads[thread].at_sleep = self.of_thread(thread);
        self.threads[thread].is_present = false;
    }

    pub(crate) fn leave(&mut self, thread: Thread) {
        self.sleep(thread);
        self.take_along(thread);
    }

    /// The weight of a thread changes where it is.
    pub(crate) fn reweight(&mut self, thread: Thread, weight: i128) {
        if let Part { cpu: Some(cpu), is_present: true, .. } = self.threads[thread] {
            self.join(thread, cpu, weight);
        }
    }

    fn take_along(&mut self, thread: Thread) {
        if let Some(cpu) = self.threads[thread].cpu.take() {
            let Part { presence, weight, .. } = self.threads[thread];
            self.cpus[cpu].add(presence, -weight);
        }
    }

    pub(crate) fn of_thread(&self, thread: Thread) -> i128 {
        let Part { presence, weight, .. } = self.threads[thread];
        Average { value: presence.value * weight, sum: 0 }.rounded()
    }

    pub(crate) fn of_cpu(&self, cpu: Cpu) -> i128 {
        self.cpus[cpu].rounded()
    }

    /// The load that a thread had when it went to sleep.
    pub(crate) fn of_sleeping(&self, thread: Thread) -> i128 {
        self.threads[thread].at_sleep
    }

    /// The load of the CPU of a thread that sleeps, without that of the thread.
    pub(crate) fn without(&self, thread: Thread, cpu: Cpu) -> i128 {
        let own = if self.threads[thread].cpu == Some(cpu) { self.of_sleeping(thread) } else { 0 };
        (self.of_cpu(cpu) - own).max(0)
    }

    pub(crate) fn mean(&self, cpus: &[Cpu]) -> i128 {
        cpus.iter().map(|&cpu| self.of_cpu(cpu)).sum::<i128>() / cpus.len() as i128
    }
}
