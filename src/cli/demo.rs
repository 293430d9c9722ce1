//! `spoolgate demo`: plays one real day through the gate in a scratch home, with a clock that
//! follows the data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use spoolgate_gate::record::canonical;
use spoolgate_gate::{Decision, EventKind, portfolio};
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, Seams, layout};
use spoolgate_host::clock::{Clock, ManualClock};
use spoolgate_host::entropy::{Entropy, SeededEntropy, SystemEntropy};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::verify::Options;
use spoolgate_market::{self as market, Row};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::control::ControlResponse;
use spoolgate_wire::council::CouncilDecision;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, VerifyKey, hex, sha256_hex};
use spoolgate_wire::time::Time;

use super::demo_day::{self, Act, CASE, CLOSE, Request, Step};
use super::output::Output;
use super::{audit, council, init, look};

const DATE: &str = "2018-04-05";
const TRADES: (&str, &[u8]) = (
    "lean-coinbase-minute-btcusd_20180405_trade.zip",
    include_bytes!("../../examples/market/lean-coinbase-minute-btcusd_20180405_trade.zip"),
);
const QUOTES: (&str, &[u8]) = (
    "lean-coinbase-minute-btcusd_20180405_quote.zip",
    include_bytes!("../../examples/market/lean-coinbase-minute-btcusd_20180405_quote.zip"),
);
/// The owner's rule. An agent proposes another, on trial in shadow.
const RULE: (&str, &str) = (
    "rules/core/pause-after-stop-out.yaml",
    include_str!("demo_rule.yaml"),
);
/// The seed of all keys, ids and nonces, so that every run writes the same ledger bytes.
const SEED: u64 = 20_180_405;

/// `HOME` and `CASE` are replaced.
const WHERE_TO_LOOK: &str = "  answers             HOME/spool/out/
  refused bytes       HOME/spool/rejected/
  the ledger          HOME/audit/log-00000001.jsonl   (jq reads it)
  one decision        spoolgate --home HOME audit show buy-big
  the council's case  spoolgate --home HOME council show CASE
  what rules saved    spoolgate --home HOME rules efficacy --time-stop-minutes 240
  what runs           spoolgate --home HOME strategies list
  admitted tasks      HOME/spool/forward/agents/   (spoolgate admit verify FILE)
  a role's brief      spoolgate --home HOME council brief CASE \"Risk Officer\"
  verify without us   python3 examples/verify_ledger.py HOME/audit
";

/// Play one real day through the gate in a scratch home.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate demo\n  spoolgate demo /tmp/my-demo\n\nEvery run writes \
        the same ledger: prices, requests, keys and clock are fixed. Its keys are public; use \
        `init` for a real home."
)]
pub(super) struct Args {
    /// Where to make the scratch home; default: a new temporary folder.
    dir: Option<PathBuf>,
}

/// The part of an answer to a council request that later steps need.
#[derive(serde::Deserialize)]
struct Opened {
    request_sha256: String,
}

/// One row of the day's table.
struct Told {
    at: Time,
    story: String,
    outcome: Outcome,
}

struct Demo {
    root: PathBuf,
    clock: Arc<ManualClock>,
    home: Home,
    keys: BTreeMap<&'static str, SignKey>,
    rows: Vec<(&'static str, &'static [u8], Vec<Row>)>,
    files: BTreeMap<String, Vec<u8>>,
    orders: BTreeMap<String, String>,
    told: Vec<Told>,
}

/// Runs the command.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    let root = match &args.dir {
        Some(dir) => {
            if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
                bail!(
                    "`{}` is not empty; name a new folder, or remove it first",
                    dir.display()
                );
            }
            dir.clone()
        }
        None => {
            let name: String = hex(&SystemEntropy.bytes32()?).chars().take(8).collect();
            std::env::temp_dir().join(format!("spoolgate-demo-{name}"))
        }
    };
    let steps = demo_day::steps()?;
    let mut demo = Demo::prepare(&root, &steps)?;
    for step in &steps {
        demo.play(step)?;
    }
    demo.trade_until(demo.time(CLOSE)?)?;
    demo.home.finish("the demo ended in order")?;
    demo.print(output)
}

