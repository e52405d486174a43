//! Compares condition variables: `cargo bench -p rowlock-bench-wait --bench conditions [-- ROUNDS
//! SECONDS]`.
//!
//! - *turns*: two threads alternate, each waiting for its turn. Turns per second.
//! - *broadcast*: one thread wakes eight, and waits until all have run. Rounds per second.
//! - *poll*: one thread waits with a timeout of 1 ms, again and again, while others wait without
//!   one. Spurious wakeups of the others per second; a timeout should wake no other thread.
//!
//! Implementations alternate in each round. The output goes into docs/results/waiting.md.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// The duration of a measurement.
static TIME: OnceLock<Duration> = OnceLock::new();

/// How often a polling thread stops waiting.
const TIMEOUT: Duration = Duration::from_millis(1);

/// A number that is protected by a mutex, and a condition variable.
trait Condition: Sync {
    fn new() -> Self;

    /// Changes the number.
    fn change(&self, change: impl FnOnce(&mut u64));

    /// Wakes one waiter, or all.
    fn notify(&self, all: bool);

    /// Waits while the number satisfies this. Calls `woken` after each wakeup.
    fn wait_while(&self, holds: impl Fn(u64) -> bool, woken: impl Fn());

    /// Waits for the timeout, or until a notification.
    fn wait_for(&self, timeout: Duration);
}

struct Standard(std::sync::Mutex<u64>, std::sync::Condvar);

impl Condition for Standard {
    fn new() -> Standard {
        Standard(std::sync::Mutex::new(0), std::sync::Condvar::new())
    }

    fn change(&self, change: impl FnOnce(&mut u64)) {
        change(&mut self.0.lock().unwrap());
    }

    fn notify(&self, all: bool) {
        if all { self.1.notify_all() } else { self.1.notify_one() }
    }

    fn wait_while(&self, holds: impl Fn(u64) -> bool, woken: impl Fn()) {
        let mut number = self.0.lock().unwrap();
        while holds(*number) {
            number = self.1.wait(number).unwrap();
            woken();
        }
    }

    fn wait_for(&self, timeout: Duration) {
        drop(self.1.wait_timeout(self.0.lock().unwrap(), timeout).unwrap());
    }
}

struct ParkingLot(parking_lot::Mutex<u64>, parking_lot::Condvar);

impl Condition for ParkingLot {
    fn new() -> ParkingLot {
        ParkingLot(parking_lot::Mutex::new(0), parking_lot::Condvar::new())
    }

    fn change(&self, change: impl FnOnce(&mut u64)) {
        change(&mut self.0.lock());
    }

    fn notify(&self, all: bool) {
        if all {
            self.1.notify_all();
        } else {
            self.1.notify_one();
        }
    }

    fn wait_while(&self, holds: impl Fn(u64) -> bool, woken: impl Fn()) {
        let mut number = self.0.lock();
        while holds(*number) {
            self.1.wait(&mut number);
            woken();
        }
    }

    fn wait_for(&self, timeout: Duration) {
        self.1.wait_for(&mut self.0.lock(), timeout);
    }
}

struct Rowlock(rowlock_wait::Mutex<u64>, rowlock_wait::Condvar);

impl Condition for Rowlock {
    fn new() -> Rowlock {
        Rowlock(rowlock_wait::Mutex::new(0), rowlock_wait::Condvar::new())
    }

    fn change(&self, change: impl FnOnce(&mut u64)) {
        change(&mut self.0.lock());
    }

    fn notify(&self, all: bool) {
        if all { self.1.notify_all() } else { self.1.notify_one() }
    }

    fn wait_while(&self, holds: impl Fn(u64) -> bool, woken: impl Fn()) {
        let mut number = self.0.lock();
        while holds(*number) {
            number = self.1.wait(number);
            woken();
        }
    }

    fn wait_for(&self, timeout: Duration) {
        drop(self.1.wait_timeout(self.0.lock(), timeout));
    }
}

/// A rate per second, and the seconds of CPU time per second.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    cpu: f64,
}

