//! Text from outside that people and models will read: nothing in it may move a cursor, change the
//! reading direction, or be invisible.

use unicode_security::confusable_detection::skeleton;

/// Characters that print nothing, or change how others print, in addition to those that
/// `char::is_control` and `char::is_whitespace` recognise; in ascending order. A fixed table, so
/// that a newer compiler never changes an old decision.
const UNSEEN: [(u32, u32); 41] = [
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xe000, 0xf8ff),
    (0xfdd0, 0xfdef),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0xfffe, 0xffff),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x1bca0, 0x1bca3),
    (0x1d173, 0x1d17a),
    (0x1fffe, 0x1ffff),
    (0x2fffe, 0x2ffff),
    (0x3fffe, 0x3ffff),
    (0x4fffe, 0x4ffff),
    (0x5fffe, 0x5ffff),
    (0x6fffe, 0x6ffff),
    (0x7fffe, 0x7ffff),
    (0x8fffe, 0x8ffff),
    (0x9fffe, 0x9ffff),
    (0xafffe, 0xaffff),
    (0xbfffe, 0xbffff),
    (0xcfffe, 0xcffff),
    (0xdfffe, 0x10_ffff),
];

/// Whether the character is the space or visible: no control character, no other white space, no
/// bidirectional or zero-width character, no variation selector, nothing for private use. Letters
/// that are assigned later than this table count as printable.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let code = u32::from(c);
    let place = UNSEEN.partition_point(|(_, last)| *last < code);
    let unseen = UNSEEN.get(place).is_some_and(|(first, _)| *first <= code);
    !(unseen || c.is_control() || c.is_whitespace())
}

/// Characters that Unicode lets programs ignore (Default_Ignorable_Code_Point), and those that mark
/// annotations: zero width, direction, tags, fillers, variation selectors; in ascending order.
const HIDDEN: [(u32, u32); 15] = [
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x061c, 0x061c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0xe0000, 0xe0fff),
];
/// Hidden musical and shorthand controls, which are above the table's dense part.
const HIDDEN_MARKS: [(u32, u32); 2] = [(0x1bca0, 0x1bca3), (0x1d173, 0x1d17a)];

fn is_hidden(c: char) -> bool {
    let code = u32::from(c);
    !c.is_ascii()
        && HIDDEN
            .iter()
            .chain(&HIDDEN_MARKS)
            .any(|(first, last)| (*first..=*last).contains(&code))
}

/// Removes the characters in which a text can hide words from people and show them to models, and
/// returns how many they were; `None` if the text has none.
///
/// What emoji and some scripts need stays, one at a time: a variation selector for text or emoji
/// (U+FE0E, U+FE0F) behind a visible character that is not ASCII, and a joiner or non-joiner
/// (U+200D, U+200C) between two of them.
///
/// ```
/// use spoolgate_wire::text::without_hidden;
///
/// assert_eq!(without_hidden("a\u{200b}b\u{e0041}"), Some(("ab".to_owned(), 2)));
/// assert_eq!(without_hidden("\u{2764}\u{fe0f}\u{200d}\u{1f525}"), None);
/// ```
pub fn without_hidden(text: &str) -> Option<(String, u64)> {
    #[derive(PartialEq, Eq)]
    enum Before {
        Visible,
        Selector,
        Other,
    }
    if !text.chars().any(is_hidden) {
        return None;
    }
    let (mut left, mut removed) = (String::with_capacity(text.len()), 0_u64);
    let mut before = Before::Other;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_followed = chars
            .peek()
            .is_some_and(|c| !c.is_ascii() && !is_hidden(*c));
        before = match c {
            '\u{fe0e}' | '\u{fe0f}' if before == Before::Visible => Before::Selector,
            '\u{200c}' | '\u{200d}' if before != Before::Other && is_followed => Before::Other,
            c if is_hidden(c) => {
                removed = removed.saturating_add(1);
                continue;
            }
            c if c.is_ascii() => Before::Other,
            _ => Before::Visible,
        };
        left.push(c);
    }
    (removed > 0).then_some((left, removed))
}

/// Returns a text without any hidden character, also those that [`without_hidden`] leaves; `None` if
/// it has none.
///
/// ```
/// use spoolgate_wire::text::only_visible;
///
/// assert_eq!(only_visible("\u{2764}\u{fe0f}a\u{200b}b").as_deref(), Some("\u{2764}ab"));
/// assert_eq!(only_visible("\u{2764}ab"), None);
/// ```
pub fn only_visible(text: &str) -> Option<String> {
    let visible = || text.chars().filter(|c| !is_hidden(*c)).collect();
    text.chars().any(is_hidden).then(visible)
}

/// Maximum number of characters of foreign text that a message repeats.
pub const QUOTED_CHARS_MAX: usize = 40;

