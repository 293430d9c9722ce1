//! Names and texts that target terminals, shells and paths, against the program itself: nothing
//! that it prints or writes contains control characters, whatever senders write into file names and
//! texts.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::attacks::siege::Siege;
use crate::kit::world::{Draft, code_of, walk};
use crate::kit::{Scratch, Sent, check_home, decisions, show, spoolgate};
use spoolgate_wire::code::Code;

/// Returns the position of a byte that a terminal may obey: C0 except for the line feed, DEL, and
/// the C1 controls of UTF-8.
fn control(bytes: &[u8]) -> Option<usize> {
    let raw = bytes
        .iter()
        .position(|byte| matches!(byte, 0..=9 | 11..=31 | 127));
    raw.or_else(|| {
        bytes
            .windows(2)
            .position(|pair| pair[0] == 0xc2 && (0x80..=0x9f).contains(&pair[1]))
    })
}

#[track_caller]
fn harmless(what: &str, bytes: &[u8]) {
    if let Some(at) = control(bytes) {
        let around = &bytes[at.saturating_sub(40)..bytes.len().min(at + 40)];
        panic!(
            "{what}: a control character at {at}: {:?}",
            String::from_utf8_lossy(around)
        );
    }
    for turning in ['\u{202e}', '\u{2066}'] {
        assert!(
            !String::from_utf8_lossy(bytes).contains(turning),
            "{what} turns the direction of writing"
        );
    }
}

fn evil_names() -> Vec<OsString> {
    let mut names: Vec<Vec<u8>> = [
        "..json",
        "...",
        "..;json",
        "-rf",
        "--help.json",
        "~root.json",
        "$(touch x).json",
        "`touch x`.json",
        "a;rm -rf x.json",
        "*.json",
        "a\nb.json",
        "a\r\nb.json",
        "a\tb.json",
        "\u{1b}[2J\u{1b}[31mred.json",
        "\u{1b}]0;title\u{7}.json",
        "\u{9b}31m.json",
        "\u{7f}.json",
        "\u{202e}nosj.r1.json",
        "\u{2066}r1.json",
        // Look-alikes: Cyrillic, full width, a zero-width joiner, a combining mark.
        "аdmin.json",
        "ｒ１.json",
        "r\u{200d}1.json",
        "e\u{301}.json",
        "r1.json ",
        "r1.jsоn",
        "{\"id\":1}.json",
        "\"quoted\".json",
        "\\u0000.json",
        "%2e%2e%2fx.json",
        "C:\\x.json",
        "NUL",
    ]
    .iter()
    .map(|name| name.as_bytes().to_vec())
    .collect();
    names.push([&[b'n'; 250][..], b".json"].concat());
    names.push([&[0xff, 0xfe], &b"\x1b[31m.json"[..]].concat());
    names.push([&b"r1"[..], &[0xc0, 0xaf], b".json"].concat());
    names.push((1..=31).chain([127]).collect());
    // Names that begin with a dot or end in .tmp are left alone by rule.
    names
        .into_iter()
        .filter(|name| !name.starts_with(b"."))
        .map(OsString::from_vec)
        .collect()
}

