//! The direction of every key of every rule file but rules and sets. Keys of which it is doubtful
//! are `equal`, as are all that exits depend on: no change of those comes into force by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::moves::{
    Directed, Key, Moves, Way, directed, down, down_or_none, down_to_none, equal, free, off, part,
    subset, subset_or_all, superset, superset_or_none, up, up_or_none,
};
use crate::Rulebook;
use crate::admission::{Policy, Profile};
use crate::approval::{self, APPROVERS_PATH, Approval, Area, Enforce, Touch};
use crate::gateway::{self, ACTIONS, ActionRates, AnomalyRule, Gateway};
use crate::hours::Window;
use crate::principals::{ControlRight, PrincipalRule};
use crate::rule::table::Id;
use crate::safety::{BridgeLimits, CageLevel, Safety, StorageLimits};
use crate::services::{self, Service};
use crate::strategies::{Direction, StopDistance, Strategy, StrategyStatus};
use crate::theses::Thesis;
use spoolgate_wire::control::RiskMode;
use spoolgate_wire::sshsig::Signers;

/// Facts that are fractions of the capital base, or the base itself.
const CAPITAL: &[Id] = &[
    Id::OrderNotionalFraction,
    Id::OrderRiskFraction,
    Id::PortfolioCapitalBase,
];
/// Facts about what strategies may do now.
const STANDING: &[Id] = &[
    Id::StrategyStatus,
    Id::StrategyRiskMode,
    Id::ControlCurrent,
    Id::ControlCurrentRiskMode,
    Id::ControlIsPaused,
];

directed!(Safety {
    currency: equal;
    max_total_capital: down, feeds CAPITAL;
    max_single_position: down;
    max_single_trade_risk: down;
    max_total_exposure: down;
    // Absent, it is that of all symbols, which what one direction has never exceeds.
    max_same_direction_exposure: down_or_none;
    max_correlated_group: down_or_none;
    max_portfolio_risk: down;
    max_daily_loss: down;
    max_weekly_loss: down;
    max_daily_turnover: down;
    stress_gap: up;
    pull_margin: equal;
    blind_s: equal;
    max_order_age_s: down;
    warn_at: down;
    max_drawdown: down;
    max_order_value: down;
    max_volume_share: down_or_none;
    max_open_positions: down;
    max_open_orders: down;
    max_entries_per_minute: down;
    max_entries_per_minute_all: down;
    max_messages_per_minute: down;
    max_messages_per_minute_all: down;
    max_protected_per_minute: equal;
    dead_man: equal;
    restricted_instruments: superset;
    max_executions: down;
    executions_window_s: up, feeds &[Id::StrategyExecutions];
    max_losing_trades: down;
    max_rejects: down;
    cooldown_s: up;
    restricted: more_windows;
    price_collar: down;
    price_collar_passive: down;
    slippage_to_plan: equal;
    max_spread: down;
    max_mid_deviation: down;
    // Stale prices also value what is held.
    quote_age_floor_s: equal;
    entry_slippage: equal;
    stop_slippage: equal;
    duplicate_window_s: up;
    // Heartbeats must arrive in time, too.
    request_age_max_s: equal;
    request_ahead_max_s: equal;
    exit_age_max_s: equal;
    clock_gap_max_s: down;
    reduced_risk_factor: down;
    control_confidence_min: up;
    control_age_max_s: down;
    control_changes_per_hour: down;
    control_dwell_s: up;
    hold_expires_s: down;
    cage: narrower_cage;
    storage: part;
    bridges: part;
});

directed!(StorageLimits {
    reserve_bytes: equal;
    floor_bytes: equal;
});

directed!(BridgeLimits {
    timeout_s: equal;
    entry_valid_s: equal;
    stop_confirm_s: equal;
    instructions_per_s: equal;
});

directed!(PrincipalRule {
    name: free;
    role: equal;
    // A principal that loses a strategy can no longer close what it holds there.
    strategies: equal;
    spool: equal;
    unix_user: equal;
    request_age_max_s: equal;
    // A role that says less may object less.
    council_roles: equal;
    operator: equal;
    family: equal;
    actions: subset;
    control: part;
    admission: equal;
});

