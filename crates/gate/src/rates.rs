//! Counts the messages that agents sent within a minute, by second as recorded in ledger lines, so
//! that the count is the same after a restart.
//!
//! A message counts if it uses up its request id and was within the limits. So a copy of a file
//! does not count twice, whoever delivers it, and messages beyond an agent's own limit do not use
//! up the limit that all agents share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::actions::{Body, Lane, Rate};
use super::control;
use super::gateway;
use super::handle::Turn;
use super::prepare::{Authentic, Refusal};
use super::state::State;
use spoolgate_outgoing::windows::Window;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_trading::requests::Messages;
use spoolgate_trading::tighten;
use spoolgate_wire::admission::Settle;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::orders::{CancelOrder, TightenStop};
use spoolgate_wire::time::Time;

/// A message counts for the rest of its second and one more minute, which covers any minute.
type Minute = Window<60>;

/// The group of its sender's messages in which a message counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bucket {
    /// Everything that is not protected; beyond the limit it is refused.
    Ordinary,
    /// Exits, cancels, tightens and settlements: counted; refused only if they change nothing.
    Protected,
}

/// The messages of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    ordinary: Minute,
    protected: Minute,
}

/// The messages of all agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    agents: BTreeMap<String, Sent>,
    all: Minute,
}

fn second_of(time: Time) -> i64 {
    time.ms().div_euclid(1000)
}

impl Rates {
    /// Counts a message of `agent`.
    pub fn count(&mut self, agent: &str, bucket: Bucket, at: Time) {
        let second = second_of(at);
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.to_owned(), Sent::default());
        }
        let Some(sent) = self.agents.get_mut(agent) else {
            return;
        };
        match bucket {
            Bucket::Ordinary => {
                sent.ordinary.count(second);
                self.all.count(second);
            }
            Bucket::Protected => sent.protected.count(second),
        }
    }

    /// The counts to compare with the limits, including one more message of `agent`.
    pub fn with_one_more(&self, agent: &Principal, now: Time) -> Messages {
        let second = second_of(now);
        let sent = self.agents.get(agent.as_str());
        let one_more = |window: Option<&Minute>| {
            window
                .map_or(0, |window| window.within(second))
                .saturating_add(1)
        };
        Messages {
            own: one_more(sent.map(|sent| &sent.ordinary)),
            all: one_more(Some(&self.all)),
            protected: one_more(sent.map(|sent| &sent.protected)),
        }
    }
}

