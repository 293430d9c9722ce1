//! Runs a program for the gate: writes its standard input and reads its standard output, with
//! limits on time and size, in a process group of its own and with a clean environment. The program
//! ends at its limits, whatever it does.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};
use zeroize::Zeroizing;

use super::cage::{self, Bounds, Decoys, Incoming, Rights, Scratch, Tried};
use super::orphans;
use spoolgate_gate::record::Cage;
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::safety::CageLevel;

/// Bytes of standard error that are kept for the operator.
pub(crate) const COMPLAINT_BYTES_MAX: usize = 2048;
/// Interval at which a silent program is checked.
const LOOK: Duration = Duration::from_millis(20);
/// How long a cage that is only tried may take.
const PROBE: Duration = Duration::from_secs(10);
/// Most bytes of the outcomes of trying the ways out of a cage.
const TRIED_BYTES_MAX: usize = 64 * 1024;
/// Where programs without a path are searched; nothing of the gate's own environment is passed on.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const LANG: &str = "C.UTF-8";

/// Finds a program that a rule names: a path with a `/` is relative to the home (or absolute), a
/// bare name is one of the system's programs. `None` if it does not exist.
pub fn find(home: &Path, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(home.join(program)).filter(|path| path.exists());
    }
    folders()
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Folders in which bare names are searched, in this order.
pub fn folders() -> impl Iterator<Item = &'static Path> {
    PATH.split(':').map(Path::new)
}

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its path, or a bare name to search in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [String],
    /// Its working directory.
    pub dir: &'a Path,
    /// Maximum running time.
    pub time_max: Duration,
    /// Maximum number of bytes of output.
    pub output_bytes_max: usize,
}

/// How a program ended.
#[derive(Debug)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal, which the gate did not send.
    Killed(i32),
    /// It was killed because it took too long.
    TimedOut,
    /// It was killed because it wrote too much.
    Flooded,
    /// It was killed because the gate is stopping.
    Stopped,
    /// It could not be started, so it did nothing.
    NotStarted(io::Error),
    /// It was started, but its pipes failed, so it was killed.
    Failed(io::Error),
}

/// Result of running a program.
#[derive(Debug)]
pub struct Run {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output, as far as it was read.
    pub output: Vec<u8>,
    /// The beginning of its standard error.
    pub complaint: Vec<u8>,
    /// What its cage enforced; `None` if it was not started, or without a cage.
    pub cage: Option<Cage>,
}

/// A program and its process group, which is killed however this scope is left.
struct Group {
    child: Child,
    /// Becomes readable when the program has ended. `None` if the kernel does not support that.
    exit: Option<OwnedFd>,
}

impl Group {
    fn start(command: &mut Command) -> io::Result<Group> {
        let child = orphans::start(command)?;
        let mut group = Group { child, exit: None };
        group.exit = group
            .id()
            .and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        Ok(group)
    }

    fn id(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether the program has ended. Does not reap it, so that its process id cannot be reused
    /// before the group is killed.
    fn has_ended(&self) -> io::Result<bool> {
        let Some(id) = self.id() else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(id), options)?.is_some())
    }

    fn kill(&self) {
        if let Some(id) = self.id() {
            // The group may be gone already, and the program may have left it for another one. What
            // it started in other groups loses its parent then, see `orphans.rs`.
            let _ = kill_process_group(id, Signal::KILL);
            let _ = kill_process(id, Signal::KILL);
        }
    }

    /// Kills the whole group and returns the program's exit status.
    fn end(mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.child.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once the program was reaped, its process id may belong to another process.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
            let _ = self.child.wait();
        }
        orphans::ended(self.child.id());
    }
}

