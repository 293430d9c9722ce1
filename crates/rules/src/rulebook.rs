//! The compiled rulebook. It is compiled from all rule files, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::admission::{self, Policy};
use super::approval::{self, Approval};
use super::bundle::Bundle;
use super::gateway::{self, Gateway};
use super::hours;
use super::instruments::{IMITATED, Instrument, InstrumentsFile, Venue};
use super::notify::{self, Notify};
use super::overrides::Overrides;
use super::principals::{PrincipalRule, PrincipalsFile, Role};
use super::rates::Rates;
use super::retention::{self, Retention};
use super::roles::{self, Roles, RolesError};
use super::rule::RuleSet;
use super::rule::ruleset::Rule;
use super::safety::Safety;
use super::services::{self, Services};
use super::strategies::{Strategy, StrategyStatus};
use super::theses::{self, Thesis};
use super::yaml;
use spoolgate_wire::admin::REASON_BYTES_MAX;
use spoolgate_wire::admission::Domain;
use spoolgate_wire::ids::{ConcernId, Principal, ServiceName, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::sshsig::Signers;

/// Longest message of a [`RulebookError`], characters.
const MESSAGE_CHARS_MAX: usize = 500;
/// Most system users whose processes may use the socket, besides the gate's own.
const UNIX_USERS_MAX: usize = 16;

/// A fault in a rule file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RulebookError {
    /// Path below the home.
    pub file: String,
    /// Line, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl RulebookError {
    /// Creates an error in `file`. The message may quote the file, so it is cut to a length that
    /// fits into a ledger line.
    pub fn new(
        file: impl Into<String>,
        line: Option<usize>,
        message: impl fmt::Display,
    ) -> RulebookError {
        RulebookError {
            file: file.into(),
            line,
            message: message
                .to_string()
                .chars()
                .take(MESSAGE_CHARS_MAX)
                .collect(),
        }
    }
}

impl fmt::Display for RulebookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{}: {}", self.file, line, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// What is wrong with one principal.
#[derive(Debug, thiserror::Error)]
enum PrincipalError {
    #[error("`admission` names no domain")]
    NoDomain,
    #[error("a {} asks for nothing: it has no `actions`", .0.as_str())]
    Requests(Role),
    #[error("`actions` has `{}`, which is none of {}", .0, gateway::ACTIONS.join(", "))]
    UnknownAction(String),
    #[error("`actions` has `{0}` twice")]
    ActionTwice(String),
    #[error("a {} has no tasks", .0.as_str())]
    Tasks(Role),
    #[error("a {} speaks for no council role", .0.as_str())]
    CouncilRoles(Role),
    #[error(transparent)]
    Roles(RolesError),
    #[error("a {} decides on no concern", .0.as_str())]
    Concerns(Role),
    #[error("concern `{0}` is that of no strategy file")]
    UnknownConcern(ConcernId),
}

impl PrincipalError {
    fn of(self, name: &Principal) -> RulebookError {
        let message = format!("principal `{name}`: {self}");
        RulebookError::new("rules/principals.yaml", None, message)
    }
}

