//! What one sender does with the files that it may make must never stop the gate for everybody;
//! what a person does to the home must never cost a request. One test per accident, over a real
//! home with a disk that answers as the system would.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::kit::layered::Layered;
use spoolgate_gate::actions::Body;
use spoolgate_gate::actions::account_adjust::AccountAdjust;
use spoolgate_gate::actions::keys::KeysRevoke;
use spoolgate_gate::actions::market_import::MarketImport;
use spoolgate_gate::actions::portfolio_get::PortfolioGet;
use spoolgate_gate::decide::{Lookups, Needs, decide, needs};
use spoolgate_gate::prepare::{Authentic, Origin, Prepared, Refusal};
use spoolgate_gate::state::KeyRecord;
use spoolgate_gate::{Change, Record, State};
use spoolgate_home::batch::Outcome;
use spoolgate_home::index::{Outstanding, Store, fold};
use spoolgate_home::{Home, HomeError, Seams, layout};
use spoolgate_host::clock::ManualClock;
use spoolgate_host::entropy::SystemEntropy;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_host::rule_folder;
use spoolgate_ledger::disk::{Disk, Mode};
use spoolgate_rules::Rulebook;
use spoolgate_trading as trading;
use spoolgate_wire::admin::{AdjustAccount, Algorithm, ImportMarket, RevokeKey};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId, Symbol};
use spoolgate_wire::orders::Empty;
use spoolgate_wire::signing::{SignKey, VerifyKey};
use spoolgate_wire::time::Time;

const NOW: &str = "2026-02-21T12:00:00Z";
const EPERM: i32 = 1;
const EAGAIN: i32 = 11;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENOTDIR: i32 = 20;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A home in a scratch folder.
struct Scratch {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    /// Calls that fail, as `verb path` or `verb folder/`, with their error.
    errors: BTreeMap<String, i32>,
}

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["rules", "rules/strategies", "proposals/theses"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
            fs::create_dir_all(folder.path().join(dir)).unwrap();
            for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_file() {
                    fs::copy(
                        entry.path(),
                        folder.path().join(dir).join(entry.file_name()),
                    )
                    .unwrap();
                }
            }
        }
        let clock = Arc::new(ManualClock::at(now()));
        let scratch = Scratch {
            folder,
            clock,
            errors: BTreeMap::new(),
        };
        layout::found(
            scratch.home(),
            &scratch.seams(),
            "test.invalid/room",
            &owner(),
        )
        .unwrap();
        scratch
    }

    fn home(&self) -> &Path {
        self.folder.path()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home().join(path)
    }

    fn seams(&self) -> Seams {
        let errors = self.errors.clone();
        let disk = Layered::before(
            Arc::new(RealDisk::open(self.home()).unwrap()),
            move |call| {
                let verb = if call.verb == "rename" {
                    "rename to"
                } else {
                    call.verb
                };
                let path = if call.verb == "rename" {
                    call.target()
                } else {
                    call.path
                };
                let folder = path.parent().unwrap_or(path).display();
                let error = errors.get(&format!("{verb} {}", path.display()));
                let error = error.or_else(|| errors.get(&format!("{verb} {folder}/")));
                error.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(*code)))
            },
        );
        Seams {
            disk: Arc::new(disk),
            clock: self.clock.clone(),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// Opens the home and decides what is there.
    fn run(&self) -> Result<Vec<Outcome>, HomeError> {
        let mut home = Home::open(self.home(), self.seams())?;
        let mut outcomes = Vec::new();
        home.until_idle(false, &AtomicBool::new(false), &mut |decided| {
            outcomes.extend_from_slice(decided)
        })?;
        home.finish("done")?;
        Ok(outcomes)
    }

    /// Returns what was decided, by file.
    fn codes(&self) -> BTreeMap<String, Option<Code>> {
        let outcomes = self.run().unwrap();
        outcomes
            .into_iter()
            .map(|outcome| (outcome.decision.file, outcome.decision.metadata.code))
            .collect()
    }
}

fn now() -> Time {
    Time::parse(NOW).unwrap()
}

fn owner() -> Principal {
    Principal::parse("owner").unwrap()
}

