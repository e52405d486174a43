//! Jobs of a run that share the machine in turns.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use policy::Span;
use policy::gang::Gang;
use policy::layout::{Mesh, Shape};
use policy::waiting::WaitingRule;
use rowlock_host::Error;
use rustix::process::{Pid, Signal, kill_process};
use scenario::{Coscheduling, Job, JobKind, MachineKeys, Setting};
use sys::cgroups::Hierarchy;
use sys::process::{RequestsToEnd, end_with_this_thread};
use testing::Child;
use testing::processes::is_stopped;

use crate::family::{Family, wait_until};
use crate::processes::{is_any_stopped, own_name, processes};
use crate::runs::{self, barrier, command, hogs, job, run_while, shell, sys_cpus};

pub(crate) const TRIALS: &[(&str, fn())] = &[
    ("jobs_run_to_their_end_in_every_way_to_share_cells", jobs_run_to_their_end),
    ("jobs_on_cells_are_bound_to_them_and_take_no_turns_unless_that_is_asked_for", jobs_on_cells_take_no_turns),
    ("jobs_are_stopped_in_the_turns_of_others_and_run_again", jobs_take_turns),
    ("a_cancelled_run_ends_jobs_that_are_stopped", a_cancelled_run_ends_stopped_jobs),
    ("a_cancelled_run_asks_commands_to_end", a_cancelled_run_asks_commands_to_end),
    ("a_run_that_is_stopped_and_continued_continues_the_turns", a_continued_run_continues_the_turns),
    ("a_run_killed_while_jobs_are_stopped_leaves_nothing", a_killed_run_leaves_nothing),
];

pub(crate) fn setting(how: Gang, jobs: Vec<Job>) -> Setting {
    let slice = Span::from_millis(5);
    Setting { coscheduling: Some(Coscheduling { how, slice, ..Coscheduling::default() }), ..runs::setting(jobs) }
}

/// Two jobs that fill the machine and never end, and a script on one cell: three slices.
fn crowd(twin: &str, script: JobKind) -> Setting {
    let twins = Job::new(twin, 2, hogs(sys_cpus()));
    setting(Gang::Strict, vec![twins, job("script", script)])
}

fn jobs_run_to_their_end() {
    for how in [Gang::None, Gang::Implicit, Gang::Adaptive, Gang::Strict, Gang::Moderate] {
        let jobs = vec![
            Job::new("crew", 2, barrier(2, 200, WaitingRule::AlwaysSpin)),
            job("cpu", JobKind::Cpu { threads: 1, work: Some(Span::from_micros(100).into()) }),
            job("hogs", hogs(1)),
            job("command", command(&["true"])),
        ];
        let run = match runs::run(&setting(how, jobs)) {
            Err(refused) if how == Gang::Moderate && cosched::find_lower_mechanism().is_err() => {
                assert!(refused.is_input() && refused.to_string().contains("cannot be lowered"), "{refused}");
                continue;
            }
            run => run.unwrap(),
        };
        let [first, second, cpu, endless, command] = &run.outcome.jobs[..] else { panic!("{run:?}") };
        for crew in [first, second] {
            assert_eq!(crew.rounds, Some(200), "{how}");
            assert!(crew.completion_ns.is_some() && crew.delivered_work_ns > Some(Span::ZERO), "{how}: {crew:?}");
        }
        assert_eq!((&*first.job, &*second.job), ("crew.0", "crew.1"));
        assert_eq!(cpu.delivered_work_ns, Some(Span::from_micros(100)));
        assert!(command.completion_ns.is_some() && endless.completion_ns.is_none(), "{how}: {run:?}");
        let shared = run.outcome.machine.coscheduling.unwrap();
        let has_slices = !matches!(how, Gang::None | Gang::Implicit);
        assert_eq!(shared.slices_most > 0, has_slices, "{how}: {shared:?}");
        assert_eq!(shared.turns > 0, shared.delay_mean_ns.is_some(), "{how}: {shared:?}");
        assert!(has_slices || shared.turns == 0, "{how}: {shared:?}");
    }
}

fn jobs_on_cells_take_no_turns() {
    let place = tempfile::tempdir().unwrap();
    let cpus_of = |name: &str, setting: Setting| {
        let file = place.path().join(name);
        let script = format!("grep Cpus_allowed_list /proc/self/status > {}", file.display());
        let run = runs::run(&Setting { jobs: vec![job("script", shell(&script))], ..setting }).unwrap();
        (fs::read_to_string(file).unwrap(), run.outcome.machine.coscheduling)
    };
    let machine = MachineKeys { cells: Mesh::new(Shape { columns: 2, rows: 1 }), ..MachineKeys::default() };
    let on_cells = cpus_of("cells", Setting { machine, ..runs::setting(Vec::new()) });
    assert_eq!(on_cells, cpus_of("none", setting(Gang::None, Vec::new())));
    let (cpus, shared) = on_cells;
    assert_eq!(shared.map(|shared| (shared.slices_most, shared.turns)), Some((0, 0)));
    let (all, shared) = cpus_of("without", runs::setting(Vec::new()));
    assert_eq!(shared, None);
    let machine = runs::host().calibration.machine;
    let is_narrower = machine.cpus > 1 && machine.cpus as usize == machine.cpus_allowed.len();
    assert_eq!(cpus != all, is_narrower, "{cpus}, {all}");
}

