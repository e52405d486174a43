//! Any signal at any moment: no process, temporary file, shared memory or control group that a
//! command has created stays.

use std::time::{Duration, Instant};

use testing::family::Family;
use testing::{Child, Output};

use crate::commands::{COMMANDS, Place, Subject, Work};

/// The signals to draw from: KILL, TERM, INT, HUP and QUIT.
const SIGNALS: [i32; 5] = [9, 15, 2, 1, 3];

/// How long a machine under load may take to end everything. On a quiet one it is two seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// The beginning of a program with daemons that ignore requests to end, which it obeys itself: some
/// shells lose a SIGINT without a trap.
const HOSTILE: &str = "trap 'exit 1' TERM INT HUP QUIT
(trap '' TERM INT HUP QUIT; setsid sh -c 'sleep 1000; true' & setsid sleep 1000 &)
sleep 0.5 & wait";

/// The command whose process becomes the program, which nothing contains then.
const REPLACED: &str = "exec -- ./program true";

/// Draws numbers from a seed.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// From 0.1 ms to a second. Short times are as likely as long ones.
    fn moment(&mut self) -> Duration {
        Duration::from_micros((100 << self.below(13)) + self.below(100) as u64)
    }
}

/// Starts a command, sends it a signal at a moment, and expects that nothing stays.
fn kill(subject: &Subject, draws: &mut Draws) {
    let place = Place::with(&Work { records: 60_000, rounds: 2_000, before: HOSTILE.to_owned() });
    let (signal, moment) = (SIGNALS[draws.below(SIGNALS.len())], draws.moment());
    let family = Family::new(&format!("killed-{}", draws.below(1 << 30)));
    let mut command = place.command(subject.line);
    family.adopt(&mut command);
    let child = Child::start(&mut command);
    std::thread::sleep(moment);
    let process = child.id();
    child.send(signal);
    let output: Output = child.with_limit(2 * LIMIT).wait();
    let what = format!("signal {signal} after {moment:?}");
    assert!(!output.stderr.contains("panicked"), "{what}: {output}");
    let ended = Instant::now();
    let stays = || {
        let processes = family.members().into_iter().map(testing::processes::describe_tree);
        processes.chain(place.left(subject, process)).collect::<Vec<_>>()
    };
    while !stays().is_empty() && ended.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(stays(), [""; 0], "{what} {output}");
    place.remove_abandoned(subject);
    assert_eq!(place.temporary_files(), [""; 0], "{what} {output}");
}

fn kill_each(times: u64, seed: u64) {
    let mut draws = Draws(seed);
    for _ in 0..times {
        COMMANDS.iter().filter(|subject| subject.line != REPLACED).for_each(|subject| kill(subject, &mut draws));
    }
}

#[test]
fn nothing_stays_of_a_command_that_a_signal_ends_at_any_moment() {
    kill_each(5, 1);
}

#[test]
#[ignore = "takes a while; ./check --full runs it, and ./soak with other seeds"]
fn nothing_stays_of_many_killed_commands() {
    testing::for_each_seed(10, |seed| kill_each(1, seed));
}
