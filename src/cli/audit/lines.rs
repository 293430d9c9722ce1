//! The lines of a request or with a number, as several commands read them.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_gate::Record;
use spoolgate_home::HomeError;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::batches::Line;
use spoolgate_replay::query::{Books, Filter};

/// Returns the lines of the request with this id, or the line with this number.
///
/// # Errors
/// Fails as well if nothing is found and contents were pruned, because the line may be among them.
pub(super) fn lines(home: &Path, id: &str) -> Result<Vec<Line>> {
    let books = Books::of_home(home, &real_seams(home)?)?;
    let mut found: Vec<Line> = Vec::new();
    let mut filters = vec![Filter {
        request_ids: vec![id.to_owned()],
        ..Filter::default()
    }];
    if let Ok(seq) = id.parse::<u64>() {
        filters.push(Filter {
            own_kinds: true,
            lines: seq..seq.saturating_add(1),
            ..Filter::default()
        });
    }
    for filter in filters {
        books.find(&filter, None, &mut |line| -> Result<()> {
            found.push(line.clone());
            Ok(())
        })?;
    }
    let pruned = books.pruned()?;
    if found.is_empty() && !pruned.is_empty() {
        bail!(
            "none of the lines here has it; the contents of these segments were pruned: {}",
            pruned.join(", ")
        );
    }
    found.sort_by_key(|line| line.seq);
    found.dedup_by_key(|line| line.seq);
    Ok(found)
}

/// Returns the same lines as records, without the lines that the ledger writes about itself.
pub(crate) fn records(home: &Path, id: &str) -> Result<Vec<(u64, Record)>> {
    let mut found = Vec::new();
    for line in lines(home, id)? {
        let record = Record::parse(&line.kind, &line.body())
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        found.extend(record.map(|record| (line.seq, record)));
    }
    Ok(found)
}
