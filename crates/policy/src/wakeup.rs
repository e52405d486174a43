//! Wakeup schemes: which CPU a woken thread goes to in a kernel with one run queue for all CPUs.
//!
//! Source: Tsafrir and Feitelson, section 4.3 and appendix A; Linux 2.4.5, `kernel/sched.c`
//! (`goodness`, `reschedule_idle`). When a barrier completes, many threads are woken at the same
//! time. For each of them in turn the kernel looks for a CPU and *marks* it (`need_resched`). A
//! marked CPU soon calls the scheduler, which runs the best thread that it finds. A mark names a
//! CPU, not a thread.
//!
//! * [`Scheme::Original`]: the CPU on which the thread last ran, if it is idle; else the CPU that
//!   has been idle longest; else the CPU whose thread has the lowest goodness compared with the
//!   woken one, if the difference exceeds a threshold. Existing marks are ignored. So a series of
//!   woken threads may all mark the same CPU: they stay in the queue, and other CPUs stay idle.
//! * [`Scheme::Ap`]: the same, but marked CPUs are skipped.
//! * [`Scheme::Gv`], the global view: all woken threads are paired with CPUs together, so that the
//!   sum of the gains is largest. An idle CPU is worth more than any preemption, and a preemption
//!   below the threshold is worth nothing. Marked CPUs are skipped.
//!
//! Choices that the sources leave open: equally good CPUs are taken in the order of their numbers,
//! as in the kernel's loop. Among idle CPUs the global view prefers those on which the thread has
//! the larger goodness.

use std::collections::VecDeque;

use crate::CpuSet;
use crate::units::{CpuId, Instant, Span};

/// A wakeup scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// The scheme of Linux 2.4: each thread separately, without regard to marks.
    #[default]
    Original,
    /// Skips marked CPUs.
    Ap,
    /// Pairs all threads with CPUs together.
    Gv,
}

crate::parse::named!(
    Scheme { Original = "original", Ap = "ap", Gv = "gv", }
    |text| text, format!("`{text}` is not a wakeup scheme")
);

/// A number that two threads share if and only if they share their memory, as the threads of one
/// job do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSpace(pub u32);

/// The parameters of goodness besides a thread's counter. No span here, and no counter, is longer
/// than [`LONGEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// `PROC_CHANGE_PENALTY`: the value of the CPU on which the thread last ran. Treated as a bonus
    /// for staying, as in the kernel, so that no goodness falls below that of a thread without
    /// allocation.
    pub penalty: Span,
    /// `SAME_ADDRESS_SPACE_BONUS`: the value of sharing the memory of the thread that last ran on
    /// the CPU.
    pub bonus: Span,
    /// A running thread is preempted only for a gain above this.
    pub threshold: Span,
}

/// The longest span for which goodness can be computed: 36 years.
pub const LONGEST: Span = Span::from_nanos(1 << 60);

impl Weights {
    /// The kernel's `goodness`. Zero for a thread that has used up its allocation.
    #[inline]
    pub const fn goodness(&self, counter: Span, stays: bool, shares: bool) -> Goodness {
        let counter = counter.as_nanos() as i64;
        if counter == 0 {
            return Goodness(0);
        }
        let penalty = if stays { self.penalty.as_nanos() as i64 } else { 0 };
        let bonus = if shares { self.bonus.as_nanos() as i64 } else { 0 };
        Goodness(counter + penalty + bonus)
    }
}

/// The goodness of a thread for a CPU, in nanoseconds of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Goodness(pub i64);

/// A CPU as a wakeup scheme sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its thread; during a switch, the next one.
    pub state: CpuState,
    /// The memory of the thread that last ran here; `None` before the first.
    pub last_space: Option<AddressSpace>,
    /// Whether it has been marked and has not rescheduled yet.
    pub marked: bool,
}

/// All CPUs of a machine, with facts that spare a wakeup the look at each of them.
///
/// A woken thread rarely gains enough on a CPU that runs another one, and mostly not even where the
/// least is left of the running thread's counter. So a lower bound of what is left anywhere is
/// kept. It is raised to the true value only if it does not exclude a gain.
#[derive(Clone, Debug)]
pub struct Cpus {
    cpus: Vec<Cpu>,
    /// The idle CPUs, the one that has been idle longest first.
    idle: VecDeque<(Instant, usize)>,
    /// No thread is spent before this moment, and none began with a lower counter.
    earliest_spent: Instant,
    lowest_counter: Span,
}

