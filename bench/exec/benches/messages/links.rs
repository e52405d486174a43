//! Links between two threads on two CPUs.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Instant;

use anyhow::ensure;
use message::{Communicator, Element, Waiting, Window, threads};
use sys::scheduling::{Thread, affinity, set_affinity};
use wait::shared;

use crate::print;

/// The words of 1 MiB.
const LONG: usize = (1 << 20) / size_of::<u64>();
const SHORT: [u8; 10] = [1; 10];

/// The lines of a ring.
const RING: usize = 1024;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 3]);

/// A bare ring: the first word of each line is the number of its message, and the others are its
/// content. No ring ever is full here.
struct Ring(Vec<Line>);

impl Ring {
    fn new() -> Ring {
        Ring((0..RING).map(|_| Line::default()).collect())
    }

    fn write(&self, number: u64, content: &[u8; SHORT.len()]) {
        let Line([first, words @ ..]) = &self.0[number as usize % RING];
        let mut padded = [0; 16];
        padded[..SHORT.len()].copy_from_slice(content);
        for (word, bytes) in words.iter().zip(padded.as_chunks().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        first.store(number, Release);
    }

    fn read(&self, number: u64, content: &mut [u8; SHORT.len()]) {
        let Line([first, words @ ..]) = &self.0[number as usize % RING];
        while first.load(Acquire) != number {
            spin_loop();
        }
        let mut padded = [0; 16];
        for (word, bytes) in words.iter().zip(padded.as_chunks_mut().0) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        content.copy_from_slice(&padded[..SHORT.len()]);
    }
}

/// A thread's ends of all links.
struct Ends<'a> {
    is_first: bool,
    rings: &'a [Ring; 2],
    world: &'a Communicator,
    window: Window<'a>,
    party: shared::Party<'a>,
    /// The number of messages that each ring has carried.
    count: u64,
    long: Vec<u64>,
    received: Vec<u64>,
}

impl Ends<'_> {
    /// 10 bytes there and back through bare rings.
    fn ring(&mut self) -> anyhow::Result<()> {
        self.count += 1;
        let [there, back] = self.rings;
        let mut received = [0; SHORT.len()];
        if self.is_first {
            there.write(self.count, black_box(&SHORT));
            back.read(self.count, &mut received);
        } else {
            there.read(self.count, &mut received);
            back.write(self.count, black_box(&SHORT));
        }
        black_box(received);
        Ok(())
    }

    fn short(&mut self) -> anyhow::Result<()> {
        let mut received = [0; SHORT.len()];
        self.there_and_back(&SHORT, &mut received)
    }

    fn long(&mut self) -> anyhow::Result<()> {
        let (long, mut received) = (std::mem::take(&mut self.long), std::mem::take(&mut self.received));
        let result = self.there_and_back(&long, &mut received);
        (self.long, self.received) = (long, received);
        result
    }

    fn there_and_back<T: Element>(&self, sent: &[T], received: &mut [T]) -> anyhow::Result<()> {
        if self.is_first {
            self.world.send(1, 0, sent)?;
            self.world.receive(1, 0, received)?;
        } else {
            self.world.receive(0, 0, received)?;
            self.world.send(0, 0, sent)?;
        }
        Ok(())
    }

    /// Each reads from memory that the other one has registered, one after the other.
    fn get(&mut self) -> anyhow::Result<()> {
        let other = u32::from(self.is_first);
        if !self.is_first {
            self.world.receive(other, 0, &mut [0_u8])?;
        }
        self.window.get(other, 0, &mut self.received)?;
        self.world.send(other, 0, &[0_u8])?;
        if self.is_first {
            self.world.receive(other, 0, &mut [0_u8])?;
        }
        Ok(())
    }

    /// Two copies in this thread: there and back.
    fn copy(&mut self) -> anyhow::Result<()> {
        for _ in 0..2 {
            self.received.copy_from_slice(black_box(&self.long));
            black_box(&mut self.received);
        }
        Ok(())
    }

    fn shared_barrier(&mut self) -> anyhow::Result<()> {
        self.party.wait()?;
        Ok(())
    }

    fn barrier(&mut self) -> anyhow::Result<()> {
        Ok(self.world.barrier()?)
    }
}

