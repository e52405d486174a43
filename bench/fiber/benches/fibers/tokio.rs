//! Tasks of tokio, on a runtime of the current thread. They are not threads: a function that waits
//! is another kind of function. So they have programs of their own.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, mpsc};
use tokio::task::{spawn, yield_now};

use crate::programs::{Memory, Program, Results, Words, last_number, listener, sample};

static LOCKS: [Mutex<Words>; 2] = [const { Mutex::const_new([0; 16]) }; 2];

/// Runs a program in this process and prints the results.
pub(crate) fn carry_out(program: Program) -> anyhow::Result<()> {
    let began = Instant::now();
    let tokio = Builder::new_current_thread().enable_io().build()?;
    let results = match program {
        Program::Study { threads, again } => {
            tokio.block_on(once(threads))?;
            let mut results = vec![("cold", began.elapsed().as_secs_f64() * 1e6)];
            for _ in 0..again {
                results.push(("warm", tokio.block_on(once(threads))?.as_secs_f64() * 1e6));
            }
            results
        }
        Program::Operations { times } => operations(&tokio, times),
        Program::Sieve { primes, again } => {
            let once = |_| Ok(("found", tokio.block_on(sieve(primes))?.as_secs_f64() * 1e3));
            (0..=again).map(once).collect::<anyhow::Result<_>>()?
        }
        Program::Echo { connections } => tokio.block_on(serve(connections))?,
        Program::Blocked { threads } => tokio.block_on(blocked(threads))?,
        Program::Unstarted { .. } => bail!("its tasks may start at any time"),
    };
    results.iter().for_each(|(name, value)| println!("{name} {value:.3}"));
    Ok(())
}

async fn once(threads: usize) -> anyhow::Result<Duration> {
    for lock in &LOCKS {
        lock.lock().await.fill(0);
    }
    let began = Instant::now();
    let mut handles: Vec<Option<tokio::task::JoinHandle<()>>> = Vec::with_capacity(threads);
    for number in 0..threads {
        let before = if number % 16 == 15 { handles[number - 1].take() } else { None };
        handles.push(Some(spawn(async move {
            LOCKS[number % 2].lock().await.iter_mut().for_each(|word| *word += number as u64);
            if let Some(before) = before {
                let _ = before.await;
            }
        })));
    }
    for handle in handles.into_iter().flatten() {
        handle.await?;
    }
    let took = began.elapsed();
    for (which, lock) in LOCKS.iter().enumerate() {
        let sum: u64 = (0..threads as u64).skip(which).step_by(2).sum();
        ensure!(*lock.lock().await == [sum; 16], "wrong sums with {threads} tasks");
    }
    Ok(took)
}

fn operations(tokio: &Runtime, times: usize) -> Results {
    let create_join = async || {
        for _ in 0..times {
            let _ = spawn(async {}).await;
        }
    };
    let create_many = async || {
        for _ in 0..times.div_ceil(1000) {
            let handles: Vec<_> = (0..1000).map(|_| spawn(async {})).collect();
            for handle in handles {
                let _ = handle.await;
            }
        }
    };
    let lock = async || {
        for _ in 0..10 * times {
            LOCKS[1].lock().await[0] += 1;
        }
    };
    vec![
        sample("create-join", times, || tokio.block_on(create_join())),
        sample("create-many", times.div_ceil(1000) * 1000, || tokio.block_on(create_many())),
        sample("yield", 2 * times, || {
            tokio.block_on(async {
                for task in [spawn(yields(times)), spawn(yields(times))] {
                    let _ = task.await;
                }
            });
        }),
        sample("lock-unlock", 10 * times, || tokio.block_on(lock())),
        sample("channel", 2 * times, || tokio.block_on(pass(times))),
    ]
}

async fn yields(times: usize) {
    for _ in 0..times {
        yield_now().await;
    }
}

async fn pass(times: usize) {
    let ((messages, mut incoming), (answers, mut back)) = (mpsc::channel(1), mpsc::channel(1));
    let other = spawn(async move {
        while let Some(message) = incoming.recv().await {
            let _ = answers.send(message).await;
        }
    });
    for number in 0..times {
        let _ = messages.send(number).await;
        back.recv().await;
    }
    drop(messages);
    let _ = other.await;
}

async fn sieve(primes: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let (sender, mut numbers) = mpsc::channel(1);
    let generate = async move {
        for number in 2..=last_number(primes) {
            if sender.send(number).await.is_err() {
                break;
            }
        }
    };
    let mut tasks = vec![spawn(generate)];
    for _ in 0..primes {
        let prime = numbers.recv().await.context("there are too few numbers")?;
        let (sender, filtered) = mpsc::channel(1);
        let mut incoming = std::mem::replace(&mut numbers, filtered);
        tasks.push(spawn(async move {
            while let Some(number) = incoming.recv().await {
                if !number.is_multiple_of(prime) && sender.send(number).await.is_err() {
                    break;
                }
            }
        }));
    }
    let took = began.elapsed();
    drop(numbers);
    for task in tasks {
        task.await?;
    }
    Ok(took)
}

async fn serve(connections: usize) -> anyhow::Result<Results> {
    let listener = listener()?;
    listener.set_nonblocking(true)?;
    let (listener, mut tasks) = (TcpListener::from_std(listener)?, Vec::new());
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().await?;
        tasks.push(spawn(async move {
            let mut bytes = [0; 256];
            while let Ok(length @ 1..) = stream.read(&mut bytes).await
                && stream.write_all(&bytes[..length]).await.is_ok()
            {}
        }));
    }
    for task in tasks {
        task.await?;
    }
    Ok(Vec::new())
}

async fn blocked(threads: usize) -> anyhow::Result<Results> {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let mut handles = Vec::with_capacity(threads);
    let before = Memory::now()?;
    let (held, began) = (LOCKS[0].lock().await, Instant::now());
    for _ in 0..threads {
        handles.push(spawn(async {
            STARTED.fetch_add(1, Relaxed);
            LOCKS[0].lock().await[0] += 1;
        }));
    }
    while STARTED.load(Relaxed) < threads {
        yield_now().await;
    }
    let took = began.elapsed();
    let mut results = Memory::now()?.since(before, threads);
    drop(held);
    for handle in handles {
        handle.await?;
    }
    results.push(("started", took.as_secs_f64() * 1e3));
    Ok(results)
}
