//! The whitelist of fields: everything that a rule may read. `docs/rules.md` holds the same table.

use super::field::Field;
use super::field::Kind::{self, Address, Flag, Host, Name, Number, Text, Whole, Word};
use super::field::Missing::{Absent, Never, Unknown};
use super::ranges::End;
use super::registry::Registry;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::gateway;

/// Actions that rules apply to. Among orders these are entries, among control decisions those that
/// do not only make things safer.
pub const RULED_ACTIONS: &[&str] = &ActionName::names(ActionName::RULED);

/// Days of the week, as facts name them.
pub const WEEKDAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const SIDES: &[&str] = &["buy", "sell"];
const ORDER_TYPES: &[&str] = &["limit", "market", "stop"];
const TIMES_IN_FORCE: &[&str] = &["gtc", "ioc", "day"];
const HELD: &[&str] = &["long", "short", "flat"];
const STATUSES: &[&str] = &["active", "standby", "paused"];
const RISK_MODES: &[&str] = &["normal", "reduced", "exits_only"];
const ROLES: &[&str] = &["human", "agent", "feed", "bridge"];
const CHANGE_TYPES: &[&str] = &[
    "DECLARE_PASS",
    "FREEZE_SPEC",
    "UPDATE_CONFIG",
    "CODE_REFACTOR",
];
const ARTIFACTS: &[&str] = &[
    "spec_content",
    "diff_content",
    "validation_report",
    "monte_carlo_stats",
];
const CONTROL_ACTIONS: &[&str] = &["switch", "pause", "resume", "set_risk_mode"];
const METHODS: &[&str] = &["GET", "POST", "PUT", "DELETE", "PATCH"];
const ANY: Kind = Number(End::Open, End::Open);
const POSITIVE: Kind = Number(End::Without(Amount::ZERO), End::Open);
const FROM_0: Kind = Number(End::With(Amount::ZERO), End::Open);
const SHARE: Kind = Number(End::With(Amount::ZERO), End::With(Amount::ONE));
const MANY: i64 = i64::MAX;
const LIMIT_MAX: i64 = gateway::LIMIT_MAX as i64;

const ALL: &[ActionName] = &[];
const ORDER: &[ActionName] = &[ActionName::OrderSubmit];
const COUNCIL: &[ActionName] = &[ActionName::CouncilRequest];
const CONTROL: &[ActionName] = &[ActionName::ControlApply];
const ADMISSION: &[ActionName] = &[ActionName::AdmissionEvaluate, ActionName::AdmissionAdmit];
const MAIL: &[ActionName] = &[ActionName::EmailSend, ActionName::EmailDraft];
const FETCH: &[ActionName] = &[ActionName::EmailFetch];
const LIMITED: &[ActionName] = &[ActionName::EmailFetch, ActionName::FinanceFetchTransactions];
const BACK: &[ActionName] = &[ActionName::EmailFetch, ActionName::HealthFetch];
const CALENDAR: &[ActionName] = &[
    ActionName::CalendarFetch,
    ActionName::CalendarCreate,
    ActionName::CalendarUpdate,
];
const EVENT: &[ActionName] = &[ActionName::CalendarCreate, ActionName::CalendarUpdate];
const FINANCE: &[ActionName] = &[ActionName::FinanceFetchTransactions];
const HEALTH: &[ActionName] = &[ActionName::HealthFetch];
const CALL: &[ActionName] = &[ActionName::ServiceApiCall];
const GATEWAY: &[ActionName] = &ActionName::OUTGOING;

/// Fields that had another name, with the present one. The old names are for rules that earlier
/// versions took: replay compiles them, and no rulebook with them comes into force.
pub const RENAMED: &[(Id, &str)] = &[(Id::MarketSpreadPct, "market.spread")];

/// Up to which absolute value the numbers of a field are usual. Fractions beyond are likely to be
/// meant per cent.
pub const USUAL: &[(Id, &str)] = &[
    (Id::OrderStopDistance, "0.5"),
    (Id::OrderRiskFraction, "0.1"),
    (Id::OrderPlanSlippage, "0.05"),
    (Id::PortfolioDrawdown, "0.5"),
    (Id::MarketSpread, "0.05"),
    (Id::MarketVolatility, "0.1"),
    (Id::MarketFundingRate, "0.05"),
];

