//! Jobs whose threads give way by themselves: `--mechanism hint`.

use std::fs;

use testing::Child;

use crate::prun::{SPIN, Table, are_running, are_stopped, cpu, ranks, until};

/// Two threads that meet again and again.
const MEET: &str = "#include <pthread.h>
static pthread_barrier_t barrier;
static void *meet(void *unused) { for (;;) pthread_barrier_wait(&barrier); }
int main(void) {
    pthread_t other;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&other, 0, meet, 0);
    meet(0);
}
";

/// Starts them as a job. They never block by their rule. `None` without a compiler.
fn start_meeting(table: &Table) -> Option<Child> {
    let compiler = testing::tool("CC", "cc")?;
    fs::write(table.place().join("meet.c"), MEET).unwrap();
    let mut compile = testing::command(compiler);
    compile.args(["-pthread", "-o", "meet", "meet.c"]).current_dir(table.place());
    testing::run(&mut compile).expect_success();
    let rule = ["prun", "--wait", "always-spin", "--mechanism", "hint", "--how", "strict"];
    // In a long slice, a job that ignores it also uses much of a CPU if others need that as well.
    let options = ["--slice", "200 ms", "--cpus", cpu(), "--", "./meet"];
    let child = Child::start(&mut table.rowlock(&[&rule[..], &options].concat()));
    until(|| table.jobs().len() == 1 && threads(child.id()).len() == 2);
    Some(child)
}

/// The states of all threads of the ranks of an agent.
fn threads(agent: u32) -> Vec<char> {
    let tasks = |rank: u32| fs::read_dir(format!("/proc/{rank}/task")).into_iter().flatten().flatten();
    let state = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    };
    ranks(agent).into_iter().flat_map(tasks).filter_map(state).collect()
}

/// Whether all threads of an agent's ranks sleep.
fn are_parked(agent: u32) -> bool {
    let threads = threads(agent);
    !threads.is_empty() && threads.iter().all(|&state| state == 'S')
}

fn are_waiting_actively(agent: u32) -> bool {
    threads(agent).contains(&'R')
}

#[test]
fn threads_that_wait_by_a_rule_give_way_and_what_ignores_its_turn_is_stopped_all_the_same() {
    let table = Table::new();
    let Some(meets) = start_meeting(&table) else { return };
    let spins = table.start(&["-n", "2", "--cpus", cpu(), "--mechanism", "hint"], SPIN);
    let mechanism = |job: usize| table.jobs()[job]["mechanism"].clone();
    until(|| mechanism(1) != "hint" && are_stopped(spins.id()));
    for _ in 0..3 {
        until(|| are_parked(meets.id()) && mechanism(0) == "hint" && table.jobs()[0]["state"] == "waits");
        until(|| are_waiting_actively(meets.id()));
    }
    let set = |arguments: &[&str]| drop(testing::run(&mut table.rowlock(arguments)).expect_success());
    set(&["hold", "1"]);
    until(|| are_stopped(meets.id()));
    set(&["resume", "1"]);
    until(|| are_parked(meets.id()));
    until(|| are_waiting_actively(meets.id()));
    // No switch comes any more.
    until(|| are_parked(meets.id()));
    [&spins, &meets].into_iter().for_each(|prun| prun.send(19));
    until(|| are_waiting_actively(meets.id()));
    [&spins, &meets].into_iter().for_each(|prun| prun.send(18));
    until(|| are_parked(meets.id()));
    // Nor any turn, as the other agent is killed.
    spins.send(9);
    spins.wait().expect_signal(9);
    until(|| table.jobs().len() == 1 && are_waiting_actively(meets.id()) && are_running(meets.id()));
    set(&["kill", "1"]);
    meets.wait().expect_signal(15);
    table.expect_gone();
}
