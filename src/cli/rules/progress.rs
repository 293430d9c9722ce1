//! A bar for what reads the whole ledger.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use spoolgate::ledger::segment;
use spoolgate::wire::time::Time;

/// Bytes from which on there is a bar: less takes no time.
const BYTES_MIN: u64 = 8 * 1024 * 1024;

/// A bar over the bytes of a home's ledger, drawn on a terminal only.
pub fn bar(home: &Path) -> ProgressBar {
    let folder = fs::read_dir(home.join(segment::AUDIT_DIR)).into_iter().flatten();
    let files = folder.filter_map(|entry| entry.ok()?.metadata().ok()).filter(fs::Metadata::is_file);
    let total: u64 = files.map(|file| file.len()).sum();
    let bar = if total > BYTES_MIN { ProgressBar::new(total) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {bytes_per_sec} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// A time of the command line.
pub fn time(name: &str, text: Option<&str>) -> Result<Option<Time>> {
    text.map(|text| Time::parse(text).with_context(|| format!("--{name}"))).transpose()
}
