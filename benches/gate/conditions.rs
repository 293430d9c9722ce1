//! The machine as it was: figures without it mean nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What is known of the machine.
pub(crate) struct Conditions {
    rows: Vec<(&'static str, String)>,
    load_before: String,
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown".to_owned())
}

/// A line of `/proc/meminfo`.
fn mib(name: &str) -> u64 {
    let kib = field("/proc/meminfo", name)
        .trim_end_matches(" kB")
        .parse::<u64>();
    kib.unwrap_or(0) / 1024
}

fn load() -> String {
    first_line("/proc/loadavg")
        .split(' ')
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Kind, device and options of the file system that holds `dir`.
fn file_system(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let holding = mounts.lines().filter_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        let mut place = place.split(' ');
        let point = place.nth(4)?;
        let options = place.next()?;
        let mut source = source.split(' ');
        let (kind, device) = (source.next()?, source.next()?);
        dir.starts_with(point)
            .then(|| (point.len(), format!("{kind} on {device} ({options})")))
    });
    // The last of the deepest ones: a later mount covers an earlier one.
    holding
        .max_by_key(|(depth, _)| *depth)
        .map_or_else(|| "unknown".to_owned(), |(_, text)| text)
}

impl Conditions {
    /// As things are before the first run.
    pub(crate) fn before(dir: &Path) -> Conditions {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let rustc = Command::new("rustc").arg("--version").output();
        let rustc = rustc.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
        let memory = format!("{} free of {} MiB", mib("MemAvailable"), mib("MemTotal"));
        let rows = vec![
            (
                "program",
                format!("spoolgate {}", env!("CARGO_PKG_VERSION")),
            ),
            ("compiler", rustc.unwrap_or_else(|_| "unknown".to_owned())),
            (
                "cores",
                format!("{cores}, {}", field("/proc/cpuinfo", "model name")),
            ),
            ("kernel", first_line("/proc/sys/kernel/osrelease")),
            ("disk", file_system(dir)),
            ("memory", memory),
        ];
        Conditions {
            rows,
            load_before: load(),
        }
    }

    /// And after the last.
    pub(crate) fn after(&mut self) {
        self.rows.push((
            "load",
            format!("{} before, {} after", self.load_before, load()),
        ));
    }

    /// Name and value of each.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        self.rows.clone()
    }
}
