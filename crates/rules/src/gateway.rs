//! `rules/gateway.yaml`: adapters, rates and anomalies of outgoing actions. Without the file, no
//! action has an adapter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::bounds::Bounded;
use super::command::{CommandError, CommandRule};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::ids::ServiceName;

/// Path below a home.
pub const PATH: &str = "rules/gateway.yaml";
/// The names of the actions that leave the machine.
pub const ACTIONS: [&str; 9] = ActionName::names(ActionName::OUTGOING);
/// Largest rate per hour, and largest `burst_max`.
const COUNT_MAX: u32 = 100_000;
/// Longest window of a burst, seconds.
const BURST_WINDOW_S_MAX: u32 = 60;
/// Largest `payload_bytes_max`; a request file is not larger than this. Bytes.
const PAYLOAD_BYTES_MAX: u32 = 10 * 1024 * 1024;
/// Longest time that an adapter may run, seconds.
pub const TIME_LIMIT_S_MAX: u32 = 600;
/// Largest output of an adapter, bytes.
pub const OUTPUT_BYTES_MAX: u32 = 8 * 1024 * 1024;
/// Most adapters that may run at the same time.
pub const WORKERS_MAX: u32 = 64;
/// Most actions that may wait or run.
pub const OPEN_MAX: u32 = 10_000;
/// Most adapters.
const ADAPTERS_MAX: usize = 256;

/// A number of actions. It cannot be 0: take what is never to be done out of `actions` of the
/// principal.
type Rate = Bounded<1, COUNT_MAX>;

spoolgate_wire::named! {
    /// How an adapter performs an action.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum AdapterKind {
        /// The built-in stub: does nothing and says so in its answer.
        Stub = "stub",
        /// A program.
        Exec = "exec",
    }
}

/// What is wrong with one adapter.
#[derive(Debug, thiserror::Error)]
enum AdapterError {
    #[error("`actions` is empty")]
    NoActions,
    #[error("`{}` is none of {}", .0, ACTIONS.join(", "))]
    UnknownAction(String),
    #[error("`{0}` appears twice")]
    ActionTwice(String),
    #[error("service `{0}` appears twice")]
    ServiceTwice(ServiceName),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("`exec` has a `command`, and nothing else has one")]
    Exec,
}

/// An adapter and its actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterRule {
    /// The actions that it performs.
    #[schemars(schema_with = "actions_schema", length(min = 1))]
    pub actions: Vec<String>,
    /// Services that it is limited to; if absent, all services. Two adapters of one action must
    /// differ in this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub services: Vec<ServiceName>,
    /// How it performs them.
    pub adapter: AdapterKind,
    /// The program; only with `adapter: exec`.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "CommandRule")]
    pub command: Option<CommandRule>,
    /// How many instances of it may run at the same time.
    #[serde(default = "Bounded::<1, WORKERS_MAX>::usual::<4>")]
    pub at_once: Bounded<1, WORKERS_MAX>,
}

#[cfg(feature = "schema")]
pub(super) fn actions_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    spoolgate_wire::schema::words(&ACTIONS)
}

impl AdapterRule {
    /// Checks the members of one adapter.
    fn check(&self) -> Result<(), AdapterError> {
        let mut actions = BTreeSet::new();
        if self.actions.is_empty() {
            return Err(AdapterError::NoActions);
        }
        for action in &self.actions {
            if !ACTIONS.contains(&action.as_str()) {
                return Err(AdapterError::UnknownAction(action.clone()));
            }
            if !actions.insert(action) {
                return Err(AdapterError::ActionTwice(action.clone()));
            }
        }
        let mut services = BTreeSet::new();
        if let Some(service) = self
            .services
            .iter()
            .find(|service| !services.insert(*service))
        {
            return Err(AdapterError::ServiceTwice(service.clone()));
        }
        match (&self.command, self.adapter) {
            (Some(command), AdapterKind::Exec) => {
                Ok(command.check_within(TIME_LIMIT_S_MAX, OUTPUT_BYTES_MAX)?)
            }
            (None, AdapterKind::Stub) => Ok(()),
            _ => Err(AdapterError::Exec),
        }
    }
}

