//! How many messages agents have sent within a minute: counted by second, as ledger lines say, so that the count is the
//! same after a restart.
//!
//! What counts is what uses up a request id and was within the limits. So a copy of a file counts no second time, whoever
//! drops it, and what one agent sends beyond its own limit takes nothing of the limit that all share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::actions::{Lane, Rate};
use super::control;
use super::handle::Turn;
use super::prepare::{Authentic, Payload, Refusal};
use crate::actions::windows::Window;
use crate::rules::principals::Role;
use crate::trading::requests::Messages;
use crate::wire::code::Code;
use crate::wire::ids::Principal;
use crate::wire::time::Time;

/// A message counts for the rest of its second and a minute more: any minute is within that.
type Minute = Window<60>;

/// Which of a signer's messages one counts among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bucket {
    /// Everything but the following; what goes beyond the limit is refused.
    Ordinary,
    /// Exits, cancels and tightens: told, never refused.
    Protected,
}

/// What one agent has sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    ordinary: Minute,
    protected: Minute,
}

/// What agents have sent.
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
        let Some(sent) = self.agents.get_mut(agent) else { return };
        match bucket {
            Bucket::Ordinary => {
                sent.ordinary.count(second);
                self.all.count(second);
            }
            Bucket::Protected => sent.protected.count(second),
        }
    }

    /// What the limits are compared with, one more message of `agent` included.
    pub fn with_one_more(&self, agent: &Principal, now: Time) -> Messages {
        let second = second_of(now);
        let sent = self.agents.get(agent.as_str());
        let one_more =
            |window: Option<&Minute>| window.map_or(0, |window| window.within(second)).saturating_add(1);
        Messages {
            own: one_more(sent.map(|sent| &sent.ordinary)),
            all: one_more(Some(&self.all)),
            protected: one_more(sent.map(|sent| &sent.protected)),
        }
    }
}

/// Where a message counts; none: only those of agents do, and not what is heard however much of it there is.
fn bucket(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Bucket> {
    let source = &authentic.envelope.source;
    let rule = turn.rules.principals.get(source).filter(|rule| rule.role == Role::Agent)?;
    // What cannot be read asks for nothing in particular.
    let Ok(body) = &authentic.body else { return Some(Bucket::Ordinary) };
    match (body.rule.rate, &body.payload) {
        (Rate::Free, _) => None,
        (Rate::Protected, _) => Some(Bucket::Protected),
        (Rate::ByClass, _) if lane == Lane::Protected => Some(Bucket::Protected),
        (Rate::UnlessSafer, Payload::Control(attempt))
            if control::passes_quota(attempt, turn.state, turn.rules, source, rule) =>
        {
            None
        }
        (Rate::Ordinary | Rate::ByClass | Rate::UnlessSafer, _) => Some(Bucket::Ordinary),
    }
}

/// Where a message counts, unless it is beyond the limits.
pub(super) fn counted(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Bucket> {
    let bucket = bucket(turn, authentic, lane)?;
    match bucket {
        Bucket::Ordinary => beyond(turn, &authentic.envelope.source).is_none().then_some(bucket),
        Bucket::Protected => Some(bucket),
    }
}

/// Why a message of an agent has to wait, if it has to. Entries have a row of their own.
pub(super) fn refusal(turn: &Turn<'_>, authentic: &Authentic, lane: Lane) -> Option<Refusal> {
    let is_limited = bucket(turn, authentic, lane) == Some(Bucket::Ordinary);
    let why = beyond(turn, &authentic.envelope.source).filter(|_| is_limited)?;
    Some(Refusal::new(Code::RateLimited, why))
}

/// After how long one more message of `source` is within the limits, if nothing else is sent meanwhile. Milliseconds.
pub(super) fn retry_after_ms(turn: &Turn<'_>, source: &Principal) -> u64 {
    let (rates, safety) = (&turn.state.rates, &turn.rules.safety);
    let second = second_of(turn.now);
    let own = rates.agents.get(source.as_str());
    let own_ms = own.map_or(0, |sent| sent.ordinary.room_at_ms(second, safety.max_messages_per_minute));
    let all_ms = rates.all.room_at_ms(second, safety.max_messages_per_minute_all);
    u64::try_from(own_ms.max(all_ms).saturating_sub(turn.now.ms())).unwrap_or(0)
}

fn beyond(turn: &Turn<'_>, source: &Principal) -> Option<String> {
    let messages = turn.state.rates.with_one_more(source, turn.now);
    let safety = &turn.rules.safety;
    let (own_max, all_max) = (safety.max_messages_per_minute, safety.max_messages_per_minute_all);
    if messages.own > own_max {
        return Some(format!("`{source}` may send {own_max} messages within a minute"));
    }
    (messages.all > all_max)
        .then(|| format!("all agents together may send {all_max} messages within a minute"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Time {
        Time::from_ms(1_772_000_000_000 + ms).unwrap()
    }

    fn own(rates: &Rates, name: &str, ms: i64) -> u32 {
        rates.with_one_more(&Principal::parse(name).unwrap(), at(ms)).own - 1
    }

    #[test]
    fn a_message_counts_for_a_minute_and_less_than_a_second_more() {
        let mut rates = Rates::default();
        rates.count("bot", Bucket::Ordinary, at(400));
        for (ms, expect) in [(400, 1), (60_400, 1), (60_999, 1), (61_000, 0), (1_000_000, 0)] {
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
        assert_eq!(of("a"), Messages { own: 4, all: 6, protected: 2 });
        assert_eq!(of("b"), Messages { own: 3, all: 6, protected: 1 });
        assert_eq!(of("c"), Messages { own: 1, all: 6, protected: 1 });
    }

    #[test]
    fn room_comes_when_the_oldest_ends_to_count() {
        let mut window = Minute::default();
        [0, 0, 10, 20].into_iter().for_each(|second| window.count(second));
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
            assert_eq!(window.room_at_ms(second, most), expect * 1000, "{second} {most}");
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
