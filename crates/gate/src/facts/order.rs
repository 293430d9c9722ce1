//! Facts of an order and of its surroundings.

use std::cell::OnceCell;

use super::{NO_SUCH, minutes, size, text_or_absent, unknown, whole};
use crate::handle::Turn;
use spoolgate_control::standing;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::rule::Fact;
use spoolgate_rules::rule::field::Id;
use spoolgate_trading::book::{Baseline, Book};
use spoolgate_trading::conduct::Conduct;
use spoolgate_trading::facts::{View, minutes_since_open, ratio};
use spoolgate_trading::order::{OrderRole, Position};
use spoolgate_trading::pricing::{Terms, notional_price, worst_entry};
use spoolgate_trading::valuation::{TwoSided, capital_base};
use spoolgate_trading::{risk, views};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{Side, SubmitOrder};
use spoolgate_wire::time::Time;

const NO_MARKET: &str = "no fresh market data";
const NO_FEED: &str = "no feed has reported it";
const NOT_EXACT: &str = "there is no fresh price, or it cannot be computed exactly";
const NO_EQUITY: &str = "equity is unknown: a price of an open position is missing or stale";
const NO_BASE: &str = "the capital base is unknown or 0";
const NO_BASELINE: &str = "equity, or where the day or week began, is unknown";
const NO_FILE: &str = "the strategy has no file";
const NO_TARGET: &str = "there is no target, or no fresh price";

/// An order with the size under consideration.
pub(super) struct OrderView<'a> {
    turn: Turn<'a>,
    order: &'a SubmitOrder,
    pub(super) size: Amount,
    market: OnceCell<Option<View<'a>>>,
    equity: OnceCell<Option<Amount>>,
    worst: OnceCell<Option<Amount>>,
}