directed!(ControlRight {
    concerns: subset;
    overrides: off;
});

directed!(Strategy {
    name: free;
    strategy_id: equal;
    account: equal;
    market: equal;
    status: paused, feeds STANDING;
    risk_mode: stricter, feeds STANDING;
    degraded: declared, feeds STANDING;
    instruments: subset;
    directions: fewer_directions;
    stop_distance: part;
    allocation: down_or_none;
    restricted: more_windows;
    // It is made of account and market.
    concern: free;
});

directed!(StopDistance {
    min: up;
    max: down;
});

directed!(Thesis {
    slug: free;
    strategy: equal;
    symbol: equal;
    direction: equal;
    since: equal;
    expires: down;
    invalid_below: up_or_none;
    invalid_above: down_or_none;
});

directed!(Gateway {
    adapters: equal;
    workers: equal;
    open_max: down;
    rates: part;
    anomalies: part;
});

impl Directed for ActionRates {
    fn moves(&self, new: &ActionRates, moves: &mut Moves<'_>) {
        // Actions that the file leaves out have rates, too.
        let ActionRates {
            per_hour: _,
            all_per_hour,
        } = self;
        for action in ACTIONS {
            let key = Key {
                name: action,
                feeds: &[],
            };
            down(moves, key, &self.of(action), &new.of(action));
        }
        let key = Key {
            name: "all_per_hour",
            feeds: &[],
        };
        down(moves, key, all_per_hour, &new.all_per_hour);
    }
}

directed!(AnomalyRule {
    burst_max: down;
    burst_window_s: up;
    payload_bytes_max: down;
});

directed!(Profile {
    policy_version: free;
    max_spawn_depth: down;
    max_total_descendants: down_or_none;
    max_repeats_per_capability: down_or_none;
    max_repeats_in_ancestor_window: down_or_none;
    // Compared with the number of repeats, which a longer window can only raise.
    ancestor_window_size: up_or_none;
    recursion_budget: down_or_none;
    budget_usd: down_or_none;
    reserve_usd: up_or_none;
    budget_tokens: down_or_none;
    reserve_tokens: up_or_none;
    max_tree_age_s: down_or_none;
    settlers: equal;
    capability_allowlist: subset_or_all;
    capability_denylist: superset_or_none;
    allowed_targets: subset_or_all;
    target_pointer: equal;
    can_spawn: off;
    leases_per_hour: down_to_none;
    max_artifact_size_bytes: down_or_none;
    policy_command: equal;
    cache_ttl_seconds: equal;
    lineage_command: equal;
});

directed!(Policy {
    profile: part;
    sha256: free;
});

fn texts<T: Display>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn more_windows(moves: &mut Moves<'_>, key: Key, old: &[Window], new: &[Window]) {
    superset(moves, key, &texts(old), &texts(new));
}

fn fewer_directions(moves: &mut Moves<'_>, key: Key, old: &[Direction], new: &[Direction]) {
    let [old, new] = [old, new].map(|list| list.iter().map(|it| it.as_str()).collect::<Vec<_>>());
    subset(moves, key, &old, &new);
}

fn narrower_cage(moves: &mut Moves<'_>, key: Key, old: &CageLevel, new: &CageLevel) {
    let laxity = |level: &CageLevel| match level {
        CageLevel::Require => 0,
        CageLevel::Auto => 1,
        CageLevel::Off => 2,
    };
    ranked(
        moves,
        key,
        (old.as_str(), laxity(old)),
        (new.as_str(), laxity(new)),
    );
}

fn stricter(moves: &mut Moves<'_>, key: Key, old: &RiskMode, new: &RiskMode) {
    let laxity = |mode: &RiskMode| match mode {
        RiskMode::ExitsOnly => 0,
        RiskMode::Reduced => 1,
        RiskMode::Normal => 2,
    };
    ranked(
        moves,
        key,
        (old.as_str(), laxity(old)),
        (new.as_str(), laxity(new)),
    );
}