impl From<Vec<Cpu>> for Cpus {
    fn from(cpus: Vec<Cpu>) -> Cpus {
        let since = |(number, cpu): (usize, &Cpu)| cpu.state.idle_since().map(|since| (since, number));
        let mut idle: Vec<_> = cpus.iter().enumerate().filter_map(since).collect();
        idle.sort_unstable();
        Cpus { cpus, idle: idle.into(), earliest_spent: Instant::ZERO, lowest_counter: Span::ZERO }
    }
}

impl std::ops::Deref for Cpus {
    type Target = [Cpu];

    fn deref(&self) -> &[Cpu] {
        &self.cpus
    }
}

impl Cpus {
    /// A CPU becomes idle, or its thread is another one or is charged anew.
    #[inline]
    pub fn set_state(&mut self, number: usize, state: CpuState) {
        let before = std::mem::replace(&mut self.cpus[number].state, state);
        let place = before.idle_since().and_then(|since| self.idle.binary_search(&(since, number)).ok());
        if let Some(place) = place {
            self.idle.remove(place);
        }
        match state {
            CpuState::Idle { since } => {
                let place = self.idle.partition_point(|other| *other < (since, number));
                self.idle.insert(place, (since, number));
            }
            CpuState::Thread { charged_from, spent } => {
                self.earliest_spent = self.earliest_spent.min(spent);
                self.lowest_counter = self.lowest_counter.min(spent.since(charged_from));
            }
        }
    }

    /// A CPU reschedules: it is no longer marked.
    pub fn unmark(&mut self, number: usize) {
        self.cpus[number].marked = false;
    }

    /// A CPU switches to a thread with this memory.
    pub fn set_last_space(&mut self, number: usize, space: AddressSpace) {
        self.cpus[number].last_space = Some(space);
    }

    /// Whether a thread could gain enough on a CPU that is not idle and on which it did not run
    /// last. `false` is always right.
    fn can_gain_elsewhere(&mut self, weights: &Weights, now: Instant, counter: Span) -> bool {
        let can_gain = |cpus: &Cpus| {
            let least = cpus.earliest_spent.since(now).min(cpus.lowest_counter);
            let gain = weights.goodness(counter, false, true).0 - weights.goodness(least, true, true).0;
            gain > weights.threshold.as_nanos() as i64
        };
        if !can_gain(self) {
            return false;
        }
        (self.earliest_spent, self.lowest_counter) = (Instant::from_nanos(u64::MAX), Span::MAX);
        for cpu in &self.cpus {
            if let CpuState::Thread { charged_from, spent } = cpu.state {
                self.earliest_spent = self.earliest_spent.min(spent);
                self.lowest_counter = self.lowest_counter.min(spent.since(charged_from));
            }
        }
        can_gain(self)
    }
}

/// Whether a CPU is idle or runs a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// It is idle.
    Idle {
        /// When it became idle.
        since: Instant,
    },
    /// It runs a thread that is charged for the passing time.
    Thread {
        /// The moment from which it is charged.
        charged_from: Instant,
        /// When its counter will reach zero.
        spent: Instant,
    },
}

impl CpuState {
    fn idle_since(self) -> Option<Instant> {
        match self {
            CpuState::Idle { since } => Some(since),
            CpuState::Thread { .. } => None,
        }
    }

    /// The present counter of the thread; `None` on an idle CPU.
    #[inline]
    pub fn counter(&self, now: Instant) -> Option<Span> {
        match *self {
            CpuState::Idle { .. } => None,
            CpuState::Thread { charged_from, spent } => Some(spent.since(now.max(charged_from))),
        }
    }
}

/// A woken thread as a wakeup scheme sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awakened<'a> {
    /// The rest of its allocation.
    pub counter: Span,
    /// The CPU on which it last ran; `None` before the first time.
    pub last_cpu: Option<CpuId>,
    /// Its memory.
    pub space: AddressSpace,
    /// The CPUs to which it is bound, if it is.
    pub cpus: Option<&'a CpuSet>,
}