impl<'a> OrderView<'a> {
    pub(super) fn of(turn: &Turn<'a>, order: &'a SubmitOrder) -> OrderView<'a> {
        let (market, equity, worst) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        OrderView {
            turn: *turn,
            order,
            size: order.size,
            market,
            equity,
            worst,
        }
    }

    pub(super) fn fact(&self, id: Id) -> Fact<'a> {
        let order = self.order;
        let book = self.book();
        match id {
            Id::OrderSide => Fact::text(order.side.as_str()),
            Id::OrderSymbol => Fact::text(order.symbol.as_str()),
            Id::OrderOrderType => Fact::text(order.order_type.as_str()),
            Id::OrderTimeInForce => Fact::text(order.time_in_force.as_str()),
            Id::OrderThesis => Fact::text(order.thesis_slug.as_str()),
            Id::OrderSize => Fact::number(self.size),
            Id::OrderPrice => Fact::number_or_absent(order.price),
            Id::OrderStopPrice => Fact::number_or_absent(order.stop_price),
            Id::OrderPlannedEntry => Fact::number(order.planned_entry),
            Id::OrderPlannedStop => Fact::number(order.planned_stop),
            Id::OrderTargetPrice => Fact::number_or_absent(order.target_price),
            Id::OrderWorstEntry => Fact::number_or_unknown(self.worst(), NO_MARKET),
            Id::OrderNotional => Fact::number_or_unknown(self.notional(), NOT_EXACT),
            Id::OrderNotionalFraction => self.over_base(self.notional()),
            Id::OrderStopDistance => Fact::number_or_unknown(self.stop_distance(), NOT_EXACT),
            Id::OrderRisk => Fact::number_or_unknown(self.risk(), NOT_EXACT),
            Id::OrderRiskFraction => self.over_base(self.risk()),
            Id::OrderRewardRatio => Fact::number_or_unknown(self.reward_ratio(), NO_TARGET),
            Id::OrderPlanSlippage => Fact::number_or_unknown(self.plan_slippage(), NOT_EXACT),
            Id::MarketPrice => self.of_market(View::price),
            Id::MarketBid => self.of_market(|market| market.seen.map(|seen| seen.bid)),
            Id::MarketAsk => self.of_market(|market| market.seen.map(|seen| seen.ask)),
            Id::MarketSpread | Id::MarketSpreadPct => self.of_market(View::spread_pct),
            Id::MarketVolumeRatio => self.of_market(View::volume_ratio),
            Id::MarketVolatility => self.of_market(View::volatility),
            Id::MarketFundingRate => self.of_market(View::funding_rate),
            Id::MarketFundingRateZscore => self.of_market(View::funding_rate_zscore),
            Id::MarketRegime | Id::MarketMinutesInRegime => {
                match self.market().and_then(|market| market.regime()) {
                    Some(given) if id == Id::MarketRegime => Fact::text(given.regime.as_str()),
                    Some(given) => whole(self.minutes_since(given.at)),
                    None => unknown(NO_FEED),
                }
            }
            Id::MarketMinutesSinceOpen => whole(minutes_since_open(self.turn.now)),
            Id::StrategyName => Fact::text(order.strategy.as_str()),
            Id::StrategyStatus | Id::StrategyRiskMode => self.standing(id),
            Id::StrategyLossStreak => whole(
                self.conduct()
                    .map_or(0, |conduct| i64::from(conduct.losing)),
            ),
            Id::StrategyMinutesSinceStopOut => {
                match self.conduct().and_then(|it| it.stopped_out_at) {
                    Some(at) => whole(self.minutes_since(at)),
                    None => Fact::Absent,
                }
            }
            Id::StrategyExecutions => {
                let window_s = self.turn.rules.safety.executions_window_s;
                size(
                    self.conduct()
                        .map_or(0, |it| it.executions_within(*window_s, self.turn.now)),
                )
            }
            Id::PositionWorkingEntries => size(
                book.orders
                    .values()
                    .filter(|open| {
                        open.role == OrderRole::Entry && open.is_of(&order.strategy, &order.symbol)
                    })
                    .count(),
            ),
            Id::PortfolioOpenPositions => {
                let held = book.positions.values();
                size(held.filter(|held| !held.is_dust()).count())
            }
            Id::PortfolioOpenOrders => size(
                book.orders
                    .values()
                    .filter(|open| open.role != OrderRole::Protective)
                    .count(),
            ),
            _ => self.of_money(id),
        }
    }

    /// Facts of positions and the account.
    fn of_money(&self, id: Id) -> Fact<'a> {
        let (book, account) = (self.book(), &self.book().account);
        let Turn { rules, now, .. } = self.turn;
        match id {
            Id::PositionSide => Fact::text(match self.position() {
                Some(held) if held.size.is_positive() => "long",
                Some(_) => "short",
                None => "flat",
            }),
            Id::PositionSize => {
                Fact::number(self.position().map_or(Amount::ZERO, |held| held.size.abs()))
            }
            Id::PositionResult => {
                Fact::number(self.position().map_or(Amount::ZERO, |held| held.result))
            }
            Id::PositionNotional => self.of_position(|_, value| Some(value.abs())),
            Id::PositionUnrealised => self.of_position(|held, value| value.checked_sub(held.cost)),
            Id::PositionMinutesSinceIncrease => match self.position() {
                Some(held) => whole(self.minutes_since(held.increased_at)),
                None => Fact::Absent,
            },
            Id::PortfolioEquity => Fact::number_or_unknown(self.equity(), NO_EQUITY),
            Id::PortfolioCapitalBase => Fact::number_or_unknown(self.capital_base(), NO_EQUITY),
            Id::PortfolioCash => Fact::number(account.cash),
            Id::PortfolioOpenNotional => {
                Fact::number_or_unknown(views::exposure(book, rules, now), NOT_EXACT)
            }
            Id::PortfolioOpenRisk => {
                Fact::number_or_unknown(views::open_risk(book, rules, now), NOT_EXACT)
            }
            Id::PortfolioDrawdown => {
                let drawdown = account.peak_equity.zip(self.equity());
                // Equity may be above a peak that was noted before it.
                let drawdown = drawdown.and_then(|(peak, equity)| {
                    ratio(peak.checked_sub(equity)?.max(Amount::ZERO), peak)
                });
                Fact::number_or_unknown(drawdown, "equity or its peak is unknown")
            }
            Id::PortfolioDayResult => self.result_since(account.day.as_ref(), now.day_start()),
            Id::PortfolioWeekResult => self.result_since(account.week.as_ref(), now.week_start()),
            _ => unknown(NO_SUCH),
        }
    }

    fn book(&self) -> &'a Book {
        &self.turn.state.book
    }

    fn instrument(&self) -> Option<&'a Instrument> {
        self.turn.rules.instruments.get(&self.order.symbol)
    }

    fn position(&self) -> Option<&'a Position> {
        let SubmitOrder {
            strategy, symbol, ..
        } = self.order;
        self.book()
            .positions
            .values()
            .find(|held| held.symbol == *symbol && held.strategy == *strategy)
    }

    fn conduct(&self) -> Option<&'a Conduct> {
        self.book().conduct.get(&self.order.strategy)
    }

    fn market(&self) -> Option<&View<'a>> {
        let Turn { rules, now, .. } = self.turn;
        self.market
            .get_or_init(|| View::of(self.book(), rules, &self.order.symbol, now))
            .as_ref()
    }

    fn seen(&self) -> Option<TwoSided> {
        self.market()?.seen
    }

    fn of_market(&self, number: impl FnOnce(&View<'a>) -> Option<Amount>) -> Fact<'a> {
        Fact::number_or_unknown(self.market().and_then(number), NO_MARKET)
    }

    fn equity(&self) -> Option<Amount> {
        *self
            .equity
            .get_or_init(|| self.book().equity(self.turn.rules, self.turn.now))
    }

    fn capital_base(&self) -> Option<Amount> {
        Some(capital_base(self.equity()?, &self.turn.rules.safety))
    }

    fn worst(&self) -> Option<Amount> {
        let slippage = self.turn.rules.safety.entry_slippage;
        *self
            .worst
            .get_or_init(|| worst_entry(&Terms::asked(self.order), &self.seen()?, *slippage))
    }

    fn notional(&self) -> Option<Amount> {
        let price = notional_price(&Terms::asked(self.order), &self.seen()?);
        price
            .checked_mul(self.size)?
            .checked_mul(*self.instrument()?.multiplier)
    }

    fn risk(&self) -> Option<Amount> {
        let (stop, safety) = (self.order.planned_stop, &self.turn.rules.safety);
        risk::of_entry(self.worst()?, stop, self.size, self.instrument()?, safety)
    }

    fn over_base(&self, money: Option<Amount>) -> Fact<'a> {
        let Some(money) = money else {
            return unknown(NOT_EXACT);
        };
        Fact::number_or_unknown(
            self.capital_base().and_then(|base| ratio(money, base)),
            NO_BASE,
        )
    }

    fn stop_distance(&self) -> Option<Amount> {
        let worst = self.worst()?;
        ratio(worst.checked_sub(self.order.planned_stop)?.abs(), worst)
    }

    fn reward_ratio(&self) -> Option<Amount> {
        let worst = self.worst()?;
        let reward = self.gained(worst, self.order.target_price?)?;
        ratio(reward, worst.checked_sub(self.order.planned_stop)?.abs())
    }

    fn plan_slippage(&self) -> Option<Amount> {
        let planned = self.order.planned_entry;
        ratio(self.gained(planned, self.worst()?)?, planned)
    }

    /// The gain per unit from one price to another, for an entry on this order's side.
    fn gained(&self, from: Amount, to: Amount) -> Option<Amount> {
        match self.order.side {
            Side::Buy => to.checked_sub(from),
            Side::Sell => from.checked_sub(to),
        }
    }

    /// A number computed from the position and its value; 0 if the strategy holds no position.
    fn of_position(&self, number: impl FnOnce(&Position, Amount) -> Option<Amount>) -> Fact<'a> {
        let Some(held) = self.position() else {
            return Fact::number(Amount::ZERO);
        };
        let Turn { rules, now, .. } = self.turn;
        let value = self.instrument().and_then(|instrument| {
            let mark = self
                .book()
                .fresh_mark(instrument, held.size.is_positive(), rules, now)?;
            held.size
                .checked_mul(mark)?
                .checked_mul(*instrument.multiplier)
        });
        Fact::number_or_unknown(value.and_then(|value| number(held, value)), NOT_EXACT)
    }

    /// Profit or loss since `start`, the beginning of a period. A baseline of another period is
    /// ignored.
    fn result_since(&self, baseline: Option<&Baseline>, start: Time) -> Fact<'a> {
        let baseline = baseline.filter(|baseline| baseline.start == start);
        let result = baseline.zip(self.equity());
        let result =
            result.and_then(|(baseline, equity)| self.book().profit_since(baseline, equity));
        Fact::number_or_unknown(result, NO_BASELINE)
    }

    fn standing(&self, id: Id) -> Fact<'a> {
        let Turn { rules, state, .. } = self.turn;
        let Some(strategy) = rules.strategies.get(&self.order.strategy) else {
            return unknown(NO_FILE);
        };
        let stands = standing(rules, &state.control, strategy);
        text_or_absent(Some(match id {
            Id::StrategyStatus => stands.status.as_str(),
            _ => stands.mode.as_str(),
        }))
    }

    /// Whole minutes since then. A later time is from before the clock was set back and counts as
    /// positive.
    fn minutes_since(&self, then: Time) -> i64 {
        minutes(self.turn.now, then).saturating_abs()
    }
}