/// Why a principal cannot settle what the tasks of a domain spend.
#[derive(Debug, thiserror::Error)]
enum SettlerError<'a> {
    #[error("`settlers` has `{0}`, which is not in rules/principals.yaml")]
    Unknown(&'a Principal),
    #[error("`settlers` has `{0}`, and a {role} settles nothing", role = .1.as_str())]
    Machine(&'a Principal, Role),
    #[error("`settlers` has `{0}`, which has a grant in this domain; nobody settles its own tasks")]
    Granted(&'a Principal),
}

/// All rule files of a home, parsed and checked against each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rulebook {
    /// SHA-256 of the bundle that it was compiled from, hex.
    pub hash: String,
    /// The files that it was compiled from.
    pub files: Arc<Bundle>,
    /// Limits in force: those of `rules/safety.yaml`, under the overrides of people.
    pub safety: Safety,
    /// The limits as the file has them, where they are under overrides: see
    /// [`Rulebook::put_under`].
    pub written: Option<Box<Safety>>,
    /// The overrides that the limits are under.
    pub overrides: Overrides,
    /// Principals by name.
    pub principals: BTreeMap<Principal, PrincipalRule>,
    /// Instruments by symbol.
    pub instruments: BTreeMap<Symbol, Instrument>,
    /// Strategies by name.
    pub strategies: BTreeMap<StrategyName, Strategy>,
    /// Theses by slug.
    pub theses: BTreeMap<ThesisSlug, Thesis>,
    /// Quotas of the spools; `None` if there are no quotas.
    pub rates: Option<Rates>,
    /// The programs that tell people what happens.
    pub notify: Notify,
    /// How long files stay; `None` if they stay for ever.
    pub retention: Option<Retention>,
    /// The services that outgoing actions may reach; empty if the home has no such file.
    pub services: Services,
    /// Adapters, rates and anomalies of outgoing actions.
    pub gateway: Gateway,
    /// The council; the shipped one if the home has no file of its own.
    pub roles: Roles,
    /// Whose signatures a change of rules needs.
    pub approval: Approval,
    /// The keys of approvers; `None` if the home has no `rules/approvers`.
    pub approvers: Option<Signers>,
    /// Admission policies by domain. There is no default policy.
    pub admission: BTreeMap<Domain, Policy>,
    /// Rules and the named sets that they refer to.
    pub ruleset: RuleSet,
}

impl Rulebook {
    /// Compiles a bundle.
    ///
    /// # Errors
    /// Returns the first [`RulebookError`] in path order: an unknown key, a wrong type, a name that
    /// differs from its file's name, a dangling reference, or a limit that makes no sense.
    pub fn compile(bundle: &Bundle) -> Result<Rulebook, RulebookError> {
        let mut safety = None;
        let mut principals = BTreeMap::new();
        let mut instruments = BTreeMap::new();
        let mut strategies = BTreeMap::new();
        let mut theses_by_slug = BTreeMap::new();
        let mut rates = None;
        let (mut notify, mut retention) = (Notify::default(), None);
        let mut services = Services::default();
        let mut gateway = Gateway::default();
        let mut roles = None;
        let mut policies = BTreeMap::new();
        let (mut rules, mut sets) = (Vec::new(), Vec::new());
        for (path, text) in &bundle.files {
            match path.as_str() {
                "rules/safety.yaml" => safety = Some(Safety::read(path, text)?),
                "rules/principals.yaml" => principals = read_principals(path, text)?,
                "rules/instruments.yaml" => instruments = read_instruments(path, text)?,
                "rules/rates.yaml" => rates = Some(Rates::read(path, text)?),
                services::PATH => services = Services::read(path, text)?,
                gateway::PATH => gateway = Gateway::read(path, text)?,
                notify::PATH => notify = Notify::read(path, text)?,
                retention::PATH => retention = Some(Retention::read(path, text)?),
                roles::PATH => roles = Some(Roles::read(path, text)?),
                // One needs the other, so both are read below.
                approval::PATH | approval::APPROVERS_PATH => {}
                _ => {
                    if let Some(stem) = stem_below(path, "rules/strategies/", ".yaml") {
                        let mut strategy: Strategy = yaml::read(path, text)?;
                        check_strategy(path, stem, &strategy)?;
                        resolve_concern(path, &mut strategy)?;
                        strategies.insert(strategy.name.clone(), strategy);
                    } else if let Some(stem) = stem_below(path, "proposals/theses/", ".md") {
                        let thesis = theses::read(path, text)?;
                        same_name(path, stem, thesis.slug.as_str())?;
                        theses_by_slug.insert(thesis.slug.clone(), thesis);
                    } else if is_below(path, "rules/core/") || is_below(path, "rules/active/") {
                        rules.push((path.as_str(), text.as_str()));
                    } else if is_below(path, "rules/sets/") {
                        sets.push((path.as_str(), text.as_str()));
                    } else if let Some(domain) = admission::domain_of(path) {
                        policies.insert(domain?, Policy::read(path, text)?);
                    } else {
                        return Err(RulebookError::new(path, None, "no rule file has this name"));
                    }
                }
            }
        }
        let safety = safety.ok_or_else(|| {
            RulebookError::new(
                "rules/safety.yaml",
                None,
                "missing; bring it back, or take the one that `spoolgate init` writes in a new \
                    folder",
            )
        })?;
        if let Some(rates) = &mut rates {
            rates.resolve(&principals)?;
        }
        let roles = roles.map_or_else(Roles::shipped, Ok)?;
        resolve_council_roles(&mut principals, &roles)?;
        let (approvers, approval) = Approval::of(&bundle.files)?;
        let book = Rulebook {
            hash: bundle.hash(),
            files: Arc::new(bundle.clone()),
            safety,
            written: None,
            overrides: Overrides::new(),
            principals,
            instruments,
            strategies,
            theses: theses_by_slug,
            rates,
            notify,
            retention,
            services,
            gateway,
            roles,
            approval,
            approvers,
            admission: policies,
            ruleset: RuleSet::compile(rules, sets)?,
        };
        book.check_references()?;
        book.check_concerns()?;
        book.check_settlers()?;
        Ok(book)
    }

    /// Returns this rulebook with another `rules/services.yaml`.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if the text is not valid, or if another file names a service
    /// that is not in it.
    pub fn with_services(&self, text: &str) -> Result<Rulebook, RulebookError> {
        let mut files = self.files.as_ref().clone();
        files
            .files
            .insert(services::PATH.to_owned(), text.to_owned());
        let services = Services::read(services::PATH, text)?;
        let book = Rulebook {
            hash: files.hash(),
            files: Arc::new(files),
            services,
            ..self.clone()
        };
        book.check_references()?;
        Ok(book)
    }

    /// Returns this rulebook with one rule file added or changed, or removed if `text` is `None`.
    /// The result equals compiling the changed files.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if the changed rules do not compile.
    pub fn with_rule(&self, path: &str, text: Option<&str>) -> Result<Rulebook, RulebookError> {
        let mut files = self.files.as_ref().clone();
        let ruleset = match text {
            Some(text) => {
                files.files.insert(path.to_owned(), text.to_owned());
                self.ruleset.with(Rule::read(path, text)?)?
            }
            None => {
                files.files.remove(path);
                let rule = self.ruleset.rules.values().find(|rule| rule.path == path);
                rule.map_or_else(
                    || Ok(self.ruleset.clone()),
                    |rule| self.ruleset.without(&rule.file.id),
                )?
            }
        };
        Ok(Rulebook {
            hash: files.hash(),
            files: Arc::new(files),
            ruleset,
            ..self.clone()
        })
    }

    /// Returns the role of a principal, or `None` if the rulebook does not name it.
    pub fn role(&self, name: &Principal) -> Option<Role> {
        self.principals.get(name).map(|rule| rule.role)
    }

    /// Those who settle finally give budget back, so they must have no tasks in the domain.
    fn check_settlers(&self) -> Result<(), RulebookError> {
        for (domain, policy) in &self.admission {
            for settler in &policy.profile.settlers {
                let fault = match self.principals.get(settler) {
                    None => SettlerError::Unknown(settler),
                    Some(rule) if is_machine(rule.role) => {
                        SettlerError::Machine(settler, rule.role)
                    }
                    Some(rule) => {
                        let grant = rule.admission.as_ref();
                        if grant.is_none_or(|grant| !grant.domains.contains(domain)) {
                            continue;
                        }
                        SettlerError::Granted(settler)
                    }
                };
                let path = format!("rules/admission/{domain}.yaml");
                return Err(RulebookError::new(&path, None, fault));
            }
        }
        Ok(())
    }

    /// Money is summed over all instruments, so every price is in the currency of the account.
    fn check_currencies(&self, instrument: &Instrument) -> Result<(), RulebookError> {
        let (symbol, account) = (&instrument.symbol, &self.safety.currency);
        let message = match (&instrument.base, &instrument.quote) {
            (_, Some(quote)) if quote != account => format!(
                "instrument `{symbol}`: `quote` is {quote}, and the account is in {account} \
                    (`currency` in rules/safety.yaml); an account has one currency"
            ),
            (Some(base), _) if base == account => format!(
                "instrument `{symbol}`: `base` is {base}, the currency of the account; name the coin \
                    that its sizes count"
            ),
            _ => return Ok(()),
        };
        Err(RulebookError::new("rules/instruments.yaml", None, message))
    }

    fn check_references(&self) -> Result<(), RulebookError> {
        let mut seen = BTreeSet::new();
        for symbol in &self.safety.restricted_instruments {
            let what = if !self.instruments.contains_key(symbol) {
                "is not in rules/instruments.yaml"
            } else if !seen.insert(symbol) {
                "appears twice"
            } else {
                continue;
            };
            let message = format!("`restricted_instruments`: `{symbol}` {what}");
            return Err(RulebookError::new("rules/safety.yaml", None, message));
        }
        for rule in self.principals.values() {
            if let Some(missing) = rule
                .strategies
                .iter()
                .find(|name| !self.strategies.contains_key(name))
            {
                let message = format!(
                    "principal `{}` names strategy `{missing}`, which has no file",
                    rule.name
                );
                return Err(RulebookError::new("rules/principals.yaml", None, message));
            }
            if rule.role == Role::Bridge && rule.name.as_str() == IMITATED {
                let message = format!(
                    "no bridge may be named `{IMITATED}`: that is the exchange of `venue: imitated`"
                );
                return Err(RulebookError::new("rules/principals.yaml", None, message));
            }
            if rule.role != Role::Agent && !rule.strategies.is_empty() {
                let message = format!(
                    "principal `{}` is a {} and may own no strategies",
                    rule.name,
                    rule.role.as_str()
                );
                return Err(RulebookError::new("rules/principals.yaml", None, message));
            }
        }
        for instrument in self.instruments.values() {
            self.check_currencies(instrument)?;
            let Some(bridge) = instrument.bridge.as_ref() else {
                continue;
            };
            if instrument.venue == Venue::Outbox && self.role(bridge) != Some(Role::Bridge) {
                let message = format!(
                    "instrument `{}`: `{bridge}` is not a principal with `role: bridge` in \
                        rules/principals.yaml",
                    instrument.symbol
                );
                return Err(RulebookError::new("rules/instruments.yaml", None, message));
            }
        }
        let named = self
            .gateway
            .adapters
            .iter()
            .flat_map(|adapter| &adapter.services);
        let is_known = |name: &ServiceName| {
            self.services
                .services
                .iter()
                .any(|known| known.service == *name)
        };
        if let Some(missing) = named.into_iter().find(|name| !is_known(name)) {
            let message = format!(
                "`services` names `{missing}`, which is not in {}",
                services::PATH
            );
            return Err(RulebookError::new(gateway::PATH, None, message));
        }
        for strategy in self.strategies.values() {
            if let Some(missing) = strategy
                .instruments
                .iter()
                .find(|name| !self.instruments.contains_key(name))
            {
                let path = format!("rules/strategies/{}.yaml", strategy.name);
                return Err(RulebookError::new(
                    path,
                    None,
                    format!("instrument `{missing}` is not in rules/instruments.yaml"),
                ));
            }
        }
        Ok(())
    }
}

impl Rulebook {
    /// Returns the strategies of a concern, in order of their names.
    pub fn strategies_of<'a>(
        &'a self,
        concern: &'a ConcernId,
    ) -> impl Iterator<Item = &'a Strategy> {
        self.strategies
            .values()
            .filter(move |strategy| strategy.concern.as_ref() == Some(concern))
    }

    /// Checks that control ids are unique, that at most one strategy per concern is active, and
    /// that controllers name existing concerns.
    fn check_concerns(&self) -> Result<(), RulebookError> {
        let mut ids: BTreeMap<&str, &Strategy> = BTreeMap::new();
        let mut active: BTreeMap<&ConcernId, &Strategy> = BTreeMap::new();
        for strategy in self.strategies.values() {
            let fail = |what: String| {
                Err(RulebookError::new(
                    format!("rules/strategies/{}.yaml", strategy.name),
                    None,
                    what,
                ))
            };
            if let Some(other) = ids.insert(strategy.id(), strategy) {
                return fail(format!(
                    "strategy_id `{}` is that of `{}` too",
                    strategy.id(),
                    other.name
                ));
            }
            let concern = strategy
                .concern
                .as_ref()
                .filter(|_| strategy.status == StrategyStatus::Active);
            if let Some(concern) = concern
                && let Some(other) = active.insert(concern, strategy)
            {
                return fail(format!(
                    "`{}` is active on `{concern}` too; one of them is `standby`",
                    other.name
                ));
            }
        }
        for rule in self.principals.values() {
            if is_machine(rule.role) && !rule.control.concerns.is_empty() {
                return Err(PrincipalError::Concerns(rule.role).of(&rule.name));
            }
            if let Some(unknown) = rule
                .control
                .concerns
                .iter()
                .find(|id| self.strategies_of(id).next().is_none())
            {
                return Err(PrincipalError::UnknownConcern(unknown.clone()).of(&rule.name));
            }
        }
        Ok(())
    }
}

