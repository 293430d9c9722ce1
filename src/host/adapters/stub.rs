//! An adapter that does nothing, and says so.

use std::sync::atomic::AtomicBool;

use super::{Adapter, Task};
use crate::gate::gateway::{Ending, Ran};

/// See above.
pub(super) struct Stub;

impl Adapter for Stub {
    fn execute(&self, _: &Task<'_>, _: &AtomicBool) -> Ran {
        Ran::new(Ending::Stub, "the adapter is a stub: no real one is connected")
    }
}