/// Quotes text from outside for a message: in backticks, truncated to `chars_max` characters, with
/// control and non-ASCII characters escaped, so that a file cannot control the reader's terminal.
pub fn quoted(text: &str, chars_max: usize) -> String {
    let mut out = String::from("`");
    let mut rest = text.chars();
    for character in rest.by_ref().take(chars_max) {
        if character.is_control() || !character.is_ascii() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out.push_str(if rest.next().is_some() { "...`" } else { "`" });
    out
}

/// Turns text into one line: replaces unprintable characters by spaces, collapses spaces and trims
/// them at the ends, and truncates the rest to `chars_max` characters.
pub fn clean(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for c in text.chars() {
        let c = if is_printable(c) { c } else { ' ' };
        if c == ' ' && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        if chars == chars_max {
            break;
        }
        line.push(c);
        chars += 1;
    }
    line.truncate(line.trim_end().len());
    line
}

/// Returns the text in the characters that its own look like (UTS #39, section 4), in lower case: full
/// width, mathematical and foreign letters become plain ones. To be compared with another such text:
/// some plain letters become others, an `m` the letters `rn`.
pub fn look(text: &str) -> String {
    // What looks like a capital letter has no lower case before it is one.
    let plain: String = skeleton(&text.to_lowercase()).collect();
    skeleton(&plain.to_lowercase()).collect()
}

/// Returns the letters and digits of a text in lower case, which two spellings of the same words
/// share.
pub fn fold(text: &str) -> String {
    text.chars()
        .filter(|c| is_printable(*c))
        .flat_map(char::to_lowercase)
        .filter(|c| c.is_alphanumeric())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_rises() {
        assert!(UNSEEN.iter().all(|(first, last)| first <= last));
        assert!(UNSEEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn invisible_characters_become_one_space() {
        let hidden = [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{a0}',
            '\u{ad}',
            '\u{61c}',
            '\u{115f}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{3000}',
            '\u{e000}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{ffff}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{10ffff}',
        ];
        for c in hidden {
            assert!(!is_printable(c), "{}", c.escape_unicode());
            assert_eq!(
                clean(&format!("{c}a{c}{c} b{c}"), 9),
                "a b",
                "{}",
                c.escape_unicode()
            );
        }
        for c in [
            ' ', '~', 'é', 'ß', '量', '\u{301}', '😀', '𝄞', '€', '\u{fffd}',
        ] {
            assert!(is_printable(c), "{}", c.escape_unicode());
        }
    }

    #[test]
    fn hidden_characters_go_and_what_scripts_and_emoji_need_stays() {
        let hidden = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{17b4}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{200e}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{206f}',
            '\u{3164}',
            '\u{fe00}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e007f}',
            '\u{e0100}',
            '\u{e0fff}',
        ];
        for c in hidden {
            let text = format!("{c}a{c}b{c}{c}");
            let wanted = Some(("ab".to_owned(), 4));
            assert_eq!(without_hidden(&text), wanted, "{}", c.escape_unicode());
        }
        for c in [
            '\n',
            '\t',
            '\u{a0}',
            '\u{ac}',
            '\u{ae}',
            '\u{200a}',
            '\u{2010}',
            '\u{2029}',
            '\u{202f}',
            '\u{205f}',
            '\u{2070}',
            '\u{301}',
            '\u{fdff}',
            '\u{fe10}',
            '\u{fffc}',
            '\u{dffff}',
            '\u{f0000}',
            '😀',
        ] {
            let text = format!("a{c}b");
            assert_eq!(without_hidden(&text), None, "{}", c.escape_unicode());
        }
        // Persian and Hindi words, a family, a heart on fire, a keycap without its selector.
        for (text, left, removed) in [
            ("می\u{200c}خواهم", "می\u{200c}خواهم", 0),
            ("क्\u{200d}ष", "क्\u{200d}ष", 0),
            ("👨\u{200d}👩\u{200d}👧", "👨\u{200d}👩\u{200d}👧", 0),
            ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥", 0),
            ("1\u{fe0f}\u{20e3}", "1\u{20e3}", 1),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}", 1),
            ("👨\u{200d}\u{200d}👩", "👨\u{200d}👩", 1),
            ("ü\u{200d}", "ü", 1),
            ("ü\u{200d}a", "üa", 1),
            ("\u{fe0f}ü", "ü", 1),
            ("🏴\u{e0067}\u{e007f}", "🏴", 2),
        ] {
            let found = without_hidden(text);
            let wanted = (removed > 0).then(|| (left.to_owned(), removed));
            assert_eq!(found, wanted, "{}", text.escape_unicode());
        }
    }

    #[test]
    fn text_is_cut_to_characters_and_never_ends_in_a_space() {
        for (text, max, expect) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "abc"),
            ("ab cd", 3, "ab"),
            ("  éé  é", 4, "éé é"),
            ("", 3, ""),
            ("\n", 3, ""),
            ("a", 0, ""),
        ] {
            assert_eq!(clean(text, max), expect, "{text:?} {max}");
        }
    }

    #[test]
    fn folding_sees_through_case_punctuation_and_hidden_characters() {
        for (text, expect) in [
            ("Risk Officer", "riskofficer"),
            ("RISK_officer!", "riskofficer"),
            ("r\u{200b}isk-Officer", "riskofficer"),
            ("Ж 1", "ж1"),
            ("…", ""),
        ] {
            assert_eq!(fold(text), expect, "{text:?}");
        }
        assert_ne!(
            fold("R\u{456}sk Officer"),
            "riskofficer",
            "another alphabet"
        );
    }
}
