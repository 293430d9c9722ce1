//! The command line.

use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

/// What can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// A backlog, drained at several batch sizes.
    Drain,
    /// From rename-in to the answer in the client's hands.
    Watch,
    /// Outgoing actions and queries, through the socket and through files.
    Gateway,
    /// Nanoseconds of each step of one decision.
    Stages,
    /// One command, on a small and a large home.
    Oneshot,
    /// `audit verify` beside plain hashing.
    Verify,
    /// `audit replay` beside the bare fold.
    Replay,
    /// Instructions and system calls of a request.
    Instructions,
    /// Ten thousand open cases of the council.
    Council,
    /// One admission, with up to a million tasks in the index.
    Admission,
    /// Facts of an order, and twenty rules over them.
    Rules,
    /// Receipts of a log of ten million lines.
    Receipts,
}

impl Section {
    /// In the order of running.
    pub(crate) const ALL: [Section; 12] = [
        Section::Stages,
        Section::Rules,
        Section::Drain,
        Section::Watch,
        Section::Gateway,
        Section::Instructions,
        Section::Verify,
        Section::Replay,
        Section::Oneshot,
        Section::Council,
        Section::Admission,
        Section::Receipts,
    ];

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::Drain => "drain",
            Section::Watch => "watch",
            Section::Gateway => "gateway",
            Section::Stages => "stages",
            Section::Oneshot => "oneshot",
            Section::Verify => "verify",
            Section::Replay => "replay",
            Section::Instructions => "instructions",
            Section::Council => "council",
            Section::Admission => "admission",
            Section::Rules => "rules",
            Section::Receipts => "receipts",
        }
    }
}

/// How the report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Aligned columns, for a terminal.
    Table,
    /// As it stands in docs/performance.md.
    Markdown,
    /// One object, for programs.
    Json,
}

/// Measure the gate beside bare system calls.
#[derive(Parser)]
#[command(
    name = "cargo bench --bench gate --",
    after_help = "Examples:\n  cargo bench --bench gate                       everything, about a \
        quarter of an hour\n  cargo bench --bench gate -- --quick            proves that it \
        works, under a minute; no figures to quote\n  cargo bench --bench gate -- --only drain       \
        one part\n  cargo bench --bench gate -- --markdown         the table of \
        docs/performance.md\n\nNothing else may run meanwhile: the load before and after is \
        printed. Every run is checked: each request has\nits line and its answer, and the ledger \
        verifies; a run that is not complete is an error and no figure."
)]
pub(crate) struct Args {
    /// Only this; may be given several times.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Section>,
    /// A small run that proves the command works. Its figures are not for quoting.
    #[arg(long)]
    pub quick: bool,
    /// How to print.
    #[arg(
        long = "format",
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub form: Form,
    /// The same as `--format markdown`.
    #[arg(long, conflicts_with = "form")]
    markdown: bool,
    /// Where the scratch homes are made: the disk that is measured.
    #[arg(long, value_name = "DIR", default_value = env!("CARGO_TARGET_TMPDIR"))]
    pub dir: PathBuf,
    /// Requests of a backlog. A quarter of them at batches of 1.
    #[arg(long, value_name = "N")]
    requests: Option<usize>,
    /// Batch sizes of the backlog.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 64, 256, 1024])]
    pub batches: Vec<usize>,
    /// Rounds of peer and gate by turns.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Requests of the watch, one at a time.
    #[arg(long, value_name = "N")]
    samples: Option<usize>,
    /// Ledger lines of the large home. It is made once, in target/bench-homes.
    #[arg(long, value_name = "N")]
    lines: Option<u64>,
    /// Size of the ledger that is verified, MiB. It is made once, in target/bench-homes.
    #[arg(long, value_name = "N")]
    ledger_mib: Option<u64>,
    /// What cargo tells every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Reads the command line; ends the process for `--help` and mistakes.
pub(crate) fn read() -> Args {
    let mut args = Args::parse();
    if args.markdown {
        args.form = Form::Markdown;
    }
    args
}

impl Args {
    /// Whether this is to be measured.
    pub(crate) fn wants(&self, section: Section) -> bool {
        self.only.is_empty() || self.only.contains(&section)
    }

    fn or<T>(&self, given: Option<T>, full: T, quick: T) -> T {
        given.unwrap_or(if self.quick { quick } else { full })
    }

    /// Requests of a backlog at this batch size.
    pub(crate) fn requests(&self, batch: usize) -> usize {
        let all = self.or(self.requests, 20_000, 400);
        if batch == 1 { all.div_ceil(4) } else { all }
    }

    /// Rounds of peer and gate by turns.
    pub(crate) fn rounds(&self) -> usize {
        self.or(self.rounds, 5, 1).max(1)
    }

    /// Requests of the watch.
    pub(crate) fn samples(&self) -> usize {
        self.or(self.samples, 2000, 40).max(10)
    }

    /// Runs of a command for its wall time.
    pub(crate) fn starts(&self) -> usize {
        if self.quick { 5 } else { 60 }
    }

    /// Ledger lines of the large home.
    pub(crate) fn lines(&self) -> u64 {
        self.or(self.lines, 1_000_000, 5_000)
    }

    /// Ledger lines of the log that receipts are made from. It is made once, in target/bench-homes.
    pub(crate) fn receipt_lines(&self) -> u64 {
        self.or(self.lines, 10_000_000, 20_000)
    }

    /// Bytes of the ledger that is verified.
    pub(crate) fn ledger_bytes(&self) -> u64 {
        self.or(self.ledger_mib, 1024, 8) * 1024 * 1024
    }

    /// Council cases that are open at once.
    pub(crate) fn cases(&self) -> usize {
        if self.quick { 50 } else { 10_000 }
    }

    /// Tasks in the index when an admission is measured.
    pub(crate) fn tasks(&self) -> &'static [u64] {
        if self.quick {
            &[1_000, 2_000]
        } else {
            &[1_000, 10_000, 100_000, 1_000_000]
        }
    }

    /// Milliseconds of one sample of a step.
    pub(crate) fn sample_ms(&self) -> u64 {
        if self.quick { 5 } else { 100 }
    }

    /// Progress, on a terminal only; an empty text clears it.
    pub(crate) fn say(&self, text: &str) {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[K{text}");
        }
    }

    /// Homes that are kept from run to run.
    pub(crate) fn kept_homes(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench-homes")
    }
}
