//! From a request's rename-in to its answer in the client's hands, one at a time, beside a server
//! that does nothing but wait with inotify and sync.

use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process};

use crate::Bench;
use crate::child;
use crate::figures::{Figure, Goal, Report, Unit, quantile, sorted};
use crate::homes;
use crate::requests::{Agent, Fate, Sent};

/// What the server is called in the report.
const SERVER: &str = "inotify + fdatasync server";
/// Requests that the two are asked by turns.
const TURN: usize = 100;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// A name that ends the waiting.
const GIVEN_UP: &str = "given-up";

/// A client of a spool.
pub(crate) struct Client {
    input: PathBuf,
    output: PathBuf,
    events: OwnedFd,
    asked: Arc<AtomicU64>,
}

impl Client {
    /// Of this spool.
    pub(crate) fn new(input: PathBuf, output: PathBuf) -> Result<Client> {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&events, &output, inotify::WatchFlags::MOVED_TO)?;
        let asked = Arc::new(AtomicU64::new(0));
        let (seen, waiting) = (output.clone(), Arc::downgrade(&asked));
        // Events are waited for without a limit, as a client would; should none come, this makes
        // one.
        std::thread::spawn(move || {
            let mut before = u64::MAX;
            while let Some(asked) = waiting.upgrade() {
                let now = asked.load(Ordering::SeqCst);
                drop(asked);
                if now == before && now > 0 {
                    let hidden = seen.join(".given-up");
                    let _ = fs::write(&hidden, "")
                        .and_then(|()| fs::rename(&hidden, seen.join(GIVEN_UP)));
                }
                before = now;
                std::thread::sleep(PATIENCE);
            }
        });
        Ok(Client {
            input,
            output,
            events,
            asked,
        })
    }

    /// Microseconds until the answer's bytes are here.
    pub(crate) fn ask(&self, sent: &Sent) -> Result<f64> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let hidden = self.input.join(format!(".{}", sent.name));
        fs::write(&hidden, &sent.bytes)?;
        let target = self.input.join(&sent.name);
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.events, &mut space);
        let started = Instant::now();
        fs::rename(&hidden, &target)?;
        loop {
            let event = events.next()?;
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            match name {
                Some(name) if name == sent.name.as_str() => break,
                Some(name) if name == GIVEN_UP => {
                    bail!("no answer to {} within {PATIENCE:?}", sent.name)
                }
                _ => {}
            }
        }
        let answer = fs::read(self.output.join(&sent.name))?;
        let took = started.elapsed();
        ensure!(!answer.is_empty(), "an empty answer to {}", sent.name);
        Ok(took.as_secs_f64() * 1e6)
    }
}

/// A process that is ended with this value, whatever happens.
pub(crate) struct Running(Child);

impl Running {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        Ok(Running(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?,
        ))
    }

    /// Its peak memory.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        Some(child::status_kib(self.0.id(), "VmHWM")? / 1024.0)
    }

    /// Asks it to end in order, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the watcher ended with {status}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is there.
pub(crate) fn wait_for(path: &Path) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        ensure!(
            Instant::now() < deadline,
            "`{}` did not come",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Asks both, by turns, with a pause between two requests.
fn take_turns(
    bench: &Bench<'_>,
    (ids, first): (&str, usize),
    agent: &Agent,
    (gate, server): (&Client, &Client),
    pause: Duration,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let samples = bench.args.samples();
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    while ours.len() < samples {
        bench.args.say(&format!(
            "watch, pause {pause:?}: {} of {samples}",
            ours.len()
        ));
        let turn = TURN.min(samples - ours.len());
        for (client, taken) in [(server, &mut peer), (gate, &mut ours)] {
            for _ in 0..turn {
                let n = first + taken.len();
                let sent = agent.order(&format!("{ids}{n:06}"), n, Fate::of(n))?;
                std::thread::sleep(pause);
                taken.push(client.ask(&sent)?);
            }
        }
    }
    Ok((ours, peer))
}

/// Measures the watch with a pause between requests, and without.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let place = homes::new(&bench.scratch.join("watched"))?;
    let root = bench.scratch.join("bare-watched");
    let mut gate = child::gate(&place.home, &["watch"]);
    let gate = Running::start(&mut gate)?;
    let server = Running::start(&mut child::bare_server(&root)?)?;
    wait_for(&root.join("ready"))?;
    let ours = Client::new(place.home.join("spool/in"), place.home.join("spool/out"))?;
    let bare = Client::new(root.join("in"), root.join("out"))?;
    // The first answers only show that both are running; they are not measured.
    for n in 0..5 {
        let sent = place
            .agent
            .order(&format!("first{n}"), n + 1, Fate::StopTooFar)?;
        ours.ask(&sent)?;
        bare.ask(&sent)?;
    }
    let mut figures = Vec::new();
    let mut accepted = 0;
    let samples = bench.args.samples();
    for (ids, first, pause, what) in [
        (
            "w",
            0,
            Duration::from_millis(5),
            "5 ms after the answer before",
        ),
        (
            "b",
            samples,
            Duration::ZERO,
            "at once after the answer before",
        ),
    ] {
        let (gate, server) = take_turns(bench, (ids, first), &place.agent, (&ours, &bare), pause)?;
        accepted += Fate::accepted(first + samples) - Fate::accepted(first);
        let (gate, server) = (sorted(&gate), sorted(&server));
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let (gate, server) = ([quantile(&gate, share)], [quantile(&server, share)]);
            let figure = Figure::alone(format!("{name}, {what}"), Unit::Microseconds, &gate)
                .beside(SERVER, &gate, &server);
            let is_goal = name == "p50" && !pause.is_zero();
            figures.push(if is_goal {
                figure.aim(Goal::AtMost(1.25))
            } else {
                figure
            });
        }
    }
    let peak = gate.peak_mib().context("the watcher is gone")?;
    figures.push(
        Figure::alone("peak memory of the watcher", Unit::Mebibytes, &[peak])
            .aim(Goal::AtMost(64.0)),
    );
    gate.stop()?;
    drop(server);
    let sent = 2 * samples + 5;
    homes::check(&place.home, sent, accepted)?;
    report.note(format!(
        "watch: {sent} requests, one at a time, each answered after its line was durable; lines \
            and answers are all there and the ledger verifies"
    ));
    report.section("From rename-in to the answer in hand", figures);
    Ok(())
}

/// Peak memory of a watcher over a home that decides one request, MiB.
pub(crate) fn peak_over(home: &Path, sent: &Sent) -> Result<f64> {
    let gate = Running::start(&mut child::gate(home, &["watch"]))?;
    let client = Client::new(home.join("spool/in"), home.join("spool/out"))?;
    client.ask(sent)?;
    let peak = gate.peak_mib().context("the watcher is gone")?;
    gate.stop()?;
    fs::remove_file(home.join("spool/out").join(&sent.name))?;
    Ok(peak)
}
