//! A thousand good, bad and hostile files: each ends with one answer and one ledger line, and has
//! no other effect.

mod malformed;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use spoolgate_home::batch::Outcome;
use spoolgate_host::spool::name::FileName;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use crate::kit::world::{Draft, Meddle, World, code_of, message_of, walk};

const CANARY: &str = "canary-7f3a91c2-of-a-file-outside";
/// Spool directory, and an agent that belongs to it.
const SPOOLS: [(&str, &str); 3] = [
    ("", "trend-bot"),
    ("alpha-dir", "alpha-bot"),
    ("beta-dir", "beta-bot"),
];

/// What happens to a file.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// Answered under its request's id with one of these codes; `None` is success.
    ById(String, Vec<Option<Code>>),
    /// Answered under its file name, and its bytes are kept.
    Kept(Code),
    /// Answered under its file name, because its signature was good.
    ByFile(Code),
    /// Left alone.
    Ignored,
}

struct Case {
    spool: &'static str,
    name: Vec<u8>,
    end: End,
    /// The bytes that must be kept unchanged, for regular files that nobody else can write.
    bytes: Option<Vec<u8>>,
    /// A text that the message must contain besides the file name or id.
    field: &'static str,
}

struct Cases<'a> {
    world: &'a mut World,
    cases: Vec<Case>,
    spool: &'static str,
    agent: &'static str,
    round: usize,
    outside: PathBuf,
}

