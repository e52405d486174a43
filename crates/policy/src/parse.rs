//! Parsing of texts, and the values that have names.

/// The reason why a text is not a value of a type, as a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// Names all values of an enumeration, and prints and parses them by their names: `named!(Type {
/// Value = name, ... } |text| name in the text, message)`.
macro_rules! named {
    ($type:ident { $($value:ident $(($of:path))? = $name:literal,)+ } |$text:ident| $written:expr, $message:expr) => {
        impl $type {
            /// All values, in the order of the documentation.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value $(($of))?),+];

            /// The name in scenario files.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$value $(($of))? => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::ParseError;

            fn from_str($text: &str) -> Result<$type, $crate::ParseError> {
                let found = <$type>::ALL.into_iter().find(|value| value.name() == $written);
                found.ok_or_else(|| $crate::ParseError($message))
            }
        }
    };
}

pub(crate) use named;
