//! Who may relax what, and when: a desk of persons and agents who decide on one concern, without a
//! gate.

use super::authority::HeldBy;
use super::*;
use spoolgate_rules::Bundle;
use spoolgate_rules::strategies::Strategy;
use spoolgate_wire::control::{
    ControlAttempt, ControlDecision, ControlFault, ModeChange, RiskMode,
};

const CONCERN: &str = "paper:btc-usd";

/// Persons with and without a grant, agents with and without the right to override.
const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: boss, role: human, control: {concerns: ['paper:btc-usd'], override: true}}
  - {name: hermes, role: agent, control: {concerns: ['paper:btc-usd'], override: false}}
  - {name: chief, role: agent, control: {concerns: ['paper:btc-usd'], override: true}}
  - {name: trend-bot, role: agent, strategies: [trend, range]}
";

struct Desk {
    rules: Rulebook,
    state: ControlState,
    now: Time,
    line: u64,
}

impl Desk {
    fn new() -> Desk {
        let text = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let files = [
            text(
                "rules/safety.yaml",
                include_str!("../../../rules/safety.yaml"),
            ),
            text("rules/principals.yaml", PRINCIPALS),
            text(
                "rules/instruments.yaml",
                include_str!("../../../rules/instruments.yaml"),
            ),
            text(
                "rules/strategies/trend.yaml",
                include_str!("../../../rules/strategies/trend.yaml"),
            ),
            text(
                "rules/strategies/range.yaml",
                include_str!("../../../rules/strategies/range.yaml"),
            ),
        ];
        let files = files.into();
        Desk {
            rules: Rulebook::compile(&Bundle { files }).unwrap(),
            state: ControlState::default(),
            now: Time::parse("2026-04-16T20:15:00Z").unwrap(),
            line: 40,
        }
    }

    /// Decides and folds. `what` is the action and further members, as JSON.
    fn send(&mut self, source: &str, what: &str) -> Outcome {
        self.line += 1;
        let text = format!(
            r#"{{"decision_id":"d{}","concern_id":"{CONCERN}","account_id":"paper","market_symbol":"btc-usd","confidence":1,"reason":"EMERGENCY","action":{what}}}"#,
            self.line
        );
        let decision: ControlDecision = ControlAttempt::read(&text).decision.unwrap();
        let source = Principal::parse(source).unwrap();
        let facts = Facts {
            rules: &self.rules,
            state: &self.state,
            source: &source,
            rule: &self.rules.principals[&source],
            payload_hash: "h",
            earlier: None,
            line: self.line,
            now: self.now,
            received_at: self.now,
            halted: None,
            clock_fault: None,
            rulebook_fault: None,
        };
        let sound = |_: &Strategy| Vec::new();
        let none = |_: &Change, _: &[&_]| -> Result<Reconciled, std::fmt::Error> {
            Ok(Reconciled::default())
        };
        let outcome = decide(&decision, &facts, &sound, &none);
        for change in &outcome.changes {
            // As the ledger keeps it.
            let kept = serde_json::to_string(change).unwrap();
            self.state.apply(&serde_json::from_str(&kept).unwrap());
        }
        outcome
    }

