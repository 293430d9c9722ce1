//! Where fuzzing starts: good inputs of every target, and the hostile ones that are known by name.

use serde_json::Value;
use spoolgate_gate::actions::rows;
use spoolgate_ledger::note::{Checkpoint, sign_checkpoint};
use spoolgate_ledger::tree::leaf_hash;
use spoolgate_wire::envelope::Envelope;

use super::{decide, envelope, ledger_line, market_file, note, recovery, rulebook};

/// Seeds of a target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "recovery" => scripts(32, 24),
        "decide" => scripts(16, 120),
        "ledger_line" => lines(),
        "json" => documents(),
        "envelope" => envelopes(),
        "yaml_rules" => rule_files(),
        "payload" => payloads(),
        "amount" => amounts(),
        "market_file" => market_files(),
        "note" => notes(),
        "signing_string" => requests(),
        _ => Vec::new(),
    }
}

fn with(first: usize, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(first).unwrap()];
    bytes.extend_from_slice(rest);
    bytes
}

/// Scripts of choices: the same noise every time.
fn scripts(count: u64, length: usize) -> Vec<Vec<u8>> {
    let noise = |seed: u64| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        }
    };
    (0..count)
        .map(|seed| {
            std::iter::repeat_with(noise(seed + 1))
                .take(length)
                .collect()
        })
        .collect()
}

fn lines() -> Vec<Vec<u8>> {
    let mut seeds = recovery::lines();
    // Spellings that a line must not have.
    let line = String::from_utf8(seeds[0].clone()).unwrap();
    for (from, to) in [
        ("}", "} "),
        ("\"seq\":0", "\"seq\":00"),
        ("\"seq\":0", "\"seq\": 0"),
        ("genesis", "gen\\u0065sis"),
    ] {
        let at = line.rfind(from).unwrap();
        seeds.push(format!("{}{to}{}", &line[..at], &line[at + from.len()..]).into_bytes());
    }
    let mut kinds = std::collections::BTreeMap::new();
    for script in scripts(16, 120) {
        for (kind, body) in decide::play(&script) {
            // One of each shape: kind, and the length in steps.
            kinds.entry((kind, body.len() / 400)).or_insert(body);
        }
    }
    let number = |kind: &str| {
        ledger_line::KINDS
            .iter()
            .position(|known| *known == kind)
            .unwrap()
    };
    seeds.extend(
        kinds
            .into_iter()
            .map(|((kind, _), body)| with(number(kind), body.as_bytes())),
    );
    for text in recovery::lines() {
        let Ok(line) = spoolgate_ledger::line::parse(&text) else {
            continue;
        };
        let more = line.body().replacen('{', "{\"more\":1,", 1);
        seeds.push(with(number(line.kind), more.as_bytes()));
    }
    let event = br#"{"timestamp":"2026-03-02T12:00:00.000Z","note":"n","changes":[{"HaltFile":{"present":true}},{"ClockAccepted":{}},{"ClockFaulted":{"from":"2026-03-02T12:00:00.000Z","to":"2026-03-01T12:00:00.000Z"}},{"RulebookFaulted":{"fault":"f"}},{"ProgramChanged":{"version":"0.2.0"}},{"HaltSet":{"principal":"bot","halt":{"by":"owner","at":"2026-03-02T12:00:00.000Z","reason":"r"}}},{"HaltCleared":{}},{"KeyEnds":{"key_id":"k","at":"2026-03-02T12:00:00.000Z"}}]}"#;
    seeds.extend((1..7).map(|kind| with(kind, event)));
    let rotate = br#"{"timestamp":"2026-03-02T12:00:00.000Z","by":"owner","reason":"r","log_key":"l","seal_key":"s","old_log_sig":"a","old_seal_sig":"b","new_log_sig":"c"}"#;
    let admin = br#"{"timestamp":"2026-03-02T12:00:00.000Z","by":"owner","reason":"r","note":"n","changes":[{"HeadsGivenUp":{"heads":[{"size":9,"root":"r"}],"resumed_from":{"size":5,"root":"r"}}}]}"#;
    seeds.extend([with(number("rotate"), rotate), with(number("admin"), admin)]);
    let redact = br#"{"timestamp":"2026-03-02T12:00:00.000Z","by":"owner (uid 0)","reason":"r","line":7,"fields":[{"field":"/artifacts/diff_content","sd":"uutlBuYeMDyjLLTpf6Jxi7yNkEF35jdyWMn9U7b_RYY"},{"field":"digests","sd":"X9yH0Ajrdm1Oij4tWso9UzzKJvPoDxwmuEcO3XAdRC0"}]}"#;
    seeds.push(with(number("redact"), redact));
    seeds
}