/// Where a message counts; `None` if its sender is not an agent, or if it is accepted at any rate.
fn bucket(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Bucket> {
    let source = &authentic.envelope.source;
    let rule = turn
        .rules
        .principals
        .get(source)
        .filter(|rule| rule.role == Role::Agent)?;
    // A payload that cannot be read counts as an ordinary message.
    let Ok(body) = &authentic.body else {
        return Some(Bucket::Ordinary);
    };
    let is_safer = || {
        body.payload()
            .is_some_and(|it| control::passes_quota(it, turn.state, turn.rules, source, rule))
    };
    match body.rule.rate {
        Rate::Free => None,
        Rate::Protected => Some(Bucket::Protected),
        Rate::ByClass if lane == Lane::Protected => Some(Bucket::Protected),
        Rate::UnlessSafer if is_safer() => None,
        Rate::Ordinary | Rate::ByClass | Rate::UnlessSafer => Some(Bucket::Ordinary),
    }
}

/// Where a message counts, or `None` if it is beyond the limits.
pub(super) fn counted(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Bucket> {
    let bucket = bucket(turn, authentic, lane)?;
    match bucket {
        Bucket::Ordinary => beyond(turn, &authentic.envelope.source)
            .is_none()
            .then_some(bucket),
        Bucket::Protected => Some(bucket),
    }
}

/// The refusal of an agent's message that is beyond the limits. Entries have a check row instead.
pub(super) fn refusal(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Refusal> {
    let is_limited = bucket(turn, authentic, lane) == Some(Bucket::Ordinary);
    let why = beyond(turn, &authentic.envelope.source).filter(|_| is_limited)?;
    Some(Refusal::new(Code::RateLimited, why))
}

/// The refusal of an agent's cancel, tighten or settlement that changes nothing and is beyond
/// `max_protected_per_minute`. Whatever changes something is never refused for its rate.
pub(super) fn idle_refusal(turn: &Turn<'_>, authentic: &Authentic, body: &Body) -> Option<Refusal> {
    let source = &authentic.envelope.source;
    if bucket(turn, authentic, body.rule.lane) != Some(Bucket::Protected) {
        return None;
    }
    let most = turn.rules.safety.max_protected_per_minute;
    if turn.state.rates.with_one_more(source, turn.now).protected <= most {
        return None;
    }
    let orders = &turn.state.book.orders;
    let why = if let Some(cancel) = body.payload::<CancelOrder>() {
        let id = cancel.order_id;
        match orders.get(&id) {
            None => format!("order `{id}` is not open"),
            Some(order) if order.ending().is_some() => format!("order `{id}` is ending already"),
            Some(_) => return None,
        }
    } else if let Some(settle) = body.payload::<Settle>() {
        turn.settlement(source, settle).err()?.message
    } else if let Some(TightenStop { order_id, new_stop }) = body.payload() {
        let stop = orders.get(&tighten::stop_of(*order_id))?;
        if stop.trigger != Some(*new_stop) {
            return None;
        }
        format!("the stop `{}` is at {new_stop} already", stop.order_id)
    } else {
        return None;
    };
    let what = format!(
        "`{source}` sent more than {most} exits, cancels and tightens within a minute, and this \
            one changes nothing: {why}"
    );
    Some(Refusal::new(Code::RateLimited, what))
}

/// The body of an answer that states how long until one more message like this one is within the
/// limits, if nothing else is sent.
pub(super) fn retry_after(
    turn: &Turn<'_>,
    authentic: &Authentic,
    lane: Lane,
) -> Option<Box<RawValue>> {
    gateway::retry_after(room_in_ms(turn, authentic, lane))
}

/// After how many milliseconds one more message like this one is within the limits, if nothing
/// else is sent.
pub(super) fn room_in_ms(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> i64 {
    let (rates, safety) = (&turn.state.rates, &turn.rules.safety);
    let second = second_of(turn.now);
    let own = rates.agents.get(authentic.envelope.source.as_str());
    let room_at_ms = if bucket(turn, authentic, lane) == Some(Bucket::Protected) {
        let most = safety.max_protected_per_minute;
        own.map_or(0, |sent| sent.protected.room_at_ms(second, most))
    } else {
        let own_most = *safety.max_messages_per_minute;
        let own_ms = own.map_or(0, |sent| sent.ordinary.room_at_ms(second, own_most));
        let all_most = *safety.max_messages_per_minute_all;
        own_ms.max(rates.all.room_at_ms(second, all_most))
    };
    room_at_ms.saturating_sub(turn.now.ms()).max(0)
}

fn beyond(turn: &Turn<'_>, source: &Principal) -> Option<String> {
    beyond_at(turn.state, turn.rules, source, turn.now)
}

/// Whether one more message of the sender is within the limits.
pub(super) fn has_room(state: &State, rules: &Rulebook, source: &Principal, now: Time) -> bool {
    beyond_at(state, rules, source, now).is_none()
}

fn beyond_at(state: &State, rules: &Rulebook, source: &Principal, now: Time) -> Option<String> {
    let messages = state.rates.with_one_more(source, now);
    let safety = &rules.safety;
    let (own_max, all_max) = (
        safety.max_messages_per_minute,
        safety.max_messages_per_minute_all,
    );
    if messages.own > *own_max {
        return Some(format!(
            "`{source}` may send at most {own_max} messages within a minute"
        ));
    }
    (messages.all > *all_max)
        .then(|| format!("all agents together may send at most {all_max} messages within a minute"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_ms(1_772_000_000_000 + ms).unwrap()
    }

    fn own(rates: &Rates, name: &str, ms: i64) -> u32 {
        rates
            .with_one_more(&Principal::parse(name).unwrap(), at(ms))
            .own
            - 1
    }

    #[test]
    fn a_message_counts_for_a_minute_and_less_than_a_second_more() {
        let mut rates = Rates::default();
        rates.count("bot", Bucket::Ordinary, at(400));
        for (ms, expect) in [
            (400, 1),
            (60_400, 1),
            (60_999, 1),
            (61_000, 0),
            (1_000_000, 0),
        ] {
            assert_eq!(own(&rates, "bot", ms), expect, "{ms}");
        }
    }

    #[test]
    fn buckets_and_agents_are_counted_apart() {
        let mut rates = Rates::default();
        rates.count("a", Bucket::Protected, at(0));
        (0..3).for_each(|_| rates.count("a", Bucket::Ordinary, at(0)));
        (0..2).for_each(|_| rates.count("b", Bucket::Ordinary, at(0)));
        let of = |name: &str| rates.with_one_more(&Principal::parse(name).unwrap(), at(0));
        assert_eq!(
            of("a"),
            Messages {
                own: 4,
                all: 6,
                protected: 2
            }
        );
        assert_eq!(
            of("b"),
            Messages {
                own: 3,
                all: 6,
                protected: 1
            }
        );
        assert_eq!(
            of("c"),
            Messages {
                own: 1,
                all: 6,
                protected: 1
            }
        );
    }

    #[test]
    fn room_comes_when_the_oldest_ends_to_count() {
        let mut window = Minute::default();
        [0, 0, 10, 20]
            .into_iter()
            .for_each(|second| window.count(second));
        for (second, most, expect) in [
            (20, 5, 20),
            (20, 4, 61),
            (20, 3, 61),
            (20, 2, 71),
            (20, 1, 81),
            (61, 2, 71),
            (61, 3, 61),
            (100, 1, 100),
        ] {
            assert_eq!(
                window.room_at_ms(second, most),
                expect * 1000,
                "{second} {most}"
            );
            assert!(window.within(expect) < most);
            assert!(expect == second || window.within(expect - 1) >= most);
        }
    }

    #[test]
    fn after_the_clock_was_set_back_it_counts_anew() {
        let mut rates = Rates::default();
        (0..5).for_each(|_| rates.count("bot", Bucket::Ordinary, at(0)));
        assert_eq!(own(&rates, "bot", -3_600_000), 0);
        rates.count("bot", Bucket::Ordinary, at(-3_600_000));
        assert_eq!(own(&rates, "bot", -3_600_000), 1);
        assert_eq!(rates.all.within(second_of(at(-3_600_000))), 1);
    }
}
