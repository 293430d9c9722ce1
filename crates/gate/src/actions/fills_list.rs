//! `fills.list`.

use super::prelude::*;
use crate::decide::FILLS_MAX;
use spoolgate_trading::order::Fill;
use spoolgate_wire::orders::ListFills;
use spoolgate_wire::time::Time;

/// Lists the executions since a given time.
pub struct FillsList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The oldest executions since then, at most 1,000.
    #[serde(rename = "Fills")]
    fills: &'a [Fill],
    /// The `since` with which to go on, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_since: Option<Time>,
}

impl Action for FillsList {
    type Payload = ListFills;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the oldest 1,000 fills since a time.";
    const CONDITIONS: &'static [Condition] = &[CALENDAR];
    const ROW: Row = Row::new(ActionName::FillsList, "GetFillHistory", "since", ANYBODY).query(
        "fills",
        "Fills",
        "Executions since a time, as 2026-02-20T14:42:00Z, at most 1,000; `next_since` goes on.",
    );

    fn needs(_: &Rulebook, _: &Authentic, list: &ListFills, needs: &mut Needs) {
        needs.fills_since = Some(list.since);
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, _: &ListFills) -> Result<Outcome, Refusal> {
        let page = page(&turn.lookups.fills).ok_or_else(|| {
            let what = format!("more than {FILLS_MAX} fills were recorded at one instant");
            Refusal::new(Code::ResultTooLarge, what)
        });
        answer(&page?)
    }
}

/// Returns the oldest fills that one answer holds, and where to go on. Those that were recorded at
/// one instant stay together, because `since` cannot part them; `None` if they are too many.
fn page(fills: &[Fill]) -> Option<Answer<'_>> {
    let next_since = fills.get(FILLS_MAX).map(|fill| fill.recorded_at);
    let is_before = |fill: &&Fill| next_since.is_none_or(|next| fill.recorded_at < next);
    let shown = fills.iter().take_while(is_before).count();
    if shown == 0 && next_since.is_some() {
        return None;
    }
    Some(Answer {
        fills: fills.get(..shown)?,
        next_since,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    /// Fills of which the last `at_once` were recorded at the same instant.
    fn fills(many: usize, at_once: usize) -> Vec<Fill> {
        let fill = |n: usize| {
            let second = n.min(many - at_once);
            serde_json::from_value(json!({
                "order_id": format!("o-{}", n + 1), "strategy": "trend", "symbol": "BTC-USD",
                "side": "buy", "role": "entry", "price": "1", "size": "1", "multiplier": "1",
                "fee": "0", "liquidity": "taker", "realised": "0",
                "market_time": "2026-02-20T00:00:00Z",
                "recorded_at": Time::from_ms(1_700_000_000_000 + second as i64 * 1000).unwrap(),
            }))
            .unwrap()
        };
        (0..many).map(fill).collect()
    }

    #[test]
    fn a_thousand_fills_are_one_answer_and_the_next_one_goes_on() {
        for (many, at_once, shown, goes_on) in [
            (0, 0, 0, false),
            (FILLS_MAX - 1, 1, FILLS_MAX - 1, false),
            (FILLS_MAX, 1, FILLS_MAX, false),
            (FILLS_MAX + 1, 1, FILLS_MAX, true),
            // The last three were recorded together: they come in the next answer.
            (FILLS_MAX + 1, 3, FILLS_MAX - 2, true),
        ] {
            let fills = fills(many, at_once);
            let page = page(&fills).unwrap();
            let next = fills.get(shown).map(|fill| fill.recorded_at);
            assert_eq!(page.fills.len(), shown, "{many}, {at_once}");
            assert_eq!(
                page.next_since,
                next.filter(|_| goes_on),
                "{many}, {at_once}"
            );
        }
        assert!(
            page(&fills(FILLS_MAX, FILLS_MAX))
                .unwrap()
                .next_since
                .is_none()
        );
        assert!(page(&fills(FILLS_MAX + 1, FILLS_MAX + 1)).is_none());
    }
}
