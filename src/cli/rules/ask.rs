//! `spoolgate rules ask`: shows what the rules do to requests of which only some facts are given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::Value as Json;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_rules::Rulebook;
use spoolgate_rules::ask::nearest::{self, Changed, Passing};
use spoolgate_rules::ask::{self, Asked, Given, Open};
use spoolgate_rules::golden::{self, name_of, show};
use spoolgate_rules::nearest::did_you_mean;
use spoolgate_rules::rule::field::{Kind, Missing, RULED_ACTIONS};
use spoolgate_rules::rule::file::{Operand, Scalar};
use spoolgate_rules::rule::registry::Registry;
use spoolgate_rules::rule::ruleset::missing;
use spoolgate_rules::rule::{Around, Entries, Fact, Program, Reading, RuleSet, Then, Value};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

use super::facts;
use super::folder::Folder;
use crate::cli::look;
use crate::cli::output::{Output, plain};

/// Show what the rules do to requests of which only some facts are given.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules ask --action order.submit order.size=0.02\n  \
        spoolgate rules ask --action email.send --as trend-bot \
        'payload.to[]=x@new.example' time.of_day=23:00\n  spoolgate rules ask --action order.submit --as trend-bot \
        order.size=0.02 --unknown order.risk\n  spoolgate --format json rules ask --action \
        order.submit order.order_type=market | jq -r .softest\n  spoolgate rules ask --action \
        order.submit order.size=0.02 order.order_type=limit --nearest\n\nFacts that are not given stay \
        open: the answer is for all requests that have the given ones. Only rules are asked,\nnot \
        limits, allowlists or permissions. Nothing is written, and no gate has to run. Exit code \
        of the hardest outcome:\n0 accepted, 3 held, 1 refused; 2 if a name or a value does not \
        exist."
)]
pub(crate) struct Args {
    /// Facts, named as in conditions. An array takes one element at a time; `NAME[]=` is empty.
    #[arg(value_name = "NAME=VALUE")]
    facts: Vec<String>,
    /// The action of the request.
    #[arg(long)]
    action: String,
    /// The sender; gives `request.source` and `request.role`.
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = Principal::parse)]
    source: Option<Principal>,
    /// A field that the request leaves out.
    #[arg(long, value_name = "NAME")]
    absent: Vec<String>,
    /// A field whose value is not known.
    #[arg(long, value_name = "NAME")]
    unknown: Vec<String>,
    /// Also show the smallest change of the given facts with which the request passes the rules.
    #[arg(long)]
    nearest: bool,
    /// A home, or a folder that is its `rules`; default: the home, with what its gate has approved.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Entries of sets that have expired by this time, RFC 3339 UTC, do not count; default: now.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

/// The answer as JSON output.
#[derive(Serialize)]
struct AskedView<'a> {
    action: &'a str,
    softest: &'static str,
    hardest: &'static str,
    acting: Vec<ActingView<'a>>,
    depends_on: Vec<String>,
    open: Vec<OpenView<'a>>,
    /// Facts of a request with the softest outcome, if not all have the same.
    example: Option<Json>,
    is_proved: bool,
    /// Changes of facts with which the request passes; empty if none were found, absent if not
    /// asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Vec<ChangeView>>,
    /// Rules that may still act after the changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest_unless: Vec<OpenView<'a>>,
}

/// A change of a fact as JSON output.
#[derive(Serialize)]
struct ChangeView {
    fact: String,
    from: Json,
    to: Json,
}

/// A rule that acts whatever the other facts are, as JSON output.
#[derive(Serialize)]
struct ActingView<'a> {
    rule: &'a str,
    then: Then,
}

/// A rule that acts if the other facts make it, as JSON output.
#[derive(Serialize)]
struct OpenView<'a> {
    rule: &'a str,
    then: Then,
    #[serde(rename = "if")]
    conditions: Vec<String>,
}

