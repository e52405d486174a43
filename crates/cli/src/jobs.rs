//! `rowlock jobs`, `kill`, `hold`, `resume` and `set`: see and change the jobs of `rowlock prun`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cosched::pds::Change;
use cosched::{AgentError, Job, Measured, State, StateError, StopBy, Table, Times};
use policy::coscheduler::JobFacts;
use policy::gang::{Action, Class, Gang};
use policy::layout::Rectangle;
use policy::{JobId, Span};
use report::table::Table as TextTable;
use report::words::{word, wrap};
use rustix::process::{Signal, geteuid};
use serde::Serialize;
use sys::identity::Identity;

use crate::arguments::TextOrJson;
use crate::arguments::prun::{self, Jobs, Kill, Set};
use crate::output::{is_reader_gone, print_as, print_message, terminal_width};
use crate::pds;
use crate::signals::Signals;
use crate::spool::{End, Record, Spool};
use crate::stop::{OrStop, Stop};

/// The time between two lists.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two checks for Ctrl-C.
const CANCEL_CHECK: Duration = Duration::from_millis(20);
/// Clears the screen of a terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";
/// SIGHUP, SIGINT, SIGQUIT and SIGTERM.
const REQUESTS_TO_END: [i32; 4] = [1, 2, 3, 15];
/// The width of the table, unless it is for a narrower terminal.
const WIDTH: usize = 100;
const COLUMNS: [&str; 14] = [
    "job",
    "user",
    "state",
    "how",
    "class",
    "mechanism",
    "cells",
    "slices",
    "weight",
    "used",
    "stolen",
    "ranks",
    "seconds",
    "command",
];
/// The columns that a narrow terminal lacks, the first ones first.
const DISPENSABLE: [&str; 8] = ["stolen", "ranks", "mechanism", "cells", "slices", "weight", "how", "user"];
/// How much longer a command is than its heading, if there is room.
const ROOM: usize = 9;

/// Lists all jobs.
pub(crate) fn jobs(arguments: &Jobs) -> Result<(), Stop> {
    if !arguments.watch {
        let list = List::read()?;
        return print_as(arguments.format, || list.text(terminal_width()), &list, "the jobs");
    }
    let signals = Signals::catch().or_failed()?;
    let is_cancelled = || signals.cancel().load(Acquire);
    while !is_cancelled() && !is_reader_gone() {
        let list = List::read()?;
        if matches!(arguments.format, TextOrJson::Text) && io::stdout().is_terminal() {
            let _ = io::stdout().write_all(CLEAR);
        }
        print_as(arguments.format, || list.text(terminal_width()), &list, "the jobs")?;
        let end = Instant::now() + INTERVAL;
        while !is_cancelled() && Instant::now() < end {
            sleep(CANCEL_CHECK);
        }
    }
    if is_cancelled() { Err(signals.interruption()) } else { Ok(()) }
}

/// Sends a signal to the agent of a job, which passes it on to all ranks.
pub(crate) fn kill(arguments: &Kill) -> Result<(), Stop> {
    let table = look()?;
    let found = table.as_ref().and_then(|(state, _)| state.job(arguments.job).ok());
    let job = found.ok_or_else(|| absent(arguments.job))?;
    let own = geteuid();
    if let Some(user) = job.user().filter(|&user| !own.is_root() && user != own.as_raw()) {
        return Err(Stop::Input(anyhow!("job {} belongs to user {user}", arguments.job)));
    }
    let sent = cosched::processes::signal(job.starter(), arguments.signal);
    sent.with_context(|| format!("cannot send the signal to job {}", arguments.job)).or_failed()?;
    // A stopped process gets the signal when it continues.
    let must_continue = (job.is_held || job.is_suspended) && REQUESTS_TO_END.contains(&arguments.signal);
    if must_continue { resume(arguments.job) } else { Ok(()) }
}

/// Holds a job.
pub(crate) fn hold(job: JobId) -> Result<(), Stop> {
    change(job, Change::Hold(true))
}