fn resolve_concern(path: &str, strategy: &mut Strategy) -> Result<(), RulebookError> {
    strategy.concern = match (&strategy.account, &strategy.market) {
        (Some(account), Some(market)) => Some(ConcernId::of(account, market)),
        (None, None) => None,
        _ => {
            let message = "`account` and `market` make a concern together; give both or none";
            return Err(RulebookError::new(path, None, message));
        }
    };
    Ok(())
}

/// Returns whether the path is a YAML file directly in this folder.
fn is_below(path: &str, folder: &str) -> bool {
    stem_below(path, folder, ".yaml").is_some()
}

fn stem_below<'a>(path: &'a str, folder: &str, ending: &str) -> Option<&'a str> {
    path.strip_prefix(folder)?
        .strip_suffix(ending)
        .filter(|stem| !stem.contains('/'))
}

fn same_name(path: &str, stem: &str, name: &str) -> Result<(), RulebookError> {
    if stem == name {
        return Ok(());
    }
    Err(RulebookError::new(
        path,
        None,
        format!("names itself `{name}`; file name and name must agree"),
    ))
}

fn read_principals(
    path: &str,
    text: &str,
) -> Result<BTreeMap<Principal, PrincipalRule>, RulebookError> {
    let file: PrincipalsFile = yaml::read(path, text)?;
    let mut by_name = BTreeMap::new();
    for rule in file.principals {
        check_principal(&rule).map_err(|fault| fault.of(&rule.name))?;
        let name = rule.name.clone();
        if by_name.insert(name.clone(), rule).is_some() {
            return Err(RulebookError::new(
                path,
                None,
                format!("principal `{name}` appears twice"),
            ));
        }
    }
    let users = by_name.values().filter_map(|rule| rule.unix_user.as_ref());
    if users.collect::<BTreeSet<_>>().len() > UNIX_USERS_MAX {
        let fault = format!("more than {UNIX_USERS_MAX} different values of `unix_user`");
        return Err(RulebookError::new(path, None, fault));
    }
    Ok(by_name)
}