#[test]
fn a_file_that_cannot_be_moved_stays_and_all_others_are_decided() {
    // A directory of another user, a mount point, a file in a sticky folder.
    for error in [EACCES, EBUSY, EPERM] {
        let mut scratch = Scratch::new();
        for name in ["foreign", "foreign.json"] {
            fs::create_dir(scratch.at("spool/in").join(name)).unwrap();
            scratch
                .errors
                .insert(format!("rename_new spool/in/{name}"), error);
        }
        fs::write(scratch.at("spool/in/other.json"), "[]").unwrap();
        for _ in 0..2 {
            let codes = scratch.codes();
            // What stays is answered by its name; a folder that may be an agent's is left alone.
            assert!(
                codes.iter().all(|(file, code)| match file.as_str() {
                    "other.json" => true,
                    "foreign.json" => *code == Some(Code::NotAFile),
                    _ => false,
                }),
                "{error}: {codes:?}"
            );
            assert!(scratch.at("spool/in/foreign.json").exists());
        }
        assert!(scratch.at("spool/out/other.json.error.json").exists());
    }
    // If the gate may not write its own folders, that is not the sender's fault.
    let mut scratch = Scratch::new();
    fs::write(scratch.at("spool/in/r.json"), "{}").unwrap();
    scratch
        .errors
        .insert("rename_new spool/in/r.json".to_owned(), EACCES);
    assert_eq!(scratch.codes()["r.json"], Some(Code::Unreadable));
    scratch
        .errors
        .insert("write spool/work/.probe".to_owned(), EACCES);
    assert!(scratch.run().is_err());
}

#[test]
fn a_directory_whose_owner_closes_it_after_the_claim_does_not_stop_the_gate() {
    let mut scratch = Scratch::new();
    fs::create_dir(scratch.at("spool/in/d.json")).unwrap();
    scratch
        .errors
        .insert("rename to spool/rejected/".to_owned(), EACCES);
    assert_eq!(scratch.codes().get("d.json"), Some(&Some(Code::NotAFile)));
    assert!(scratch.codes().is_empty());
}

#[test]
fn a_file_under_a_lease_is_refused_and_the_gate_goes_on() {
    let mut scratch = Scratch::new();
    fs::write(scratch.at("spool/in/held.json"), "{}").unwrap();
    fs::write(scratch.at("spool/in/other.json"), "{}").unwrap();
    scratch
        .errors
        .insert("read spool/in/held.json".to_owned(), EAGAIN);
    let codes = scratch.codes();
    assert_eq!(
        codes.get("held.json"),
        Some(&Some(Code::Unreadable)),
        "{codes:?}"
    );
    assert_eq!(
        codes.get("other.json"),
        Some(&Some(Code::MalformedEnvelope)),
        "{codes:?}"
    );
}

#[test]
fn an_agents_folder_that_is_not_a_folder_counts_as_empty() {
    let mut scratch = Scratch::new();
    let principals = scratch.at("rules/principals.yaml");
    let text = fs::read_to_string(&principals).unwrap();
    fs::write(
        &principals,
        format!("{text}  - {{name: bot, role: agent, spool: bot}}\n"),
    )
    .unwrap();
    scratch
        .errors
        .insert("read_dir spool/in/bot/new".to_owned(), ENOTDIR);
    fs::write(scratch.at("spool/in/other.json"), "{}").unwrap();
    assert_eq!(scratch.codes().len(), 1);
}

#[test]
fn the_spool_of_an_agent_without_a_rule_keeps_what_waits_in_it() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.at("spool/in/bot/new")).unwrap();
    fs::write(scratch.at("spool/in/bot/new/exit.json"), "{}").unwrap();
    assert!(scratch.codes().is_empty());
    assert!(scratch.at("spool/in/bot/new/exit.json").exists());
    // A directory that cannot be anybody's spool is refused.
    fs::create_dir(scratch.at("spool/in/folder.json")).unwrap();
    assert_eq!(scratch.codes().len(), 1);
}

#[test]
fn answers_are_written_into_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(folder.path()).unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let target = folder.path().join("x.tmp");
    let write = || disk.write(Path::new("x.tmp"), b"answer", Mode::Shared, false);
    fs::hard_link(&secret, &target).unwrap();
    write().unwrap();
    fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&secret, &target).unwrap();
    write().unwrap();
    fs::remove_file(&target).unwrap();
    // Opening a FIFO for writing would wait for a reader for ever.
    let cwd = rustix::fs::CWD;
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(cwd, &target, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    write().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"answer");
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
}