fn do_not_block(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = fcntl_getfl(fd)?;
    Ok(fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// Reads what is available, and keeps up to `keep` bytes. Returns false at the end of the stream.
fn take(from: &mut impl Read, into: &mut Vec<u8>, keep: usize) -> io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                let room = keep.saturating_sub(into.len());
                into.extend(buffer.iter().take(count.min(room)));
                if count > room {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs the program of a rule in the home, in its cage, until it ends, reaches a limit, or `stop` is
/// set. `name` names its folder below `scratch`.
pub fn run_rule(
    home: &Path,
    rule: &CommandRule,
    bounds: &Bounds,
    name: &str,
    input: &[u8],
    stop: &AtomicBool,
) -> Run {
    let named = Path::new(&rule.program);
    // A path with a `/` is relative to the home; a bare name is one of the system's programs.
    let path = if rule.program.contains('/') {
        home.join(named)
    } else {
        named.to_owned()
    };
    let program = Program {
        program: &path,
        args: &rule.args,
        dir: home,
        time_max: Duration::from_secs(u64::from(*rule.time_limit_s)),
        output_bytes_max: usize::try_from(*rule.output_bytes_max).unwrap_or(usize::MAX),
    };
    if bounds.level == CageLevel::Off {
        return run(&program, input, stop);
    }
    match Caged::prepare(home, rule, bounds, name) {
        Ok(caged) => run_in(&program, Some(&caged), input, stop),
        Err(error) => Run::of(Ended::NotStarted(error)),
    }
}

/// What a program needs to be started in a cage.
struct Caged {
    /// The program that makes the cage.
    maker: &'static Path,
    rights: Rights,
    frame: Zeroizing<Vec<u8>>,
    /// Removed when this is dropped.
    _scratch: Option<Scratch>,
}

impl Caged {
    fn prepare(home: &Path, rule: &CommandRule, bounds: &Bounds, name: &str) -> io::Result<Caged> {
        let maker = Caged::maker()?;
        let program =
            find(home, &rule.program).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let home = std::fs::canonicalize(home)?;
        let rights = Rights::of(&home, rule, bounds)?;
        let scratch = Scratch::make(&home, name)?;
        let own = scratch.path().display().to_string();
        let env = [
            ("PATH", PATH),
            ("LANG", LANG),
            ("HOME", &own),
            ("TMPDIR", &own),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let frame = rights.frame(
            &program,
            &rule.program,
            &rule.args,
            &home,
            Some(scratch.path()),
            env.into(),
        )?;
        Ok(Caged {
            maker,
            rights,
            frame,
            _scratch: Some(scratch),
        })
    }

    fn maker() -> io::Result<&'static Path> {
        cage::program().ok_or_else(|| {
            io::Error::other("this process has no program that makes cages, as `spoolgate` has")
        })
    }
}

/// Makes a cage for no program, and returns what this machine enforces.
///
/// # Errors
/// Returns why a program would not be started at this level.
pub fn probe_cage(level: CageLevel) -> io::Result<Cage> {
    let (rights, frame) = Rights::of_probe(level)?;
    let caged = Caged {
        maker: Caged::maker()?,
        rights,
        frame,
        _scratch: None,
    };
    let nothing = Program {
        program: Path::new(""),
        args: &[],
        dir: Path::new("/"),
        time_max: PROBE,
        output_bytes_max: 0,
    };
    let run = run_in(&nothing, Some(&caged), b"", &AtomicBool::new(false));
    match (run.cage, run.ended) {
        (Some(cage), _) => Ok(cage),
        (None, Ended::NotStarted(error)) => Err(error),
        (None, ended) => Err(io::Error::other(format!("its cage ended: {ended:?}"))),
    }
}

/// Starts this program in the cage of a program that needs nothing, and lets it try all ways out.
/// Returns what the cage enforced (nothing at [`CageLevel::Off`]) and what became of each try.
///
/// # Errors
/// Returns why a program would not be started at this level, or why nothing could be tried.
pub fn try_ways_out(home: &Path, bounds: &Bounds) -> io::Result<(Option<Cage>, Vec<Tried>)> {
    let maker = Caged::maker()?;
    let own = std::fs::canonicalize(maker)?;
    let decoys = Decoys::make()?;
    let aims = decoys.aims(&std::fs::canonicalize(home)?)?;
    let args = [cage::ARGUMENT, cage::WORD].map(str::to_owned);
    let program = Program {
        program: &own,
        args: &args,
        dir: Path::new("/"),
        time_max: PROBE,
        output_bytes_max: TRIED_BYTES_MAX,
    };
    let caged = (bounds.level != CageLevel::Off).then(|| {
        let (rights, frame) = Rights::of_own(bounds, [&own, aims.readable()], &args)?;
        io::Result::Ok(Caged {
            maker,
            rights,
            frame,
            _scratch: None,
        })
    });
    let caged = caged.transpose()?;
    let input = serde_json::to_vec(&aims)?;
    let run = run_in(&program, caged.as_ref(), &input, &AtomicBool::new(false));
    match run.ended {
        Ended::Exited(0) => Ok((run.cage, cage::tried(&run.output)?)),
        Ended::NotStarted(error) => Err(error),
        ended => Err(io::Error::other(format!(
            "trying the ways out ended: {ended:?}"
        ))),
    }
}

impl Run {
    fn of(ended: Ended) -> Run {
        Run {
            ended,
            output: Vec::new(),
            complaint: Vec::new(),
            cage: None,
        }
    }
}

/// Runs a program until it ends, reaches a limit, or `stop` is set, without a cage.
pub fn run(program: &Program<'_>, input: &[u8], stop: &AtomicBool) -> Run {
    run_in(program, None, input, stop)
}

fn run_in(program: &Program<'_>, caged: Option<&Caged>, input: &[u8], stop: &AtomicBool) -> Run {
    let mut run = Run::of(Ended::Stopped);
    let limits = Limits {
        end: Instant::now().checked_add(program.time_max),
        stop,
    };
    let started = start(program, caged).and_then(|mut group| {
        if let Some(caged) = caged {
            match enter(&mut group, caged, &limits)? {
                Entered::Cage(cage) => run.cage = Some(cage),
                Entered::Not(ended) => return Ok(Err(ended)),
            }
        }
        Ok(Ok(group))
    });
    run.ended = match started {
        Err(error) => Ended::NotStarted(error),
        Ok(Err(ended)) => ended,
        Ok(Ok(group)) => {
            let bytes = program.output_bytes_max;
            let (output, complaint) = (&mut run.output, &mut run.complaint);
            match listen(group, &limits, bytes, input, output, complaint) {
                Ok(ended) => ended,
                Err(error) => Ended::Failed(error),
            }
        }
    };
    if caged.is_some()
        && matches!(run.ended, Ended::Exited(cage::NOT_RUN))
        && let Some(error) = cage::not_become(&run.output)
    {
        return Run::of(Ended::NotStarted(error));
    }
    run.output.truncate(program.output_bytes_max);
    run
}

/// Result of entering a cage.
enum Entered {
    /// The cage is made, and what follows in the output is the program's.
    Cage(Cage),
    /// The limits were reached before it was made.
    Not(Ended),
}

/// Writes the frame and reads the report, which says that the cage is enough or why there is none.
/// The program gets no byte of its task before that.
fn enter(group: &mut Group, caged: &Caged, limits: &Limits<'_>) -> io::Result<Entered> {
    let (Some(stdin), Some(stdout)) = (&mut group.child.stdin, &mut group.child.stdout) else {
        return Err(io::Error::other("its input or output is not connected"));
    };
    do_not_block(stdin.as_fd())?;
    do_not_block(stdout.as_fd())?;
    let (mut to_write, mut report) = (&caged.frame[..], Incoming::default());
    loop {
        if let Some(ended) = limits.reached() {
            // It may have reported already and become the program, which has no task yet.
            return Ok(Entered::Not(ended));
        }
        match stdin.write(to_write) {
            Ok(count) => to_write = to_write.get(count..).unwrap_or_default(),
            Err(error) if is_for_later(&error) => {}
            // The child ended before it read everything; its report says why.
            Err(_) => to_write = &[],
        }
        let mut buffer = [0; 4096];
        let wanted = report.wants().map_err(io::Error::other)?;
        if wanted == 0 {
            return Ok(Entered::Cage(report.read(&caged.rights)?));
        }
        let room = buffer.get_mut(..wanted).unwrap_or_default();
        match stdout.read(room) {
            Ok(0) => return Err(io::Error::other("its cage ended without a report")),
            Ok(count) => {
                report.add(room.get(..count).unwrap_or_default());
                continue;
            }
            Err(error) if is_for_later(&error) => {}
            Err(error) => return Err(error),
        }
        let writes = (!to_write.is_empty()).then(|| (stdin.as_fd(), PollFlags::OUT));
        let hears = Some((stdout.as_fd(), PollFlags::IN));
        wait([writes, hears].into_iter().flatten())?;
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Killed(signal.unwrap_or_default()),
    }
}

fn start(program: &Program<'_>, caged: Option<&Caged>) -> io::Result<Group> {
    let mut command = match caged {
        Some(caged) => {
            let mut command = Command::new(caged.maker);
            command.arg(cage::ARGUMENT);
            command
        }
        None => {
            let mut command = Command::new(program.program);
            command.args(program.args).current_dir(program.dir);
            command
        }
    };
    command
        .env_clear()
        .env("PATH", PATH)
        .env("LANG", LANG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Group::start(&mut command)
}

/// When a program is killed at the latest.
struct Limits<'a> {
    end: Option<Instant>,
    stop: &'a AtomicBool,
}

impl Limits<'_> {
    fn reached(&self) -> Option<Ended> {
        if self.stop.load(Ordering::SeqCst) {
            return Some(Ended::Stopped);
        }
        self.end
            .is_none_or(|end| Instant::now() >= end)
            .then_some(Ended::TimedOut)
    }
}

fn listen(
    mut group: Group,
    limits: &Limits<'_>,
    bytes_max: usize,
    input: &[u8],
    output: &mut Vec<u8>,
    complaint: &mut Vec<u8>,
) -> io::Result<Ended> {
    let mut stdin = group.child.stdin.take();
    let (Some(mut stdout), Some(mut stderr)) =
        (group.child.stdout.take(), group.child.stderr.take())
    else {
        return Err(io::Error::other("its output is not connected"));
    };
    do_not_block(stdout.as_fd())?;
    do_not_block(stderr.as_fd())?;
    if let Some(stdin) = &stdin {
        do_not_block(stdin.as_fd())?;
    }
    // One byte more than allowed shows that the program wrote too much.
    let keep = bytes_max.saturating_add(1);
    let (mut to_write, mut hears, mut complains) = (input, true, true);
    loop {
        if let Some(ended) = limits.reached() {
            return Ok(ended);
        }
        if let Some(pipe) = &mut stdin {
            match pipe.write(to_write) {
                Ok(count) => to_write = to_write.get(count..).unwrap_or_default(),
                Err(error) if is_for_later(&error) => {}
                // The program does not read all of its input; it need not.
                Err(_) => to_write = &[],
            }
        }
        if to_write.is_empty() {
            stdin = None;
        }
        hears = hears && take(&mut stdout, output, keep)?;
        complains = complains && take_and_forget(&mut stderr, complaint)?;
        if output.len() > bytes_max {
            return Ok(Ended::Flooded);
        }
        if group.has_ended()? {
            // Its own children end with it; output that was written before is still in the pipe.
            let status = group.end()?;
            take(&mut stdout, output, keep)?;
            take_and_forget(&mut stderr, complaint)?;
            return Ok(if output.len() > bytes_max {
                Ended::Flooded
            } else {
                ended(status)
            });
        }
        let writes = stdin.as_ref().map(|fd| (fd.as_fd(), PollFlags::OUT));
        let hears = hears.then(|| (stdout.as_fd(), PollFlags::IN));
        let complains = complains.then(|| (stderr.as_fd(), PollFlags::IN));
        let exits = group.exit.as_ref().map(|fd| (fd.as_fd(), PollFlags::IN));
        wait([writes, hears, complains, exits].into_iter().flatten())?;
    }
}

/// Reads standard error and keeps only its beginning; otherwise a program that writes a lot to it
/// would block.
fn take_and_forget(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = Vec::new();
    let more = take(from, &mut buffer, 256 * 1024)?;
    let room = COMPLAINT_BYTES_MAX.saturating_sub(into.len());
    into.extend(buffer.into_iter().take(room));
    Ok(more)
}

fn wait<'a>(fds: impl Iterator<Item = (BorrowedFd<'a>, PollFlags)>) -> io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = fds
        .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
        .collect();
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(LOOK.subsec_nanos()),
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => Ok(()),
        Err(error) if error == rustix::io::Errno::INTR => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: &[u8], time_ms: u64, output_bytes_max: usize) -> Run {
        let args = ["-c".to_owned(), script.to_owned()];
        let program = Program {
            program: Path::new("sh"),
            args: &args,
            dir: Path::new("/"),
            time_max: Duration::from_millis(time_ms),
            output_bytes_max,
        };
        run(&program, input, &AtomicBool::new(false))
    }

    #[test]
    fn input_and_output_are_passed_unchanged() {
        let input: Vec<u8> = (0..1_000_000_u32)
            .map(|n| b'a' + u8::try_from(n % 26).unwrap())
            .collect();
        let run = sh("cat", &input, 60_000, 1_000_000);
        assert!(matches!(run.ended, Ended::Exited(0)), "{:?}", run.ended);
        assert_eq!(run.output, input);
    }

    #[test]
    fn it_ends_with_its_limits_whatever_it_does() {
        /// A script, its limits on time (ms) and output (bytes), and how it must end.
        type Case = (&'static str, u64, usize, fn(&Ended) -> bool);
        // It joins the group of a process that it started, or ours, and leaves its own.
        const OTHER_GROUP: &str = "exec python3 -c 'import os, time\nc = os.fork()\nif c == 0:\n  \
            time.sleep(300)\nos.setpgid(c, c)\nos.setpgid(0, c)\ntime.sleep(300)'";
        let cases: [Case; 9] = [
            (OTHER_GROUP, 1500, 10, |ended| {
                matches!(ended, Ended::TimedOut | Ended::Exited(127))
            }),
            ("exit 3", 60_000, 10, |ended| {
                matches!(ended, Ended::Exited(3))
            }),
            ("kill -9 $$", 60_000, 10, |ended| {
                matches!(ended, Ended::Killed(9))
            }),
            ("trap '' TERM INT; while :; do :; done", 200, 10, |ended| {
                matches!(ended, Ended::TimedOut)
            }),
            ("yes", 60_000, 100_000, |ended| {
                matches!(ended, Ended::Flooded)
            }),
            ("head -c 11 /dev/zero", 60_000, 10, |ended| {
                matches!(ended, Ended::Flooded)
            }),
            ("head -c 10 /dev/zero", 60_000, 10, |ended| {
                matches!(ended, Ended::Exited(0))
            }),
            ("head -c 3000000 /dev/zero >&2", 60_000, 10, |ended| {
                matches!(ended, Ended::Exited(0))
            }),
            // A process that it leaves behind neither delays us nor survives.
            ("sleep 300 & echo ok", 60_000, 10, |ended| {
                matches!(ended, Ended::Exited(0))
            }),
        ];
        for (script, time_ms, bytes, expected) in cases {
            let begun = Instant::now();
            let run = sh(script, &[b'x'; 300_000], time_ms, bytes);
            assert!(expected(&run.ended), "{script}: {:?}", run.ended);
            assert!(
                run.output.len() <= bytes && run.complaint.len() <= COMPLAINT_BYTES_MAX,
                "{script}"
            );
            assert!(
                begun.elapsed() < Duration::from_secs(50),
                "{script} was waited for"
            );
        }
    }

    #[test]
    fn nothing_of_our_environment_reaches_it() {
        let run = sh(
            "env | grep -v -e '^PATH=' -e '^LANG=' -e '^PWD=' -e '^_=' -e '^SHLVL=' -e '^OLDPWD='",
            b"",
            60_000,
            10_000,
        );
        assert_eq!(String::from_utf8_lossy(&run.output), "");
        let missing = Program {
            program: Path::new("/nonexistent/program"),
            args: &[],
            dir: Path::new("/"),
            time_max: Duration::from_secs(1),
            output_bytes_max: 1,
        };
        assert!(matches!(
            super::run(&missing, b"", &AtomicBool::new(false)).ended,
            Ended::NotStarted(_)
        ));
        assert!(matches!(
            super::run(&missing, b"", &AtomicBool::new(true)).ended,
            Ended::NotStarted(_)
        ));
    }
}
