//! The same twenty rules decided by spoolgate's own compiled form, by Cedar, Rego and CEL, and by a
//! function written by hand. Policies of the engines are made from the compiled rules: the twenty
//! files in `rules` are the one source.

pub mod engine;
pub mod export;
pub mod losses;
pub mod order;
pub mod request;
pub mod rules;

/// Whatever an engine says when it cannot.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
