//! Parsing of texts, and the printing of values that have names.

use std::fmt;

/// The reason why a text is not a value of a type, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(pub(crate) String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// Prints and parses the values in `ALL` of a type by their `name`: `named!(Type, |text| name,
/// message)`.
macro_rules! named {
    ($type:ty, |$text:ident| $name:expr, $message:expr) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::ParseError;

            fn from_str($text: &str) -> Result<$type, $crate::ParseError> {
                let found = <$type>::ALL.into_iter().find(|value| value.name() == $name);
                found.ok_or_else(|| $crate::ParseError($message))
            }
        }
    };
}

pub(crate) use named;