/// Lets a job go on that is held, or that its terminal has stopped.
pub(crate) fn resume(job: JobId) -> Result<(), Stop> {
    let table = look()?;
    change(job, Change::Hold(false))?;
    let before = table.as_ref().and_then(|(state, _)| state.job(job).ok());
    if let Some(suspended) = before.filter(|job| job.is_suspended) {
        // Its starter has stopped itself, and continues the ranks when it continues, as for `bg`.
        let sent = cosched::processes::signal(suspended.starter(), Signal::CONT.as_raw());
        return sent.with_context(|| format!("cannot continue job {job}")).or_failed();
    }
    if before.is_some_and(|job| !job.is_held) {
        print_message(format_args!("rowlock: job {job} was neither held nor stopped by its terminal"));
    }
    Ok(())
}

/// Changes how a job takes turns.
pub(crate) fn set(arguments: &Set) -> Result<(), Stop> {
    let &prun::Change { weight, how: gang } = &arguments.change;
    change(arguments.job, Change::Set { weight, gang })
}

fn change(job: JobId, change: Change) -> Result<(), Stop> {
    if let Some(mut client) = pds::find()? {
        return client.change(job, change).map_err(pds::stop);
    }
    let table = Table::find(&cosched::place()).or_failed()?;
    match table.ok_or_else(|| absent(job))?.update(|state, now| change.apply(state, job, now)) {
        Err(AgentError::State(StateError::Unknown(job))) => Err(absent(job)),
        Err(AgentError::State(why)) => Err(Stop::Input(why.into())),
        done => done.or_failed(),
    }
}

/// Why a job is not in the table: a detached one that has ended is listed nevertheless.
fn absent(job: JobId) -> Stop {
    let place = std::path::absolute(cosched::place()).ok();
    let record = place.and_then(|place| Spool::find(&place)?.record(job));
    if record.is_some_and(|record| !matches!(record.end(), End::None)) {
        return Stop::Input(anyhow!("job {job} has ended; `rowlock attach {job}` shows its output"));
    }
    Stop::Input(StateError::Unknown(job).into())
}

/// The table of pds if that is there, or that of this user.
pub(crate) fn look() -> Result<Option<(Arc<State>, Measured)>, Stop> {
    match pds::find()? {
        Some(mut client) => client.table().map_err(pds::stop),
        None => Table::look(&cosched::place()).or_failed(),
    }
}

/// All jobs, as `rowlock jobs` prints them.
#[derive(Serialize)]
struct List {
    /// How long a turn lasts.
    slice_ns: Option<u64>,
    jobs: Vec<Row>,
    /// The cells of each slice that takes turns, row by row.
    slices: Vec<Vec<String>>,
    switches: Option<Switches>,
}

/// The times of switches of all jobs, each too high by at most an eighth or 1 us.
#[derive(Serialize)]
struct Switches {
    lateness_median_ns: u64,
    lateness_90_percent_ns: u64,
    duration_median_ns: u64,
    duration_90_percent_ns: u64,
    skew_median_ns: u64,
    skew_90_percent_ns: u64,
}

#[derive(Serialize)]
struct Row {
    job: u32,
    /// Its owner, if the table is that of several users.
    user: Option<u32>,
    agent: u32,
    ranks: u32,
    state: &'static str,
    how: Option<&'static str>,
    class: Option<&'static str>,
    mechanism: Option<&'static str>,
    weight: Option<u32>,
    cells: Option<String>,
    /// The slices that the job is in, from 0.
    slices: Vec<usize>,
    /// The number that jobs with common turns share.
    task: u32,
    /// The share of the CPU time of its last turns that it has used. `None` if it takes no turns.
    share: Option<f64>,
    /// The CPU time that was stolen from this virtual machine since the job was entered.
    stolen_ns: u64,
    seconds: f64,
    command: String,
    /// Of a detached job that has ended, unless its agent was killed.
    exit_code: Option<i32>,
}

impl List {
    fn read() -> Result<List, Stop> {
        let place = std::path::absolute(cosched::place()).or_failed()?;
        List::of(look, || Spool::find(&place).map(|spool| spool.jobs()).unwrap_or_default())
    }

