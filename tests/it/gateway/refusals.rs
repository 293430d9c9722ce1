//! Every way in which an outgoing action is refused or held: code, status, exit code, message and
//! the rows that failed, which row comes first if several fail, and that no adapter runs for any of
//! them.

use std::fs;

use crate::kit::gateway_home::{GOOD, GatewayHome, NOTED, SERVICES, code, exec, gateway, settle};
use crate::kit::process::until;
use serde_json::{Value, json};
use spoolgate_gate::approvals::HOLDS_OF_ONE_MAX;
use spoolgate_gate::record::{Decision, Status};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::signing::SignKey;

const MAIL: &str = GOOD[1].1;

fn signed(home: &GatewayHome, id: &str, payload: &str, ms: i64, key: &SignKey) -> Envelope {
    let mut envelope = home.envelope(id, "email.send", payload);
    envelope.timestamp = envelope.timestamp.plus_ms(ms);
    envelope.timestamp_text = envelope.timestamp.to_string();
    envelope.signature = key.sign(&envelope.signing_string());
    envelope
}

/// Returns a mail request signed at this time.
fn mail(home: &GatewayHome, id: &str, payload: &str, ms: i64) -> Vec<u8> {
    signed(home, id, payload, ms, &home.core)
        .to_json()
        .into_bytes()
}

fn failed(line: &Decision) -> Vec<&str> {
    line.checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| &*row.name)
        .collect()
}

/// Returns the newest decision line and the answer to its file.
fn newest(home: &GatewayHome, name: &str) -> (Decision, Answer) {
    let line = home.decisions().into_values().next_back().unwrap();
    let answer = home
        .answer(name)
        .unwrap_or_else(|| panic!("no answer to {name}: {:?}", home.place.answers()));
    (line, answer)
}

/// Checks that the answer agrees with its line, and that the line says why.
#[track_caller]
fn is_told(line: &Decision, answer: &Answer, expect: Code, status: AnswerStatus, what: &str) {
    let error = answer.error.as_ref().unwrap();
    // A refusal for now names the time in place of the usual remedy.
    let message = match expect {
        Code::RateLimited | Code::ActionsFull => {
            let timed = error.message.strip_prefix(what).unwrap_or_default();
            assert!(
                timed.starts_with("; send ") && timed.contains(" ms: "),
                "{timed}"
            );
            error.message.clone()
        }
        _ => format!("{what}; {}", expect.remedy()),
    };
    assert_eq!(
        (error.code, error.message.as_str()),
        (expect, message.as_str())
    );
    assert_eq!((answer.status, answer.exit()), (status, expect.exit()));
    assert_eq!(
        (line.metadata.code, line.metadata.message.as_deref()),
        (Some(expect), Some(message.as_str()))
    );
    // The words that the gateway document has for the audit trail.
    let word = match expect {
        Code::Held => "requires_approval",
        Code::RateLimited | Code::ActionsFull => "rate_limited",
        _ => "rejected",
    };
    assert_eq!(serde_json::to_value(line.status).unwrap(), word, "{what}");
    assert_eq!(answer.audit_ref, line.id);
}

