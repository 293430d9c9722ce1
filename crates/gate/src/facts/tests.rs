//! Every field has an extractor for each of its actions, is missing exactly as its row states, and
//! follows the formulas.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::*;
use crate::actions::{self, Rules};
use crate::prepare::read_body;
use crate::{Lookups, State};
use spoolgate_control::ConcernState;
use spoolgate_host::rule_folder;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::field::{FIELDS, Kind, Missing, RULED_ACTIONS, find};
use spoolgate_trading::book::{Baseline, Given, Last, Market, Quote, Traded};
use spoolgate_trading::conduct::Conduct;
use spoolgate_trading::order::Position;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::control::RiskMode;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{ControlId, Principal, Regime, RequestId, StrategyName, Symbol};

const NOW: &str = "2026-02-21T12:34:56.789Z";

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn at(text: &str) -> Time {
    Time::parse(text).unwrap()
}

/// The rulebook in this repository, with a concern.
fn rulebook() -> Rulebook {
    let mut bundle =
        rule_folder::load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap();
    let trend = bundle.files.get_mut("rules/strategies/trend.yaml").unwrap();
    *trend = trend
        .lines()
        .filter(|line| !line.starts_with("account:") && !line.starts_with("market:"))
        .map(|line| format!("{line}\n"))
        .collect::<String>()
        + "account: paper\nmarket: btc-usd\n";
    let service = |name: &str, more: &str| {
        format!(
            "  - {{service: {name}, host: {name}.example.com, protocol: https, {more}, added_at: \
                2026-01-01T00:00:00Z, added_by: owner, is_active: true}}\n"
        )
    };
    let mail = service(
        "mail",
        &format!(
            "actions: [{}]",
            spoolgate_rules::services::BY_ACTION.join(", ")
        ),
    );
    let bank = service("bank", "methods: [GET, POST]");
    bundle.files.insert(
        spoolgate_rules::services::PATH.to_owned(),
        format!("services:\n{mail}{bank}"),
    );
    Rulebook::compile(&bundle).unwrap()
}

fn request(action: &str, payload: &str) -> Authentic {
    let request = unread(action, payload);
    assert!(
        request.body.is_ok() || actions::find(action).is_none(),
        "{action}: {:?}",
        request.body
    );
    request
}

/// A request whose payload may be of the wrong shape.
fn unread(action: &str, payload: &str) -> Authentic {
    let envelope = Envelope {
        id: RequestId::parse("r1").unwrap(),
        timestamp_text: "2026-02-21T12:34:56Z".to_owned(),
        timestamp: at("2026-02-21T12:34:56Z"),
        action: action.to_owned(),
        payload: payload.to_owned(),
        source: Principal::parse("trend-bot").unwrap(),
        signature: "ab".to_owned(),
        causality: None,
    };
    let body = read_body(&envelope, payload.len(), &|_| None);
    let hash = String::new();
    Authentic {
        envelope,
        key_id: hash.clone(),
        payload_hash: hash.clone(),
        request_hash: hash,
        body,
    }
}

const ORDER: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.5","order_type":"limit","price":"101","stop_price":"90","thesis_slug":"t","planned_entry":"100","planned_stop":"90","target_price":"122","time_in_force":"day"}"#;
const ADMISSION: &str = r#"{"envelope":{"tenant_id":"t","surface_id":"s","policy_profile_id":"p","payload_kind":"work_order","payload":{"target":"here","artifact_size_bytes":7},"causality":{"root_task_id":"r","parent_task_id":null,"spawn_depth":3,"capability_id":"c","recursion_budget_remaining":4}},"forward":true}"#;
const CONTROL: &str = r#"{"decision_id":"d","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"switch","target_strategy_id":"trend","expected_active_strategy_id":"range","risk_mode":"reduced","reason":"because","confidence":0.83,"override":true,"dry_run":true}"#;
const COUNCIL: &str = r#"{"request_id":"c","timestamp":"2026-02-21T12:00:00Z","proposer":"Ann","change_type":"FREEZE_SPEC","context":{"summary":"less","files_changed":["a.py"],"key_metrics":{"sharpe":1}},"artifacts":{"diff_content":"+x","spec_content":"s"},"returns":[0.1]}"#;
const MAIL: &str = r#"{"to":["a@b.com","c@d.com"],"cc":["e@f.com"],"subject":"hi","body":"see https:\/\/x.com","replyToMessageId":"m"}"#;
const EVENT: &str = r#"{"calendarId":"work","title":"t","startTime":"2026-02-21T13:34:56Z","endTime":"2026-02-21T14:34:56Z","description":"d","attendees":["a@b.com"]}"#;
const CALL: &str = r#"{"service":"bank","endpoint":"/users/eve/pay","method":"POST","headers":{"X-A":"1"},"body":{"to":["IBAN",{"n":12.50}],"ok":true,"amount":"7.5","url":"https://x.com"}}"#;

