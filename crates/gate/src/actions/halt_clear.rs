//! `halt.clear`.

use super::prelude::*;
use crate::state::On;
use spoolgate_trading as trading;
use spoolgate_wire::admin::{ClearHalt, HaltScope};

/// Ends a halt of entries.
pub struct HaltClear;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `halt.clear`.
    HaltCleared {
        /// The halt that was cleared.
        scope: &'a str,
    },
}

impl Action for HaltClear {
    type Payload = ClearHalt;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Clears a halt: entries are accepted again.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row =
        Row::new(ActionName::HaltClear, "ClearHalt", "scope, reason", HUMAN).lane(Lane::Control);

    fn check(clear: &ClearHalt) -> Result<(), PayloadError> {
        check_reason(&clear.reason)
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, clear: &ClearHalt) -> Result<Outcome, Refusal> {
        let (book, halts) = (&turn.state.book, &turn.state.halts);
        let cleared = |on: On| Change::HaltCleared {
            principal: None,
            on: Some(on),
        };
        let is_set = |on: &On| halts.of(None, Some(on)).is_some();
        let all = |principal| {
            vec![Change::HaltCleared {
                principal,
                on: None,
            }]
        };
        let (scope, changes) = match &clear.scope {
            HaltScope::All => ("all", all(None)),
            HaltScope::Principal(name) => {
                let is_known = turn.rules.principals.contains_key(name);
                if !is_known && !halts.principals.contains_key(name) {
                    let what = format!("`{name}` is not in rules/principals.yaml and not halted");
                    return Err(Refusal::new(Code::NotFound, what));
                }
                ("principal", all(Some(name.clone())))
            }
            HaltScope::Strategy(name) => {
                let on = On::Strategy(name.clone());
                let is_known =
                    turn.rules.strategies.contains_key(name) || book.conduct.contains_key(name);
                if !is_known && !is_set(&on) {
                    return Err(Refusal::new(
                        Code::NotFound,
                        format!("strategy `{name}` has no file in rules/strategies"),
                    ));
                }
                let strategy = name.clone();
                let own = trading::Change::StrategyCleared { strategy };
                let own = is_known.then_some(Change::Book(own));
                let halt = is_set(&on).then(|| cleared(on));
                ("strategy", own.into_iter().chain(halt).collect())
            }
            HaltScope::Symbol(symbol) => {
                let on = On::Symbol(symbol.clone());
                let is_closed = book.halted_symbols.contains_key(symbol)
                    || book.doubted_symbols.contains_key(symbol);
                if !is_closed && !is_set(&on) {
                    let what = format!(
                        "`{symbol}` is not halted by a price gap, by a doubt about its venue or by \
                            a person"
                    );
                    return Err(Refusal::new(Code::NotFound, what));
                }
                let symbol = symbol.clone();
                let own = trading::Change::SymbolCleared { symbol };
                let own = is_closed.then_some(Change::Book(own));
                let halt = is_set(&on).then(|| cleared(on));
                ("symbol", own.into_iter().chain(halt).collect())
            }
            HaltScope::Bridge(name) => {
                let on = On::Bridge(name.clone());
                if !is_set(&on) {
                    let set: Vec<String> = halts
                        .bridges
                        .keys()
                        .map(|name| format!("`{name}`"))
                        .collect();
                    let set = match set.as_slice() {
                        [] => "none is".to_owned(),
                        set => format!("halted are: {}", set.join(", ")),
                    };
                    let what = format!("bridge `{name}` is not halted; {set}");
                    return Err(Refusal::new(Code::NotFound, what));
                }
                ("bridge", vec![cleared(on)])
            }
            HaltScope::Drawdown => {
                let peak = book.equity_last_known(turn.rules).ok_or_else(|| {
                    Refusal::new(
                        Code::StateConflict,
                        "equity is unknown, so the drawdown cannot start again from it",
                    )
                })?;
                let own = trading::Change::DrawdownCleared { peak };
                ("drawdown", vec![Change::Book(own)])
            }
        };
        let data = data(&Answer::HaltCleared { scope })?;
        Ok(Outcome {
            data,
            changes,
            ..Outcome::default()
        })
    }
}