/// The CPU time of this process in seconds.
fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Repeats something for the time of a measurement. It returns how many events it caused.
fn measure(mut work: impl FnMut() -> u64) -> Figures {
    let (start, before) = (Instant::now(), cpu_time());
    let mut events = 0;
    while start.elapsed() < *TIME.get().unwrap() {
        events += work();
    }
    let seconds = start.elapsed().as_secs_f64();
    Figures { rate: events as f64 / seconds, cpu: (cpu_time() - before) / seconds }
}

/// The number that tells other threads to end.
const END: u64 = u64::MAX;

fn end(condition: &impl Condition) {
    condition.change(|number| *number = END);
    condition.notify(true);
}

fn turns<C: Condition>(_threads: u64) -> Figures {
    let condition = C::new();
    let ours = |number: u64| number != END && number.is_multiple_of(2);
    let theirs = |number: u64| number != END && !number.is_multiple_of(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut is_over = false;
            while !is_over {
                condition.wait_while(ours, || ());
                condition.change(|number| {
                    is_over = *number == END;
                    *number = if is_over { END } else { *number + 1 };
                });
                condition.notify(false);
            }
        });
        let figures = measure(|| {
            condition.change(|number| *number += 1);
            condition.notify(false);
            condition.wait_while(theirs, || ());
            1
        });
        end(&condition);
        figures
    })
}

fn broadcast<C: Condition>(threads: u64) -> Figures {
    let (round, done) = (C::new(), C::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut current = 0;
                while current != END {
                    round.wait_while(|number| number == current, || ());
                    round.change(|number| current = *number);
                    done.change(|number| *number += 1);
                    done.notify(false);
                }
            });
        }
        let figures = measure(|| {
            done.change(|number| *number = 0);
            round.change(|number| *number += 1);
            round.notify(true);
            done.wait_while(|number| number < threads, || ());
            1
        });
        end(&round);
        figures
    })
}

fn poll<C: Condition>(threads: u64) -> Figures {
    let condition = C::new();
    let woken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            let waiter = || condition.wait_while(|number| number != END, || _ = woken.fetch_add(1, Relaxed));
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, waiter).unwrap();
        }
        thread::sleep(*TIME.get().unwrap());
        let figures = measure(|| {
            condition.wait_for(TIMEOUT);
            woken.swap(0, Relaxed)
        });
        end(&condition);
        figures
    })
}

fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let rounds = numbers.next().unwrap_or(7.0) as usize;
    TIME.set(Duration::from_secs_f64(numbers.next().unwrap_or(0.3))).unwrap();
    type Program = fn(u64) -> Figures;
    let cells: [(&str, u64, [Program; 3]); 5] = [
        ("turns", 2, [turns::<Standard>, turns::<ParkingLot>, turns::<Rowlock>]),
        ("broadcast", 8, [broadcast::<Standard>, broadcast::<ParkingLot>, broadcast::<Rowlock>]),
        ("poll", 10, [poll::<Standard>, poll::<ParkingLot>, poll::<Rowlock>]),
        ("poll", 100, [poll::<Standard>, poll::<ParkingLot>, poll::<Rowlock>]),
        ("poll", 1000, [poll::<Standard>, poll::<ParkingLot>, poll::<Rowlock>]),
    ];
    println!("medians of {rounds}: events per second (CPUs in use)");
    println!("{:9} {:>7} {:>20} {:>20} {:>20}", "program", "threads", "std", "parking_lot", "rowlock");
    for (name, threads, programs) in cells {
        let mut figures = [const { Vec::new() }; 3];
        for round in 0..rounds {
            for place in 0..3 {
                let arm = (round + place) % 3;
                figures[arm].push(programs[arm](threads));
            }
        }
        let cell =
            |all: &Vec<Figures>| format!("{:.0} ({:.2})", median(all, |one| one.rate), median(all, |one| one.cpu));
        let [standard, parking_lot, rowlock] = figures.each_ref().map(cell);
        println!("{name:9} {threads:>7} {standard:>20} {parking_lot:>20} {rowlock:>20}");
    }
}
