//! What control decides about a strategy: closed to entries, or held to reduced limits. Requests
//! that make things safer feel none of it.

use super::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Leg;

const PAUSED: Option<&str> = Some("is paused on `a:b` by a control decision");

#[test]
fn a_paused_strategy_enters_nothing_and_does_everything_else() {
    let mut world = World::holding("0.02");
    let resting = world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.002", "6690", 1),
        "6750",
    ));
    world.paused = PAUSED;
    let entry = limit(
        market_order("trend", "BTC-USD", "buy", "0.002", "6690", 2),
        "6760",
    );
    assert_eq!(world.refused(&entry), ["strategy_active"]);
    let row = world.row_of(&entry, "strategy_active");
    assert_eq!(
        (row.source.as_ref(), row.value),
        ("control", Some(Amount::ZERO))
    );
    assert_eq!(
        row.reason.unwrap(),
        "strategy `trend` is paused on `a:b` by a control decision"
    );
    let stop = world
        .book
        .orders
        .keys()
        .copied()
        .find(|id| id.leg == Leg::Stop)
        .unwrap();
    assert!(world.tighten(stop, "6720").accepted);
    assert!(world.cancel(resting).accepted);
    world.accepted(&sell("0.01"));
    world.flat("6800");
    assert_eq!(world.position(), a("0.01"));
    // The stop still does its work.
    world.bar("6750", "6750", "6700", "6700");
    assert_eq!(world.position(), Amount::ZERO);
}

/// Each limit with the factor 0.5: one unit below, at it, one unit above.
#[test]
fn reduced_scales_every_limit_on_size_and_risk() {
    let unit = a("0.001");
    for (limits, check, source) in [
        (
            ("max_order_value", "1000"),
            "max_order_value",
            "safety.yaml (reduced)",
        ),
        (
            ("max_size", "0.1"),
            "max_order_size",
            "instruments.yaml (reduced)",
        ),
        (
            ("max_single_trade_risk", "0.004"),
            "max_single_trade_risk",
            "safety.yaml (reduced)",
        ),
        (
            ("max_single_position", "0.1"),
            "max_single_position",
            "safety.yaml (reduced)",
        ),
        (
            ("max_total_exposure", "0.1"),
            "max_total_exposure",
            "safety.yaml (reduced)",
        ),
    ] {
        let largest = |factor: Option<&str>| {
            let mut world = World::new();
            // Move every other limit out of the way.
            let safety = &mut world.rules.safety;
            let most = |name, most| a(if name == limits.0 { limits.1 } else { most });
            safety.max_order_value = most("max_order_value", "100000").try_into().unwrap();
            safety.max_total_exposure = most("max_total_exposure", "100000").try_into().unwrap();
            safety.max_single_trade_risk = most("max_single_trade_risk", "1").try_into().unwrap();
            safety.max_single_position = most("max_single_position", "1").try_into().unwrap();
            let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
            instrument.max_size = if limits.0 == "max_size" {
                a(limits.1).try_into().unwrap()
            } else {
                a("10").try_into().unwrap()
            };
            world.limit_factor = factor.map(a);
            let too_large = limit(buy("9.999"), "6700.1");
            let too_large = spoolgate_wire::orders::SubmitOrder {
                planned_stop: a("6600"),
                stop_price: Some(a("6600")),
                ..too_large
            };
            let verdict = world.ask(&too_large);
            let found = verdict.headroom.unwrap();
            assert_eq!(found.binding_check, check, "{factor:?}");
            let sized = |size| spoolgate_wire::orders::SubmitOrder {
                size,
                ..too_large.clone()
            };
            for (size, passes) in [
                (found.max_size.checked_sub(unit).unwrap(), true),
                (found.max_size, true),
                (found.max_size.checked_add(unit).unwrap(), false),
            ] {
                let verdict = world.ask(&sized(size));
                assert_eq!(
                    verdict.accepted,
                    passes,
                    "{check} {size} {factor:?}: {:?}",
                    failed(&verdict)
                );
                let row = row(&verdict, check);
                assert_eq!(row.passed, passes);
                let plain = source.trim_end_matches(" (reduced)");
                assert_eq!(row.source, if factor.is_some() { source } else { plain });
            }
            (
                found.max_size,
                row(&world.ask(&sized(found.max_size)), check)
                    .limit
                    .unwrap(),
            )
        };
        let (whole, full_limit) = largest(None);
        let (half, half_limit) = largest(Some("0.5"));
        assert_eq!(half_limit.checked_mul(a("2")), Some(full_limit), "{check}");
        assert!(half < whole, "{check}: {half} of {whole}");
    }
}

#[test]
fn reduced_limits_hold_no_exit() {
    let mut world = World::holding("0.02");
    world.limit_factor = Some(a("0.0000000001"));
    assert!(
        world
            .refused(&limit(
                market_order("trend", "BTC-USD", "buy", "0.002", "6690", 1),
                "6760"
            ))
            .contains(&"max_order_value".to_owned())
    );
    world.accepted(&sell("0.02"));
    world.flat("6800");
    assert_eq!(world.position(), Amount::ZERO);
}