#[test]
fn an_index_that_is_not_a_database_is_rebuilt() {
    let scratch = Scratch::new();
    fs::write(scratch.at("spool/in/a.json"), "{}").unwrap();
    assert_eq!(scratch.codes().len(), 1);
    fs::write(
        scratch.at("state/state.db"),
        "not a database, and long enough to be looked at as one",
    )
    .unwrap();
    fs::write(scratch.at("spool/in/b.json"), "{}").unwrap();
    assert_eq!(scratch.codes().len(), 1);
}

#[test]
fn a_snapshot_that_does_not_fit_the_ledger_is_rebuilt() {
    let scratch = Scratch::new();
    let mut home = Home::open(scratch.home(), scratch.seams()).unwrap();
    home.write_news().unwrap();
    home.save_snapshot().unwrap();
    let new_key = home.keyring().insert(&VerifyKey::Hmac([9; 32])).unwrap();
    let payload = format!(
        r#"{{"principal":"owner","key_id":"{new_key}","algorithm":"hmac-sha256","others_end":"2026-02-22T00:00:00Z"}}"#
    );
    let envelope = signed(&home, "keys.rotate", &payload);
    let mut snapshot = home.store().snapshot().unwrap().unwrap();
    fs::write(scratch.at("spool/in/r.json"), envelope).unwrap();
    home.until_idle(false, &AtomicBool::new(false), &mut |_| {})
        .unwrap();
    // The ledger now ends a key that this state never had.
    snapshot.state.keys.clear();
    home.store().save_snapshot(&snapshot).unwrap();
    let before = home.state().clone();
    drop(home);
    let again = Home::open(scratch.home(), scratch.seams()).unwrap();
    assert_eq!(before.keys.len(), 2);
    assert_eq!(again.state().keys, before.keys);
}

/// Returns a request of the owner, signed with the key that was made with the home.
fn signed(home: &Home, action: &str, payload: &str) -> String {
    let key_id = home.state().keys.keys().next().unwrap().clone();
    let key = home.keyring().sign_key(&key_id).unwrap().unwrap();
    envelope(action, payload, &key).to_json()
}

fn envelope(action: &str, payload: &str, key: &SignKey) -> Envelope {
    let mut envelope = Envelope {
        id: RequestId::parse("r").unwrap(),
        timestamp_text: NOW.to_owned(),
        timestamp: now(),
        action: action.to_owned(),
        payload: payload.to_owned(),
        source: owner(),
        signature: String::new(),
        causality: None,
    };
    envelope.signature = key.sign(&envelope.signing_string());
    envelope
}

#[test]
fn a_fault_that_quotes_a_whole_rule_file_fits_into_the_ledger() {
    let scratch = Scratch::new();
    let trend = scratch.at("rules/strategies/trend.yaml");
    let text = fs::read_to_string(&trend).unwrap();
    let long = format!("status: {}", "x".repeat(100_000));
    assert!(text.contains("status: active"));
    fs::write(&trend, text.replace("status: active", &long)).unwrap();
    assert!(scratch.codes().is_empty());
    let home = Home::open(scratch.home(), scratch.seams()).unwrap();
    let fault = home.state().rulebook.fault.clone().unwrap();
    assert!(
        fault.starts_with("rules/strategies/trend.yaml") && fault.len() <= 1000,
        "{}",
        fault.len()
    );
    // It is reported once, not at every start.
    assert!(scratch_is_quiet(home));
}

fn scratch_is_quiet(mut home: Home) -> bool {
    let before = home.position().clone();
    home.write_news().unwrap();
    *home.position() == before
}

/// Returns a request of `source` as authentication returns it.
fn prepared(source: &str, body: Body) -> Prepared {
    let key = SignKey::Hmac([7; 32]);
    let mut envelope = envelope(body.rule.name.as_str(), "{}", &key);
    envelope.source = Principal::parse(source).unwrap();
    let (payload_hash, request_hash) = (envelope.payload_hash(), envelope.request_hash());
    let key_id = "0000000000000001".to_owned();
    Prepared {
        origin: Origin::Flat,
        file: "r.json".to_owned(),
        file_sha256: None,
        file_bytes: None,
        request: Ok(Authentic {
            envelope,
            key_id,
            payload_hash,
            request_hash,
            body: Ok(body),
        }),
    }
}

fn rulebook() -> Rulebook {
    Rulebook::compile(&rule_folder::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()).unwrap()
}

