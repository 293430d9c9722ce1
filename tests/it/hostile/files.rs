//! A thousand good, bad and hostile files: each ends with one answer and one ledger line, and
//! nothing else comes of them.

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
/// Spool directory and an agent that belongs to it.
const SPOOLS: [(&str, &str); 3] = [
    ("", "trend-bot"),
    ("alpha-dir", "alpha-bot"),
    ("beta-dir", "beta-bot"),
];

/// How a file ends.
#[derive(Clone, Debug, PartialEq)]
enum End {
    /// Answered under its request's id; none of these codes means success.
    ById(String, Vec<Option<Code>>),
    /// Answered under its file name, its bytes kept.
    Kept(Code),
    /// Answered under its file name, its signature having been good.
    ByFile(Code),
    /// Left alone.
    Ignored,
}

struct Case {
    spool: &'static str,
    name: Vec<u8>,
    end: End,
    /// What must be kept unchanged: regular files that nobody else can write.
    bytes: Option<Vec<u8>>,
    /// One of these must stand in the message besides the file name or id.
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

    /// A request of this spool's agent under an id of its own.
    fn draft(&mut self, what: &str, action: &str, payload: &str) -> Draft {
        let id = self.name(what);
        Draft {
            id,
            ..self.world.draft(self.agent, action, payload)
        }
    }

    /// Properly signed: answered by id.
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

    /// A good query whose text is then changed: refused without its signature counting.
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
        // The name of the file says nothing; only the id does.
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

