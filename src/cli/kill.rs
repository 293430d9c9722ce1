//! `spoolgate kill`: closes entries, and positions if asked to, and waits until that is confirmed.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use spoolgate_gate::State;
use spoolgate_gate::bridges::used;
use spoolgate_gate::drill::Drill;
use spoolgate_gate::flatten;
use spoolgate_home::read::real_seams;
use spoolgate_home::status::holder;
use spoolgate_trading::absent;
use spoolgate_trading::order::{Order, OrderRole, Position};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::time::Time;

use super::bridges::{seconds, untaken, untaken_in_words};
use super::halt::{self, Part, Stop};
use super::handover::{self, Person};
use super::look;
use super::output::{Output, causes, plain};

/// Longest wait, seconds.
const WAIT_S_MAX: u32 = 3600;

/// How often the state is read while the command waits.
const POLL: Duration = Duration::from_millis(250);

/// Close entries, and positions if asked to, and wait until that is confirmed.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate kill --reason \"model misbehaves\"\n  spoolgate kill \
        --strategy trend --flatten --reason \"model misbehaves\"\n  spoolgate --format json kill \
        --bridge exchange --wait 60 --reason \"venue is down\" | jq .not_confirmed\n  spoolgate \
        kill --drill --reason \"quarterly drill\"\n\nIt halts the \
        entries of everybody, or of one strategy, symbol or bridge, pulls those that work, and\nwith \
        --flatten closes the positions at the market. It needs no rules that are in order, no \
        agent's\nkey and no running gate. `halt clear` ends the halt.\n\nExit codes: 0 once every \
        entry in scope is gone, and with --flatten every position; 8 if something\nis not confirmed \
        after --wait, or if a bridge does not answer a drill within 5 s; 1 if the request was refused."
)]
pub(super) struct Args {
    /// Also close the positions in scope at the market, until they are flat.
    #[arg(long)]
    flatten: bool,
    #[command(flatten)]
    on: Part,
    /// Change nothing; record and show what the command would end.
    #[arg(long, conflicts_with_all = ["flatten", "wait"])]
    drill: bool,
    /// How long to wait for confirmation, in whole seconds; 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = "30", allow_negative_numbers = true,
        value_parser = wait)]
    wait: u32,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Reads the time to wait.
fn wait(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(seconds) if seconds <= WAIT_S_MAX => Ok(seconds),
        _ => Err(format!(
            "use a whole number of seconds up to {WAIT_S_MAX}; 0 does not wait"
        )),
    }
}

/// What the command is about.
struct Scope {
    /// The agent that sent the request, which halts only itself.
    principal: Option<String>,
    strategy: Option<String>,
    symbol: Option<String>,
    bridge: Option<String>,
}

impl Scope {
    fn covers(&self, strategy: &StrategyName, symbol: &Symbol, bridge: Option<&str>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.strategy, Some(strategy.as_str()))
            && is(&self.symbol, Some(symbol.as_str()))
            && is(&self.bridge, bridge)
    }

    fn entry(&self, order: &Order) -> bool {
        let of = self.principal.as_deref();
        order.role == OrderRole::Entry
            && of.is_none_or(|of| order.source.as_str() == of)
            && self.covers(&order.strategy, &order.symbol, bridge_of(order))
    }

    fn holds(&self, position: &Position) -> bool {
        let bridge = position.held_at.as_ref().map(|held| held.bridge.as_str());
        self.covers(&position.strategy, &position.symbol, bridge)
    }

    fn in_words(&self) -> String {
        let parts = [
            ("strategy", &self.strategy),
            ("symbol", &self.symbol),
            ("bridge", &self.bridge),
        ];
        let named = parts
            .into_iter()
            .find_map(|(kind, name)| Some(format!("{kind} {}", name.as_deref()?)));
        let named = named.or_else(|| self.principal.clone());
        named.unwrap_or_else(|| "everybody".to_owned())
    }
}

fn bridge_of(order: &Order) -> Option<&str> {
    order.at_venue.as_ref().map(|venue| venue.bridge.as_str())
}

/// What halts the entries.
enum Stopped {
    /// A ledger line.
    Line(String),
    /// The file `rules/HALT`.
    File,
}

