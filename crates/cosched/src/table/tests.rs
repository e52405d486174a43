use std::collections::BTreeSet;

use policy::gang::Gang;

use super::*;
use crate::agent::AgentError;
use crate::state::Entering;
use crate::topology::Topology;

fn empty() -> State {
    State::new(Topology::of_cpus(&[0, 1]), Span::from_millis(20))
}

fn entering(command: &str, agent: Identity) -> Entering {
    Entering { agent, command: command.to_owned(), ..crate::state::tests::entering(2, Gang::Strict, 1) }
}

fn enter(table: &Table, command: &str) -> JobId {
    let entering = entering(command, Identity::own());
    table.update(|state, now| Ok::<_, AgentError>(state.enter(&entering, now)?)).unwrap()
}

fn commands(table: &Table) -> BTreeSet<String> {
    table.state().unwrap().jobs().map(|(_, job)| job.command.clone()).collect()
}

/// The names of the files of a table that begin like this.
fn files(table: &Table, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(table.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn an_own_table_is_found_by_no_other_and_removed_at_its_end() {
    let place = tempfile::tempdir().unwrap();
    let [one, other] = [0, 1].map(|_| Table::create_own(place.path(), empty).unwrap());
    enter(&one, "a");
    assert_eq!((commands(&one).len(), commands(&other).len()), (1, 0));
    assert!(Table::find(place.path()).unwrap().is_none());
    drop((one, other));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn all_users_see_the_changes_of_each_and_the_last_one_removes_the_table() {
    let place = tempfile::tempdir().unwrap();
    assert!(Table::find(place.path()).unwrap().is_none());
    let first = Table::enter(place.path(), empty).unwrap();
    let second = Table::enter(place.path(), || panic!("there is a table")).unwrap();
    enter(&first, "a");
    enter(&second, "b");
    for table in [&first, &second] {
        assert_eq!(commands(table), ["a", "b"].map(str::to_owned).into());
    }
    drop(first);
    let third = Table::find(place.path()).unwrap().unwrap();
    drop(second);
    assert_eq!(commands(&third).len(), 2);
    drop(third);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_change_that_changes_nothing_makes_no_version() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let jobs = ["a", "b"].map(|command| enter(&table, command));
    let repeat = || {
        let change = |state: &mut State, now| {
            state.set_held(jobs[0], true, now)?;
            state.set_suspended(jobs[1], true, now)?;
            state.set_weight(jobs[1], 2, now)?;
            Ok::<_, AgentError>(state.set_gang(jobs[1], Gang::Adaptive, now)?)
        };
        table.update(change).unwrap();
        table.latest().unwrap().0
    };
    let changed = repeat();
    assert_eq!([repeat(), repeat()], [changed; 2]);
}

#[test]
fn a_look_shows_the_latest_version_and_neither_keeps_nor_changes_the_table() {
    let place = tempfile::tempdir().unwrap();
    let look = || Table::look(place.path()).unwrap().map(|(state, _)| state.jobs().len());
    assert_eq!(look(), None);
    let table = Table::enter(place.path(), empty).unwrap();
    assert_eq!(look(), Some(0));
    enter(&table, "a");
    assert_eq!(look(), Some(1));
    // As if the last user had removed a part of the files.
    for prefix in ["version-", "page-"] {
        for file in files(&table, prefix) {
            std::fs::remove_file(table.path().join(file)).unwrap();
        }
        assert_eq!((look(), files(&table, prefix).len()), (None, 0));
    }
    drop(table);
    assert_eq!(look(), None);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn no_change_is_lost_if_many_are_made_at_once_and_only_the_latest_version_remains() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let within = place.path();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let table = Table::find(within).unwrap().unwrap();
                for number in 0..20 {
                    enter(&table, &format!("{thread} {number}"));
                }
            });
        }
    });
    assert_eq!(commands(&table).len(), 80);
    assert_eq!(files(&table, "version-").len(), 1);
}

