//! Turns a witness of a comparison into a request that can be tried. Facts that no request can
//! contain are listed separately.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use spoolgate_gate::actions;
use spoolgate_gate::prepare::Authentic;
use spoolgate_rules::Rulebook;
use spoolgate_rules::golden::name_of;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::principals::Role;
use spoolgate_rules::proof::Witness;
use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::field::Missing;
use spoolgate_rules::rule::ruleset::missing;
use spoolgate_rules::rule::{Around, Entries, Fact, Reading, RuleSet, Then, Value};
use spoolgate_rules::strategies::{Direction, StrategyStatus};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId, StrategyName, Symbol};

use super::facts;

/// What a rulebook does to a witness, and which rules do it.
pub(super) struct Verdict {
    /// The strictest effect of any rule in force; `None` if no rule acts.
    pub then: Option<Then>,
    /// The rules in force that act.
    pub rules: Vec<String>,
}

impl Verdict {
    /// Evaluates the rules on the facts of a witness.
    pub(super) fn of(rules: &RuleSet, witness: &Witness) -> Verdict {
        let Some(program) = rules.programs.get(&witness.action) else {
            return Verdict {
                then: None,
                rules: Vec::new(),
            };
        };
        let of = |reading: &Reading| {
            let found = witness.facts.iter().find(|(other, _)| other == reading);
            found.map_or(
                Fact::Unknown("the witness does not contain it".into()),
                |(_, fact)| fact.clone(),
            )
        };
        let facts: Vec<Fact<'static>> = program.readings.iter().map(of).collect();
        let mut entries = Entries::default();
        for (set, value) in &witness.approved {
            if let Ok(by) = Principal::parse("somebody") {
                let entry = Entry {
                    by,
                    until: None,
                    task: None,
                };
                entries.insert(set.clone(), value.clone(), entry, witness.now);
            }
        }
        let around = Around {
            now: witness.now,
            entries: &entries,
            task: None,
        };
        let findings = program.findings(&facts, &around);
        let acting = findings
            .iter()
            .filter_map(|finding| Some((finding.act()?, finding.guard.id.to_string())));
        let (thens, rules): (Vec<Then>, Vec<String>) = acting.unzip();
        Verdict {
            then: thens.into_iter().max(),
            rules,
        }
    }

    /// Returns the verdict in one word.
    pub(super) fn word(&self) -> &'static str {
        match self.then {
            None => "accept",
            Some(Then::Warn) => "warn",
            Some(Then::Hold) => "hold",
            Some(Then::Reject) => "reject",
        }
    }
}