/// What was in scope, by the looks so far.
#[derive(Default)]
struct Seen {
    /// Entries, with their bridges.
    entries: BTreeMap<OrderId, Option<String>>,
    /// Sizes of positions.
    positions: BTreeMap<(Symbol, StrategyName), Amount>,
}

impl Seen {
    fn look(&mut self, state: &State, scope: &Scope) {
        for order in state.book.orders.values().filter(|it| scope.entry(it)) {
            let bridge = bridge_of(order).map(str::to_owned);
            self.entries.insert(order.order_id, bridge);
        }
        let held = state.book.positions.values();
        let held = held.filter(|it| scope.holds(it) && !it.is_dust());
        for position in held {
            let key = (position.symbol.clone(), position.strategy.clone());
            self.positions.insert(key, position.size);
        }
    }
}

/// What there is to say at one moment.
struct Summary {
    entries: usize,
    pulled: usize,
    gone: usize,
    /// Entries that wait for their bridges; on paper under an empty name.
    waiting: BTreeMap<String, Vec<OrderId>>,
    positions: Vec<Held>,
    /// Instructions that lie untaken: how many, and for how long the oldest does, milliseconds.
    bridges: BTreeMap<String, Option<(usize, u64)>>,
    not_confirmed: Vec<String>,
}

/// A position in scope.
struct Held {
    strategy: StrategyName,
    symbol: Symbol,
    /// What is left of it; `None` if it is flat.
    left: Option<Amount>,
    was: Amount,
    /// The order that closes it.
    order: Option<OrderId>,
    /// The bridge of that order.
    bridge: Option<String>,
    /// Whether its bridge has the instruction.
    is_told: bool,
    /// Whether its symbol is doubted.
    is_doubted: bool,
    /// The last order that was to close it and that was dropped, and when the gate tries again; `None`
    /// once it has given up.
    dropped: Option<(OrderId, Option<Time>)>,
}

impl Summary {
    fn of(home: &Path, state: &State, scope: &Scope, seen: &Seen, flatten: bool) -> Summary {
        let book = &state.book;
        let mut waiting: BTreeMap<String, Vec<OrderId>> = BTreeMap::new();
        let (mut pulled, mut not_confirmed) = (0_usize, Vec::new());
        let mut left = 0_usize;
        for (id, bridge) in &seen.entries {
            let order = book.orders.get(id);
            if order.is_none_or(|order| order.ending().is_some()) {
                pulled = pulled.saturating_add(1);
            }
            if order.is_some() {
                left = left.saturating_add(1);
                let at = bridge.clone().unwrap_or_default();
                waiting.entry(at).or_default().push(*id);
                not_confirmed.push(id.to_string());
            }
        }
        let mut bridges = BTreeMap::new();
        let orders = book.orders.values();
        let in_scope = orders.filter(|it| scope.covers(&it.strategy, &it.symbol, bridge_of(it)));
        let named = in_scope.filter_map(|order| bridge_of(order).map(str::to_owned));
        for name in named.chain(seen.entries.values().flatten().cloned()) {
            bridges
                .entry(name)
                .or_insert_with_key(|name| untaken(home, name));
        }
        let positions: Vec<Held> = seen
            .positions
            .iter()
            .map(|((symbol, strategy), was)| held(state, symbol, strategy, *was))
            .collect();
        for held in positions
            .iter()
            .filter(|held| flatten && held.left.is_some())
        {
            not_confirmed.push(match held.order {
                Some(id) => id.to_string(),
                None => format!("{} {}", held.strategy, held.symbol),
            });
        }
        Summary {
            entries: seen.entries.len(),
            pulled,
            gone: seen.entries.len().saturating_sub(left),
            waiting,
            positions,
            bridges,
            not_confirmed,
        }
    }