fn documents() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        "{}",
        " \t\r\n{ } \n",
        r#"{"a":{"a":[{"a":1},{"a":2}]},"b":"a"}"#,
        r#"{"":1,"\u0000":2," ":3}"#,
        r#"{"a":1,"\u0061":2}"#,
        "[-0.0e+00,1e999,123456789012345678901234567890.5E-7,0.1]",
        r#""\ud83d\ude00\/\b\f\n\r\t""#,
        r#"["\ud83d"]"#,
        r#"["\ude00"]"#,
        r#"["\ud83d\ud83d"]"#,
        r#"["\ud83d\n"]"#,
        r#"["\u12"]"#,
        r#"["\x41"]"#,
        "[\"a\nb\"]",
        "[01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[1_000]",
        "[NaN]",
        "[nul",
        "[1,]",
        "{\"a\":1,}",
        "{'a':1}",
        "{} {}",
        "[/**/]",
        "\"\u{7f}\u{2028}é😀\"",
        "[true,false,null]",
        "\u{feff}{}",
        r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"o":15,"p":16,"q":17,"a":18}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    seeds.push(format!("{}1{}", "[".repeat(64), "]".repeat(64)).into_bytes());
    seeds.push(format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65)).into_bytes());
    seeds.push(b"[\"\xf0\x9f".to_vec());
    seeds.extend(envelopes().into_iter().map(|seed| seed[4..].to_vec()));
    seeds
}