impl Awakened<'_> {
    fn may_run_on(&self, number: usize) -> bool {
        self.cpus.is_none_or(|cpus| cpus.contains(CpuId(number as u32)))
    }

    fn goodness_on(&self, number: usize, cpu: &Cpu, weights: &Weights) -> Goodness {
        let stays = self.last_cpu.is_some_and(|last| last.index() == number);
        weights.goodness(self.counter, stays, cpu.last_space == Some(self.space))
    }

    /// By how much its goodness exceeds that of the thread of a busy CPU; `None` if that is not
    /// above the threshold.
    #[inline]
    fn gain(&self, number: usize, cpu: &Cpu, counter: Span, weights: &Weights) -> Option<i64> {
        let Goodness(own) = self.goodness_on(number, cpu, weights);
        // The running thread last ran on this CPU, and shares its own memory.
        let Goodness(others) = weights.goodness(counter, true, true);
        let gain = own - others;
        (gain > weights.threshold.as_nanos() as i64).then_some(gain)
    }
}

impl Scheme {
    /// Marks CPUs for threads that are woken together, in this order, and calls `on_mark` with
    /// each: at most once a thread. [`Scheme::Original`] may name the same CPU more than once.
    ///
    /// Pure apart from the marks in `cpus`: the same threads and CPUs give the same marks.
    pub fn mark(
        self,
        weights: &Weights,
        now: Instant,
        awakened: &[Awakened<'_>],
        cpus: &mut Cpus,
        mut on_mark: impl FnMut(CpuId),
    ) {
        let mut mark = |cpus: &mut Cpus, number: usize| {
            cpus.cpus[number].marked = true;
            on_mark(CpuId(number as u32));
        };
        if self == Scheme::Gv && awakened.len() != 1 {
            return pairing(weights, now, awakened, cpus).into_iter().for_each(|number| mark(cpus, number));
        }
        for thread in awakened {
            if let Some(number) = best_cpu(weights, now, thread, cpus, self != Scheme::Original) {
                mark(cpus, number);
            }
        }
    }
}

/// The kernel's `reschedule_idle` for one thread.
#[inline]
fn best_cpu(
    weights: &Weights,
    now: Instant,
    thread: &Awakened<'_>,
    cpus: &mut Cpus,
    skip_marked: bool,
) -> Option<usize> {
    let may_mark = |cpus: &Cpus, number: usize| !(skip_marked && cpus[number].marked) && thread.may_run_on(number);
    let last = thread.last_cpu.map(CpuId::index).filter(|&last| may_mark(cpus, last));
    let is_idle = |&last: &usize| cpus[last].state.idle_since().is_some();
    let longest_idle = || cpus.idle.iter().map(|&(_, number)| number).find(|&number| may_mark(cpus, number));
    if let Some(idle) = last.filter(is_idle).or_else(longest_idle) {
        return Some(idle);
    }
    // A thread without allocation preempts no other.
    if thread.counter.is_zero() {
        return None;
    }
    let gain = |cpus: &Cpus, number: usize| {
        let counter = cpus[number].state.counter(now)?;
        thread.gain(number, &cpus[number], counter, weights)
    };
    if !cpus.can_gain_elsewhere(weights, now, thread.counter) {
        return last.filter(|&last| gain(cpus, last).is_some());
    }
    let mut largest: Option<(i64, usize)> = None;
    for number in (0..cpus.len()).filter(|&number| may_mark(cpus, number)) {
        let gain = gain(cpus, number);
        if gain.is_some_and(|gain| largest.is_none_or(|(most, _)| gain > most)) {
            largest = gain.map(|gain| (gain, number));
        }
    }
    largest.map(|(_, number)| number)
}

/// The value of an idle CPU beyond the goodness of the thread there: more than any sum of
/// preemptions.
const IDLE: i128 = 1 << 90;

/// The CPUs of the pairing with the largest sum, in the order of the threads.
fn pairing(weights: &Weights, now: Instant, awakened: &[Awakened<'_>], cpus: &[Cpu]) -> Vec<usize> {
    // Marked CPUs, and those that no thread could get, are left out.
    let worth = |thread: &Awakened<'_>, number: usize, cpu: &Cpu| -> i128 {
        match cpu.state.counter(now) {
            _ if !thread.may_run_on(number) => 0,
            None => IDLE + i128::from(thread.goodness_on(number, cpu, weights).0),
            Some(counter) => i128::from(thread.gain(number, cpu, counter, weights).unwrap_or(0)),
        }
    };
    let open: Vec<usize> = (0..cpus.len()).filter(|&number| !cpus[number].marked).collect();
    let worths: Vec<Vec<i128>> =
        awakened.iter().map(|thread| open.iter().map(|&cpu| worth(thread, cpu, &cpus[cpu])).collect()).collect();
    heaviest_pairs(&worths).into_iter().map(|(_, column)| open[column]).collect()
}

/// The pairs of rows and columns with the largest sum of weights, in the order of the rows. Each
/// row and column is in at most one pair; pairs without weight are left out.
///
/// The Hungarian method with potentials (Kuhn 1955; in the form of Jonker and Volgenant 1987): rows
/// are added one by one, each by a shortest augmenting path. O(r² c) for r rows and c columns, with
/// no more rows than columns.
fn heaviest_pairs(weights: &[Vec<i128>]) -> Vec<(usize, usize)> {
    let columns = weights.first().map_or(0, Vec::len);
    if weights.len() > columns {
        let turned: Vec<Vec<i128>> = (0..columns).map(|c| weights.iter().map(|row| row[c]).collect()).collect();
        let mut pairs: Vec<_> = heaviest_pairs(&turned).into_iter().map(|(column, row)| (row, column)).collect();
        pairs.sort_unstable();
        return pairs;
    }
    // Number 0 is no row or column; costs are negative weights.
    let mut row_potential = vec![0_i128; weights.len() + 1];
    let mut column_potential = vec![0_i128; columns + 1];
    let mut row_of = vec![0_usize; columns + 1];
    for row in 1..=weights.len() {
        let mut reached_from = vec![0_usize; columns + 1];
        let mut distance = vec![i128::MAX; columns + 1];
        let mut done = vec![false; columns + 1];
        row_of[0] = row;
        let mut column = 0;
        while row_of[column] != 0 {
            done[column] = true;
            let from = row_of[column];
            let (mut nearest, mut step) = (0, i128::MAX);
            for to in 1..=columns {
                if done[to] {
                    continue;
                }
                let reduced = -weights[from - 1][to - 1] - row_potential[from] - column_potential[to];
                if reduced < distance[to] {
                    (distance[to], reached_from[to]) = (reduced, column);
                }
                if distance[to] < step {
                    (step, nearest) = (distance[to], to);
                }
            }
            for to in 0..=columns {
                if done[to] {
                    row_potential[row_of[to]] += step;
                    column_potential[to] -= step;
                } else if to > 0 {
                    distance[to] -= step;
                }
            }
            column = nearest;
        }
        while column != 0 {
            let before = reached_from[column];
            row_of[column] = row_of[before];
            column = before;
        }
    }
    let taken = (1..=columns).filter(|&column| row_of[column] != 0).map(|column| (row_of[column] - 1, column - 1));
    let mut pairs: Vec<_> = taken.filter(|&(row, column)| weights[row][column] > 0).collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEIGHTS: Weights =
        Weights { penalty: Span::from_micros(150), bonus: Span::from_micros(10), threshold: Span::from_micros(10) };

    fn us(n: u64) -> Span {
        Span::from_micros(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + us(n)
    }

    fn idle(since: u64) -> Cpu {
        Cpu { state: CpuState::Idle { since: at(since) }, last_space: None, marked: false }
    }

    /// A CPU with a thread of another job that has this counter at 1000 us.
    fn busy(counter: u64) -> Cpu {
        let state = CpuState::Thread { charged_from: at(0), spent: at(1000 + counter) };
        Cpu { state, last_space: Some(AddressSpace(99)), marked: false }
    }

    fn thread(counter: u64, last_cpu: Option<u32>) -> Awakened<'static> {
        Awakened { counter: us(counter), last_cpu: last_cpu.map(CpuId), space: AddressSpace(1), cpus: None }
    }

    fn marks(scheme: Scheme, awakened: &[Awakened<'_>], cpus: &[Cpu]) -> Vec<u32> {
        let mut marks = Vec::new();
        scheme.mark(&WEIGHTS, at(1000), awakened, &mut Cpus::from(cpus.to_vec()), |cpu| marks.push(cpu.0));
        marks
    }

    #[test]
    fn goodness_never_falls_below_that_of_a_spent_thread() {
        assert_eq!(WEIGHTS.goodness(us(0), true, true), Goodness(0));
        assert_eq!(WEIGHTS.goodness(us(1), false, false), Goodness(1_000));
        assert_eq!(WEIGHTS.goodness(us(1), true, true), Goodness(161_000));
    }

    #[test]
    fn each_scheme_marks_the_cpus_of_its_rule() {
        let mixed = [busy(5), idle(30), idle(20), idle(20)];
        let first: CpuSet = [CpuId(0)].into_iter().collect();
        let bound = Awakened { cpus: Some(&first), ..thread(200, Some(1)) };
        let anywhere = [thread(200, None)];
        for scheme in Scheme::ALL {
            let cases: [(&[Awakened<'_>], &[Cpu], &[u32]); 10] = [
                // The last CPU is best if it is idle, and then the one that has been idle longest.
                (&[thread(200, Some(1))], &mixed, &[1]),
                (&[thread(200, Some(0))], &mixed, &[2]),
                (&[thread(0, None)], &mixed, &[2]),
                // 200 exceeds 29 + 160 by 11, which is enough; over 30 + 160 it is not.
                (&anywhere, &[busy(30), busy(29)], &[1]),
                (&anywhere, &[busy(30)], &[]),
                // On the CPU on which it last ran, both threads get the same bonus.
                (&[thread(200, Some(0))], &[busy(179), busy(35)], &[0]),
                (&[thread(0, Some(0))], &[busy(0)], &[]),
                // A thread never goes to a CPU that it may not use.
                (&[bound], &[busy(20), idle(30), idle(20)], &[0]),
                (&[bound], &[busy(180), idle(30)], &[]),
                (&[bound, thread(200, None)], &[busy(20), busy(10)], &[0, 1]),
            ];
            for (number, (awakened, cpus, expected)) in cases.into_iter().enumerate() {
                assert_eq!(marks(scheme, awakened, cpus), expected, "{scheme}, case {number}");
            }
        }
    }

    #[test]
    fn the_original_scheme_marks_one_cpu_repeatedly_and_the_others_do_not() {
        let three = [thread(200, None); 3];
        let cpus = [idle(10), idle(20), busy(5)];
        assert_eq!(marks(Scheme::Original, &three, &cpus), [0, 0, 0]);
        assert_eq!(marks(Scheme::Ap, &three, &cpus), [0, 1, 2]);
        let mut paired = marks(Scheme::Gv, &three, &cpus);
        paired.sort_unstable();
        assert_eq!(paired, [0, 1, 2]);
    }

    #[test]
    fn the_global_view_gives_a_cpu_to_the_thread_without_an_alternative() {
        // The first thread gains most on CPU 0, but the second gains nothing on CPU 1.
        let awakened = [thread(300, None), thread(200, Some(0))];
        let cpus = [busy(20), busy(30)];
        assert_eq!(marks(Scheme::Ap, &awakened, &cpus), [0]);
        assert_eq!(marks(Scheme::Gv, &awakened, &cpus), [1, 0]);
    }

    #[test]
    fn marked_cpus_are_skipped_except_by_the_original_scheme() {
        let mut cpus = [idle(10), idle(20), busy(5)];
        cpus[0].marked = true;
        let awakened = [thread(200, Some(0)), thread(200, None), thread(200, None)];
        assert_eq!(marks(Scheme::Original, &awakened, &cpus), [0, 0, 0]);
        assert_eq!(marks(Scheme::Ap, &awakened, &cpus), [1, 2]);
        assert_eq!(marks(Scheme::Gv, &awakened, &cpus).len(), 2);
    }

    #[test]
    fn a_counter_is_constant_until_it_is_charged() {
        let state = CpuState::Thread { charged_from: at(10), spent: at(30) };
        assert_eq!(state.counter(at(5)), Some(us(20)));
        assert_eq!(state.counter(at(12)), Some(us(18)));
        assert_eq!(state.counter(at(31)), Some(us(0)));
    }

    /// Whether other pairs would have a larger sum. A pairing is a circulation: from a hub to the
    /// rows, along a pair to a column, and back. A better one exists if and only if the residual
    /// arcs, with those in use reversed, have a cycle of negative cost (found by Bellman and Ford's
    /// algorithm).
    fn can_be_improved(weights: &[Vec<i128>], pairs: &[(usize, usize)]) -> bool {
        let (rows, columns) = (weights.len(), weights.first().map_or(0, Vec::len));
        let (hub, column_node) = (rows + columns, |column: usize| rows + column);
        let mut arcs = Vec::new();
        let mut arc = |from: usize, to: usize, cost: i128, taken: bool| {
            arcs.push(if taken { (to, from, -cost) } else { (from, to, cost) });
        };
        for (row, weights) in weights.iter().enumerate() {
            arc(hub, row, 0, pairs.iter().any(|pair| pair.0 == row));
            for (column, &weight) in weights.iter().enumerate() {
                arc(row, column_node(column), -weight, pairs.contains(&(row, column)));
            }
        }
        for column in 0..columns {
            arc(column_node(column), hub, 0, pairs.iter().any(|pair| pair.1 == column));
        }
        let mut distance = vec![0_i128; hub + 1];
        for _ in 0..=hub {
            let mut changed = false;
            for &(from, to, cost) in &arcs {
                if distance[from] + cost < distance[to] {
                    distance[to] = distance[from] + cost;
                    changed = true;
                }
            }
            if !changed {
                return false;
            }
        }
        true
    }

    #[test]
    fn a_pairing_that_can_be_improved_is_detected() {
        let weights = vec![vec![5, 4], vec![4, 1]];
        assert!(!can_be_improved(&weights, &[(0, 1), (1, 0)]));
        assert!(can_be_improved(&weights, &[(0, 0), (1, 1)]));
        assert!(can_be_improved(&weights, &[(0, 0)]));
    }

    proptest! {
        /// Facts that are kept from change to change lead to the same marks as looking at every
        /// CPU.
        #[test]
        fn facts_about_the_cpus_that_are_kept_change_no_mark(
            changes in prop::collection::vec((0_usize..6, 0_u64..4, 0_u64..400, 0_u64..400, 0_u32..7), 1..60),
            penalty in 0_u64..100,
        ) {
            let weights = Weights { penalty: us(penalty), ..WEIGHTS };
            let mut cpus = Cpus::from(vec![idle(0); 6]);
            for (moment, (number, kind, first, second, last)) in (0..).zip(changes) {
                let now = at(10 * moment);
                match kind {
                    0 => cpus.unmark(number),
                    1 => cpus.set_state(number, CpuState::Idle { since: now }),
                    _ => {
                        let charged_from = now + us(if kind == 2 { 0 } else { second / 10 });
                        cpus.set_state(number, CpuState::Thread { charged_from, spent: charged_from + us(first) });
                    }
                }
                let woken = [thread(second, (last < 6).then_some(last))];
                for scheme in [Scheme::Original, Scheme::Ap] {
                    let (mut kept, mut fresh) = (Vec::new(), Vec::new());
                    scheme.mark(&weights, now, &woken, &mut Cpus::from(cpus.to_vec()), |cpu| fresh.push(cpu));
                    scheme.mark(&weights, now, &woken, &mut cpus, |cpu| kept.push(cpu));
                    prop_assert_eq!(kept, fresh);
                }
            }
        }

        /// Up to as many threads and CPUs as the paper's job and machine have.
        #[test]
        fn no_exchange_improves_the_pairing(
            (rows, columns) in prop_oneof![(0_usize..6, 1_usize..7), (1_usize..12, 1_usize..33)],
            numbers in prop::collection::vec(
                prop_oneof![Just(0_i128), 1_i128..20, 1_i128..400, Just(IDLE), IDLE + 1..IDLE + 400],
                12 * 33,
            ),
        ) {
            let weights: Vec<Vec<i128>> = (0..rows).map(|row| numbers[row * columns..][..columns].to_vec()).collect();
            let pairs = heaviest_pairs(&weights);
            prop_assert!(!can_be_improved(&weights, &pairs));
            prop_assert!(pairs.is_sorted_by(|one, other| one.0 < other.0));
            let columns: std::collections::BTreeSet<usize> = pairs.iter().map(|pair| pair.1).collect();
            prop_assert_eq!(columns.len(), pairs.len());
            prop_assert!(pairs.iter().all(|&(row, column)| weights[row][column] > 0));
        }
    }
}
