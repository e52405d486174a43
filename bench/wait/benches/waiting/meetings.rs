//! A run with a barrier: threads alternate between working and waiting until the time is over.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::waiting::WaitingRule;
use rowlock_wait::Barrier;

use crate::arms::Arm;
use crate::order::{Error, Meetings, waiting};
use crate::pthread;
use crate::runs::Outcome;
use crate::work::Worker;

/// Rounds before the clock starts.
const WARMING_UP: u32 = 3;

/// Carries out the order with an arm.
pub(crate) fn run(arm: Arm, order: &Meetings) -> Result<Outcome, Error> {
    let threads = order.threads;
    match arm {
        Arm::Pthread => {
            let barrier = pthread::Barrier::new(threads).ok_or(Error::Refused("pthread_barrier_init"))?;
            Ok(meet(order, |_| || barrier.wait()))
        }
        Arm::Standard => {
            let barrier = std::sync::Barrier::new(threads as usize);
            Ok(meet(order, |_| {
                || {
                    barrier.wait();
                }
            }))
        }
        Arm::Hurdles => {
            // Its clones share one barrier, and each thread needs its own clone.
            let barrier = std::sync::Mutex::new(hurdles::Barrier::new(threads as usize));
            Ok(meet(order, |_| {
                let mut barrier = barrier.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                move || {
                    barrier.wait();
                }
            }))
        }
        Arm::Rule(rule) => Ok(meet_at(rule, order)),
        Arm::Stack => {
            // Threads inherit the affinity of this one.
            let _pinned = sys::cpus::pin(sys::cpus::current())?;
            Ok(meet_at(WaitingRule::AlwaysYield, order))
        }
        Arm::ParkingLot | Arm::Peer(..) => Err(Error::Refused("this arm has no barrier here")),
    }
}

/// Waits at a barrier of rowlock, and adds its statistics.
fn meet_at(rule: WaitingRule, order: &Meetings) -> Outcome {
    let barrier = Barrier::with(order.threads, waiting(rule, order.costs));
    let outcome = meet(order, |number| {
        let mut party = barrier.party(number);
        move || {
            party.wait();
        }
    });
    outcome.with(&barrier.statistics())
}

/// Lets the threads work and wait. `member` creates the wait function of a thread from its number.
fn meet<W: FnMut()>(order: &Meetings, member: impl Fn(u32) -> W + Sync) -> Outcome {
    let last = AtomicU64::new(u64::MAX);
    let attend = |number: u32| {
        let mut wait = member(number);
        let mut worker = Worker::new(number);
        (0..WARMING_UP).for_each(|_| wait());
        let (start, duration) = (Instant::now(), Duration::from_secs_f64(order.seconds));
        for episode in 0.. {
            worker.work(order.iterations);
            // The first thread announces the last round before it arrives there itself, so every
            // thread sees this when it leaves that round.
            if number == 0 && last.load(Relaxed) == u64::MAX && start.elapsed() >= duration {
                last.store(episode, Relaxed);
            }
            wait();
            if episode >= last.load(Relaxed) {
                break;
            }
        }
        start.elapsed()
    };
    let took = std::thread::scope(|scope| {
        for number in 1..order.threads {
            scope.spawn(move || attend(number));
        }
        attend(0)
    });
    Outcome { count: last.load(Relaxed) + 1, seconds: took.as_secs_f64(), ..Outcome::default() }
}
