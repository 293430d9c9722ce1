//! Reads a ledger line and the record in it. A line that was read is written again as the same
//! line; a rewritten record has one form; folding its changes and answering from it never panic.

use serde_json::Value;
use spoolgate_gate::State;
use spoolgate_gate::record::Record;
use spoolgate_ledger::line::{self, LINE_BYTES_MAX};
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::segment::Segment;
use spoolgate_wire::json;

/// Every kind of line.
pub(crate) const KINDS: [&str; 25] = [
    "genesis",
    "start",
    "stop",
    "rulebook",
    "tick",
    "halt",
    "clock_step",
    "dead_man",
    "quota",
    "storage",
    "published",
    "market",
    "input",
    "council",
    "decision",
    "request",
    "response",
    "seal",
    "segment",
    "proposal",
    "rotate",
    "admin",
    "redact",
    "pull",
    "not_told",
];

/// Bytes as a line; bytes behind a first one below 32 as the body of that kind of line.
pub fn body(data: &[u8]) {
    match data.split_first() {
        Some((kind, body)) if *kind < 32 => {
            // The strict reader has read the content of the line before; the typed reader leaves
            // raw values unchanged.
            if let Ok(body) = json::check_object(body) {
                check_record(KINDS[usize::from(*kind) % KINDS.len()], body);
            }
        }
        _ => check_line(data),
    }
}

fn check_line(bytes: &[u8]) {
    let Ok(line) = line::parse(bytes) else { return };
    assert!(bytes.len() <= LINE_BYTES_MAX);
    let body = line.body();
    let again = line::render(&line.prev, line.seq, line.batch, line.kind, &body);
    match again {
        Ok(again) => assert_eq!(again.as_bytes(), bytes, "written again as another line"),
        // A line of the log holds no LF; only here can one be handed in.
        Err(error) => assert!(bytes.contains(&b'\n'), "{error}"),
    }
    check_record(line.kind, &body);
}

fn check_record(kind: &str, body: &str) {
    match kind {
        "seal" => {
            let Ok(seal) = serde_json::from_str::<Seal>(body) else {
                return;
            };
            // Any other text verifies under no key.
            let is_plain = |text: &str| {
                text.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
            };
            if !is_plain(&seal.root) || !is_plain(&seal.sig) {
                return;
            }
            // The signature verified over exactly what was read, whatever the text contains.
            if let Ok(again) = serde_json::from_str::<Seal>(&seal.body()) {
                check_members(&value(body), &value(&seal.body()));
                assert_eq!(again, seal);
            }
        }
        "segment" => {
            let Ok(segment) = serde_json::from_str::<Segment>(body) else {
                return;
            };
            let again = serde_json::to_string(&segment).unwrap();
            check_members(&value(body), &value(&again));
            assert_eq!(serde_json::from_str::<Segment>(&again).unwrap(), segment);
        }
        _ => {}
    }
    let Ok(Some(record)) = Record::parse(kind, body) else {
        return;
    };
    assert_eq!(record.kind(), kind);
    let again = record.body().expect("was read and cannot be written");
    check_members(&value(body), &value(&again));
    let second = Record::parse(kind, &again)
        .expect("was written and cannot be read")
        .expect("no record");
    assert_eq!(second.body().unwrap(), again, "a record has two forms");
    assert_eq!(second.timestamp(), record.timestamp());
    assert_eq!(second.changes(), record.changes());
    let mut state = State::default();
    for change in record.changes() {
        if state.apply(change).is_err() {
            break;
        }
    }
    state.tick(record.timestamp());
    if let Record::Decision(decision) = &record
        && let Ok(answer) = decision.answer(None)
    {
        let _ = answer.to_bytes();
    }
    let stored = serde_json::to_string(&state).unwrap();
    assert_eq!(
        serde_json::from_str::<State>(&stored).unwrap(),
        state,
        "a snapshot reads back as another state"
    );
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Reading drops no content of a line, so hashing and folding see the same. Only null and the empty
/// list may disappear, and values may be spelt differently.
fn check_members(read: &Value, written: &Value) {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => {
            for (name, value) in read {
                match written.get(name) {
                    Some(other) => check_members(value, other),
                    None => {
                        assert!(
                            value.is_null() || *value == Value::Array(Vec::new()),
                            "`{name}` was dropped"
                        )
                    }
                }
            }
        }
        (Value::Array(read), Value::Array(written)) => {
            assert_eq!(read.len(), written.len());
            read.iter()
                .zip(written)
                .for_each(|(read, written)| check_members(read, written));
        }
        _ => {}
    }
}
