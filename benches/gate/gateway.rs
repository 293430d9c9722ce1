//! Outgoing actions and queries through the socket, beside the same through files: one at a time,
//! and many without waiting. Every action has its request line durable before its adapter runs, and
//! its response line before its answer.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use spoolgate_gate::record::Record;
use spoolgate_ledger::line;

use crate::Bench;
use crate::child;
use crate::figures::{Figure, Report, Unit, quantile, sorted};
use crate::homes;
use crate::requests::{Agent, Sent};
use crate::watch::{Client, Running, wait_for};

/// What the peer is called in the report.
const FILES: &str = "the same through files";
/// Requests that the two doors are asked by turns.
const TURN: usize = 100;
/// How long answers are waited for.
const PATIENCE: Duration = Duration::from_secs(120);

const SERVICES: &str = "services:\n  - {service: mail, host: smtp.example.com, protocol: smtp, \
    actions: [email.send], added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: true}\n  - \
    {service: bank, host: api.bank.example, protocol: https, methods: [GET], added_at: \
    2026-01-01T00:00:00Z, added_by: owner, is_active: true}\n";
const GATEWAY: &str = "adapters:\n  - {actions: [service.api_call], adapter: stub, at_once: 8}\n  \
    - {actions: [email.send], adapter: exec, at_once: 8, command: {program: sh, args: [\"-c\", \
    \"cat >/dev/null; echo '{\\\"success\\\":true}'\"], time_limit_s: 30, output_bytes_max: \
    1000}}\nopen_max: 10000\nrates: {per_hour: {email.send: 100000, service.api_call: 100000}, \
    all_per_hour: 100000}\nanomalies: {burst_max: 100000}\n";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// A look at a market: one line.
    Query,
    /// A call whose adapter is a stub: a request line, then a response line.
    Stub,
    /// A mail whose adapter is a shell that answers at once.
    Exec,
}

impl Ask {
    const ALL: [Ask; 3] = [Ask::Query, Ask::Stub, Ask::Exec];

    fn name(self) -> &'static str {
        match self {
            Ask::Query => "query",
            Ask::Stub => "action, stub",
            Ask::Exec => "action, exec of a shell",
        }
    }

    fn sent(self, agent: &Agent, id: &str) -> Result<Sent> {
        match self {
            Ask::Query => agent.look(id),
            Ask::Stub => {
                let payload = r#"{"service":"bank","endpoint":"/balance","method":"GET"}"#;
                agent.sent(id, "service.api_call", payload.to_owned())
            }
            Ask::Exec => {
                let payload = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
                agent.sent(id, "email.send", payload.to_owned())
            }
        }
    }

    /// Of a query as many as asked for; adapters cost more.
    fn samples(self, all: usize) -> usize {
        if self == Ask::Exec {
            all.div_ceil(4)
        } else {
            all
        }
    }
}

/// A client of the socket.
struct Frames(UnixStream);

impl Frames {
    fn connect(path: &Path) -> Result<Frames> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Frames(stream))
    }

    fn send(&mut self, sent: &Sent) -> Result<()> {
        let length = u32::try_from(sent.bytes.len())?.to_be_bytes();
        Ok(self
            .0
            .write_all(&[&length, sent.bytes.as_slice()].concat())?)
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length))?];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    /// Microseconds until the answer's bytes are here.
    fn ask(&mut self, sent: &Sent) -> Result<f64> {
        let started = Instant::now();
        self.send(sent)?;
        let answer = self.receive()?;
        let took = started.elapsed();
        ensure!(!answer.is_empty(), "an empty answer to {}", sent.name);
        Ok(took.as_secs_f64() * 1e6)
    }
}

/// Requests a second of `sent` through the socket, sent without waiting.
fn flood_socket(path: &Path, sent: &[Sent]) -> Result<f64> {
    let mut reader = Frames::connect(path)?;
    let mut writer = Frames(reader.0.try_clone()?);
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let sending = scope.spawn(move || sent.iter().try_for_each(|sent| writer.send(sent)));
        for _ in sent {
            reader.receive()?;
        }
        sending
            .join()
            .map_err(|_| anyhow::anyhow!("the sender failed"))?
    })?;
    Ok(per_second(sent.len(), started))
}

