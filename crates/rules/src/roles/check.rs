//! Checks `council/roles.yaml` and compiles it into [`Roles`].

use std::collections::BTreeMap;

use super::{
    ChangeRule, Floor, Placeholders, RoleRule, Roles, RolesFile, Start, TextRules, Weights,
};
use crate::command::CommandRule;
use spoolgate_wire::council::{Artifacts, Axis, ChangeType};
use spoolgate_wire::text;

/// Most roles of a roster.
pub(super) const ROLES_MAX: usize = 32;

/// Longest name of a role, characters.
const NAME_CHARS_MAX: usize = 64;

/// Longest line of a checklist or a placeholder, characters.
const LINE_CHARS_MAX: usize = 200;

/// Most lines of a checklist or a list of placeholders.
pub(super) const LINES_MAX: usize = 100;

/// Longest deadline, seconds: 90 days.
pub(super) const DEADLINE_S_MAX: u32 = 90 * 86_400;

/// Checks the whole file and builds the index of spellings.
pub(super) fn compile(file: RolesFile) -> Result<Roles, String> {
    let RolesFile {
        roles: roster,
        confidence_floor,
        weights,
        axis_floor,
        text,
        placeholders,
        changes,
        evidence,
    } = file;
    let by_spelling = roster_index(&roster)?;
    check_weights(&weights)?;
    check_floor("axis_floor", axis_floor, weights.start)?;
    check_text(text)?;
    evidence.check().map_err(|why| format!("evidence: {why}"))?;
    let placeholders = fold_placeholders(&placeholders)?;
    let mut roles = Roles {
        roster,
        confidence_floor,
        weights,
        axis_floor,
        text,
        placeholders,
        changes,
        evidence,
        by_spelling,
    };
    for change in ChangeType::ALL {
        let rule = resolve_roles(&roles, change)?;
        *match change {
            ChangeType::DeclarePass => &mut roles.changes.declare_pass,
            ChangeType::FreezeSpec => &mut roles.changes.freeze_spec,
            ChangeType::UpdateConfig => &mut roles.changes.update_config,
            ChangeType::CodeRefactor => &mut roles.changes.code_refactor,
        } = rule;
        check_floors(&roles, change)?;
    }
    Ok(roles)
}

/// Checks that the text can be the name of a role, inside or outside the roster.
pub(super) fn role_name(name: &str) -> Result<(), String> {
    if text::clean(name, NAME_CHARS_MAX) != name || text::fold(name).is_empty() {
        let shown = text::clean(name, NAME_CHARS_MAX);
        return Err(format!(
            "`{shown}` is no name of a role: 1 to {NAME_CHARS_MAX} printable characters, one of \
                them a letter or digit, single spaces"
        ));
    }
    Ok(())
}

fn roster_index(roster: &[RoleRule]) -> Result<BTreeMap<String, usize>, String> {
    if roster.is_empty() || roster.len() > ROLES_MAX {
        return Err(format!(
            "`roles` has {} entries; it needs 1 to {ROLES_MAX}",
            roster.len()
        ));
    }
    let mut by_spelling = BTreeMap::new();
    let mut computed = Vec::new();
    for (place, role) in roster.iter().enumerate() {
        check_role(role)?;
        for spelling in role.aliases.iter().chain([&role.name]) {
            if by_spelling
                .insert(text::fold(spelling), place)
                .is_some_and(|other| other != place)
            {
                return Err(format!(
                    "two roles are called `{spelling}`; case and punctuation do not tell them apart"
                ));
            }
        }
        if let Some(arithmetic) = role.computed {
            if computed.contains(&arithmetic) {
                return Err(format!(
                    "role `{}`: another role is computed in the same way",
                    role.name
                ));
            }
            computed.push(arithmetic);
        }
    }
    Ok(by_spelling)
}

fn check_role(role: &RoleRule) -> Result<(), String> {
    for spelling in role.aliases.iter().chain([&role.name]) {
        role_name(spelling)?;
    }
    let fail = |what: String| Err(format!("role `{}`: {what}", role.name));
    if role.primary_axes.is_empty() {
        return fail("`primary_axes` is empty".to_owned());
    }
    if let Some(axis) = twice(&role.primary_axes) {
        return fail(format!(
            "axis `{}` stands twice in `primary_axes`",
            axis.as_str()
        ));
    }
    check_lines("checklist", &role.checklist).or_else(fail)?;
    role.command
        .as_ref()
        .map_or(Ok(()), CommandRule::check)
        .or_else(fail)
}

/// Checks that values are in range and ordered so that a worse vote never helps.
fn check_weights(weights: &Weights) -> Result<(), String> {
    let Weights {
        reject,
        unsure,
        failed_check,
        failed_minor,
        absent_cap,
        ..
    } = *weights;
    let ordered = [
        (
            "unsure.deduct",
            unsure.deduct,
            "reject.deduct",
            reject.deduct,
        ),
        ("reject.cap", reject.cap, "absent_cap", absent_cap),
        ("absent_cap", absent_cap, "unsure.cap", unsure.cap),
        ("failed_minor", failed_minor, "failed_check", failed_check),
    ];
    match ordered.iter().find(|(_, less, _, more)| less > more) {
        Some((less, _, more, _)) => Err(format!("weights: `{less}` must be at most `{more}`")),
        None => Ok(()),
    }
}