impl Demo {
    /// Makes the home and gives every sender a key.
    fn prepare(root: &Path, steps: &[Step<'static>]) -> Result<Demo> {
        init::write_template(root, &Principal::parse("owner")?)?;
        // The day is the same on every machine, however little room its disk has.
        let safety = root.join("rules/safety.yaml");
        let text = fs::read_to_string(&safety)?;
        fs::write(
            &safety,
            text.replace("floor_bytes: 268435456", "floor_bytes: 0"),
        )?;
        let (path, text) = RULE;
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
        let clock = Arc::new(ManualClock::at(Time::parse(&format!("{DATE}T00:00:00Z"))?));
        let seams = Seams {
            disk: Arc::new(RealDisk::open(root)?),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: Arc::new(SeededEntropy::new(SEED)),
        };
        let owner = Principal::parse("owner")?;
        let (owner_key, _) = layout::found(root, &seams, "spoolgate.invalid/demo", &owner)?;
        let keyring = SqliteKeyring::open(root, false)?;
        let mut keys = BTreeMap::new();
        if let Some(key) = keyring.sign_key(&owner_key)? {
            keys.insert("owner", key);
        }
        let mut rows = Vec::new();
        for (name, bytes) in [TRADES, QUOTES] {
            rows.push((
                name,
                bytes,
                market::import(name, bytes, &market::Options::default())?.rows,
            ));
        }
        let mut home = Home::open(root, seams.clone())?;
        home.note(EventKind::Start, "the demo started");
        let mut demo = Demo {
            root: root.to_owned(),
            clock,
            home,
            keys,
            rows,
            files: BTreeMap::new(),
            orders: BTreeMap::new(),
            told: Vec::new(),
        };
        let senders = steps.iter().filter_map(|step| match &step.act {
            Act::Request(request) if request.from != "owner" => Some(request.from),
            _ => None,
        });
        let names: BTreeSet<&str> = senders.chain(["prices"]).collect();
        for name in names {
            let secret = seams.entropy.bytes32()?;
            let key_id = keyring.insert(&VerifyKey::Hmac(secret))?;
            let payload = format!(
                r#"{{"principal":"{name}","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#
            );
            let id = format!("key-of-{name}");
            demo.request("owner", &id, ActionName::KeysAdd, &payload)?;
            demo.drain("")?;
            demo.keys.insert(name, SignKey::Hmac(secret));
        }
        Ok(demo)
    }

    fn time(&self, of_day: &str) -> Result<Time> {
        Ok(Time::parse(&format!("{DATE}T{of_day}Z"))?)
    }

    /// Drops a file as an agent does: written under another name, then renamed.
    fn drop_file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let folder = self.root.join("spool/in");
        let hidden = folder.join(format!("{name}.tmp"));
        fs::write(&hidden, bytes).with_context(|| format!("file `{}`", hidden.display()))?;
        Ok(fs::rename(&hidden, folder.join(name))?)
    }

    fn key_of(&self, who: &str) -> Result<SignKey> {
        let key = self.keys.get(who);
        key.cloned()
            .with_context(|| format!("`{who}` has no key yet"))
    }

    /// Signs a request now and drops it.
    fn request(&mut self, who: &str, id: &str, action: ActionName, payload: &str) -> Result<()> {
        let key = self.key_of(who)?;
        self.signed_request(&key, who, id, action.as_str(), payload, 0)
    }

    /// Signs a request, dated `age_min` minutes ago, and drops it.
    fn signed_request(
        &mut self,
        key: &SignKey,
        who: &str,
        id: &str,
        action: &str,
        payload: &str,
        age_min: i64,
    ) -> Result<()> {
        let age_ms = age_min.saturating_mul(60_000);
        let signed_at = self.clock.now().plus_ms(-age_ms).to_string();
        let source = Principal::parse(who)?;
        let (id_given, at_given) = (Some(id), Some(signed_at.as_str()));
        let envelope =
            spoolgate_client::sign(key, &source, action, payload, None, id_given, at_given)?;
        let bytes = envelope.to_json().into_bytes();
        self.drop_file(&format!("{id}.json"), &bytes)?;
        self.files.insert(id.to_owned(), bytes);
        Ok(())
    }

    /// Runs the gate until the spool is empty. Outcomes are kept under `story`, unless that is
    /// empty.
    fn drain(&mut self, story: &str) -> Result<()> {
        let mut outcomes = Vec::new();
        self.home
            .until_idle(false, &AtomicBool::new(false), &mut |decided| {
                outcomes.extend_from_slice(decided)
            })?;
        for outcome in outcomes {
            if let (Some(id), Some(order)) =
                (&outcome.decision.request_id, outcome.decision.order_id)
            {
                self.orders.insert(id.clone(), order.to_string());
            }
            if !story.is_empty() {
                self.told.push(Told {
                    at: outcome.decision.timestamp,
                    story: story.to_owned(),
                    outcome,
                });
            }
        }
        Ok(())
    }

