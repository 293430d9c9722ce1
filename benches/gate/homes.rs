//! Homes: a template with an account, a key and prices; copies of it; large ones that are made
//! once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use spoolgate_gate::prepare::{Delivery, Origin};
use spoolgate_gate::record::{Record, Ruling};
use spoolgate_home::read::real_seams;
use spoolgate_home::{Home, Seams};
use spoolgate_host::spool::claim::Claimed;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_ledger::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};
use spoolgate_ledger::line;

use crate::child;
use crate::requests::{AGENT, Agent, Fate, Sent, THESES, thesis};

/// A home with its agent.
pub(crate) struct Place {
    /// Its folder.
    pub home: PathBuf,
    /// Who signs.
    pub agent: Agent,
}

/// What the repository's own rules are changed to: more capital, and bounds on age and number that
/// a long run does not reach. The checks stay the same.
const SAFETY: [(&str, &str); 19] = [
    ("max_total_capital: 5000 ", "max_total_capital: 1000000 "),
    ("max_daily_loss: 250 ", "max_daily_loss: 100000 "),
    ("max_weekly_loss: 500 ", "max_weekly_loss: 100000 "),
    ("max_daily_turnover: 10 ", "max_daily_turnover: 1000000 "),
    ("max_portfolio_risk: 0.06 ", "max_portfolio_risk: 1 "),
    ("slippage_to_plan: 0.005 ", "slippage_to_plan: 1 "),
    ("max_open_orders: 50 ", "max_open_orders: 1000000 "),
    (
        "max_entries_per_minute: 10 ",
        "max_entries_per_minute: 1000000 ",
    ),
    (
        "max_entries_per_minute_all: 30 ",
        "max_entries_per_minute_all: 1000000 ",
    ),
    (
        "max_messages_per_minute: 600 ",
        "max_messages_per_minute: 1000000000 ",
    ),
    (
        "max_messages_per_minute_all: 3000 ",
        "max_messages_per_minute_all: 1000000000 ",
    ),
    (
        "max_protected_per_minute: 600 ",
        "max_protected_per_minute: 1000000000 ",
    ),
    ("max_executions: 50 ", "max_executions: 1000 "),
    ("executions_window_s: 3600 ", "executions_window_s: 1 "),
    ("max_losing_trades: 3 ", "max_losing_trades: 1000000 "),
    ("cooldown_s: 300 ", "cooldown_s: 0 "),
    ("quote_age_floor_s: 120 ", "quote_age_floor_s: 315360000 "),
    ("request_age_max_s: 300 ", "request_age_max_s: 86400 "),
    ("clock_gap_max_s: 604800 ", "clock_gap_max_s: 315360000 "),
];

/// Makes a new home below `dir`.
pub(crate) fn new(dir: &Path) -> Result<Place> {
    let home = dir.join("home");
    fs::create_dir_all(home.join("rules"))?;
    let mut safety = include_str!("../../rules/safety.yaml").to_owned();
    for (from, to) in SAFETY {
        ensure!(
            safety.contains(from),
            "rules/safety.yaml has no `{from}` any more"
        );
        safety = safety.replace(from, to);
    }
    fs::write(home.join("rules/safety.yaml"), safety)?;
    fs::create_dir_all(home.join("proposals/theses"))?;
    let text = include_str!("../../proposals/theses/btc-range-long.md");
    for slug in (0..THESES).map(thesis) {
        let text = text.replace("slug: btc-range-long", &format!("slug: {slug}"));
        fs::write(home.join(format!("proposals/theses/{slug}.md")), text)?;
    }
    child::succeed(&home, &["init"])?;
    let key_file = dir.join("agent.key");
    let named = key_file.to_str().context("a path that is text")?;
    child::succeed(&home, &["keys", "add", AGENT, "--out", named])?;
    child::succeed(
        &home,
        &[
            "account",
            "deposit",
            "1000000",
            "--reason",
            "opening balance",
        ],
    )?;
    for kind in ["quote", "trade"] {
        let root = env!("CARGO_MANIFEST_DIR");
        let file =
            format!("{root}/examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip");
        child::succeed(
            &home,
            &[
                "market",
                "import",
                &file,
                "--symbol",
                "BTC-USD",
                "--end-now",
            ],
        )?;
    }
    there(dir)
}

fn there(dir: &Path) -> Result<Place> {
    let key = fs::read(dir.join("agent.key"))?;
    Ok(Place {
        home: dir.join("home"),
        agent: Agent::from_key_file(&key)?,
    })
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Puts requests into the flat spool of a home.
pub(crate) fn drop_into(home: &Path, requests: &[Sent]) -> Result<()> {
    for sent in requests {
        fs::write(home.join("spool/in").join(&sent.name), &sent.bytes)?;
    }
    Ok(())
}

/// The content of a home after a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drained {
    /// Decision lines of agents.
    pub decisions: usize,
    /// Orders accepted.
    pub accepted: usize,
    /// Seals over them.
    pub seals: usize,
    /// Bytes of their lines.
    pub line_bytes: usize,
    /// Bytes of their answers.
    pub answer_bytes: usize,
    /// Rows of the check vector of an order.
    pub checks: usize,
}