/// For each ruled action, a payload with every member, and one with as few as its schema allows.
const PAYLOADS: &[(&str, &str, &str)] = &[
    (
        "order.submit",
        ORDER,
        r#"{"strategy":"gone","symbol":"NONE","side":"sell","size":1,"order_type":"market","thesis_slug":"t","planned_entry":100,"planned_stop":110}"#,
    ),
    (
        "council.request",
        COUNCIL,
        r#"{"request_id":"c","timestamp":"2026-02-21T12:00:00Z","proposer":"Ann","change_type":"FREEZE_SPEC","context":{"summary":"less"}}"#,
    ),
    (
        "control.apply",
        CONTROL,
        r#"{"decision_id":"d","concern_id":"x:y","account_id":"x","market_symbol":"y","action":"pause","reason":"because","confidence":1}"#,
    ),
    (
        "admission.evaluate",
        ADMISSION,
        r#"{"envelope":{"tenant_id":"t","surface_id":"s","policy_profile_id":"p","payload_kind":"lease","payload":{}}}"#,
    ),
    (
        "admission.admit",
        ADMISSION,
        r#"{"envelope":{"tenant_id":"t","surface_id":"s","policy_profile_id":"p","payload_kind":"work_order","payload":{},"causality":{"root_task_id":"r","parent_task_id":"q","capability_id":"c"}}}"#,
    ),
    (
        "email.fetch",
        r#"{"folder":"Sent","limit":7,"since":"2026-02-21T12:04:56.789Z"}"#,
        "{}",
    ),
    (
        "email.send",
        MAIL,
        r#"{"to":["a@b.com"],"subject":"","body":""}"#,
    ),
    ("email.draft", MAIL, r#"{"to":[],"subject":"","body":""}"#),
    (
        "calendar.fetch",
        r#"{"calendarId":"work","startDate":"2026-02-20T12:34:56.789Z","endDate":"2026-02-21T12:34:56.789Z"}"#,
        r#"{"startDate":"2026-02-20T12:34:56.789Z","endDate":"2026-02-21T12:34:56.789Z"}"#,
    ),
    (
        "calendar.create",
        EVENT,
        r#"{"title":"t","startTime":"2026-02-21T12:34:56Z","endTime":"2026-02-21T12:34:57Z"}"#,
    ),
    (
        "calendar.update",
        EVENT,
        r#"{"title":"t","startTime":"2026-02-21T12:34:56Z","endTime":"2026-02-21T12:34:57Z"}"#,
    ),
    (
        "finance.fetch_transactions",
        r#"{"accountId":"main","limit":25}"#,
        "{}",
    ),
    (
        "health.fetch",
        r#"{"dataType":"steps","startDate":"2026-02-21T12:34:56.789Z"}"#,
        r#"{"dataType":"steps"}"#,
    ),
    (
        "service.api_call",
        CALL,
        r#"{"service":"bank","endpoint":"/","method":"GET"}"#,
    ),
];

fn market(now: Time) -> Market {
    let closes = (0..21)
        .map(|n| Traded(if n == 20 { a("100") } else { a("100.5") }, Some(a("2"))))
        .collect();
    Market {
        last: Some(Last {
            price: a("100"),
            volume: Some(a("2")),
            time: now,
        }),
        quote: Some(Quote {
            bid: a("100"),
            ask: a("100.2"),
            time: now,
        }),
        bars: closes,
        rates: (0..21)
            .map(|n| Amount::from_i64(n).checked_mul(a("0.0001")).unwrap())
            .collect(),
        funded: Some(now),
        regime: Some(Given {
            regime: Regime::parse("calm").unwrap(),
            at: now.plus_ms(-125_000),
        }),
        reached: None,
        held: None,
    }
}

/// A state in which everything is known.
fn full() -> State {
    let (now, mut state) = (at(NOW), State::default());
    let (symbol, strategy) = (
        Symbol::parse("BTC-USD").unwrap(),
        StrategyName::parse("trend").unwrap(),
    );
    let book = &mut state.book;
    book.markets.insert(symbol.clone(), market(now));
    book.account.cash = a("1000");
    book.account.peak_equity = Some(a("1600"));
    let baseline = |start, equity| {
        Some(Baseline {
            start,
            equity: a(equity),
            net_deposits: Amount::ZERO,
            counts: true,
        })
    };
    book.account.day = baseline(now.day_start(), "1150");
    book.account.week = baseline(now.week_start(), "1250");
    let position = Position {
        strategy: strategy.clone(),
        symbol: symbol.clone(),
        size: a("2"),
        cost: a("190"),
        result: a("-1"),
        increased_at: now.plus_ms(-600_000),
        theses: BTreeSet::new(),
        held_at: None,
        dropped: None,
        unfilled_at: None,
    };
    book.positions.insert((symbol, strategy.clone()), position);
    let mut conduct = Conduct {
        losing: 3,
        stopped_out_at: Some(now.plus_ms(-180_000)),
        ..Conduct::default()
    };
    conduct.executions.push_back(now.plus_ms(-1));
    book.conduct.insert(strategy, conduct);
    state.council.open = 5;
    let concern = spoolgate_wire::ids::ConcernId::parse("paper:btc-usd").unwrap();
    let current = Some(ControlId::parse("trend").unwrap());
    let decided = ConcernState {
        current,
        paused: true,
        risk_mode: RiskMode::Reduced,
        ..ConcernState::default()
    };
    state.control.concerns.insert(concern, decided);
    state
}

/// The facts of every field that the action has, by the name that rules use.
fn all<'a>(
    state: &'a State,
    rules: &'a Rulebook,
    authentic: &'a Authentic,
) -> BTreeMap<&'static str, Fact<'a>> {
    let lookups = Box::leak(Box::new(Lookups::default()));
    let turn = Turn {
        state,
        rules,
        lookups,
        now: at(NOW),
        seq: 7,
        granted: None,
    };
    let action = authentic.envelope.action.as_str();
    let fields = FIELDS.iter().filter(|field| field.is_of(action));
    let readings: Vec<Reading> = fields.map(Reading::Field).collect();
    let facts = facts(&turn, authentic, &readings);
    readings
        .iter()
        .zip(facts)
        .map(|(reading, fact)| match reading {
            Reading::Field(field) => (field.name, fact),
            _ => panic!(),
        })
        .collect()
}

