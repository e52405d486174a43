//! Values that are written by name.

use std::fmt;

/// A text that is not the name of a value, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(pub(crate) String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownName {}

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
            type Err = $crate::UnknownName;

            fn from_str($text: &str) -> Result<$type, $crate::UnknownName> {
                let found = <$type>::ALL.into_iter().find(|value| value.name() == $name);
                found.ok_or_else(|| $crate::UnknownName($message))
            }
        }
    };
}

pub(crate) use named;