fn key(number: u8, ends_at: Option<Time>) -> Change {
    Change::KeyAdded(KeyRecord {
        key_id: format!("000000000000000{number}"),
        principal: owner(),
        algorithm: Algorithm::HmacSha256,
        added_at: now(),
        ends_at,
        revoked_at: None,
    })
}

fn code_of(state: &State, request: &Prepared) -> Option<Code> {
    decide(state, &rulebook(), request, &Lookups::default(), now(), 9)
        .decision
        .metadata
        .code
}

#[test]
fn an_adjustment_that_the_book_cannot_hold_is_refused_before_it_is_folded() {
    let mut state = State::default();
    state.apply(&key(1, None)).unwrap();
    state.book.account.peak_equity = Some(Amount::parse_exact("0.0000000001").unwrap());
    let amount = Amount::parse_exact("7922816251426433759354395").unwrap();
    let adjust = AdjustAccount {
        amount,
        reason: "r".to_owned(),
    };
    let request = prepared("owner", Body::of::<AccountAdjust>(adjust));
    assert_eq!(code_of(&state, &request), Some(Code::StateConflict));
    assert!(
        state
            .book
            .apply(&trading::Change::AccountAdjusted { amount })
            .is_err()
    );
}

#[test]
fn the_last_key_of_a_person_that_does_not_end_cannot_be_revoked() {
    let mut state = State::default();
    state.apply(&key(1, None)).unwrap();
    state.apply(&key(2, Some(now().plus_ms(60_000)))).unwrap();
    let revoke = RevokeKey {
        key_id: "0000000000000001".to_owned(),
        reason: "r".to_owned(),
    };
    let request = prepared("owner", Body::of::<KeysRevoke>(revoke));
    assert_eq!(code_of(&state, &request), Some(Code::StateConflict));
    state.apply(&key(3, None)).unwrap();
    assert_eq!(code_of(&state, &request), None);
}

#[test]
fn nothing_is_looked_up_without_permission() {
    let import = ImportMarket {
        symbol: Symbol::parse("BTC-USD").unwrap(),
        rows_sha256: "0".repeat(64),
        row_count: 1,
        file_sha256: "0".repeat(64),
        file_name: "f".to_owned(),
    };
    let request = |source| prepared(source, Body::of::<MarketImport>(import.clone()));
    assert_eq!(needs(&request("trend-bot"), &rulebook()), Needs::default());
    assert_eq!(needs(&request("stranger"), &rulebook()), Needs::default());
    assert!(needs(&request("owner"), &rulebook()).rows.is_some());
}

#[test]
fn a_request_answered_again_in_another_spool_keeps_its_id_there() {
    let (mut state, store) = (State::default(), Store::in_memory().unwrap());
    state.apply(&key(1, None)).unwrap();
    let mut outstanding = Outstanding::new();
    let mut request = prepared("owner", Body::of::<PortfolioGet>(Empty {}));
    for (seq, origin) in [(5, Origin::Local), (6, Origin::Flat)] {
        let label = origin.label();
        request.origin = origin;
        let lookups = Lookups {
            seen: store.seen("owner", "r").unwrap(),
            ..Lookups::default()
        };
        let decision = decide(&state, &rulebook(), &request, &lookups, now(), seq).decision;
        assert_eq!(decision.metadata.code, None);
        let record = Record::Decision(Box::new(decision));
        fold(&mut state, &store, &mut outstanding, seq, &record).unwrap();
        // For another sender in this spool, the id is taken.
        let seen = store.seen_in_spool(&label, "r").unwrap().unwrap();
        assert_eq!((seen.source.as_str(), seen.seq), ("owner", 5));
    }
}

#[test]
fn refusals_hold_nothing_that_a_terminal_obeys() {
    let message = Refusal::new(Code::NotFound, "a\u{9b}31m\u{1b}[2J\u{202e}b\u{e9}").message;
    assert!(
        message.starts_with("a\\u{9b}31m\\u{1b}[2J\\u{202e}b\u{e9}; "),
        "{message}"
    );
}

