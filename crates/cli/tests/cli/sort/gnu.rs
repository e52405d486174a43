//! Comparison with GNU sort, byte for byte, for what both can do. With a separator that no line
//! contains, GNU sort counts bytes from the beginning of a line.

use std::fs;
use std::io::Write;

use super::place::Place;

#[test]
#[ignore = "takes a while, and needs GNU sort; ./check --full runs it"]
fn large_outputs_ordered_by_lines_are_those_of_gnu_sort() {
    outputs_are_those_of_gnu_sort(&[("", ""), ("--reverse", "-r"), ("--unique", "-u")]);
}

#[test]
#[ignore = "takes a while, and needs GNU sort; ./check --full runs it"]
fn large_outputs_ordered_by_numbers_are_those_of_gnu_sort() {
    outputs_are_those_of_gnu_sort(&[
        ("--key 0:decimal", "-k1,1n"),
        ("--key 0:decimal --reverse", "-k1,1nr"),
        ("--key 0:decimal --unique", "-k1,1n -u"),
    ]);
}

#[test]
#[ignore = "takes a while, and needs GNU sort; ./check --full runs it"]
fn large_outputs_ordered_by_parts_of_lines_are_those_of_gnu_sort() {
    outputs_are_those_of_gnu_sort(&[
        ("--key 0:3", "-k1.1,1.3"),
        ("--key 10:4:descending --key 0:decimal", "-k1.11,1.14r -k1,1n"),
        ("--key 16:2 --key 3:8:decimal:descending --key 0", "-k1.17,1.18 -k1.4,1.11nr -k1.1"),
    ]);
}

/// Sorts the same lines with these options of `rowlock sort` and of GNU sort.
fn outputs_are_those_of_gnu_sort(options: &[(&str, &str)]) {
    let place = Place::new();
    fs::write(place.path("in"), lines(100_000)).unwrap();
    for (ours, theirs) in options {
        place.shell(&format!("sort -s -t $'\\x01' {theirs} in > expected")).expect_exit(0);
        // In memory, in one merge, and in several merges.
        for memory in ["256MiB", "1MiB", "256KiB"] {
            place.shell(&format!("rowlock sort in out --memory {memory} --tmp . {ours}")).expect_exit(0);
            place.shell("cmp expected out").expect_exit(0);
        }
        place.shell(&format!("rowlock sort - - --memory 2MiB {ours} < <(cat in) | cmp expected -")).expect_exit(0);
    }
    assert_eq!(place.left(), ["expected", "in", "out"]);
}

/// Lines that mostly begin with a number, and few different words.
fn lines(count: u32) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut text = Vec::new();
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let number = (state >> 20) as u32 % 20_000;
        match state % 11 {
            0 => writeln!(text, "-{number}.{} x", state % 1000),
            1 => writeln!(text, "   {number:07}.50 y{}", state % 7),
            2 => writeln!(text, "none"),
            3 => writeln!(text, "{}", "long ".repeat(state as usize % 200)),
            4 => writeln!(text),
            _ => writeln!(text, "{number} {:012}", state >> 40),
        }
        .unwrap();
    }
    text
}