    /// Moves the clock to `until` and delivers all prices known by then.
    fn trade_until(&mut self, until: Time) -> Result<()> {
        self.clock.set(until);
        for index in 0..self.rows.len() {
            let Some((name, bytes, rows)) = self.rows.get_mut(index) else {
                break;
            };
            let known = rows.partition_point(|row| row.known_ms() <= until.ms());
            let part: Vec<Row> = rows.drain(..known).collect();
            if part.is_empty() {
                continue;
            }
            let (name, file_sha256) = (*name, sha256_hex(bytes));
            let blob = market::write_blob(&part);
            let digest = sha256_hex(blob.as_bytes());
            self.home.keep_blob(&digest, blob.as_bytes())?;
            let payload = serde_json::json!({
                "symbol": "BTC-USD", "rows_sha256": digest, "row_count": part.len(),
                "file_sha256": file_sha256, "file_name": name,
            });
            let id = format!("prices-{index}-{}", until.ms());
            self.request(
                "prices",
                &id,
                ActionName::MarketImport,
                &payload.to_string(),
            )?;
        }
        self.drain("")
    }

    fn play(&mut self, step: &Step<'_>) -> Result<()> {
        let at = self.time(step.at)?;
        self.trade_until(at)?;
        match &step.act {
            Act::Request(request) => {
                let key = if request.forged {
                    SignKey::Hmac([0; 32])
                } else {
                    self.key_of(request.from)?
                };
                let payload = self.with_references(request.payload.get());
                let Request {
                    from, id, action, ..
                } = request;
                self.signed_request(&key, from, id, action, &payload, request.minutes_ago)?;
            }
            Act::Again { id, file } => {
                let bytes = self.files.get(*id).cloned().unwrap_or_default();
                self.drop_file(file, &bytes)?;
            }
            Act::File { name, text } => self.drop_file(name, text.as_bytes())?,
            Act::Link { name, target } => symlink(
                self.root.join(target),
                self.root.join("spool/in").join(name),
            )?,
        }
        self.drain(step.story)
    }

    /// Fills in a payload: `{order:ID}` becomes the order of request ID, and `{sha256:ID}` the
    /// payload hash in the answer to request ID.
    fn with_references(&self, payload: &str) -> String {
        let mut payload = payload.to_owned();
        for (id, order) in &self.orders {
            payload = payload.replace(&format!("{{order:{id}}}"), order);
        }
        for told in &self.told {
            let Answer {
                request_id,
                data: Some(data),
                ..
            } = &told.outcome.answer
            else {
                continue;
            };
            let place = format!("{{sha256:{request_id}}}");
            if payload.contains(&place)
                && let Ok(Opened { request_sha256 }) = serde_json::from_str(data.get())
            {
                payload = payload.replace(&place, &request_sha256);
            }
        }
        payload
    }

    fn print(self, output: &Output) -> Result<Exit> {
        let Demo {
            root,
            clock,
            home,
            told,
            ..
        } = self;
        let now = clock.now();
        let portfolio = portfolio::portfolio(home.state(), home.rulebook(), now);
        let fills = home.store().fills_since(Time::EPOCH, usize::MAX)?;
        drop(home);
        let options = Options {
            strict: Some(canonical),
            threads: 2,
            ..Options::default()
        };
        let report = audit::verify_folder(&root.join("audit"), &options, output)?;
        let seams = Seams {
            disk: Arc::new(RealDisk::open(&root)?),
            clock: clock as Arc<dyn Clock>,
            entropy: Arc::new(SystemEntropy),
        };
        let (_, same) = Home::rebuild(&root, seams)?;
        let decided = fs::read(root.join(format!("spool/out/{CASE}.decision.json")))
            .context("the council's decision")?;
        let decided: CouncilDecision =
            serde_json::from_slice(&decided).context("the council's decision")?;
        if output.is_json() {
            let body = serde_json::json!({
                "home": root,
                "decisions": told.iter().map(|told| &told.outcome.answer).collect::<Vec<_>>(),
                "council": decided,
                "portfolio": portfolio, "fills": fills, "ledger": report, "rebuild_same": same,
            });
            output.json(&body)?;
            return Ok(if report.ok && same {
                Exit::Success
            } else {
                Exit::LedgerCorrupt
            });
        }
        output.line(&format!(
            "One day of real BTC-USD prices, {DATE}, in {}",
            root.display()
        ))?;
        output.heading("What was asked, what the gate decided, and why")?;
        let rows: Vec<Vec<String>> = told.iter().map(row).collect();
        output.table(
            &["time", "request", "what it is", "decision", "why"],
            &[],
            &rows,
        )?;
        output.heading("What the market did")?;
        look::print_fills(&fills, output)?;
        output.heading(&format!("Portfolio at {now}"))?;
        look::print_portfolio(&portfolio, output)?;
        output.heading("What the council decided, by rules and not by a chair")?;
        council::print_decision(&decided, output)?;
        output.heading("Ledger, verified from its first byte")?;
        audit::print_report(&report, output)?;
        let verdict = if same { "the same" } else { "DIFFERENT" };
        output.line(&format!(
            "State made again from the ledger alone: {verdict}."
        ))?;
        output.heading("Where to look")?;
        let home = root.display().to_string();
        output.line(
            WHERE_TO_LOOK
                .replace("HOME", &home)
                .replace("CASE", CASE)
                .trim_end(),
        )?;
        Ok(if report.ok && same {
            Exit::Success
        } else {
            Exit::LedgerCorrupt
        })
    }
}

