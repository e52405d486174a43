//! Tables of artificial runs.

use crate::recording::run;
use crate::report;
use crate::runs::Run;
use crate::sheet::Sheet;

fn tables(runs: &[Run]) -> String {
    let mut out = String::new();
    report::write(&mut out, &Sheet::of(runs), 1).unwrap();
    out
}

/// Both copies of pthread at 100, and the other arm at this rate, in two cells.
fn runs(other: f64) -> Vec<Run> {
    let cell = |hogs| {
        let runs = (0..4).flat_map(|n| [run("pthread", n, 100.0), run("rule:2cs+", n, other)]);
        let copies = (0..4).map(|n| Run { copy: 2, ..run("pthread", n, 100.0) });
        runs.chain(copies).map(move |run| Run { hogs, ..run }).collect::<Vec<Run>>()
    };
    [cell(0), cell(2)].concat()
}

#[test]
fn a_cell_shows_ratios_to_the_baseline_and_a_star_at_those_near_the_best() {
    let text = tables(&runs(89.0));
    assert!(text.contains("| 2, 0, 500 ns | 100* | 0.89 |\n"), "{text}");
    assert!(tables(&runs(91.0)).contains("| 2, 0, 500 ns | 100* | 0.91* |\n"));
    assert!(tables(&runs(112.0)).contains("| 2, 0, 500 ns | 100 | 1.12* |\n"));
}

#[test]
fn an_arms_row_counts_cells_and_names_its_worst() {
    let text = tables(&runs(50.0));
    let row = text.lines().find(|line| line.starts_with("| `rule:2cs+` | 2 ")).unwrap();
    let half = "0.50 [0.50, 0.50]";
    assert_eq!(
        row,
        format!("| `rule:2cs+` | 2 | 0 | 0 | {half} | 0.50 | {half} at 2, 0, 500 ns | 2 | {half} | {half} | 1 |")
    );
}

#[test]
fn copies_show_the_noise() {
    let text = tables(&runs(50.0));
    let line = "`pthread` against itself: within 10 % of each other in 2 of 2 cells, the second at least 0.9 of the \
                first in 2; geometric mean 1.00 [1.00, 1.00].";
    assert!(text.contains(line), "{text}");
}

#[test]
fn an_uncontended_lock_is_reported_in_nanoseconds() {
    let alone = |run: Run| Run { threads: 1, work: "0 ns/0 ns".to_owned(), ..run };
    let runs = [alone(run("pthread", 0, 1e8)), alone(run("pthread", 1, 1e8))];
    assert!(tables(&runs).contains("| `pthread` | 10.0 |\n"));
}

/// The results of all goals in a text.
fn goals(text: &str) -> Vec<&str> {
    let goals = text.lines().skip_while(|line| !line.starts_with("Goals of `rule:adaptive`")).skip(4);
    goals.take_while(|line| line.starts_with('|')).filter_map(|line| line.split(" | ").last()).collect()
}

#[test]
fn goals_are_reached_or_missed_separately() {
    let runs = |[two, three]: [f64; 2], beside: f64| {
        let cell = |threads: u32, hogs: u32, speed: f64| {
            (0..4).flat_map(move |n| {
                let run = |arm, copy, rate| Run { copy, threads, hogs, ..run(arm, n, rate) };
                [run("pthread", 1, 100.0), run("rule:adaptive", 1, speed), run("rule:adaptive", 2, speed)]
            })
        };
        cell(2, 0, two).chain(cell(3, 0, three)).chain(cell(2, 2, beside)).collect::<Vec<Run>>()
    };
    let (reached, missed) = ("reached |", "missed |");
    for (alone, beside, expected) in [
        ([501.0, 301.0], 100.0, [reached; 6]),
        ([499.0, 301.0], 100.0, [reached, reached, reached, reached, missed, reached]),
        ([501.0, 299.0], 100.0, [reached, reached, reached, reached, reached, missed]),
        ([200.0, 301.0], 84.0, [reached, missed, reached, missed, missed, reached]),
        ([501.0, 301.0], 50.0, [missed, missed, missed, missed, reached, reached]),
        ([50.0, 301.0], 100.0, [missed, missed, missed, reached, missed, reached]),
    ] {
        assert_eq!(goals(&tables(&runs(alone, beside))), expected, "{alone:?} alone, {beside} beside hogs");
    }
}

#[test]
fn an_uncontended_lock_is_judged_separately() {
    let runs = |alone: f64, contended: f64| {
        let cell = |threads: u32, speed: f64| {
            let run = move |arm, n, rate| Run { threads, work: "100 ns/400 ns".to_owned(), ..run(arm, n, rate) };
            (0..4).flat_map(move |n| [run("parking_lot", n, 100.0), run("rule:adaptive", n, speed)])
        };
        cell(1, alone).chain(cell(4, contended)).collect::<Vec<Run>>()
    };
    assert_eq!(goals(&tables(&runs(91.0, 96.0))), ["reached |", "reached |"]);
    assert_eq!(goals(&tables(&runs(89.0, 150.0))), ["missed |", "reached |"]);
    assert_eq!(goals(&tables(&runs(200.0, 94.0))), ["reached |", "missed |"]);
}
