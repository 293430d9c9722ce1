//! A home on a real disk with a clock that only tests move, and the persons and programs around it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, Seams, layout};
use spoolgate_host::clock::{Clock, ManualClock};
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_market::Row;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, hex, sha256_hex, signing_string};
use spoolgate_wire::time::Time;

use super::layered::Layered;
use super::prices::kept;

/// The time at which the worlds begin, a Saturday.
pub(crate) const NOON: &str = "2026-02-21T12:00:00Z";

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: second, role: human}
  - {name: trend-bot, role: agent, strategies: [trend]}
  - {name: other-bot, role: agent, strategies: [other]}
  - {name: alpha-bot, role: agent, strategies: [alpha], spool: alpha-dir}
  - {name: beta-bot, role: agent, strategies: [beta], spool: beta-dir}
  - {name: keyless-bot, role: agent}
  - {name: prices, role: feed}
";

/// A hook on the real disk: called before each verb with its name and paths, and again after it. An
/// error from the first call is the result of the verb.
pub(crate) type Meddle =
    Box<dyn Fn(&str, &Path, Option<&Path>, bool) -> Option<io::Error> + Send + Sync>;

/// The verbs for which the hook is called.
const VERBS: [&str; 7] = [
    "read_dir",
    "stat",
    "read",
    "rename",
    "rename_new",
    "remove",
    "write",
];

/// A request before it is signed.
#[derive(Clone)]
pub(crate) struct Draft {
    pub id: String,
    pub source: String,
    pub action: String,
    pub payload: String,
    /// The time of signing, in milliseconds from now.
    pub at_ms: i64,
}

pub(crate) struct World {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub clock: Arc<ManualClock>,
    pub seams: Seams,
    /// Key id and secret by principal.
    pub keys: BTreeMap<String, (String, [u8; 32])>,
    drafts: u64,
}

fn no_meddling() -> Meddle {
    Box::new(|_, _, _, _| None)
}

impl World {
    /// Makes a home with keys for all principals except `keyless-bot`, with cash and a market.
    pub(crate) fn new(seed: u64) -> World {
        World::with_disk(seed, no_meddling())
    }

    pub(crate) fn with_disk(seed: u64, meddle: Meddle) -> World {
        World::under(seed, meddle, |_| {})
    }

