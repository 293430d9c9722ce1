//! Tables: the numbers behind every chart, and all lists.

use maud::{Markup, html};

/// A column: its heading, and whether it holds numbers.
pub(crate) struct Column(pub &'static str, pub bool);

/// Creates a column of texts.
pub(crate) const fn text(name: &'static str) -> Column {
    Column(name, false)
}

/// Creates a column of numbers.
pub(crate) const fn number(name: &'static str) -> Column {
    Column(name, true)
}

/// Renders a table that becomes a list on a narrow screen: one block per row, with the column names
/// beside the cells. The first cell of a row is its heading. The roles are explicit because some
/// browsers drop them when CSS changes the display of a table.
pub(crate) fn table(caption: &str, columns: &[Column], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(caption) {
            table class="stack" role="table" {
                caption { (caption) }
                thead role="rowgroup" { tr role="row" { @for Column(name, is_number) in columns {
                    th role="columnheader" scope="col" class=[is_number.then_some("n")] { (name) }
                } } }
                tbody role="rowgroup" { @for row in rows { tr role="row" {
                    @for (index, (cell, Column(name,
                        is_number))) in row.iter().zip(columns).enumerate() {
                        @if index == 0 {
                            th role="rowheader" scope="row" class=[is_number.then_some("n")] {
                                (cell) }
                        } @else {
                            td role="cell" data-name=(name) class=[is_number.then_some("n")] {
                                div { (cell) } }
                        }
                    }
                } } }
            }
        }
    }
}

/// Renders the numbers of a chart as a folded table that scrolls by itself if it is larger than its
/// box.
pub(crate) fn numbers(
    summary: &str,
    caption: &str,
    columns: &[Column],
    rows: &[Vec<Markup>],
) -> Markup {
    html! {
        details class="numbers" {
            summary { (summary) }
            div class="scroll" tabindex="0" role="region" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead { tr { @for Column(name, is_number) in columns {
                        th scope="col" class=[is_number.then_some("n")] { (name) }
                    } } }
                    tbody { @for row in rows { tr {
                        @for (index, (cell, Column(_,
                            is_number))) in row.iter().zip(columns).enumerate() {
                            @if index == 0 {
                                th scope="row" class=[is_number.then_some("n")] { (cell) }
                            } @else {
                                td class=[is_number.then_some("n")] { (cell) }
                            }
                        }
                    } } }
                }
            }
        }
    }
}

/// Renders pairs of a name and its value.
pub(crate) fn facts(rows: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } } }
}
