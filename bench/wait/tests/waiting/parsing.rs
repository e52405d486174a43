//! Parsing of cells and arms.

use policy::Span;

use crate::arms::{self, Arm, Label};
use crate::cells::{self, Cell, Work};

#[test]
fn there_are_56_cells_of_meetings() {
    let cells = Cell::meetings();
    assert_eq!(cells.len(), 56);
    for (hogs, count) in [(0, 16), (1, 12), (2, 16), (4, 12)] {
        assert_eq!(cells.iter().filter(|cell| cell.hogs == hogs).count(), count, "{hogs} hogs");
    }
    assert!(cells.iter().all(|cell| cells.iter().filter(|other| *other == cell).count() == 1));
    assert_eq!(cells::parse("alone", &cells).unwrap().len() + cells::parse("hogs", &cells).unwrap().len(), 56);
}

#[test]
fn cells_are_written_as_threads_hogs_and_work() {
    let cells = cells::parse("2:0:0.5us, 16:2:100ns/400ns", &[]).unwrap();
    let short = Work::Lock { inside: Span::from_nanos(100), outside: Span::from_nanos(400) };
    let fine = Work::Meet { grain: Span::from_nanos(500) };
    assert_eq!(cells, [Cell { threads: 2, hogs: 0, work: fine }, Cell { threads: 16, hogs: 2, work: short }]);
}

#[test]
fn the_printed_form_of_work_parses_to_the_same_work() {
    for cell in Cell::meetings().into_iter().chain(Cell::locks()) {
        assert_eq!(cell.work.to_string().parse(), Ok(cell.work));
    }
}

#[test]
fn an_invalid_cell_is_refused_with_its_text() {
    for text in ["", "some", "2:0", "2:0:5", "0:0:5us", "65:0:5us", "2:65:5us", "-1:0:5us", "2:0:5us/", "2:0:5us:1"] {
        let why = cells::parse(text, &[]).unwrap_err().to_string();
        assert!(why.contains(&format!("`{text}`")), "{why}");
    }
}

#[test]
fn every_default_arm_parses_from_its_printed_form_and_supports_its_work() {
    for (locks, cells) in [(false, Cell::meetings()), (true, Cell::locks())] {
        let usual = arms::usual(locks).split(',');
        for (arm, written) in arms::parse(arms::usual(locks)).unwrap().into_iter().zip(usual) {
            assert_eq!(arm.to_string(), written);
            assert_eq!(written.parse::<Arm>().unwrap(), arm);
            assert!(cells.iter().all(|cell| arm.can(cell.work)), "{arm}");
        }
    }
}

#[test]
fn copies_of_an_arm_are_numbered() {
    let labels = arms::labels(&arms::parse("pthread,rule:2 cs+,pthread,rule:2cs+").unwrap());
    let names: Vec<String> = labels.iter().map(Label::to_string).collect();
    assert_eq!(names, ["pthread", "rule:2cs+", "pthread #2", "rule:2cs+ #2"]);
}

#[test]
fn an_unknown_arm_is_reported_with_the_known_ones() {
    let why = arms::parse("pthread,pthreads").unwrap_err().to_string();
    assert!(why.starts_with("`pthreads` is not an arm: the arms are pthread, std, "), "{why}");
    assert!(arms::parse("rule:nonsense").unwrap_err().to_string().contains("`nonsense` is not a waiting rule"));
}
