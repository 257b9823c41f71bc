//! Display of untrusted text from reporters and users: on pages, in terminals, and in headers.
//!
//! A name may contain invisible characters that change how text is displayed: they change the direction
//! of the text around them, hide parts of it, or control a terminal. Each is shown as its code point,
//! such as `\u{202e}`. Stored values and API responses keep the original characters.

use std::{borrow::Cow, fmt::Write};

/// Replaces each invisible character by its code point.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, is_unseen, push_code_point)
}

/// Replaces each control character by its code point, except tabs and line ends.
#[must_use]
pub fn without_controls(text: &str) -> Cow<'_, str> {
    let is_escaped = |character: char| character.is_control() && !"\t\r\n".contains(character);
    escape(text, is_escaped, push_code_point)
}

/// Writes some characters of a text by `push`, and copies the others.
pub fn escape(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    push: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            push(character, &mut escaped);
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

fn push_code_point(character: char, output: &mut String) {
    write!(output, "\\u{{{:x}}}", u32::from(character)).expect("a text takes all");
}

/// Returns the value of `Content-Disposition` for a download with this name. The name is encoded in ASCII
/// according to RFC 8187, so that no part of it can end the header or a quoted string.
#[must_use]
pub fn attachment(name: &str) -> String {
    let mut header = "attachment; filename*=UTF-8''".to_owned();
    for byte in visible(name).bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            header.push(char::from(byte));
        } else {
            write!(header, "%{byte:02X}").expect("a text takes all");
        }
    }
    header
}

/// Returns true if a character is invisible: control characters of terminals and lines, direction marks
/// and overrides, characters of zero width, and those that only change how other characters look.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown_as_its_number() {
        for (text, shown) in [
            ("etl of März, 日本語 العربية 🎉", "etl of März, 日本語 العربية 🎉"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}", "\\u{2066}a\\u{2069}\\u{200e}\\u{200f}\\u{61c}"),
            ("a\u{200b}\u{200d}\u{2060}\u{feff}b", "a\\u{200b}\\u{200d}\\u{2060}\\u{feff}b"),
            ("\u{1b}[2J\u{9b}31m\u{7f}", "\\u{1b}[2J\\u{9b}31m\\u{7f}"),
            ("a\nb\tc\r\0", "a\\u{a}b\\u{9}c\\u{d}\\u{0}"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("a\u{ad}\u{e0041}", "a\\u{ad}\\u{e0041}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert!(matches!(visible("as it is"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_name_ends_no_header() {
        for (name, header) in [
            ("report.html", "attachment; filename*=UTF-8''report.html"),
            (
                "a\";\r\nX: ü.html",
                "attachment; filename*=UTF-8''a%22%3B%5Cu%7Bd%7D%5Cu%7Ba%7DX%3A%20%C3%BC.html",
            ),
            ("\u{202e}lmth", "attachment; filename*=UTF-8''%5Cu%7B202e%7Dlmth"),
        ] {
            assert_eq!(attachment(name), header);
        }
    }
}