/// Checks that a grant names a domain, and that `actions` names only outgoing actions, each once,
/// and is empty for feeds and bridges.
fn check_principal(rule: &PrincipalRule) -> Result<(), PrincipalError> {
    let grant = rule.admission.as_ref();
    if grant.is_some_and(|grant| grant.domains.is_empty()) {
        return Err(PrincipalError::NoDomain);
    }
    if is_machine(rule.role) && !rule.actions.is_empty() {
        return Err(PrincipalError::Requests(rule.role));
    }
    let mut known = BTreeSet::new();
    for action in &rule.actions {
        if !gateway::ACTIONS.contains(&action.as_str()) {
            return Err(PrincipalError::UnknownAction(action.clone()));
        }
        if !known.insert(action) {
            return Err(PrincipalError::ActionTwice(action.clone()));
        }
    }
    Ok(())
}

/// Returns whether a role only reports facts. Requests are judged by these facts, so such keys get
/// no other rights.
fn is_machine(role: Role) -> bool {
    matches!(role, Role::Feed | Role::Bridge)
}

/// Replaces the council roles of all principals by their names in the roster.
fn resolve_council_roles(
    principals: &mut BTreeMap<Principal, PrincipalRule>,
    roles: &Roles,
) -> Result<(), RulebookError> {
    for (name, rule) in principals {
        if is_machine(rule.role) && rule.admission.is_some() {
            return Err(PrincipalError::Tasks(rule.role).of(name));
        }
        if is_machine(rule.role) && !rule.council_roles.is_empty() {
            return Err(PrincipalError::CouncilRoles(rule.role).of(name));
        }
        rule.council_roles = roles
            .resolve_all(&rule.council_roles)
            .map_err(|fault| PrincipalError::Roles(fault).of(name))?;
    }
    Ok(())
}

