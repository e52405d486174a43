//! The states of the threads of each observed run over time.

use super::wide_figure;
use crate::results::html::course::{self, Moment};
use crate::results::html::strips;
use crate::results::{ExperimentReport, text};
use crate::sample::History;
use crate::states::{Alternation, EffectiveLoad, JobStates, Level, NativeCpus, Rounds, State, StateTimeline, total};
use report::html::folded;
use report::html::page::Section;
use report::plot::svg::{Words, escape};
use report::words;

pub(super) fn section(report: &ExperimentReport, histories: &[History]) -> Section {
    let mut shown = histories.iter().enumerate().filter(|(_, history)| !history.states.jobs.is_empty());
    let Some((_, first)) = shown.next() else {
        return Section { id: "threads", title: "The threads", body: String::new() };
    };
    let others: String = shown.map(|(number, history)| folded(&name(report, history), &run(history, number))).collect();
    let states = report::distinct(histories.iter().flat_map(states), |state| *state);
    let legend: String = states.into_iter().map(|state| key(state.name(), meaning(state))).collect();
    let others = if others.is_empty() { others } else { format!("<h3>Other runs</h3>\n{others}") };
    let body = format!(
        "<p>The number of threads of a job in each state over time, stacked.</p>\n\
         <ul class=\"legend\">\n{legend}</ul>\n<h3>{}</h3>\n{}{others}",
        escape(&name(report, first)),
        run(first, 0)
    );
    Section { id: "threads", title: "The threads", body }
}

/// An entry of a legend: a colour and its meaning.
pub(super) fn key(class: &str, meaning: &str) -> String {
    format!(
        "<li><svg class=\"key\" viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect class=\"area {class}\" x=\"0.5\" \
         y=\"0.5\" width=\"11\" height=\"11\"/></svg> {meaning}</li>\n"
    )
}

fn meaning(state: State) -> &'static str {
    match state {
        State::Switching => "switching (or in a yield)",
        State::Ready => "ready, without a CPU",
        State::Blocked => "blocked (left empty)",
        State::Runnable => "running or ready (host)",
        State::Sleeping => "sleeping (host; left empty)",
        State::Computing | State::Spinning => state.name(),
    }
}

fn states(history: &History) -> impl Iterator<Item = State> + '_ {
    history.states.jobs.iter().flat_map(|job| job.whole.layers.iter().map(|(state, _)| *state))
}

fn name(report: &ExperimentReport, history: &History) -> String {
    let arm = text::in_order(report, &history.factors, |_| true);
    let comma = if arm.is_empty() { "" } else { ", " };
    format!("{}{comma}{arm}, seed {}", history.world.name(), history.seed)
}

fn run(history: &History, number: usize) -> String {
    let job = |(job, states): (usize, &JobStates)| {
        let course = |part: &str, title: String, course: &StateTimeline| {
            figure(states, course, format!("course-{number}-{job}-{part}"), title)
        };
        let length = words::time(states.whole.length() as f64);
        let whole = course("whole", format!("{}, the whole run of {length}", states.job), &states.whole);
        let beginning = states.beginning.as_ref().map(|beginning| {
            let length = words::time(beginning.length() as f64);
            course("beginning", format!("{}, the first {length}, every change", states.job), beginning)
        });
        let natives =
            states.natives.as_ref().map(|natives| native_cpus(states, natives, format!("natives-{number}-{job}")));
        let found = states.alternation.as_ref().zip(states.rounds.as_ref());
        let groups = found.map(|(found, rounds)| groups(states, found, rounds, format!("groups-{number}-{job}")));
        [Some(whole), groups, natives, beginning].into_iter().flatten().collect::<String>()
    };
    let load = history.states.load.as_ref().map(|load| effective_load(load, format!("load-{number}")));
    history.states.jobs.iter().enumerate().map(job).chain(load).collect()
}

fn figure(states: &JobStates, course: &StateTimeline, id: String, title: String) -> String {
    let words = Words { id, title, description: description(course, states.threads) };
    wide_figure(&words.title, &course::render(&words, course, states.threads, &moments(states)))
}

