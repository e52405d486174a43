//! Enumerations whose values have names in scenario files.

/// Defines an enumeration, with a name for each value.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$value_meta])* $value,)+
        }

        impl $type {
            /// All values, in the order of the documentation.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$value),+];
            /// Their names.
            pub(crate) const NAMES: [&str; $type::ALL.len()] = [$($name),+];

            /// The name in scenario files.
            pub const fn name(self) -> &'static str {
                $type::NAMES[self as usize]
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use named_enum;
