//! Policies for other engines, made from the compiled rules.

use spoolgate_rules::rule::field::Missing;
use spoolgate_rules::rule::ranges::{End, Range};
use spoolgate_rules::rule::{Condition, Guard, Members, Program, Reading, Test};
use spoolgate_wire::amount::Amount;

use crate::Result;

/// What a language writes for the parts of a condition. `field` is a path as the language has it.
trait Language {
    fn field(&self, name: &str) -> String;
    fn compare(&self, field: &str, op: &str, number: Amount, is_whole: bool) -> String;
    fn is_in(&self, field: &str, listed: &[String]) -> String;
    fn not(&self, condition: &str) -> String;
    fn present(&self, name: &str) -> String;
}

/// A rule in disjunctive form: it acts if all conditions of any of these lists hold.
type Ways = Vec<Vec<String>>;

fn name_of(reading: &Reading) -> Result<(&'static str, bool, bool)> {
    match reading {
        Reading::Field(field) => {
            let is_decimal = matches!(field.kind, spoolgate_rules::rule::field::Kind::Number(..));
            Ok((field.name, !is_decimal, field.missing == Missing::Absent))
        }
        other => Err(format!("`{other}` is not exported").into()),
    }
}

fn range(language: &dyn Language, field: &str, range: &Range, is_whole: bool) -> Vec<String> {
    if let (End::With(low), End::With(high)) = (range.low, range.high)
        && low == high
    {
        return vec![language.compare(field, "==", low, is_whole)];
    }
    let low = match range.low {
        End::Open => None,
        End::With(low) => Some(language.compare(field, ">=", low, is_whole)),
        End::Without(low) => Some(language.compare(field, ">", low, is_whole)),
    };
    let high = match range.high {
        End::Open => None,
        End::With(high) => Some(language.compare(field, "<=", high, is_whole)),
        End::Without(high) => Some(language.compare(field, "<", high, is_whole)),
    };
    low.into_iter().chain(high).collect()
}

/// The ways in which a condition holds.
fn condition(language: &dyn Language, program: &Program, condition: &Condition) -> Result<Ways> {
    let (name, is_whole, may_be_absent) = name_of(&program.readings[condition.slot])?;
    let field = language.field(name);
    let mut ways = match &condition.test {
        Test::Number(ranges) => ranges
            .parts()
            .iter()
            .map(|part| range(language, &field, part, is_whole))
            .collect(),
        Test::Member {
            of: Members::Listed(listed),
            is_in,
            ..
        } => {
            let listed: Vec<String> = listed.iter().cloned().collect();
            let among = language.is_in(&field, &listed);
            vec![vec![if *is_in { among } else { language.not(&among) }]]
        }
        Test::Absent => return Ok(vec![vec![language.not(&language.present(name))]]),
        Test::Present => return Ok(vec![vec![language.present(name)]]),
        other => return Err(format!("`{other:?}` is not exported").into()),
    };
    if may_be_absent {
        ways.iter_mut()
            .for_each(|way| way.insert(0, language.present(name)));
    }
    Ok(ways)
}

/// Conditions of a rule, each with the ways in which it holds.
fn conditions(language: &dyn Language, program: &Program, guard: &Guard) -> Result<Vec<Ways>> {
    guard
        .conditions
        .iter()
        .map(|one| condition(language, program, one))
        .collect()
}

fn joined(conditions: &[Ways]) -> String {
    let all = conditions.iter().map(|ways| match ways.as_slice() {
        [only] => only.join(" && "),
        several => {
            let several: Vec<String> = several.iter().map(|way| way.join(" && ")).collect();
            format!("({})", several.join(" || "))
        }
    });
    all.collect::<Vec<String>>().join(" && ")
}

fn quoted(listed: &[String]) -> String {
    listed
        .iter()
        .map(|text| format!("\"{text}\""))
        .collect::<Vec<String>>()
        .join(", ")
}

/// With a point in it, so that it is a decimal for Cedar and a double for CEL.
fn pointed(number: Amount) -> String {
    let text = number.to_string();
    if text.contains('.') {
        text
    } else {
        format!("{text}.0")
    }
}

struct Cedar;

