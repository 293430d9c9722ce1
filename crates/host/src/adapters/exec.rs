//! An adapter that is a program. It gets the task on its standard input and writes its answer to
//! its standard output, both as JSON. No part of the task is in its arguments or its environment,
//! which other users can read.

use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::{Adapter, Credential, Task};
use crate::cage::{self, Bounds};
use crate::command::{self, Ended};
use spoolgate_gate::gateway::{Ending, Ran};
use spoolgate_rules::command::CommandRule;

/// Room for everything in a task except payload and credential, in bytes.
const REST_BYTES: usize = 4096;
/// Maximum length of a credential's byte in JSON.
const ESCAPED_BYTES: usize = 6;

/// Runs the program of a rule.
pub(super) struct Exec<'a> {
    pub(super) command: &'a CommandRule,
}

#[derive(Serialize)]
struct Input<'a> {
    id: &'a str,
    source: &'a str,
    action: &'a str,
    payload: &'a RawValue,
    service: &'a str,
    host: &'a str,
    port: Option<u16>,
    protocol: &'a str,
    credential: Option<&'a str>,
}

/// Renders the task for the program. The buffer is allocated once, so that no copy of the
/// credential stays behind.
fn input(task: &Task<'_>) -> serde_json::Result<Zeroizing<Vec<u8>>> {
    let service = task.service;
    let credential = task.credential.map(|Credential(secret)| secret.as_str());
    let secret_bytes = credential.map_or(0, str::len).saturating_mul(ESCAPED_BYTES);
    let bytes = task
        .payload
        .len()
        .saturating_add(secret_bytes)
        .saturating_add(REST_BYTES);
    let mut input = Zeroizing::new(Vec::with_capacity(bytes));
    let fields = Input {
        id: task.request_id.as_str(),
        source: task.source.as_str(),
        action: task.action,
        payload: serde_json::from_str(task.payload)?,
        service: service.service.as_str(),
        host: &service.host,
        port: service.port,
        protocol: &service.protocol,
        credential,
    };
    serde_json::to_writer(&mut *input, &fields)?;
    Ok(input)
}

impl Adapter for Exec<'_> {
    fn execute(&self, task: &Task<'_>, stop: &AtomicBool) -> Ran {
        let spec = self.command;
        let input = match input(task) {
            Ok(input) => input,
            Err(error) => {
                return Ran::new(
                    Ending::NotRun,
                    format!("its task cannot be written: {error}"),
                );
            }
        };
        let service = task.service;
        let bounds = Bounds {
            service_port: cage::port_of(service.port, &service.protocol),
            ..Bounds::at(task.cage)
        };
        let run = command::run_rule(task.home, spec, &bounds, "adapter", &input, stop);
        let name = &spec.program;
        let (ending, note) = match run.ended {
            Ended::Exited(0) => (Ending::Answered, format!("`{name}` answered")),
            Ended::Exited(code) => (
                Ending::Crashed,
                format!("`{name}` ended with exit code {code}"),
            ),
            Ended::Killed(signal) => (
                Ending::Crashed,
                format!("`{name}` was ended by signal {signal}"),
            ),
            Ended::TimedOut => (
                Ending::TimedOut,
                format!("`{name}` took longer than {} s", spec.time_limit_s),
            ),
            Ended::Flooded => (
                Ending::Flooded,
                format!("`{name}` wrote more than {} bytes", spec.output_bytes_max),
            ),
            Ended::Stopped => (
                Ending::Lost,
                format!("`{name}` was ended because the gate stops"),
            ),
            Ended::NotStarted(error) => (
                Ending::NotRun,
                format!("`{name}` could not be run: {error}"),
            ),
            Ended::Failed(error) => (
                Ending::Crashed,
                format!("`{name}` could not be listened to: {error}"),
            ),
        };
        let output = Some(run.output).filter(|_| ending == Ending::Answered);
        Ran {
            output,
            complaint: run.complaint,
            cage: run.cage,
            ..Ran::new(ending, note)
        }
    }
}
