//! Texts, times, amounts and counts as the page shows them. Text from outside can neither write
//! tags nor disturb the layout around it.

use maud::{Markup, html};
use rust_decimal::Decimal;

use spoolgate_wire::amount::Amount;
use spoolgate_wire::text::is_printable;
use spoolgate_wire::time::Time;

/// Maximum number of characters shown of a name or a reason.
pub(crate) const SHORT: usize = 120;
/// Maximum number of characters shown of a text of several sentences.
pub(crate) const LONG: usize = 1200;
/// Maximum length in bytes of an ordinary name; longer names may be chosen to break the layout.
const USUAL: usize = 20;
/// Maximum number of combining marks on one letter; more than that would overwrite other lines.
const MARKS_MAX: usize = 2;
/// Separator of digit groups: a narrow no-break space.
const GROUPS: char = '\u{202f}';

/// Returns whether a character combines with the letter before it, above, below or through it.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036f | 0x0483..=0x0489 | 0x0591..=0x05bd | 0x064b..=0x065f
        | 0x0e31..=0x0e3a
        | 0x0e47..=0x0e4e | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

/// Makes text from outside safe to show: escapes unprintable characters, and cuts a long text and
/// states its full length.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut marks = 0_usize;
    for c in text.chars().take(most) {
        marks = if is_mark(c) {
            marks.saturating_add(1)
        } else {
            0
        };
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) && marks <= MARKS_MAX => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
    }
    let length = text.chars().count();
    if length > most {
        out.push_str(&format!("… [cut: {length} characters in all]"));
    }
    out
}

/// Renders a name or a reason from outside, isolated from the writing direction around it. A name
/// of ordinary length keeps its column wide enough to stay on one line.
pub(crate) fn outside(text: &str) -> Markup {
    let shown = plain(text, SHORT);
    let is_usual = shown.len() <= USUAL && !shown.contains(' ');
    html! { bdi class=[is_usual.then_some("name")] { (shown) } }
}

/// Renders a text of several lines from outside.
pub(crate) fn prose(text: &str) -> Markup {
    let cut: String = text.chars().take(LONG).collect();
    let length = text.chars().count();
    html! {
        div class="prose" {
            @for line in cut.split('\n').filter(|line| !line.trim().is_empty()) {
                p { bdi { (plain(line, LONG)) } }
            }
            @if length > LONG {
                p class="note" { "Cut here: " (count_usize(length)) " characters in all." }
            }
        }
    }
}

/// Renders an instant, to the second.
pub(crate) fn when(time: Time) -> Markup {
    html! { time datetime=(time) { (seconds(time)) } }
}

/// Formats an instant, to the second.
pub(crate) fn seconds(time: Time) -> String {
    let text = time.to_string();
    let (date, clock) = (
        text.get(..10).unwrap_or(&text),
        text.get(11..19).unwrap_or_default(),
    );
    format!("{date} {clock}")
}

/// Formats an amount with every significant digit.
pub(crate) fn amount(amount: Amount) -> String {
    minus(&amount.normalized().to_string())
}

/// Formats an amount that may be a profit or a loss, with its sign.
pub(crate) fn signed(value: Amount) -> String {
    if value.is_positive() {
        format!("+{}", amount(value))
    } else {
        amount(value)
    }
}

/// Formats an amount that may be unknown.
pub(crate) fn amount_or(value: Option<Amount>) -> String {
    value.map_or_else(|| "unknown".to_owned(), amount)
}

/// Formats a decimal of an axis.
pub(crate) fn decimal(value: Decimal) -> String {
    minus(&value.normalize().to_string())
}

/// Replaces a hyphen in front by a minus sign, which is as wide as a digit.
fn minus(text: &str) -> String {
    text.strip_prefix('-')
        .map_or_else(|| text.to_owned(), |rest| format!("\u{2212}{rest}"))
}

/// Formats a count, in groups of three digits from 10 000 on.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    if digits.len() < 5 {
        return digits;
    }
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digits.len().saturating_sub(index).is_multiple_of(3) {
            out.push(GROUPS);
        }
        out.push(digit);
    }
    out
}

/// Formats a length like [`count`].
pub(crate) fn count_usize(value: usize) -> String {
    count(u64::try_from(value).unwrap_or(u64::MAX))
}

/// Formats a count with its noun in the singular or plural.
pub(crate) fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// Returns a share in percent to one decimal, rounded down, or `None` if `whole` is zero.
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    let permille = u128::from(part)
        .checked_mul(1000)?
        .checked_div(u128::from(whole))?;
    Some(format!("{}.{} %", permille / 10, permille % 10))
}

/// Returns a fraction in percent to two decimals, half to even, or `None` if it cannot be computed.
/// A fraction above zero is never shown as 0.
pub(crate) fn percent_of(part: Amount, whole: Amount) -> Option<String> {
    let share = part
        .decimal()
        .checked_div(whole.decimal())?
        .checked_mul(Decimal::ONE_HUNDRED)?;
    let rounded = share.round_dp(2);
    Some(if rounded.is_zero() && !part.is_zero() {
        "less than 0.01 %".to_owned()
    } else {
        format!("{} %", decimal(rounded))
    })
}

/// Turns a name of this program into words: `exits_only` becomes "exits only".
pub(crate) fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped_and_cut() {
        let cases = [
            ("plain", "plain"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}\u{feff}b", "a\\u{200b}\\u{feff}b"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[31m\0", "\\u{1b}[31m\\u{0}"),
            ("é ü שלום 日本", "é ü שלום 日本"),
            (
                "e\u{301}\u{302}\u{303}\u{304}!",
                "e\u{301}\u{302}\\u{303}\\u{304}!",
            ),
            ("12345678901", "1234567890… [cut: 11 characters in all]"),
        ];
        for (text, expect) in cases {
            assert_eq!(
                plain(text, if text.starts_with("123") { 10 } else { 100 }),
                expect
            );
        }
        assert_eq!(
            outside("<script>\"'&]]>").into_string(),
            "<bdi class=\"name\">&lt;script&gt;&quot;'&amp;]]&gt;</bdi>"
        );
        let long = prose(&"x\n".repeat(5000)).into_string();
        assert!(
            long.contains("Cut here: 10\u{202f}000 characters in all."),
            "{long}"
        );
    }

    #[test]
    fn numbers_are_exact_texts() {
        let of = |text: &str| Amount::parse_wire(text).unwrap();
        assert_eq!(amount(of("5002.68735440")), "5002.6873544");
        assert_eq!(signed(of("1.5")), "+1.5");
        assert_eq!(signed(Amount::from_i64(-3)), "\u{2212}3");
        assert_eq!(signed(Amount::ZERO), "0");
        assert_eq!(count(9999), "9999");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(123_456), "123\u{202f}456");
        assert_eq!(percent(1, 3).as_deref(), Some("33.3 %"));
        assert_eq!(percent(u64::MAX, u64::MAX).as_deref(), Some("100.0 %"));
        assert_eq!(percent(1, 0), None);
        assert_eq!(percent_of(of("1"), of("8")).as_deref(), Some("12.5 %"));
        assert_eq!(
            percent_of(of("0.1"), of("5000")).as_deref(),
            Some("less than 0.01 %")
        );
        assert_eq!(percent_of(Amount::ZERO, of("5000")).as_deref(), Some("0 %"));
        assert_eq!(percent_of(of("1"), Amount::ZERO), None);
    }
}