fn check_floor(what: &str, floor: Floor, start: Start) -> Result<(), String> {
    let Floor {
        reject_below,
        unsure_below,
    } = floor;
    if reject_below > unsure_below || *unsure_below > *start {
        return Err(format!(
            "{what}: it needs reject_below <= unsure_below <= {start} (`weights.start`)"
        ));
    }
    Ok(())
}

fn check_text(text: TextRules) -> Result<(), String> {
    if text.significant_below > text.material_below {
        return Err("text: it needs significant_below <= material_below".to_owned());
    }
    Ok(())
}

fn fold_placeholders(placeholders: &Placeholders) -> Result<Placeholders, String> {
    check_lines("placeholders: whole", &placeholders.whole)?;
    check_lines("placeholders: line_starts", &placeholders.line_starts)?;
    let whole: Vec<String> = placeholders
        .whole
        .iter()
        .map(|word| text::fold(word))
        .collect();
    if whole.iter().any(String::is_empty) {
        return Err(
            "placeholders: `whole` has a word without letters; such texts are missing in any case"
                .to_owned(),
        );
    }
    let line_starts = placeholders
        .line_starts
        .iter()
        .map(|start| start.to_lowercase())
        .collect();
    Ok(Placeholders { whole, line_starts })
}

fn resolve_roles(roles: &Roles, change: ChangeType) -> Result<ChangeRule, String> {
    let mut rule = roles.change(change).clone();
    let fail = |what: String| Err(format!("changes: {}: {what}", change.as_str()));
    for (key, names) in [
        ("required_roles", &mut rule.required_roles),
        ("veto_roles", &mut rule.veto_roles),
    ] {
        let mut places = Vec::new();
        for name in &*names {
            let Some(place) = roles.by_spelling.get(&text::fold(name)) else {
                return fail(format!(
                    "`{key}` names `{}`, which is not in `roles`",
                    text::clean(name, NAME_CHARS_MAX)
                ));
            };
            if places.contains(place) {
                return fail(format!("`{key}` names `{name}` twice"));
            }
            places.push(*place);
        }
        places.sort_unstable();
        *names = places
            .iter()
            .filter_map(|place| roles.roster.get(*place))
            .map(|role| role.name.clone())
            .collect();
    }
    if rule.required_roles.is_empty() {
        return fail("`required_roles` is empty; nobody would have to approve".to_owned());
    }
    if let Some(name) = rule
        .veto_roles
        .iter()
        .find(|name| !rule.required_roles.contains(name))
    {
        return fail(format!(
            "`veto_roles` names `{name}`, which is not required"
        ));
    }
    if let Some(name) = rule
        .required_artifacts
        .iter()
        .find(|name| !Artifacts::NAMES.contains(&name.as_str()))
    {
        let known = Artifacts::NAMES.join(", ");
        return fail(format!(
            "there is no artifact `{}`; there are {known}",
            text::clean(name, NAME_CHARS_MAX)
        ));
    }
    check_lines("required_metrics", &rule.required_metrics).or_else(|what| fail(what).map(drop))?;
    if let Some(name) = twice(&rule.required_artifacts).or_else(|| twice(&rule.required_metrics)) {
        return fail(format!("`{name}` stands twice"));
    }
    Ok(rule)
}

fn check_floors(roles: &Roles, change: ChangeType) -> Result<(), String> {
    let floors = &roles.change(change).floors;
    let axes: Vec<Axis> = floors.iter().map(|floor| floor.axis).collect();
    if let Some(axis) = twice(&axes) {
        return Err(format!(
            "changes: {}: axis `{}` has two floors",
            change.as_str(),
            axis.as_str()
        ));
    }
    for axis in axes {
        let what = format!("changes: {}: floor of `{}`", change.as_str(), axis.as_str());
        if !roles.covers(change, axis) {
            return Err(format!(
                "{what}: no required role has it among its `primary_axes`"
            ));
        }
        check_floor(&what, roles.floor(change, axis), roles.weights.start)?;
    }
    Ok(())
}

fn check_lines(what: &str, lines: &[String]) -> Result<(), String> {
    if lines.len() > LINES_MAX {
        return Err(format!(
            "`{what}` has {} lines, the limit is {LINES_MAX}",
            lines.len()
        ));
    }
    match lines
        .iter()
        .find(|line| line.is_empty() || text::clean(line, LINE_CHARS_MAX) != **line)
    {
        Some(line) => {
            let shown = text::clean(line, NAME_CHARS_MAX);
            Err(format!(
                "`{what}`: `{shown}` must be 1 to {LINE_CHARS_MAX} printable characters, single \
                    spaces"
            ))
        }
        None => Ok(()),
    }
}

/// Returns the first value that is a duplicate of an earlier one.
fn twice<T: PartialEq>(values: &[T]) -> Option<&T> {
    values
        .iter()
        .enumerate()
        .find(|(place, value)| values.iter().take(*place).any(|other| other == *value))
        .map(|(_, value)| value)
}
