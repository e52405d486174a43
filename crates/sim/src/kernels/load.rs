//! The load of CPUs and threads: averages of the recent past, in which older times count less.
//!
//! Source: `kernel/sched/pelt.c` and `fair.c` of Linux 5.15 and 6.18 (functions named below), whose
//! arithmetic is the same in both.
//!
//! * **Average** (`___update_load_sum`): time is divided into periods of 2^20 ns. At the end of
//!   each the average becomes the part `y` of itself, and the part `1 - y` of the mean of the
//!   period. `y` is 0xfa83b2da / 2^32, so that what was 32 periods ago counts half
//!   (`runnable_avg_yN_inv`).
//! * **Thread** (`__update_load_avg_se`): the average of the time in which it is in a queue, on its
//!   CPU, or on the way between them, times its weight. New threads have always been so
//!   (`init_entity_runnable_average`).
//! * **CPU** (`__update_load_avg_cfs_rq`): the average of the weight of those threads. A thread
//!   that goes to another CPU takes its load along (`detach_entity_load_avg`,
//!   `attach_entity_load_avg`). That of a thread that sleeps stays and decays. A thread that ends
//!   or is stopped takes its load along.
//!
//! * **Attraction** (`wake_affine_weight`, `task_h_load`): the load of a thread that wakes is that
//!   with which it went to sleep, and its CPU's load has decayed since.
//!
//! How the rules were checked: function by function against the text of both files in trees of
//! Linux 6.18.2 and 5.15.100 (private copies, not the kernel's own repository).
//!
//! Deviations: averages are those of the periods that are over. The kernel counts the present one,
//! too, up to the last update in which a period ended (`get_pelt_divider`). It counts time in units
//! of 1024 ns, decays by several periods at once with a table, and rounds loads down
//! (`decay_load`); here averages are rounded down to parts of 2^20 at the end of each period, and
//! loads to the nearest whole number. A load is brought up to date when it is read; the kernel
//! reads that of the last update, which for a waiting thread may be some time ago. In the kernel,
//! a thread that is stopped leaves its load behind, as one that sleeps.

use std::ops::Range;

use policy::{CpuId, Instant, ThreadId};

/// `y` in parts of 2^32.
const DECAY: u64 = 0xfa83_b2da;
/// The length of a period is this power of two in nanoseconds. Averages have as many binary places.
const PERIOD_BITS: u32 = 20;
const PERIOD: u64 = 1 << PERIOD_BITS;
/// The average of a weight that changes.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// That of the periods that are over, with binary places.
    value: u64,
    /// The weight times the nanoseconds of the present period.
    sum: u64,
    updated: u64,
}

fn decayed(value: u64) -> u64 {
    ((u128::from(value) * u128::from(DECAY)) >> 32) as u64
}

impl Average {
    /// Notes that the weight has been this one since the last update.
    #[inline]
    fn update(&mut self, weight: u64, now: Instant) {
        let now = now.as_nanos();
        let end = (self.updated | (PERIOD - 1)) + 1;
        if now < end {
            self.sum += weight * (now - self.updated);
        } else {
            self.sum += weight * (end - self.updated);
            self.end_period();
            for _ in 0..(now - end) >> PERIOD_BITS {
                let before = self.value;
                self.sum = weight << PERIOD_BITS;
                self.end_period();
                // It will not change any more.
                if self.value == before {
                    break;
                }
            }
            self.sum = weight * (now & (PERIOD - 1));
        }
        self.updated = now;
    }

    fn end_period(&mut self) {
        self.value = decayed(self.value) + (self.sum - decayed(self.sum));
    }
}

/// The whole number that is nearest to an average.
fn rounded(value: u64) -> u64 {
    (value + PERIOD / 2) >> PERIOD_BITS
}

/// A thread's part in the loads. Small, because a run may have a hundred thousand threads.
#[derive(Clone, Copy, Debug)]
struct Part {
    updated: u64,
    /// The average of 1 while the thread is present, and else of 0. No more than a period each.
    value: u32,
    sum: u32,
    weight: u32,
    /// The CPU whose load includes that of the thread, or [`NO_CPU`].
    cpu: u16,
    is_present: bool,
}

const NO_CPU: u16 = u16::MAX;

impl Part {
    const ABSENT: Part = Part { updated: 0, value: 0, sum: 0, weight: 0, cpu: NO_CPU, is_present: false };

    fn cpu(&self) -> Option<CpuId> {
        (self.cpu != NO_CPU).then_some(CpuId(self.cpu.into()))
    }

    fn update(&mut self, now: Instant) {
        let mut presence = Average { value: self.value.into(), sum: self.sum.into(), updated: self.updated };
        presence.update(self.is_present.into(), now);
        (self.value, self.sum, self.updated) = (presence.value as u32, presence.sum as u32, presence.updated);
    }