    /// A detached job says how it has ended before it leaves the table. So one that ends meanwhile
    /// is in the table, which is read first, or in the spool.
    fn of(
        table: impl FnOnce() -> Result<Option<(Arc<State>, Measured)>, Stop>,
        spool: impl FnOnce() -> Vec<(JobId, Record)>,
    ) -> Result<List, Stop> {
        let (table, now) = (table()?, cosched::now());
        let jobs = table.iter().flat_map(|(state, _)| state.jobs());
        // The next change removes the others.
        let alive: Vec<(JobId, &Job)> = jobs.filter(|(_, job)| job.agent().is_alive()).collect();
        let ended = |(id, record): (_, Record)| Some((record.agent(), ended_row(id, &record)?));
        let ended: Vec<(Identity, Row)> = spool().into_iter().filter_map(ended).collect();
        let Some((state, Measured { times, shares })) = &table else {
            let jobs = ended.into_iter().map(|(_, row)| row).collect();
            return Ok(List { slice_ns: None, jobs, slices: Vec::new(), switches: None });
        };
        // Another table may have given the same number to a job.
        let has_ended =
            |id: JobId, job: &Job| ended.iter().any(|(agent, row)| (row.job, *agent) == (id.0, job.starter()));
        let alive: Vec<Row> = alive
            .into_iter()
            .filter(|&(id, job)| !has_ended(id, job))
            .map(|(id, job)| row(state, shares, id, job, now))
            .collect();
        let rows = ended.into_iter().map(|(_, row)| row).chain(alive).collect();
        let nanos = |span: Option<Span>| span.map_or(0, Span::as_nanos);
        let Times { lateness, duration, skew, delay: _ } = times;
        let switches = lateness.median.map(|_| Switches {
            lateness_median_ns: nanos(lateness.median),
            lateness_90_percent_ns: nanos(lateness.of_90_percent),
            duration_median_ns: nanos(duration.median),
            duration_90_percent_ns: nanos(duration.of_90_percent),
            skew_median_ns: nanos(skew.median),
            skew_90_percent_ns: nanos(skew.of_90_percent),
        });
        let mesh = state.topology().mesh();
        let slices = state.slices(now).iter().map(|slice| slice.rows(mesh)).collect();
        Ok(List { slice_ns: Some(state.slice().as_nanos()), jobs: rows, slices, switches })
    }

    /// A text, whose lines have at most so many characters.
    fn text(&self, width: Option<usize>) -> String {
        if self.jobs.is_empty() {
            return "no jobs\n".to_owned();
        }
        let mut text = width.map_or_else(|| self.table(&[]), |width| self.narrow_table(width));
        let lines: String = self.drawing().iter().map(|line| format!("{}\n", fitted(line, width))).collect();
        text += &lines;
        if let Some(switches) = &self.switches {
            let micros = |nanos: u64| Span::from_nanos(nanos).to_string();
            let sentence = format!(
                "switches: at most {} late in the median and {} in 90 %; they take at most {} and {}, of which {} and {} \
                 from the first process that runs again to the last",
                micros(switches.lateness_median_ns),
                micros(switches.lateness_90_percent_ns),
                micros(switches.duration_median_ns),
                micros(switches.duration_90_percent_ns),
                micros(switches.skew_median_ns),
                micros(switches.skew_90_percent_ns)
            );
            text += &wrap(&sentence, width.unwrap_or(usize::MAX));
            text.push('\n');
        }
        text
    }