impl Cases<'_> {
    fn name(&self, what: &str) -> String {
        format!(
            "{what}-{}{}",
            self.spool.split('-').next().unwrap(),
            self.round
        )
    }

    fn add(&mut self, name: &[u8], bytes: &[u8], end: End, field: &'static str) {
        fs::write(self.world.inbox(self.spool, name), bytes).unwrap();
        self.note(name, Some(bytes.to_vec()), end, field);
    }

    fn note(&mut self, name: &[u8], bytes: Option<Vec<u8>>, end: End, field: &'static str) {
        self.cases.push(Case {
            spool: self.spool,
            name: name.to_vec(),
            end,
            bytes,
            field,
        });
    }

    /// Makes a request of this spool's agent with an id of its own.
    fn draft(&mut self, what: &str, action: &str, payload: &str) -> Draft {
        let id = self.name(what);
        Draft {
            id,
            ..self.world.draft(self.agent, action, payload)
        }
    }

    /// Adds a properly signed request, which is answered by id.
    fn signed(
        &mut self,
        what: &str,
        action: &str,
        payload: &str,
        codes: &[Option<Code>],
        field: &'static str,
    ) {
        let draft = self.draft(what, action, payload);
        self.signed_draft(&draft, codes, field);
    }

    fn signed_draft(&mut self, draft: &Draft, codes: &[Option<Code>], field: &'static str) {
        let bytes = self.world.sign(draft);
        let end = End::ById(draft.id.clone(), codes.to_vec());
        self.add(
            format!("{}.json", draft.id).as_bytes(),
            bytes.as_bytes(),
            end,
            field,
        );
    }

    /// Adds a good query whose text is then changed: it is refused before its signature counts.
    fn broken(
        &mut self,
        what: &str,
        code: Code,
        field: &'static str,
        change: impl Fn(&str) -> String,
    ) {
        let draft = self.draft(what, "orders.list", "{}");
        let bytes = change(&self.world.sign(&draft));
        self.add(
            format!("{}.json", draft.id).as_bytes(),
            bytes.as_bytes(),
            End::Kept(code),
            field,
        );
    }

    fn raw(&mut self, what: &str, code: Code, field: &'static str, bytes: &[u8]) {
        let name = format!("{}.json", self.name(what));
        self.add(name.as_bytes(), bytes, End::Kept(code), field);
    }

    fn good(&mut self) {
        let ok = [None];
        let decided = [None, Some(Code::ChecksFailed)];
        self.signed("portfolio", "portfolio.get", "{}", &ok, "");
        self.signed("orders", "orders.list", "{}", &ok, "");
        self.signed(
            "fills",
            "fills.list",
            r#"{"since":"2026-02-20T00:00:00Z"}"#,
            &ok,
            "",
        );
        self.signed("market", "market.get", r#"{"symbol":"BTC-USD"}"#, &ok, "");
        self.signed("halt", "halt.set", r#"{"reason":"careful"}"#, &ok, "");
        self.signed(
            "cancel",
            "order.cancel",
            r#"{"order_id":"o-999999"}"#,
            &decided,
            "check",
        );
        let tighten = r#"{"order_id":"o-999999","new_stop":6750}"#;
        self.signed("tighten", "order.tighten_stop", tighten, &decided, "check");
        let entry = self.world.entry(self.agent, 0, "0.002");
        self.signed("entry", "order.submit", &entry.payload, &decided, "check");
        let long = format!(
            "{}{}",
            self.name("long"),
            "x".repeat(128 - self.name("long").len())
        );
        let draft = Draft {
            id: long,
            ..self.draft("", "orders.list", "{}")
        };
        self.signed_draft(&draft, &ok, "");
        // The name of the file does not matter, only the id does.
        for name in ["{}.error.json", "{}.json.json", "{}.tmp.json"] {
            let draft = self.draft(&name[2..5].replace('.', "n"), "orders.list", "{}");
            let bytes = self.world.sign(&draft);
            let end = End::ById(draft.id.clone(), vec![None]);
            let name = name.replace("{}", &self.name("named"));
            self.add(name.as_bytes(), bytes.as_bytes(), end, "");
        }
        let draft = self.draft("spaced", "orders.list", "{}");
        let spaced = self
            .world
            .sign(&draft)
            .replace(r#","payload":"#, ",\n\t\"payload\" : ");
        let end = End::ById(draft.id.clone(), vec![None]);
        self.add(
            format!("{}.json", draft.id).as_bytes(),
            spaced.as_bytes(),
            end,
            "",
        );
    }

    fn unsigned(&mut self) {
        let code = Code::SignatureInvalid;
        self.broken("forged", code, "signature", |text| {
            forge(text, &"0".repeat(64))
        });
        self.broken("short", code, "signature", |text| forge(text, "ab"));
        self.broken("upper", code, "signature", |text| {
            let signature = text.rsplit('"').nth(1).unwrap().to_uppercase();
            forge(text, &signature)
        });
        self.broken("ed", code, "signature", |text| forge(text, "ed25519:AAAA"));
        self.broken("action", code, "signature", |text| {
            text.replace("orders.list", "portfolio.get")
        });
        self.broken("moved", code, "signature", |text| {
            text.replace(r#""payload":{}"#, r#""payload":{"a":1}"#)
        });
        self.broken("id", code, "signature", |text| {
            text.replacen(r#""id":""#, r#""id":"x"#, 1)
        });
        self.broken("stranger", code, "signature", |text| {
            text.replace("-bot", "-bat")
        });
        self.broken("keyless", code, "signature", |text| {
            ["trend-bot", "alpha-bot", "beta-bot"]
                .iter()
                .fold(text.to_owned(), |t, n| t.replace(n, "keyless-bot"))
        });
        self.broken("someone", code, "signature", |text| {
            ["trend-bot", "alpha-bot", "beta-bot"]
                .iter()
                .fold(text.to_owned(), |t, n| t.replace(n, "owner"))
        });
    }

    fn not_now_not_you(&mut self) {
        let denied = [Some(Code::NotPermitted)];
        self.signed(
            "clear",
            "halt.clear",
            r#"{"scope":"all","reason":"r"}"#,
            &denied,
            "halt.clear",
        );
        self.signed(
            "money",
            "account.adjust",
            r#"{"amount":1,"reason":"r"}"#,
            &denied,
            "account.adjust",
        );
        self.signed(
            "others",
            "halt.set",
            r#"{"principal":"owner","reason":"r"}"#,
            &denied,
            "owner",
        );
        let stale = [Some(Code::TimestampStale)];
        for (what, at_ms) in [("old", -301_000), ("ahead", 40_000)] {
            let draft = Draft {
                at_ms,
                ..self.draft(what, "orders.list", "{}")
            };
            self.signed_draft(&draft, &stale, "clock");
            let entry = self.world.entry(self.agent, 1, "0.002").payload;
            let what = format!("entry{what}");
            let draft = Draft {
                at_ms,
                ..self.draft(&what, "order.submit", &entry)
            };
            self.signed_draft(&draft, &stale, "request_freshness");
        }
        // Another agent's spool, with a good signature.
        let stranger = if self.spool == "alpha-dir" {
            "beta-bot"
        } else {
            "alpha-bot"
        };
        let draft = Draft {
            source: stranger.to_owned(),
            ..self.draft("lost", "orders.list", "{}")
        };
        let bytes = self.world.sign(&draft);
        let name = format!("{}.json", draft.id);
        self.add(
            name.as_bytes(),
            bytes.as_bytes(),
            End::ByFile(Code::WrongSpool),
            stranger_field(stranger),
        );
        // Too large for its action, with a good signature; and too large for any action.
        let draft = self.draft("fat", "orders.list", "{}");
        let mut bytes = self.world.sign(&draft);
        bytes += &" ".repeat(64 * 1024 + 1 - bytes.len());
        let end = End::ById(draft.id.clone(), vec![Some(Code::TooLarge)]);
        self.add(
            format!("{}.json", draft.id).as_bytes(),
            bytes.as_bytes(),
            end,
            "65537",
        );
        let draft = self.draft("full", "orders.list", "{}");
        let mut bytes = self.world.sign(&draft);
        bytes += &" ".repeat(64 * 1024 - bytes.len());
        let end = End::ById(draft.id.clone(), vec![None]);
        self.add(
            format!("{}.json", draft.id).as_bytes(),
            bytes.as_bytes(),
            end,
            "",
        );
        if self.round == 0 {
            self.raw("huge", Code::TooLarge, "10000000", &vec![b' '; 10_000_001]);
        }
    }

    fn about_the_victim(&mut self, victim: &Draft) {
        // A replay under another name, then other senders that want the same id.
        let replay = self.world.sign(victim);
        let name = format!("{}.json", self.name("replay"));
        self.add(
            name.as_bytes(),
            replay.as_bytes(),
            End::ById(victim.id.clone(), vec![None]),
            "",
        );
        let other = Draft {
            payload: r#"{"x":1}"#.to_owned(),
            ..victim.clone()
        };
        let bytes = self.world.sign(&other);
        let name = format!("{}.json", self.name("conflict"));
        self.add(
            name.as_bytes(),
            bytes.as_bytes(),
            End::ByFile(Code::RequestIdConflict),
            "was already used",
        );
        let forged = forge(&self.world.sign(victim), &"1".repeat(64));
        let name = format!("{}.json", self.name("forgery"));
        self.add(
            name.as_bytes(),
            forged.as_bytes(),
            End::Kept(Code::SignatureInvalid),
            "signature",
        );
        if self.spool.is_empty() {
            let other = Draft {
                source: "other-bot".to_owned(),
                ..victim.clone()
            };
            let bytes = self.world.sign(&other);
            let name = format!("{}.json", self.name("thief"));
            let end = End::ByFile(Code::RequestIdConflict);
            self.add(name.as_bytes(), bytes.as_bytes(), end, "was already used");
        }
    }

    fn changing(&mut self) {
        // The test's disk rewrites one file after its claim, and swaps the other before.
        let draft = self.draft("rewritten", "orders.list", "{}");
        self.signed_draft(&draft, &[None], "");
        let draft = self.draft("swapped", "orders.list", "{}");
        self.signed_draft(&draft, &[None], "");
        let name = format!("{}.json", draft.id);
        let elsewhere = self
            .world
            .root
            .join("../outside")
            .join(format!("{}{name}", self.spool));
        let other = Draft {
            id: format!("{}-other", draft.id),
            ..draft
        };
        fs::write(elsewhere, self.world.sign(&other)).unwrap();
        self.cases.last_mut().unwrap().end = End::ById(other.id, vec![None]);
    }
}

fn stranger_field(stranger: &str) -> &'static str {
    if stranger == "beta-bot" {
        "beta-bot"
    } else {
        "alpha-bot"
    }
}

/// Replaces the signature of an envelope.
fn forge(text: &str, signature: &str) -> String {
    swap_value(text, "signature", &format!("\"{signature}\""))
}

/// Replaces the value of this field in an envelope; the value must not contain a comma.
fn swap_value(text: &str, field: &str, value: &str) -> String {
    let start = text.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
    let length = text[start..].find([',', '}']).unwrap();
    let length = if text[start..].starts_with("{}") {
        2
    } else {
        length
    };
    format!("{}{value}{}", &text[..start], &text[start + length..])
}

/// Rewrites `rewritten-*` in place after its claim, and replaces `swapped-*` between its reading
/// and its claim.
fn meddling(root: std::sync::Arc<std::sync::OnceLock<PathBuf>>) -> Meddle {
    Box::new(
        move |verb: &str, from: &Path, to: Option<&Path>, is_after: bool| {
            let (root, to) = (root.get()?, to?);
            let name = from.file_name()?.to_str()?;
            if verb == "rename_new" && from.starts_with("spool/in") {
                if is_after && name.starts_with("rewritten-") {
                    fs::write(root.join(to), r#"{"id":"evil"}"#).unwrap();
                }
                if !is_after && name.starts_with("swapped-") {
                    let spool = from
                        .strip_prefix("spool/in")
                        .unwrap()
                        .components()
                        .next()
                        .unwrap();
                    let spool = spool
                        .as_os_str()
                        .to_str()
                        .filter(|part| *part != name)
                        .unwrap_or("");
                    let other = root.join("../outside").join(format!("{spool}{name}"));
                    let _ = fs::rename(other, root.join(from));
                }
            }
            None
        },
    )
}

fn answer_name(case: &Case) -> String {
    match &case.end {
        End::ById(id, _) => format!("{id}.json"),
        _ => {
            let file = FileName::of(OsStr::from_bytes(&case.name));
            format!("{}.error.json", file.known_as.trim_start_matches('='))
        }
    }
}

/// Checks that there is one answer in the right place, which says what to do.
fn check_answer(world: &World, case: &Case, outcome: &Outcome, wrong: &mut Vec<String>) {
    let shown = FileName::of(OsStr::from_bytes(&case.name)).shown;
    let expect = world.answer_path(case.spool, &answer_name(case));
    let told = format!("{shown} in `{}`: {:?}", case.spool, outcome.answer);
    let mut note = |is_right: bool, what: &str, told: &str| {
        if !is_right {
            wrong.push(format!("{what}: {told}"));
        }
    };
    note(
        world.root.join("spool").join(&outcome.decision.answer) == expect,
        "place",
        &told,
    );
    let code = code_of(outcome);
    match &case.end {
        End::ById(_, codes) => note(codes.contains(&code), "code", &told),
        End::Kept(expect) | End::ByFile(expect) => note(code == Some(*expect), "code", &told),
        End::Ignored => panic!("{told}"),
    }
    note(expect.is_file(), "answered", &told);
    if let Some(code) = code {
        let message = message_of(outcome);
        note(message.ends_with(code.remedy()), "remedy", &told);
        note(message.contains(case.field), case.field, &told);
        let names_it = message.contains(&shown)
            || outcome.answer.request_id.len() > 3
            || message.contains(&outcome.decision.file);
        note(names_it, "names nothing", &told);
        if matches!(case.end, End::Kept(_) | End::ByFile(_)) {
            note(message.contains(&shown), "names no file", &told);
        }
        note(
            !message.contains(['\n', '\x1b', '\0']),
            "control characters",
            &told,
        );
    }
    let kept = outcome
        .decision
        .kept
        .as_ref()
        .map(|kept| world.root.join("spool").join(kept));
    note(
        kept.is_some() == matches!(case.end, End::Kept(_)),
        "kept",
        &told,
    );
    if let (Some(kept), Some(bytes)) = (kept, &case.bytes) {
        note(&fs::read(kept).unwrap() == bytes, "kept unchanged", &told);
    }
}

/// Sends files of every kind through every spool, in three rounds.
fn every_case(
    world: &mut World,
    victims: &[(Draft, Vec<u8>, PathBuf)],
    outside: &Path,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for round in 0..3 {
        for ((spool, agent), (victim, _, _)) in SPOOLS.into_iter().zip(victims) {
            let outside = outside.to_owned();
            let mut batch = Cases {
                world,
                cases,
                spool,
                agent,
                round,
                outside,
            };
            batch.good();
            batch.unsigned();
            batch.malformed_json();
            batch.malformed_envelope();
            batch.malformed_payload();
            batch.not_now_not_you();
            batch.evil_names();
            batch.no_files();
            batch.about_the_victim(victim);
            batch.changing();
            cases = batch.cases;
        }
    }
    cases
}

#[test]
fn a_thousand_files() {
    let place = std::sync::Arc::new(std::sync::OnceLock::new());
    let mut world = World::with_disk(11, meddling(place.clone()));
    place.set(world.root.clone()).unwrap();
    let outside = world.root.join("../outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), CANARY).unwrap();
    let mut home = world.open();

    // These answers must not be touched.
    let mut victims = Vec::new();
    for (spool, agent) in SPOOLS {
        let victim = world.draft(agent, "orders.list", "{}");
        world.decide(&mut home, &victim);
        let path = world.answer_path(spool, &format!("{}.json", victim.id));
        victims.push((victim, fs::read(&path).unwrap(), path));
    }
    // A replay has the same timestamp, so the clock must not move before the requests are signed
    // again.
    let before = walk(&world.root);
    let outside_before = walk(&outside);

    let cases = every_case(&mut world, &victims, &outside);
    assert!(cases.len() >= 1000, "{}", cases.len());
    let outside_at_drop = walk(&outside);
    let outcomes = world.drain(&mut home);
    home.finish("the test ended").unwrap();
    drop(home);

    // One decision per file.
    let mut by_file: BTreeMap<(String, String), Vec<&Outcome>> = BTreeMap::new();
    for outcome in &outcomes {
        let decision = &outcome.decision;
        let key = (decision.spool.clone(), decision.file.clone());
        by_file.entry(key).or_default().push(outcome);
    }
    let ledger = world.ledger();
    let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in ledger.iter().filter(|line| line["kind"] == "decision") {
        let key = ["spool", "file"].map(|name| line[name].as_str().unwrap());
        *lines.entry(key.into()).or_default() += 1;
    }
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let mut expected_paths = BTreeSet::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let file = FileName::of(OsStr::from_bytes(&case.name));
        let spool = if case.spool.is_empty() {
            "flat".to_owned()
        } else {
            format!("agent-{}", case.spool)
        };
        let path = world.inbox(case.spool, &case.name);
        if case.end == End::Ignored {
            assert!(
                path.exists() && !lines.contains_key(&(&*spool, &*file.known_as)),
                "{}",
                file.shown
            );
            continue;
        }
        let is_gone = fs::symlink_metadata(&path).is_err();
        assert!(is_gone, "{} is still there", file.shown);
        let found = by_file.get(&(spool.clone(), file.known_as.clone()));
        let Some([outcome]) = found.map(|found| &found[..]) else {
            panic!("{}: {found:?}", file.shown)
        };
        let count = lines.get(&(&*spool, &*file.known_as));
        assert_eq!(count, Some(&1), "{}", file.shown);
        check_answer(&world, case, outcome, &mut wrong);
        if case.name.starts_with(b"rewritten-") {
            let sha256 = sha256_hex(case.bytes.as_ref().unwrap());
            assert_eq!(
                outcome.decision.file_sha256.as_ref(),
                Some(&sha256),
                "decided on what was read"
            );
        }
        let code = code_of(outcome).map_or("success".to_owned(), |code| code.to_string());
        *codes.entry(code).or_default() += 1;
        expected_paths.insert(world.answer_path(case.spool, &answer_name(case)));
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    let decided: usize = codes.values().sum();
    assert_eq!(decided, outcomes.len());
    println!("{} files, {decided} decided: {codes:?}", cases.len());

    nothing_else_changed(&world, &before, &expected_paths);
    let mut outside_after = walk(&outside);
    let swapped = outside_at_drop.len() - outside_after.len();
    assert_eq!(
        swapped, 9,
        "the swapped files were moved in by the test itself"
    );
    outside_after.retain(|path, _| outside_before.contains_key(path));
    assert_eq!(outside_after, outside_before);
    for (victim, answer, path) in &victims {
        let now = fs::read(path).unwrap();
        assert_eq!(&now, answer, "the answer of {}", victim.id);
    }
    no_secrets(&world, &outside);
}

/// Checks that the gate wrote only where it may and answered only at the expected paths.
fn nothing_else_changed(
    world: &World,
    before: &BTreeMap<PathBuf, String>,
    expected: &BTreeSet<PathBuf>,
) {
    for (path, what) in walk(&world.root) {
        let below = path.strip_prefix(&world.root).unwrap();
        let is_ours = ["spool/out", "spool/rejected", "audit", "state"]
            .iter()
            .any(|top| below.starts_with(top));
        if below.starts_with("spool/out") && what.len() == 64 {
            assert!(
                before.contains_key(&path) || expected.contains(&path),
                "{below:?} answers nothing"
            );
        }
        let ignored = below.starts_with("spool/in");
        assert!(
            is_ours || ignored || before.get(&path) == Some(&what),
            "{below:?} is new or changed"
        );
    }
    assert!(
        fs::read_dir(world.root.join("spool/work"))
            .unwrap()
            .next()
            .is_none()
    );
}

/// Checks that the gate wrote neither the canary nor any key.
fn no_secrets(world: &World, outside: &Path) {
    let secrets = world.secrets();
    let canary_sha256 = sha256_hex(CANARY.as_bytes());
    let mut looked_at = 0;
    for (path, what) in walk(&world.root) {
        let below = path.strip_prefix(&world.root).unwrap();
        if below.starts_with("state") || below.starts_with("rules") || what.len() != 64 {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let has = |needle: &str| {
            bytes
                .windows(needle.len())
                .any(|window| window == needle.as_bytes())
        };
        if bytes.len() > 1_000_000 && !below.starts_with("audit") {
            continue;
        }
        looked_at += 1;
        for secret in &secrets {
            assert!(!has(secret), "{below:?} holds a key");
        }
        // A hard link is the file itself: it is moved to the gate's own folder, unread.
        let is_hard_link = below.starts_with("spool/rejected") && what == canary_sha256;
        assert!(is_hard_link || !has(CANARY), "{below:?} holds the canary");
        assert!(!has(&canary_sha256), "{below:?} holds a hash of the canary");
    }
    assert!(looked_at > 1000 && outside.join("secret.txt").exists());
}
