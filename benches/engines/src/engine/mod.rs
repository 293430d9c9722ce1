//! Each engine behind one trait: make a request of an order, decide it, say which rules acted.

pub mod cedar;
pub mod cel;
pub mod floor;
pub mod own;
pub mod rego;

use spoolgate_rules::rule::field::Id;
use spoolgate_rules::rule::{Program, Reading};

use crate::Result;
use crate::order::Order;

/// Something that decides orders by the twenty rules.
pub trait Engine {
    /// What it decides on.
    type Request<'a>;

    /// Puts the order into the engine's own form.
    ///
    /// # Errors
    /// A value that the engine has no form for.
    fn request<'a>(&self, order: &'a Order) -> Result<Self::Request<'a>>;

    /// Whether the order is refused.
    ///
    /// # Errors
    /// The engine could not say.
    fn is_refused(&mut self, request: &Self::Request<'_>) -> Result<bool>;

    /// Which rules refuse it, a bit each.
    ///
    /// # Errors
    /// The engine could not say.
    fn acting(&mut self, request: &Self::Request<'_>) -> Result<u32>;
}

/// The fields that the rules read, in the program's order.
///
/// # Errors
/// A rule reads more than fields.
pub fn fields(program: &Program) -> Result<Vec<(&'static str, Id)>> {
    let field = |reading: &Reading| match reading {
        Reading::Field(field) => Ok((field.name, field.id)),
        other => Err(format!("`{other}` is no field").into()),
    };
    program.readings.iter().map(field).collect()
}
