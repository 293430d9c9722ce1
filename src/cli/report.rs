//! `spoolgate report`: writes one page for people, or its figures for programs.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use spoolgate_home::HomeError;
use spoolgate_home::layout::FOLDERS;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::segment;
use spoolgate_replay::report::{Figures, Options, collect};
use spoolgate_report::{MARK, page};
use spoolgate_wire::code::Exit;

use super::output::{Output, plain};
use super::progress::{Progress, log_bytes};
use super::rules;

/// Title of a page without --title.
const TITLE: &str = "What the gate decided";

/// Writes one page for people: equity, decisions, refusals, cases, the ledger.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate report --html report.html\n  spoolgate report --html \
        week.html --since 2026-03-02T00:00:00Z --until 2026-03-09T00:00:00Z --title \"Week 10\"\n  \
        spoolgate --format json report | jq .told.decisions.total\n\nThe ledger is verified \
        first; if it does not verify, the page says only that, and the exit code is 5. The page \
        contains\nprivate figures (mode 0600), loads nothing and runs nothing."
)]
pub(super) struct Args {
    /// The file: a new one, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show equity, decisions, rules and cases from this time on, RFC 3339 UTC; default: from the
    /// first line on.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show them up to, but not including, this time; default: up to the last line.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The title at the top of the page.
    #[arg(long, value_name = "TEXT", default_value = TITLE)]
    title: String,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let options = Options {
        since: rules::time("since", args.since.as_deref())?,
        until: rules::time("until", args.until.as_deref())?,
    };
    if let (Some(since), Some(until)) = (options.since, options.until)
        && since >= until
    {
        bail!("--since `{since}` is not before --until `{until}`");
    }
    let target = match (&args.html, output.is_json()) {
        (Some(_), true) => {
            bail!(
                "`--format json` prints the figures and `--html` writes the page; give only one \
                of them"
            )
        }
        (None, false) => {
            bail!("name the file with --html; `--format json` prints the figures instead")
        }
        (Some(path), false) => Some(Target::of(home, path)?),
        (None, true) => None,
    };
    let progress = Progress::bytes(
        output,
        "looking back",
        log_bytes(&home.join(segment::AUDIT_DIR)),
    );
    let figures = collect(home, &real_seams(home)?, &options, &mut |done| {
        progress.at(done)
    });
    drop(progress);
    let figures = figures?;
    match target {
        None => output.json(&figures)?,
        Some(target) => {
            target.write(&page(&figures, &args.title))?;
            output.line(&format!(
                "the page is in {}",
                plain(&target.path.display().to_string())
            ))?;
        }
    }
    Ok(exit_of(&figures, output))
}

fn exit_of(figures: &Figures, output: &Output) -> Exit {
    if figures.ledger.ok {
        return Exit::Success;
    }
    let first = figures.ledger.problems.first();
    let what = first.map(|problem| {
        format!(
            "`{}` at byte {}: {}",
            problem.file, problem.offset, problem.what
        )
    });
    output.remark(&format!(
        "the ledger does not verify, so none of its content is shown: {}; run `spoolgate audit \
            verify`",
        what.unwrap_or_else(|| "the place is unknown".to_owned())
    ));
    Exit::LedgerCorrupt
}

/// The destination of the page. The folder is held open, so that a renamed folder cannot redirect
/// the write.
struct Target {
    path: PathBuf,
    folder: fs::File,
    name: std::ffi::OsString,
}

impl Target {
    /// Accepts a path for the page if it is not in the gate's own folders, not a link, and not
    /// another file.
    fn of(home: &Path, path: &Path) -> Result<Target> {
        // In other commands `-` is standard output; here it would be the name of a file.
        let Some(name) = path.file_name().filter(|name| *name != "-") else {
            bail!(
                "`{}` names no file; give --html one, such as report.html",
                path.display()
            )
        };
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let parent = parent
            .canonicalize()
            .with_context(|| format!("folder `{}`", parent.display()))?;
        for (folder, _) in FOLDERS {
            let own = home.join(folder).canonicalize();
            if own.is_ok_and(|own| parent.starts_with(own)) {
                bail!(
                    "`{}` is in `{folder}`, which belongs to the gate; name another place with \
                        --html",
                    path.display()
                );
            }
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&parent, flags, Mode::empty())
            .map_err(|error| HomeError::disk(&parent, error.into()))?;
        let target = Target {
            path: path.to_owned(),
            folder: folder.into(),
            name: name.to_owned(),
        };
        target.demand_free()?;
        Ok(target)
    }

    /// Refuses if the page would replace anything but an earlier report.
    fn demand_free(&self) -> Result<()> {
        let shown = self.path.display();
        let there = match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            there => there.map_err(|error| HomeError::disk(&self.path, error.into()))?,
        };
        match FileType::from_raw_mode(there.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => {
                bail!(
                    "`{shown}` is a link, and the report follows no links; name the file itself \
                    with --html"
                )
            }
            _ => bail!("`{shown}` is not a regular file; name another with --html"),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|error| HomeError::disk(&self.path, error.into()))?;
        let mut start = Vec::new();
        let most = u64::try_from(MARK.len()).unwrap_or(u64::MAX);
        fs::File::from(opened)
            .take(most)
            .read_to_end(&mut start)
            .map_err(|error| HomeError::disk(&self.path, error))?;
        if start != MARK.as_bytes() {
            bail!(
                "`{shown}` exists and is not a report; remove it first, or name another file with \
                    --html"
            );
        }
        Ok(())
    }

    /// Writes the page as a whole or not at all.
    fn write(&self, text: &str) -> Result<()> {
        let fail = |error: std::io::Error| HomeError::disk(&self.path, error);
        self.demand_free()?;
        let hidden = format!(".{}.tmp", spoolgate_client::random_name()?);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = rustix::fs::openat(&self.folder, &hidden, flags, Mode::RUSR | Mode::WUSR)
            .map_err(std::io::Error::from)
            .and_then(|file| {
                let mut file = fs::File::from(file);
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| {
                Ok(rustix::fs::renameat(
                    &self.folder,
                    &hidden,
                    &self.folder,
                    &self.name,
                )?)
            })
            .and_then(|()| self.folder.sync_all());
        if written.is_err() {
            // Half a page is useless.
            let _ = rustix::fs::unlinkat(&self.folder, &hidden, AtFlags::empty());
        }
        Ok(written.map_err(fail)?)
    }
}