    fn json(&self, scope: &Scope, stopped: &Stopped, waited_s: u32) -> Value {
        let (line, by) = match stopped {
            Stopped::Line(line) => (Some(line), "halt.set"),
            Stopped::File => (None, "rules/HALT"),
        };
        let positions = self.positions.iter().map(|held| {
            json!({
                "strategy": held.strategy, "symbol": held.symbol, "was": held.was,
                "left": held.left, "flat": held.left.is_none(), "order": held.order,
                "bridge": held.bridge, "doubted": held.is_doubted,
            })
        });
        let bridges = self.bridges.iter().map(|(name, untaken)| {
            json!({
                "bridge": name,
                "untaken": untaken.map(|(count, _)| count),
                "untaken_for_ms": untaken.map(|(_, ms)| ms),
            })
        });
        json!({
            "line": line,
            "halted_by": by,
            "scope": {
                "strategy": scope.strategy, "symbol": scope.symbol, "bridge": scope.bridge,
            },
            "entries": {
                "in_scope": self.entries, "pulled": self.pulled, "gone": self.gone,
                "waiting": self.waiting,
            },
            "positions": positions.collect::<Vec<_>>(),
            "bridges": bridges.collect::<Vec<_>>(),
            "not_confirmed": self.not_confirmed,
            "wait_s": waited_s,
        })
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut told = format!("pulled {}, gone {}", self.pulled, self.gone);
        for (bridge, orders) in &self.waiting {
            let count = orders.len();
            told.push_str(&match bridge.as_str() {
                "" => format!(", still working {count}"),
                bridge => format!(", waiting for `{bridge}` {count}"),
            });
        }
        let mut rows = vec![("entries".to_owned(), format!("{:<4} {told}", self.entries))];
        let positions: Vec<String> = self.positions.iter().map(Held::in_words).collect();
        rows.push((
            "positions".to_owned(),
            format!("{:<4} {}", positions.len(), positions.join("; ")),
        ));
        rows.extend(
            self.bridges.iter().map(|(name, untaken)| {
                (name.clone(), format!("     {}", untaken_in_words(*untaken)))
            }),
        );
        rows
    }
}

impl Held {
    fn in_words(&self) -> String {
        let what = format!(
            "{} {} {}",
            self.strategy,
            self.symbol,
            self.left.unwrap_or(self.was).normalized()
        );
        match (self.left, self.order, &self.bridge) {
            (None, ..) => format!("{what} flat"),
            (Some(_), None, _) => match self.dropped {
                Some((id, None)) => format!(
                    "{what} held: {id} was dropped like those before it, and book and venue may \
                        differ: look at both, then `spoolgate halt clear --symbol {}`",
                    self.symbol
                ),
                Some((id, Some(again))) => {
                    format!("{what} held; {id} was dropped, and the gate tries again at {again}")
                }
                None => format!("{what} held"),
            },
            (Some(_), Some(order), None) => format!("{what}: {order} waits for a price"),
            (Some(_), Some(order), Some(bridge)) => {
                if self.is_told {
                    format!("{what}: {order} not answered by `{bridge}`")
                } else {
                    format!("{what}: {order} waits until `{bridge}` has ended what goes before it")
                }
            }
        }
    }
}

