//! The HTML page of the study of user-level threads.

use crate::text::INCOMPLETE;
use crate::threads::programs::Program;
use crate::threads::report::ThreadsReport;
use crate::threads::runs::Temperature;
use crate::threads::table::{ResponseRow, TIMES};
use crate::threads::text;
use report::distinct;
use report::html::page::{Section, page, sentence};
use report::html::table::{self, Cell, Column};
use report::html::{figure, grid, list};
use report::plot::axis::Axis;
use report::plot::bars::{self, Bar};
use report::plot::lines::{self, Line};
use report::plot::svg::Words;
use report::plot::{Mark, SERIES, Style};
use report::words;
use stats::median::Median;

/// The whole page.
pub fn render(report: &ThreadsReport) -> String {
    let sections = [
        verdict(report),
        Section { id: "plots", title: "Results", body: plots(report) },
        Section { id: "figures", title: "All figures", body: tables(report) },
    ];
    page(report.paper.name, &text::method(report), &sections)
}

fn verdict(report: &ThreadsReport) -> Section {
    let incomplete = if report.complete { String::new() } else { format!("<p>{INCOMPLETE}</p>\n") };
    let notes = match report.notes.as_slice() {
        [] => String::new(),
        notes => format!("<h3>Caveats</h3>\n{}", list(notes)),
    };
    let sentences = text::sentences(report);
    let sentences = if sentences.is_empty() { String::new() } else { list(&sentences) };
    let body = format!("<p>{}</p>\n{incomplete}{sentences}{notes}", sentence(&report.paper.statement()));
    Section { id: "verdict", title: "Against the study", body }
}

/// The distinct arms of the report's rows, in their order.
fn arms<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    distinct(all.map(String::as_str), |arm| (*arm).to_owned())
}

/// There are more arms than colours. The last arms have hollow marks.
fn style(arm: usize) -> Style {
    Style { series: arm % SERIES, hollow: arm >= SERIES }
}

fn mark(us: &Median) -> Mark {
    Mark { estimate: us.estimate(), samples: Vec::new() }
}

fn plots(report: &ThreadsReport) -> String {
    let mut body = String::new();
    for at in Temperature::ALL {
        let lines = over_threads(report, at);
        if !lines.is_empty() {
            body.push_str(&format!("<h3>Execution time, {}</h3>\n{}", at.name(), grid(&[lines])));
            body.push_str(&grid(&for_each_number(report, at)));
        }
    }
    for program in text::programs(report) {
        let name = program.name();
        let description = sentence(&format!("{name}: {}.", program.description()));
        body += &format!("<h3>{name}</h3>\n<p>{description}</p>\n{}", grid(&response_charts(report, program)));
    }
    if !body.is_empty() {
        body.insert_str(0, "<p>Bars and marks are medians over the runs, with their 95 % intervals.</p>\n");
    }
    body
}

/// All arms over the number of threads.
fn over_threads(report: &ThreadsReport, at: Temperature) -> String {
    let rows = || report.rows.iter().filter_map(|row| Some((row, row.us(at)?)));
    let threads = distinct(rows().map(|(row, _)| row.threads), |threads| *threads);
    if threads.len() < 2 {
        return String::new();
    }
    let numbers: Vec<(f64, String)> =
        threads.iter().map(|threads| (f64::from(*threads), threads.to_string())).collect();
    let line = |(number, arm): (usize, &str)| {
        let points = rows().filter(|(row, _)| row.arm == arm);
        let points = points.map(|(row, us)| (f64::from(row.threads), mark(&us))).collect();
        Line { label: arm.to_owned(), style: style(number), points }
    };
    let names = arms(report.rows.iter().map(|row| &row.arm));
    let lines = names.iter().copied().enumerate().map(line).collect();
    let caption = format!("Execution time in us over the number of threads, {}", at.name());
    let words = Words {
        id: format!("lines-{}", at.name()),
        title: caption.clone(),
        description: format!("{}.", names.join(", ")),
    };
    let (x, y) = (Axis::of_numbers(&numbers), Axis::fitting(rows().map(|(_, us)| us.median)));
    figure(&caption, &lines::Chart { words, x: &x, x_label: "threads", y: &y, reference: None, lines }.render())
}

/// A bar chart for each number of threads, as in the study.
fn for_each_number(report: &ThreadsReport, at: Temperature) -> Vec<String> {
    let names = arms(report.rows.iter().map(|row| &row.arm));
    let threads = distinct(report.rows.iter().map(|row| row.threads), |threads| *threads);
    let chart = |threads: u32| {
        let of = names.iter().enumerate().filter_map(|(number, name)| {
            let row = report.rows.iter().find(|row| row.threads == threads && row.arm == *name)?;
            Some((number, *name, row.us(at)?))
        });
        let id = format!("bars-{}-{threads}", at.name());
        bars(id, format!("{threads} threads, {}: execution time", at.name()), &of.collect::<Vec<_>>())
    };
    threads.into_iter().map(chart).collect()
}