    /// Its load, with binary places, and what the present period adds to it.
    fn load(&self) -> (u64, u64) {
        let weight = u64::from(self.weight);
        (weight * u64::from(self.value), weight * u64::from(self.sum))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuLoad {
    average: Average,
    /// The weight of the present threads.
    weight: u64,
}

/// The loads of all CPUs and threads.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    cpus: Vec<CpuLoad>,
    threads: Vec<Part>,
}

impl Loads {
    pub(crate) fn new(cpus: u32, threads: usize) -> Loads {
        Loads { cpus: vec![CpuLoad::default(); cpus as usize], threads: vec![Part::ABSENT; threads] }
    }

    /// A thread that is in no queue is new.
    pub(crate) fn begin(&mut self, thread: ThreadId, now: Instant) {
        self.detach(thread, now);
        let part = &mut self.threads[thread.index()];
        (part.value, part.sum) = (PERIOD as u32, (now.as_nanos() & (PERIOD - 1)) as u32);
        part.updated = now.as_nanos();
    }

    /// A thread that was not present is so on this CPU.
    pub(crate) fn join(&mut self, thread: ThreadId, cpu: CpuId, weight: u32, now: Instant) {
        let part = &mut self.threads[thread.index()];
        part.update(now);
        if (part.cpu(), part.weight) == (Some(cpu), weight) {
            self.update(cpu, now);
        } else {
            self.detach(thread, now);
            self.threads[thread.index()].weight = weight;
            self.attach(thread, cpu, now);
        }
        self.threads[thread.index()].is_present = true;
        self.cpus[cpu.index()].weight += u64::from(weight);
    }

    /// A present thread sleeps.
    pub(crate) fn sleep(&mut self, thread: ThreadId, now: Instant) {
        let part = &mut self.threads[thread.index()];
        part.update(now);
        part.is_present = false;
        let (cpu, weight) = (part.cpu(), part.weight);
        if let Some(cpu) = cpu {
            self.update(cpu, now);
            self.cpus[cpu.index()].weight -= u64::from(weight);
        }
    }

    /// A present thread ends or is stopped.
    pub(crate) fn leave(&mut self, thread: ThreadId, now: Instant) {
        self.sleep(thread, now);
        self.detach(thread, now);
    }

    /// A present thread goes to another CPU.
    pub(crate) fn migrate(&mut self, thread: ThreadId, to: CpuId, now: Instant) {
        let weight = self.threads[thread.index()].weight;
        self.sleep(thread, now);
        self.join(thread, to, weight, now);
    }

    /// The weight of a thread changes.
    pub(crate) fn reweight(&mut self, thread: ThreadId, weight: u32, now: Instant) {
        let part = self.threads[thread.index()];
        if let Some(cpu) = part.cpu().filter(|_| part.is_present) {
            self.leave(thread, now);
            self.join(thread, cpu, weight, now);
        }
    }

    fn update(&mut self, cpu: CpuId, now: Instant) {
        let load = &mut self.cpus[cpu.index()];
        load.average.update(load.weight, now);
    }

    /// Adds the load of a thread to that of a CPU.
    fn attach(&mut self, thread: ThreadId, cpu: CpuId, now: Instant) {
        self.update(cpu, now);
        let part = &mut self.threads[thread.index()];
        part.cpu = cpu.0 as u16;
        let (value, sum) = part.load();
        let average = &mut self.cpus[cpu.index()].average;
        (average.value, average.sum) = (average.value + value, average.sum + sum);
    }

    /// Removes the load of a thread from that of its CPU.
    fn detach(&mut self, thread: ThreadId, now: Instant) {
        let Some(cpu) = self.threads[thread.index()].cpu() else { return };
        self.update(cpu, now);
        let part = &mut self.threads[thread.index()];
        part.update(now);
        part.cpu = NO_CPU;
        let (value, sum) = part.load();
        let average = &mut self.cpus[cpu.index()].average;
        (average.value, average.sum) = (average.value.saturating_sub(value), average.sum.saturating_sub(sum));
    }

    /// The load of a CPU.
    pub(crate) fn of_cpu(&self, cpu: CpuId, now: Instant) -> u64 {
        let CpuLoad { mut average, weight } = self.cpus[cpu.index()];
        average.update(weight, now);
        rounded(average.value)
    }

    /// The load that a thread had when it went to sleep.
    fn of_sleeping(&self, thread: ThreadId) -> u64 {
        rounded(self.threads[thread.index()].load().0)
    }

    /// The load of a thread.
    pub(crate) fn of_thread(&self, thread: ThreadId, now: Instant) -> u64 {
        let mut part = self.threads[thread.index()];
        part.update(now);
        rounded(part.load().0)
    }