fn held(state: &State, symbol: &Symbol, strategy: &StrategyName, was: Amount) -> Held {
    let key = (symbol.clone(), strategy.clone());
    let position = state.book.positions.get(&key);
    // What is too small for any order counts as flat.
    let left = position.filter(|held| !held.is_dust());
    let left = left.map(|held| held.size);
    let mut orders = state.book.orders.values().rev();
    let order = orders.find(|order| absent::is_closing(order) && order.is_of(strategy, symbol));
    Held {
        strategy: strategy.clone(),
        symbol: symbol.clone(),
        left,
        was,
        order: order.map(|order| order.order_id).filter(|_| left.is_some()),
        bridge: order.and_then(|order| bridge_of(order)).map(str::to_owned),
        is_told: order
            .and_then(|order| order.at_venue.as_ref())
            .is_some_and(|venue| venue.version > 0),
        is_doubted: state.book.doubted_symbols.contains_key(symbol),
        dropped: position
            .and_then(|position| position.dropped)
            .map(|dropped| (dropped.order_id, flatten::again_at(dropped))),
    }
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let mut scope = Scope {
        principal: None,
        strategy: args.on.strategy.clone(),
        symbol: args.on.symbol.clone(),
        bridge: args.on.bridge.clone(),
    };
    let mut payload = args.on.members();
    payload.insert("reason".to_owned(), args.reason.as_str().into());
    if args.drill {
        return drill(home, args, payload, output);
    }
    let mut seen = Seen::default();
    if let Ok((view, _)) = look::view(home) {
        seen.look(&view.state, &scope);
    }
    if args.flatten {
        payload.insert("flatten".to_owned(), true.into());
    }
    // The file covers everybody, so it closes no positions in place of a request about a part.
    let is_part = !args.on.members().is_empty();
    let flatten_by_file = args.flatten && !is_part;
    let stopped = match halt::stop(home, &args.by, payload, flatten_by_file, output) {
        Stop::Answered(answer) if answer.error.is_none() => {
            scope.principal = halt::whose(&answer);
            Stopped::Line(answer.audit_ref.clone())
        }
        Stop::Answered(answer) => {
            return handover::report(Some(&answer), output, |_| String::new());
        }
        Stop::Failed(handed) => return handed,
        Stop::Braked => {
            output.remark(if args.flatten && is_part {
                "`rules/HALT` was created instead, which halts the entries of everybody; it closes no \
                    positions, because you asked only for a part"
            } else {
                "`rules/HALT` was created instead, which halts the entries of everybody"
            });
            Stopped::File
        }
    };
    let deadline = Instant::now() + Duration::from_secs(u64::from(args.wait));
    let mut told = String::new();
    let summary = loop {
        let has_gate = holder(home, real_seams(home)?.disk.as_ref()).is_ok_and(|it| it.is_some());
        if !has_gate && let Err(error) = handover::take_turn(home) {
            // The next look may fail for the same reason.
            let why = causes(&error);
            if why != told {
                output.remark(&why);
            }
            told = why;
        }
        let found = look::view(home).map(|(view, _)| {
            seen.look(&view.state, &scope);
            let is_halted = matches!(stopped, Stopped::Line(_)) || view.state.halts.file;
            let summary = Summary::of(home, &view.state, &scope, &seen, args.flatten);
            (summary, is_halted)
        });
        let is_over = Instant::now() >= deadline;
        match found {
            Ok((summary, is_halted))
                if is_over || is_halted && summary.not_confirmed.is_empty() =>
            {
                break Some((summary, is_halted));
            }
            Err(error) if is_over => {
                output.remark(&causes(&error));
                break None;
            }
            _ => thread::sleep(POLL),
        }
    };
    tell(summary, &scope, &stopped, args.wait, output)
}

/// Asks what the command would end. Nothing is halted, also where the gate does not answer.
fn drill(
    home: &Path,
    args: &Args,
    mut payload: serde_json::Map<String, Value>,
    output: &Output,
) -> Result<Exit> {
    payload.insert("drill".to_owned(), true.into());
    let answer = halt::ask(home, &args.by, &Value::Object(payload).to_string())?;
    let exit = handover::report(answer.as_ref(), output, |answer| {
        format!("line {}: a drill; nothing was changed", answer.audit_ref)
    })?;
    let answer_line = answer.as_ref().map(|answer| answer.audit_ref.clone());
    let data = answer.and_then(|answer| answer.data);
    let data: Option<Value> = data.and_then(|data| serde_json::from_str(data.get()).ok());
    let found = data
        .as_ref()
        .and_then(|data| data.pointer("/HaltSet/drill"));
    let Some(drill) = found.filter(|_| !output.is_json()) else {
        return Ok(exit);
    };
    let drill = Drill::deserialize(drill)?;
    let row = |what: &str, count: u64, told: &str| (what.to_owned(), format!("{count:<4} {told}"));
    let mut rows = vec![
        row("entries", drill.entries, "would be pulled"),
        row("exits", drill.exits, "would be retired by --flatten"),
        row("positions", drill.positions, "would be closed by --flatten"),
    ];
    rows.extend(drill.bridges.iter().map(|it| {
        let (name, heard) = (it.bridge.as_str(), it.heard_ms);
        let heard = match heard {
            Some(ms) => format!("last reported {} ago", seconds(ms)),
            None => "has never reported".to_owned(),
        };
        let untaken = untaken_in_words(untaken(home, name));
        row(
            name,
            it.instructions,
            &format!("instructions; it {heard}; {untaken}"),
        )
    }));
    let line = answer_line.unwrap_or_default();
    let is_whole = args.on.members().is_empty();
    let unanswered = if is_whole {
        pinged(home, &line, &mut rows)?
    } else {
        false
    };
    print_rows(rows, output)?;
    Ok(if unanswered { Exit::WaitTimeout } else { exit })
}

