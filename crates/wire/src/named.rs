//! Enums whose variants have names, each of them written once.

/// Declares an enum that serde reads and writes by name, and its `as_str`. Every variant without a
/// field is given its name; serde and schemars see it as `#[serde(rename = "…")]`.
///
/// ```
/// use serde::Serialize;
///
/// spoolgate_wire::named! {
///     /// A direction.
///     #[derive(Clone, Copy, Serialize)]
///     pub enum Direction {
///         /// Gains when the price rises.
///         Long = "long",
///         /// Gains when the price falls.
///         Short = "short",
///     }
/// }
///
/// assert_eq!(Direction::Long.as_str(), "long");
/// assert_eq!(serde_json::to_string(&Direction::Short).unwrap(), "\"short\"");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visible:vis enum $name:ident {
            $($(#[$meaning:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$about])*
        $visible enum $name {
            $($(#[$meaning])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Returns the name that JSON has for it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}