fn read_instruments(path: &str, text: &str) -> Result<BTreeMap<Symbol, Instrument>, RulebookError> {
    let file: InstrumentsFile = yaml::read(path, text)?;
    let mut by_symbol = BTreeMap::new();
    for mut instrument in file.instruments {
        let symbol = instrument.symbol.clone();
        let fail = |what: &str| {
            let message = format!("instrument `{symbol}`: {what}");
            Err(RulebookError::new(path, None, message))
        };
        match (instrument.venue, &instrument.bridge) {
            (Venue::Outbox, None) => {
                return fail("`venue: outbox` needs `bridge`, a principal of role bridge");
            }
            (Venue::Paper | Venue::Imitated, Some(_)) => {
                return fail("`bridge` belongs to `venue: outbox`; leave one out or give both");
            }
            (Venue::Outbox, Some(_)) | (Venue::Paper | Venue::Imitated, None) => {}
        }
        match (instrument.venue, &instrument.imitate) {
            (Venue::Paper | Venue::Outbox, Some(_)) => {
                return fail("`imitate` belongs to `venue: imitated`; leave one out or give both");
            }
            (Venue::Imitated, Some(imitate)) => {
                if imitate.silent.iter().any(|it| it.until <= it.from) {
                    return fail("a time of `silent` needs `from` before `until`");
                }
            }
            (_, None) => {}
        }
        if instrument.venue == Venue::Imitated {
            instrument.bridge = Principal::parse(IMITATED).ok();
        }
        if instrument
            .group
            .as_ref()
            .is_some_and(|group| group.trim().is_empty())
        {
            return fail("`group` is empty; leave it out if it moves with nothing else");
        }
        if by_symbol.insert(symbol.clone(), instrument).is_some() {
            return Err(RulebookError::new(
                path,
                None,
                format!("instrument `{symbol}` appears twice"),
            ));
        }
    }
    Ok(by_symbol)
}

fn check_strategy(path: &str, stem: &str, strategy: &Strategy) -> Result<(), RulebookError> {
    same_name(path, stem, strategy.name.as_str())?;
    // The reason appears in ledger lines and answers, so its length is bounded.
    if strategy
        .degraded
        .as_ref()
        .is_some_and(|why| why.trim().is_empty() || why.len() > REASON_BYTES_MAX)
    {
        let message = format!(
            "`degraded` gives a reason of 1 to {REASON_BYTES_MAX} bytes; leave it out if there is \
                none"
        );
        return Err(RulebookError::new(path, None, message));
    }
    let bounds = &strategy.stop_distance;
    if bounds.max < bounds.min {
        let message = "stop_distance needs 0 < min <= max < 1 (fractions of the entry price)";
        return Err(RulebookError::new(path, None, message));
    }
    hours::check(path, &strategy.restricted)
}

#[cfg(test)]
mod tests;