fn word(then: Then) -> &'static str {
    match then {
        Then::Warn => "accepted",
        Then::Hold => "held",
        Then::Reject => "refused",
    }
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let now = match &args.at {
        Some(text) => Time::parse(text).context("--at")?,
        None => SystemClock::default().now(),
    };
    let folder = Folder::read(home, args.rules.as_ref())?;
    let rules = folder.sound_rules()?.rules;
    let rulebook = folder.rulebook().transpose();
    let rulebook = rulebook.map_err(|fault| anyhow!(folder.shown(fault)))?;
    if !RULED_ACTIONS.contains(&args.action.as_str()) {
        let near = did_you_mean(&args.action, RULED_ACTIONS.iter().copied(), "");
        bail!(
            "--action: rules do not apply to `{}`, but to {}{near}",
            plain(&args.action),
            RULED_ACTIONS.join(", ")
        );
    }
    let entries = match &args.rules {
        Some(_) => Entries::default(),
        None => {
            look::view(home).map_or_else(|_| Entries::default(), |(view, _)| view.state.entries)
        }
    };
    let none = Program::default();
    let program = rules.programs.get(&args.action).unwrap_or(&none);
    let given = given(args, program, rulebook.as_ref())?;
    let around = Around {
        now,
        entries: &entries,
        task: None,
    };
    let mut asked = ask::ask(program, &args.action, &given, &around)
        .context("no request has these facts together")?;
    if let (Some(book), Some(example)) = (&rulebook, &mut asked.example) {
        name(book, program, example, &given, &around);
    }
    let book = Asking {
        rules: &rules,
        program,
    };
    let nearest = (args.nearest && asked.hardest > Then::Warn).then(|| {
        let again = |changed: &[Changed]| {
            let after = after(program, &given, changed);
            ask::ask(program, &args.action, &after, &around)
        };
        nearest::nearest(program, &asked, &given, &settable(program, &given), &again)
    });
    let exit = output.decided(match asked.hardest {
        Then::Warn => Exit::Success,
        Then::Hold => Exit::NeedsApproval,
        Then::Reject => Exit::Refused,
    });
    match output.is_json() {
        true => {
            let mut view = book.view(&args.action, &asked);
            if let Some(found) = &nearest {
                let found = found.as_ref();
                view.nearest = Some(found.map_or_else(Vec::new, |it| book.changes(&given, it)));
                view.nearest_unless = found.map(|it| book.open(&it.unless)).unwrap_or_default();
            }
            output.json(&view)?;
        }
        false => {
            book.print(&asked, output)?;
            if let Some(found) = nearest {
                output.line(&plain(&book.told(&given, found.as_ref())))?;
            }
        }
    }
    Ok(exit)
}

/// Parses the given facts, and adds those that follow from them.
fn given(
    args: &Args,
    program: &Program,
    rulebook: Option<&Rulebook>,
) -> Result<BTreeMap<usize, Given>> {
    let mut facts: BTreeMap<String, Fact<'static>> = BTreeMap::new();
    for written in &args.facts {
        let (name, value) = written
            .split_once('=')
            .with_context(|| format!("`{}` is not NAME=VALUE", plain(written)))?;
        let fact = fact(&args.action, program, rulebook, name, value)
            .with_context(|| format!("fact `{}`", plain(name)))?;
        match (facts.get_mut(name), fact) {
            (Some(Fact::Many(values)), Fact::Many(more)) => values.extend(more),
            (Some(_), _) => bail!("fact `{}` is given twice", plain(name)),
            (None, fact) => {
                facts.insert(name.to_owned(), fact);
            }
        }
    }
    let unknown = Fact::Unknown("the question says so".into());
    for (names, fact) in [(&args.absent, Fact::Absent), (&args.unknown, unknown)] {
        for name in names {
            golden::known(program, &args.action, name)
                .and_then(|reading| golden::may_be(&reading, &fact))
                .with_context(|| format!("fact `{}`", plain(name)))?;
            if facts.insert(name.clone(), fact.clone()).is_some() {
                bail!("fact `{}` is given twice", plain(name));
            }
        }
    }
    let mut add = |name: &str, text: String| match facts.insert(name.to_owned(), Fact::text(text)) {
        Some(_) => bail!("fact `{name}` comes from `--action` or `--as`; do not give it again"),
        None => Ok(()),
    };
    add("request.action", args.action.clone())?;
    if let Some(source) = &args.source {
        let text = source.to_string();
        if let Some(book) = rulebook {
            exists(book, Registry::Principal, &text).context("--as")?;
            if let Some(principal) = book.principals.get(source) {
                add("request.role", principal.role.as_str().to_owned())?;
            }
        }
        add("request.source", text)?;
    }
    if facts.contains_key("payload.recipients[]") && recipients(&facts).is_some() {
        bail!(
            "`payload.recipients[]` follows from `payload.to[]` and `payload.cc[]`: give these alone"
        );
    }
    let slots = program.readings.iter().enumerate();
    let given = slots.filter_map(|(slot, reading)| {
        let name = name_of(reading);
        let fact = facts.get(&name).cloned().map(Given::Exactly);
        let follows = || (name == "payload.recipients[]").then(|| recipients(&facts))?;
        Some((slot, fact.or_else(follows)?))
    });
    Ok(given.collect())
}