/// Waits until two jobs with this name have been stopped or continued so often, each.
fn wait_for_changes(name: &str, changes: usize) {
    let mut seen: BTreeMap<u32, (bool, usize)> = BTreeMap::new();
    wait_until("both to be stopped and to run again", || {
        for id in processes(name) {
            let Some(now) = is_stopped(id) else { continue };
            let (before, changes) = seen.entry(id).or_insert((now, 0));
            *changes += usize::from(*before != now);
            *before = now;
        }
        seen.len() == 2 && seen.values().all(|&(_, seen)| seen >= changes)
    });
}

fn jobs_take_turns() {
    // The classes of jobs change the table some times, each with a switch, but not that often.
    const CHANGES: usize = 50;
    let (name, place) = (own_name("twin"), tempfile::tempdir().unwrap());
    let end = place.path().join("end");
    let script = format!("until [ -e {} ]; do sleep 0.01; done", end.display());
    let run = run_while(&crowd(&name, shell(&script)), |_| {
        wait_for_changes(&name, CHANGES);
        fs::write(&end, "").unwrap();
    });
    let outcome = run.unwrap().outcome;
    let shared = outcome.machine.coscheduling.unwrap();
    // No switch changes a job twice, and at most half of them are due to changes of the table.
    let cells = u64::from(rowlock_host::cells(&runs::host().calibration.machine));
    assert!(shared.turns >= CHANGES as u64 / 2 * cells && shared.turns.is_multiple_of(cells), "{shared:?}");
    assert!(shared.delay_mean_ns > Some(Span::ZERO), "{shared:?}");
    assert_eq!(shared.slices_most, 3);
    assert!(outcome.jobs.iter().all(|job| job.cpu_ns > Some(Span::ZERO)), "{outcome:?}");
}

fn a_cancelled_run_ends_stopped_jobs() {
    let (name, family) = (own_name("cut"), Family::new("cut"));
    let script = command(&["env", &family.variable(), "sh", "-c", "setsid sleep 1000 & sleep 1000"]);
    let cancelled = run_while(&crowd(&name, script), |cancel| {
        wait_until("the script and a stopped job", || family.members().len() == 3 && is_any_stopped(&name));
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert_eq!(family.members(), Vec::<u32>::new());
    assert_eq!(processes(&name), Vec::<u32>::new());
}

fn a_cancelled_run_asks_commands_to_end() {
    let place = tempfile::tempdir().unwrap();
    let [begun, asked] = ["begun", "asked"].map(|name| place.path().join(name));
    // It takes a while, but less than the grace period.
    let trap = format!("trap 'sleep 0.1; echo > {}; exit' TERM; echo > {}", asked.display(), begun.display());
    let cancelled = run_while(&crowd(&own_name("asked"), shell(&format!("{trap}; sleep 1000 & wait"))), |cancel| {
        wait_until("the command", || begun.exists());
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert!(asked.exists(), "the command was killed before it could end");
}

/// The argument that makes this program a run of jobs that take turns.
const RUN: &str = "__run_turns";

/// Runs jobs that take turns until killed, if this process was started for that.
pub(crate) fn run_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(RUN) {
        return;
    }
    let ended = runs::run(&crowd(&arguments.next().unwrap(), shell("setsid sleep 1000 & sleep 1000; true")));
    panic!("{ended:?}");
}

/// Starts this program as such a run.
fn start(name: &str, family: &Family, place: &Path) -> Child {
    let mut command = testing::command(std::env::current_exe().unwrap());
    command.args([RUN, name]).env(cosched::VARIABLE, place);
    family.adopt(&mut command);
    end_with_this_thread(&mut command, RequestsToEnd::Obey);
    Child::start(&mut command)
}

fn kill(mut run: Child) {
    run.process().kill().unwrap();
    let output = run.wait();
    let fails = !output.status.success();
    output.expect(fails, "a run that does not succeed");
}

fn a_continued_run_continues_the_turns() {
    let (name, family, place) = (own_name("paused"), Family::new("paused"), tempfile::tempdir().unwrap());
    let run = start(&name, &family, place.path());
    wait_for_changes(&name, 2);
    let id = Pid::from_raw(run.id() as i32).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    wait_until("the stop of the run", || is_stopped(run.id()) == Some(true));
    kill_process(id, Signal::CONT).unwrap();
    wait_for_changes(&name, 2);
    kill(run);
    wait_until("the end of the family", || family.members().is_empty());
}

fn a_killed_run_leaves_nothing() {
    let (name, family, place) = (own_name("orphan"), Family::new("turns"), tempfile::tempdir().unwrap());
    let run = start(&name, &family, place.path());
    let id = run.id();
    wait_until("a stopped job", || is_any_stopped(&name));
    kill(run);
    wait_until("the end of the family", || family.members().is_empty());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "the table is gone");
    let groups = Hierarchy::all().into_iter().filter_map(|hierarchy| fs::read_dir(hierarchy.folder).ok()).flatten();
    let prefix = format!("rowlock-job-{id}-");
    let left = groups.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    assert_eq!(left.count(), 0, "no control group is left");
}
