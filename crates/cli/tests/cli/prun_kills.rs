//! Kills of the processes of jobs in turns: no process, no table and no stop of a survivor stays.

use std::fs;
use std::thread::{self, sleep};

use testing::family::Family;
use testing::{Child, processes};

use crate::groups;
use crate::kills::{Draws, kill_if_alive, name};
use crate::prun::{Table, cpu, is_stopped, mechanisms, ranks, until};
use crate::prun_lowering::{can_lower, is_lowered};

/// A rank with a child, and with a daemon that detaches itself.
const RANK: &str = "(setsid sleep 1000 &); sh -c 'while :; do :; done; true' & while :; do :; done";

struct Job {
    prun: Child,
    family: Family,
}

impl Job {
    fn start(table: &Table, number: usize, draws: &mut Draws) -> Job {
        let ways = if can_lower() { &["strict", "adaptive", "moderate"][..] } else { &["strict", "adaptive"] };
        let how = ways[draws.below(ways.len())];
        let mechanisms = mechanisms();
        let by = mechanisms[draws.below(mechanisms.len())];
        let arguments = ["prun", "-n", "2", "--cpus", cpu(), "--slice", "5 ms", "--wait", "none", "--how", how];
        let mut command = table.rowlock(&[&arguments[..], &["--mechanism", by, "--", "sh", "-c", RANK]].concat());
        let family = Family::new(&format!("job {number} in {}", table.place().display()));
        family.adopt(&mut command);
        Job { prun: Child::start(&mut command), family }
    }

    fn has_ended(&mut self) -> bool {
        self.prun.process().try_wait().unwrap().is_some()
    }

    /// Whether it has ended with all that it has started, or is seen running, and not lowered.
    fn is_as_it_should_be(&mut self) -> bool {
        if self.has_ended() {
            return self.family.members().is_empty();
        }
        let ranks = ranks(self.prun.id());
        let runs = |rank: u32| is_stopped(rank) == Some(false) && !is_lowered(rank);
        !ranks.is_empty() && ranks.into_iter().all(runs)
    }
}

/// Kills some of the processes of jobs at the same time.
fn kill(jobs: &[Job], draws: &mut Draws) {
    let agents: Vec<u32> = jobs.iter().map(|job| job.prun.id()).collect();
    let members: Vec<u32> = jobs.iter().flat_map(|job| job.family.members()).collect();
    let one = agents[draws.below(agents.len())];
    let victims = match draws.below(5) {
        0 => vec![one],
        1 => agents,
        2 => members.into_iter().filter(|&member| name(member).trim() == "rowlock").collect(),
        3 => vec![members[draws.below(members.len())]],
        // With all of its keepers.
        _ => {
            let keepers = processes::children(one).into_iter().filter(|&child| name(child).trim() == "keeper");
            [one].into_iter().chain(keepers).collect()
        }
    };
    victims.into_iter().for_each(kill_if_alive);
}

/// Kills processes of jobs at a moment, and expects that nothing stays of them and that the others
/// go on.
fn kill_jobs(seed: u64) {
    let (table, mut draws) = (Table::new(), Draws(seed));
    let mut jobs: Vec<Job> = (0..2 + draws.below(3)).map(|number| Job::start(&table, number, &mut draws)).collect();
    // A kill may come before all ranks have started, but not before there is a table.
    until(|| table.jobs().len() == jobs.len());
    let change = |words: &[&str]| drop(testing::run(&mut table.rowlock(words)));
    let is_held = draws.below(3) == 0;
    if is_held {
        change(&["hold", "1"]);
    }
    sleep(draws.moment());
    kill(&jobs, &mut draws);
    if is_held {
        // It may have been killed.
        change(&["resume", "1"]);
    }
    // Ends what was started by keepers that were killed as well.
    change(&["prun", "--", "true"]);
    for job in &mut jobs {
        while !job.is_as_it_should_be() {
            sleep(std::time::Duration::from_millis(2));
        }
    }
    for job in &mut jobs {
        if !job.has_ended() {
            job.prun.send(15);
        }
    }
    for Job { prun, family } in jobs {
        let agent = prun.id();
        prun.wait();
        until(|| family.members().is_empty() && groups::of(agent).is_empty());
    }
    table.expect_gone();
    assert_eq!(fs::read_dir(table.place()).unwrap().count(), 0);
}

#[test]
#[expect(clippy::redundant_closure, reason = "the closure names this test in a replay")]
fn nothing_stays_of_jobs_whose_processes_are_killed_and_the_others_go_on() {
    testing::for_each_seed(12, |seed| kill_jobs(seed));
}

#[test]
#[ignore = "takes a while; ./soak runs it"]
fn nothing_stays_of_many_killed_jobs() {
    testing::for_each_seed(50, |seed| {
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || kill_jobs(Draws(seed << 8 | number).below(1 << 31) as u64));
            }
        });
    });
}