/// Limits on the number of actions per hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRates {
    /// Limits per principal for single actions; other actions have the default limit.
    #[serde(default, deserialize_with = "each_once")]
    #[schemars(schema_with = "per_hour_schema")]
    pub per_hour: BTreeMap<String, Rate>,
    /// Limit for all principals and actions together.
    #[serde(default = "Rate::usual::<500>")]
    pub all_per_hour: Rate,
}

/// Reads a map and rejects duplicate keys, since it would not be clear which rate applies.
fn each_once<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Rate>, D::Error> {
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = BTreeMap<String, Rate>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("actions with numbers")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((name, most)) = map.next_entry::<String, Rate>()? {
                if all.insert(name.clone(), most).is_some() {
                    return Err(de::Error::custom(format!("`{name}` appears twice")));
                }
            }
            Ok(all)
        }
    }
    deserializer.deserialize_map(Each)
}

#[cfg(feature = "schema")]
fn per_hour_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "propertyNames": {"enum": ACTIONS},
        "additionalProperties": {
            "type": "integer", "minimum": 1, "maximum": COUNT_MAX, "description": "Most within an \
                hour.",
        },
    })
}

impl Default for ActionRates {
    fn default() -> ActionRates {
        ActionRates {
            per_hour: BTreeMap::new(),
            all_per_hour: Bounded::usual::<500>(),
        }
    }
}

impl ActionRates {
    /// Returns the limit per principal and hour of an action.
    pub fn of(&self, action: &str) -> u32 {
        self.per_hour.get(action).map_or_else(
            || match action.parse() {
                Ok(ActionName::EmailSend) => 20,
                Ok(ActionName::CalendarCreate) => 30,
                Ok(ActionName::ServiceApiCall) => 100,
                _ => 60,
            },
            |rate| rate.get(),
        )
    }
}

/// Thresholds above which an action is held as an anomaly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AnomalyRule {
    /// More actions than this of one principal within the window are a burst.
    pub burst_max: Rate,
    /// The window, seconds.
    pub burst_window_s: Bounded<1, BURST_WINDOW_S_MAX>,
    /// Payloads larger than this are held. Bytes, without insignificant white space.
    pub payload_bytes_max: Bounded<1, PAYLOAD_BYTES_MAX>,
}

impl Default for AnomalyRule {
    fn default() -> AnomalyRule {
        AnomalyRule {
            burst_max: Bounded::usual::<10>(),
            burst_window_s: Bounded::usual::<5>(),
            payload_bytes_max: Bounded::usual::<1_000_000>(),
        }
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gateway {
    /// Adapters.
    #[schemars(length(max = ADAPTERS_MAX))]
    pub adapters: Vec<AdapterRule>,
    /// How many adapters may run at the same time, over all adapters.
    pub workers: Bounded<1, WORKERS_MAX>,
    /// How many actions may wait or run, over all principals.
    pub open_max: Bounded<1, OPEN_MAX>,
    /// Rates.
    pub rates: ActionRates,
    /// Anomalies.
    pub anomalies: AnomalyRule,
}

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway {
            adapters: Vec::new(),
            workers: Bounded::usual::<8>(),
            open_max: Bounded::usual::<256>(),
            rates: ActionRates::default(),
            anomalies: AnomalyRule::default(),
        }
    }
}

impl Gateway {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys and actions, limits out of range, and two
    /// adapters for the same action and service.
    pub fn read(path: &str, text: &str) -> Result<Gateway, RulebookError> {
        let fail = |what: String| Err(RulebookError::new(path, None, what));
        let gateway: Gateway = yaml::read(path, text)?;
        if gateway.adapters.len() > ADAPTERS_MAX {
            return fail(format!("more than {ADAPTERS_MAX} adapters"));
        }
        let mut taken = BTreeSet::new();
        for adapter in &gateway.adapters {
            let name = adapter.actions.join(", ");
            if let Err(why) = adapter.check() {
                return fail(format!("adapter of {name}: {why}"));
            }
            for action in &adapter.actions {
                let services: Vec<Option<&ServiceName>> = match adapter.services.as_slice() {
                    [] => vec![None],
                    services => services.iter().map(Some).collect(),
                };
                for service in services {
                    if !taken.insert((action, service)) {
                        let place = service.map_or_else(
                            || "no service in particular".to_owned(),
                            |service| format!("service `{service}`"),
                        );
                        return fail(format!("`{action}` has two adapters for {place}"));
                    }
                }
            }
        }
        let per_hour = &gateway.rates.per_hour;
        if let Some(name) = per_hour
            .keys()
            .find(|name| !ACTIONS.contains(&name.as_str()))
        {
            return fail(format!(
                "`per_hour`: `{name}` is none of {}",
                ACTIONS.join(", ")
            ));
        }
        Ok(gateway)
    }