    /// The cells of the slices, side by side. Empty if each slice has one job: then the table says
    /// them.
    fn drawing(&self) -> Vec<String> {
        let jobs = |rows: &Vec<String>| {
            let words = rows.iter().flat_map(|row| row.split_ascii_whitespace());
            words.filter(|&word| word != ".").collect::<BTreeSet<&str>>().len()
        };
        if self.slices.iter().all(|rows| jobs(rows) < 2) {
            return Vec::new();
        }
        let named = |(number, rows): (usize, &Vec<String>)| [&[format!("slice {number}")], &rows[..]].concat();
        let columns: Vec<Vec<String>> = self.slices.iter().enumerate().map(named).collect();
        let width = |column: &Vec<String>| column.iter().map(String::len).max().unwrap_or(0);
        let line = |line: usize| {
            let cells = columns.iter().map(|column| format!("{:<1$}", column[line], width(column)));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        (0..columns[0].len()).map(line).collect()
    }

    /// The table without columns for which there is no room, and with as much of the commands as
    /// there is room for.
    fn narrow_table(&self, width: usize) -> String {
        let fits = |table: &String| table.lines().next().is_some_and(|names| names.len() + ROOM <= width);
        let mut tables = (0..DISPENSABLE.len()).map(|number| self.table(&DISPENSABLE[..number]));
        let table = tables.find(fits).unwrap_or_else(|| self.table(&DISPENSABLE));
        table.lines().map(|line| format!("{}\n", fitted(line, Some(width)))).collect()
    }

    fn table(&self, left_out: &[&str]) -> String {
        let mut table = TextTable::new(COLUMNS, COLUMNS.len());
        for row in &self.jobs {
            let slices: Vec<String> = row.slices.iter().map(ToString::to_string).collect();
            let cells = [
                Some(row.job.to_string()),
                row.user.map(|user| user.to_string()),
                Some(row.exit_code.map_or(row.state.to_owned(), |code| format!("ended: {code}"))),
                row.how.map(str::to_owned),
                row.class.map(str::to_owned),
                row.mechanism.map(str::to_owned),
                row.cells.clone(),
                Some(slices.join(",")).filter(|slices| !slices.is_empty()),
                row.weight.map(|weight| weight.to_string()),
                row.share.map(|share| format!("{:.0}%", share * 100.0)),
                Some(Span::from_nanos(row.stolen_ns))
                    .filter(|stolen| !stolen.is_zero())
                    .map(|stolen| stolen.to_string()),
                Some(row.ranks.to_string()),
                Some(format!("{:.0}", row.seconds)),
                Some(word(&row.command).into_owned()),
            ];
            let shown = |(cell, name): (_, &&str)| if left_out.contains(name) { None } else { cell };
            table.row(cells.into_iter().zip(&COLUMNS).map(shown));
        }
        table.render(WIDTH)
    }
}

/// The part of a line for which there is room.
fn fitted(line: &str, width: Option<usize>) -> String {
    line.chars().take(width.unwrap_or(usize::MAX)).collect()
}

fn row(state: &State, shares: &BTreeMap<u32, u32>, id: JobId, job: &Job, now: policy::Instant) -> Row {
    let facts = state.facts(id);
    let (task, takes_turns) = (state.task(id), facts.is_some_and(|facts| facts.takes_turns()));
    let is_in = |jobs: &[(JobId, Rectangle)]| takes_turns && jobs.iter().any(|&(other, _)| other == task);
    let slices = state.slices(now).iter().enumerate().filter(|(_, slice)| is_in(&slice.jobs)).map(|(number, _)| number);
    Row {
        job: id.0,
        user: job.user(),
        agent: job.starter().pid,
        ranks: job.ranks,
        state: match state.action(id, now) {
            _ if job.is_queued() => "queued",
            None => "suspended",
            _ if job.is_held => "held",
            Some(Action::Stop) => "waits",
            Some(Action::Lower) => "lowered",
            Some(Action::Run) => "runs",
        },
        how: facts.map(|facts| facts.gang.name()),
        class: facts.and_then(class),
        mechanism: match &job.lower_by {
            Some(lower_by) if facts.is_some_and(|facts| facts.gang == Gang::Moderate) => Some(lower_by.name()),
            _ => job.stop_by.as_ref().map(StopBy::name),
        },
        weight: facts.map(|facts| facts.weight),
        cells: job.cells.map(|cells| format!("{}+{}+{}", cells.shape, cells.column, cells.row)),
        slices: slices.collect(),
        task: task.0,
        share: shares.get(&id.0).map(|&thousandths| f64::from(thousandths) / 1000.0),
        stolen_ns: (cosched::stolen() - job.stolen).as_nanos(),
        seconds: now.since(job.entered).as_secs_f64(),
        command: job.command.clone(),
        exit_code: None,
    }
}

/// A detached job that has ended. `None` for one that runs.
fn ended_row(id: JobId, record: &Record) -> Option<Row> {
    let (exit_code, seconds) = match record.end() {
        End::None => return None,
        End::Ended(status, seconds) => (status.code().or_else(|| Some(128 + status.signal()?)), seconds),
        End::Killed => (None, 0.0),
    };
    Some(Row {
        job: id.0,
        user: None,
        agent: record.agent().pid,
        ranks: record.ranks,
        state: "ended",
        how: None,
        class: None,
        mechanism: None,
        weight: None,
        cells: None,
        slices: Vec::new(),
        task: id.0,
        share: None,
        stolen_ns: 0,
        seconds,
        command: record.command.clone(),
        exit_code,
    })
}

fn class(facts: JobFacts) -> Option<&'static str> {
    match facts.class {
        Class::Unknown => None,
        Class::Spins => Some("spins"),
        Class::Blocks => Some("blocks"),
        Class::Computes => Some("computes"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cosched::Entering;
    use cosched::topology::Topology;

    use super::*;
    use crate::spool::tests::{ended, killed};

    /// A table with a job of this process.
    fn table() -> (Arc<State>, Measured) {
        let mut state = State::new(Topology::of_this_machine(&sys::cpus::allowed().unwrap()), Span::from_millis(20));
        let entering = Entering {
            agent: Identity::own(),
            stolen: cosched::stolen(),
            command: String::new(),
            ranks: 1,
            request: None,
            weight: 1,
            gang: Gang::None,
            with: None,
            waits_for_cells: false,
            memory: None,
            client: None,
            program: None,
        };
        state.enter(&entering, cosched::now()).unwrap();
        (Arc::new(state), Measured::default())
    }

    #[test]
    fn the_list_for_programs_says_its_version_once() {
        let list = List::of(|| Ok(Some(table())), Vec::new).unwrap();
        assert_eq!(report::json::render(&list).unwrap().matches("schema_version").count(), 1);
    }

    #[test]
    fn slices_with_several_jobs_are_drawn_side_by_side() {
        let mut list = List::of(|| Ok(Some(table())), Vec::new).unwrap();
        let slice = |rows: &[&str]| rows.iter().map(|&row| row.to_owned()).collect::<Vec<_>>();
        list.slices = vec![slice(&["3 3", ". ."]), slice(&["14 14", "14 14"])];
        assert!(list.drawing().is_empty(), "each has one job");
        list.slices[0][1] = "5 .".to_owned();
        assert_eq!(list.drawing(), ["slice 0  slice 1", "3 3      14 14", "5 .      14 14"]);
        assert!(list.text(None).contains("\n3 3      14 14\n"), "{}", list.text(None));
        assert!(list.text(Some(20)).lines().all(|line| line.len() <= 20));
    }

    fn states(list: &List) -> Vec<&'static str> {
        list.jobs.iter().map(|row| row.state).collect()
    }

    #[test]
    fn lines_for_a_terminal_are_not_longer_than_it_is_wide_and_show_the_state_first() {
        let mut long = ended();
        long.command = "sleep ".repeat(100);
        let mut list = List::of(|| Ok(Some(table())), || vec![(JobId(7), long)]).unwrap();
        let nanos = 1_000_000;
        list.switches = Some(Switches {
            lateness_median_ns: nanos,
            lateness_90_percent_ns: nanos,
            duration_median_ns: nanos,
            duration_90_percent_ns: nanos,
            skew_median_ns: nanos,
            skew_90_percent_ns: nanos,
        });
        assert!(list.text(None).contains(list.jobs[0].command.trim_end()), "it is complete in a file");
        for width in [20, 40, 80, 200] {
            let text = list.text(Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("ended: 0") && text.contains("runs"), "{text}");
            assert_eq!(text.contains("sleep sleep"), width >= 40, "{text}");
        }
    }

    #[test]
    fn a_job_that_ends_meanwhile_is_listed() {
        // It ends and leaves the table after the first reading, whichever that is.
        let is_over = Cell::new(false);
        let table = || Ok(Some(table()).filter(|_| !is_over.replace(true)));
        let spool = || vec![(JobId(1), if is_over.replace(true) { ended() } else { Record::new(String::new(), 1) })];
        assert_eq!(states(&List::of(table, spool).unwrap()), ["ended"]);
    }

    #[test]
    fn a_job_with_the_number_of_one_that_has_ended_is_listed_as_well() {
        let list = List::of(|| Ok(Some(table())), || vec![(JobId(1), killed())]).unwrap();
        assert_eq!(states(&list), ["ended", "runs"]);
        let list = List::of(|| Ok(Some(table())), || vec![(JobId(1), ended())]).unwrap();
        assert_eq!(states(&list), ["ended"], "it is about to leave the table");
    }
}
