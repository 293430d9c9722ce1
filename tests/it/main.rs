//! The integration tests of spoolgate as one program: a module for each subject. `kit` holds what
//! the subjects share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::float_arithmetic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests: a panic is a failure; prints are measurements and reasons for skipping"
)]

mod admission;
mod admission_crash;
mod admission_remote;
mod agent;
mod attacks;
mod bounds;
mod bridge_suite;
mod cage;
mod chaos;
mod cli;
mod clients;
mod compat;
mod complete;
mod contracts_table;
mod control;
mod council_cases;
mod council_commands;
mod council_evidence;
mod council_example;
mod council_rules;
mod council_statistics;
mod crash;
mod demo_story;
mod deploy;
mod docs;
mod evidence_judges;
mod examples;
mod fairness;
mod full_disk;
mod fuzzed;
mod gateway;
mod gateway_adapters;
mod gateway_crash;
mod gateway_frames;
mod gateway_kill;
mod gateway_socket;
mod gateway_stop;
mod gateway_traffic;
mod help;
mod home;
mod hostile;
mod interop;
mod keyring;
mod kit;
mod ledger;
mod ledger_damage;
mod ledger_python;
mod limits_model;
mod market;
mod notices;
mod openings;
mod outbox_kill;
mod paper_model;
mod power_cut;
mod progress;
mod proposals;
mod receipt_commands;
mod redo;
mod refusals;
mod replay;
mod report;
mod rules;
mod rules_theorem;
mod schemas;
mod services;
mod signatures;
mod simulation;
mod suspects;
mod syscalls;
mod task_trees;
mod theses;
mod wire;
