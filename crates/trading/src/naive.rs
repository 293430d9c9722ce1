//! Headroom by its definition: each size is tried as an order of its own, with all its rows.

use super::book::Book;
use super::checks::{self, Subject};
use super::requests::Context;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::orders::{Headroom, SubmitOrder};

const MINIMUMS: [&str; 3] = ["size_lot", "min_notional", "stop_hostable"];

pub(super) fn headroom(
    book: &Book,
    rules: &Rulebook,
    order: &SubmitOrder,
    ctx: &Context,
) -> Headroom {
    let said = |max_size: Amount, check: &str| Headroom {
        max_size,
        binding_check: check.to_owned(),
    };
    let rows_of = |size: Amount| -> Vec<CheckRow> {
        checks::run(&Subject::of_order(
            book,
            rules,
            &SubmitOrder {
                size,
                ..order.clone()
            },
            ctx,
        ))
    };
    let failed = |rows: &[CheckRow], counts: &dyn Fn(&str) -> bool| -> Option<String> {
        let row = rows.iter().find(|row| row.is_root() && counts(&row.name));
        row.map(|row| row.name.clone().into_owned())
    };
    let rows = rows_of(order.size);
    if let Some(check) = failed(&rows, &|name| !checks::is_by_size(name)) {
        return said(Amount::ZERO, &check);
    }
    let subject = Subject::of_order(book, rules, order, ctx);
    if let Some(capacity) = subject
        .order
        .unwrap()
        .capacity
        .filter(|capacity| capacity.is_positive())
    {
        return match failed(&rows_of(capacity), &|_| true) {
            Some(check) => said(Amount::ZERO, &check),
            None => said(capacity, "reduce_only"),
        };
    }
    let Some(instrument) = subject.instrument else {
        return said(Amount::ZERO, &failed(&rows, &|_| true).unwrap());
    };
    let lot = if instrument.lot.is_zero() {
        Amount::parse_exact("0.00000001").unwrap()
    } else {
        *instrument.lot
    };
    let upper = |name: &str| checks::is_by_size(name) && !MINIMUMS.contains(&name);
    let size_of = |lots: u64| Amount::from_i64(i64::try_from(lots).unwrap()).checked_mul(lot);
    let refusal = |lots: u64| match size_of(lots) {
        Some(size) => failed(&rows_of(size), &upper),
        None => Some("arithmetic_range".to_owned()),
    };
    if let Some(check) = refusal(1) {
        return said(Amount::ZERO, &check);
    }
    let (mut passing, mut failing) = (1, instrument.max_size.div_floor_count(lot).unwrap() + 1);
    while failing - passing > 1 {
        let middle = passing + (failing - passing) / 2;
        if refusal(middle).is_none() {
            passing = middle
        } else {
            failing = middle
        }
    }
    let binding = refusal(passing + 1).unwrap_or_else(|| "max_order_size".to_owned());
    for lots in (passing.saturating_sub(8).max(1)..=passing).rev() {
        let size = size_of(lots).unwrap();
        match failed(&rows_of(size), &|_| true).as_deref() {
            None => return said(size, &binding),
            Some("duplicate_order") => {}
            Some(check) => return said(Amount::ZERO, check),
        }
    }
    said(Amount::ZERO, "duplicate_order")
}
