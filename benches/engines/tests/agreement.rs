//! Every engine finds the same rules on every order of the stream; where others cannot follow, ours
//! refuses.

use cedar_policy::{PolicySet, Schema, ValidationMode, Validator};
use spoolgate_engines::Result;
use spoolgate_engines::engine::cedar::Cedar;
use spoolgate_engines::engine::cel::Cel;
use spoolgate_engines::engine::floor::Floor;
use spoolgate_engines::engine::own::Own;
use spoolgate_engines::engine::rego::{Rego, Wanted};
use spoolgate_engines::engine::{Engine, floor};
use spoolgate_engines::losses::{self, Answer};
use spoolgate_engines::order::{self, Order};
use spoolgate_engines::rules;

const SEED: u64 = 7;
const ORDERS: usize = 8_192;

fn orders() -> Vec<Order> {
    order::stream(SEED, ORDERS)
}

/// Bits that come out, as ids.
fn ids(mask: u32) -> Vec<&'static str> {
    let bits = rules::FILES
        .iter()
        .enumerate()
        .filter(|(bit, _)| mask & (1 << bit) != 0);
    bits.map(|(_, (path, _))| *path).collect()
}

fn agrees<E: Engine>(name: &str, mut engine: E) {
    for (n, order) in orders().iter().enumerate() {
        let found = engine
            .request(order)
            .and_then(|request| Ok((engine.acting(&request)?, engine.is_refused(&request)?)));
        let (mask, is_refused) =
            found.unwrap_or_else(|error| panic!("{name}, order {n}: {error}\n{order:?}"));
        let wanted = floor::acting(order);
        assert_eq!(
            ids(mask),
            ids(wanted),
            "{name}, seed {SEED}, order {n}: {order:?}"
        );
        assert_eq!(
            is_refused,
            wanted != 0,
            "{name}, seed {SEED}, order {n}: {order:?}"
        );
    }
}

#[test]
fn the_compiled_rules_stand_in_the_order_of_the_files() -> Result<()> {
    let program = rules::program(rules::FILES)?;
    let ids: Vec<String> = program
        .guards
        .iter()
        .map(|guard| format!("rules/core/{}.yaml", guard.id))
        .collect();
    let files: Vec<&str> = rules::FILES.iter().map(|(path, _)| *path).collect();
    assert_eq!(ids, files);
    assert_eq!(files.len(), 20);
    Ok(())
}

#[test]
fn own_rules_agree_with_the_function() -> Result<()> {
    agrees("own", Own::new(rules::program(rules::FILES)?)?);
    agrees("floor", Floor);
    Ok(())
}

#[test]
fn cedar_agrees() -> Result<()> {
    agrees("cedar", Cedar::new(&rules::program(rules::FILES)?)?);
    Ok(())
}

#[test]
fn rego_agrees_in_every_form() -> Result<()> {
    for wanted in [Wanted::Read, Wanted::Compiled, Wanted::Machine] {
        agrees(
            &format!("rego, {wanted:?}"),
            Rego::new(&rules::program(rules::FILES)?, wanted)?,
        );
    }
    Ok(())
}

#[test]
fn cel_agrees() -> Result<()> {
    agrees("cel", Cel::new(&rules::program(rules::FILES)?, false)?);
    Ok(())
}

#[test]
fn cel_in_one_expression_agrees_on_the_verdict() -> Result<()> {
    let mut cel = Cel::new(&rules::program(rules::FILES)?, true)?;
    for order in &orders() {
        let request = cel.request(order)?;
        assert_eq!(
            cel.is_refused(&request)?,
            floor::acting(order) != 0,
            "{order:?}"
        );
    }
    Ok(())
}

#[test]
fn every_rule_alone_refuses_some_order_and_many_pass() {
    let masks: Vec<u32> = orders().iter().map(floor::acting).collect();
    for bit in 0..rules::FILES.len() {
        let alone = masks.iter().filter(|mask| **mask == 1 << bit).count();
        assert!(
            alone >= 10,
            "{} refuses {alone} orders alone",
            rules::FILES[bit].0
        );
    }
    let accepted = masks.iter().filter(|mask| **mask == 0).count();
    assert!(
        (ORDERS / 4..ORDERS * 3 / 4).contains(&accepted),
        "{accepted} of {ORDERS} are accepted"
    );
}

#[test]
fn what_others_lose_ours_refuses() -> Result<()> {
    use Answer::{Allows, AllowsSkipping, Fails, NoRequest, NoRule, NoWords, Refuses};
    let expected = [
        (Refuses, AllowsSkipping, Allows, Fails),
        (NoRule, AllowsSkipping, Allows, Fails),
        (Refuses, NoWords, Allows, Allows),
        (Refuses, NoRequest, Allows, Allows),
        (Refuses, AllowsSkipping, Refuses, Refuses),
        (Refuses, NoRequest, Refuses, Refuses),
        (Refuses, AllowsSkipping, Refuses, Fails),
        (Refuses, NoWords, Refuses, Refuses),
    ];
    let cases = losses::cases();
    assert_eq!(cases.len(), expected.len());
    for (case, (ours, cedar, rego, cel)) in cases.iter().zip(expected) {
        let answers = case.answers()?;
        assert_eq!(
            answers,
            losses::Answers {
                ours,
                cedar,
                rego,
                cel
            },
            "{}",
            case.name
        );
    }
    Ok(())
}

/// To be fair: Cedar with a schema reports, on validation, three of the four policies that it would
/// skip.
#[test]
fn cedar_with_a_schema_finds_all_but_the_overflow() -> Result<()> {
    let schema = "entity Principal; entity Gate; action \"order.submit\" appliesTo { principal: \
        [Principal], resource: [Gate], context: { spread: decimal, depth?: decimal, size: Long } \
        };";
    let validator = Validator::new(Schema::from_cedarschema_str(schema)?.0);
    for (condition, passes) in [
        ("context.spread.greaterThan(decimal(\"0.0025\"))", true),
        ("context.spred.greaterThan(decimal(\"0.0025\"))", false),
        ("context.spread.greaterThan(decimal(\"0.00255\"))", false),
        ("context.depth.greaterThan(decimal(\"0.0025\"))", false),
        (
            "context has depth && context.depth.greaterThan(decimal(\"0.0025\"))",
            true,
        ),
        ("context.size * context.size > 50000", true),
    ] {
        let policy = format!("forbid (principal, action, resource) when {{ {condition} }};");
        let found = validator.validate(&policy.parse::<PolicySet>()?, ValidationMode::default());
        assert_eq!(found.validation_passed(), passes, "{condition}");
    }
    Ok(())
}
