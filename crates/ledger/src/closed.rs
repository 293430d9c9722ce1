//! Reads a closed segment line by line and computes its digest and its lines' hashes, and checks
//! that it ends as the next segment states. This check comes before anything of a segment is
//! removed.

use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::line;
use super::scan::{LineReader, NextLine};
use super::segment::{self, Segment};
use super::stub::{Stub, StubHeader};
use super::sums;
use super::tree::{Hash, leaf_hash};
use crate::disk::{self, Disk, LogFile};
use spoolgate_wire::signing::hex;

fn bad(number: u32, what: &str) -> io::Error {
    let name = segment::file_name(number);
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("`{name}`: {what}; run `spoolgate audit verify`"),
    )
}

/// Returns the `segment` line at the start of the file after segment `number`. `None` if that is
/// the last segment.
///
/// # Errors
/// Returns the disk's error, or [`io::ErrorKind::InvalidData`] if that file does not begin with a
/// segment line.
pub(crate) fn next_header(disk: &dyn Disk, dir: &Path, number: u32) -> io::Result<Option<Segment>> {
    let next = number.saturating_add(1);
    let file = match segment::open_head(disk, dir, next) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let NextLine::Line(_, bytes) = LineReader::new(file.as_ref(), 0).next_line()? else {
        return Err(bad(next, "its first line is incomplete"));
    };
    let header = line::parse(&bytes)
        .ok()
        .filter(|line| line.kind == "segment");
    let header = header.and_then(|line| serde_json::from_str(&line.body()).ok());
    header
        .map(Some)
        .ok_or_else(|| bad(next, "it does not begin with a segment line"))
}

/// Reads a closed segment through `file`, in whichever form that is, and makes its stub. Checks
/// that every line names the line before it and that the segment ends as the next one states. Does
/// not check seals.
///
/// # Errors
/// Returns [`io::ErrorKind::InvalidData`] if a check fails or if this is the last segment, or an
/// error if reading fails.
pub(crate) fn look_at(
    disk: &dyn Disk,
    dir: &Path,
    number: u32,
    file: &dyn LogFile,
) -> io::Result<Stub> {
    let Some(told) = next_header(disk, dir, number)? else {
        return Err(bad(
            number,
            "it is the last segment, which is still written to",
        ));
    };
    let end = told.previous.length;
    let length = file.len()?;
    let mut reader = LineReader::new(file, 0);
    let mut leaves: Vec<Hash> = Vec::new();
    let mut head = Vec::new();
    let mut head_lines = 0;
    let mut first = None;
    let mut last_batch = 0;
    let mut at = 0;
    while at < end {
        let NextLine::Line(offset, bytes) = reader.next_line()? else {
            return Err(bad(number, "it ends before its last seal"));
        };
        let line = line::parse(&bytes).map_err(|error| bad(number, &error.to_string()))?;
        let (seq, batch) = *first.get_or_insert((line.seq, line.batch));
        let follows = match leaves.last() {
            Some(leaf) => *leaf == line.prev,
            None => true,
        };
        let count = u64::try_from(leaves.len()).map_err(io::Error::other)?;
        if !follows || line.seq != seq.saturating_add(count) || line.batch < last_batch {
            return Err(bad(
                number,
                &format!("line {} does not follow the line before it", line.seq),
            ));
        }
        last_batch = line.batch;
        if line.batch == batch {
            head.extend_from_slice(&bytes);
            head.push(b'\n');
            head_lines += 1;
        }
        leaves.push(leaf_hash(&bytes));
        at = offset
            .saturating_add(u64::try_from(bytes.len()).map_err(io::Error::other)?)
            .saturating_add(1);
    }
    let rest = disk::read_exact_at(
        file,
        end,
        usize::try_from(
            length
                .saturating_sub(end)
                .min(super::scan::BATCH_BYTES_MAX + 1),
        )
        .map_err(io::Error::other)?,
    )?;
    let rest_agrees = match &told.rest {
        None => rest.is_empty(),
        Some(torn) => {
            torn.offset == end
                && Ok(torn.length) == u64::try_from(rest.len())
                && torn.sha256 == hex(&Sha256::digest(&rest))
        }
    };
    let lines = u64::try_from(leaves.len()).map_err(io::Error::other)?;
    let (first_line, first_batch) = first.unwrap_or_default();
    let agrees = at == end
        && told.previous.file == segment::file_name(number)
        && told.previous.lines == lines
        && leaves
            .last()
            .is_some_and(|leaf| leaf.to_string() == told.previous.head)
        && rest_agrees;
    if !agrees {
        return Err(bad(
            number,
            "its end differs from what the next segment states",
        ));
    }
    let header = StubHeader {
        format: Stub::format(),
        file: segment::file_name(number),
        first_line,
        first_batch,
        lines,
        batches: last_batch.saturating_sub(first_batch).saturating_add(1),
        length: end,
        rest: told.rest,
        sha256: sums::sum_of(file)?.to_string(),
        head_lines,
    };
    Ok(Stub {
        header,
        head,
        leaves,
    })
}