/// Returns the given facts that the sender of a request sets.
fn settable(program: &Program, given: &BTreeMap<usize, Given>) -> Vec<usize> {
    let slots = given.keys().filter(|slot| {
        program.readings.get(**slot).is_some_and(|reading| {
            let name = reading.to_string();
            let is_derived = ["request.", "payload.bytes", "payload.host"];
            facts::is_of_request(reading) && !is_derived.iter().any(|of| name.starts_with(of))
        })
    });
    slots.copied().collect()
}

/// Returns the facts that are given after a change: those that are computed from a changed one are
/// open again.
fn after(
    program: &Program,
    given: &BTreeMap<usize, Given>,
    changed: &[Changed],
) -> BTreeMap<usize, Given> {
    let mut after = given.clone();
    let names = changed
        .iter()
        .filter_map(|(slot, _)| program.readings.get(*slot));
    let names: Vec<String> = names.map(ToString::to_string).collect();
    let is_other_book = names
        .iter()
        .any(|name| ["order.symbol", "strategy.name"].contains(&name.as_str()));
    after.retain(|slot, _| {
        program.readings.get(*slot).is_none_or(|reading| {
            let name = reading.to_string();
            let lasts = ["time.", "request.", "portfolio."];
            match reading {
                Reading::Field(_) if facts::is_of_request(reading) => true,
                Reading::Field(_) if name.starts_with("order.") => false,
                Reading::Field(_) => !is_other_book || lasts.iter().any(|it| name.starts_with(it)),
                Reading::Count { .. } => true,
                Reading::Sum { of, .. } | Reading::Distinct { of, .. } | Reading::FirstSeen(of) => {
                    !names.iter().any(|name| name == of.name)
                }
            }
        })
    });
    let changed = changed.iter().cloned();
    after.extend(changed.map(|(slot, fact)| (slot, Given::Exactly(fact))));
    after
}

/// Parses one fact; an array has this one element.
fn fact(
    action: &str,
    program: &Program,
    rulebook: Option<&Rulebook>,
    name: &str,
    text: &str,
) -> Result<Fact<'static>> {
    let reading = golden::known(program, action, name)?;
    let scalar = match (reading.kind(), text) {
        (Kind::Flag, "true") => Scalar::Flag(true),
        (Kind::Flag, "false") => Scalar::Flag(false),
        _ => Scalar::Text(text.to_owned()),
    };
    let operand = match reading.is_many() {
        true if text.is_empty() => Operand::Many(Vec::new()),
        true => Operand::Many(vec![scalar]),
        false => Operand::One(scalar),
    };
    if let (Kind::Name(registry), Some(book)) = (reading.kind(), rulebook)
        && !text.is_empty()
    {
        exists(book, registry, text)?;
    }
    Ok(golden::parse(&reading, &operand)?)
}

