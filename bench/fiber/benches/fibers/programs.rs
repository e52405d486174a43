//! The measured programs, for all systems in Rust. The peers in other languages implement the same
//! programs.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// The data that the study's threads edit.
pub(crate) type Words = [u64; 16];

/// How a system is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The number of kernel threads.
    pub(crate) workers: usize,
    /// Whether threads may be interrupted anywhere, if the system can choose.
    pub(crate) preemptible: bool,
    pub(crate) program: Program,
}

/// A system of threads, with two locks that guard some words each.
pub(crate) trait Threads {
    type Handle: Send + 'static;
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    /// Runs a function on a thread of this kind until it ends.
    fn run(setup: Setup, main: impl FnOnce() + Send + 'static);

    fn spawn(function: impl FnOnce() + Send + 'static) -> Self::Handle;

    fn join(handle: Self::Handle);

    fn yield_now();

    /// Edits the words that one of the locks guards.
    fn edit(which: usize, edit: impl FnOnce(&mut Words));

    /// The same with a lock that serves all kinds of threads.
    fn edit_shared(edit: impl FnOnce(&mut Words)) {
        Self::edit(1, edit);
    }

    /// One of two threads that take turns, with a condition variable.
    fn take_turns(me: bool, times: usize);

    /// A channel for one message, or for any number if the system has no other.
    fn channel() -> (Self::Sender, Self::Receiver);

    /// Returns whether the receiver still exists.
    fn send(sender: &Self::Sender, message: usize) -> bool;

    /// Returns `None` if there are no senders any more.
    fn receive(receiver: &Self::Receiver) -> Option<usize>;

    /// Accepts so many connections, and [answers](answer) each by a thread until it ends.
    fn serve(listener: TcpListener, connections: usize);
}

/// A program to measure in its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// The study's program: a first run, and `again` more.
    Study { threads: usize, again: usize },
    /// Each operation separately, repeated.
    Operations { times: usize },
    /// A chain of threads, each of which passes on the numbers that its prime does not divide.
    Sieve { primes: usize, again: usize },
    /// A server on the socket that is its standard input. `echo.rs` has the clients.
    Echo { connections: usize },
    /// Threads that wait for a lock: their memory, and the time until all have started.
    Blocked { threads: usize },
    /// The memory of threads that have not run yet.
    Unstarted { threads: usize },
}

impl Program {
    /// As arguments of a program.
    pub(crate) fn words(self) -> Vec<String> {
        let (name, numbers) = match self {
            Program::Study { threads, again } => ("study", vec![threads, again]),
            Program::Operations { times } => ("operations", vec![times]),
            Program::Sieve { primes, again } => ("sieve", vec![primes, again]),
            Program::Echo { connections } => ("echo", vec![connections]),
            Program::Blocked { threads } => ("blocked", vec![threads]),
            Program::Unstarted { threads } => ("unstarted", vec![threads]),
        };
        std::iter::once(name.to_owned()).chain(numbers.iter().map(usize::to_string)).collect()
    }

    /// From the arguments of a program.
    pub(crate) fn read(words: &[String]) -> anyhow::Result<Program> {
        let [name, numbers @ ..] = words else { bail!("no program is named") };
        let numbers: Vec<usize> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        Ok(match (name.as_str(), numbers.as_slice()) {
            ("study", &[threads, again]) => Program::Study { threads, again },
            ("operations", &[times]) => Program::Operations { times },
            ("sieve", &[primes, again]) => Program::Sieve { primes, again },
            ("echo", &[connections]) => Program::Echo { connections },
            ("blocked", &[threads]) => Program::Blocked { threads },
            ("unstarted", &[threads]) => Program::Unstarted { threads },
            _ => bail!("there is no program `{}`", words.join(" ")),
        })
    }