/// The events of the whole job.
fn moments(states: &JobStates) -> Vec<Moment> {
    let alternation = states.alternation.iter().flat_map(|found| {
        let end = found.until_ns.map(|at| (at, "end of alternation"));
        [(found.at_ns, "alternating synchronization")].into_iter().chain(end)
    });
    let transition = states.transition.iter().map(|found| (found.at_ns, "transition point"));
    alternation.chain(transition).map(|(at, what)| Moment { at: at.as_nanos(), what }).collect()
}

/// The number of rounds that are drawn.
const ROUNDS: usize = 60;

/// The two groups of threads that alternate, round by round.
fn groups(states: &JobStates, found: &Alternation, rounds: &Rounds, id: String) -> String {
    let [one, other] = &found.members;
    let first = (found.round as usize).saturating_sub(5);
    let shown = first..(first + ROUNDS).min(rounds.at.len());
    let sentence = format!(
        "{}: {}. In each of these rounds {:.0} % of the threads change sides, and {:.0} % are in the same group at the end as \
         at the beginning.",
        states.job,
        found.words(),
        found.clean_percent,
        found.kept_percent
    );
    let title = format!("{}, the threads that passed each round awake, from the beginning of the groups", states.job);
    let numbers = |group: &[usize]| group.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let description = format!(
        "A strip for each thread: first those of one group, {}, then those of the other, {}.",
        numbers(one),
        numbers(other)
    );
    let order: Vec<usize> = one.iter().chain(other).copied().collect();
    let words = Words { id, title, description };
    let drawing = strips::render(&words, rounds, shown, &order, one.len());
    format!("<p>{}</p>\n{}", escape(&sentence), wide_figure(&words.title, &drawing))
}

/// The number of runnable threads on the whole machine.
fn effective_load(EffectiveLoad { cpus, runnable, all }: &EffectiveLoad, id: String) -> String {
    let (could, there) = (runnable.mean(), all.mean());
    let cpus = f64::from((*cpus).max(1));
    let title = format!(
        "The effective load: of {there:.1} threads on average, {could:.1} could run; {:.2} and {:.2} for each CPU",
        there / cpus,
        could / cpus
    );
    let description = "Threads of all jobs that had a CPU or waited for one; the others slept.".to_owned();
    let most = all.means.iter().copied().fold(1.0, f64::max);
    let words = Words { id, title, description };
    wide_figure(&words.title, &course::render_level(&words, runnable, (most, &format!("{most:.0} threads")), &[]))
}

/// The CPUs on which the threads last ran, and their number.
fn native_cpus(states: &JobStates, natives: &NativeCpus, id: String) -> String {
    let NativeCpus { count, set } = natives;
    let title = format!("{}, on how many CPUs its threads last ran", states.job);
    let description = format!("On average {:.1} CPUs, for {} threads.", count.mean(), states.threads);
    let most = format!("{} CPUs, one for each thread", states.threads);
    let moments = moments(states);
    let words = Words { id: id.clone(), title, description };
    let most = (f64::from(states.threads.max(1)), most.as_str());
    let number = wide_figure(&words.title, &course::render_level(&words, count, most, &moments));
    if set.is_empty() {
        return number;
    }
    let title = format!("{}, on which CPUs its threads last ran", states.job);
    let cpus = set.iter().map(|(cpu, _)| cpu.0.to_string()).collect::<Vec<_>>().join(", ");
    let caption = format!("{title}: a strip for each of the CPUs {cpus}");
    let description = format!("A strip for each of the CPUs {cpus}, filled while it is one of them.");
    let levels: Vec<&Level> = set.iter().map(|(_, level)| level).collect();
    let length = count.edges.last().copied().unwrap_or(0) as f64;
    let words = Words { id: format!("{id}-set"), title, description };
    let drawing = strips::render_levels(&words, &levels, &moments, ["0", &words::time(length)]);
    number + &wide_figure(&caption, &drawing)
}

/// The share of the threads' time in each state.
fn description(course: &StateTimeline, threads: u32) -> String {
    let all = f64::from(threads.max(1)) * (course.length() as f64).max(1.0);
    let share = |(state, means): &(State, Vec<f64>)| {
        format!("{} {:.0} %", state.name(), total(&course.edges, means) / all * 100.0)
    };
    let shares: Vec<String> = course.layers.iter().map(share).collect();
    format!("Of the time of {threads} threads: {}.", shares.join(", "))
}