/// A bar chart for each percentile.
fn response_charts(report: &ThreadsReport, program: Program) -> Vec<String> {
    let rows: Vec<&ResponseRow> = report.responses.iter().filter(|row| row.program == program).collect();
    let chart = |(at, name): (usize, &str)| {
        let of: Vec<_> =
            rows.iter().enumerate().map(|(number, row)| (number, row.arm.as_str(), row.times()[at])).collect();
        bars(format!("{}-{name}", program.name()), format!("{}: {name} of the response time", program.name()), &of)
    };
    // The total is not a response time.
    TIMES.into_iter().enumerate().skip(1).map(chart).collect()
}

fn bars(id: String, caption: String, of: &[(usize, &str, Median)]) -> String {
    let longest = of.iter().map(|(.., us)| us.interval.map_or(us.median, |(_, high)| high)).fold(0.0, f64::max);
    let (unit, name) = if longest >= 10_000.0 { (1e3, "ms") } else { (1.0, "us") };
    let bar = |(number, name, us): &(usize, &str, Median)| Bar {
        name: (*name).to_owned(),
        style: style(*number),
        mark: mark(us).scaled(unit),
    };
    let caption = format!("{caption} in {name}");
    let value = |(_, name, us): &(usize, &str, Median)| format!("{name} {}", words::significant(us.median / unit, 3));
    let description = format!("{}.", of.iter().map(value).collect::<Vec<_>>().join(", "));
    let words = Words { id, title: caption.clone(), description };
    let x = Axis::linear(0.0, longest / unit);
    figure(&caption, &bars::Chart { words, x: &x, bars: &of.iter().map(bar).collect::<Vec<_>>() }.render())
}

fn tables(report: &ThreadsReport) -> String {
    let ThreadsReport { rows, factors, responses, simulated, .. } = report;
    let time = |us: Option<Median>| us.map(|us| Cell::number(&text::time(&us), us.median)).unwrap_or_default();
    let exact = |us: Option<f64>| time(us.map(text::exact));
    let count =
        |count: Option<u64>| count.map(|count| Cell::number(&count.to_string(), count as f64)).unwrap_or_default();
    let times = vec![
        Column::numbers("threads", rows.iter().map(|row| Some(f64::from(row.threads)))),
        Column::words("", rows.iter().map(|row| row.arm.clone())),
        Column::cells("the study", rows.iter().map(|row| exact(row.study_us))),
        Column::cells("cold", rows.iter().map(|row| time(Some(row.cold_us)))),
        Column::cells("warm", rows.iter().map(|row| time(row.warm_us))),
        Column::cells("demotions", rows.iter().map(|row| count(row.demotions))),
    ];
    let ratio = |ratio: Median| Cell::number(&words::ratio(&ratio.estimate()), ratio.median);
    let ratios = vec![
        Column::numbers("threads", factors.iter().map(|factor| Some(f64::from(factor.threads)))),
        Column::words("against", factors.iter().map(|factor| factor.against.clone())),
        Column::words("runs", factors.iter().map(|factor| factor.at.name().to_owned())),
        Column::cells("times as fast", factors.iter().map(|factor| ratio(factor.times_as_fast))),
    ];
    let mut measured = vec![
        Column::words("program", responses.iter().map(|row| row.program.name().to_owned())),
        Column::words("", responses.iter().map(|row| row.arm.clone())),
    ];
    let mut predicted = vec![
        Column::words("program", simulated.iter().map(|row| row.program.name().to_owned())),
        Column::numbers("threads", simulated.iter().map(|row| (row.threads > 0).then(|| f64::from(row.threads)))),
        Column::words("", simulated.iter().map(|row| row.arm.clone())),
    ];
    for (at, name) in TIMES.into_iter().enumerate() {
        measured.push(Column::cells(name, responses.iter().map(|row| time(Some(row.times()[at])))));
        predicted.push(Column::cells(name, simulated.iter().map(|row| exact(row.times()[at]))));
    }
    measured.push(Column::cells("demotions", responses.iter().map(|row| count(row.demotions))));
    predicted.push(Column::cells("demotions", simulated.iter().map(|row| count(row.demotions))));
    let medians = "Response times: medians over the runs of each run's percentiles [95 %]";
    table::render("times", "The study's program: medians [95 %]", times)
        + &table::render("factors", text::FACTORS, ratios)
        + &table::render("responses", medians, measured)
        + &table::render("simulated", "The same in the simulator", predicted)
}