impl Language for Cedar {
    fn field(&self, name: &str) -> String {
        format!("context.{name}")
    }

    fn compare(&self, field: &str, op: &str, number: Amount, is_whole: bool) -> String {
        let method = match op {
            _ if is_whole => return format!("{field} {op} {number}"),
            ">" => "greaterThan",
            ">=" => "greaterThanOrEqual",
            "<" => "lessThan",
            "<=" => "lessThanOrEqual",
            _ => return format!("{field} {op} decimal(\"{}\")", pointed(number)),
        };
        format!("{field}.{method}(decimal(\"{}\"))", pointed(number))
    }

    fn is_in(&self, field: &str, listed: &[String]) -> String {
        match listed {
            [only] => format!("{field} == \"{only}\""),
            several => format!("[{}].contains({field})", quoted(several)),
        }
    }

    fn not(&self, condition: &str) -> String {
        format!("!({condition})")
    }

    fn present(&self, name: &str) -> String {
        let (room, name) = name.split_once('.').unwrap_or(("request", name));
        format!("context.{room} has {name}")
    }
}

struct Rego;

impl Language for Rego {
    fn field(&self, name: &str) -> String {
        format!("input.{name}")
    }

    fn compare(&self, field: &str, op: &str, number: Amount, _is_whole: bool) -> String {
        format!("{field} {op} {number}")
    }

    fn is_in(&self, field: &str, listed: &[String]) -> String {
        match listed {
            [only] => format!("{field} == \"{only}\""),
            several => format!("{field} in {{{}}}", quoted(several)),
        }
    }

    fn not(&self, condition: &str) -> String {
        format!("not {condition}")
    }

    fn present(&self, name: &str) -> String {
        format!("input.{name}")
    }
}

struct Cel;

impl Language for Cel {
    fn field(&self, name: &str) -> String {
        name.to_owned()
    }

    fn compare(&self, field: &str, op: &str, number: Amount, is_whole: bool) -> String {
        let number = if is_whole {
            number.to_string()
        } else {
            pointed(number)
        };
        format!("{field} {op} {number}")
    }

    fn is_in(&self, field: &str, listed: &[String]) -> String {
        match listed {
            [only] => format!("{field} == \"{only}\""),
            several => format!("{field} in [{}]", quoted(several)),
        }
    }

    fn not(&self, condition: &str) -> String {
        format!("!({condition})")
    }

    fn present(&self, name: &str) -> String {
        format!("has({name})")
    }
}

/// One `forbid` for each rule, with its id.
///
/// # Errors
/// A condition that is not exported.
pub fn cedar(program: &Program) -> Result<Vec<(String, String)>> {
    let policy = |guard: &Guard| {
        let when = joined(&conditions(&Cedar, program, guard)?);
        let text = format!("forbid (principal, action, resource)\nwhen {{ {when} }};\n");
        Ok((guard.id.to_string(), text))
    };
    program.guards.iter().map(policy).collect()
}

/// A module whose `deny` is the set of ids of rules that act.
///
/// # Errors
/// A condition that is not exported.
pub fn rego(program: &Program) -> Result<String> {
    let mut text = "package orders\n\nimport rego.v1\n".to_owned();
    for guard in &program.guards {
        let mut bodies: Ways = vec![Vec::new()];
        for ways in conditions(&Rego, program, guard)? {
            let longer = bodies.iter().flat_map(|body| {
                ways.iter()
                    .map(move |way| body.iter().chain(way).cloned().collect())
            });
            bodies = longer.collect();
        }
        for body in bodies {
            text.push_str(&format!("\ndeny contains \"{}\" if {{\n", guard.id));
            body.iter()
                .for_each(|line| text.push_str(&format!("\t{line}\n")));
            text.push_str("}\n");
        }
    }
    Ok(text)
}

/// An expression for each rule, with its id.
///
/// # Errors
/// A condition that is not exported.
pub fn cel(program: &Program) -> Result<Vec<(String, String)>> {
    let expression = |guard: &Guard| {
        Ok((
            guard.id.to_string(),
            joined(&conditions(&Cel, program, guard)?),
        ))
    };
    program.guards.iter().map(expression).collect()
}
