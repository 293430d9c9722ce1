//! The derive macro `JsonSchema` for builds without JSON Schemas: it accepts the attributes of
//! `schemars` and expands to nothing. A crate whose types have schemas uses this crate under the
//! name `schemars` unless its feature `schema` is on, so that no derive needs a condition.

use proc_macro::TokenStream;

/// Expands to nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