fn ranked(moves: &mut Moves<'_>, key: Key, old: (&str, u8), new: (&str, u8)) {
    if old != new {
        let way = if new.1 < old.1 {
            Way::Tighter
        } else {
            Way::Looser
        };
        moves.add(
            format!("{} {} -> {}", key.name, old.0, new.0),
            way,
            key.feeds,
        );
    }
}

/// Pausing makes a strategy tighter; between the others control decides, too.
fn paused(moves: &mut Moves<'_>, key: Key, old: &StrategyStatus, new: &StrategyStatus) {
    let way = match (old, new) {
        (_, StrategyStatus::Paused) => Way::Tighter,
        (StrategyStatus::Paused, _) => Way::Looser,
        (StrategyStatus::Active | StrategyStatus::Standby, _) => Way::Open,
    };
    if old != new {
        let what = format!("{} {} -> {}", key.name, old.as_str(), new.as_str());
        moves.add(what, way, key.feeds);
    }
}

fn declared(moves: &mut Moves<'_>, key: Key, old: &Option<String>, new: &Option<String>) {
    let (what, way) = match (old, new) {
        (None, Some(_)) => ("is declared", Way::Tighter),
        (Some(_), None) => ("is taken back", Way::Looser),
        (Some(_), Some(_)) | (None, None) => return,
    };
    moves.add(format!("{} {what}", key.name), way, key.feeds);
}

/// Where an active service may be reached, and how.
fn reach(service: &Service) -> BTreeSet<String> {
    let Service {
        service: name,
        host,
        port,
        protocol,
        methods,
        actions,
        added_at: _,
        added_by: _,
        is_active,
    } = service;
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let ways = methods.iter().map(|method| method.as_str());
    ways.chain(actions.iter().map(String::as_str))
        .filter(|_| *is_active)
        .map(|way| format!("{name}: {way} {protocol}://{host}{port}"))
        .collect()
}

/// Without the file, persons approve with their own keys.
fn keys(moves: &mut Moves<'_>, old: &Option<Signers>, new: &Option<Signers>) {
    match (old, new) {
        (None, Some(_)) => moves.add("the file is added", Way::Tighter, &[]),
        (Some(_), None) => moves.add("the file is removed", Way::Looser, &[]),
        (Some(old), Some(new)) => {
            let key = Key {
                name: "keys",
                feeds: &[],
            };
            let [old, new] = [old, new].map(|signers| signers.entries().collect::<Vec<String>>());
            subset(moves, key, &old, &new);
        }
        (None, None) => {}
    }
}

impl Directed for Approval {
    fn moves(&self, new: &Approval, moves: &mut Moves<'_>) {
        let laxity = |approval: &Approval| match approval.enforce {
            Enforce::Gate => 0,
            Enforce::Review => 1,
        };
        let key = |name| Key { name, feeds: &[] };
        let (old_word, new_word) = (self.enforce.as_str(), new.enforce.as_str());
        let old = (old_word, laxity(self));
        ranked(moves, key("enforce"), old, (new_word, laxity(new)));
        let laxity = |approval: &Approval| match approval.touch {
            Touch::Pin => 0,
            Touch::Required => 1,
        };
        let old = (self.touch.as_str(), laxity(self));
        ranked(moves, key("touch"), old, (new.touch.as_str(), laxity(new)));
        let places = |approval: &Approval| {
            let of = |area: &Area| (area.name.clone(), area.files.clone());
            approval.areas().map(of).collect::<Vec<_>>()
        };
        if places(self) != places(new) {
            return moves.add("areas change", Way::Open, &[]);
        }
        for (old, new) in self.areas().zip(new.areas()) {
            moves.within(&old.name, |moves| old.moves(new, moves));
        }
    }
}

directed!(Area {
    name: free;
    files: equal;
    approvers: fewer_approvers;
    need: up;
});

fn fewer_approvers(
    moves: &mut Moves<'_>,
    key: Key,
    old: &BTreeSet<String>,
    new: &BTreeSet<String>,
) {
    let [old, new] = [old, new].map(|all| all.iter().collect::<Vec<&String>>());
    subset(moves, key, &old, &new);
}