/// Checks that the files have a name, if requests can only have names that they list.
fn exists(book: &Rulebook, registry: Registry, name: &str) -> Result<()> {
    let names = registry.names(book);
    if !registry.is_closed() || names.is_empty() || names.contains(name) {
        return Ok(());
    }
    let otherwise = format!("; {} has no such name", registry.place());
    let near = did_you_mean(name, names, &otherwise);
    bail!("there is no {} `{}`{near}", registry.noun(), plain(name))
}

/// Replaces names that the files do not have by those that they have, if the rules do the same.
fn name(
    book: &Rulebook,
    program: &Program,
    example: &mut [Fact<'static>],
    given: &BTreeMap<usize, Given>,
    around: &Around,
) {
    let wanted = program.act(example, around);
    for (slot, reading) in program.readings.iter().enumerate() {
        let Kind::Name(registry) = reading.kind() else {
            continue;
        };
        let names = registry.names(book);
        let Some(Fact::Known(Value::Text(made))) = example.get(slot).cloned() else {
            continue;
        };
        if given.contains_key(&slot) || !registry.is_closed() || names.contains(made.as_ref()) {
            continue;
        }
        let mut set = |name: String| {
            if let Some(place) = example.get_mut(slot) {
                *place = Fact::text(name);
            }
            program.act(example, around) == wanted
        };
        if !names.into_iter().any(|name| set(name.to_owned())) {
            set(made.into_owned());
        }
    }
}

/// Returns the recipients of a mail: those of `to` or `cc` may be open.
fn recipients(facts: &BTreeMap<String, Fact<'static>>) -> Option<Given> {
    let (mut all, mut is_open, mut is_given) = (Vec::new(), false, false);
    for name in ["payload.to[]", "payload.cc[]"] {
        match facts.get(name) {
            Some(Fact::Many(own)) => {
                all.extend(own.iter().cloned());
                is_given = true;
            }
            Some(Fact::Absent) => is_given = true,
            Some(Fact::Known(_) | Fact::Unknown(_)) | None => is_open = true,
        }
    }
    match (is_given, is_open) {
        (false, _) => None,
        (true, true) => Some(Given::AtLeast(all)),
        (true, false) => Some(Given::Exactly(Fact::Many(all))),
    }
}

/// The rules that are asked.
struct Asking<'a> {
    rules: &'a RuleSet,
    program: &'a Program,
}