fn is_of_kind(kind: Kind, value: &Value<'_>) -> bool {
    match (kind, value) {
        (Kind::Flag, Value::Flag(_)) => true,
        (Kind::Number(..), Value::Number(n)) => kind.ends().holds(*n),
        (Kind::Whole(..), Value::Number(n)) => {
            n.is_multiple_of(Amount::ONE) == Some(true) && kind.ends().holds(*n)
        }
        (Kind::TimeOfDay, Value::Number(n)) => (Amount::ZERO..Amount::from_i64(1440)).contains(n),
        (Kind::Word(known), Value::Text(text)) => known.contains(&text.as_ref()),
        (Kind::Name(_) | Kind::Text | Kind::Host | Kind::Address, Value::Text(_)) => true,
        _ => false,
    }
}

#[test]
fn every_field_has_an_extractor_for_each_of_its_actions() {
    let rules = rulebook();
    let bare = Rulebook {
        services: spoolgate_rules::services::Services::default(),
        ..rulebook()
    };
    let (empty, full, mut blind) = (State::default(), full(), full());
    blind.book.markets.clear();
    let covered: Vec<&str> = PAYLOADS.iter().map(|(action, ..)| *action).collect();
    assert_eq!(covered, RULED_ACTIONS);
    let (mut seen_absent, mut seen_unknown) = (BTreeSet::new(), BTreeSet::new());
    for (action, most, least) in PAYLOADS {
        for (name, fact) in all(&full, &rules, &request(action, most)) {
            let field = find(name).unwrap();
            let values = match (&fact, field.is_many) {
                (Fact::Many(values), true) => values.clone(),
                (Fact::Known(value), false) => vec![value.clone()],
                _ => panic!("{action} {name} is {fact:?}"),
            };
            assert!(!values.is_empty(), "{action} {name}");
            assert!(
                values.iter().all(|value| is_of_kind(field.kind, value)),
                "{action} {name}: {values:?}"
            );
        }
        let (most, least) = (request(action, most), request(action, least));
        let both = all(&empty, &rules, &least)
            .into_iter()
            .chain(all(&blind, &bare, &most));
        for (name, fact) in both {
            let field = find(name).unwrap();
            match fact {
                Fact::Unknown(why) => {
                    assert_eq!(field.missing, Missing::Unknown, "{action} {name}: {why}");
                    assert!(why != NO_SUCH && !why.is_empty(), "{name}");
                    seen_unknown.insert(name);
                }
                Fact::Absent => {
                    assert_eq!(field.missing, Missing::Absent, "{action} {name}");
                    seen_absent.insert(name);
                }
                Fact::Known(_) => assert!(!field.is_many, "{action} {name}"),
                Fact::Many(_) => assert!(field.is_many, "{action} {name}"),
            }
        }
    }
    for field in FIELDS {
        let (absent, unknown) = (
            seen_absent.contains(field.name),
            seen_unknown.contains(field.name),
        );
        assert_eq!(
            (absent, unknown),
            (
                field.missing == Missing::Absent,
                field.missing == Missing::Unknown
            ),
            "{}",
            field.name
        );
    }
}

