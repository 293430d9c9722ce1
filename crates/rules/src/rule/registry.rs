//! Where the names of a field are listed.

use std::collections::BTreeSet;

use crate::rulebook::Rulebook;

/// A list of names in the rule files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Senders.
    Principal,
    /// Strategies, by name.
    Strategy,
    /// Strategies, by the id that controllers use.
    ControlId,
    /// Instruments.
    Instrument,
    /// Services.
    Service,
    /// Theses; agents write new ones while the gate runs.
    Thesis,
    /// Concerns of control.
    Concern,
    /// Accounts of concerns.
    Account,
    /// Markets of concerns.
    Market,
    /// Tenants of admission.
    Tenant,
    /// Surfaces of admission.
    Surface,
    /// Policy profiles of admission.
    Profile,
    /// No file lists the names.
    Open,
}

impl Registry {
    /// Returns the names that the rulebook has; none if no file lists them.
    pub fn names(self, book: &Rulebook) -> BTreeSet<&str> {
        let strategies = book.strategies.values();
        match self {
            Registry::Principal => book.principals.keys().map(|name| name.as_str()).collect(),
            Registry::Strategy => book.strategies.keys().map(|name| name.as_str()).collect(),
            Registry::ControlId => strategies.map(|strategy| strategy.id()).collect(),
            Registry::Instrument => book.instruments.keys().map(|name| name.as_str()).collect(),
            Registry::Service => {
                let services = book.services.services.iter();
                services.map(|service| service.service.as_str()).collect()
            }
            Registry::Thesis => book.theses.keys().map(|slug| slug.as_str()).collect(),
            Registry::Concern => strategies
                .filter_map(|strategy| strategy.concern.as_ref())
                .map(|concern| concern.as_str())
                .collect(),
            Registry::Account => strategies
                .filter_map(|strategy| strategy.account.as_ref())
                .map(|account| account.as_str())
                .collect(),
            Registry::Market => strategies
                .filter_map(|strategy| strategy.market.as_ref())
                .map(|market| market.as_str())
                .collect(),
            Registry::Tenant => book.admission.keys().map(|it| it.tenant.as_str()).collect(),
            Registry::Surface => book
                .admission
                .keys()
                .map(|it| it.surface.as_str())
                .collect(),
            Registry::Profile => book
                .admission
                .keys()
                .map(|it| it.profile.as_str())
                .collect(),
            Registry::Open => BTreeSet::new(),
        }
    }

    /// Returns whether a request can only have a name that the files list. A rule that compares
    /// with another name then does nothing, or acts on everything.
    pub fn is_closed(self) -> bool {
        match self {
            Registry::Principal
            | Registry::Strategy
            | Registry::ControlId
            | Registry::Instrument
            | Registry::Service => true,
            Registry::Thesis
            | Registry::Concern
            | Registry::Account
            | Registry::Market
            | Registry::Tenant
            | Registry::Surface
            | Registry::Profile
            | Registry::Open => false,
        }
    }

    /// Returns what a name in it is a name of.
    pub fn noun(self) -> &'static str {
        match self {
            Registry::Principal => "principal",
            Registry::Strategy => "strategy",
            Registry::ControlId => "strategy with the id",
            Registry::Instrument => "instrument",
            Registry::Service => "service",
            Registry::Thesis => "thesis",
            Registry::Concern => "concern",
            Registry::Account => "account",
            Registry::Market => "market",
            Registry::Tenant => "tenant",
            Registry::Surface => "surface",
            Registry::Profile => "profile",
            Registry::Open => "name",
        }
    }

    /// Returns the file or folder that lists the names.
    pub fn place(self) -> &'static str {
        match self {
            Registry::Principal => "rules/principals.yaml",
            Registry::Strategy
            | Registry::ControlId
            | Registry::Concern
            | Registry::Account
            | Registry::Market => "rules/strategies",
            Registry::Instrument => "rules/instruments.yaml",
            Registry::Service => "rules/services.yaml",
            Registry::Thesis => "proposals/theses",
            Registry::Tenant | Registry::Surface | Registry::Profile => "rules/admission",
            Registry::Open => "no file",
        }
    }
}