    fn malformed_json(&mut self) {
        let code = Code::MalformedJson;
        self.broken("twice", code, "duplicate key `id`", |text| {
            text.replacen('{', r#"{"id":"a","#, 1)
        });
        self.broken("escaped", code, "duplicate key `id`", |text| {
            text.replacen('{', r#"{"\u0069d":"a","#, 1)
        });
        self.broken("inner", code, "duplicate key `a`", |text| {
            text.replace(r#""payload":{}"#, r#""payload":{"a":1,"\u0061":2}"#)
        });
        let deep = |n: usize| format!(r#"{{"id":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        self.raw("deep", code, "nested", deep(64).as_bytes());
        self.raw(
            "deeper",
            code,
            "nested",
            format!(r#"{{"id":{}"#, "[".repeat(60_000)).as_bytes(),
        );
        self.raw(
            "shallow",
            Code::MalformedEnvelope,
            "id",
            deep(63).as_bytes(),
        );
        self.raw("surrogate", code, "surrogate", br#"{"id":"\ud800"}"#);
        self.raw("surrogate2", code, "surrogate", br#"{"id":"\udc00\ud800"}"#);
        self.broken("bom", code, "byte order mark", |text| {
            format!("\u{feff}{text}")
        });
        self.raw("latin", code, "UTF-8", b"{\"id\":\"\xe9\"}");
        self.raw("nul", code, "control character", b"{\"id\":\"a\0b\"}");
        self.raw("nuls", code, "byte", &[0; 100]);
        self.broken("trailing", code, "after the document", |text| {
            format!("{text}{{}}")
        });
        self.broken("comma", code, "line 1", |text| text.replacen('}', ",}", 1));
        self.broken("array", code, "not an object", |text| format!("[{text}]"));
        self.raw("word", code, "not an object", b"null");
        self.raw("empty", code, "empty", b"");
        self.raw("blank", code, "empty", b" \n\t ");
        self.raw("brace", code, "too early", b"{");
        self.raw("number", code, "number", br#"{"id":01}"#);
        self.raw("infinite", code, "literal", br#"{"id":Infinity}"#);
        self.raw("comment", code, "line 1", br#"{/* */}"#);
        self.raw("escape", code, "escape", br#"{"id":"\x41"}"#);
    }

    fn malformed_envelope(&mut self) {
        let code = Code::MalformedEnvelope;
        for field in [
            "id",
            "timestamp",
            "action",
            "payload",
            "source",
            "signature",
        ] {
            let key = format!(r#""{field}":"#);
            self.broken(&format!("no{field}"), code, field, |text| {
                text.replace(&key, &format!(r#""x{field}":"#))
            });
            self.broken(&format!("null{field}"), code, "", |text| {
                swap_value(text, field, "null")
            });
            self.broken(&format!("num{field}"), code, "", |text| {
                swap_value(text, field, "1e999")
            });
            self.broken(&format!("arr{field}"), code, "", |text| {
                swap_value(text, field, "[]")
            });
        }
        for (n, id) in [
            "../../x",
            "x.error",
            "x.decision",
            "",
            ".x",
            "a b",
            "a/b",
            "a|b",
            "\\u0000",
            "é",
            &"y".repeat(129),
        ]
        .iter()
        .enumerate()
        {
            self.broken(&format!("id{n}"), code, "request id", |text| {
                swap_value(text, "id", &format!("\"{id}\""))
            });
        }
        for (n, time) in [
            "2026-02-21 12:00:00Z",
            "2026-02-21T12:00:00+00:00",
            "2026-13-01T00:00:00Z",
            "now",
            "",
        ]
        .iter()
        .enumerate()
        {
            self.broken(&format!("time{n}"), code, "time", |text| {
                swap_value(text, "timestamp", &format!("\"{time}\""))
            });
        }
        self.broken("source", code, "principal", |text| {
            swap_value(text, "source", r#""../owner""#)
        });
        self.broken("act", code, "action", |text| {
            swap_value(text, "action", r#""order|submit""#)
        });
        self.broken("extra", code, "unknown field `role`", |text| {
            text.replacen('{', r#"{"role":"human","#, 1)
        });
        let long = format!("\"{}\"", "a".repeat(50_000));
        self.broken("sig", code, "signature", |text| {
            swap_value(text, "signature", &long)
        });
        self.broken("key", code, "unknown field", |text| {
            text.replacen('{', &format!("{{\"{}\":1,", "k".repeat(50_000)), 1)
        });
    }

    fn malformed_payload(&mut self) {
        let code = [Some(Code::MalformedPayload)];
        let entry = self.world.entry(self.agent, 1, "0.002").payload;
        let with = |from: &str, to: &str| {
            assert!(entry.contains(from), "{from} in {entry}");
            entry.replace(from, to)
        };
        for (n, (payload, field)) in [
            (with(r#""size":"0.002","#, ""), "size"),
            (with(r#""size":"0.002""#, r#""size":null"#), "amount"),
            (with(r#""size":"0.002""#, r#""size":["0.002"]"#), "amount"),
            (with(r#""size":"0.002""#, r#""size":1e999"#), "amount"),
            (with(r#""size":"0.002""#, r#""size":1e-3"#), "amount"),
            (with(r#""size":"0.002""#, r#""size":"+0.002""#), "amount"),
            (with(r#""size":"0.002""#, r#""size":"0""#), "size"),
            (with(r#""size":"0.002""#, r#""size":-1"#), "size"),
            (
                with(
                    r#""size":"0.002""#,
                    r#""size":9999999999999999999999999999999999"#,
                ),
                "amount",
            ),
            (with(r#""side":"buy""#, r#""side":"BUY""#), "BUY"),
            (
                with(r#""side":"buy""#, r#""side":{"buy":null}"#),
                "expected a string",
            ),
            (
                with(
                    r#""order_type":"market""#,
                    r#""order_type":{"market":null}"#,
                ),
                "expected a string",
            ),
            (
                with(r#""stop_price":"6700""#, r#""stop_price":null"#),
                "amount",
            ),
            (
                with(r#""side":"buy""#, r#""side":"buy","override":true"#),
                "override",
            ),
            (with(r#""strategy":""#, r#""strategy":"../"#), "strategy"),
            (r#"{"order":{}}"#.to_owned(), "order"),
        ]
        .into_iter()
        .enumerate()
        {
            self.signed(&format!("bad{n}"), "order.submit", &payload, &code, field);
        }
        for (n, (action, payload, field)) in [
            ("portfolio.get", r#"{"all":true}"#, "all"),
            ("orders.list", r#"{"":null}"#, ""),
            ("fills.list", r#"{"since":"yesterday"}"#, "time"),
            ("market.get", r#"{"symbol":"BTC USD"}"#, "symbol"),
            ("halt.set", r#"{"reason":""}"#, "reason"),
            ("halt.set", r#"{"principal":null,"reason":"r"}"#, ""),
            ("order.cancel", r#"{"order_id":"o-01"}"#, "order id"),
            (
                "order.tighten_stop",
                r#"{"order_id":"o-1","new_stop":0}"#,
                "new_stop",
            ),
            (
                "keys.revoke",
                r#"{"key_id":"../../keyring","reason":"r"}"#,
                "key_id",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            self.signed(&format!("pay{n}"), action, payload, &code, field);
        }
        self.signed(
            "unknown",
            "rules.write",
            "{}",
            &[Some(Code::UnknownAction)],
            "rules.write",
        );
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
        // Somebody else's spool, with a good signature.
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
        // Too large for its action, with a good signature; and too large for anything.
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

    fn evil_names(&mut self) {
        let bad = End::Kept(Code::BadFileName);
        let round = self.round;
        let names: Vec<Vec<u8>> = [
            format!("a\nb{round}.json"),
            format!("-rf{round}.json"),
            "z".repeat(250 - round) + ".json",
            format!("é{round}.json"),
            format!("\u{202e}nosj.{round}"),
            format!("a b{round}.json"),
            format!("r{round}.JSON"),
            format!("no-ending-{round}"),
            format!("=0123456789abcd{round:02}"),
            format!("\x1b[31m{round}.json"),
            format!("a~{round}.json"),
            format!("{}.json", "n".repeat(129 + round)),
        ]
        .map(String::into_bytes)
        .into_iter()
        .chain([format!("\u{ff}{round}.json").into_bytes().split_off(1)])
        .collect();
        for name in names {
            let draft = self.draft("never", "orders.list", "{}");
            let bytes = self.world.sign(&draft);
            self.add(&name, bytes.as_bytes(), bad.clone(), "not a file name");
        }
        for name in [
            format!(".{round}.json"),
            format!("..{round}json"),
            format!("r{round}.json.tmp"),
        ] {
            self.add(name.as_bytes(), b"{}", End::Ignored, "");
        }
    }

    fn no_files(&mut self) {
        let end = End::Kept(Code::NotAFile);
        let secret = self.outside.join("secret.txt");
        for (what, target) in [
            ("link", secret.clone()),
            ("dangling", self.outside.join("nothing")),
            ("linkdir", self.outside.clone()),
            ("loop", PathBuf::from(format!("{}.json", self.name("loop")))),
            ("keyring", self.world.root.join("state/keyring.db")),
        ] {
            let name = format!("{}.json", self.name(what));
            symlink(target, self.world.inbox(self.spool, name.as_bytes())).unwrap();
            self.note(name.as_bytes(), None, end.clone(), "link");
        }
        let name = format!("{}.json", self.name("hard"));
        fs::hard_link(&secret, self.world.inbox(self.spool, name.as_bytes())).unwrap();
        self.note(
            name.as_bytes(),
            None,
            End::Kept(Code::LinkedFile),
            "hard links",
        );
        let name = format!("{}.json", self.name("fifo"));
        let path = self.world.inbox(self.spool, name.as_bytes());
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        self.note(name.as_bytes(), None, end.clone(), "FIFO");
        let name = format!("{}.json", self.name("sock"));
        // Paths of sockets are short, so it is bound elsewhere and moved in.
        let short = self.outside.join("s");
        let _socket = UnixListener::bind(&short).unwrap();
        fs::rename(&short, self.world.inbox(self.spool, name.as_bytes())).unwrap();
        self.note(name.as_bytes(), None, end.clone(), "socket");
        let name = format!("{}.json", self.name("dir"));
        let path = self.world.inbox(self.spool, name.as_bytes());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside.json"), "{}").unwrap();
        self.note(name.as_bytes(), None, end, "directory");
        if rustix::process::geteuid().is_root() {
            println!("skipped for root: a file the gate may not read");
        } else {
            use std::os::unix::fs::PermissionsExt;
            self.raw("closed", Code::Unreadable, "read", b"{}");
            let name = format!("{}.json", self.name("closed"));
            let path = self.world.inbox(self.spool, name.as_bytes());
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            self.cases.last_mut().unwrap().bytes = None;
        }
    }

    fn about_the_victim(&mut self, victim: &Draft) {
        // A replay under another name, then others who want the same id.
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
        // The test's disk rewrites the one after its claim and swaps the other before.
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

/// The envelope with another signature.
fn forge(text: &str, signature: &str) -> String {
    swap_value(text, "signature", &format!("\"{signature}\""))
}

/// The envelope with another value of this field, whose value holds no comma.
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

/// Rewrites `rewritten-*` in place after its claim, and puts another file in the place of
/// `swapped-*` between its reading and its claim.
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

/// One answer in the right place that says what to do.
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

#[test]
fn a_thousand_files() {
    let place = std::sync::Arc::new(std::sync::OnceLock::new());
    let mut world = World::with_disk(11, meddling(place.clone()));
    place.set(world.root.clone()).unwrap();
    let outside = world.root.join("../outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), CANARY).unwrap();
    let mut home = world.open();

    // Answers that nobody may touch.
    let mut victims = Vec::new();
    for (spool, agent) in SPOOLS {
        let victim = world.draft(agent, "orders.list", "{}");
        world.decide(&mut home, &victim);
        let path = world.answer_path(spool, &format!("{}.json", victim.id));
        victims.push((victim, fs::read(&path).unwrap(), path));
    }
    // A replay carries the very timestamp, so the clock must not move before these are signed
    // again.
    let before = walk(&world.root);
    let outside_before = walk(&outside);

    let mut cases = Vec::new();
    for round in 0..3 {
        for ((spool, agent), (victim, _, _)) in SPOOLS.into_iter().zip(&victims) {
            let outside = outside.clone();
            let mut batch = Cases {
                world: &mut world,
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
    assert!(cases.len() >= 1000, "{}", cases.len());
    let outside_at_drop = walk(&outside);
    let outcomes = world.drain(&mut home);
    home.finish("the test ended").unwrap();
    drop(home);

    // One decision a file.
    let mut by_file: BTreeMap<(String, String), Vec<&Outcome>> = BTreeMap::new();
    for outcome in &outcomes {
        let key = (
            outcome.decision.spool.clone(),
            outcome.decision.file.clone(),
        );
        by_file.entry(key).or_default().push(outcome);
    }
    let ledger = world.ledger();
    let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in ledger.iter().filter(|line| line["kind"] == "decision") {
        *lines
            .entry((
                line["spool"].as_str().unwrap(),
                line["file"].as_str().unwrap(),
            ))
            .or_default() += 1;
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
        assert!(
            fs::symlink_metadata(&path).is_err(),
            "{} is still there",
            file.shown
        );
        let found = by_file.get(&(spool.clone(), file.known_as.clone()));
        let Some([outcome]) = found.map(|found| &found[..]) else {
            panic!("{}: {found:?}", file.shown)
        };
        assert_eq!(
            lines.get(&(&*spool, &*file.known_as)),
            Some(&1),
            "{}",
            file.shown
        );
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

    // Nothing came to be anywhere else, nothing outside changed.
    for (path, what) in walk(&world.root) {
        let below = path.strip_prefix(&world.root).unwrap();
        let is_ours = ["spool/out", "spool/rejected", "audit", "state"]
            .iter()
            .any(|top| below.starts_with(top));
        if below.starts_with("spool/out") && what.len() == 64 {
            assert!(
                before.contains_key(&path) || expected_paths.contains(&path),
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
    let mut outside_after = walk(&outside);
    let swapped = outside_at_drop.len() - outside_after.len();
    assert_eq!(
        swapped, 9,
        "the swapped files were moved in by the test itself"
    );
    outside_after.retain(|path, _| outside_before.contains_key(path));
    assert_eq!(outside_after, outside_before);
    for (victim, answer, path) in &victims {
        assert_eq!(
            &fs::read(path).unwrap(),
            answer,
            "the answer of {}",
            victim.id
        );
    }
    no_secrets(&world, &outside);
}

/// Neither the canary nor any key stands in what the gate wrote.
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
