//! Options of GNU sort that `rowlock sort` lacks or spells differently: the hint for each.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

const NUMBERS: &str = "numbers are `--key 0:decimal`; in place of 0, the offset of the first byte in the line";
const KEYS: &str =
    "a key has no fields but bytes, counted from 0: -k1.5,1.8 is `--key 4:4`, -k1.5n is `--key 4:decimal`";
const NO_SUCH_ORDER: &str = "there is no such order: keys are bytes or numbers, as KEY describes in --help";

/// An option, its long name, and the hint.
const OPTIONS: [(char, &str, &str); 29] = [
    ('n', "numeric-sort", NUMBERS),
    ('k', "key", KEYS),
    ('t', "field-separator", KEYS),
    ('r', "reverse", "write `--reverse`, or `descending` in a key"),
    ('u', "unique", "write `--unique`"),
    ('s', "stable", "leave it out: records with equal keys always keep their order"),
    ('o', "output", "the second argument is the output: `rowlock sort IN OUT`"),
    ('S', "buffer-size", "write `--memory SIZE`, as in `--memory 512MiB`"),
    ('T', "temporary-directory", "write `--tmp DIR`"),
    ('g', "general-numeric-sort", "`--key 0:decimal` sorts numbers, but ignores exponents"),
    ('h', "human-numeric-sort", "`--key 0:decimal` sorts numbers, but ignores units"),
    ('b', "ignore-leading-blanks", "only keys of the kind `decimal` ignore blanks at their beginning"),
    ('c', "check", "it cannot check without sorting; `--verify` checks the output of a sort"),
    ('C', "check", "it cannot check without sorting; `--verify` checks the output of a sort"),
    ('m', "merge", "it cannot only merge; sort the files together, as in `cat A B | rowlock sort - OUT`"),
    ('z', "zero-terminated", "lines end with line feeds; for records of one size, write `--record N`"),
    ('d', "dictionary-order", NO_SUCH_ORDER),
    ('f', "ignore-case", NO_SUCH_ORDER),
    ('i', "ignore-nonprinting", NO_SUCH_ORDER),
    ('M', "month-sort", NO_SUCH_ORDER),
    ('R', "random-sort", NO_SUCH_ORDER),
    ('V', "version-sort", NO_SUCH_ORDER),
    (' ', "sort", NO_SUCH_ORDER),
    (' ', "random-source", NO_SUCH_ORDER),
    (' ', "parallel", "leave it out: it reads, sorts and writes in parallel"),
    (' ', "batch-size", "leave it out: it merges as many runs at once as fit into `--memory`"),
    (' ', "compress-program", "leave it out: temporary files are not compressed"),
    (' ', "files0-from", "it sorts one file; for several, `cat A B | rowlock sort - OUT`"),
    (' ', "debug", "it cannot mark the keys; KEY in --help says which bytes they are"),
];

/// Replaces the hint of an error about an option of GNU sort.
pub(crate) fn explain(mut error: Error) -> Error {
    let hint = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if error.kind() == ErrorKind::UnknownArgument => hint(option),
        _ => None,
    };
    if let Some(hint) = hint {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

fn hint(option: &str) -> Option<&'static str> {
    let name = option.split('=').next()?.strip_prefix('-')?;
    let is_named = |&&(short, long, _): &&(char, &str, &str)| match name.strip_prefix('-') {
        Some(name) => name == long,
        None => name.starts_with(short),
    };
    OPTIONS.iter().find(is_named).map(|(_, _, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_option_of_gnu_sort_that_is_refused_has_its_hint() {
        for (short, long, hint) in OPTIONS {
            for option in [format!("-{short}"), format!("--{long}")] {
                let Err(error) = Arguments::try_parse_from(["rowlock", "sort", "in", "out", &option]) else { continue };
                if error.kind() != ErrorKind::UnknownArgument || option == "- " {
                    continue;
                }
                let text = explain(error).to_string();
                assert!(text.contains(&format!("tip: {hint}")), "{option}: {text}");
                assert!(!text.contains("to pass") && !text.contains("similar"), "{option}: {text}");
            }
        }
    }

    #[test]
    fn combined_options_and_values_have_the_hint_of_the_first() {
        for (option, hint) in
            [("-nr", NUMBERS), ("-k2,2n", KEYS), ("-t:", KEYS), ("--parallel=4", "leave it out: it re")]
        {
            let error = Arguments::try_parse_from(["rowlock", "sort", "in", "out", option]).unwrap_err();
            let text = explain(error).to_string();
            assert!(text.contains(hint), "{option}: {text}");
        }
    }

    #[test]
    fn other_errors_keep_their_hints() {
        let error = Arguments::try_parse_from(["rowlock", "sort", "in", "out", "--uniqe"]).unwrap_err();
        assert!(explain(error).to_string().contains("--unique"));
    }
}