    /// Measures, and prints the results, one name and number per line.
    pub(crate) fn carry_out<S: Threads>(self, workers: usize, preemptible: bool) -> anyhow::Result<()> {
        let setup = Setup { workers, preemptible, program: self };
        let began = Instant::now();
        let (sender, results) = std::sync::mpsc::channel();
        S::run(setup, move || {
            let results = match self {
                Program::Study { threads, again } => study::<S>(began, threads, again),
                Program::Operations { times } => Ok(operations::<S>(times)),
                Program::Sieve { primes, again } => sieve::<S>(primes, again),
                Program::Echo { connections } => {
                    listener().map(|listener| S::serve(listener, connections)).map(|()| Vec::new())
                }
                Program::Blocked { threads } => blocked::<S>(threads),
                Program::Unstarted { threads } => unstarted::<S>(threads),
            };
            let _ = sender.send(results);
        });
        for (name, value) in results.recv().context("it has not completed")?? {
            println!("{name} {value:.3}");
        }
        Ok(())
    }
}

/// Results, by name.
pub(crate) type Results = Vec<(&'static str, f64)>;

/// The program of the study (Patel, Hidalgo and Ismail, "Thread Scheduling"): half of the threads
/// take one lock and edit its data, the others use the other lock. Every sixteenth thread waits for
/// the one before it, and the creating thread waits for the others. In microseconds. The first run
/// includes the start of the runtime.
fn study<S: Threads>(began: Instant, threads: usize, again: usize) -> anyhow::Result<Results> {
    once::<S>(threads)?;
    let mut results = vec![("cold", began.elapsed().as_secs_f64() * 1e6)];
    for _ in 0..again {
        results.push(("warm", once::<S>(threads)?.as_secs_f64() * 1e6));
    }
    Ok(results)
}

fn once<S: Threads>(threads: usize) -> anyhow::Result<Duration> {
    (0..2).for_each(|which| S::edit(which, |words| words.fill(0)));
    let began = Instant::now();
    let mut handles: Vec<Option<S::Handle>> = Vec::with_capacity(threads);
    for number in 0..threads {
        let before = if number % 16 == 15 { handles[number - 1].take() } else { None };
        handles.push(Some(S::spawn(move || {
            S::edit(number % 2, |words| words.iter_mut().for_each(|word| *word += number as u64));
            if let Some(before) = before {
                S::join(before);
            }
        })));
    }
    handles.into_iter().flatten().for_each(S::join);
    let took = began.elapsed();
    for which in 0..2 {
        let sum: u64 = (0..threads as u64).skip(which).step_by(2).sum();
        let mut words = [0; 16];
        S::edit(which, |they| words = *they);
        ensure!(words == [sum; 16], "wrong sums with {threads} threads: {words:?} for {sum}");
    }
    Ok(took)
}

/// The measured operations, with the heads of their columns.
pub(crate) const OPERATIONS: [(&str, &str); 7] = [
    ("create and join", "create-join"),
    ("create 1000, join 1000", "create-many"),
    ("yield", "yield"),
    ("lock and unlock", "lock-unlock"),
    ("shared with threads", "lock-shared"),
    ("hand-off", "condvar"),
    ("by a channel", "channel"),
];

/// Each operation is measured this often, and the median counts.
const SAMPLES: usize = 7;

/// Nanoseconds per operation.
pub(crate) fn sample(name: &'static str, times: usize, mut run: impl FnMut()) -> (&'static str, f64) {
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed().as_secs_f64() * 1e9 / times as f64
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    (name, samples[SAMPLES / 2])
}

fn operations<S: Threads>(times: usize) -> Results {
    let two = |function: fn(bool, usize)| {
        let threads = [false, true].map(|me| S::spawn(move || function(me, times)));
        threads.into_iter().for_each(S::join);
    };
    let yields = |_, times| (0..times).for_each(|_| S::yield_now());
    vec![
        sample("create-join", times, || (0..times).for_each(|_| S::join(S::spawn(|| ())))),
        sample("create-many", times.div_ceil(1000) * 1000, || {
            for _ in 0..times.div_ceil(1000) {
                let handles: Vec<_> = (0..1000).map(|_| S::spawn(|| ())).collect();
                handles.into_iter().for_each(S::join);
            }
        }),
        sample("yield", 2 * times, || two(yields)),
        sample("lock-unlock", 10 * times, || (0..10 * times).for_each(|_| S::edit(1, |words| words[0] += 1))),
        sample("lock-shared", 10 * times, || (0..10 * times).for_each(|_| S::edit_shared(|words| words[0] += 1))),
        sample("condvar", 2 * times, || two(S::take_turns)),
        sample("channel", 2 * times, || pass::<S>(times)),
    ]
}

/// Sends messages to another thread, each after the answer to the last one.
fn pass<S: Threads>(times: usize) {
    let ((messages, incoming), (answers, back)) = (S::channel(), S::channel());
    let answer = move || while S::receive(&incoming).is_some_and(|message| S::send(&answers, message)) {};
    let other = S::spawn(answer);
    for number in 0..times {
        S::send(&messages, number);
        S::receive(&back);
    }
    drop(messages);
    S::join(other);
}

/// The greatest number that the sieve examines: the 400th prime is 2741.
pub(crate) fn last_number(primes: usize) -> usize {
    8 * primes
}

/// Milliseconds until this many primes are found, without the end of the threads.
fn sieve<S: Threads>(primes: usize, again: usize) -> anyhow::Result<Results> {
    let once = || -> anyhow::Result<_> {
        let began = Instant::now();
        let (sender, mut numbers) = S::channel();
        let generate = move || _ = (2..=last_number(primes)).all(|number| S::send(&sender, number));
        let (mut threads, mut last) = (vec![S::spawn(generate)], 0);
        for _ in 0..primes {
            let prime = S::receive(&numbers).context("there are too few numbers")?;
            let (sender, filtered) = S::channel();
            let incoming = std::mem::replace(&mut numbers, filtered);
            threads.push(S::spawn(move || {
                while let Some(number) = S::receive(&incoming) {
                    if !number.is_multiple_of(prime) && !S::send(&sender, number) {
                        break;
                    }
                }
            }));
            last = prime;
        }
        let took = began.elapsed();
        drop(numbers);
        threads.into_iter().for_each(S::join);
        ensure!(primes != 400 || last == 2741, "the 400th prime is not {last}");
        Ok(("found", took.as_secs_f64() * 1e3))
    };
    (0..=again).map(|_| once()).collect()
}

/// The socket that is the standard input.
pub(crate) fn listener() -> anyhow::Result<TcpListener> {
    Ok(TcpListener::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

/// Sends back what comes over a connection.
pub(crate) fn answer(mut stream: impl Read + Write) {
    let mut bytes = [0; 256];
    // The clients reset their connections in the end.
    while let Ok(length @ 1..) = stream.read(&mut bytes)
        && stream.write_all(&bytes[..length]).is_ok()
    {}
}

fn blocked<S: Threads>(threads: usize) -> anyhow::Result<Results> {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let mut handles: Vec<Option<S::Handle>> = (0..threads).map(|_| None).collect();
    let before = Memory::now()?;
    let (began, mut took) = (Instant::now(), Duration::ZERO);
    let mut after = Err(anyhow::anyhow!("it was not measured"));
    S::edit(0, |_| {
        for handle in &mut handles {
            *handle = Some(S::spawn(|| {
                STARTED.fetch_add(1, Relaxed);
                S::edit(0, |words| words[0] += 1);
            }));
        }
        while STARTED.load(Relaxed) < threads {
            S::yield_now();
        }
        took = began.elapsed();
        // With several CPUs, the last thread may not wait yet.
        std::thread::sleep(Duration::from_millis(50));
        after = Memory::now();
    });
    handles.into_iter().flatten().for_each(S::join);
    let mut results = after?.since(before, threads);
    results.push(("started", took.as_secs_f64() * 1e3));
    Ok(results)
}

fn unstarted<S: Threads>(threads: usize) -> anyhow::Result<Results> {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let mut handles: Vec<Option<S::Handle>> = (0..threads).map(|_| None).collect();
    let before = Memory::now()?;
    for handle in &mut handles {
        *handle = Some(S::spawn(|| _ = STARTED.fetch_add(1, Relaxed)));
    }
    let after = Memory::now()?;
    let started = STARTED.load(Relaxed);
    handles.into_iter().flatten().for_each(S::join);
    ensure!(started == 0, "{started} have already run");
    Ok(after.since(before, threads))
}

/// The memory in use at a moment, in bytes.
pub(crate) struct Memory {
    resident: f64,
    address_space: f64,
    /// For the whole machine, including the kernel's own memory.
    free: f64,
}

impl Memory {
    pub(crate) fn now() -> anyhow::Result<Memory> {
        let kilobytes = |file: &str, key: &str| -> anyhow::Result<f64> {
            let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next()).context("the memory is not reported")?;
            Ok(number.parse::<f64>()? * 1024.0)
        };
        Ok(Memory {
            free: kilobytes("/proc/meminfo", "MemFree:")?,
            resident: kilobytes("/proc/self/status", "VmRSS:")?,
            address_space: kilobytes("/proc/self/status", "VmSize:")?,
        })
    }

    pub(crate) fn since(&self, before: Memory, threads: usize) -> Results {
        let each = |bytes: f64| bytes / threads as f64;
        vec![
            ("resident", each(self.resident - before.resident)),
            ("virtual", each(self.address_space - before.address_space)),
            ("machine", each(before.free - self.free)),
        ]
    }
}