    /// Returns the adapter for an action and a service. An adapter that names the service takes
    /// precedence over one for all services.
    pub fn adapter(&self, action: &str, service: &str) -> Option<&AdapterRule> {
        let does = |adapter: &&AdapterRule| adapter.actions.iter().any(|name| name == action);
        let named = self
            .adapters
            .iter()
            .filter(does)
            .find(|adapter| adapter.services.iter().any(|name| name.as_str() == service));
        named.or_else(|| {
            self.adapters
                .iter()
                .filter(does)
                .find(|adapter| adapter.services.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_the_file_leaves_out_are_those_of_the_contract() {
        let usual = Gateway::default();
        let rates: Vec<u32> = ACTIONS
            .iter()
            .map(|action| usual.rates.of(action))
            .collect();
        assert_eq!(rates, [60, 20, 60, 60, 30, 60, 60, 60, 100]);
        assert_eq!(usual.rates.all_per_hour.get(), 500);
        let read = Gateway::read(
            PATH,
            "rates: {per_hour: {email.send: 3}, all_per_hour: 9}\n",
        )
        .unwrap();
        assert_eq!(
            (
                read.rates.of("email.send"),
                read.rates.of("email.fetch"),
                read.rates.all_per_hour.get()
            ),
            (3, 60, 9)
        );
    }

    #[test]
    fn limits_have_bounds_and_names_that_are_known() {
        for (key, least, most) in [
            ("rates: {per_hour: {email.send: N}}", 1, 100_000_u64),
            ("rates: {all_per_hour: N}", 1, 100_000),
            ("anomalies: {burst_max: N}", 1, 100_000),
            ("anomalies: {burst_window_s: N}", 1, 60),
            ("anomalies: {payload_bytes_max: N}", 1, 10 * 1024 * 1024),
        ] {
            let read = |value: u64| Gateway::read(PATH, &key.replace('N', &value.to_string()));
            for value in [least, most] {
                assert!(read(value).is_ok(), "{key} {value}");
            }
            for value in [least - 1, most + 1, u64::from(u32::MAX) + 1] {
                let error = read(value).unwrap_err().to_string();
                assert!(
                    value > most + 1 || error.contains(&format!("1 to {most}")),
                    "{error}"
                );
            }
        }
        for (text, expect) in [
            (
                "rates: {per_hour: {email.sned: 3}}",
                "`email.sned` is none of",
            ),
            (
                "rates: {per_hour: {order.submit: 3}}",
                "`order.submit` is none of",
            ),
            (
                "rates: {per_hour: {email.send: 3, email.send: 300}}",
                "`email.send` appears twice",
            ),
            (
                "rates: {per_hour: {email.send: -1}}",
                "integer `-1`, expected a whole number from 1 to 100000",
            ),
            (
                "rates: {per_hour: {email.send: 1.5}}",
                "expected a whole number from 1 to 100000",
            ),
            ("rates: {per_hour: [email.send]}", "actions with numbers"),
            ("rates: {per_minute: {}}", "per_minute"),
            ("anomalies: {new_host: true}", "new_host"),
        ] {
            let error = Gateway::read(PATH, text).unwrap_err().to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn an_action_has_one_adapter_per_service_and_adapters_have_bounds() {
        let sh = "adapter: exec, command: {program: sh, time_limit_s: 5, output_bytes_max: 9}";
        let good = format!(
            "adapters:\n  - {{actions: [email.send], {sh}, at_once: 64}}\n  - {{actions: \
                [email.send], services: [mail], adapter: stub}}\nworkers: 64\nopen_max: 10000\n"
        );
        let read = |text: &str| Gateway::read(PATH, text).map_err(|error| error.to_string());
        let gateway = read(&good).unwrap();
        let kind = |action, service| {
            gateway
                .adapter(action, service)
                .map(|adapter| adapter.adapter)
        };
        assert_eq!(kind("email.send", "mail"), Some(AdapterKind::Stub));
        assert_eq!(kind("email.send", "other"), Some(AdapterKind::Exec));
        assert_eq!(kind("email.draft", "mail"), None);
        assert_eq!(read("{}").unwrap(), Gateway::default());
        let adapter = |fields: &str| format!("adapters: [{{{fields}}}]");
        let exec = |fields: &str| {
            adapter(&format!(
                "actions: [email.send], adapter: exec, command: {{{fields}}}"
            ))
        };
        let program = "program: sh, time_limit_s: 5, output_bytes_max: 9";
        for (text, expect) in [
            (
                "workers: 0".to_owned(),
                "workers` is `0`; use a whole number from 1 to 64",
            ),
            ("workers: 65".to_owned(), "workers` is `65`"),
            (
                "open_max: 0".to_owned(),
                "open_max` is `0`; use a whole number from 1 to 10000",
            ),
            ("open_max: 10001".to_owned(), "open_max` is `10001`"),
            ("worker: 1".to_owned(), "unknown field `worker`"),
            (adapter("actions: [], adapter: stub"), "`actions` is empty"),
            (
                adapter("actions: [email.sent], adapter: stub"),
                "`email.sent` is none of email.fetch",
            ),
            (
                adapter("actions: [email.send, email.send], adapter: stub"),
                "`email.send` appears twice",
            ),
            (
                adapter("actions: [email.send], services: [a, a], adapter: stub"),
                "service `a` appears twice",
            ),
            (
                adapter("actions: [email.send], adapter: stub, at_once: 0"),
                "at_once` is `0`",
            ),
            (
                adapter("actions: [email.send], adapter: stub, at_once: 65"),
                "at_once` is `65`",
            ),
            (
                adapter("actions: [email.send], adapter: exec"),
                "`exec` has a `command`, and nothing else",
            ),
            (
                adapter("actions: [email.send], adapter: smtp"),
                "unknown variant `smtp`",
            ),
            (
                adapter(&format!(
                    "actions: [email.send], adapter: stub, command: {{{program}}}"
                )),
                "`exec` has",
            ),
            (
                exec("program: '', time_limit_s: 5, output_bytes_max: 9"),
                "`program` is empty",
            ),
            (
                exec("program: sh, args: [\"a\\0b\"], time_limit_s: 5, output_bytes_max: 9"),
                "hold a NUL",
            ),
            (
                exec("program: sh, time_limit_s: 0, output_bytes_max: 9"),
                "time_limit_s` is `0`; use a whole number from 1",
            ),
            (
                exec("program: sh, time_limit_s: 601, output_bytes_max: 9"),
                "time_limit_s` is `601`",
            ),
            (
                exec("program: sh, time_limit_s: 5, output_bytes_max: 0"),
                "output_bytes_max` is `0`",
            ),
            (
                exec("program: sh, time_limit_s: 5, output_bytes_max: 8388609"),
                "use a whole number from 1 to 8388608",
            ),
            (
                exec(&format!("{program}, shell: true")),
                "unknown field `shell`",
            ),
            (
                "adapters: [{actions: [email.send], adapter: stub}, {actions: [email.send], \
                    adapter: stub}]"
                    .to_owned(),
                "`email.send` has two adapters for no service in particular",
            ),
            (
                "adapters: [{actions: [email.send], services: [a], adapter: stub}, {actions: \
                    [email.fetch, email.send], services: [b, a], adapter: stub}]"
                    .to_owned(),
                "`email.send` has two adapters for service `a`",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(
                error.starts_with("rules/gateway.yaml") && error.contains(expect),
                "{text}: {error}"
            );
        }
    }
}