/// Payloads of the contract, by action.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn samples() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "order.submit",
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"limit","price":6760,"stop_price":"6600.10","thesis_slug":"btc-range-long","planned_entry":6760,"planned_stop":"6600.10"}"#,
        ),
        (
            "order.submit",
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","size":"0.03","order_type":"stop","stop_price":6500,"thesis_slug":"btc-range-short","planned_entry":6500,"planned_stop":6600}"#,
        ),
        ("order.cancel", r#"{ "order_id" : "o-12" }"#),
        (
            "order.tighten_stop",
            r#"{"order_id":"o-12-stop","new_stop":6650.5}"#,
        ),
        ("portfolio.get", "{}"),
        ("orders.list", "{}"),
        ("fills.list", r#"{"since":"2018-04-05T00:00:00Z"}"#),
        ("market.get", r#"{"symbol":"BTC-USD"}"#),
        (
            "market.import",
            r#"{"symbol":"BTC-USD","rows_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","row_count":1,"file_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","file_name":"f.zip"}"#,
        ),
        (
            "market.update",
            r#"{"symbol":"BTC-USD","bars":[{"open_time":"2018-04-05T11:58:00Z","interval_s":60,"open":6800,"high":"6801.50","low":6790,"close":6795,"volume":12.5}],"quotes":[{"time":"2018-04-05T11:59:00Z","bid":"6794.99","ask":6795,"bid_size":1,"ask_size":"2.5"}],"regime":"calm"}"#,
        ),
        (
            "funding.update",
            r#"{"symbol":"BTC-USD","rate":"-0.0001","time":"2018-04-05T08:00:00Z"}"#,
        ),
        ("halt.set", r#"{"principal":"trend-bot","reason":"r"}"#),
        ("halt.clear", r#"{"scope":"all","reason":"r"}"#),
        (
            "halt.clear",
            r#"{"scope":{"principal":"trend-bot"},"reason":"r"}"#,
        ),
        ("account.adjust", r#"{"amount":"-100.50","reason":"r"}"#),
        ("clock.accept", r#"{"reason":"r"}"#),
        (
            "email.fetch",
            r#"{"folder":"INBOX","limit":50,"since":"2018-04-05T00:00:00Z"}"#,
        ),
        (
            "email.send",
            r#"{"to":["ann@example.com"],"cc":["bob@example.org"],"subject":"s","body":"b","replyToMessageId":"m"}"#,
        ),
        ("email.draft", r#"{"to":[],"subject":"","body":""}"#),
        (
            "calendar.fetch",
            r#"{"startDate":"2018-04-05T00:00:00Z","endDate":"2018-04-06T00:00:00Z"}"#,
        ),
        (
            "calendar.create",
            r#"{"calendarId":"c","title":"t","startTime":"2018-04-05T00:00:00Z","endTime":"2018-04-06T00:00:00Z","description":"d","attendees":["ann@example.com"]}"#,
        ),
        (
            "calendar.update",
            r#"{"title":"t","startTime":"2018-04-05T00:00:00Z","endTime":"2018-04-06T00:00:00Z"}"#,
        ),
        (
            "finance.fetch_transactions",
            r#"{"accountId":"a","limit":10}"#,
        ),
        (
            "health.fetch",
            r#"{"dataType":"steps","startDate":"2018-04-05T00:00:00Z"}"#,
        ),
        (
            "service.api_call",
            r#"{"service":"bank","endpoint":"/v1/pay?a=%2F","method":"POST","headers":{"X-A":"1"},"body":{"n":1.50}}"#,
        ),
        (
            "keys.add",
            r#"{"principal":"trend-bot","key_id":"0123456789abcdef","algorithm":"hmac-sha256"}"#,
        ),
        (
            "keys.rotate",
            r#"{"principal":"trend-bot","key_id":"0123456789abcdef","algorithm":"ed25519","others_end":"2018-04-06T00:00:00Z"}"#,
        ),
        (
            "approval.grant",
            r#"{"id":"h-12","request_sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","remember":true}"#,
        ),
        (
            "approval.deny",
            r#"{"id":"h-12","request_sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","reason":"r"}"#,
        ),
        (
            "grant.add",
            r#"{"set":"hosts","value":"example.org","task":"research/t-1","expires_at":"2026-03-02T18:00:00Z"}"#,
        ),
        (
            "grant.end",
            r#"{"set":"hosts","value":"example.org","task":"research/t-1"}"#,
        ),
        (
            "keys.revoke",
            r#"{"key_id":"0000000000000001","reason":"r"}"#,
        ),
        (
            "council.request",
            r#"{"request_id":"req_1","timestamp":"2018-04-05T12:00:00Z","proposer":"A","change_type":"CODE_REFACTOR","context":{"summary":"s","files_changed":["f"],"key_metrics":{"total_return":15.4,"sharpe":1.2,"max_dd":-4.5,"oos_win_rate":55.0}}}"#,
        ),
        (
            "rule.propose",
            r#"{"Activate":{"rule":{"id":"cap","status":"active","applies_to":{"action":"order.submit","principal":["trend-bot"]},"when":[{"field":"order.size","op":"gt","value":0.10}],"then":"reject","message":"m"},"evidence":{"summary":"s","sample_size":1,"ledger_seqs":[1]}}}"#,
        ),
        (
            "rule.propose",
            r#"{"ModifyParameter":{"rule_id":"cap","parameter":"order.size","old_value":5,"new_value":"4.50","evidence":{"summary":"s","sample_size":0,"ledger_seqs":[],"council_request_id":"req_1"},"is_tightening":true}}"#,
        ),
        (
            "rule.propose",
            r#"{"Suspend":{"rule_id":"../cap","reason":"r","evidence":{"summary":"s","sample_size":0,"ledger_seqs":[]}}}"#,
        ),
        (
            "proposal.approve",
            r#"{"id":"p-12","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
        ),
        ("proposal.decline", r#"{"id":"p-12","reason":"r"}"#),
        ("proposal.revert", r#"{"id":"p-12","reason":"r"}"#),
        ("admission.health", "{}"),
        ("admission.cache_clear", "{}"),
        (
            "admission.cache_invalidate",
            r#"{"policy_profile_id":"default"}"#,
        ),
        ("admission.admit", ROOT),
        ("admission.evaluate", CHILD),
        ("admission.check", CHILD),
        ("admission.admit", LEASE),
        (
            "admission.settle",
            r#"{"receipt_id":"r-4","spent":{"usd":"0.10","tokens":1800}}"#,
        ),
    ]
}

const ROOT: &str = r#"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"n":0.10000000000000000001,"target":"t","artifact_size_bytes":5},"causality":{"root_task_id":"t-1","parent_task_id":null,"caused_by_receipt_id":null,"spawn_depth":0,"capability_id":"c","recursion_budget_remaining":10}}}"#;
const CHILD: &str = r#"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"task","payload":{},"causality":{"root_task_id":"t-1","parent_task_id":"t-2","caused_by_receipt_id":"r-4","spawn_depth":2,"capability_id":"c","recursion_budget_remaining":1}},"forward":true}"#;
const LEASE: &str = r#"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"lease","payload":{"n":1e999}}}"#;

fn payloads() -> Vec<Vec<u8>> {
    let number = |name: &str| rows().position(|row| *name == row.name).unwrap();
    let mut seeds = Vec::new();
    for (name, payload) in samples() {
        seeds.push(with(number(name), payload.as_bytes()));
        let Ok(Value::Object(fields)) = serde_json::from_str(payload) else {
            continue;
        };
        // Every field as what it is not.
        for field in fields.keys() {
            let mut changed = fields.clone();
            changed.insert(field.clone(), Value::Null);
            seeds.push(with(
                number(name),
                Value::Object(changed).to_string().as_bytes(),
            ));
        }
    }
    let (mut deep, null) = (serde_json::from_str::<Value>(CHILD).unwrap(), Value::Null);
    for folder in ["/envelope", "/envelope/causality"] {
        let keys: Vec<String> = deep
            .pointer(folder)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for key in keys {
            let old = std::mem::replace(&mut deep.pointer_mut(folder).unwrap()[&key], null.clone());
            seeds.push(with(number("admission.admit"), deep.to_string().as_bytes()));
            deep.pointer_mut(folder).unwrap()[&key] = old;
        }
    }
    for claim in [
        "-1",
        "0",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "2.0",
        "1e999",
    ] {
        for name in ["spawn_depth\":2", "recursion_budget_remaining\":1"] {
            let (key, _) = name.split_once(':').unwrap();
            seeds.push(with(
                number("admission.admit"),
                CHILD.replace(name, &format!("{key}:{claim}")).as_bytes(),
            ));
        }
    }
    seeds
}

fn file(source: &str, action: &str, payload: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"id":"r-1","timestamp":"2018-04-05T12:00:00.000Z","action":"{action}","payload":{payload},"source":"{source}","signature":"00"}}"#
    );
    envelope::signed(Envelope::parse(text.as_bytes()).unwrap())
        .to_json()
        .into_bytes()
}

/// Good files, unsigned ones that are to be signed, and ones to be damaged. Their first four bytes
/// are for the body.
fn envelopes() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, (action, payload)) in samples().into_iter().enumerate() {
        for (source, mode) in [("bot", 0), ("own", 1)] {
            let mut seed = vec![mode, 0, u8::try_from(n * 9 % 256).unwrap(), 1];
            seed.extend(file(source, action, payload));
            seeds.push(seed);
        }
    }
    let mut quoted = vec![b' '; 36];
    quoted.extend(file(
        "bot",
        "halt.set",
        r#"{ "reason" : "a \\ \" b  c \" d" , "x" : "\\" }"#,
    ));
    seeds.push(quoted);
    let mut plain = vec![b' '; 4];
    plain.extend(file(
        "bot",
        "order.cancel",
        r#"{ "order_id" : "o-1", "n": 0.10000000000000000001 }"#,
    ));
    seeds.push([vec![b' '; 32], plain].concat());
    for (mode, source) in [(0, "bot"), (1, "own")] {
        let mut envelope =
            Envelope::parse(&file(source, "order.cancel", r#"{"order_id":"o-1"}"#)).unwrap();
        envelope.causality = Some(CAUSALITY.to_owned());
        let signed = envelope::signed(envelope).to_json().replace("\":", "\" : ");
        seeds.push([&[mode, 0, 200, 1], signed.as_bytes()].concat());
    }
    seeds
}

const CAUSALITY: &str = r#"{"root_task_id":"t-1","parent_task_id":null,"caused_by_receipt_id":null,"spawn_depth":0,"capability_id":"c","recursion_budget_remaining":10}"#;

fn requests() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (action, payload) in samples().into_iter().take(4) {
        let first = format!("r1\0{}\0{action}\0{payload}", "2018-04-05T12:00:00Z");
        seeds.push(format!("{first}\0{first}").into_bytes());
        seeds.push(format!("{first}\0{}", first.replacen("00Z", "00.0Z", 1)).into_bytes());
        seeds.push(format!("{first}\0{}", first.replacen("r1", "r1|2", 1)).into_bytes());
    }
    let (action, payload) = ("halt.set", r#"{"reason":"r"}"#);
    let first = format!("r1\02018-04-05T12:00:00Z\0{action}\0{payload}");
    for (one, other) in [
        (CAUSALITY, ""),
        ("", CAUSALITY),
        (CAUSALITY, "{}"),
        ("{ }", "{}"),
        (payload, ""),
    ] {
        seeds.push(format!("{first}\0{first}\0{one}\0{other}").into_bytes());
    }
    seeds
}

fn rule_files() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = rulebook::FILES
        .iter()
        .enumerate()
        .map(|(n, (_, text))| with(n, text.as_bytes()))
        .collect();
    let bomb: String = std::iter::once("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned())
        .chain((1..9).map(|n| {
            format!(
                "a{n}: &a{n} [{}]\n",
                vec![format!("*a{}", n - 1); 9].join(",")
            )
        }))
        .collect();
    for limit in [
        "max_drawdown: 0.15",
        "max_single_position: 0.05",
        "max_order_value: 1000",
        "exit_age_max_s: 86400",
    ] {
        for value in ["0", "-1", "1.5", "86401"] {
            let (name, _) = limit.split_once(' ').unwrap();
            let text = rulebook::FILES[0]
                .1
                .replace(limit, &format!("{name} {value}"));
            seeds.push(with(0, text.as_bytes()));
        }
    }
    for (which, text) in [
        (1, "principals: &p\n  - {name: owner, role: human}\n  - *p\n".to_owned()),
        (1, "principals:\n  - &o {name: owner, role: human}\n  - <<: *o\n    name: other\n".to_owned()),
        (1, bomb.clone()),
        (2, format!("{bomb}instruments: *a8\n")),
        (3, "? {name: trend}\n: !!str x\n--- \nname: trend\n".to_owned()),
        (3, format!("name: {}trend", "[".repeat(300))),
        (
            0,
            "max_total_capital: 0x10\nmax_drawdown: 1e-1\nmax_spread: .inf\nmax_single_position: \
                ~\n"
                .to_owned(),
        ),
        (4, "---\nslug: btc-range-long\n---".to_owned()),
        (6, "max_spawn_depth: 1".to_owned()),
        (6, "{max_spawn_depth: 4294967295, recursion_budget: 9223372036854775807, \
            max_artifact_size_bytes: 0}".to_owned()),
        (6, "max_spawn_depth: 3\nmax_repeats_in_ancestor_window: 2\nancestor_window_size: \
            64\ncan_spawn: false\n".to_owned()),
        (6, "max_spawn_depth: 3\ncapability_allowlist: []\ncapability_denylist: \
            [c]\nallowed_targets: ['']\n".to_owned()),
        (6, "max_spawn_depth: 3\npolicy_command: {program: p, args: [a], time_limit_s: 1, \
            output_bytes_max: 9}\ncache_ttl_seconds: 300\nlineage_command: {program: p, \
            time_limit_s: 1, output_bytes_max: 9}\n".to_owned()),
        (6, "max_spawn_depth: 3\nancestor_window_size: 65\n".to_owned()),
        (6, format!("{bomb}capability_allowlist: *a8\n")),
        (1, "principals:\n  - {name: a, role: agent, admission: {domains: [{tenant: t, surface: s, \
            profile: p}], roots_per_hour: 10000, required: true}}\n".to_owned()),
        (1, "principals:\n  - {name: a, role: agent, admission: {domains: []}}\n".to_owned()),
        (1, "principals:\n  - {name: a, role: feed, admission: ~}\n".to_owned()),
    ] {
        seeds.push(with(which, text.as_bytes()));
    }
    seeds
}

fn amounts() -> Vec<Vec<u8>> {
    [
        "12\n-0.5\n1234.25",
        "0\n-0\n-0.00\n1.10",
        "79228162514264337593543950335\n-79228162514264337593543950335\n1\n79228162514264337593543950336",
        "0.0000000000000000000000000001\n7.9228162514264337593543950335\n0.00000000000000000000000000001",
        "999999999999.9999999999\n1000000000000\n0.00000000001",
        "100000000000000\n0.00000000000002\n39614081257132168796771975168\n2",
        "01\n+1\n.5\n1.\n1e3\n1_000\n0x10\n\u{ff11}\n-\n",
        "\"1.5\"\n \"-0\" \n\"\\u0031\"\n1.50",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

fn market_files() -> Vec<Vec<u8>> {
    let texts: [(usize, u8, &str); 10] = [
        (
            4,
            0,
            "20201229 00:00:00,0.00020030\n20201229 08:00:00,0.00046053\n20221213 \
                16:00:00,-0.00002983\n",
        ),
        (
            4,
            8,
            "symbol,fundingTime,fundingRate\nA,1767600000004,-1e-4\nB,1767600000004,1\nA,1767603600000,0.1\n",
        ),
        (
            0,
            0,
            "0,1,2,1,2,5\n60000,2,3,1.5,2.5,6e-08\n120000,2,3,1.5,2.5,0.029768000000000003\n",
        ),
        (
            1,
            0,
            "0,9,9,9,10,1,12,12,12,11,2\n60000,9,9,9,10,1,12,12,12,11,2\n",
        ),
        (
            2,
            0,
            "20141201 00:00,376.4,378.27,376.4,378.27,9.09\n20141202 \
                00:00,378,378,377.1,377.1,15.01\n",
        ),
        (
            3,
            0,
            "Date,Open,High,Low,Close,Volume\n2018-04-05,1,2,1,2,3\n2018-04-06T00:00:00Z,1,2,1,2,\"3\"\n",
        ),
        (
            3,
            8,
            "date,ticker,open,high,low,close,volume\n2018-04-05,A,1,2,1,2,3\n2018-04-06,A,1,2,1,2,3\n2018-04-06,B,1,2,1,2,3\n",
        ),
        (
            4,
            1,
            "ts,bid,ask,bid_size,ask_size\n1522886400,1,2,3,4\n1522886400000,1,2,,\n1522886500000000,1,2,1,1\n",
        ),
        (
            5,
            0,
            "1499040000000,0.0163,0.8,0.0157,0.0158,148976.1,1499644799999,2434.1,308,1756.8,28.4,0\n",
        ),
        (
            4,
            0,
            "quote,1522886400000,1.00,2,0.0,7\nbar,0,86400000,0.0000000001,999999999999.9999999999,0.0000000001,1,0\n",
        ),
    ];
    let mut seeds = Vec::new();
    for (name, how, text) in texts {
        let name_byte = u8::try_from(name).unwrap();
        seeds.push([&[name_byte, how], text.as_bytes()].concat());
        seeds.push([&[name_byte, how | 16], text.as_bytes()].concat());
        let zip = market_file::zipped(market_file::NAMES[name], text.as_bytes(), false);
        seeds.push([&[name_byte, how], zip.as_slice()].concat());
    }
    // A thousandfold zip, and one in a zip.
    let large = market_file::zipped("q.csv", "0,1,2,1,2,5\n".repeat(100_000).as_bytes(), false);
    seeds.push([&[0, 0], large.as_slice()].concat());
    seeds.push([&[0, 16], large.as_slice()].concat());
    seeds
}

fn notes() -> Vec<Vec<u8>> {
    let signer = note::signer();
    let mut checkpoint = Checkpoint::new(signer.name(), 7, leaf_hash(b"x"));
    let plain = sign_checkpoint(&checkpoint, &signer).unwrap();
    checkpoint.extensions = vec!["more".to_owned(), "e\u{301}".to_owned()];
    let longer = sign_checkpoint(&checkpoint, &signer).unwrap();
    let other = plain.replacen("\n\n", "\n\n\u{2014} other AAAAAAAA\n", 1);
    let key = signer.verifier().to_string();
    [
        checkpoint.text(),
        plain,
        longer,
        other,
        key,
        "o\u{0}e\nx\u{0}".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
