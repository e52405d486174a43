//! docs/sort.md agrees with the command: the examples work, and every option is described.

use super::place::Place;

const GUIDE: &str = include_str!("../../../../../docs/sort.md");

#[test]
fn the_examples_of_the_guide_work() {
    let place = Place::new();
    let mut shown = 0;
    for block in GUIDE.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        for part in block.split("$ ").skip(1) {
            let (line, expected) = part.split_once('\n').unwrap();
            let done = place.shell(&format!("exec 2>&1; {line}"));
            assert_eq!(done.stdout, expected, "$ {line}");
            shown += 1;
        }
    }
    assert!(shown > 10, "{shown}");
}

#[test]
fn every_option_is_in_the_guide() {
    let help = Place::new().rowlock(&["--help"]).expect_exit(0).stdout;
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_end_matches(['.', ',', ';']));
    // Every command has this one.
    for option in options.filter(|option| *option != "--help") {
        assert!(GUIDE.contains(&format!("`{option}")), "docs/sort.md lacks {option}");
    }
}
