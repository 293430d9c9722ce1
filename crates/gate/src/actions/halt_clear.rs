//! `halt.clear`.

use super::prelude::*;
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
        let book = &turn.state.book;
        let (scope, change) = match &clear.scope {
            HaltScope::All => ("all", Change::HaltCleared { principal: None }),
            HaltScope::Principal(name) => (
                "principal",
                Change::HaltCleared {
                    principal: Some(name.clone()),
                },
            ),
            HaltScope::Strategy(name) => {
                if !turn.rules.strategies.contains_key(name) && !book.conduct.contains_key(name) {
                    return Err(Refusal::new(
                        Code::NotFound,
                        format!("strategy `{name}` has no file in rules/strategies"),
                    ));
                }
                let strategy = name.clone();
                (
                    "strategy",
                    Change::Book(trading::Change::StrategyCleared { strategy }),
                )
            }
            HaltScope::Symbol(symbol) => {
                if !book.halted_symbols.contains_key(symbol)
                    && !book.doubted_symbols.contains_key(symbol)
                {
                    let what = format!(
                        "`{symbol}` is not halted by a price gap or by a doubt \
                        about its venue"
                    );
                    return Err(Refusal::new(Code::NotFound, what));
                }
                (
                    "symbol",
                    Change::Book(trading::Change::SymbolCleared {
                        symbol: symbol.clone(),
                    }),
                )
            }
            HaltScope::Drawdown => {
                let peak = book.equity_last_known(turn.rules).ok_or_else(|| {
                    Refusal::new(
                        Code::StateConflict,
                        "equity is unknown, so the drawdown cannot start again from it",
                    )
                })?;
                (
                    "drawdown",
                    Change::Book(trading::Change::DrawdownCleared { peak }),
                )
            }
        };
        let data = data(&Answer::HaltCleared { scope })?;
        Ok(Outcome {
            data,
            changes: vec![change],
            ..Outcome::default()
        })
    }
}