    /// Makes a home under rules that `edit` changes.
    pub(crate) fn under(seed: u64, meddle: Meddle, edit: impl FnOnce(&Path)) -> World {
        let dir = super::folder();
        let root = dir.path().join("home");
        for folder in ["rules/strategies", "proposals/theses"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        write(
            "rules/safety.yaml",
            include_str!("../../../rules/safety.yaml"),
        );
        write(
            "rules/instruments.yaml",
            include_str!("../../../rules/instruments.yaml"),
        );
        write("rules/principals.yaml", PRINCIPALS);
        for strategy in ["trend", "other", "alpha", "beta"] {
            let text = include_str!("../../../rules/strategies/trend.yaml");
            write(
                &format!("rules/strategies/{strategy}.yaml"),
                &text
                    .replace("name: trend", &format!("name: {strategy}"))
                    .replace("market: btc-usd", &format!("market: {strategy}")),
            );
            for n in 0..6 {
                let slug = format!("{strategy}-{n}");
                let text = include_str!("../../../proposals/theses/btc-range-long.md")
                    .replace("slug: btc-range-long", &format!("slug: {slug}"))
                    .replace("strategy: trend", &format!("strategy: {strategy}"));
                write(&format!("proposals/theses/{slug}.md"), &text);
            }
        }
        edit(&root);
        let clock = Arc::new(ManualClock::at(Time::parse(NOON).unwrap()));
        let disk = Layered::around(Arc::new(RealDisk::open(&root).unwrap()), move |call| {
            let is_meant = VERBS.contains(&call.verb);
            let error = is_meant
                .then(|| meddle(call.verb, call.path, call.to, call.is_done))
                .flatten();
            error.filter(|_| !call.is_done).map_or(Ok(()), Err)
        })
        .without_syncs();
        let entropy = Arc::new(SeededEntropy::new(seed));
        let seams = Seams {
            disk: Arc::new(disk),
            clock: clock.clone(),
            entropy,
        };
        let owner = Principal::parse("owner").unwrap();
        let (key_id, _) =
            layout::found(&root, &seams, "audit.example.org/hostile", &owner).unwrap();
        let keyring = SqliteKeyring::open(&root, false).unwrap();
        let Some(SignKey::Hmac(secret)) = keyring.sign_key(&key_id).unwrap() else {
            panic!("a shared key")
        };
        drop(keyring);
        for agent in ["alpha-dir", "beta-dir"] {
            for folder in ["tmp", "new"] {
                fs::create_dir_all(root.join("spool/in").join(agent).join(folder)).unwrap();
            }
        }
        let keys = BTreeMap::from([("owner".to_owned(), (key_id, secret))]);
        let mut world = World {
            _dir: dir,
            root,
            clock,
            seams,
            keys,
            drafts: 0,
        };
        let mut home = world.open();
        for name in [
            "second",
            "trend-bot",
            "other-bot",
            "alpha-bot",
            "beta-bot",
            "prices",
        ] {
            world.add_key(&mut home, name);
        }
        world.ask_ok(
            &mut home,
            "owner",
            "account.adjust",
            r#"{"amount":"5000","reason":"start"}"#,
        );
        world.market(&mut home, "6800");
        drop(home);
        world
    }

    pub(crate) fn open(&self) -> Home {
        Home::open(&self.root, self.seams.clone()).unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn pass_ms(&self, ms: i64) {
        self.clock.set(self.now().plus_ms(ms));
    }

    /// Makes a key that is in the keyring and not yet in the ledger.
    pub(crate) fn new_key(&self) -> (String, [u8; 32]) {
        let secret = self.seams.entropy.bytes32().unwrap();
        let keyring = SqliteKeyring::open(&self.root, false).unwrap();
        (
            keyring.insert(&SignKey::Hmac(secret).verify_key()).unwrap(),
            secret,
        )
    }

    pub(crate) fn add_key(&mut self, home: &mut Home, principal: &str) {
        let (key_id, secret) = self.new_key();
        let payload = format!(
            r#"{{"principal":"{principal}","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#
        );
        self.ask_ok(home, "owner", "keys.add", &payload);
        self.keys.insert(principal.to_owned(), (key_id, secret));
    }

    pub(crate) fn draft(&mut self, source: &str, action: &str, payload: &str) -> Draft {
        self.drafts += 1;
        Draft {
            id: format!("d{:05}", self.drafts),
            source: source.to_owned(),
            action: action.to_owned(),
            payload: payload.to_owned(),
            at_ms: 0,
        }
    }

    /// Returns the envelope, signed with the current key of its source.
    pub(crate) fn sign(&self, draft: &Draft) -> String {
        let secret = self.keys.get(&draft.source).map_or([0; 32], |key| key.1);
        self.sign_with(draft, &secret)
    }

    pub(crate) fn sign_with(&self, draft: &Draft, secret: &[u8; 32]) -> String {
        let Draft {
            id,
            source,
            action,
            payload,
            at_ms,
        } = draft;
        let timestamp = self.now().plus_ms(*at_ms).to_string();
        let signature =
            SignKey::Hmac(*secret).sign(&signing_string(id, &timestamp, action, payload, None));
        format!(
            r#"{{"id":"{id}","timestamp":"{timestamp}","action":"{action}","payload":{payload},"source":"{source}","signature":"{signature}"}}"#
        )
    }

    /// Returns the folder for requests of this principal.
    pub(crate) fn spool_of(source: &str) -> &'static str {
        match source {
            "alpha-bot" => "alpha-dir",
            "beta-bot" => "beta-dir",
            _ => "",
        }
    }

    /// Returns the path of a file in a spool; "" is the flat spool.
    pub(crate) fn inbox(&self, spool: &str, name: &[u8]) -> PathBuf {
        let dir = self.root.join("spool/in");
        let dir = if spool.is_empty() {
            dir
        } else {
            dir.join(spool).join("new")
        };
        dir.join(OsStr::from_bytes(name))
    }

    pub(crate) fn answer_path(&self, spool: &str, name: &str) -> PathBuf {
        self.root.join("spool/out").join(spool).join(name)
    }

    pub(crate) fn drop_file(&self, spool: &str, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.inbox(spool, name.as_bytes()), bytes).unwrap();
    }

    /// Signs a draft and drops it into the spool of its source.
    pub(crate) fn send(&self, draft: &Draft) {
        self.drop_file(
            Self::spool_of(&draft.source),
            &format!("{}.json", draft.id),
            self.sign(draft),
        );
    }