/// Makes so many orders that the answer to `orders.list` exceeds a ledger line, so that it is in a
/// blob.
fn with_an_answer_in_a_blob(scratch: &Scratch) -> (Vec<u8>, PathBuf) {
    let mut home = Home::open(scratch.home(), scratch.seams()).unwrap();
    let key = home.state().keys.values().next().unwrap().key_id.clone();
    let key = home.keyring().sign_key(&key).unwrap().unwrap();
    let mut envelope = Envelope {
        id: RequestId::parse("fills").unwrap(),
        timestamp_text: NOW.to_owned(),
        timestamp: now(),
        action: "fills.list".to_owned(),
        payload: r#"{"since":"2026-01-01T00:00:00Z"}"#.to_owned(),
        source: owner(),
        signature: String::new(),
        causality: None,
    };
    envelope.signature = key.sign(&envelope.signing_string());
    // Fills in the index alone are enough, because only the answer matters here.
    let fill = r#"{"order_id":"o-1","strategy":"trend","symbol":"BTC-USD","side":"buy","role":"entry","price":"1","size":"1","multiplier":"1","fee":"0","liquidity":"maker","realised":"0","market_time":"2026-02-21T12:00:00Z","recorded_at":"2026-02-21T12:00:00Z"}"#;
    for n in 0..60 {
        home.store()
            .insert_fill(1, n, &serde_json::from_str(fill).unwrap())
            .unwrap();
    }
    let bytes = envelope.to_json().into_bytes();
    fs::write(scratch.at("spool/in/fills.json"), &bytes).unwrap();
    home.until_idle(false, &AtomicBool::new(false), &mut |_| {})
        .unwrap();
    home.finish("done").unwrap();
    let blobs: Vec<PathBuf> = fs::read_dir(scratch.at("audit/blobs"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert_eq!(blobs.len(), 1);
    (bytes, blobs[0].clone())
}

/// A replay whose stored answer needs a lost blob was sealed first and could then not be answered,
/// now and at every later start: one agent's file stopped the gate for good.
#[test]
fn a_lost_blob_costs_its_own_request_only() {
    let scratch = Scratch::new();
    let (request, blob) = with_an_answer_in_a_blob(&scratch);
    let answered = fs::read(scratch.at("spool/out/fills.json")).unwrap();
    fs::write(scratch.at("spool/in/again.json"), &request).unwrap();
    assert_eq!(
        scratch.codes().get("again.json"),
        Some(&None),
        "with the blob it is a replay"
    );
    fs::remove_file(blob).unwrap();
    fs::write(scratch.at("spool/in/again.json"), &request).unwrap();
    fs::write(scratch.at("spool/in/other.json"), "{}").unwrap();
    let codes = scratch.codes();
    assert_eq!(codes.get("again.json"), Some(&Some(Code::Internal)));
    assert_eq!(
        codes.get("other.json"),
        Some(&Some(Code::MalformedEnvelope))
    );
    assert_eq!(
        fs::read(scratch.at("spool/out/fills.json")).unwrap(),
        answered,
        "the answer that stands stays"
    );
    assert!(scratch.codes().is_empty());
}

/// With a full disk and a service that restarts, every start counted as an attempt of every waiting
/// request: after three of them good requests, exits among them, were refused as poisoned.
#[test]
fn a_failing_disk_is_not_an_attempt_of_the_request() {
    let mut scratch = Scratch::new();
    fs::write(scratch.at("spool/work/1~1~flat~r.json"), "{}").unwrap();
    scratch
        .errors
        .insert("append audit/log-00000001.jsonl".to_owned(), ENOSPC);
    for _ in 0..5 {
        assert!(scratch.run().is_err());
        let left: Vec<_> = fs::read_dir(scratch.at("spool/work"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["1~1~flat~r.json"]);
    }
    scratch.errors.clear();
    assert_eq!(
        scratch.codes().get("r.json"),
        Some(&Some(Code::MalformedEnvelope))
    );
    assert!(
        fs::read_dir(scratch.at("spool/work"))
            .unwrap()
            .next()
            .is_none()
    );
}

/// With a link in place of its `new`, an agent had the gate move files from anywhere into
/// `spool/work`.
#[test]
fn a_link_on_the_way_to_an_agents_files_leads_nowhere() {
    let scratch = Scratch::new();
    let principals = scratch.at("rules/principals.yaml");
    let text = fs::read_to_string(&principals).unwrap();
    fs::write(
        &principals,
        format!("{text}  - {{name: bot, role: agent, spool: bot}}\n"),
    )
    .unwrap();
    assert!(scratch.codes().is_empty());
    fs::create_dir(scratch.at("elsewhere")).unwrap();
    fs::write(scratch.at("elsewhere/secret.json"), "{}").unwrap();
    fs::remove_dir(scratch.at("spool/in/bot/new")).unwrap();
    std::os::unix::fs::symlink(scratch.at("elsewhere"), scratch.at("spool/in/bot/new")).unwrap();
    let disk = RealDisk::open(scratch.home()).unwrap();
    let inside = Path::new("spool/in/bot/new/secret.json");
    assert!(disk.read(inside, 100).is_err());
    assert!(disk.stat(inside).is_err());
    assert!(
        disk.rename_new(inside, Path::new("spool/work/1~1~agent-bot~secret.json"))
            .is_err()
    );
    assert!(scratch.codes().is_empty());
    assert!(scratch.at("elsewhere/secret.json").exists());
}

/// A file that was refused unread, because it was linked twice, was recognised by its bytes after a
/// crash: once it was unlinked, its bytes differed from those of its decision, and it was decided
/// again.
#[test]
fn a_claim_is_known_by_its_place_not_by_what_it_holds_now() {
    let mut scratch = Scratch::new();
    fs::write(scratch.at("elsewhere"), "{}").unwrap();
    fs::hard_link(scratch.at("elsewhere"), scratch.at("spool/in/r.json")).unwrap();
    // As if killed between the answer and the retirement of the claim.
    scratch
        .errors
        .insert("rename to spool/rejected/".to_owned(), EIO);
    assert!(scratch.run().is_err());
    scratch.errors.clear();
    assert!(scratch.at("spool/out/r.json.error.json").exists());
    fs::remove_file(scratch.at("elsewhere")).unwrap();
    assert!(scratch.codes().is_empty(), "decided once");
    assert!(
        fs::read_dir(scratch.at("spool/work"))
            .unwrap()
            .next()
            .is_none()
    );
    assert_eq!(
        fs::read_dir(scratch.at("spool/rejected")).unwrap().count(),
        1
    );
}

/// The next start uses what `rebuild` made, whether there was an index before or not.
#[test]
fn a_rebuilt_index_is_there_when_it_is_opened_again() {
    let scratch = Scratch::new();
    fs::write(scratch.at("spool/in/r.json"), "{}").unwrap();
    assert_eq!(scratch.codes().len(), 1);
    for forget in [true, false] {
        if forget {
            fs::remove_file(scratch.at("state/state.db")).unwrap();
        }
        let (mut home, same) = Home::rebuild(scratch.home(), scratch.seams()).unwrap();
        assert_eq!(same, !forget);
        home.save_snapshot().unwrap();
        let rows = home.store().dump().unwrap();
        assert!(rows.iter().any(|row| row.starts_with("line ")), "{rows:?}");
        drop(home);
        let store = Store::open_read_only(scratch.home()).unwrap();
        assert_eq!(store.dump().unwrap(), rows);
        assert!(store.snapshot().unwrap().is_some());
    }
}

/// An older copy of the ledger under a newer index was accepted with a remark. An index that cannot
/// prove that it was at a head of this log is rebuilt, and that is reported.
#[test]
fn an_index_of_missing_lines_is_reported() {
    let scratch = Scratch::new();
    let log = scratch.at("audit/log-00000001.jsonl");
    let checkpoint = scratch.at("audit/checkpoint");
    let older = (fs::read(&log).unwrap(), fs::read(&checkpoint).unwrap());
    fs::write(scratch.at("spool/in/r.json"), "{}").unwrap();
    assert_eq!(scratch.codes().len(), 1);
    assert!(
        !Home::open(scratch.home(), scratch.seams())
            .unwrap()
            .index_was_elsewhere
    );
    fs::write(&log, older.0).unwrap();
    fs::write(&checkpoint, older.1).unwrap();
    let exit = || {
        let opened = Home::open(scratch.home(), scratch.seams());
        opened.err().unwrap().exit()
    };
    assert_eq!(exit(), Exit::LedgerCorrupt);
    let index = rusqlite::Connection::open(scratch.at("state/state.db")).unwrap();
    let other = r#"UPDATE tip SET position = json_set(position, '$.seal_sig', '')"#;
    index
        .execute_batch(&format!("{other}; DELETE FROM snapshot"))
        .unwrap();
    drop(index);
    // The answer shows that the log had a line more.
    assert_eq!(exit(), Exit::LedgerCorrupt);
    fs::remove_file(scratch.at("spool/out/r.json.error.json")).unwrap();
    assert!(
        Home::open(scratch.home(), scratch.seams())
            .unwrap()
            .index_was_elsewhere
    );
    assert!(
        !Home::open(scratch.home(), scratch.seams())
            .unwrap()
            .index_was_elsewhere,
        "once it is made again"
    );
}

/// A lost copy of the rulebook stopped the gate, including exits, although the rule files were
/// there.
#[test]
fn a_lost_copy_of_the_rulebook_is_written_again() {
    let scratch = Scratch::new();
    let hash = Home::open(scratch.home(), scratch.seams())
        .unwrap()
        .rulebook()
        .hash
        .clone();
    let copy = scratch.at(&format!("audit/rulebooks/{hash}.json"));
    fs::remove_file(&copy).unwrap();
    assert_eq!(
        Home::open(scratch.home(), scratch.seams())
            .unwrap()
            .rulebook()
            .hash,
        hash
    );
    assert!(copy.exists());
    // If other rules are in their place, nobody can judge them: entries are closed until the copy is
    // back.
    fs::remove_file(&copy).unwrap();
    let safety = scratch.at("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    fs::write(
        &safety,
        text.replace("max_daily_loss: 250", "max_daily_loss: 200"),
    )
    .unwrap();
    let mut home = Home::open(scratch.home(), scratch.seams()).unwrap();
    home.write_news().unwrap();
    let known = &home.state().rulebook;
    assert_eq!(known.hash, hash);
    assert!(
        known.fault.as_ref().unwrap().contains("audit/rulebooks"),
        "{known:?}"
    );
}

/// The venue reported for which order it could not compute a fill, and the gate dropped that.
#[test]
fn an_order_that_cannot_be_filled_is_named_in_the_answer() {
    let mut state = State::default();
    state.apply(&key(1, None)).unwrap();
    // The fee with the largest multiplier has more digits than an amount: no fill can be computed
    // exactly.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rules = Rulebook::compile(&rule_folder::load(folder).unwrap()).unwrap();
    let symbol = Symbol::parse("BTC-USD").unwrap();
    let instrument = rules.instruments.get_mut(&symbol).unwrap();
    let [multiplier, fee] =
        ["999999999999.9999999999", "0.1234567891"].map(|text| Amount::parse_exact(text).unwrap());
    instrument.multiplier = multiplier.try_into().unwrap();
    instrument.taker_fee = fee.try_into().unwrap();
    let order = r#"{"order_id":"o-1","source":"trend-bot","strategy":"trend","symbol":"BTC-USD","side":"buy","role":"entry","order_type":"market","size":"0.01","filled":"0","price":null,"trigger":null,"triggered":false,"thesis_slug":null,"accepted_at":"2026-02-21T11:00:00Z"}"#;
    let fill = r#"{"order_id":"o-1","strategy":"trend","symbol":"BTC-USD","side":"buy","role":"entry","price":"6800","size":"0.01","multiplier":"1","fee":"0","liquidity":"taker","realised":"0","market_time":"2026-02-21T11:00:00Z","recorded_at":"2026-02-21T11:00:00Z"}"#;
    // An exit, which is never pulled.
    let exit = order
        .replace("o-1", "o-2")
        .replace("\"buy\"", "\"sell\"")
        .replace("\"entry\"", "\"exit\"");
    for change in [
        trading::Change::OrderPlaced(serde_json::from_str(order).unwrap()),
        trading::Change::OrderFilled(serde_json::from_str(fill).unwrap()),
        trading::Change::OrderPlaced(serde_json::from_str(&exit).unwrap()),
    ] {
        state.apply(&Change::Book(change)).unwrap();
    }
    let open_ms = now().ms() - 60_000;
    let rows = format!("bar,{open_ms},60000,6800,6800,6800,6800,\n").into_bytes();
    let import = ImportMarket {
        symbol,
        rows_sha256: "0".repeat(64),
        row_count: 1,
        file_sha256: "0".repeat(64),
        file_name: "f".to_owned(),
    };
    let request = prepared("owner", Body::of::<MarketImport>(import));
    let lookups = Lookups {
        rows: Some(rows),
        ..Lookups::default()
    };
    let decided = decide(&state, &rules, &request, &lookups, now(), 9);
    let data = decided.decision.data.unwrap();
    assert!(
        data.get()
            .contains(r#""left_open":[{"order_id":"o-2","reason":"#),
        "{}",
        data.get()
    );
}