/// What becomes of the entries of two maps that are in both, only in the old or only in the new.
fn entries<K: Ord, T: Directed>(
    (old, new): (&BTreeMap<K, T>, &BTreeMap<K, T>),
    path: impl Fn(&K) -> (String, Option<String>),
    (lost, won): (Way, Way),
    found: &mut Vec<super::moves::Move>,
) {
    let all: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    for key in all {
        let (file, name) = path(key);
        let mut moves = Moves::of(&file);
        let whole = name.clone().unwrap_or_else(|| "the file".to_owned());
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => match name {
                Some(name) => moves.within(name, |moves| old.moves(new, moves)),
                None => old.moves(new, &mut moves),
            },
            (Some(_), None) => moves.add(format!("{whole} is removed"), lost, &[]),
            (None, Some(_)) => moves.add(format!("{whole} is added"), won, &[]),
            (None, None) => {}
        }
        found.append(&mut moves.found);
    }
}

/// Compares every file but rules and sets.
pub(super) fn moves(old: &Rulebook, new: &Rulebook) -> Vec<super::moves::Move> {
    // Exhaustive, so that a new file has a direction, too. Rules and sets are the proof's.
    let Rulebook {
        hash: _,
        files: _,
        safety: _,
        written: _,
        overrides: _,
        principals,
        instruments,
        strategies,
        theses,
        rates,
        notify,
        retention,
        services,
        gateway,
        roles,
        admission,
        approval,
        approvers,
        ruleset: _,
    } = old;
    let mut found = Vec::new();
    let mut of_file = |path: &str, compare: &dyn Fn(&mut Moves<'_>)| {
        let mut moves = Moves::of(path);
        compare(&mut moves);
        found.append(&mut moves.found);
    };
    let key = |name| Key { name, feeds: &[] };
    of_file("rules/safety.yaml", &|moves| {
        old.limits_of_file().moves(new.limits_of_file(), moves);
    });
    of_file("rules/instruments.yaml", &|moves| {
        equal(moves, key("instruments"), instruments, &new.instruments);
    });
    // A quota of a spool delays exits, too.
    of_file("rules/rates.yaml", &|moves| {
        equal(moves, key("spool"), rates, &new.rates);
    });
    of_file(crate::notify::PATH, &|moves| {
        equal(moves, key("to"), notify, &new.notify);
    });
    of_file(crate::retention::PATH, &|moves| {
        equal(moves, key("outgoing_answers_s"), retention, &new.retention);
    });
    of_file(services::PATH, &|moves| {
        let new_services = &new.services;
        let [old, new] = [services, new_services].map(|all| {
            let reached = all.services.iter().flat_map(reach);
            reached.collect::<Vec<String>>()
        });
        subset(moves, key("services"), &old, &new);
        // A call that names a host of several services is refused, and one that rules know by the
        // name of a service is not, so fewer services may let more pass.
        let shared = [services, new_services]
            .into_iter()
            .find_map(|all| all.shared_host());
        if let Some(host) = shared.filter(|_| old != new) {
            let what = format!("host {host} is that of several active services");
            moves.add(what, Way::Open, &[]);
        }
    });
    of_file(gateway::PATH, &|moves| gateway.moves(&new.gateway, moves));
    of_file(APPROVERS_PATH, &|moves| {
        keys(moves, approvers, &new.approvers)
    });
    of_file(approval::PATH, &|moves| {
        approval.moves(&new.approval, moves)
    });
    of_file(crate::roles::PATH, &|moves| {
        equal(moves, key("council"), roles, &new.roles);
    });
    entries(
        (principals, &new.principals),
        |name| ("rules/principals.yaml".to_owned(), Some(name.to_string())),
        // Its exits would be refused.
        (Way::Open, Way::Looser),
        &mut found,
    );
    entries(
        (strategies, &new.strategies),
        |name| (format!("rules/strategies/{name}.yaml"), None),
        (Way::Open, Way::Looser),
        &mut found,
    );
    entries(
        (theses, &new.theses),
        |slug| (format!("proposals/theses/{slug}.md"), None),
        (Way::Tighter, Way::Looser),
        &mut found,
    );
    entries(
        (admission, &new.admission),
        |domain| (format!("rules/admission/{domain}.yaml"), None),
        (Way::Open, Way::Looser),
        &mut found,
    );
    found
}
