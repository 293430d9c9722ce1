//! Schemas of answers and of their `data`.

use super::{Body, written};
use crate::gate::actions::Action;
use crate::wire::answer::Answer;

/// The schemas of `data`, and whose answers have it.
pub(super) const NAMES: &[(&str, Action)] = &[];

/// The answer to any request.
pub(super) fn answer() -> Body {
    Body {
        schema: written::<Answer>(),
        about: "The answer to a request, as it lies in `spool/out`. The schema of `data` is named after the action, as \
                `order.submit.answer`."
            .to_owned(),
        conditions: Vec::new(),
    }
}

/// The `data` of this name.
pub(super) fn body(_name: &str) -> Option<Body> {
    None
}
