//! An adapter that does nothing and reports that.

use std::sync::atomic::AtomicBool;

use super::{Adapter, Task};
use spoolgate_gate::gateway::{Ending, Ran};

/// Answers every task without carrying it out.
pub(super) struct Stub;

impl Adapter for Stub {
    fn execute(&self, _: &Task<'_>, _: &AtomicBool) -> Ran {
        Ran::new(
            Ending::Stub,
            "the adapter is a stub: no real one is connected",
        )
    }
}
