//! Any signal at any moment: no process, temporary file, shared memory or control group that a
//! command has created stays, and no other process is changed.

use std::fs;
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sys::files::PREFIX;
use testing::Child;
use testing::family::Family;

use crate::commands::{COMMANDS, Place, Subject, Work};
use crate::groups;

/// The signals to draw from: KILL, TERM, INT, HUP and QUIT.
const SIGNALS: [i32; 5] = [KILL, 15, 2, 1, 3];
const KILL: i32 = Signal::KILL.as_raw();

/// How long a machine under load may take to end everything. On a quiet one it is two seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// The number of commands that run at a time.
const AT_A_TIME: usize = 4;

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
    pub(crate) fn moment(&mut self) -> Duration {
        Duration::from_micros((100 << self.below(13)) + self.below(100) as u64)
    }
}

/// Which processes get a signal.
#[derive(Clone, Copy, Debug)]
enum Killed {
    /// The command gets this one.
    Command(i32),
    /// All processes named rowlock get SIGKILL, as by `pkill -KILL rowlock`.
    Named,
    /// One of all processes gets SIGKILL, for example a keeper, and soon after that the command.
    AnyOther,
}

impl Killed {
    fn draw(draws: &mut Draws) -> Killed {
        match draws.below(7) {
            5 => Killed::Named,
            6 => Killed::AnyOther,
            number => Killed::Command(SIGNALS[number]),
        }
    }
}

pub(crate) fn kill_if_alive(process: u32) {
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), Signal::KILL);
}

/// The name of a process.
pub(crate) fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default()
}

/// The fields of `/proc/PID/stat` from the third one on.
fn stat(process: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().split(' ').map(str::to_owned).collect()
}

/// Whether a process is a program in the foreground. If it is killed, its processes may stay, as
/// without rowlock.
fn may_leave_processes(process: u32) -> bool {
    match &stat(process)[..] {
        [_, parent, group, ..] => *group != process.to_string() && name(parent.parse().unwrap()) == "keeper\n",
        _ => false,
    }
}

/// Sends the signals.
fn send(killed: Killed, command: &Child, family: &Family, draws: &mut Draws) {
    let is_named = |process: &u32| name(*process).contains("rowlock");
    match killed {
        Killed::Command(signal) => command.send(signal),
        Killed::Named => family.members().into_iter().filter(is_named).for_each(kill_if_alive),
        Killed::AnyOther => {
            let mut members = family.members();
            members.retain(|&process| !may_leave_processes(process));
            if let Some(&any) = members.get(draws.below(members.len().max(1))) {
                kill_if_alive(any);
            }
            sleep(draws.moment() / 10);
            command.send(KILL);
        }
    }
}

