//! The report: one page for people, without network, from what the home holds.