#[test]
fn protective_actions_and_queries_have_no_rules() {
    for (name, expect) in [
        ("order.submit", Rules::Entries),
        ("control.apply", Rules::UnlessSafer),
        ("order.cancel", Rules::No),
        ("order.tighten_stop", Rules::No),
        ("council.verdict", Rules::No),
        ("halt.clear", Rules::No),
    ] {
        assert_eq!(actions::find(name).unwrap().rules_apply, expect, "{name}");
    }
}

#[test]
fn facts_of_an_order_by_hand() {
    let (rules, state) = (rulebook(), full());
    let order = request("order.submit", ORDER);
    let facts = all(&state, &rules, &order);
    let instrument = &rules.instruments[&Symbol::parse("BTC-USD").unwrap()];
    let safety = &rules.safety;
    let number = |name: &str| match &facts[name] {
        Fact::Known(Value::Number(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    let text = |name: &str| match &facts[name] {
        Fact::Known(Value::Text(text)) => text.to_string(),
        other => panic!("{name}: {other:?}"),
    };
    // The limit of 101 is marketable.
    let ask = a("100.2");
    let worst = ask
        .checked_mul(Amount::ONE.checked_add(*safety.entry_slippage).unwrap())
        .unwrap()
        .min(a("101"));
    assert_eq!(
        (number("market.ask"), number("order.worst_entry")),
        (ask, worst)
    );
    assert_eq!(number("order.notional"), a("50.5"));
    let equity = a("1200");
    assert_eq!(number("portfolio.equity"), equity);
    let base = equity.min(*safety.max_total_capital);
    assert_eq!(number("portfolio.capital_base"), base);
    assert_eq!(number("order.notional_fraction"), ratio(a("50.5"), base));
    let distance = worst.checked_sub(a("90")).unwrap();
    assert_eq!(number("order.stop_distance"), ratio(distance, worst));
    assert_eq!(
        number("order.reward_ratio"),
        ratio(a("122").checked_sub(worst).unwrap(), distance)
    );
    assert_eq!(
        number("order.plan_slippage"),
        ratio(worst.checked_sub(a("100")).unwrap(), a("100"))
    );
    let fees = worst
        .checked_add(a("90"))
        .unwrap()
        .checked_mul(*instrument.taker_fee)
        .unwrap();
    let slip = a("90").checked_mul(*safety.stop_slippage).unwrap();
    let each = distance
        .checked_add(fees)
        .unwrap()
        .checked_add(slip)
        .unwrap();
    let risk = each.checked_mul(a("0.5")).unwrap();
    assert_eq!(
        (number("order.risk"), number("order.risk_fraction")),
        (risk, ratio(risk, base))
    );
    assert_eq!(
        (number("position.size"), number("position.notional")),
        (a("2"), a("200"))
    );
    assert_eq!(
        (number("position.unrealised"), number("position.result")),
        (a("10"), a("-1"))
    );
    assert_eq!(number("position.minutes_since_increase"), a("10"));
    assert_eq!(text("position.side"), "long");
    assert_eq!(
        (
            number("portfolio.day_result"),
            number("portfolio.week_result")
        ),
        (a("50"), a("-50"))
    );
    assert_eq!(number("portfolio.drawdown"), a("0.25"));
    assert_eq!(
        (
            number("strategy.loss_streak"),
            number("strategy.minutes_since_stop_out")
        ),
        (a("3"), a("3"))
    );
    assert_eq!(
        (text("strategy.status"), text("strategy.risk_mode")),
        ("paused".into(), "reduced".into())
    );
    assert_eq!(
        (number("time.of_day"), text("time.weekday").as_str()),
        (a("754"), "sat")
    );
    assert_eq!(
        (number("time.day_of_month"), number("request.age_ms")),
        (a("21"), a("789"))
    );
    assert_eq!(
        (
            number("market.minutes_in_regime"),
            text("market.regime").as_str()
        ),
        (a("2"), "calm")
    );
    assert_eq!(text("request.role"), "agent");
}

fn ratio(part: Amount, whole: Amount) -> Amount {
    spoolgate_trading::facts::ratio(part, whole).unwrap()
}

#[test]
fn another_size_changes_only_what_depends_on_it() {
    let (rules, state, lookups) = (rulebook(), full(), Lookups::default());
    let turn = Turn {
        state: &state,
        rules: &rules,
        lookups: &lookups,
        now: at(NOW),
        seq: 7,
        granted: None,
    };
    let order = request("order.submit", ORDER);
    let fields = FIELDS
        .iter()
        .filter(|field| field.actions.contains(&ActionName::OrderSubmit));
    let readings: Vec<Reading> = fields.map(Reading::Field).collect();
    let mut source = Source::new(&turn, &order);
    let before = source.facts(&readings);
    source.resize(a("0.25"));
    for ((reading, before), after) in readings.iter().zip(before).zip(source.facts(&readings)) {
        assert_eq!(before != after, is_by_size(reading), "{reading}");
    }
}

fn texts(values: &[&str]) -> Fact<'static> {
    Fact::Many(
        values
            .iter()
            .map(|text| Value::Text((*text).to_owned().into()))
            .collect(),
    )
}

#[test]
fn payloads_are_read_by_path() {
    let (rules, state) = (rulebook(), State::default());
    let (mail, call) = (
        request("email.send", MAIL),
        request("service.api_call", CALL),
    );
    let facts = all(&state, &rules, &mail);
    assert_eq!(
        facts["payload.recipients"],
        texts(&["a@b.com", "c@d.com", "e@f.com"])
    );
    assert_eq!(
        facts["payload.body"],
        Fact::text("see https://x.com"),
        "escapes are undone"
    );
    let facts = all(&state, &rules, &call);
    let all_texts = [
        "amount",
        "7.5",
        "ok",
        "to",
        "IBAN",
        "n",
        "12.50",
        "url",
        "https://x.com",
    ];
    assert_eq!(facts["payload.body_texts"], texts(&all_texts));
    assert_eq!(facts["payload.body_to"], texts(&["IBAN", "n", "12.50"]));
    assert_eq!(facts["payload.endpoint_to"], texts(&["eve"]));
    assert_eq!(facts["payload.body_hosts"], texts(&["https://x.com"]));
    assert_eq!(facts["payload.body_amount"], Fact::number(a("7.5")));
    assert_eq!(facts["payload.header_names"], texts(&["X-A"]));
    assert_eq!(facts["payload.host"], Fact::text("bank.example.com"));
    assert_eq!(facts["payload.header_values"], texts(&["1"]));
    for (action, payload, name, expect) in [
        ("email.fetch", "{}", "payload.limit", "50"),
        (
            "email.fetch",
            r#"{"since":"2026-02-21T12:04:56.789Z"}"#,
            "payload.minutes_back",
            "30",
        ),
        (
            "finance.fetch_transactions",
            r#"{"limit":250}"#,
            "payload.limit",
            "250",
        ),
        ("calendar.create", EVENT, "payload.minutes_ahead", "59"),
        ("calendar.create", EVENT, "payload.minutes_long", "60"),
    ] {
        let request = request(action, payload);
        assert_eq!(
            all(&state, &rules, &request)[name],
            Fact::number(a(expect)),
            "{action} {name}"
        );
    }
}

#[test]
fn a_fact_with_a_wrong_type_or_a_missing_member_is_unknown() {
    let (rules, state) = (rulebook(), State::default());
    for (action, payload, name) in [
        ("email.send", r#"{"to":"a@b.com"}"#, "payload.to"),
        ("email.send", r#"{"to":["a@b.com",7]}"#, "payload.to"),
        (
            "email.send",
            r#"{"to":["a@b.com",null]}"#,
            "payload.recipients",
        ),
        (
            "email.send",
            r#"{"to":["a@b.com"],"cc":null}"#,
            "payload.recipients",
        ),
        (
            "email.send",
            r#"{"to":["a@b.com"],"cc":"e@f.com"}"#,
            "payload.cc",
        ),
        ("email.send", "{}", "payload.to"),
        ("email.send", "{}", "payload.body"),
        ("email.send", r#"{"body":{"text":"x"}}"#, "payload.body"),
        ("email.send", r#"{"subject":null}"#, "payload.subject"),
        ("email.fetch", r#"{"limit":"50"}"#, "payload.limit"),
        ("email.fetch", r#"{"limit":1e9}"#, "payload.limit"),
        (
            "email.fetch",
            r#"{"since":"yesterday"}"#,
            "payload.minutes_back",
        ),
        ("email.fetch", r#"{"folder":7}"#, "payload.folder"),
        (
            "calendar.create",
            r#"{"startTime":"2026-02-21T12:04:56Z"}"#,
            "payload.minutes_long",
        ),
        ("calendar.create", "{}", "payload.minutes_ahead"),
        (
            "service.api_call",
            r#"{"headers":["x"]}"#,
            "payload.header_names",
        ),
        (
            "service.api_call",
            r#"{"headers":{"x":7}}"#,
            "payload.header_values",
        ),
        (
            "service.api_call",
            r#"{"method":"TRACE"}"#,
            "payload.method",
        ),
        ("service.api_call", r#"{"method":"get"}"#, "payload.method"),
        ("control.apply", "{}", "control.action"),
        ("control.apply", r#"{"action":"pause"}"#, "control.target"),
        ("admission.admit", "{}", "admission.tenant"),
        (
            "admission.admit",
            r#"{"envelope":{}}"#,
            "admission.capability",
        ),
        ("email.fetch", r#"{"limit":0}"#, "payload.limit"),
        (
            "finance.fetch_transactions",
            r#"{"limit":2.5}"#,
            "payload.limit",
        ),
        (
            "service.api_call",
            r#"{"service":"shop","endpoint":"/","method":"GET"}"#,
            "payload.host",
        ),
        (
            "service.api_call",
            r#"{"service":"bank","endpoint":"/","method":"PUT"}"#,
            "payload.host",
        ),
    ] {
        let request = unread(action, payload);
        let facts = all(&state, &rules, &request);
        assert!(
            matches!(facts[name], Fact::Unknown(_)),
            "{action} {payload} {name}: {:?}",
            facts[name]
        );
    }
}