/// Summarizes an answer of the council; empty for other answers.
fn council_says(decision: &Decision) -> String {
    let data: Option<serde_json::Value> = decision
        .data
        .as_ref()
        .and_then(|data| serde_json::from_str(data.get()).ok());
    let Some(data) = data else {
        return String::new();
    };
    let roles = data.get("roles").and_then(serde_json::Value::as_array);
    let is_of_a_case = data.get("case").is_some();
    match (roles, data.get("closes_at")) {
        (Some(roles), _) if is_of_a_case => format!("a case is open; {} roles asked", roles.len()),
        (None, Some(_)) if is_of_a_case => "filed; the case waits for nobody".to_owned(),
        (None, None) if is_of_a_case => "filed".to_owned(),
        _ => String::new(),
    }
}

/// Summarizes an answer to a control decision; `None` for other answers.
fn control_says(decision: &Decision) -> Option<String> {
    let said: ControlResponse = serde_json::from_str(decision.data.as_ref()?.get()).ok()?;
    let cancelled: Vec<String> = said
        .result
        .cancelled_orders
        .iter()
        .map(ToString::to_string)
        .collect();
    let told = match (cancelled.is_empty(), said.result.positions_kept.len()) {
        (true, 0) => String::new(),
        (_, kept) => format!(
            "; cancelled {}, positions kept: {kept}",
            cancelled.join(", ")
        ),
    };
    Some(format!("{}{told}", said.status.as_str()))
}

/// Summarizes a receipt; `None` without one.
fn admission_says(decision: &Decision) -> Option<String> {
    let receipt = decision.receipt.as_ref()?;
    let left = receipt.effective_counters.recursion_budget_remaining;
    Some(left.map_or_else(
        || "allowed".to_owned(),
        |left| format!("allowed; {left} left of the tree's budget"),
    ))
}

/// Formats a row of the day's table.
fn row(told: &Told) -> Vec<String> {
    let decision = &told.outcome.decision;
    let failed = decision.checks.iter().find(|row| row.is_root());
    let (ruling, why) = match (decision.metadata.code, decision.metadata.replay_of) {
        (Some(code), _) => {
            let message = decision.metadata.message.clone().unwrap_or_default();
            let why = failed.map_or(format!("{code}: {message}"), |row| {
                let reason = row.reason.clone().unwrap_or_else(|| {
                    let show = |amount: Option<spoolgate_wire::amount::Amount>| {
                        amount.map_or_else(
                            || "?".to_owned(),
                            |amount| amount.normalized().to_string(),
                        )
                    };
                    format!("{} over {}", show(row.value), show(row.limit)).into()
                });
                let headroom = decision
                    .headroom
                    .as_ref()
                    .filter(|room| room.max_size.is_positive())
                    .map(|room| format!("; {} would pass", room.max_size.normalized()))
                    .unwrap_or_default();
                format!("{}: {reason}{headroom}", row.name)
            });
            ("refused".to_owned(), why)
        }
        (None, Some(original)) => (
            "answered again".to_owned(),
            format!("the answer of line {original}, byte for byte"),
        ),
        (None, None) => {
            let why = decision.order_id.map(|order| order.to_string());
            let why = why
                .or_else(|| control_says(decision))
                .or_else(|| admission_says(decision));
            let why = why.unwrap_or_else(|| council_says(decision));
            ("accepted".to_owned(), why)
        }
    };
    let time = told
        .at
        .to_string()
        .get(11..19)
        .unwrap_or_default()
        .to_owned();
    let request = decision
        .request_id
        .clone()
        .unwrap_or_else(|| decision.file.clone());
    let why = super::output::short(&why, 120);
    vec![time, request, told.story.clone(), ruling, why]
}
