//! Checks `council/roles.yaml` and compiles it into [`Roles`].

use std::collections::BTreeMap;

use super::{
    ChangeRule, Floor, Placeholders, RoleRule, Roles, RolesError, RolesFile, Start, TextRules,
    Weights,
};
use spoolgate_wire::council::{Artifacts, Axis, ChangeType};
use spoolgate_wire::text;

/// Most roles of a roster.
pub(super) const ROLES_MAX: usize = 32;

/// Longest name of a role, characters.
pub(super) const NAME_CHARS_MAX: usize = 64;

/// Longest line of a checklist or a placeholder, characters.
pub(super) const LINE_CHARS_MAX: usize = 200;

/// Most lines of a checklist or a list of placeholders.
pub(super) const LINES_MAX: usize = 100;

/// Longest deadline, seconds: 90 days.
pub(super) const DEADLINE_S_MAX: u32 = 90 * 86_400;

/// Longest time that a complete case still takes verdicts, seconds: one day.
pub(super) const SETTLE_S_MAX: u32 = 86_400;

/// Checks the whole file and builds the index of spellings.
pub(super) fn compile(file: RolesFile) -> Result<Roles, RolesError> {
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
    evidence.check()?;
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
        let fail = |fault| RolesError::Change(change, Box::new(fault));
        let rule = resolve_roles(&roles, change).map_err(fail)?;
        *match change {
            ChangeType::DeclarePass => &mut roles.changes.declare_pass,
            ChangeType::FreezeSpec => &mut roles.changes.freeze_spec,
            ChangeType::UpdateConfig => &mut roles.changes.update_config,
            ChangeType::CodeRefactor => &mut roles.changes.code_refactor,
        } = rule;
        check_floors(&roles, change).map_err(fail)?;
    }
    Ok(roles)
}

/// Checks that the text can be the name of a role, inside or outside the roster.
pub(super) fn role_name(name: &str) -> Result<(), RolesError> {
    let shown = shown(name);
    if shown != name || text::fold(name).is_empty() {
        return Err(RolesError::Name(shown));
    }
    Ok(())
}

/// Returns a text in the form in which messages quote it.
fn shown(text: &str) -> String {
    text::clean(text, NAME_CHARS_MAX)
}

fn roster_index(roster: &[RoleRule]) -> Result<BTreeMap<String, usize>, RolesError> {
    if roster.is_empty() || roster.len() > ROLES_MAX {
        return Err(RolesError::Count(roster.len()));
    }
    let mut by_spelling = BTreeMap::new();
    let mut computed = Vec::new();
    for (place, role) in roster.iter().enumerate() {
        let fail = |fault| RolesError::Role(role.name.clone(), Box::new(fault));
        for spelling in role.spellings() {
            role_name(spelling)?;
        }
        check_role(role).map_err(fail)?;
        for spelling in role.spellings() {
            if by_spelling
                .insert(text::fold(spelling), place)
                .is_some_and(|other| other != place)
            {
                return Err(RolesError::SameName(spelling.clone()));
            }
        }
        if let Some(arithmetic) = role.computed {
            if computed.contains(&arithmetic) {
                return Err(fail(RolesError::SameComputed));
            }
            computed.push(arithmetic);
        }
    }
    Ok(by_spelling)
}

fn check_role(role: &RoleRule) -> Result<(), RolesError> {
    if role.primary_axes.is_empty() {
        return Err(RolesError::NoAxes);
    }
    if let Some(axis) = twice(&role.primary_axes) {
        return Err(RolesError::AxisTwice(*axis));
    }
    check_lines("checklist", &role.checklist)?;
    if let Some(command) = &role.command {
        command.check()?;
    }
    Ok(())
}

/// Checks that values are in range and ordered so that a worse vote never helps.
fn check_weights(weights: &Weights) -> Result<(), RolesError> {
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
        Some((less, _, more, _)) => Err(RolesError::Weights(less, more)),
        None => Ok(()),
    }
}

fn check_floor(what: &str, floor: Floor, start: Start) -> Result<(), RolesError> {
    let Floor {
        reject_below,
        unsure_below,
    } = floor;
    if reject_below > unsure_below || *unsure_below > *start {
        return Err(RolesError::Floor(what.to_owned(), start));
    }
    Ok(())
}

fn check_text(text: TextRules) -> Result<(), RolesError> {
    if text.significant_below > text.material_below {
        return Err(RolesError::Text);
    }
    Ok(())
}

fn fold_placeholders(placeholders: &Placeholders) -> Result<Placeholders, RolesError> {
    check_lines("placeholders: whole", &placeholders.whole)?;
    check_lines("placeholders: line_starts", &placeholders.line_starts)?;
    let whole: Vec<String> = placeholders
        .whole
        .iter()
        .map(|word| text::fold(&text::look(word)))
        .collect();
    if whole.iter().any(String::is_empty) {
        return Err(RolesError::Placeholder);
    }
    let line_starts = placeholders
        .line_starts
        .iter()
        .map(|start| text::look(start))
        .collect();
    Ok(Placeholders { whole, line_starts })
}

fn resolve_roles(roles: &Roles, change: ChangeType) -> Result<ChangeRule, RolesError> {
    let mut rule = roles.change(change).clone();
    for (key, names) in [
        ("required_roles", &mut rule.required_roles),
        ("veto_roles", &mut rule.veto_roles),
    ] {
        let mut places = Vec::new();
        for name in &*names {
            let Some(place) = roles.by_spelling.get(&text::fold(name)) else {
                return Err(RolesError::UnknownRole(key, shown(name)));
            };
            if places.contains(place) {
                return Err(RolesError::RoleTwice(key, name.clone()));
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
        return Err(RolesError::NoRoles);
    }
    if let Some(name) = rule
        .veto_roles
        .iter()
        .find(|name| !rule.required_roles.contains(name))
    {
        return Err(RolesError::Veto(name.clone()));
    }
    if let Some(name) = rule
        .required_artifacts
        .iter()
        .find(|name| !Artifacts::NAMES.contains(&name.as_str()))
    {
        return Err(RolesError::UnknownArtifact(shown(name)));
    }
    check_lines("required_metrics", &rule.required_metrics)?;
    if let Some(name) = twice(&rule.required_artifacts).or_else(|| twice(&rule.required_metrics)) {
        return Err(RolesError::Twice(name.clone()));
    }
    Ok(rule)
}

fn check_floors(roles: &Roles, change: ChangeType) -> Result<(), RolesError> {
    let floors = &roles.change(change).floors;
    let axes: Vec<Axis> = floors.iter().map(|floor| floor.axis).collect();
    if let Some(axis) = twice(&axes) {
        return Err(RolesError::TwoFloors(*axis));
    }
    for axis in axes {
        if !roles.covers(change, axis) {
            return Err(RolesError::NotCovered(axis));
        }
        let what = format!("floor of `{}`", axis.as_str());
        check_floor(&what, roles.floor(change, axis), roles.weights.start)?;
    }
    Ok(())
}

fn check_lines(what: &'static str, lines: &[String]) -> Result<(), RolesError> {
    if lines.len() > LINES_MAX {
        return Err(RolesError::Lines(what, lines.len()));
    }
    match lines
        .iter()
        .find(|line| line.is_empty() || text::clean(line, LINE_CHARS_MAX) != **line)
    {
        Some(line) => Err(RolesError::Line(what, shown(line))),
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