/// A link, once used.
type Link = fn(&mut Ends<'_>) -> anyhow::Result<()>;

/// All links, and how often each one is used in a batch of a second.
const LINKS: [(&str, Link, u32); 7] = [
    ("10 bytes by bare rings, there and back", |ends| ends.ring(), 400_000),
    ("10 bytes, there and back", |ends| ends.short(), 400_000),
    ("two copies of 1 MiB", |ends| ends.copy(), 2_000),
    ("1 MiB, there and back", |ends| ends.long(), 2_000),
    ("1 MiB from registered memory, there and back", |ends| ends.get(), 2_000),
    ("barrier of wait::shared", |ends| ends.shared_barrier(), 400_000),
    ("barrier of message", |ends| ends.barrier(), 400_000),
];

/// The times of one use of each link, in seconds.
type Times = [f64; LINKS.len()];

/// Measures all links, in units of their peers.
pub(crate) fn measure(batches: usize, seconds: f64) -> anyhow::Result<()> {
    let cpus = affinity(Thread::current())?;
    ensure!(cpus.len() >= 2, "two CPUs are needed");
    let waiting = Waiting::default();
    let barrier = shared::Barrier::nameless(2, waiting)?;
    let rings = [(); 2].map(|()| Ring::new());
    let (barrier, rings) = (&barrier, &rings);
    let run = |world: &Communicator, cpu: u32| -> anyhow::Result<Vec<Times>> {
        set_affinity(Thread::current(), &[cpu])?;
        let mut ends = Ends {
            is_first: world.rank() == 0,
            rings,
            party: barrier.join()?,
            window: world.window(LONG)?,
            world,
            count: 0,
            long: vec![1; LONG],
            received: vec![0; LONG],
        };
        (0..batches).map(|_| batch(&mut ends, seconds)).collect()
    };
    // The other thread may wait for one that fails, so that ends the process.
    let run = |world: &Communicator, cpu| {
        run(world, cpu).unwrap_or_else(|why| {
            eprintln!("error: {why:#}");
            std::process::exit(1)
        })
    };
    let found = thread::scope(|scope| {
        let worlds = threads(2, waiting)?.into_iter().zip(cpus);
        let threads: Vec<_> = worlds.map(|(world, cpu)| scope.spawn(move || run(&world, cpu))).collect();
        let found: Result<Vec<_>, _> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        anyhow::Ok(found.map_err(|_| anyhow::anyhow!("a thread has panicked"))?.swap_remove(0))
    })?;
    for (link, (name, ..)) in LINKS.iter().enumerate() {
        let mut times: Vec<f64> = found.iter().map(|times| times[link] * 1e9).collect();
        times.sort_by(f64::total_cmp);
        println!("{name}: {:.0} ns", times[times.len() / 2]);
    }
    let ratio = |what: &str, of: usize, unit: usize| {
        print(what, 1, "message", found.iter().map(|times| times[of] / times[unit]).collect());
    };
    ratio("10 bytes, of a bare ring", 1, 0);
    ratio("rate of 1 MiB, of memcpy", 2, 3);
    ratio("rate of get, of memcpy", 2, 4);
    ratio("barrier, of shared", 6, 5);
    Ok(())
}

/// Uses each link for its share of so many seconds.
fn batch(ends: &mut Ends<'_>, seconds: f64) -> anyhow::Result<Times> {
    let mut found = Times::default();
    for ((_, link, times), found) in LINKS.into_iter().zip(&mut found) {
        let times = (f64::from(times) * seconds) as u32 + 1;
        ends.party.wait()?;
        let begun = Instant::now();
        for _ in 0..times {
            link(ends)?;
        }
        *found = begun.elapsed().as_secs_f64() / f64::from(times);
    }
    Ok(found)
}