/// Makes a gate that accepts six messages per minute from an agent.
fn home_of_few_messages() -> GatewayHome {
    let home = GatewayHome::new(NOTED);
    home.edit("rules/safety.yaml", |text| {
        text.replace(
            "max_messages_per_minute: 600 ",
            "max_messages_per_minute: 6 ",
        )
    });
    home.edit("rules/principals.yaml", |text| {
        text.replace(
            "  - name: core\n",
            "  - name: idle\n    role: agent\n  - name: core\n",
        )
    });
    home.place.pass_s(400);
    home
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_request_refused_before_the_check_vector_has_no_rows() {
    let home = home_of_few_messages();
    let mut opened = home.open();
    type Make = fn(&GatewayHome, &str) -> Vec<u8>;
    /// Returns a good request that was changed after it was signed.
    fn changed(home: &GatewayHome, id: &str, change: impl Fn(&mut Envelope)) -> Vec<u8> {
        let mut envelope = home.envelope(id, "email.send", MAIL);
        change(&mut envelope);
        envelope.to_json().into_bytes()
    }
    let forged = "file `X`: no current key of `core` made this signature over the request";
    let cases: [(&str, Make, Code, Exit, &str); 10] = [
        (
            "no JSON",
            |_, _| b"{".to_vec(),
            Code::MalformedJson,
            Exit::Malformed,
            "file `X`: ",
        ),
        (
            "a key that the envelope has not",
            |home, id| {
                let text = home.envelope(id, "email.send", MAIL).to_json();
                text.replacen('{', r#"{"host":"h","#, 1).into_bytes()
            },
            Code::MalformedEnvelope,
            Exit::Malformed,
            "file `X`: ",
        ),
        (
            "another key",
            |home, id| {
                signed(home, id, MAIL, 0, &SignKey::Hmac([1; 32]))
                    .to_json()
                    .into_bytes()
            },
            Code::SignatureInvalid,
            Exit::Refused,
            forged,
        ),
        (
            "another payload, of no shape at all",
            |home, id| changed(home, id, |envelope| envelope.payload = "{}".to_owned()),
            Code::SignatureInvalid,
            Exit::Refused,
            forged,
        ),
        (
            "another time",
            |home, id| {
                let later = home.place.clock.now().plus_ms(1).to_string();
                changed(home, id, |envelope| {
                    envelope.timestamp_text.clone_from(&later)
                })
            },
            Code::SignatureInvalid,
            Exit::Refused,
            forged,
        ),
        (
            "another action",
            |home, id| {
                changed(home, id, |envelope| {
                    envelope.action = "email.draft".to_owned()
                })
            },
            Code::SignatureInvalid,
            Exit::Refused,
            forged,
        ),
        (
            "no such action",
            |home, id| home.envelope(id, "email.sned", MAIL).to_json().into_bytes(),
            Code::UnknownAction,
            Exit::Malformed,
            "action `email.sned` does not exist",
        ),
        (
            "no payload of it",
            |home, id| mail(home, id, "{}", 0),
            Code::MalformedPayload,
            Exit::Malformed,
            "payload of `email.send`: ",
        ),
        (
            "too old",
            |home, id| mail(home, id, MAIL, -300_001),
            Code::TimestampStale,
            Exit::Refused,
            "signed at ",
        ),
        (
            "too far ahead",
            |home, id| mail(home, id, MAIL, 30_001),
            Code::TimestampStale,
            Exit::Refused,
            "signed at ",
        ),
    ];
    for (n, (what, make, expect, exit, words)) in cases.into_iter().enumerate() {
        // A minute for each, because messages are counted too.
        home.place.pass_s(70);
        let name = format!("x{n}");
        home.put(&name, &make(&home, &name));
        settle(&mut opened);
        if expect == Code::MalformedJson {
            // It could have been half of a file that is still being written.
            home.place.pass_s(3);
            settle(&mut opened);
        }
        let is_by_file = matches!(
            expect,
            Code::MalformedJson | Code::MalformedEnvelope | Code::SignatureInvalid
        );
        let (line, answer) = newest(
            &home,
            &if is_by_file {
                format!("{name}.json.error")
            } else {
                name.clone()
            },
        );
        let error = answer.error.clone().unwrap();
        assert!(
            error
                .message
                .starts_with(&words.replace('X', &format!("{name}.json")))
                && error.code == expect,
            "{what}: {error:?}"
        );
        let whole = error
            .message
            .strip_suffix(&format!("; {}", expect.remedy()))
            .unwrap()
            .to_owned();
        is_told(&line, &answer, expect, AnswerStatus::Error, &whole);
        assert_eq!(answer.exit(), exit, "{what}");
        assert!(
            line.checks.is_empty() && line.changes.is_empty() && line.decision.is_none(),
            "{what}"
        );
    }
    assert!(home.ran().is_empty(), "no adapter runs on any of them");
}

#[test]
fn permission_ids_and_message_limits_come_before_the_check_vector_too() {
    let home = home_of_few_messages();
    let mut opened = home.open();
    // A person has no outgoing actions unless the rules say so.
    home.one_as_owner(&mut opened, "own", "email.send", MAIL);
    let (line, answer) = newest(&home, "own");
    let what = "`owner` does not have `email.send` in its `actions`";
    is_told(
        &line,
        &answer,
        Code::NotPermitted,
        AnswerStatus::Error,
        what,
    );
    assert!(line.checks.is_empty());
    // An id that belongs to another request.
    home.one(&mut opened, "own", "email.send", MAIL);
    let line = home.decisions().into_values().next_back().unwrap();
    assert_eq!(line.metadata.code, Some(Code::RequestIdConflict));
    assert_eq!(code(&home.answer("own").unwrap()), "NOT_PERMITTED");
    // More messages than an agent may send.
    for n in 0..7 {
        home.one(&mut opened, &format!("m-{n}"), "health.fetch", "{}");
    }
    let (line, answer) = newest(&home, "m-6");
    assert_eq!(code(&answer), "MALFORMED_PAYLOAD");
    assert!(line.checks.is_empty());
    home.one(&mut opened, "limited", "email.send", MAIL);
    let (line, answer) = newest(&home, "limited");
    is_told(
        &line,
        &answer,
        Code::RateLimited,
        AnswerStatus::RateLimited,
        "`core` may send at most 6 messages within a minute",
    );
    assert_eq!(answer.exit(), Exit::RateLimited);
    assert!(line.checks.is_empty());
    assert!(home.ran().is_empty(), "no adapter runs on any of them");
}

#[test]
fn a_request_of_the_last_moment_and_one_of_the_next_are_done() {
    let home = GatewayHome::new(NOTED);
    home.place.pass_s(400);
    let mut opened = home.open();
    for (id, ms) in [("old", -300_000), ("ahead", 30_000)] {
        home.put(id, &mail(&home, id, MAIL, ms));
        settle(&mut opened);
        assert_eq!(code(&home.answer(id).unwrap()), "", "{id}");
    }
    assert_eq!(home.ran().len(), 2);
}

/// Moves the clock until the gate has loaded changed rule files, whether they are valid or not.
fn taken(home: &GatewayHome, opened: &mut Home, is_good: bool) {
    let before = opened.state().rulebook.clone();
    for _ in 0..10 {
        home.place.clock.set(home.place.clock.now().plus_ms(500));
        opened.write_news().unwrap();
        if opened.state().rulebook != before && opened.rules_fault().is_none() == is_good {
            return;
        }
    }
    panic!("the gate did not take them: {:?}", opened.rules_fault());
}

/// Files of the rulebook in which everything that can fail for an outgoing mail fails.
struct Files {
    services: String,
    gateway: Value,
}

impl Files {
    fn write(&self, home: &GatewayHome) {
        fs::write(home.path("rules/services.yaml"), &self.services).unwrap();
        fs::write(home.path("rules/gateway.yaml"), self.gateway.to_string()).unwrap();
    }
}

/// Records the task, and answers once the file `go` exists.
const WAITS: &str = r#"t=$(cat); printf '%s\n' "$t" >>ran
while [ ! -e go ]; do sleep 0.02; done
echo '{"success":true}'"#;

/// Everything that can fail at once for an outgoing mail, in the order of its rows.
const ROWS: [&str; 12] = [
    "rulebook",
    "clock",
    "manual_halt",
    "allowlist",
    "action_rate",
    "gateway_rate",
    "open_actions",
    "anomaly_burst",
    "anomaly_payload",
    "adapter",
    "a-look",
    "b-never",
];

/// A gate whose faults are repaired one after the other.
struct Mending {
    home: GatewayHome,
    opened: Home,
    files: Files,
    requests: u32,
}

impl Mending {
    /// Makes a gate with an open action, for which every row of a second action fails.
    fn new() -> Mending {
        let rates = json!({"per_hour": {"email.send": 1}, "all_per_hour": 1});
        let anomalies =
            json!({"burst_max": 1, "burst_window_s": 60, "payload_bytes_max": MAIL.len()});
        let adapter = exec(&["email.send"], WAITS, 60);
        let files = Files {
            services: SERVICES.to_owned(),
            gateway: json!({
                "adapters": [adapter], "rates": rates, "anomalies": anomalies, "open_max": 1,
            }),
        };
        let home = GatewayHome::with(SERVICES, &files.gateway.to_string());
        let mut opened = home.open();
        home.ask("first", "email.send", MAIL);
        while opened.round(false).unwrap().more {}
        assert_eq!(opened.state().actions.open.len(), 1);
        // The gate does not wait for an adapter. Without this wait, `next` could count before the
        // first adapter runs.
        until("the first adapter runs", || {
            fs::read_to_string(home.path("ran")).is_ok_and(|noted| noted.ends_with('\n'))
        });
        let mut mending = Mending {
            home,
            opened,
            files,
            requests: 0,
        };
        for (id, then) in [("a-look", "hold"), ("b-never", "reject")] {
            let text = format!(
                "id: {id}\nstatus: active\napplies_to: {{action: email.send}}\nwhen: []\n\
                 then: {then}\nmessage: \"{id} says so\"\n"
            );
            fs::create_dir_all(mending.home.path("rules/core")).unwrap();
            fs::write(mending.home.path(&format!("rules/core/{id}.yaml")), text).unwrap();
        }
        mending.mend(|files| {
            files.services = SERVICES.replacen("is_active: true", "is_active: false", 1);
            files.gateway["adapters"] = json!([]);
        });
        mending
    }

    /// Changes the rule files, and waits until the gate has loaded them.
    fn mend(&mut self, change: impl FnOnce(&mut Files)) {
        change(&mut self.files);
        self.files.write(&self.home);
        taken(&self.home, &mut self.opened, true);
    }

    /// Sends the next request, for which all rows from `first` on fail except these.
    fn next(&mut self, first: usize, without: &[&str]) -> (Decision, Answer) {
        self.requests += 1;
        let id = format!("n-{}", self.requests);
        let larger = MAIL.replace("a word", "two words");
        self.home.ask(&id, "email.send", &larger);
        while self.opened.round(false).unwrap().more {}
        let (line, answer) = newest(&self.home, &id);
        let mut expect = ROWS[first..].to_vec();
        expect.retain(|name| !without.contains(name));
        assert_eq!(failed(&line), expect);
        // No row is missing from the vector, whichever comes first.
        let mut names: Vec<&str> = line.checks.iter().map(|row| &*row.name).collect();
        names.retain(|name| *name != "anomaly_destination");
        let known = names.iter().filter(|name| ROWS.contains(name)).count();
        assert!(known >= ROWS.len() - 1, "{names:?}");
        // The answer contains all of them.
        let data: Value = serde_json::from_str(answer.data.as_ref().unwrap().get()).unwrap();
        let is_held = line.status == Status::Held;
        let body = &data[if is_held { "Held" } else { "Rejected" }];
        let [failed, passed] =
            ["checks_failed", "checks_passed"].map(|key| body[key].as_array().unwrap().len());
        assert_eq!((failed, failed + passed), (expect.len(), line.checks.len()));
        assert!(body.get("headroom").is_none());
        assert_eq!(
            data.get("retryAfterMs").is_some(),
            answer.status == AnswerStatus::RateLimited
        );
        assert!(line.changes.is_empty() || is_held);
        let ran = self.home.ran().len();
        assert_eq!(ran, 1, "no adapter runs on a refusal or a hold");
        (line, answer)
    }
}

/// Returns the reason in the row of this name.
fn reason(line: &Decision, name: &str) -> String {
    let row = line.checks.iter().find(|row| row.name == name).unwrap();
    row.reason.clone().unwrap().to_string()
}

#[test]
fn the_first_failure_names_the_reason_and_all_failures_are_listed() {
    let mut gate = Mending::new();
    fs::write(gate.home.path("rules/sets/broken.yaml"), "name: [").unwrap();
    taken(&gate.home, &mut gate.opened, false);
    gate.home.place.disk.put("rules/HALT", b"");
    let before = gate.home.place.clock.now();
    gate.home.place.clock.set(before.plus_ms(-10_000));
    let (error, limited) = (AnswerStatus::Error, AnswerStatus::RateLimited);
    let (line, answer) = gate.next(0, &[]);
    let what = format!(
        "check `rulebook` failed: {}",
        gate.opened.rules_fault().unwrap()
    );
    is_told(&line, &answer, Code::RulebookInvalid, error, &what);
    fs::remove_file(gate.home.path("rules/sets/broken.yaml")).unwrap();
    // The step stays until a person accepts the clock.
    gate.home.place.clock.set(before.plus_ms(1000));
    taken(&gate.home, &mut gate.opened, true);
    let (line, answer) = gate.next(1, &[]);
    let what = format!(
        "check `clock` failed: {}",
        gate.opened.state().clock_fault().unwrap()
    );
    is_told(&line, &answer, Code::ChecksFailed, error, &what);
    let looked = r#"{"reason":"looked at"}"#;
    gate.home
        .place
        .ask_as_owner("clock", "clock.accept", looked);
    while gate.opened.round(false).unwrap().more {}
    let (line, answer) = gate.next(2, &[]);
    let what = "check `manual_halt` failed: rules/HALT exists; a person must remove the file";
    is_told(&line, &answer, Code::ChecksFailed, error, what);
    gate.home.place.disk.drop_file("rules/HALT");
    let (line, answer) = gate.next(3, &[]);
    let what = format!("check `allowlist` failed: {}", reason(&line, "allowlist"));
    is_told(&line, &answer, Code::NotAllowlisted, error, &what);
    gate.mend(|files| files.services = SERVICES.to_owned());
    let (line, answer) = gate.next(4, &[]);
    let what = "check `action_rate` failed: `core` may begin `email.send` at most 1 times within \
        an hour";
    is_told(&line, &answer, Code::RateLimited, limited, what);
    gate.mend(|files| files.gateway["rates"]["per_hour"]["email.send"] = json!(90));
    let (line, answer) = gate.next(5, &[]);
    let what = "check `gateway_rate` failed: all principals together may begin at most 1 actions \
        within an hour";
    is_told(&line, &answer, Code::RateLimited, limited, what);
    gate.mend(|files| files.gateway["rates"]["all_per_hour"] = json!(90));
    let (line, answer) = gate.next(6, &[]);
    let what = "check `open_actions` failed: 1 actions are already open";
    is_told(&line, &answer, Code::ActionsFull, limited, what);
    gate.mend(|files| files.gateway["open_max"] = json!(90));
    // An anomaly only holds: a row that refuses comes before it.
    let (line, answer) = gate.next(7, &[]);
    let what = format!("check `adapter` failed: {}", reason(&line, "adapter"));
    is_told(&line, &answer, Code::NoAdapter, error, &what);
    gate.mend(|files| files.gateway["adapters"] = json!([exec(&["email.send"], WAITS, 60)]));
    let (line, answer) = gate.next(7, &["adapter"]);
    let error = answer.error.as_ref().unwrap();
    assert_eq!(
        (error.code, answer.exit()),
        (Code::RuleRefused, Exit::Refused)
    );
    assert!(error.message.contains("b-never says so"), "{error:?}");
    assert_eq!(line.metadata.code, Some(Code::RuleRefused));
    fs::remove_file(gate.home.path("rules/core/b-never.yaml")).unwrap();
    taken(&gate.home, &mut gate.opened, true);
    let (line, answer) = gate.next(7, &["adapter", "b-never"]);
    let hold = gate.opened.state().approvals.iter().next().unwrap().clone();
    let what = format!(
        "held as {} until {} by a-look, anomaly_burst (more than 1 actions of `core` were signed or began \
         within 60 s), anomaly_payload (the payload is larger than {} bytes)",
        hold.id,
        hold.expires_at,
        MAIL.len()
    );
    is_told(
        &line,
        &answer,
        Code::Held,
        AnswerStatus::RequiresApproval,
        &what,
    );
    assert_eq!(answer.exit(), Exit::NeedsApproval);
    fs::write(gate.home.path("go"), "").unwrap();
    settle(&mut gate.opened);
    let first = gate.home.answer("first").unwrap();
    assert_eq!((code(&first).as_str(), gate.home.ran().len()), ("", 1));
}

#[test]
fn admission_that_is_demanded_refuses_in_front_of_the_check_vector() {
    let home = GatewayHome::new(NOTED);
    home.edit("rules/principals.yaml", |text| {
        let admission = "admission: {domains: [{tenant: research, surface: agents, profile: \
            default}], roots_per_hour: 9, required: true}";
        text.replace(
            "  - name: core\n",
            &format!("  - name: core\n    {admission}\n"),
        )
    });
    home.edit("rules/services.yaml", |text| {
        text.replacen("is_active: true", "is_active: false", 1)
    });
    let mut opened = home.open();
    let answer = home.one(&mut opened, "a", "email.send", MAIL);
    assert_eq!(
        (code(&answer).as_str(), answer.exit()),
        ("ADMISSION_DENIED", Exit::Refused)
    );
    let line = home.decision("a").unwrap();
    assert!(
        line.checks.iter().all(|row| row.name != "allowlist"),
        "{line:?}"
    );
    assert!(home.ran().is_empty());
}

#[test]
fn more_than_may_be_held_are_refused() {
    let home = GatewayHome::new(NOTED);
    home.edit("rules/gateway.yaml", |text| {
        text.replacen('{', r#"{"anomalies":{"payload_bytes_max":10},"#, 1)
    });
    let mut opened = home.open();
    (0..HOLDS_OF_ONE_MAX).for_each(|n| home.ask(&format!("n-{n:02}"), "email.send", MAIL));
    settle(&mut opened);
    assert_eq!(opened.state().approvals.iter().count(), HOLDS_OF_ONE_MAX);
    home.one(&mut opened, "z", "email.send", MAIL);
    let (line, answer) = newest(&home, "z");
    let what = format!(
        "`core` already has {HOLDS_OF_ONE_MAX} held requests, the maximum for one principal"
    );
    is_told(&line, &answer, Code::HoldsFull, AnswerStatus::Error, &what);
    assert_eq!(failed(&line), ["anomaly_payload"]);
    assert!(line.changes.is_empty() && home.ran().is_empty());
}

#[test]
fn halts_close_outgoing_actions_and_nothing_else() {
    let home = GatewayHome::new(NOTED);
    let mut opened = home.open();
    type Set = fn(&GatewayHome, &mut Home, &str);
    let halts: [(&str, Set, Set); 3] = [
        (
            "rules/HALT exists",
            |home, _, _| home.place.disk.put("rules/HALT", b""),
            |home, _, _| {
                home.place.disk.drop_file("rules/HALT");
            },
        ),
        (
            "halted by `owner`",
            |home, opened, id| {
                home.one_as_owner(
                    opened,
                    &format!("{id}-set"),
                    "halt.set",
                    r#"{"reason":"stop"}"#,
                );
            },
            |home, opened, id| {
                let payload = r#"{"scope":"all","reason":"go on"}"#;
                assert_eq!(
                    code(&home.one_as_owner(opened, &format!("{id}-end"), "halt.clear", payload)),
                    ""
                );
            },
        ),
        (
            "halted by `core`",
            |home, opened, id| {
                home.one(
                    opened,
                    &format!("{id}-set"),
                    "halt.set",
                    r#"{"reason":"stop me"}"#,
                );
            },
            |home, opened, id| {
                let payload = r#"{"scope":{"principal":"core"},"reason":"go on"}"#;
                assert_eq!(
                    code(&home.one_as_owner(opened, &format!("{id}-end"), "halt.clear", payload)),
                    ""
                );
            },
        ),
    ];
    for (n, (what, set, end)) in halts.into_iter().enumerate() {
        let id = format!("n-{n}");
        set(&home, &mut opened, &id);
        for (action, payload) in GOOD {
            let answer = home.one(&mut opened, &format!("{id}-{action}"), action, payload);
            let error = answer.error.unwrap();
            assert_eq!(error.code, Code::ChecksFailed, "{what} {action}");
            assert!(
                error
                    .message
                    .starts_with(&format!("check `manual_halt` failed: {what}")),
                "{error:?}"
            );
        }
        assert_eq!(
            code(&home.one(&mut opened, &format!("{id}-query"), "portfolio.get", "{}")),
            "",
            "{what}"
        );
        assert_eq!(home.ran().len(), n, "{what}");
        end(&home, &mut opened, &id);
        assert_eq!(
            code(&home.one(&mut opened, &format!("{id}-after"), "email.send", MAIL)),
            "",
            "{what}"
        );
    }
}

#[test]
fn copies_of_what_was_refused_are_answered_again_and_do_nothing() {
    let home = GatewayHome::with(SERVICES, &gateway(&[exec(&ACTIONS, NOTED, 10)]));
    let mut opened = home.open();
    let call = r#"{"service":"elsewhere","endpoint":"/","method":"GET"}"#;
    home.ask("a", "service.api_call", call);
    let bytes = home.place.disk.get("spool/in/a.json").unwrap();
    settle(&mut opened);
    let answer = home.place.disk.get("spool/out/a.json").unwrap();
    for _ in 0..2 {
        home.put("a", &bytes);
        settle(&mut opened);
        assert_eq!(home.place.disk.get("spool/out/a.json").unwrap(), answer);
        assert!(home.decision("a").unwrap().metadata.replay_of.is_some());
        drop(opened);
        opened = home.open();
    }
    // Even if it is allowed later, it stays refused under this id.
    assert!(home.ran().is_empty());
}
