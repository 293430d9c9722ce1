//! Councils in which one party can decide alone.

use std::collections::BTreeSet;

use super::meaning::{Warning, What};
use crate::principals::{self, PrincipalRule};
use crate::roles::{self, RoleRule};
use crate::rulebook::{Rulebook, RulebookError};
use spoolgate_wire::council::ChangeType;
use spoolgate_wire::ids::FamilyName;

/// Returns a warning for each principal or operator that may fill two required seats of a change, and
/// for each change whose speakers are all of one declared family. Computed roles have no signer.
pub fn warnings(book: &Rulebook) -> Vec<Warning> {
    let mut found = Vec::new();
    for change in ChangeType::ALL {
        one_signer(book, change, &mut found);
        one_family(book, change, &mut found);
    }
    found
}

fn seats(book: &Rulebook, change: ChangeType) -> Vec<&RoleRule> {
    let required = book.roles.required(change);
    required.filter(|role| role.computed.is_none()).collect()
}

fn one_signer(book: &Rulebook, change: ChangeType, found: &mut Vec<Warning>) {
    let principals = book.principals.values();
    let operators: BTreeSet<_> = principals.map(PrincipalRule::operator).collect();
    for name in operators {
        let fills = |role: &&RoleRule| {
            let own = |rule: &&PrincipalRule| rule.operator() == name;
            let mut of_operator = book.principals.values().filter(own);
            of_operator.any(|rule| book.roles.may_speak_for(rule, &role.name))
        };
        let roles: Vec<&str> = seats(book, change)
            .into_iter()
            .filter(fills)
            .map(|role| role.name.as_str())
            .collect();
        if roles.len() > 1 {
            let then = if book.roles.change(change).distinct_signers {
                "only one of these seats counts as approved by it"
            } else {
                "and `distinct_signers` is off"
            };
            let message = format!(
                "`{name}` may fill {} required seats of {}, {}; {then}",
                roles.len(),
                change.as_str(),
                roles.join(", ")
            );
            found.push(Warning {
                what: What::OneSigner,
                at: RulebookError::new("rules/principals.yaml", None, message),
            });
        }
    }
}

fn one_family(book: &Rulebook, change: ChangeType, found: &mut Vec<Warning>) {
    let seats = seats(book, change);
    let commands = seats.iter().filter(|role| role.command.is_some());
    let mut families: BTreeSet<Option<&FamilyName>> =
        commands.map(|role| role.family.as_ref()).collect();
    for rule in book.principals.values() {
        let speaks = seats
            .iter()
            .any(|role| book.roles.may_speak_for(rule, &role.name));
        if speaks && rule.role == principals::Role::Human {
            return;
        }
        if speaks {
            families.insert(rule.family.as_ref());
        }
    }
    let mut families = families.into_iter();
    if let (Some(Some(family)), None) = (families.next(), families.next()) {
        let message = format!(
            "all that may speak on {} are of the family `{family}`: they tend to err together",
            change.as_str()
        );
        found.push(Warning {
            what: What::OneFamily,
            at: RulebookError::new(roles::PATH, None, message),
        });
    }
}
