//! Variants that the user requests: structures in which a value may be a list of alternatives.

use pipeline::structure::{KEYS, Structure, StructureError, StructureKey};

/// The largest number of variants of a text. More would run for days, and a text of a few
/// hundred bytes can describe more than fit into memory.
pub const MOST_VARIANTS: usize = 10_000;

/// Why a text describes no variants.
#[derive(Debug, thiserror::Error)]
pub enum TriesError {
    /// One of them is not a structure.
    #[error(transparent)]
    Structure(#[from] StructureError),
    /// There are too many.
    #[error("it describes more than {MOST_VARIANTS} variants: leave alternatives out, or run several explorations")]
    TooMany,
}

/// The variants that a text describes. Values between commas are alternatives, as in
/// `fork=compress*2,4 buffers=8,16`, which has four variants. Text before a `*` or a `:` belongs to
/// all of them.
pub fn parse_tries(text: &str) -> Result<Vec<Structure>, TriesError> {
    let mut variants = vec![String::new()];
    for word in text.split_whitespace() {
        let words = alternatives(word);
        if variants.len() * words.len() > MOST_VARIANTS {
            return Err(TriesError::TooMany);
        }
        let with = |variant: &String| words.iter().map(|word| format!("{variant} {word}")).collect::<Vec<_>>();
        variants = variants.iter().flat_map(with).collect();
    }
    Ok(variants.iter().map(|variant| variant.parse()).collect::<Result<_, StructureError>>()?)
}

fn alternatives(word: &str) -> Vec<String> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let separator = match KEYS.iter().find(|known| known.name == key) {
        // A comma already has a meaning in these.
        Some(StructureKey { name: "thread" | "affinity", .. }) => return vec![word.to_owned()],
        Some(StructureKey { name: "fork", .. }) => Some('*'),
        Some(StructureKey { is_scheduling_attribute: true, .. }) => Some(':'),
        _ => None,
    };
    let end = |value: &str| separator.and_then(|separator| value.find(separator)).map(|place| place + 1);
    let common = &value[..end(value).unwrap_or(0)];
    let mut values = value.split(',');
    let first = format!("{}{}", &word[..word.len() - value.len()], values.next().unwrap_or_default());
    let others = values.map(|value| format!("{key}={}{value}", if end(value).is_some() { "" } else { common }));
    std::iter::once(first).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_between_commas_are_alternatives_and_words_are_combined() {
        for (text, variants) in [
            ("fork=compress*2,4", &["fork=compress*2", "fork=compress*4"][..]),
            (
                "fork=a*2,4 buffers=8,16",
                &["buffers=8 fork=a*2", "buffers=16 fork=a*2", "buffers=8 fork=a*4", "buffers=16 fork=a*4"],
            ),
            ("nice=read:-5,5", &["nice=read:-5", "nice=read:5"]),
            ("fork=a*2,b*3", &["fork=a*2", "fork=b*3"]),
            ("priority=dynamic-up,input-queue", &["priority=dynamic-up", "priority=input-queue"]),
            ("thread=read*2,write*2 split=b,c", &["thread=read*2,write*2 split=b", "thread=read*2,write*2 split=c"]),
            ("affinity=a:0,1", &["affinity=a:0,1"]),
            ("fork=a*2:unordered,4", &["fork=a*2:unordered", "fork=a*4"]),
            ("waiting=load-aware:3,adaptive", &["waiting=load-aware:3", "waiting=adaptive"]),
            ("", &[""]),
        ] {
            let found: Vec<String> = parse_tries(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, variants);
        }
    }

    #[test]
    fn a_text_with_too_many_variants_is_rejected() {
        let text = |forks: usize| format!("buffers=1{} fork=a*2{}", ",2".repeat(99), ",3".repeat(forks - 1));
        assert_eq!(parse_tries(&text(100)).unwrap().len(), MOST_VARIANTS);
        assert!(matches!(parse_tries(&text(101)), Err(TriesError::TooMany)));
        assert!(matches!(parse_tries(&"buffers=1,2 ".repeat(99)), Err(TriesError::TooMany)));
    }

    #[test]
    fn text_that_is_not_a_structure_is_rejected() {
        for text in ["fork=a*2,x", "buffers=4,", "bufers=1,2", "buffers"] {
            assert!(parse_tries(text).is_err(), "{text}");
        }
    }
}
