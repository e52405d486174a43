//! A loom model of claims: agents that switch two jobs, are late, are stopped, and die.
//!
//! Two jobs take turns: job 0 runs in even turns and job 1 in odd ones. A signal to a job is a
//! store to its word, so a late one can come after those of a later switch.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::SeqCst;
use loom::thread;

use super::{Answer, Claims, Wanted, Word};

impl Word for AtomicU64 {
    fn read(&self) -> u64 {
        self.load(SeqCst)
    }

    fn write(&self, value: u64) {
        self.store(value, SeqCst);
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

const STOPPED: u64 = 0;
const RUNS: u64 = 1;

#[derive(Default)]
struct Machine {
    claim: AtomicU64,
    switched: AtomicU64,
    /// The turn by the clock and the table.
    turn: AtomicU64,
    jobs: [AtomicU64; 2],
}

/// How an agent ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// It goes on until the present turn is switched.
    Lives,
    /// It is killed after so many signals of its first switch.
    Killed(u64),
}

impl Machine {
    fn expected(&self) -> [u64; 2] {
        if self.turn.load(SeqCst) % 2 == 0 { [RUNS, STOPPED] } else { [STOPPED, RUNS] }
    }

    fn found(&self) -> [u64; 2] {
        [self.jobs[0].load(SeqCst), self.jobs[1].load(SeqCst)]
    }

    /// Acts as an agent that awakes at a boundary. It finds another agent's claim overdue at
    /// once, however short it was: the protocol must hold for any patience.
    fn awake(&self, end: End) {
        let claims = Claims { claim: &self.claim, switched: &self.switched };
        let (mut again, mut overdue) = (false, None);
        let mut signals = 0;
        loop {
            let wanted = if again { Wanted::Again } else { Wanted::Turn(self.turn.load(SeqCst)) };
            let claim = match claims.claim(wanted, overdue) {
                Answer::Done => return,
                Answer::Busy(claim) => {
                    overdue = Some(claim);
                    continue;
                }
                Answer::Granted(claim) => claim,
            };
            let turn = self.turn.load(SeqCst);
            for (job, action) in self.jobs.iter().zip(self.expected()) {
                if end == End::Killed(signals) {
                    return;
                }
                job.store(action, SeqCst);
                signals += 1;
            }
            again = !claims.finish(claim, turn);
        }
    }
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    (builder.preemption_bound, builder.max_duration) = testing::depth(preemptions);
    builder.check(model);
}

/// Runs an agent beside this thread, which advances the time and then is an agent as well.
fn run(end: End) -> Arc<Machine> {
    let machine = Arc::new(Machine::default());
    machine.turn.store(1, SeqCst);
    let other = {
        let machine = machine.clone();
        thread::spawn(move || machine.awake(end))
    };
    machine.turn.store(2, SeqCst);
    machine.awake(End::Lives);
    other.join().unwrap();
    machine
}

#[test]
fn after_all_agents_have_switched_every_job_has_the_action_of_the_present_turn() {
    check(3, || {
        let machine = run(End::Lives);
        assert_eq!(machine.found(), machine.expected());
    });
}

#[test]
fn an_agent_that_is_killed_delays_the_others_by_no_more_than_a_turn() {
    for signals in 0..2 {
        check(3, move || {
            let machine = run(End::Killed(signals));
            // The next boundary makes good for a signal that the killed agent has sent too late.
            machine.turn.store(3, SeqCst);
            machine.awake(End::Lives);
            assert_eq!(machine.found(), machine.expected());
        });
    }
}

#[test]
fn an_agent_that_was_stopped_in_its_switch_makes_good_for_it_when_it_continues() {
    check(2, || {
        let machine = Arc::new(Machine::default());
        machine.turn.store(1, SeqCst);
        let agents: Vec<_> = (0..2)
            .map(|_| {
                let machine = machine.clone();
                thread::spawn(move || machine.awake(End::Lives))
            })
            .collect();
        machine.turn.store(2, SeqCst);
        agents.into_iter().for_each(|agent| agent.join().unwrap());
        // The last agent may have found turn 1 done before the time advanced.
        machine.awake(End::Lives);
        assert_eq!(machine.found(), machine.expected());
    });
}
