//! How long a fiber waits for its turn beside fibers that compute.
//!
//! ```text
//! cargo run --release -p rowlock-fiber --example latency                 # all of them
//! cargo run --release -p rowlock-fiber --example latency -- socket 4 2   # 4 loops on 2 workers
//! ```
//!
//! Every millisecond or so a time passes (`sleep`), data come from another kernel thread through a
//! socket (`socket`), or that thread sends a fiber (`mail`) and waits for its end. Prints the
//! delays until the fiber runs.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rowlock_fiber::{self as fiber, Config, Pollable, Runtime};

/// The number of events.
const EVENTS: usize = 1000;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    let kinds = arguments.first().map_or(vec!["sleep", "socket", "mail"], |kind| vec![kind.as_str()]);
    for workers in number(2).map_or(1..=2, |only| only..=only) {
        for loops in number(1).map_or(vec![1, 4], |only| vec![only]) {
            for kind in &kinds {
                let mut delays = measure(kind, loops, workers as u32)?;
                delays.sort_unstable();
                let at = |per_mille: usize| delays[delays.len() * per_mille / 1000];
                let (p50, p99, most) = (at(500), at(990), delays[delays.len() - 1]);
                writeln!(
                    io::stdout(),
                    "{kind}, {loops} loops, {workers} workers: p50 {p50:?} p99 {p99:?} max {most:?}"
                )?;
            }
        }
    }
    Ok(())
}

/// The delays beside this many loops.
fn measure(kind: &str, loops: usize, workers: u32) -> io::Result<Vec<Duration>> {
    let runtime = Runtime::new(Config { preemptible: true, workers, ..Config::default() });
    let delays = runtime.run(|| {
        let over = Arc::new(AtomicBool::new(false));
        let computing: Vec<_> = (0..loops)
            .map(|_| {
                let over = Arc::clone(&over);
                fiber::spawn(move || while !over.load(Relaxed) {})
            })
            .collect();
        let delays = match kind {
            "sleep" => sleeps(),
            "mail" => mails(),
            _ => bytes()?,
        };
        over.store(true, Relaxed);
        computing.into_iter().for_each(|fiber| drop(fiber.join()));
        Ok(delays)
    });
    delays.map_err(io::Error::other)?
}

fn sleeps() -> Vec<Duration> {
    let sleep = |_| {
        let until = Instant::now() + Duration::from_millis(1);
        fiber::sleep_until(until);
        until.elapsed()
    };
    (0..EVENTS).map(sleep).collect()
}

/// The interval between events: not in step with ticks.
fn pause(event: usize) {
    std::thread::sleep(Duration::from_micros(700 + (event * 37 % 600) as u64));
}

fn bytes() -> io::Result<Vec<Duration>> {
    let beginning = Instant::now();
    let (mut sends, receives) = UnixStream::pair()?;
    let sender = std::thread::spawn(move || {
        (0..EVENTS).try_for_each(|event| {
            pause(event);
            sends.write_all(&beginning.elapsed().as_nanos().to_ne_bytes())?;
            sends.read_exact(&mut [0])
        })
    });
    let mut receives = Pollable::new(receives)?;
    let receive = |_| {
        let mut sent = [0; 16];
        receives.read_exact(&mut sent)?;
        let delay = beginning.elapsed() - Duration::from_nanos(u128::from_ne_bytes(sent) as u64);
        receives.write_all(&[0])?;
        Ok(delay)
    };
    let delays: io::Result<Vec<_>> = (0..EVENTS).map(receive).collect();
    sender.join().map_err(|_| io::Error::other("the sender panicked"))??;
    delays
}

fn mails() -> Vec<Duration> {
    let (sends, receives) = fiber::channel(EVENTS);
    let remote = fiber::remote();
    let sender = std::thread::spawn(move || {
        for event in 0..EVENTS {
            pause(event);
            let (sends, sent) = (sends.clone(), Instant::now());
            drop(remote.spawn(move || sends.send(sent.elapsed())).map(fiber::JoinHandle::join));
        }
    });
    let delays = std::iter::from_fn(|| receives.recv().ok()).collect();
    drop(sender.join());
    delays
}