/// Starts a command, sends signals at a moment, and expects that nothing stays. Returns the time
/// until nothing was left, or until the next command had to remove it, and what was killed how.
fn kill(subject: &Subject, seed: u64) -> (Duration, String) {
    let draws = &mut Draws(seed);
    let place = Place::with(&Work { records: 60_000, rounds: 2_000, before: HOSTILE.to_owned() });
    let (killed, moment) = (Killed::draw(draws), draws.moment());
    let family = Family::new(&format!("killed-{seed:x}"));
    let mut command = place.command(subject.line);
    family.adopt(&mut command);
    let child = Child::start(&mut command);
    sleep(moment);
    let process = child.id();
    let starters = place.starters();
    send(killed, &child, &family, draws);
    let sent = Instant::now();
    let starters = [starters, place.starters()].concat();
    let output = child.with_limit(2 * LIMIT).wait();
    let what = format!("{}: {killed:?} after {moment:?}, seed {seed}", subject.line);
    assert!(!output.stderr.contains("panicked"), "{what}: {output}");
    let stays = || {
        let processes = family.members().into_iter().map(testing::processes::describe_tree);
        let groups = starters.iter().flat_map(|&starter| groups::of(starter));
        processes.chain(place.left(subject, process)).chain(place.temporary_files()).chain(groups).collect::<Vec<_>>()
    };
    let wait = |limit: Duration, is_allowed: fn(&String) -> bool| {
        let ended = Instant::now();
        while !stays().iter().all(is_allowed) && ended.elapsed() < limit {
            sleep(Duration::from_millis(5));
        }
    };
    let mut time = None;
    match killed {
        Killed::AnyOther => {
            wait(Duration::from_secs(4), |_| false);
            if !stays().is_empty() {
                time = Some(Duration::ZERO);
                // If the process that would remove it was killed, the next command does. A program
                // that ends by itself may leave processes.
                let next = Family::new(&format!("next-{seed:x}"));
                let mut command = place.command(subject.line);
                next.adopt(&mut command);
                testing::run(&mut command);
                next.members().into_iter().for_each(testing::processes::kill_tree);
            }
        }
        Killed::Command(KILL) | Killed::Named => {
            // No system call replaces a file by one without a name. So a file has a temporary name
            // for a moment, and if the process is killed then, the next command removes it.
            wait(LIMIT, |name| name.starts_with(PREFIX));
            if !stays().is_empty() {
                testing::run(&mut place.command(subject.line));
            }
        }
        Killed::Command(_) => {}
    }
    wait(LIMIT, |_| false);
    let time = time.unwrap_or_else(|| sent.elapsed());
    assert_eq!(stays(), [""; 0], "{what} {output}");
    (time, what)
}

/// The state of a process that another one could change.
fn state(process: u32) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    let fields = stat(process);
    // The priorities are the fields 18 and 19, the policy is 41.
    let scheduling = [15, 16, 37, 38].map(|field| fields[field].as_str()).join(" ");
    let status = read("status");
    let allowed = status.lines().filter(|line| line.contains("_allowed"));
    let others = ["limits", "cgroup", "autogroup", "oom_score_adj", "timerslack_ns", "coredump_filter"].map(read);
    [scheduling, allowed.collect()].into_iter().chain(others).collect()
}

/// Kills each command this many times, beside a process that must stay as it is. Returns the kill
/// of which something was left for the longest time.
fn kill_each(times: u64, seed: u64) -> (Duration, String) {
    let bystander = Child::start(testing::command("sleep").arg("1000"));
    while !fs::read_to_string(format!("/proc/{}/comm", bystander.id())).unwrap().starts_with("sleep") {}
    let before = [bystander.id(), std::process::id()].map(state);
    let subjects: Vec<&Subject> = COMMANDS.iter().filter(|subject| subject.line != REPLACED).collect();
    let tasks: Vec<_> = (0..times).flat_map(|time| subjects.iter().map(move |subject| (*subject, time))).collect();
    let (next, longest) = (std::sync::atomic::AtomicUsize::new(0), Mutex::new((Duration::ZERO, String::new())));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((subject, time)) = tasks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let number = COMMANDS.iter().position(|other| other.line == subject.line).unwrap() as u64;
                    let left = kill(subject, Draws(seed << 16 | time << 8 | number).below(1 << 31) as u64);
                    let mut longest = longest.lock().unwrap();
                    *longest = std::mem::take(&mut *longest).max(left);
                }
            });
        }
    });
    assert_eq!([bystander.id(), std::process::id()].map(state), before);
    bystander.send(KILL);
    bystander.wait().expect_signal(KILL);
    longest.into_inner().unwrap()
}

#[test]
fn nothing_stays_of_a_command_that_a_signal_ends_at_any_moment() {
    kill_each(5, 1);
}

#[test]
#[ignore = "takes a while; ./check --full runs it, and ./soak with other seeds"]
fn nothing_stays_of_many_killed_commands() {
    let mut longest = (Duration::ZERO, String::new());
    testing::for_each_seed(20, |seed| longest = std::mem::take(&mut longest).max(kill_each(1, seed)));
    if testing::search().is_some() {
        // On a quiet machine it is two seconds.
        eprintln!("measured: {:.3} s until nothing was left of {}", longest.0.as_secs_f64(), longest.1);
    }
}
