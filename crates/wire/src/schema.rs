//! JSON Schemas of the types that read and write. Only a build with the feature `schema` derives
//! them; without it, the derive macro expands to nothing, and all that is left here is
//! [`HasSchema`].

#[cfg(feature = "schema")]
mod parts;

#[cfg(feature = "schema")]
pub use parts::*;

/// A type with a JSON Schema: every type, unless the feature `schema` is on.
#[cfg(not(feature = "schema"))]
pub trait HasSchema {}

#[cfg(not(feature = "schema"))]
impl<T> HasSchema for T {}

#[cfg(feature = "schema")]
pub use schemars::JsonSchema as HasSchema;

/// Gives a type with hand-written serde implementations a JSON Schema.
#[macro_export]
macro_rules! text_schema {
    ($name:ident, $schema:expr) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

/// Gives a type the schema of the type that it is read from.
#[macro_export]
macro_rules! schema_of {
    ($name:ty, $from:ty) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$from as schemars::JsonSchema>::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$from as schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}
