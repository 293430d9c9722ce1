//! What queries print and export, including hostile texts.

use super::*;

fn harmless(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    let bad = text
        .chars()
        .find(|c| (c.is_control() && !"\r\n".contains(*c)) || *c == '\u{202e}');
    assert_eq!(bad, None, "{what}: {text}");
}

#[test]
fn nothing_that_agents_wrote_is_obeyed_by_a_terminal() {
    let mut hand = Hand::new();
    let dir = folder(&[(
        1,
        hand.batch(&[note("begins"), hostile_decision(HOSTILE), note(HOSTILE)]),
    )]);
    for args in [
        &["audit", "query"][..],
        &["audit", "tail"],
        &["--format", "json", "audit", "query"],
        &["audit", "export", "--format", "csv"],
    ] {
        let done = over(&dir, args);
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        harmless(&format!("{args:?}"), &done.stdout);
        harmless(&format!("{args:?}"), &done.stderr);
        assert!(
            done.stdout.windows(4).any(|part| part == b"calc"),
            "{}",
            show(&done)
        );
    }
    // Colours come only from the program, and only if they are requested.
    let done = over(&dir, &["audit", "query", "--color", "always"]);
    assert!(
        done.stdout.windows(5).any(|part| part == b"\x1b[31m"),
        "{}",
        show(&done)
    );
    assert_eq!(
        String::from_utf8(done.stdout)
            .unwrap()
            .matches('\u{1b}')
            .count(),
        8
    );
}

/// Parses CSV rows by RFC 4180.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && rest.peek() == Some(&'\n') => {
                rest.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(
        !quoted && cell.is_empty() && row.is_empty(),
        "the last row ends with CRLF"
    );
    rows
}

#[test]
fn csv_has_a_fixed_header_numbers_that_are_numbers_and_no_formulas() {
    let mut hand = Hand::new();
    let dir = folder(&[(1, hand.batch(&[note("begins"), hostile_decision("=id")]))]);
    let done = over(
        &dir,
        &["audit", "export", "--format", "csv", "--kind", "decision"],
    );
    let rows = csv(std::str::from_utf8(&done.stdout).unwrap());
    assert_eq!(
        rows[0].join(","),
        "line,time,kind,request_id,action,source,status,decision,code,message,strategy,symbol,side,size,order_id,failed_checks,rulebook,leaf"
    );
    assert_eq!((rows.len(), rows[1].len()), (2, 18));
    let cell = |name: &str| &rows[1][rows[0].iter().position(|column| column == name).unwrap()];
    assert_eq!(
        [
            cell("line"),
            cell("size"),
            cell("status"),
            cell("decision"),
            cell("code"),
            cell("request_id")
        ],
        [
            "1",
            "-12.50",
            "rejected",
            "REJECTED",
            "CHECKS_FAILED",
            "'=id"
        ]
    );
    for name in [
        "action",
        "source",
        "message",
        "strategy",
        "symbol",
        "side",
        "failed_checks",
        "rulebook",
    ] {
        assert_eq!(
            cell(name),
            "'=cmd|' /C calc'!A1\\u{1b}[31m\\u{202e}\\u{7}\\r\\n\\t;'=1,\"'+2\"",
            "{name}"
        );
    }
    // Every line and its leaf hash, of a real ledger.
    let log = fs::read_to_string(demo().join("audit/log-00000001.jsonl")).unwrap();
    let rows = csv(&succeed(
        demo(),
        &["audit", "export", "--format", "csv", "--all"],
    ));
    assert_eq!(rows.len(), log.lines().count() + 1);
    for (row, line) in rows[1..].iter().zip(log.lines()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row[0], value["seq"].to_string());
        assert_eq!(row[17], leaf_hash(line.as_bytes()).to_string());
        if value["kind"] == "decision" {
            assert_eq!(row[3], value["request_id"].as_str().unwrap_or_default());
            assert_eq!(row[13], value["size"].as_str().unwrap_or_default());
        }
    }
}

