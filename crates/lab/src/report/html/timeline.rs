//! What the threads of the barrier jobs were doing, run by run: areas of states over time.

use super::page::Section;
use super::{figures, folded};
use crate::plot::axis::Axis;
use crate::plot::course;
use crate::plot::svg::{Words, escape};
use crate::report::Report;
use crate::states::{Course, History, JobStates, State};
use crate::words;

pub(super) fn section(report: &Report, histories: &[History]) -> Section {
    let mut shown = histories.iter().enumerate().filter(|(_, history)| !history.jobs.is_empty());
    let Some((_, first)) = shown.next() else {
        return Section { id: "threads", title: "The threads", body: String::new() };
    };
    let others: String = shown.map(|(number, history)| folded(&name(report, history), &run(history, number))).collect();
    let states = super::distinct(histories.iter().flat_map(states), |state| *state);
    let legend: String = states.into_iter().map(|state| key(state.name(), meaning(state))).collect();
    let others = if others.is_empty() { others } else { format!("<h3>Other runs</h3>\n{others}") };
    let body = format!(
        "<p>How many threads of a job were in which state, one upon the other, as time goes on.</p>\n\
         <ul class=\"legend\">\n{legend}</ul>\n<h3>{}</h3>\n{}{others}",
        escape(&name(report, first)),
        run(first, 0)
    );
    Section { id: "threads", title: "The threads", body }
}

/// An entry of a legend: a colour and what it means.
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
    history.jobs.iter().flat_map(|job| job.whole.layers.iter().map(|(state, _)| *state))
}

fn name(report: &Report, history: &History) -> String {
    let arm = super::heading(report, &history.factors, &[]);
    let comma = if arm.is_empty() { "" } else { ", " };
    format!("{}{comma}{arm}, seed {}", history.world.name(), history.seed)
}

fn run(history: &History, number: usize) -> String {
    let job = |(job, states): (usize, &JobStates)| {
        let course = |part: &str, title: String, course: &Course| {
            figure(states, course, format!("course-{number}-{job}-{part}"), title)
        };
        let length = words::time(states.whole.length() as f64);
        let whole = course("whole", format!("{}, the whole run of {length}", states.job), &states.whole);
        let beginning = states.beginning.as_ref().map(|beginning| {
            let length = words::time(beginning.length() as f64);
            course("beginning", format!("{}, the first {length}, every change", states.job), beginning)
        });
        whole + &beginning.unwrap_or_default()
    };
    history.jobs.iter().enumerate().map(job).collect()
}

fn figure(states: &JobStates, course: &Course, id: String, title: String) -> String {
    let unit = figures::unit_of_time(course.length() as f64);
    let edge = |edge: Option<&u64>| edge.copied().unwrap_or(0) as f64 / unit.0;
    let axis = Axis::linear(edge(course.edges.first()), edge(course.edges.last()));
    let caption = escape(&title).into_owned();
    let words = Words { id, title, description: description(course, states.threads) };
    let drawing = course::render(&words, course, states.threads, &axis, unit);
    format!("<figure class=\"wide\">\n<figcaption>{caption}</figcaption>\n{drawing}</figure>\n")
}

/// What the drawing comes to: the share of the threads' time in each state.
fn description(course: &Course, threads: u32) -> String {
    let all = f64::from(threads.max(1)) * (course.length() as f64).max(1.0);
    let share = |(state, means): &(State, Vec<f64>)| {
        let spent = means.iter().zip(course.edges.windows(2)).map(|(mean, edges)| mean * (edges[1] - edges[0]) as f64);
        format!("{} {:.0} %", state.name(), spent.sum::<f64>() / all * 100.0)
    };
    let shares: Vec<String> = course.layers.iter().map(share).collect();
    format!("Of the time of {threads} threads: {}.", shares.join(", "))
}
