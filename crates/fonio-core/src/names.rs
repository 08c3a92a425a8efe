//! Declares enums whose values have names.

/// Declares enums. Each enum value has the same name in the recording, in JSON and in filters.
macro_rules! named {
    ($($(#[$of_enum:meta])* $enum:ident { $($(#[$of_value:meta])* $value:ident = $name:literal,)* })*) => {$(
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[repr(u8)]
        pub enum $enum {
            $($(#[$of_value])* #[serde(rename = $name)] $value,)*
        }

        impl $enum {
            /// All values of the enum, in the order of declaration.
            pub const ALL: &'static [$enum] = &[$($enum::$value),*];

            /// Returns the value's name in the recording, in JSON and in filters.
            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$value => $name),*
                }
            }

            /// Parses a name.
            pub fn from_name(name: &str) -> Option<$enum> {
                $enum::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    )*};
}
pub(crate) use named;