#[test]
fn an_export_is_complete_or_absent_and_accepts_both_orders_of_its_format() {
    let dir = crate::kit::folder();
    let out = dir.path().join("lines");
    let path = out.to_str().unwrap();
    let log = fs::read(demo().join("audit/log-00000001.jsonl")).unwrap();
    for args in [
        &["audit", "export", "--format", "jsonl", "--all"][..],
        &["--format", "jsonl", "audit", "export", "--all"],
        &["--format", "json", "audit", "export", "--all"],
    ] {
        let done = command(demo(), args)
            .args(["--out", path])
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        assert_eq!(fs::read(&out).unwrap(), log, "{args:?}");
        let again = command(demo(), args)
            .args(["--out", path])
            .output()
            .unwrap();
        assert_eq!(again.status.code(), Some(2), "{}", show(&again));
        fs::remove_file(&out).unwrap();
        assert_eq!(spoolgate(demo(), args).stdout, log, "{args:?}");
    }
    let one = ["-n", "1", "--out", path];
    for args in [
        &["audit", "export", "--format", "csv"][..],
        &["--format", "csv", "audit", "export"],
        &["--format", "json", "audit", "export", "--format", "csv"],
        &["audit", "export"],
    ] {
        let done = command(demo(), args)
            .args(one)
            .arg("--force")
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        assert_eq!(csv(&fs::read_to_string(&out).unwrap()).len(), 2, "{args:?}");
    }
    for args in [
        &["--format", "csv", "portfolio"][..],
        &["audit", "query", "--format", "jsonl"],
    ] {
        assert_eq!(spoolgate(demo(), args).status.code(), Some(2), "{args:?}");
    }
    // If a ledger cannot be read to its end, the old file stays, with nothing beside it.
    let before = fs::read(&out).unwrap();
    let mut hand = Hand::new();
    let bytes = [
        hand.batch(&[note("a")]),
        b"junk\n".to_vec(),
        hand.batch(&[note("b")]),
        { hand.batch(&[note("c")]) },
    ]
    .concat();
    let damaged = folder(&[(1, bytes)]);
    let done = over(&damaged, &["audit", "export", "--out", path, "--force"]);
    assert_eq!(done.status.code(), Some(5), "{}", show(&done));
    assert_eq!(fs::read(&out).unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let inside = damaged.path().join("log-00000001.jsonl");
    let done = over(
        &damaged,
        &[
            "audit",
            "export",
            "--force",
            "--out",
            inside.to_str().unwrap(),
        ],
    );
    assert_eq!(done.status.code(), Some(2), "{}", show(&done));
}

#[test]
fn unsealed_lines_are_not_shown_and_missing_lines_are_reported() {
    let seqs = |dir: &TempDir| {
        let done = over(dir, &["--format", "json", "audit", "query"]);
        let lines = String::from_utf8(done.stdout).unwrap();
        let seqs: Vec<u64> = lines
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        (done.status.code().unwrap(), seqs)
    };
    let mut hand = Hand::new();
    let first = hand.batch(&[note("a"), note("b")]);
    let second = hand.batch(&[note("c")]);
    let whole = [first.clone(), second.clone()].concat();
    for cut in (first.len()..whole.len())
        .step_by(31)
        .chain([whole.len() - 1])
    {
        assert_eq!(
            seqs(&folder(&[(1, whole[..cut].to_vec())])),
            (0, vec![0, 1]),
            "cut at {cut}"
        );
    }
    assert_eq!(seqs(&folder(&[(1, whole.clone())])), (0, vec![0, 1, 3]));
    // Pages of the torn batch never reached the medium, but the seal after them did.
    let mut torn = whole.clone();
    let middle = first.len() + 120;
    torn[middle..middle + 20].fill(0);
    assert_eq!(seqs(&folder(&[(1, torn)])), (0, vec![0, 1]));

    // The next segment states where this one ended.
    let segment = |length: usize| {
        let body = serde_json::json!({
            "previous": {"file": "log-00000001.jsonl", "length": length, "lines": 5, "head": "00"},
                "rest": null,
        });
        ("segment", body.to_string())
    };
    let next = hand.batch(&[segment(whole.len()), note("d")]);
    assert_eq!(
        seqs(&folder(&[(1, whole.clone()), (2, next.clone())])),
        (0, vec![0, 1, 3, 6])
    );
    assert_eq!(seqs(&folder(&[(1, first.clone()), (2, next.clone())])).0, 5);
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for place in [10, 100, first.len() - 3] {
        assert_eq!(
            seqs(&folder(&[(1, flipped(place)), (2, next.clone())])).0,
            5,
            "{place}"
        );
        assert_eq!(seqs(&folder(&[(1, flipped(place))])).0, 5, "{place}");
    }
}

#[test]
fn the_program_finds_by_request_time_verdict_check_and_number() {
    let home = demo();
    let json = |args: &[&str]| -> Vec<serde_json::Value> {
        let told = succeed(
            home,
            &[&["--format", "json", "audit", "query"], args].concat(),
        );
        told.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let of = |lines: &[serde_json::Value], name: &str| -> Vec<String> {
        lines
            .iter()
            .map(|line| line[name].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        of(&json(&["--request", "buy-big"]), "request_id"),
        ["buy-big"]
    );
    let refused = json(&[
        "--action",
        "order.*",
        "--verdict",
        "REJECTED",
        "--code",
        "checks_failed",
    ]);
    assert!(
        refused.len() > 5 && refused.iter().all(|line| line["status"] == "rejected"),
        "{refused:?}"
    );
    let sizes = json(&["--check-failed", "max_single_position"]);
    assert!(!sizes.is_empty() && json(&["--check", "max_single_position"]).len() > sizes.len());
    let early = json(&[
        "--from",
        "2018-04-05T00:10:00Z",
        "--to",
        "2018-04-05T00:12:00Z",
        "--kind",
        "decision",
    ]);
    assert!(
        !early.is_empty()
            && of(&early, "timestamp")
                .iter()
                .all(|time| time.starts_with("2018-04-05T00:1"))
    );
    let last = json(&["-n", "3"]);
    assert_eq!(last.len(), 3);
    assert!(last[0]["seq"].as_u64() < last[2]["seq"].as_u64() && last[2]["kind"] == "stop");
    // An order: made, filled, stopped.
    let made = json(&["--action", "order.submit", "--verdict", "accepted"]);
    let order = made[0]["order_id"].as_str().unwrap();
    assert!(json(&["--order", order]).len() > 1);
    let table = succeed(home, &["audit", "query", "--request", "buy-big"]);
    for word in [
        "rejected",
        "trend-bot",
        "order.submit buy 0.1 BTC-USD @ 6750",
        "max_single_position",
        "(limit 250 usd)",
    ] {
        assert!(table.contains(word), "no {word:?} in\n{table}");
    }
    assert!(!table.contains('\u{1b}'), "{table}");
    assert_eq!(
        succeed(home, &["audit", "query", "--request", "nobody"]),
        "no lines match\n"
    );
    for wrong in [
        &["--from", "yesterday"][..],
        &["--verdict", "maybe"],
        &["--code", "NOTHING"],
        &["--order", "42"],
        &["--kind", "nothing"],
    ] {
        let done = spoolgate(home, &[&["audit", "query"], wrong].concat());
        assert_eq!(done.status.code(), Some(2), "{wrong:?}: {}", show(&done));
    }
    let nowhere = spoolgate(home, &["audit", "query", "/nonexistent"]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", show(&nowhere));
    let times: Time = Time::parse("2018-04-05T00:00:00Z").unwrap();
    assert!(
        found(
            &at(home),
            &Filter {
                to: Some(times),
                ..Filter::default()
            },
            None
        )
        .is_empty()
    );
    assert!(OrderId::parse(order).is_ok());
}