/// Rows of the table. Each group starts with the actions that have its fields. A row has the
/// field's name in code, `one` value or `many`, its name in rules, the kind of its values, why it
/// may be missing, its unit and its meaning.
macro_rules! fields {
    ($($actions:ident {
        $($id:ident $many:ident $name:literal, $kind:expr, $missing:ident, $unit:literal,
            $meaning:literal;)*
    })*) => {
        /// Names of fields in the program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $($(#[doc = concat!("`", $name, "`")] $id,)*)*
        }

        /// Every field.
        pub static FIELDS: &[Field] = &[
            $($(fields!($many $actions, $id, $name, $kind, $missing, $unit, $meaning),)*)*
        ];
    };
    (one $($rest:tt)*) => { fields!(@ false, $($rest)*) };
    (many $($rest:tt)*) => { fields!(@ true, $($rest)*) };
    (@ $is_many:literal, $actions:ident, $id:ident, $name:literal, $kind:expr, $missing:ident,
        $unit:literal, $meaning:literal) => {
        Field {
            id: Id::$id,
            name: $name,
            kind: $kind,
            unit: $unit,
            meaning: $meaning,
            is_many: $is_many,
            missing: $missing,
            actions: $actions,
        }
    };
}

fields! {
    ORDER {
        OrderSide one "order.side", Word(SIDES), Never, "", "side of the order";
        OrderSymbol one "order.symbol", Name(Registry::Instrument), Never, "", "instrument";
        OrderOrderType one "order.order_type", Word(ORDER_TYPES), Never, "", "type of the order";
        OrderTimeInForce one "order.time_in_force", Word(TIMES_IN_FORCE), Never, "",
            "how long it stays open";
        OrderThesis one "order.thesis", Name(Registry::Thesis), Never, "", "the thesis that it follows";
        OrderSize one "order.size", POSITIVE, Never, "units", "size of the order";
        OrderPrice one "order.price", POSITIVE, Absent, "price", "limit price";
        OrderStopPrice one "order.stop_price", POSITIVE, Absent, "price",
            "trigger of a stop order; of other orders, the protective stop again";
        OrderPlannedEntry one "order.planned_entry", POSITIVE, Never, "price",
            "the price at which the agent plans to enter: a claim";
        OrderPlannedStop one "order.planned_stop", POSITIVE, Never, "price", "the protective stop";
        OrderTargetPrice one "order.target_price", POSITIVE, Absent, "price",
            "where the position is to be closed again";
        OrderWorstEntry one "order.worst_entry", FROM_0, Unknown, "price",
            "the worst price that it may get, as the checks see it";
        OrderNotional one "order.notional", FROM_0, Unknown, "account currency",
            "size x price x multiplier, as the limits count it";
        OrderNotionalFraction one "order.notional_fraction", FROM_0, Unknown, "fraction",
            "notional over the capital base";
        OrderStopDistance one "order.stop_distance", FROM_0, Unknown, "fraction",
            "from worst entry to protective stop, over the worst entry";
        OrderRisk one "order.risk", FROM_0, Unknown, "account currency",
            "what it alone could lose down to its stop, with slippage and fees";
        OrderRiskFraction one "order.risk_fraction", FROM_0, Unknown, "fraction",
            "that risk over the capital base";
        OrderRewardRatio one "order.reward_ratio", ANY, Unknown, "ratio",
            "from worst entry to target, over the distance to the stop; unknown without a target";
        OrderPlanSlippage one "order.plan_slippage", ANY, Unknown, "fraction",
            "how much worse the worst entry is than the planned one, over the planned one";
        PositionSide one "position.side", Word(HELD), Never, "",
            "what the strategy holds in the symbol";
        PositionSize one "position.size", FROM_0, Never, "units", "how much of it, without sign";
        PositionNotional one "position.notional", FROM_0, Unknown, "account currency",
            "size x mark x multiplier";
        PositionResult one "position.result", ANY, Never, "account currency",
            "realised since it was opened, less fees; 0 if flat";
        PositionUnrealised one "position.unrealised", ANY, Unknown, "account currency",
            "value less cost; 0 if flat";
        PositionMinutesSinceIncrease one "position.minutes_since_increase", Whole(0, MANY), Absent,
            "minutes", "since it last grew";
        PositionWorkingEntries one "position.working_entries", Whole(0, MANY), Never, "",
            "working entries of the strategy in the symbol";
        PortfolioEquity one "portfolio.equity", ANY, Unknown, "account currency",
            "cash and positions at their last fresh price";
        PortfolioCapitalBase one "portfolio.capital_base", ANY, Unknown, "account currency",
            "what limits are fractions of";
        PortfolioCash one "portfolio.cash", ANY, Never, "account currency", "cash";
        PortfolioOpenNotional one "portfolio.open_notional", FROM_0, Unknown, "account currency",
            "worst-case notional of all symbols, without this order";
        PortfolioOpenRisk one "portfolio.open_risk", ANY, Unknown, "account currency",
            "what the open positions could lose down to their stops";
        PortfolioDrawdown one "portfolio.drawdown", SHARE, Unknown, "fraction",
            "from the highest equity to the present one, over the highest";
        PortfolioDayResult one "portfolio.day_result", ANY, Unknown, "account currency",
            "profit or loss of the UTC day";
        PortfolioWeekResult one "portfolio.week_result", ANY, Unknown, "account currency",
            "profit or loss of the week, from Monday UTC";
        PortfolioOpenPositions one "portfolio.open_positions", Whole(0, MANY), Never, "",
            "open positions, of all strategies";
        PortfolioOpenOrders one "portfolio.open_orders", Whole(0, MANY), Never, "",
            "open orders of all strategies, protective stops not counted";
        MarketPrice one "market.price", FROM_0, Unknown, "price",
            "last trade, or the middle if there never was one; if fresh";
        MarketBid one "market.bid", FROM_0, Unknown, "price", "bid as the checks see it, if fresh";
        MarketAsk one "market.ask", FROM_0, Unknown, "price", "ask as the checks see it, if fresh";
        MarketSpread one "market.spread", FROM_0, Unknown, "fraction",
            "(ask - bid) / middle";
        MarketSpreadPct one "market.spread_pct", FROM_0, Unknown, "fraction",
            "(ask - bid) / middle";
        MarketVolumeRatio one "market.volume_ratio", FROM_0, Unknown, "ratio",
            "volume of the last bar over the mean of the 20 before it";
        MarketVolatility one "market.volatility", FROM_0, Unknown, "fraction a bar",
            "realised volatility of the last 20 bars";
        MarketFundingRate one "market.funding_rate", ANY, Unknown, "fraction",
            "last funding rate, if due within 16 hours";
        MarketFundingRateZscore one "market.funding_rate_zscore", ANY, Unknown, "deviations",
            "how unusual it is among the 20 before it";
        MarketRegime one "market.regime", Name(Registry::Open), Unknown, "",
            "the state of the market, as a feed names it";
        MarketMinutesInRegime one "market.minutes_in_regime", Whole(0, MANY), Unknown, "minutes",
            "since the feed reported it";
        MarketMinutesSinceOpen one "market.minutes_since_open", Whole(0, 1439), Never, "minutes",
            "since 00:00 UTC, when every day of this gate begins";
        StrategyName one "strategy.name", Name(Registry::Strategy), Never, "", "strategy of the order";
        StrategyStatus one "strategy.status", Word(STATUSES), Unknown, "",
            "its status now, by its file and by control; unknown without a file";
        StrategyRiskMode one "strategy.risk_mode", Word(RISK_MODES), Unknown, "",
            "the mode in force; unknown without a file";
        StrategyLossStreak one "strategy.loss_streak", Whole(0, MANY), Never, "",
            "closed trades in a row that lost";
        StrategyMinutesSinceStopOut one "strategy.minutes_since_stop_out", Whole(0, MANY), Absent,
            "minutes", "since one of its protective stops last filled";
        StrategyExecutions one "strategy.executions", Whole(0, MANY), Never, "",
            "entries executed within executions_window_s of safety.yaml";
    }
    COUNCIL {
        CouncilChangeType one "council.change_type", Word(CHANGE_TYPES), Never, "",
            "the type of change that is proposed";
        CouncilProposer one "council.proposer", Text, Never, "",
            "the proposer, in the sender's words";
        CouncilSummary one "council.summary", Text, Never, "", "the change in short";
        CouncilFilesChanged many "council.files_changed", Text, Never, "",
            "files that it claims to change";
        CouncilMetrics many "council.metrics", Text, Never, "",
            "names of the figures that it brings";
        CouncilArtifacts many "council.artifacts", Word(ARTIFACTS), Never, "",
            "artifacts that it brings";
        CouncilDiff one "council.diff", Text, Absent, "", "the diff, as sent";
        CouncilHasReturns one "council.has_returns", Flag, Never, "", "whether it brings returns";
        CouncilOpenCases one "council.open_cases", Whole(0, MANY), Never, "",
            "cases that are open now";
    }
    CONTROL {
        ControlAction one "control.action", Word(CONTROL_ACTIONS), Never, "", "what is decided";
        ControlConcern one "control.concern", Name(Registry::Concern), Never, "",
            "account:market that it is about";
        ControlAccount one "control.account", Name(Registry::Account), Never, "", "the account";
        ControlMarket one "control.market", Name(Registry::Market), Never, "", "the market";
        ControlTarget one "control.target", Name(Registry::ControlId), Absent, "", "the strategy that it is about";
        ControlExpected one "control.expected", Name(Registry::ControlId), Absent, "",
            "the strategy that the sender believes is active; also left out if it believes that \
                none is";
        ControlRiskMode one "control.risk_mode", Word(RISK_MODES), Absent, "", "the mode to set";
        ControlConfidence one "control.confidence", SHARE, Never, "",
            "the sender's confidence, 0 to 1: a claim";
        ControlOverride one "control.override", Flag, Never, "",
            "whether it overrides expectation and degraded execution";
        ControlDryRun one "control.dry_run", Flag, Never, "",
            "whether it only asks what the decision would be";
        ControlReason one "control.reason", Text, Never, "", "the sender's reason";
        ControlCurrent one "control.current", Name(Registry::ControlId), Absent, "",
            "the strategy that is current on the concern now";
        ControlCurrentRiskMode one "control.current_risk_mode", Word(RISK_MODES), Never, "",
            "the mode in force on the concern now";
        ControlIsPaused one "control.is_paused", Flag, Never, "",
            "whether control has paused the concern";
    }
    ADMISSION {
        AdmissionTenant one "admission.tenant", Name(Registry::Tenant), Never, "", "the tenant of the task";
        AdmissionSurface one "admission.surface", Name(Registry::Surface), Never, "",
            "the boundary that it crosses";
        AdmissionProfile one "admission.profile", Name(Registry::Profile), Never, "", "the policy profile there";
        AdmissionPayloadKind one "admission.payload_kind", Name(Registry::Open), Never, "",
            "what kind of work it is";
        AdmissionPayloadBytes one "admission.payload_bytes", Whole(0, MANY), Never, "bytes",
            "size of its payload";
        AdmissionTarget one "admission.target", Text, Absent, "",
            "what its payload names as target";
        AdmissionArtifactSizeBytes one "admission.artifact_size_bytes", Whole(0, MANY), Absent,
            "bytes", "what its payload declares";
        AdmissionForward one "admission.forward", Flag, Never, "", "whether an ALLOW is forwarded";
        AdmissionHasCausality one "admission.has_causality", Flag, Never, "",
            "whether it names its place in a tree of tasks";
        AdmissionIsRoot one "admission.is_root", Flag, Absent, "",
            "whether it opens a tree of tasks";
        AdmissionCapability one "admission.capability", Name(Registry::Open), Absent, "", "what the task does";
        AdmissionDepthClaimed one "admission.depth_claimed", Whole(i64::MIN, MANY), Absent, "",
            "its depth in the tree: a claim";
        AdmissionBudgetClaimed one "admission.budget_claimed", Whole(i64::MIN, MANY), Absent, "",
            "budget left of the tree: a claim";
    }
    MAIL {
        PayloadTo many "payload.to", Address, Never, "", "recipients";
        PayloadCc many "payload.cc", Address, Absent, "", "recipients of copies";
        PayloadRecipients many "payload.recipients", Address, Never, "",
            "all of them, also those of copies";
        PayloadSubject one "payload.subject", Text, Never, "", "subject";
        PayloadReplyTo one "payload.replyToMessageId", Name(Registry::Open), Absent, "",
            "the message that it answers";
        PayloadBody one "payload.body", Text, Never, "", "text of the mail";
    }
    FETCH {
        PayloadFolder one "payload.folder", Name(Registry::Open), Never, "",
            "mail folder, `INBOX` if it is left out";
    }
    LIMITED {
        PayloadLimit one "payload.limit", Whole(1, LIMIT_MAX), Absent, "",
            "how many at most; of mail, 50 if it is left out";
    }
    BACK {
        PayloadMinutesBack one "payload.minutes_back", Whole(i64::MIN, MANY), Absent, "minutes",
            "from `since` or `startDate` to now";
    }
    CALENDAR {
        PayloadCalendarId one "payload.calendarId", Name(Registry::Open), Never, "",
            "calendar, `primary` if it is left out";
        PayloadMinutesAhead one "payload.minutes_ahead", Whole(i64::MIN, MANY), Never, "minutes",
            "from now to its start";
        PayloadMinutesLong one "payload.minutes_long", Whole(0, MANY), Never, "minutes",
            "from its start to its end";
    }
    EVENT {
        PayloadTitle one "payload.title", Text, Never, "", "title of the event";
        PayloadDescription one "payload.description", Text, Absent, "", "its description";
        PayloadAttendees many "payload.attendees", Address, Absent, "",
            "the attendees that are invited";
    }
    FINANCE {
        PayloadAccountId one "payload.accountId", Name(Registry::Open), Absent, "", "the account";
    }
    HEALTH {
        PayloadDataType one "payload.dataType", Name(Registry::Open), Never, "", "the type of data to fetch";
    }
    CALL {
        PayloadService one "payload.service", Name(Registry::Service), Never, "", "service";
        PayloadEndpoint one "payload.endpoint", Text, Never, "", "path below its host";
        PayloadEndpointTo many "payload.endpoint_to", Text, Absent, "",
            "recipients that the endpoint names: what follows a part such as users or \
                collaborators, query parameters named as in payload.body_to[], mail addresses and \
                IBANs";
        PayloadMethod one "payload.method", Word(METHODS), Never, "", "HTTP method";
        PayloadHeaderNames many "payload.header_names", Text, Absent, "", "names of headers";
        PayloadHeaderValues many "payload.header_values", Text, Absent, "", "their values";
        PayloadBodyTexts many "payload.body_texts", Text, Absent, "",
            "every text, number and member name of the body, at any depth";
        PayloadBodyTo many "payload.body_to", Text, Absent, "",
            "recipients that the body names: members such as recipient, to, payee, iban, user, \
                email, channel, participants, at any depth; mail addresses and IBANs under any \
                name but a sender's";
        PayloadBodyHosts many "payload.body_hosts", Host, Absent, "",
            "hosts that the body names: members such as url, link, host, webhook, website, at any \
                depth";
        PayloadBodyAmount one "payload.body_amount", ANY, Absent, "",
            "the body's one member with the word amount in its name, at any depth; unknown if \
                there are several";
    }
    GATEWAY {
        PayloadHost one "payload.host", Host, Unknown, "",
            "host of the service that it goes to, by rules/services.yaml, whatever the payload \
                calls it; unknown if it may go nowhere";
        PayloadTexts many "payload.texts", Text, Never, "",
            "every text, number and member name of the payload, at any depth";
        PayloadBytes one "payload.bytes", Whole(0, MANY), Never, "bytes",
            "size of the payload without insignificant white space";
    }
    ALL {
        TimeOfDay one "time.of_day", Kind::TimeOfDay, Never, "HH:MM UTC",
            "time of day of the decision";
        TimeWeekday one "time.weekday", Word(WEEKDAYS), Never, "",
            "day of the week of the decision, UTC";
        TimeDayOfMonth one "time.day_of_month", Whole(1, 31), Never, "",
            "day of the month of the decision, UTC";
        RequestSource one "request.source", Name(Registry::Principal), Never, "", "the sender";
        RequestRole one "request.role", Word(ROLES), Never, "",
            "the sender's role in principals.yaml";
        RequestAction one "request.action", Word(RULED_ACTIONS), Never, "",
            "the action of the request";
        RequestHasCausality one "request.has_causality", Flag, Never, "",
            "whether it carries causality beside its payload";
        RequestAgeMs one "request.age_ms", Whole(i64::MIN, MANY), Never, "ms",
            "from its timestamp to the decision, on the gate's clock";
    }
}
