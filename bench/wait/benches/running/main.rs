//! Compares ways to see whether another thread is on a CPU: `cargo bench -p rowlock-bench-wait
//! --bench running [-- ROUNDS]`. It needs root and tracefs (`mount -t tracefs none
//! /sys/kernel/tracing`), since the kernel's events of context switches say what is true.
//!
//! One thread, on CPU 0, looks at others again and again, by each method in turn. The output goes
//! into docs/results/waiting.md.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints its results, and a panic fails it")]

mod costs;
mod methods;
mod subjects;

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use testing::switches::{Recording, Switches, Way};

use crate::methods::Method;
use crate::subjects::Subjects;

/// The time of the clock that the trace has as well.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Computes until this much time has passed.
fn spin_for(time: Duration) {
    let start = now();
    while now() - start < time {
        std::hint::spin_loop();
    }
}

/// A look at a thread.
struct Look {
    subject: usize,
    method: Method,
    from: Duration,
    until: Duration,
    /// Whether it runs.
    answer: Option<bool>,
}

/// How often a method gave each answer while the thread did not change.
#[derive(Clone, Copy, Default)]
struct Answers {
    running: usize,
    not_running: usize,
    unknown: usize,
}

impl Answers {
    fn count(&mut self, answer: Option<bool>) {
        match answer {
            Some(true) => self.running += 1,
            Some(false) => self.not_running += 1,
            None => self.unknown += 1,
        }
    }

    fn cell(self) -> String {
        format!("{} / {} / {}", self.running, self.not_running, self.unknown)
    }
}

#[derive(Clone, Copy, Default)]
struct Row {
    on: Answers,
    off: Answers,
    changed: Answers,
}

fn print(title: &str, rows: &BTreeMap<Method, Row>) {
    println!("\n{title}\n\n| method | on a CPU throughout | off throughout | changed meanwhile |\n|---|---|---|---|");
    for (method, row) in rows {
        println!("| {method} | {} | {} | {} |", row.on.cell(), row.off.cell(), row.changed.cell());
    }
}

fn report(subjects: &Subjects, looks: &[Look], switches: &Switches) {
    let mut all = BTreeMap::<Method, Row>::new();
    for (number, subject) in subjects.all.iter().enumerate() {
        let mut rows = BTreeMap::<Method, Row>::new();
        for look in looks.iter().filter(|look| look.subject == number) {
            let truth = switches.was_on_cpu(subject.thread, look.from, look.until);
            for rows in [&mut rows, &mut all] {
                let row = rows.entry(look.method).or_default();
                let answers = match truth {
                    Some(true) => &mut row.on,
                    Some(false) => &mut row.off,
                    None => &mut row.changed,
                };
                answers.count(look.answer);
            }
        }
        print(&format!("{}: said running / not running / unknown", subject.name), &rows);
    }
    print("All", &all);
}

/// Looks at the threads, and compares what it sees with a recording.
fn compare(rounds: u64, subjects: &Subjects, recording: Recording, own: u32) {
    let mut looks = Vec::new();
    let before = sys::process::thread_usage();
    let first = now();
    for round in 0..rounds {
        for (number, subject) in subjects.all.iter().enumerate() {
            for method in Method::all() {
                spin_for(Duration::from_micros(3 + round * 7 % 5));
                let from = now();
                let answer = method.ask(subject);
                let until = now();
                looks.push(Look { subject: number, method, from, until, answer });
            }
        }
        std::thread::sleep(Duration::from_micros(round * 37 % 300));
    }
    let (used, last) = (sys::process::thread_usage().since(before), now());
    let switches = recording.finish().unwrap();
    report(subjects, &looks, &switches);
    let own = switches.of(own).iter().filter(|switch| first <= switch.at && switch.at <= last);
    let preemptions = own.filter(|switch| switch.way == Way::FromReady).count();
    println!("\nOwn preemptions: {preemptions} in the trace, {} by getrusage.", used.involuntary_switches);
}

fn main() {
    if std::env::args().any(|argument| argument == subjects::COMPUTE) {
        loop {
            std::hint::black_box(0);
        }
    }
    let rounds: u64 = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(2_000);
    subjects::bind(&[0]);
    let subjects = Subjects::start();
    let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
    let threads: Vec<u32> = subjects.all.iter().map(|subject| subject.thread).chain([own]).collect();
    let recording = Recording::start(&threads);
    subjects.go();
    std::thread::sleep(Duration::from_millis(50));
    match recording {
        Ok(recording) => compare(rounds, &subjects, recording, own),
        Err(why) => println!("Not compared with the kernel's events: {why}"),
    }
    costs::print(&subjects);
}
