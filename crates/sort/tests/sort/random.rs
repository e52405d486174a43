//! Random cases, each sorted with the least memory. The expected output comes from the standard
//! library's stable sort and an independent, simple parser of keys. The number of a case determines
//! it completely.

mod case;

mod expected;

mod ways;

use rowlock_sort::{Algorithm, Variant};

use self::case::Case;
use self::ways::{Way, Ways};

/// Counts of cases by what they exercised.
#[derive(Debug, Default)]
struct Seen {
    cases: u32,
    /// Cases that did not fit into memory.
    spilled: u32,
    /// Cases that were merged more than once.
    passes: u32,
    /// Cases with runs and records that do not fit into a block.
    large: u32,
}

/// Sorts the cases of this many seeds with the algorithm and compares the output.
macro_rules! agree {
    ($count:expr, $algorithm:expr) => {{
        let ways = Ways::new();
        let mut seen = Seen::default();
        testing::for_each_seed($count, |seed| seen.add(seed, &ways, $algorithm(seed)));
        seen
    }};
}

impl Seen {
    fn add(&mut self, seed: u64, ways: &Ways, algorithm: Algorithm) {
        let case = Case::new(seed, matches!(algorithm, Algorithm::Columnsort(_)));
        let outcome = ways.check(&case, &Way::new(seed), algorithm);
        self.cases += 1;
        self.spilled += u32::from(outcome.runs > 1);
        self.passes += u32::from(outcome.passes > 1);
        self.large += u32::from(outcome.runs > 1 && case.longest() > 4096);
    }
}

#[test]
fn random_cases_merge_as_the_standard_library_sorts() {
    let seen = agree!(250, |_| Algorithm::Merge);
    // The gate's seeds are fixed, so the result is deterministic.
    assert!(seen.cases < 250 || (seen.spilled > 10 && seen.passes > 0 && seen.large > 2), "{seen:?}");
}

#[test]
fn random_cases_of_columnsort_are_sorted_as_the_standard_library_does() {
    let variant = |seed: u64| if seed.is_multiple_of(2) { Variant::IoBound } else { Variant::ComputeBound };
    let seen = agree!(120, |seed| Algorithm::Columnsort(variant(seed)));
    assert!(seen.cases < 120 || seen.spilled > 2, "{seen:?}");
}
