//! Many jobs at once, and a table that changes all the time.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use cosched::AgentError;
use policy::JobId;
use policy::gang::Gang;
use testing::Child;
use testing::family::Family;

use crate::groups;
use crate::kills::Draws;
use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, ranks, until};

/// Starts five jobs at once, and says how each has ended.
const SHELL: &str = r#"
for code in 0 1 2 3 4; do
    "$@" -- sh -c "exit $code" & jobs="$jobs $!"
done
for job in $jobs; do wait $job; echo $?; done
"#;

#[test]
fn thirty_jobs_from_six_shells_end_as_they_should_and_leave_nothing() {
    testing::for_each_seed(1, |seed| burst(6, seed));
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn a_hundred_jobs_from_twenty_shells_end_as_they_should_and_leave_nothing() {
    testing::for_each_seed(1, |seed| burst(20, seed));
}

/// Starts five jobs from each of these shells, all at once.
fn burst(shells: u32, seed: u64) {
    let (table, mut draws) = (Table::new(), Draws(seed));
    let family = Family::new(&format!("a burst in {}", table.place().display()));
    let start = |draws: &mut Draws| {
        let (ranks, how) = (["1", "2", "3"][draws.below(3)], ["adaptive", "strict", "none"][draws.below(3)]);
        let mut command = testing::command("sh");
        command.args(["-c", SHELL, "sh", env!("CARGO_BIN_EXE_rowlock"), "prun", "--wait", "none"]);
        command.args(["-n", ranks, "--how", how, "--cpus", cpu(), "--slice", "5 ms"]);
        command.env("ROWLOCK_TABLE", table.place());
        family.adopt(&mut command);
        Child::start(&mut command)
    };
    let shells: Vec<Child> = (0..shells).map(|_| start(&mut draws)).collect();
    for shell in shells {
        let output = shell.wait().expect_success().expect_stdout("0\n1\n2\n3\n4\n");
        let is_known = |line: &str| line.contains("has failed") || line.contains("share 1 CPU");
        assert!(output.stderr.lines().all(is_known), "{output}");
    }
    until(|| family.members().is_empty());
    assert_eq!(table.jobs(), [""; 0]);
    table.expect_gone();
}

/// A rank that ends as soon as it is continued, at the beginning of a turn.
const ENDS: &str = "trap 'exit 0' CONT; while :; do :; done";

#[test]
fn fifty_jobs_whose_ranks_end_at_boundaries_leave_nothing() {
    let table = Table::new();
    let family = Family::new(&format!("ends in {}", table.place().display()));
    let strict = ["-n", "2", "--cpus", cpu(), "--how", "strict", "--mechanism", "signals", "--slice", "5 ms"];
    let other = table.start(&strict, SPIN);
    for _ in 0..50 {
        let arguments = [&["prun", "--wait", "none"], &strict[..], &["--", "sh", "-c", ENDS]].concat();
        let mut command = table.rowlock(&arguments);
        family.adopt(&mut command);
        let job = Child::start(&mut command);
        let agent = job.id();
        let output = job.wait().expect_success();
        assert!(output.stderr.lines().all(|line| line.contains("share 1 CPU")), "{output}");
        let (state, _) = cosched::Table::look(table.place()).unwrap().unwrap();
        assert_eq!(state.jobs().len(), 1);
        until(|| family.members().is_empty() && groups::of(agent).is_empty());
    }
    until(|| are_running(other.id()));
    other.send(15);
    other.wait().expect_signal(15);
    table.expect_gone();
}

/// The time that a process has had on CPUs, in ticks.
fn ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The 14th field, where the first after the name is the third.
    stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(11).unwrap().parse().unwrap()
}

/// Changes how a job takes turns.
fn change(table: &cosched::Table, draws: &mut Draws) {
    let (job, choice) = (JobId(1 + draws.below(3) as u32), draws.below(8));
    let weight = 1 + draws.below(3) as u32;
    let changed = table.update(|state, now| match choice {
        0..4 => {
            let is_held = state.job(job)?.is_held;
            state.set_held(job, !is_held, now).map_err(AgentError::from)
        }
        4 | 5 => Ok(state.set_weight(job, weight, now)?),
        6 => Ok(state.set_gang(job, Gang::None, now)?),
        _ => Ok(state.set_gang(job, Gang::Strict, now)?),
    });
    changed.unwrap();
}

#[test]
fn all_jobs_go_on_while_the_slices_change_at_each_boundary() {
    testing::for_each_seed(1, |seed| change_at_boundaries(200, seed));
}

#[test]
#[ignore = "takes a while; ./check --full runs it"]
fn all_jobs_go_on_while_the_slices_change_at_each_boundary_for_a_minute() {
    testing::for_each_seed(1, |seed| change_at_boundaries(12_000, seed));
}

/// Changes the table at so many boundaries, of turns of 5 ms.
fn change_at_boundaries(least: u32, seed: u64) {
    let (table, mut draws) = (Table::new(), Draws(seed));
    let strict = ["-n", "2", "--cpus", cpu(), "--how", "strict", "--slice", "5 ms"];
    let jobs = [0, 1, 2].map(|_| table.start(&strict, SPIN));
    until(|| jobs.iter().all(|job| ranks(job.id()).len() == 2));
    let before: Vec<(u32, u64)> = jobs.iter().flat_map(|job| ranks(job.id())).map(|rank| (rank, ticks(rank))).collect();
    let shared = cosched::Table::find(table.place()).unwrap().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Jobs that come and go meanwhile.
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let arguments = [&["prun", "--wait", "none"], &strict[..], &["--", "sh", "-c", "exit 5"]].concat();
                testing::run(&mut table.rowlock(&arguments)).expect_exit(5);
            }
        });
        let mut boundaries = 0;
        while boundaries < least || before.iter().any(|&(rank, before)| ticks(rank) < before + 2) {
            let now = cosched::now();
            let boundary = shared.state().unwrap().next_boundary(now);
            let left = boundary
                .map_or(Duration::from_millis(5), |boundary| Duration::from_nanos(boundary.since(now).as_nanos()));
            std::thread::sleep(left);
            change(&shared, &mut draws);
            boundaries += 1;
        }
        is_over.store(true, SeqCst);
    });
    for job in (1..=3).map(JobId) {
        let settle = |state: &mut cosched::State, now| {
            state.set_held(job, false, now)?;
            state.set_gang(job, Gang::Strict, now)
        };
        shared.update(|state, now| settle(state, now).map_err(AgentError::from)).unwrap();
    }
    drop(shared);
    for job in &jobs {
        until(|| are_running(job.id()));
        until(|| are_stopped(job.id()));
    }
    for job in jobs {
        job.send(15);
        job.wait().expect_signal(15);
    }
    table.expect_gone();
}