/// Returns a witness that is as ordinary as possible: without optional fields, and with a strategy
/// that may enter. Both rulebooks still do the same to it.
pub(super) fn plainer(
    rulebook: &Rulebook,
    before: &RuleSet,
    after: &RuleSet,
    witness: &Witness,
) -> Witness {
    let verdicts = |witness: &Witness| {
        (
            Verdict::of(before, witness).then,
            Verdict::of(after, witness).then,
        )
    };
    let wanted = verdicts(witness);
    let mut plain = witness.clone();
    let mut try_it = |facts: Vec<(Reading, Fact<'static>)>| {
        let changed = Witness {
            facts,
            ..plain.clone()
        };
        let is_same = verdicts(&changed) == wanted;
        if is_same {
            plain = changed;
        }
        is_same
    };
    let with = |facts: &[(Reading, Fact<'static>)], name: &str, fact: &Fact<'static>| {
        let each = facts.iter().map(|(reading, old)| {
            let is_meant = name_of(reading) == name;
            (*reading, if is_meant { fact.clone() } else { old.clone() })
        });
        each.collect::<Vec<_>>()
    };
    let mut facts = witness.facts.clone();
    for (reading, _) in witness
        .facts
        .iter()
        .filter(|(reading, _)| missing(reading) == Missing::Absent)
    {
        let left_out = with(&facts, &name_of(reading), &Fact::Absent);
        if try_it(left_out.clone()) {
            facts = left_out;
        }
    }
    let active = rulebook.theses.values().filter(|thesis| {
        rulebook
            .strategies
            .get(&thesis.strategy)
            .is_some_and(|it| it.status == StrategyStatus::Active)
    });
    for thesis in active {
        let side = if thesis.direction == Direction::Long {
            "buy"
        } else {
            "sell"
        };
        let usual = [
            ("strategy.name", thesis.strategy.to_string()),
            ("order.symbol", thesis.symbol.to_string()),
            ("order.side", side.to_owned()),
        ];
        let mut changed = facts.clone();
        for (name, value) in usual {
            changed = with(&changed, name, &Fact::text(value));
        }
        if try_it(changed) {
            break;
        }
    }
    plain
}

/// The request made from a witness.
pub(super) struct Made {
    /// The unsigned request; `None` if no request of this action has these facts.
    pub request: Option<Json>,
    /// Facts that are not part of a request, or that differ in the request.
    pub outside: Vec<String>,
}

/// The last known prices, by symbol.
pub(super) type Prices = BTreeMap<Symbol, Amount>;

/// Makes a request from the facts that a request determines. Open fields are chosen so that the
/// request is well-formed, and near the last price if it is known.
pub(super) fn request(rulebook: &Rulebook, prices: &Prices, witness: &Witness) -> Made {
    let all = || {
        witness
            .facts
            .iter()
            .map(|(reading, _)| name_of(reading))
            .collect()
    };
    let made = match witness.action.parse() {
        Ok(ActionName::OrderSubmit) => order(rulebook, prices, witness),
        _ => plain(rulebook, witness),
    };
    let Some((source, payload)) = made else {
        return Made {
            request: None,
            outside: all(),
        };
    };
    let Some(authentic) = envelope(witness, &source, &payload).map(Authentic::unsigned) else {
        return Made {
            request: None,
            outside: all(),
        };
    };
    if actions::find(&witness.action).is_some() && authentic.body.is_err() {
        return Made {
            request: None,
            outside: all(),
        };
    }
    let readings: Vec<Reading> = witness.facts.iter().map(|(reading, _)| *reading).collect();
    let found = facts::alone(rulebook, &authentic, witness.now, &readings);
    let outside = witness
        .facts
        .iter()
        .zip(found)
        .filter(|((reading, wanted), found)| {
            !facts::is_of_request(reading)
                || facts::view(reading, wanted) != facts::view(reading, found)
        });
    let outside = outside.map(|((reading, _), _)| name_of(reading)).collect();
    let request = json!({ "action": witness.action, "source": source, "payload": payload });
    Made {
        request: Some(request),
        outside,
    }
}

fn envelope(witness: &Witness, source: &str, payload: &Json) -> Option<Envelope> {
    Some(Envelope {
        id: RequestId::parse("witness").ok()?,
        timestamp_text: witness.now.to_string(),
        timestamp: witness.now,
        action: witness.action.clone(),
        payload: payload.to_string(),
        source: Principal::parse(source).ok()?,
        signature: String::new(),
        causality: None,
    })
}

/// Returns sender and payload of an action whose fields are members of its payload.
fn plain(rulebook: &Rulebook, witness: &Witness) -> Option<(String, Json)> {
    let agent = rulebook
        .principals
        .values()
        .find(|rule| rule.role == Role::Agent);
    let mut source = agent.map(|rule| rule.name.to_string());
    let mut payload = Map::new();
    for (reading, fact) in &witness.facts {
        let name = reading.to_string();
        match (name.strip_prefix("payload."), fact) {
            (Some(member), Fact::Known(_) | Fact::Many(_)) if facts::is_of_request(reading) => {
                payload.insert(member.to_owned(), facts::view(reading, fact));
            }
            (None, Fact::Known(Value::Text(text))) if name == "request.source" => {
                source = Some(text.to_string());
            }
            _ => {}
        }
    }
    Some((source?, Json::Object(payload)))
}

/// Returns a size whose value is well above the smallest tradable value.
fn least_size(instrument: &Instrument, price: Amount) -> Amount {
    let two = Amount::from_i64(2);
    let wanted = instrument
        .min_notional
        .checked_mul(two)
        .unwrap_or(*instrument.min_notional);
    let mut size = *instrument.min_size;
    while let Some(next) = size.checked_mul(two)
        && next <= *instrument.max_size
        && size.checked_mul(price).is_some_and(|value| value < wanted)
    {
        size = next;
    }
    size
}

/// The facts of a counterexample, by name.
struct Facts<'a>(BTreeMap<String, &'a Fact<'static>>);

impl Facts<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name) {
            Some(Fact::Known(Value::Text(text))) => Some(text.to_string()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<Amount> {
        match self.0.get(name) {
            Some(Fact::Known(Value::Number(number))) => Some(*number),
            _ => None,
        }
    }
}

/// Who orders what under which thesis.
struct Ordered {
    source: String,
    strategy: String,
    symbol: String,
    side: String,
    thesis: String,
}

/// Completes what the facts leave open with names of the rulebook, so that as few other checks as
/// possible refuse the order.
fn ordered(rulebook: &Rulebook, facts: &Facts<'_>) -> Option<Ordered> {
    let wanted = (facts.text("strategy.name"), facts.text("order.symbol"));
    let may_enter = |name: &StrategyName| {
        let thesis = rulebook
            .theses
            .values()
            .find(|thesis| thesis.strategy == *name);
        let status = rulebook.strategies.get(name).map(|it| it.status);
        (thesis.is_none(), status != Some(StrategyStatus::Active))
    };
    let mut strategies: Vec<_> = rulebook.strategies.values().collect();
    strategies.sort_by_key(|strategy| may_enter(&strategy.name));
    let strategy = strategies.into_iter().find(|strategy| {
        wanted
            .0
            .as_ref()
            .is_none_or(|name| name == strategy.name.as_str())
            && wanted
                .1
                .as_ref()
                .is_none_or(|symbol| strategy.instruments.iter().any(|it| it.as_str() == symbol))
    });
    let name = wanted
        .0
        .or_else(|| strategy.map(|strategy| strategy.name.to_string()))?;
    let symbol = wanted
        .1
        .or_else(|| strategy?.instruments.first().map(ToString::to_string))?;
    let owner = rulebook.principals.values().find(|rule| {
        rule.role == Role::Agent && rule.strategies.iter().any(|own| own.as_str() == name)
    });
    let source = facts
        .text("request.source")
        .or_else(|| owner.map(|rule| rule.name.to_string()))?;
    let side = facts.text("order.side").unwrap_or_else(|| {
        let is_short_only = strategy.is_some_and(|it| !it.directions.contains(&Direction::Long));
        if is_short_only { "sell" } else { "buy" }.to_owned()
    });
    let direction = if side == "buy" {
        Direction::Long
    } else {
        Direction::Short
    };
    let thesis = rulebook.theses.values().find(|thesis| {
        thesis.strategy.as_str() == name
            && thesis.symbol.as_str() == symbol
            && thesis.direction == direction
    });
    let thesis = thesis.map_or_else(|| "a-thesis".to_owned(), |thesis| thesis.slug.to_string());
    let thesis = facts.text("order.thesis").unwrap_or(thesis);
    Some(Ordered {
        source,
        strategy: name,
        symbol,
        side,
        thesis,
    })
}

/// Returns sender and payload of an order with these facts.
fn order(rulebook: &Rulebook, prices: &Prices, witness: &Witness) -> Option<(String, Json)> {
    let named = witness.facts.iter();
    let facts = Facts(
        named
            .map(|(reading, fact)| (name_of(reading), fact))
            .collect(),
    );
    let number = |name: &str| facts.number(name);
    let Ordered {
        source,
        strategy,
        symbol,
        side,
        thesis,
    } = ordered(rulebook, &facts)?;
    let order_type = facts.text("order.order_type").unwrap_or_else(|| {
        if matches!(facts.0.get("order.price"), Some(Fact::Absent)) {
            "market"
        } else {
            "limit"
        }
        .to_owned()
    });
    let instrument = rulebook
        .instruments
        .values()
        .find(|it| it.symbol.as_str() == symbol);
    let on_tick = |price: Amount| {
        instrument
            .and_then(|it| price.round_down_to(*it.tick))
            .unwrap_or(price)
    };
    let last = prices
        .iter()
        .find(|(of, _)| of.as_str() == symbol)
        .map(|(_, price)| on_tick(*price));
    let planned = number("order.planned_entry")
        .or(number("order.price"))
        .or(last);
    let entry = planned.unwrap_or(Amount::from_i64(100));
    // Two per cent from the planned entry, on the side where a stop belongs.
    let away = Amount::parse_wire(if side == "buy" { "0.98" } else { "1.02" }).ok()?;
    let stop = number("order.planned_stop").or_else(|| entry.checked_mul(away).map(on_tick))?;
    let size = number("order.size")
        .unwrap_or_else(|| instrument.map_or(Amount::ONE, |it| least_size(it, entry)));
    let show = |amount: Amount| json!(amount.normalized().to_string());
    let mut payload = Map::new();
    for (key, value) in [
        ("strategy", strategy),
        ("symbol", symbol),
        ("side", side),
        ("thesis_slug", thesis),
    ] {
        payload.insert(key.to_owned(), json!(value));
    }
    if order_type == "limit" {
        payload.insert(
            "price".to_owned(),
            show(number("order.price").unwrap_or(entry)),
        );
    }
    payload.insert("order_type".to_owned(), json!(order_type));
    payload.insert("size".to_owned(), show(size));
    payload.insert("planned_entry".to_owned(), show(entry));
    payload.insert("planned_stop".to_owned(), show(stop));
    payload.insert(
        "stop_price".to_owned(),
        show(number("order.stop_price").unwrap_or(stop)),
    );
    if let Some(target) = number("order.target_price") {
        payload.insert("target_price".to_owned(), show(target));
    }
    if let Some(force) = facts.text("order.time_in_force") {
        payload.insert("time_in_force".to_owned(), json!(force));
    }
    Some((source, Json::Object(payload)))
}
