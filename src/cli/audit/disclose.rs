//! `audit disclose`: prints the disclosures of a line's sealed fields, so that an auditor who has
//! the line or its receipt can check their content.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_gate::Record;
use spoolgate_home::read;
use spoolgate_home::redact::{is_named, no_line};
use spoolgate_home::sealed::{Standing, disclosure, text_of};
use spoolgate_wire::code::Exit;
use spoolgate_wire::sealed::Field;

use crate::cli::output::Output;

/// What to disclose.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of the line.
    seq: u64,
    /// JSON pointer of a sealed field, or `data`, `message` or `complaint` of a result; default:
    /// all fields of the payload or the result.
    #[arg(long, value_name = "POINTER")]
    field: Vec<String>,
}

/// One disclosure, as JSON output.
#[derive(serde::Serialize)]
struct Disclosed {
    field: String,
    sd: String,
    /// Disclosure as in RFC 9901: its SHA-256, in base64url, is `sd`.
    disclosure: Option<String>,
}

/// Prints the disclosures, one per line.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = read::real_seams(home)?;
    let view = read::read(home, &seams)?;
    if args.seq >= view.position.seq {
        bail!(no_line(args.seq, view.position.seq))
    }
    let sealed = match view.record(args.seq)? {
        Some(Record::Decision(line)) => line.sealed,
        Some(Record::Response(line)) => line.sealed,
        _ => bail!(
            "line {} is not a decision; only requests and results have sealed fields",
            args.seq
        ),
    };
    if sealed.is_empty() {
        bail!("line {} has no sealed fields", args.seq)
    }
    if let Some(unknown) = args
        .field
        .iter()
        .find(|pointer| !sealed.iter().any(|field| field.field == **pointer))
    {
        bail!("`{unknown}` is not a sealed field of line {}", args.seq)
    }
    let is_asked = |field: &Field| match args.field.as_slice() {
        [] => is_named(field),
        fields => fields.contains(&field.field),
    };
    let mut found = Vec::new();
    for field in sealed.into_iter().filter(|field| is_asked(field)) {
        let disclosure = match disclosure(seams.disk.as_ref(), &field)? {
            Standing::Disclosed(opened) => Some(text_of(&opened)),
            Standing::Missing | Standing::Damaged(_) => None,
        };
        found.push(Disclosed {
            field: field.field,
            sd: field.sd,
            disclosure,
        });
    }
    let is_whole = found.iter().all(|field| field.disclosure.is_some());
    if output.is_json() {
        output.json(&found)?;
    } else {
        for field in &found {
            match &field.disclosure {
                Some(text) => output.line(&format!("{}  {text}", field.sd))?,
                None => output.remark(&format!(
                    "{}: the disclosure of `{}` is deleted",
                    field.sd, field.field
                )),
            }
        }
    }
    Ok(if is_whole {
        Exit::Success
    } else {
        Exit::Refused
    })
}
