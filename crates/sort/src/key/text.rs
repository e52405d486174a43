//! The textual form of keys: `OFFSET[:LENGTH][:KIND][:descending]`.

use std::fmt;
use std::str::FromStr;

use pipeline::structure::did_you_mean;

use super::{KINDS, Key, KeyKind};

/// The directions, and whether the greatest key comes first.
const DIRECTIONS: [(&str, bool); 2] = [("ascending", false), ("descending", true)];

/// The error for text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(written: &str) -> Result<Key, KeyError> {
        read(written).map_err(|problem| KeyError(format!("`{written}` is not a key: {problem}")))
    }
}

fn read(written: &str) -> Result<Key, String> {
    let mut parts = written.split(':').peekable();
    let offset = parts.next().unwrap_or_default();
    if !is_number(offset) {
        return Err("it must begin with the offset of the key, as in 0:10 or 4:8:unsigned-le:descending".to_owned());
    }
    let offset = number(offset)?;
    let length = match parts.next_if(|part| is_number(part)) {
        Some(length) => Some(number(length)?),
        None => None,
    };
    let (mut kind, mut descending) = (None, None);
    for part in parts {
        let is_repeated = if let Some(found) = named(&KINDS, part) {
            kind.replace(found).is_some()
        } else if let Some(found) = named(&DIRECTIONS, part) {
            descending.replace(found).is_some()
        } else {
            return Err(unknown(part));
        };
        if is_repeated {
            return Err(format!("`{part}` is one too many; a key has one kind and one direction"));
        }
    }
    Ok(Key { offset, length, kind: kind.unwrap_or(KeyKind::Bytes), descending: descending.unwrap_or(false) })
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(digits: &str) -> Result<usize, String> {
    digits.parse().map_err(|_| format!("{digits} is more bytes than any record has"))
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

/// Describes a part that is neither a kind nor a direction.
fn unknown(part: &str) -> String {
    let names = || KINDS.iter().map(|(name, _)| *name).chain(DIRECTIONS.iter().map(|(name, _)| *name));
    if is_number(part) {
        return format!("{part} is an unexpected number; the length comes right after the offset");
    }
    if part.is_empty() {
        return "there is nothing between two colons or after the last one; leave out the colon as well".to_owned();
    }
    if matches!(part, "unsigned" | "signed" | "float") {
        return format!(
            "`{part}` needs a byte order; write {part}-le if the least significant byte comes first, {part}-be if the most significant byte does"
        );
    }
    let near = did_you_mean(part, names()).map_or(String::new(), |near| format!(" (did you mean `{near}`?)"));
    let all: Vec<_> = names().collect();
    format!("`{part}` is neither a kind nor a direction{near}; there are {}", all.join(", "))
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.offset)?;
        if let Some(length) = self.length {
            write!(out, ":{length}")?;
        }
        if self.kind != KeyKind::Bytes {
            write!(out, ":{}", self.kind)?;
        }
        if self.descending {
            write!(out, ":descending")?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name);
        out.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::Endian;

    fn key(offset: usize, length: Option<usize>, kind: KeyKind, descending: bool) -> Key {
        Key { offset, length, kind, descending }
    }

    #[test]
    fn omitted_parts_have_defaults() {
        for (written, meant) in [
            ("12", key(12, None, KeyKind::Bytes, false)),
            ("0:10", key(0, Some(10), KeyKind::Bytes, false)),
            ("0:10:bytes:ascending", key(0, Some(10), KeyKind::Bytes, false)),
            ("3:descending", key(3, None, KeyKind::Bytes, true)),
            ("3:decimal", key(3, None, KeyKind::Decimal, false)),
            ("4:8:unsigned-le:descending", key(4, Some(8), KeyKind::Unsigned(Endian::Little), true)),
            ("4:8:descending:float-be", key(4, Some(8), KeyKind::Float(Endian::Big), true)),
        ] {
            assert_eq!(written.parse(), Ok(meant), "{written}");
        }
    }

    #[test]
    fn invalid_keys_are_rejected_with_the_problem_and_a_suggestion() {
        for (written, problem) in [
            ("", "it must begin with the offset of the key, as in 0:10"),
            ("-1", "it must begin with the offset of the key"),
            ("+1", "it must begin with the offset of the key"),
            ("bytes", "it must begin with the offset of the key"),
            ("99999999999999999999", "99999999999999999999 is more bytes than any record has"),
            ("0:99999999999999999999", "99999999999999999999 is more bytes than any record has"),
            ("0:8:unsigned", "`unsigned` needs a byte order; write unsigned-le if"),
            (
                "0:8:unsinged-le",
                "`unsinged-le` is neither a kind nor a direction (did you mean `unsigned-le`?); there are bytes, ",
            ),
            ("0:8:desending", "(did you mean `descending`?)"),
            ("0:8:text", "`text` is neither a kind nor a direction; there are bytes, unsigned-le, "),
            ("0:", "there is nothing between two colons or after the last"),
            ("0::decimal", "there is nothing between two colons"),
            ("0:decimal:4", "4 is an unexpected number; the length comes right after the offset"),
            ("0:4:bytes:decimal", "`decimal` is one too many"),
            ("0:4:descending:ascending", "`ascending` is one too many"),
        ] {
            let error = written.parse::<Key>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{written}` is not a key: ")), "{error}");
            assert!(error.contains(problem), "{written}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_key_survives_formatting_and_parsing(
            offset in 0..1000usize, length in proptest::option::of(0..1000usize), kind in 0..KINDS.len(), descending: bool,
        ) {
            let key = key(offset, length, KINDS[kind].1, descending);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn parsing_never_panics(written in "[0-9:a-z-]{0,20}") {
            let _ = written.parse::<Key>();
        }
    }
}