    fn pass_ms(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    fn concern(&self) -> ConcernState {
        self.state
            .of(&self.rules, &ConcernId::parse(CONCERN).unwrap())
    }

    fn is_applied(&mut self, source: &str, what: &str) -> bool {
        self.send(source, what).response.status == ControlStatus::Applied
    }

    fn errors(&mut self, source: &str, what: &str) -> Vec<ControlFault> {
        self.send(source, what).response.errors
    }
}

const PAUSE: &str = r#""pause""#;
const RESUME: &str = r#""resume""#;
const TO_RANGE: &str = r#""switch","target_strategy_id":"range""#;
const TO_TREND: &str = r#""switch","target_strategy_id":"trend""#;
const NORMAL: &str = r#""set_risk_mode","risk_mode":"normal""#;
const REDUCED: &str = r#""set_risk_mode","risk_mode":"reduced""#;
const EXITS_ONLY: &str = r#""set_risk_mode","risk_mode":"exits_only""#;

#[test]
fn what_the_owner_paused_only_a_person_resumes() {
    let mut desk = Desk::new();
    assert!(desk.is_applied("owner", PAUSE));
    for what in [RESUME, TO_RANGE, TO_TREND] {
        for (agent, more) in [("hermes", ""), ("chief", r#","override":true"#)] {
            let outcome = desk.send(agent, &format!("{what}{more}"));
            assert_eq!(outcome.response.errors, [ControlFault::HeldByPerson]);
            assert_eq!(
                outcome.message.unwrap(),
                "check `authority` failed: owner paused it at 2026-04-16T20:15:00.000Z (line 41): \
                    EMERGENCY; a person resumes"
            );
        }
    }
    // Its strategy is not chosen for it either, and without a grant nothing else may be decided.
    assert_eq!(
        desk.errors("owner", TO_RANGE),
        [ControlFault::NotAuthorised]
    );
    assert!(desk.is_applied("owner", RESUME));
    assert_eq!(desk.concern().held_by, HeldBy::default());
    assert!(desk.is_applied("hermes", TO_RANGE));
}

#[test]
fn what_the_owner_made_stricter_only_a_person_makes_laxer() {
    let mut desk = Desk::new();
    assert!(desk.is_applied("owner", EXITS_ONLY));
    for what in [TO_RANGE, NORMAL, REDUCED] {
        for (agent, more) in [("hermes", ""), ("chief", r#","override":true"#)] {
            let outcome = desk.send(agent, &format!("{what}{more}"));
            assert_eq!(outcome.response.errors, [ControlFault::HeldByPerson]);
            let message = outcome.message.unwrap();
            assert!(message.contains("owner set its risk mode at"), "{message}");
            assert!(
                message.ends_with("EMERGENCY; a person sets a laxer one"),
                "{message}"
            );
        }
    }
    // Stricter ones stay open to agents, and what a person makes laxer is held at the new mode.
    assert!(desk.is_applied("hermes", PAUSE));
    assert_eq!(desk.errors("hermes", RESUME), [ControlFault::HeldByPerson]);
    assert!(desk.is_applied("owner", REDUCED));
    assert_eq!(desk.errors("hermes", NORMAL), [ControlFault::HeldByPerson]);
    assert!(
        desk.is_applied("hermes", RESUME),
        "only the mode is held, and it is no stop"
    );
    assert!(desk.is_applied("owner", NORMAL));
    assert_eq!(desk.concern().held_by, HeldBy::default());
}

#[test]
fn a_person_holds_also_what_is_that_strict_already() {
    let mut desk = Desk::new();
    for (agent_s, field) in [(PAUSE, "paused"), (EXITS_ONLY, "risk_mode")] {
        assert!(desk.is_applied("hermes", agent_s));
        let outcome = desk.send("owner", agent_s);
        assert_eq!(outcome.response.status, ControlStatus::Applied);
        assert_eq!(outcome.response.result.mode_change, ModeChange::None);
        let held = serde_json::to_value(desk.concern().held_by).unwrap();
        assert_eq!(held[field]["principal"], "owner");
        assert_eq!(held[field]["line"], desk.line);
        // Asking for the same again changes nothing: the first person keeps the hold.
        let line = desk.line;
        for who in ["owner", "boss", "hermes"] {
            let again = desk.send(who, agent_s).response.status;
            assert_eq!(again, ControlStatus::Noop, "{who}");
        }
        let held = serde_json::to_value(desk.concern().held_by).unwrap();
        assert_eq!(held[field]["line"], line);
        let laxer = if field == "paused" { RESUME } else { NORMAL };
        assert_eq!(desk.errors("hermes", laxer), [ControlFault::HeldByPerson]);
        assert_eq!(
            desk.errors("owner", laxer),
            [ControlFault::NotAuthorised],
            "hermes made it that strict"
        );
        assert!(desk.is_applied("boss", laxer));
    }
}

/// Who decides what, in order, before a person without a grant takes the last one back.
type Story = &'static [(&'static str, &'static str)];

#[test]
fn a_person_without_a_grant_takes_back_only_what_that_person_alone_made_stricter() {
    let alone: &[(Story, &str)] = &[
        (&[("owner", PAUSE)], RESUME),
        (&[("owner", PAUSE), ("hermes", PAUSE)], RESUME),
        (&[("owner", REDUCED)], NORMAL),
        (&[("owner", REDUCED), ("owner", EXITS_ONLY)], NORMAL),
        (&[("owner", EXITS_ONLY)], REDUCED),
        (
            &[("boss", PAUSE), ("boss", RESUME), ("owner", PAUSE)],
            RESUME,
        ),
        (&[("boss", REDUCED), ("owner", PAUSE)], RESUME),
    ];
    let shared: &[(Story, &str)] = &[
        (&[("boss", PAUSE), ("owner", PAUSE)], RESUME),
        (&[("hermes", PAUSE), ("owner", PAUSE)], RESUME),
        (&[("owner", PAUSE), ("boss", PAUSE)], RESUME),
        (&[("boss", EXITS_ONLY), ("owner", EXITS_ONLY)], NORMAL),
        (&[("boss", REDUCED), ("owner", EXITS_ONLY)], NORMAL),
        (&[("hermes", REDUCED), ("owner", EXITS_ONLY)], NORMAL),
        (&[("owner", REDUCED), ("hermes", EXITS_ONLY)], NORMAL),
        (&[("owner", REDUCED), ("boss", EXITS_ONLY)], NORMAL),
        (&[("owner", EXITS_ONLY), ("boss", REDUCED)], NORMAL),
        (
            &[("boss", REDUCED), ("owner", EXITS_ONLY), ("owner", PAUSE)],
            REDUCED,
        ),
    ];
    let told = |story: Story, laxer: &str, who: &str| {
        let mut desk = Desk::new();
        for (who, what) in story {
            assert!(desk.send(who, what).response.ok, "{story:?}");
        }
        desk.errors(who, laxer)
    };
    for (story, laxer) in alone {
        assert_eq!(told(story, laxer, "owner"), [], "{story:?}");
    }
    for (story, laxer) in shared {
        let errors = told(story, laxer, "owner");
        assert_eq!(errors, [ControlFault::NotAuthorised], "{story:?}");
        assert_eq!(told(story, laxer, "boss"), [], "{story:?}");
        assert_eq!(
            told(story, laxer, "hermes"),
            [ControlFault::HeldByPerson],
            "{story:?}"
        );
    }
}

#[test]
fn a_decision_that_changes_nothing_relaxes_nothing() {
    let mut desk = Desk::new();
    assert!(desk.is_applied("boss", REDUCED));
    assert!(desk.is_applied("chief", EXITS_ONLY));
    let told = desk.send("hermes", RESUME).response;
    assert_eq!(
        (told.status, told.errors),
        (ControlStatus::Noop, Vec::new())
    );
    let errors = desk.errors("hermes", TO_RANGE);
    assert_eq!(errors, [ControlFault::HeldByPerson]);
}

/// What a person has decided, remembered as simply as possible.
#[derive(Debug, Default)]
struct Naive {
    paused: bool,
    mode: RiskMode,
}

/// A random person's or agent's decision.
fn drawn(dice: &mut impl FnMut(usize) -> usize) -> (&'static str, &'static str) {
    let who = ["boss", "hermes", "chief"][dice(3)];
    let what = [
        PAUSE, RESUME, TO_RANGE, TO_TREND, NORMAL, REDUCED, EXITS_ONLY,
    ][dice(7)];
    (who, what)
}

#[test]
fn no_agent_relaxes_what_a_person_set() {
    let mut seed = 14_u64;
    let mut dice = move |sides: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % sides
    };
    let (mut relaxed, mut refused) = (0, 0);
    let fresh = Desk::new();
    for _ in 0..1000 {
        let mut desk = Desk {
            rules: fresh.rules.clone(),
            state: ControlState::default(),
            ..fresh
        };
        let mut person = Naive::default();
        for _ in 0..20 {
            let (who, what) = drawn(&mut dice);
            let more = if who == "chief" && dice(2) == 0 {
                r#","override":true"#
            } else {
                ""
            };
            // Far enough apart that nothing is too soon.
            desk.pass_ms(700_000);
            let before = desk.concern();
            let response = desk.send(who, &format!("{what}{more}")).response;
            let after = desk.concern();
            if who == "boss" {
                assert!(response.ok, "{response:?}");
                match what {
                    PAUSE => person.paused = true,
                    RESUME | TO_RANGE | TO_TREND => person.paused = false,
                    _ => person.mode = after.risk_mode,
                }
                continue;
            }
            assert!(after.paused || !person.paused, "{who} {what}: {person:?}");
            assert!(after.risk_mode >= person.mode, "{who} {what}: {person:?}");
            let stops = before.risk_mode == RiskMode::ExitsOnly && person.mode != RiskMode::Normal;
            let expected = match what {
                RESUME | TO_RANGE | TO_TREND => {
                    let target = match what {
                        TO_RANGE => Some("range"),
                        TO_TREND => Some("trend"),
                        _ => None,
                    };
                    let current = before.current.as_ref().map(|id| id.as_str());
                    let changes = before.paused || target.is_some_and(|id| current != Some(id));
                    changes && (person.paused || stops)
                }
                NORMAL | REDUCED => {
                    let wanted = if what == NORMAL {
                        RiskMode::Normal
                    } else {
                        RiskMode::Reduced
                    };
                    person.mode != RiskMode::Normal && wanted < before.risk_mode
                }
                _ => false,
            };
            assert_eq!(
                response.errors.contains(&ControlFault::HeldByPerson),
                expected,
                "{who} {what}: {person:?}"
            );
            refused += usize::from(expected);
            let is_laxer = (before.paused && !after.paused) || after.risk_mode < before.risk_mode;
            relaxed += usize::from(is_laxer);
            assert_eq!(response.ok, !expected || response.errors.is_empty());
        }
    }
    assert!(relaxed > 500 && refused > 500, "{relaxed} {refused}");
}

/// A switch to the strategy that is not current, with these further members.
fn switch(desk: &Desk, more: &str) -> String {
    let to_range = desk
        .concern()
        .current
        .is_none_or(|id| id.as_str() == "trend");
    let target = if to_range { TO_RANGE } else { TO_TREND };
    format!("{target}{more}")
}

#[test]
fn requested_at_is_neither_ahead_nor_old() {
    for (off_ms, fault) in [
        (29_999, None),
        (30_000, None),
        (30_001, Some(ControlFault::RequestedAtFuture)),
        (-899_999, None),
        (-900_000, None),
        (-900_001, Some(ControlFault::RequestedAtStale)),
    ] {
        for (who, more) in [("hermes", ""), ("boss", r#","override":true"#)] {
            let mut desk = Desk::new();
            let at = format!(r#","requested_at":"{}"{more}"#, desk.now.plus_ms(off_ms));
            let told = desk.send(who, &switch(&desk, &at)).response;
            assert_eq!(told.errors, Vec::from_iter(fault), "{off_ms}");
            // A safer decision only gets a warning.
            let told = desk.send(who, &format!("{PAUSE}{at}")).response;
            assert_eq!(told.status, ControlStatus::Applied);
            let warned = told
                .warnings
                .iter()
                .any(|w| w.contains("`requested_at` is"));
            assert_eq!(warned, fault.is_some(), "{off_ms}: {:?}", told.warnings);
        }
    }
}

#[test]
fn a_decision_older_than_the_last_one_is_out_of_order() {
    let mut desk = Desk::new();
    let first = desk.now;
    let at = |off_ms: i64| format!(r#","requested_at":"{}""#, first.plus_ms(off_ms));
    assert!(desk.is_applied("hermes", &switch(&desk, &at(0))));
    desk.pass_ms(60_000);
    assert_eq!(
        desk.errors("hermes", &switch(&desk, &at(-1))),
        [ControlFault::OutOfOrder]
    );
    // Each sender has an order of its own, and a time that lies ahead is not part of it.
    assert!(desk.is_applied("boss", &format!("{PAUSE}{}", at(-1))));
    assert!(desk.is_applied("boss", &format!("{RESUME}{}", at(-1))));
    assert!(desk.is_applied("hermes", &format!("{PAUSE}{}", at(1_000_000_000))));
    assert!(desk.is_applied("hermes", &format!("{RESUME}{}", at(0))));
    desk.pass_ms(60_000);
    assert!(desk.is_applied("hermes", &switch(&desk, &at(1))));
    // An absent member is warned of, and forgets nothing.
    desk.pass_ms(60_000);
    let told = desk.send("hermes", &switch(&desk, "")).response;
    assert_eq!(told.status, ControlStatus::Applied);
    assert!(
        told.warnings
            .iter()
            .any(|w| w.starts_with("requested_at is absent"))
    );
    desk.pass_ms(60_000);
    assert_eq!(
        desk.errors("hermes", &switch(&desk, &at(0))),
        [ControlFault::OutOfOrder]
    );
}

#[test]
fn forty_switches_in_two_seconds_are_one() {
    let mut desk = Desk::new();
    let mut told = Vec::new();
    for _ in 0..40 {
        told.push(desk.send("hermes", &switch(&desk, "")).response);
        desk.pass_ms(50);
    }
    assert_eq!(told[0].status, ControlStatus::Applied);
    for late in &told[1..] {
        assert_eq!(late.errors, [ControlFault::TooSoon]);
    }
    assert_eq!(told[1].result.retry_after_ms, Some(60_000 - 50));
    assert_eq!(told[39].result.retry_after_ms, Some(60_000 - 39 * 50));
}

#[test]
fn an_agent_s_change_stays_for_a_minute() {
    for (wait_ms, passes) in [(59_999, false), (60_000, true), (60_001, true)] {
        let mut desk = Desk::new();
        assert!(desk.is_applied("hermes", &switch(&desk, "")));
        desk.pass_ms(wait_ms);
        // Of whichever agent, and whether or not it overrides.
        let told = desk.send("chief", &switch(&desk, r#","override":true"#));
        let fault = Some(ControlFault::TooSoon).filter(|_| !passes);
        assert_eq!(told.response.errors, Vec::from_iter(fault), "{wait_ms}");
        let wait = Some(1).filter(|_| !passes);
        assert_eq!(told.response.result.retry_after_ms, wait);
    }
    // Safer decisions and persons never wait, and do not make agents wait.
    let mut desk = Desk::new();
    assert!(desk.is_applied("hermes", &switch(&desk, "")));
    for who in ["hermes", "boss"] {
        assert!(desk.is_applied(who, REDUCED), "{who}");
        assert!(desk.is_applied("boss", NORMAL));
        assert!(desk.is_applied(who, PAUSE));
        assert!(desk.is_applied("boss", RESUME));
    }
    desk.pass_ms(60_000);
    assert!(desk.is_applied("hermes", &switch(&desk, "")));
}

#[test]
fn agents_change_a_concern_six_times_an_hour() {
    let mut desk = Desk::new();
    let first = desk.now;
    for n in 0..6 {
        let who = ["hermes", "chief"][n % 2];
        assert!(desk.is_applied(who, &switch(&desk, "")), "{n}");
        desk.pass_ms(60_000);
    }
    let told = desk.send("hermes", &switch(&desk, "")).response;
    assert_eq!(told.errors, [ControlFault::TooSoon]);
    let left = 3_600_000 - desk.now.since_ms(first);
    assert_eq!(told.result.retry_after_ms, u64::try_from(left).ok());
    desk.pass_ms(left - 1);
    assert_eq!(
        desk.errors("hermes", &switch(&desk, "")),
        [ControlFault::TooSoon]
    );
    desk.pass_ms(1);
    assert!(desk.is_applied("hermes", &switch(&desk, "")));
    assert_eq!(
        desk.concern().recent.riskier.len(),
        6,
        "nothing older is kept"
    );
    // A clock that a person set back does not close the concern for as long.
    desk.pass_ms(-86_400_000);
    assert!(desk.is_applied("hermes", &switch(&desk, "")));
}

/// A state of an older ledger is read, and nobody holds it.
#[test]
fn an_older_state_is_held_by_nobody() {
    let older = r#"{"current":"trend","paused":true,"risk_mode":"reduced"}"#;
    let read: ConcernState = serde_json::from_str(older).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), older);
    assert_eq!(read.held_by, HeldBy::default());
}