    /// Whether a thread that sleeps is attracted by another CPU `here`: whether that would have
    /// less load with it than `there`, its own CPU, has without it, by half of what the percentage
    /// of the [smallest domain](crate::kernels::domains) of both is above 100
    /// (`wake_affine_weight`).
    pub(crate) fn attracts(
        &self,
        thread: ThreadId,
        here: CpuId,
        there: CpuId,
        imbalance_percent: u64,
        now: Instant,
    ) -> bool {
        let own = self.of_sleeping(thread);
        let included = if self.threads[thread.index()].cpu() == Some(there) { own } else { 0 };
        let without = self.of_cpu(there, now).saturating_sub(included);
        100 * (self.of_cpu(here, now) + own) < (100 + (imbalance_percent - 100) / 2) * without
    }

    /// The mean load of some CPUs.
    pub(crate) fn mean(&self, cpus: Range<u32>, now: Instant) -> u64 {
        let count = cpus.len() as u64;
        cpus.map(|cpu| self.of_cpu(CpuId(cpu), now)).sum::<u64>() / count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_small() {
        assert!(size_of::<Part>() <= 24, "{}", size_of::<Part>());
    }

    fn after(periods: u64) -> Instant {
        Instant::from_nanos(periods << PERIOD_BITS)
    }

    #[test]
    fn the_load_of_a_thread_that_sleeps_is_halved_in_32_periods_and_stays_on_its_cpu() {
        let [first, second] = [CpuId(0), CpuId(1)];
        let (thread, start) = (ThreadId(0), Instant::ZERO);
        let mut loads = Loads::new(2, 1);
        loads.begin(thread, start);
        loads.join(thread, first, 1_000, start);
        assert_eq!(loads.of_cpu(first, start), 1_000);
        assert_eq!(loads.of_cpu(first, after(77)), 1_000);
        loads.sleep(thread, after(100));
        assert_eq!(loads.of_thread(thread, after(132)), 500);
        assert_eq!(loads.of_cpu(first, after(132)), 500);
        // It takes its load along to another CPU.
        loads.join(thread, second, 1_000, after(164));
        assert_eq!([first, second].map(|cpu| loads.of_cpu(cpu, after(164))), [0, 250]);
        assert_eq!([first, second].map(|cpu| loads.of_cpu(cpu, after(196))), [0, 625]);
        assert_eq!(loads.mean(0..2, after(196)), 312);
        loads.leave(thread, after(196));
        assert_eq!(loads.of_cpu(second, after(196)), 0);
    }

    #[test]
    fn a_thread_that_is_present_for_half_of_the_time_has_half_of_the_load() {
        let (thread, cpu) = (ThreadId(0), CpuId(0));
        let mut loads = Loads::new(1, 1);
        loads.begin(thread, Instant::ZERO);
        for n in 0..2_000 {
            loads.join(thread, cpu, 2_000, Instant::from_nanos(n * 700_000));
            loads.sleep(thread, Instant::from_nanos(n * 700_000 + 350_000));
        }
        let end = Instant::from_nanos(1_400_000_000);
        let (of_cpu, of_thread) = (loads.of_cpu(cpu, end), loads.of_thread(thread, end));
        assert!(of_cpu.abs_diff(1_000) < 25 && of_thread.abs_diff(1_000) < 25, "{of_cpu} {of_thread}");
    }

    #[test]
    fn a_load_that_is_lower_by_eight_percent_attracts() {
        let [here, there] = [CpuId(0), CpuId(1)];
        let attracts = |on_its_cpu| {
            let mut loads = Loads::new(2, 3);
            for (thread, cpu, weight) in [(0, there, 1_024), (1, here, 1_024), (2, there, on_its_cpu)] {
                loads.begin(ThreadId(thread), Instant::ZERO);
                loads.join(ThreadId(thread), cpu, weight, Instant::ZERO);
            }
            loads.sleep(ThreadId(0), Instant::ZERO);
            loads.attracts(ThreadId(0), here, there, 117, Instant::ZERO)
        };
        assert!(attracts(1_897) && !attracts(1_896));
    }

    #[test]
    fn a_thread_is_compared_with_the_load_that_it_had_when_it_went_to_sleep() {
        let [here, there] = [CpuId(0), CpuId(1)];
        let mut loads = Loads::new(2, 3);
        for (thread, cpu, weight) in [(0, there, 1_024), (1, here, 1_024), (2, there, 2_000)] {
            loads.begin(ThreadId(thread), Instant::ZERO);
            loads.join(ThreadId(thread), cpu, weight, Instant::ZERO);
        }
        loads.sleep(ThreadId(0), Instant::ZERO);
        // 32 periods later its part in the load of its CPU is half of that.
        let attracts = |now| loads.attracts(ThreadId(0), here, there, 117, now);
        assert!(attracts(Instant::ZERO) && !attracts(after(32)));
    }

    #[test]
    fn an_average_does_not_depend_on_the_moments_of_its_updates() {
        let mut steps = Average::default();
        let mut at_once = steps;
        for n in 1..=977_u64 {
            steps.update(1_024, Instant::from_nanos(n * 12_345));
        }
        at_once.update(1_024, Instant::from_nanos(977 * 12_345));
        assert_eq!((steps.value, steps.sum), (at_once.value, at_once.sum));
    }
}