impl Asking<'_> {
    /// Returns the conditions of a rule that are open, each with its reading.
    fn conditions(&self, open: &Open) -> Vec<(Reading, String)> {
        let guard = self.program.guards.iter().find(|it| it.id == open.rule);
        let rule = self.rules.rules.get(&open.rule);
        let (Some(guard), Some(rule)) = (guard, rule) else {
            return Vec::new();
        };
        let written = &rule.file.when;
        // The conditions of the rule's scope come before its own.
        let scope = guard.conditions.len().saturating_sub(written.len());
        let conditions = open.conditions.iter().filter_map(|at| {
            let slot = guard.conditions.get(*at)?.slot;
            let reading = self.program.readings.get(slot)?;
            let own = at.checked_sub(scope).and_then(|at| written.get(at));
            let mut text = own.map_or_else(
                || format!("{} is one that the rule applies to", name_of(reading)),
                ToString::to_string,
            );
            if missing(reading) == Missing::Unknown {
                text.push_str(" or is not known");
            }
            Some((*reading, text))
        });
        conditions.collect()
    }

    /// Returns the names of the facts that the outcome depends on.
    fn depends_on(&self, asked: &Asked) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for open in &asked.open {
            for (reading, _) in self.conditions(open) {
                let name = name_of(&reading);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    fn view<'v>(&self, action: &'v str, asked: &'v Asked) -> AskedView<'v> {
        let acting = asked.acting.iter().map(|(rule, then)| ActingView {
            rule: rule.as_str(),
            then: *then,
        });
        AskedView {
            action,
            softest: word(asked.softest),
            hardest: word(asked.hardest),
            acting: acting.collect(),
            depends_on: self.depends_on(asked),
            open: self.open(&asked.open),
            example: asked
                .example
                .as_ref()
                .map(|example| facts::views(self.program.readings.iter().zip(example))),
            is_proved: asked.is_proved,
            nearest: None,
            nearest_unless: Vec::new(),
        }
    }

    fn open<'v>(&self, open: &'v [Open]) -> Vec<OpenView<'v>> {
        let view = |open: &'v Open| OpenView {
            rule: open.rule.as_str(),
            then: open.then,
            conditions: self
                .conditions(open)
                .into_iter()
                .map(|(_, it)| it)
                .collect(),
        };
        open.iter().map(view).collect()
    }

    fn changes(&self, given: &BTreeMap<usize, Given>, passing: &Passing) -> Vec<ChangeView> {
        let views = passing.changed.iter().filter_map(|(slot, to)| {
            let reading = self.program.readings.get(*slot)?;
            let Given::Exactly(from) = given.get(slot)? else {
                return None;
            };
            Some(ChangeView {
                fact: name_of(reading),
                from: facts::view(reading, from),
                to: facts::view(reading, to),
            })
        });
        views.collect()
    }

    /// Says with which change the request passes.
    fn told(&self, given: &BTreeMap<usize, Given>, passing: Option<&Passing>) -> String {
        let Some(Passing { changed, unless }) = passing else {
            return "no change of these facts was found with which it passes".to_owned();
        };
        let told = changed.iter().filter_map(|(slot, to)| {
            let reading = self.program.readings.get(*slot)?;
            let Given::Exactly(from) = given.get(slot)? else {
                return None;
            };
            let name = name_of(reading);
            Some(format!(
                "{name} {} -> {}",
                show(reading, from),
                show(reading, to)
            ))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        match self.lines(unless).as_slice() {
            [] => format!("{told} passes"),
            lines => format!("{told} passes, unless {}", lines.join("; ")),
        }
    }

    fn print(&self, asked: &Asked, output: &Output) -> Result<()> {
        let softest = word(asked.softest);
        let by = asked
            .acting
            .iter()
            .filter(|(_, then)| *then == asked.softest && *then > Then::Warn)
            .map(|(rule, _)| rule.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        let always = match by.is_empty() {
            true => softest.to_owned(),
            false => format!("{softest} by {by}"),
        };
        if asked.softest == asked.hardest {
            output.line(&format!("{always} whatever else"))?;
        }
        let lines = self.lines(&asked.open);
        if asked.softest < asked.hardest {
            let least = match asked.softest {
                Then::Warn => String::new(),
                Then::Hold | Then::Reject => format!("at least {always}; "),
            };
            let on = self.depends_on(asked).join(", ");
            match lines.as_slice() {
                [line] => output.line(&plain(&format!("{least}depends on {on}: {line}")))?,
                _ => output.line(&plain(&format!("{least}depends on {on}")))?,
            }
        }
        // Without a rule that always acts, several together cover every request.
        if lines.len() > 1 || (asked.softest == asked.hardest && by.is_empty()) {
            for line in &lines {
                output.line(&plain(&format!("  {line}")))?;
            }
        }
        if let Some(example) = &asked.example {
            let facts = self.program.readings.iter().zip(example);
            let facts: Vec<String> = facts
                .map(|(reading, fact)| format!("{} {}", name_of(reading), show(reading, fact)))
                .collect();
            output.line(&plain(&format!(
                "{softest}, for example: {}",
                facts.join(", ")
            )))?;
        }
        if !asked.is_proved {
            output.remark("not proved within the budget: the outcomes may differ less than this");
        }
        Ok(())
    }

    /// Returns a line for each rule that acts on some of the requests.
    fn lines(&self, open: &[Open]) -> Vec<String> {
        let one = |open: &Open| {
            let conditions = self.conditions(open).into_iter().map(|(_, text)| text);
            let when: Vec<String> = conditions.collect();
            let (does, by) = (word(open.then), &open.rule);
            format!("{does} by {by} if {}", when.join(" and "))
        };
        open.iter().map(one).collect()
    }
}