/// Returns files with hostile names, and files that contain every text that a sender chooses, in
/// every escape that JSON has.
fn evil_files(scratch: &Scratch) -> Vec<Sent> {
    let mut sent = Vec::new();
    for (n, name) in evil_names().into_iter().enumerate() {
        // Half of them contain a good request, but the name still makes them invalid.
        let bytes = if n % 2 == 0 {
            scratch.request(&format!("never-{n}"), "portfolio.get", "{}")
        } else {
            b"\x1b[31m{".to_vec()
        };
        sent.push(Sent { name, bytes });
    }
    let nasty = r"\u0000\u001b[2J\u009b31m\r\n\u202e\u2066 end";
    let escaped = |id: &str, action: &str, payload: &str| {
        Sent::new(
            &format!("{id}.json"),
            scratch.request(id, action, &payload.replace('@', nasty)),
        )
    };
    sent.push(escaped("halt", "halt.set", r#"{"reason":"@"}"#));
    sent.push(escaped("symbol", "market.get", r#"{"symbol":"@"}"#));
    sent.push(escaped("key", "market.get", r#"{"@":"BTC-USD"}"#));
    sent.push(escaped("order", "order.cancel", r#"{"order_id":"@"}"#));
    let raw = String::from_utf8(scratch.request("raw", "portfolio.get", "{}")).unwrap();
    for field in ["id", "action", "source", "timestamp", "signature"] {
        let marker = format!(r#""{field}":""#);
        let text = raw.replace(&marker, &format!("{marker}{nasty}"));
        sent.push(Sent::new(&format!("raw-{field}.json"), text.into_bytes()));
    }
    sent.push(Sent::new(
        "c1.json",
        "{\"\u{9b}31m\u{202e}\":1}".as_bytes().to_vec(),
    ));
    sent
}

#[test]
fn nothing_printed_or_logged_obeys_a_sender() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let sent = evil_files(&scratch);
    let ignored = [".", "..", "…"].map(|stem| format!(".{stem}json"));
    for name in &ignored {
        fs::write(home.join("spool/in").join(name), "{}").unwrap();
    }
    for file in &sent {
        fs::write(home.join("spool/in").join(&file.name), &file.bytes).unwrap();
    }

    let before = walk(&scratch.home().join(".."));
    for args in [
        &["run", "--until-idle"][..],
        &["--format", "json", "run", "--until-idle"],
    ] {
        let done = spoolgate(&home, args);
        assert!(done.status.success(), "{}", show(&done));
        harmless("standard output of run", &done.stdout);
        harmless("standard error of run", &done.stderr);
    }
    for args in [
        &["audit", "tail", "-n", "500"][..],
        &["--format", "json", "audit", "tail", "-n", "500"],
        &["portfolio"],
        &["--format", "json", "portfolio"],
        &["audit", "verify"],
        &["orders"],
        &["keys", "list"],
    ] {
        let done = spoolgate(&home, args);
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        harmless(&format!("{args:?}"), &done.stdout);
        harmless(&format!("{args:?}"), &done.stderr);
    }
    for seq in decisions(&home).unwrap().keys() {
        for format in ["table", "json"] {
            let done = spoolgate(
                &home,
                &["--format", format, "audit", "show", &seq.to_string()],
            );
            assert!(done.status.success(), "{}", show(&done));
            harmless(&format!("audit show {seq}"), &done.stdout);
        }
    }
    for path in walk(&home.join("spool")).into_keys() {
        let below = path.strip_prefix(&home).unwrap();
        let is_left = below.starts_with("spool/in");
        assert!(
            is_left || control(path.as_os_str().as_bytes()).is_none(),
            "{below:?}"
        );
        if below.starts_with("spool/out") && path.is_file() {
            harmless("an answer", &fs::read(&path).unwrap());
        }
    }
    // The ledger keeps the text as JSON: C0 controls are escaped, so it still consists of lines.
    for line in fs::read(home.join("audit/log-00000001.jsonl"))
        .unwrap()
        .split(|byte| *byte == b'\n')
    {
        assert!(
            line.iter().all(|byte| *byte >= 32),
            "{:?}",
            String::from_utf8_lossy(line)
        );
    }
    // No name reached a shell or a path: nothing is new outside the folders that the gate writes.
    for path in walk(&scratch.home().join("..")).into_keys() {
        let below = path
            .to_string_lossy()
            .split_once("/../")
            .unwrap()
            .1
            .to_owned();
        let is_gates = ["home/spool/", "home/audit/", "home/state/"]
            .iter()
            .any(|top| below.starts_with(top));
        assert!(is_gates || before.contains_key(&path), "{below} is new");
    }
    for name in ignored {
        assert!(
            home.join("spool/in").join(&name).exists(),
            "{name} is left alone by rule"
        );
        fs::remove_file(home.join("spool/in").join(name)).unwrap();
    }
    check_home(&home, &sent).unwrap_or_else(|error| panic!("{error}"));
}

/// Ids are never paths: exactly one answer appears, under the file's own name.
#[test]
fn ids_as_paths() {
    let mut siege = Siege::new(121);
    let mut home = siege.world.open();
    let ids = [
        "../../x",
        "/etc/passwd",
        "a/b",
        "..",
        ".",
        "a/../b",
        "../out/alpha-dir/x",
        "./x",
        "x/",
        "\\u0000",
        "x\\u0000.json",
        "..\\\\x",
        "\\u002e\\u002e\\u002fx",
        ".hidden",
        "x.error",
        "~x",
        "x\\ny",
        "-rf x",
    ];
    let mut cases = Vec::new();
    for (spool, agent) in [("", "trend-bot"), ("alpha-dir", "alpha-bot")] {
        for (n, id) in ids.into_iter().enumerate() {
            let draft = Draft {
                id: id.to_owned(),
                ..siege.world.draft(agent, "orders.list", "{}")
            };
            let name = format!("path-{n}.json");
            siege
                .world
                .drop_file(spool, &name, siege.world.sign(&draft));
            cases.push((spool, name));
        }
    }
    let before = walk(&siege.world.root);
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(outcomes.len(), cases.len());
    assert!(
        outcomes
            .iter()
            .all(|outcome| code_of(outcome) == Some(Code::MalformedEnvelope))
    );
    for (spool, name) in &cases {
        siege.one_each(&[(spool, name.as_bytes(), Some(Code::MalformedEnvelope))]);
    }
    for path in walk(&siege.world.root)
        .into_keys()
        .filter(|path| !before.contains_key(path))
    {
        let below = path.strip_prefix(&siege.world.root).unwrap();
        let name = below.file_name().unwrap().to_string_lossy().into_owned();
        let is_answer = below.starts_with("spool/out") && name.starts_with("path-");
        let is_kept =
            below.parent() == Some(Path::new("spool/rejected")) && name.contains("~path-");
        let is_gates = below.starts_with("audit") || below.starts_with("state");
        assert!(
            is_answer && name.ends_with(".json.error.json") || is_kept || is_gates,
            "{below:?} is new"
        );
    }
    siege.stands(home);
}
