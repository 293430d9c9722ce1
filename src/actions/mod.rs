//! Outgoing actions: which destinations are allowed, how many there were, what is out of the ordinary, and what is open.
//! Pure; what runs them is elsewhere.

pub mod allowlist;
pub mod anomaly;
pub mod open;
pub mod windows;

pub use open::{ActionsState, Change, OpenAction};