/// The files of a home's log, in order.
pub(crate) fn segments(home: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(home.join("audit"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Demands that each of `sent` has its line and its answer, that nothing is left, and that the
/// ledger verifies. What is measured must have been done.
pub(crate) fn check(home: &Path, sent: usize, accepted: usize) -> Result<Drained> {
    let mut found = Drained::default();
    let mut open_seals = 0;
    for path in segments(home)? {
        for text in fs::read(&path)?
            .split(|byte| *byte == b'\n')
            .filter(|text| !text.is_empty())
        {
            let line = line::parse(text).with_context(|| path.display().to_string())?;
            match Record::parse(line.kind, &line.body()).map_err(anyhow::Error::msg)? {
                Some(Record::Decision(decision)) if decision.spool == "flat" => {
                    found.decisions += 1;
                    found.line_bytes += text.len() + 1;
                    found.accepted += usize::from(decision.decision == Some(Ruling::Accepted));
                    found.checks = found.checks.max(decision.checks.len());
                    open_seals = 1;
                }
                None if line.kind == "seal" => found.seals += std::mem::take(&mut open_seals),
                _ => {}
            }
        }
    }
    let mut answers = 0;
    for entry in fs::read_dir(home.join("spool/out"))? {
        answers += 1;
        found.answer_bytes += usize::try_from(entry?.metadata()?.len())?;
    }
    let left =
        ["spool/in", "spool/work"].map(|folder| Ok(fs::read_dir(home.join(folder))?.count()));
    let left = left.into_iter().sum::<io::Result<usize>>()?;
    ensure!(
        found.decisions == sent && answers == sent && left == 0,
        "{sent} requests came to {} lines and {answers} answers, {left} are left",
        found.decisions
    );
    ensure!(
        found.accepted == accepted,
        "{} orders were accepted where {accepted} should be",
        found.accepted
    );
    child::succeed(home, &["audit", "verify"]).context("the ledger does not verify")?;
    Ok(found)
}

/// The real disk without what large homes need no time spent on: syncs, and answers that nobody
/// reads.
pub(crate) struct FastDisk(Arc<dyn Disk>);

impl FastDisk {
    /// Over a disk.
    pub(crate) fn over(disk: Arc<dyn Disk>) -> FastDisk {
        FastDisk(disk)
    }
}

struct FastLog(Box<dyn LogFile>);

fn is_answer(path: &Path) -> bool {
    path.starts_with("spool/out")
}

impl Disk for FastDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.0.read_dir(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.0.stat(path)
    }
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.0.read(path, limit)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if is_answer(to) {
            Ok(())
        } else {
            self.0.rename(from, to)
        }
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        // Claims here were never files.
        if path.starts_with("spool/work") {
            Ok(())
        } else {
            self.0.remove(path)
        }
    }
    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, _: bool) -> io::Result<()> {
        if is_answer(path) {
            Ok(())
        } else {
            self.0.write(path, bytes, mode, false)
        }
    }
    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_again(path, offset, bytes)
    }
    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.0.create_dir(path, mode)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn sync_fs(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(FastLog(self.0.open_log(path, access)?)))
    }
}

impl LogFile for FastLog {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn drop_cache(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// How far a large home is to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    /// Up to so many lines, by the smallest requests.
    Lines(u64),
    /// Up to so many bytes, by orders that are refused.
    Bytes(u64),
}

impl Fill {
    fn name(self) -> String {
        match self {
            Fill::Lines(lines) => format!("lines-{lines}"),
            Fill::Bytes(bytes) => format!("bytes-{bytes}"),
        }
    }

    fn is_reached(self, home: &Home, bytes: u64) -> bool {
        match self {
            Fill::Lines(lines) => home.position().seq >= lines,
            Fill::Bytes(least) => bytes >= least,
        }
    }
}

/// Bytes of a home's log.
pub(crate) fn log_bytes(home: &Path) -> Result<u64> {
    segments(home)?
        .iter()
        .map(|path| Ok(fs::metadata(path)?.len()))
        .sum()
}

/// A home that is filled so far, from an earlier run of this version or made now by taking requests
/// through the library without waiting for the disk.
pub(crate) fn filled(kept: &Path, fill: Fill, say: &dyn Fn(&str)) -> Result<Place> {
    let dir = kept.join(format!("v{}-{}", env!("CARGO_PKG_VERSION"), fill.name()));
    if let Ok(place) = there(&dir)
        && dir.join("complete").is_file()
        && Home::open(&place.home, real_seams(&place.home)?).is_ok()
    {
        return Ok(place);
    }
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let place = new(&dir)?;
    let seams = real_seams(&place.home)?;
    let mut home = Home::open(
        &place.home,
        Seams {
            disk: Arc::new(FastDisk(Arc::clone(&seams.disk))),
            ..seams
        },
    )?;
    let mut made = 0_usize;
    let mut bytes = 0;
    while !fill.is_reached(&home, bytes) {
        let batch: Vec<Sent> = (made..made + 200)
            .map(|n| match fill {
                Fill::Lines(_) => place.agent.look(&format!("fill-{n:08}")),
                Fill::Bytes(_) => place
                    .agent
                    .order(&format!("fill-{n:08}"), n, Fate::StopTooFar),
            })
            .collect::<Result<_>>()?;
        made += batch.len();
        let number = home.position().batch;
        home.process(
            batch
                .into_iter()
                .map(|sent| claimed(sent, number))
                .collect(),
        )?;
        if made.is_multiple_of(4000) {
            bytes = log_bytes(&place.home)?;
            say(&format!(
                "filling a home, kept for later runs: {made} requests, {} MiB",
                bytes / 1024 / 1024
            ));
        }
    }
    home.finish("filled")?;
    drop(home);
    rustix::fs::syncfs(fs::File::open(&dir)?)?;
    fs::write(dir.join("complete"), "")?;
    Ok(place)
}

fn claimed(sent: Sent, batch: u64) -> Claimed {
    let Sent { name, bytes } = sent;
    let weight = bytes.len();
    let delivery = Delivery {
        origin: Origin::Flat,
        file: name.clone(),
        shown: name.clone(),
        content: Ok(bytes),
    };
    Claimed {
        claim: ClaimName {
            attempt: 1,
            batch,
            origin: Origin::Flat,
            file: name,
        },
        delivery,
        weight,
    }
}