/// How long a drill waits until bridges answer its ping.
const PING_WAIT: Duration = Duration::from_secs(5);

/// Waits until every bridge has answered the ping of this line, and adds a row for each. Returns whether
/// one has not. Without a running gate nobody reads the answers.
fn pinged(home: &Path, line: &str, rows: &mut Vec<(String, String)>) -> Result<bool> {
    let seams = real_seams(home)?;
    let line: u64 = line.parse().unwrap_or(u64::MAX);
    let began = Instant::now();
    loop {
        let (view, _) = look::view(home)?;
        let used = used(&view.state, &view.rulebook);
        if used.is_empty() {
            return Ok(false);
        }
        if holder(home, seams.disk.as_ref())?.is_none() {
            let told = "nobody reads the answers: no gate is running".to_owned();
            rows.push(("ping".to_owned(), told));
            return Ok(false);
        }
        let has_answered = |name: &Principal| {
            let known = view.state.book.bridges.get(name);
            known.is_some_and(|known| known.pinged.is_some_and(|pinged| pinged >= line))
        };
        let is_over = began.elapsed() >= PING_WAIT;
        let missing = used.iter().any(|name| !has_answered(name));
        if missing && !is_over {
            thread::sleep(Duration::from_millis(100));
            continue;
        }
        for name in used {
            let told = match has_answered(name) {
                true => format!("`{name}` has answered"),
                false => format!("`{name}` has not answered within {} s", PING_WAIT.as_secs()),
            };
            rows.push(("ping".to_owned(), told));
        }
        return Ok(missing);
    }
}

/// Prints what each row is about, and what is to be said about it, below each other.
fn print_rows(rows: Vec<(String, String)>, output: &Output) -> Result<()> {
    let width = rows.iter().map(|(what, _)| what.chars().count()).max();
    let width = width.unwrap_or(0);
    for (what, told) in rows {
        let line = format!("{what:<width$}   {told}");
        output.line(&plain(line.trim_end()))?;
    }
    Ok(())
}

/// Prints the outcome.
fn tell(
    summary: Option<(Summary, bool)>,
    scope: &Scope,
    stopped: &Stopped,
    wait_s: u32,
    output: &Output,
) -> Result<Exit> {
    let Some((mut summary, is_halted)) = summary else {
        output.remark("what is in scope cannot be read, so nothing is confirmed");
        return Ok(Exit::WaitTimeout);
    };
    if !is_halted {
        summary
            .not_confirmed
            .insert(0, "`rules/HALT` (no gate has recorded it yet)".to_owned());
    }
    if output.is_json() {
        output.json(&summary.json(scope, stopped, wait_s))?;
    } else {
        let closed = format!("entries closed for {}", scope.in_words());
        output.line(&plain(&match stopped {
            Stopped::Line(line) => format!("line {line}: {closed}"),
            Stopped::File => "`rules/HALT`: entries closed for everybody".to_owned(),
        }))?;
        print_rows(summary.rows(), output)?;
    }
    if summary.not_confirmed.is_empty() {
        return Ok(Exit::Success);
    }
    if !output.is_json() {
        let shown = summary.not_confirmed.iter().take(SHOWN_MAX);
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        let rest = summary.not_confirmed.len().saturating_sub(shown.len());
        let more = if rest > 0 {
            format!(" and {rest} more")
        } else {
            String::new()
        };
        output.line(&plain(&format!(
            "not confirmed after {wait_s} s: {}{more} (exit code 8; `spoolgate orders` tells more)",
            shown.join(" ")
        )))?;
    }
    Ok(Exit::WaitTimeout)
}

/// Maximum number of names in the list of what is not confirmed, for people.
const SHOWN_MAX: usize = 50;