/// The same through files that are renamed in, one after the other.
fn flood_files(home: &Path, sent: &[Sent]) -> Result<f64> {
    let (input, output) = (home.join("spool/in"), home.join("spool/out"));
    let started = Instant::now();
    for sent in sent {
        let hidden = input.join(format!(".{}", sent.name));
        fs::write(&hidden, &sent.bytes)?;
        fs::rename(&hidden, input.join(&sent.name))?;
    }
    let last = sent.last().context("nothing is sent")?;
    let is_there = |sent: &Sent| output.join(&sent.name).exists();
    while !(is_there(last) && sent.iter().all(is_there)) {
        ensure!(
            started.elapsed() < PATIENCE,
            "not every file is answered within {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(per_second(sent.len(), started))
}

fn per_second(count: usize, started: Instant) -> f64 {
    u32::try_from(count).map_or(f64::NAN, f64::from) / started.elapsed().as_secs_f64()
}

fn requests(ask: Ask, agent: &Agent, prefix: &str, count: usize) -> Result<Vec<Sent>> {
    (0..count)
        .map(|n| ask.sent(agent, &format!("{prefix}-{n:06}")))
        .collect()
}

/// A home with adapters, watched through both doors.
fn start(bench: &Bench<'_>) -> Result<(homes::Place, PathBuf, Running)> {
    let place = homes::new(&bench.scratch.join("gateway"))?;
    fs::write(place.home.join("rules/services.yaml"), SERVICES)?;
    fs::write(place.home.join("rules/gateway.yaml"), GATEWAY)?;
    let path = place.home.join("rules/principals.yaml");
    let before = fs::read_to_string(&path)?;
    let after = before.replacen(
        "name: trend-bot\n",
        "name: trend-bot\n    actions: [email.send, service.api_call]\n",
        1,
    );
    ensure!(
        before != after,
        "rules/principals.yaml has no trend-bot any more"
    );
    fs::write(&path, after)?;
    let socket = bench.scratch.join("gate.sock");
    let named = socket.to_str().context("a path that is text")?.to_owned();
    let gate = Running::start(&mut child::gate(
        &place.home,
        &["watch", "--socket", &named],
    ))?;
    wait_for(&socket)?;
    Ok((place, socket, gate))
}

/// Measures both doors.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let (place, socket, gate) = start(bench)?;
    let files = Client::new(place.home.join("spool/in"), place.home.join("spool/out"))?;
    let mut figures = Vec::new();
    let (mut asked, mut begun) = (0, 0);
    for (round, ask) in Ask::ALL.into_iter().enumerate() {
        let samples = ask.samples(bench.args.samples());
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        let mut frames = Frames::connect(&socket)?;
        while ours.len() < samples {
            bench.args.say(&format!(
                "gateway, {}: {} of {samples}",
                ask.name(),
                ours.len()
            ));
            let turn = TURN.min(samples - ours.len());
            for _ in 0..turn {
                peer.push(
                    files.ask(&ask.sent(&place.agent, &format!("f{round}-{:06}", peer.len()))?)?,
                );
            }
            for _ in 0..turn {
                ours.push(
                    frames.ask(&ask.sent(&place.agent, &format!("s{round}-{:06}", ours.len()))?)?,
                );
            }
        }
        drop(frames);
        let (socket_us, files_us) = (sorted(&ours), sorted(&peer));
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let (ours, peer) = ([quantile(&socket_us, share)], [quantile(&files_us, share)]);
            let what = format!("{}: {name}, one at a time", ask.name());
            figures
                .push(Figure::alone(what, Unit::Microseconds, &ours).beside(FILES, &ours, &peer));
        }
        let count = ask.samples(bench.args.requests(1));
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for run in 0..bench.args.rounds() {
            bench
                .args
                .say(&format!("gateway, {}: round {run}", ask.name()));
            peer.push(flood_files(
                &place.home,
                &requests(ask, &place.agent, &format!("F{round}-{run}"), count)?,
            )?);
            ours.push(flood_socket(
                &socket,
                &requests(ask, &place.agent, &format!("S{round}-{run}"), count)?,
            )?);
        }
        let what = format!("{}: {count} without waiting", ask.name());
        figures.push(Figure::alone(what, Unit::PerSecond, &ours).beside(FILES, &ours, &peer));
        let here = 2 * (samples + count * bench.args.rounds());
        asked += here;
        begun += if ask == Ask::Query { 0 } else { here };
    }
    let peak = gate.peak_mib().context("the watcher is gone")?;
    figures.push(Figure::alone(
        "peak memory of the watcher",
        Unit::Mebibytes,
        &[peak],
    ));
    gate.stop()?;
    check(&place.home, asked, begun)?;
    report.note(format!(
        "gateway: {asked} requests, {begun} of them actions, each with a durable request line \
            before its adapter ran and a durable response line before its answer; the ledger \
            verifies"
    ));
    report.section("Outgoing actions: the socket beside files", figures);
    Ok(())
}

/// Demands that each request has its line, and each action its response.
fn check(home: &Path, asked: usize, begun: usize) -> Result<()> {
    let (mut decided, mut responses) = (0, 0);
    for path in homes::segments(home)? {
        for text in fs::read(&path)?
            .split(|byte| *byte == b'\n')
            .filter(|text| !text.is_empty())
        {
            let line = line::parse(text).with_context(|| path.display().to_string())?;
            match Record::parse(line.kind, &line.body()).map_err(anyhow::Error::msg)? {
                Some(Record::Decision(decision)) => {
                    decided += usize::from(matches!(decision.spool.as_str(), "flat" | "socket"));
                    let code = decision.metadata.code;
                    ensure!(
                        code.is_none(),
                        "{:?} was refused: {code:?}",
                        decision.request_id
                    );
                }
                Some(Record::Response(_)) => responses += 1,
                _ => {}
            }
        }
    }
    ensure!(
        decided == asked && responses == begun,
        "{asked} requests came to {decided} lines, {begun} actions to {responses} responses"
    );
    child::succeed(home, &["audit", "verify"]).context("the ledger does not verify")?;
    Ok(())
}