    /// Decides everything that waits in the spool.
    pub(crate) fn drain(&self, home: &mut Home) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        home.until_idle(false, &AtomicBool::new(false), &mut |decided| {
            outcomes.extend_from_slice(decided)
        })
        .unwrap();
        outcomes
    }

    /// Sends one draft and decides it.
    pub(crate) fn decide(&self, home: &mut Home, draft: &Draft) -> Outcome {
        self.send(draft);
        let mut outcomes = self.drain(home);
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
        outcomes.pop().unwrap()
    }

    pub(crate) fn ask(
        &mut self,
        home: &mut Home,
        source: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        let draft = self.draft(source, action, payload);
        self.decide(home, &draft)
    }

    pub(crate) fn ask_ok(
        &mut self,
        home: &mut Home,
        source: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        let outcome = self.ask(home, source, action, payload);
        assert_eq!(
            code_of(&outcome),
            None,
            "{action} {payload}: {:?}",
            outcome.answer.error
        );
        outcome
    }

    /// Returns the draft of a market import: a quote now, and a bar that opened now and closes in a
    /// second.
    pub(crate) fn import_draft(&mut self, home: &Home, price: &str) -> Draft {
        let amount = |text: &str| Amount::parse_exact(text).unwrap();
        let price = amount(price);
        let rows = [
            Row::Quote {
                time_ms: self.now().ms(),
                bid: price,
                ask: price,
                bid_size: None,
                ask_size: None,
            },
            Row::Bar {
                open_ms: self.now().ms(),
                interval_ms: 1000,
                open: price,
                high: price,
                low: price,
                close: price,
                volume: Some(amount("100")),
            },
        ];
        let mut rows = rows.to_vec();
        rows.sort_by_key(Row::known_ms);
        let payload = kept(home, "BTC-USD", &rows);
        self.draft("prices", "market.import", &payload)
    }

    /// Moves the market to this price; working market orders fill.
    pub(crate) fn market(&mut self, home: &mut Home, price: &str) -> Outcome {
        let draft = self.import_draft(home, price);
        let outcome = self.decide(home, &draft);
        assert_eq!(code_of(&outcome), None, "{:?}", outcome.answer.error);
        self.pass_ms(1000);
        outcome
    }

    /// Returns an entry that passes every check of the repository's own rules while its thesis is
    /// free.
    pub(crate) fn entry(&mut self, source: &str, thesis: u8, size: &str) -> Draft {
        let strategy = strategy_of(source);
        let payload = format!(
            r#"{{"strategy":"{strategy}","symbol":"BTC-USD","side":"buy","size":"{size}","order_type":"market","stop_price":"6700","thesis_slug":"{strategy}-{thesis}","planned_entry":"6800","planned_stop":"6700"}}"#
        );
        self.draft(source, "order.submit", &payload)
    }

    /// Returns an entry that rests below the market.
    pub(crate) fn resting(&mut self, source: &str, thesis: u8, size: &str) -> Draft {
        let draft = self.entry(source, thesis, size);
        let limit = r#""order_type":"limit","price":"6790""#;
        Draft {
            payload: draft.payload.replace(r#""order_type":"market""#, limit),
            ..draft
        }
    }

    /// Returns an exit of a long position.
    pub(crate) fn exit(&mut self, source: &str, size: &str) -> Draft {
        let strategy = strategy_of(source);
        let payload = format!(
            r#"{{"strategy":"{strategy}","symbol":"BTC-USD","side":"sell","size":"{size}","order_type":"market","thesis_slug":"{strategy}-0","planned_entry":"6800","planned_stop":"6700"}}"#
        );
        self.draft(source, "order.submit", &payload)
    }

    /// Opens a filled long position; returns the order id.
    pub(crate) fn position(
        &mut self,
        home: &mut Home,
        source: &str,
        thesis: u8,
        size: &str,
    ) -> String {
        let draft = self.entry(source, thesis, size);
        let outcome = self.decide(home, &draft);
        assert_eq!(code_of(&outcome), None, "{:?}", outcome.answer.error);
        self.market(home, "6800");
        outcome.decision.order_id.unwrap().to_string()
    }

    /// Waits until changed rule files have settled and are in force.
    pub(crate) fn settle(&self, home: &mut Home) {
        for _ in 0..3 {
            self.pass_ms(1100);
            home.write_news().unwrap();
        }
    }

    /// Returns all ledger lines.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.root.join("audit"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        paths.sort();
        assert!(!paths.is_empty());
        let text: String = paths
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the hex form of every secret that must not leak.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let keys = SqliteKeyring::open(&self.root, false)
            .unwrap()
            .log_keys()
            .unwrap();
        let own = self.keys.values().map(|key| hex(&key.1));
        own.chain([hex(&keys.log_seed), hex(&keys.seal_seed)])
            .collect()
    }
}

pub(crate) fn strategy_of(source: &str) -> &str {
    source.strip_suffix("-bot").unwrap()
}

pub(crate) fn code_of(outcome: &Outcome) -> Option<Code> {
    outcome.answer.error.as_ref().map(|error| error.code)
}

/// Returns the message of a refusal.
pub(crate) fn message_of(outcome: &Outcome) -> &str {
    outcome
        .answer
        .error
        .as_ref()
        .map_or("", |error| &error.message)
}

/// Returns every path below `top`, without following links, with a hash of the file's bytes or the
/// kind of the entry.
pub(crate) fn walk(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let what = if kind.is_file() {
                fs::read(&path).map_or("unreadable".to_owned(), |bytes| sha256_hex(&bytes))
            } else if kind.is_dir() {
                "directory".to_owned()
            } else {
                "link or other".to_owned()
            };
            if kind.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, what);
        }
    }
    found
}
