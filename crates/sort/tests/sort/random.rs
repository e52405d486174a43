//! Random cases, each sorted with the least memory and held against the standard library's stable sort by keys that are read here once more, in the
//! plainest way. A case is made from its number alone.

mod case;

mod expected;

mod ways;

use std::ops::Range;

use rowlock_sort::{Algorithm, Variant};

use self::case::Case;
use self::ways::{Way, Ways};

/// What the cases of a test came to.
#[derive(Debug, Default)]
struct Seen {
    /// Cases that did not fit into memory,
    spilled: u32,
    /// and those of them that were merged more than once,
    passes: u32,
    /// with records that do not fit into a block.
    large: u32,
}

/// Sorts these cases with the algorithm, and compares.
fn agree(numbers: Range<u64>, algorithm: Algorithm) -> Seen {
    let ways = Ways::new();
    let mut seen = Seen::default();
    for number in numbers {
        let case = Case::new(number, matches!(algorithm, Algorithm::Columnsort(_)));
        let outcome = ways.sorts_as_expected(&case, &Way::new(number), algorithm);
        seen.spilled += u32::from(outcome.runs > 1);
        seen.passes += u32::from(outcome.passes > 1);
        seen.large += u32::from(outcome.runs > 1 && case.longest() > 4096);
    }
    seen
}

#[test]
fn random_cases_merge_as_the_standard_library_sorts() {
    let seen = agree(0..250, Algorithm::Merge);
    // Cases are the same each time, so these cannot be missed by chance.
    assert!(seen.spilled > 10 && seen.passes > 0 && seen.large > 2, "{seen:?}");
}

#[test]
fn random_cases_of_columnsort_are_sorted_as_the_standard_library_does() {
    let seen = agree(0..60, Algorithm::Columnsort(Variant::IoBound));
    assert!(seen.spilled > 2, "{seen:?}");
    agree(60..120, Algorithm::Columnsort(Variant::ComputeBound));
}

#[test]
#[ignore = "ten thousand cases take minutes; ./check --full runs them"]
fn ten_thousand_random_cases_merge_as_the_standard_library_sorts() {
    agree(0..10_000, Algorithm::Merge);
}

#[test]
#[ignore = "ten thousand cases take minutes; ./check --full runs them"]
fn ten_thousand_random_cases_of_columnsort_are_sorted_as_the_standard_library_does() {
    agree(0..5_000, Algorithm::Columnsort(Variant::IoBound));
    agree(5_000..10_000, Algorithm::Columnsort(Variant::ComputeBound));
}
