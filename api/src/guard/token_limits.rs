//! Token limits: bounds that need no parser. Parsers only see text within them, which rules out deep
//! recursion and long work.

use super::refusal::{self, Code};

/// The maximum size of a document, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// The maximum number of tokens. A thousand fields with arguments have fewer, and introspection has
/// about 150.
const MAX_TOKENS: usize = 10_000;

/// The maximum nesting of brackets of all kinds.
const MAX_BRACKETS: usize = 64;

/// The maximum number of directives.
const MAX_DIRECTIVES: usize = 100;

/// Returns an error if the document is too long, too deep or has too many directives. Text that is not
/// GraphQL may pass: the parser reports it.
pub(super) fn check(document: &str) -> Result<(), async_graphql::ServerError> {
    let too_much = |message: String| Err(refusal::new(Code::DocumentLimit, message));
    if document.len() > MAX_BYTES {
        return too_much(format!("the document is larger than {MAX_BYTES} bytes"));
    }
    let (mut tokens, mut brackets, mut directives) = (0, 0_usize, 0);
    let mut remaining = document.as_bytes();
    while let Some(length) = next_token(&mut remaining) {
        tokens += 1;
        match remaining[0] {
            b'{' | b'[' | b'(' => brackets += 1,
            b'}' | b']' | b')' => brackets = brackets.saturating_sub(1),
            b'@' => directives += 1,
            _ => {}
        }
        remaining = &remaining[length..];
        if tokens > MAX_TOKENS {
            return too_much(format!("the document has more than {MAX_TOKENS} tokens"));
        }
        if brackets > MAX_BRACKETS {
            return too_much(format!("the document nests more than {MAX_BRACKETS} brackets"));
        }
        if directives > MAX_DIRECTIVES {
            return too_much(format!("the document has more than {MAX_DIRECTIVES} directives"));
        }
    }
    Ok(())
}

/// Moves `text` to the next token and returns that token's length.
fn next_token(text: &mut &[u8]) -> Option<usize> {
    loop {
        let (skipped, first) = text
            .iter()
            .enumerate()
            .find(|(_, byte)| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','))
            .map(|(at, byte)| (at, *byte))?;
        *text = &text[skipped..];
        if first != b'#' {
            break;
        }
        let line = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
        *text = &text[line..];
    }
    let is_word_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.');
    Some(match text {
        [b'"', b'"', b'"', remaining @ ..] => 3 + block_string_length(remaining),
        [b'"', remaining @ ..] => 1 + string_length(remaining),
        [first, ..] if is_word_byte(first) => text.iter().take_while(|byte| is_word_byte(byte)).count(),
        _ => 1,
    })
}

/// Returns the bytes up to and including a string's closing quote, or up to the end of its line.
fn string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            b'\n' | b'\r' => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// Returns the bytes up to and including a block string's closing quotes.
fn block_string_length(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(br#"\""""#) {
            at += 4;
        } else if text[at..].starts_with(br#"""""#) {
            return at + 3;
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(mut text: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(length) = next_token(&mut text) {
            found.push(String::from_utf8_lossy(&text[..length]).into_owned());
            text = &text[length..];
        }
        found
    }

    #[test]
    fn tokens_are_told_apart() {
        for (text, expected) in [
            ("{ a, b }", vec!["{", "a", "b", "}"]),
            ("# {{{\n{a}", vec!["{", "a", "}"]),
            (r#"{a(b: "}\"{")}"#, vec!["{", "a", "(", "b", ":", r#""}\"{""#, ")", "}"]),
            (r#"("""}\""" { """)"#, vec!["(", r#""""}\""" { """"#, ")"]),
            (r#"("a\"#, vec!["(", r#""a\"#]),
            ("\"a\n{", vec!["\"a", "{"]),
            ("...F -1.5e+3 $a @b", vec!["...F", "-1.5e+3", "$", "a", "@", "b"]),
            ("\u{feff}ä", vec!["\u{fffd}"; 5]),
            ("", vec![]),
        ] {
            assert_eq!(tokens(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let message = |text: String| check(&text).err().map(|error| error.message);
        assert_eq!(message("{a}".to_owned()), None);
        assert_eq!(message(format!("{{a(b: \"{}\")}}", "{".repeat(1_000))), None);
        for (text, part) in [
            (" ".repeat(MAX_BYTES + 1), "bytes"),
            ("a ".repeat(MAX_TOKENS + 1), "tokens"),
            ("[".repeat(MAX_BRACKETS + 1), "brackets"),
            ("{a".repeat(MAX_BRACKETS + 1), "brackets"),
            ("@a".repeat(MAX_DIRECTIVES + 1), "directives"),
        ] {
            let message = message(text).unwrap_or_default();
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