#[test]
fn the_job_of_an_agent_that_has_ended_is_gone_with_the_next_change() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let ended = Identity { pid: Identity::own().pid, started: 1 };
    let entering = entering("ended", ended);
    // It is entered after those that have ended are released.
    let job = table.update(|state, now| Ok::<_, AgentError>(state.enter(&entering, now)?)).unwrap();
    drop(table.processes(job).unwrap());
    assert_eq!(files(&table, "processes-").len(), 1);
    enter(&table, "alive");
    assert_eq!(commands(&table), ["alive".to_owned()].into());
    assert!(files(&table, "processes-").is_empty());
}

#[test]
fn a_refused_change_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let refused = table.update(|state, now| Ok::<(), AgentError>(state.set_held(JobId(7), true, now)?));
    assert_eq!(refused.unwrap_err().to_string(), "there is no job 7; `rowlock jobs` lists all jobs");
    assert_eq!(files(&table, "version-").len(), 1);
}

#[test]
fn a_damaged_version_is_an_error_that_names_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let [version] = &files(&table, "version-")[..] else { panic!() };
    for damage in ["", "{", "{}", "[1]", "null", "\u{0}"] {
        std::fs::write(table.path().join(version), damage).unwrap();
        let other = Table::enter(place.path(), empty).unwrap();
        let said = other.state().unwrap_err().to_string();
        assert!(said.contains("is damaged") && said.contains(place.path().to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_change_is_refused_if_its_version_would_be_too_large_to_be_read() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    // Each of these characters takes six bytes in a version.
    let large = Entering { request: None, ..entering(&"\u{1}".repeat(1_000), Identity::own()) };
    let enter = |jobs| {
        let enter_all = |state: &mut State, now| (0..jobs).try_for_each(|_| state.enter(&large, now).map(drop));
        table.update(|state, now| enter_all(state, now).map_err(AgentError::from))
    };
    enter(1_500).unwrap();
    let refused = enter(1_500).unwrap_err();
    assert!(matches!(refused, AgentError::State(StateError::TooLarge)), "{refused}");
    assert_eq!(files(&table, "version-").len(), 1);
    table.update(|state, now| state.release(JobId(1), now).map_err(AgentError::from)).unwrap();
    assert_eq!(Table::find(place.path()).unwrap().unwrap().state().unwrap().jobs().len(), 1_499);
}

#[test]
fn a_process_of_another_version_is_found_as_long_as_it_uses_the_folder() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    assert_eq!(table.user_of_other_version(), None);
    let other = table.folder.map("page-4", page::LENGTH).unwrap();
    assert_eq!(table.user_of_other_version(), Some(std::process::id()));
    drop(other);
    assert_eq!(table.user_of_other_version(), None);
}

#[test]
fn a_change_in_the_queue_alone_wakes_no_agent_and_each_departure_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let table = Table::enter(place.path(), empty).unwrap();
    let counted = || {
        let departures = table.page.departures();
        (table.page.changes(), departures.from_queue, departures.from_table)
    };
    let release =
        |job| table.update_serialized(|state, now| state.release(job, now).map_err(AgentError::from)).unwrap();
    let running = enter(&table, "runs");
    let waiting = Entering { waits_for_cells: true, ..entering("waits", Identity::own()) };
    let wait = || table.update_serialized(|state, now| state.enter(&waiting, now).map_err(AgentError::from)).unwrap();
    assert_eq!(counted(), (1, 0, 0));
    let jobs = [0; 3].map(|_| wait());
    release(jobs[1]);
    assert_eq!(counted(), (1, 1, 1));
    release(running);
    assert_eq!(counted(), (2, 1, 2));
    let has_started = table.update(|state, now| state.admit(jobs[0], 0, now).map_err(AgentError::from)).unwrap();
    assert!(has_started);
    assert_eq!(counted(), (3, 2, 2));
    assert_eq!(table.known().unwrap().queue().collect::<Vec<_>>(), [jobs[2]]);
}
