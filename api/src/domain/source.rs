//! Source lines in tracebacks and in syntax errors, taken out of texts that are to hold no code.
//!
//! Texts come from outside and are large, so every function here reads each character a bounded number of times.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// Whether a text, or JSON as a text, may hold source; if not, nothing would be taken out of it.
#[must_use]
pub fn may_hold_source(text: &str) -> bool {
    text.contains("File ") || SYNTAX_ERROR.is_match(text) || JSON_ROW.is_match(text)
}

/// The text without the lines of source that follow `File "…", line …`: the lines indented more than that one.
/// Tracebacks within a `repr`, whose line ends are a backslash and an `n`, are recognised as well, and so is the
/// line within the `repr` of a syntax error.
#[must_use]
pub fn strip_source(text: &str) -> Cow<'_, str> {
    strip_text(text, &mut None)
}

/// The same for all texts of a JSON value. A list of texts is read as one, because tracebacks are often kept
/// line by line; and lists that are an entry of a traceback or what a syntax error says lose their line of source.
pub fn strip_source_of_json(value: &mut Value) {
    strip_value(value, &mut None);
}

fn strip_value(value: &mut Value, block: &mut Option<Block>) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(stripped) = strip_text(text, block) {
                *text = stripped;
            }
        }
        Value::Array(items) => {
            if let Some(line) = line_of_row(items) {
                line.clear();
            }
            let mut block = None;
            for item in items {
                strip_value(item, &mut block);
            }
        }
        Value::Object(fields) => {
            // Names as well: any text can be one.
            if fields.keys().any(|name| matches!(strip_source(name), Cow::Owned(_))) {
                let stripped = std::mem::take(fields).into_iter();
                *fields = stripped.map(|(name, value)| (strip_source(&name).into_owned(), value)).collect();
            }
            for value in fields.values_mut() {
                strip_value(value, &mut None);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The line of source in a list that is a row of `traceback.extract_tb`, `[file, line, function, source]`, or what a
/// `SyntaxError` says of its place, `[file, line, column, source, …]`.
fn line_of_row(items: &mut [Value]) -> Option<&mut String> {
    let is_row = match items {
        [Value::String(_), Value::Number(_), Value::String(_), Value::String(_)] => true,
        [Value::String(_) | Value::Null, Value::Number(_), Value::Number(_), Value::String(_), ends @ ..] => {
            matches!(ends, [] | [Value::Number(_) | Value::Null, Value::Number(_) | Value::Null])
        }
        _ => false,
    };
    match items.get_mut(3) {
        Some(Value::String(line)) if is_row => Some(line),
        _ => None,
    }
}

/// Where a list that [`line_of_row`] finds may be in the text of JSON.
static JSON_ROW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:"|null),-?[0-9.eE+-]+,(?:-?[0-9.eE+-]+,)?""#).expect("the expression is constant")
});

/// The `repr` of what a `SyntaxError` says of its place, up to the quote before the line of source:
/// `, ('a.py', 1, 5, '`. Within other texts its quotes have backslashes.
static SYNTAX_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#", \((?:None|\\*'[^'\n]*'|\\*"[^"\n]*"), (?:-?[0-9]+|None), (?:-?[0-9]+|None), (\\*)(['"])"#)
        .expect("the expression is constant")
});

fn strip_text<'a>(text: &'a str, block: &mut Option<Block>) -> Cow<'a, str> {
    let stripped =
        if block.is_some() || text.contains("File ") { strip(text, block) } else { Cow::Borrowed(text) };
    match strip_syntax_errors(&stripped) {
        Some(without) => Cow::Owned(without),
        None => stripped,
    }
}

/// The text without the lines that syntax errors hold, if there are any.
fn strip_syntax_errors(text: &str) -> Option<String> {
    let (mut kept, mut copied, mut changed) = (String::new(), 0, false);
    let mut from = 0;
    while let Some(found) = SYNTAX_ERROR.captures_at(text, from) {
        let (backslashes, quote, start) = (found[1].len(), &found[2], found.get_match().end());
        let line = &text[start..];
        let line = &line[..line.find('\n').unwrap_or(line.len())];
        // Quotes of the source itself have more backslashes than those round it. What was cut has no end.
        let mut end = line.len();
        for (at, _) in line.match_indices(quote) {
            let run = line.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            if run == backslashes {
                end = at - run;
                break;
            }
        }
        changed |= end > 0;
        kept.push_str(&text[copied..start]);
        copied = start + end;
        from = copied;
    }
    kept.push_str(&text[copied..]);
    changed.then_some(kept)
}

/// What follows a `File "…", line …`: lines indented more than this, until one that is not.
#[derive(Clone, Copy)]
struct Block {
    indent: usize,
    /// Backslashes in front of the `n` that ends a line; 0 for real line ends.
    backslashes: usize,
}

fn strip<'a>(text: &'a str, block: &mut Option<Block>) -> Cow<'a, str> {
    let mut kept = String::new();
    let mut changed = false;
    let mut reader = Reader::new(text);
    let mut at = 0;
    while at < text.len() {
        let end = if let Some(open) = *block {
            let end = reader.line_end(at, open.backslashes);
            let content = text[at..end].trim_end_matches(['\r', '\n']);
            let content = if open.backslashes > 0 { without_escape(content) } else { content };
            if content.trim().is_empty() {
                // Python shows empty lines of a longer statement, too.
                end
            } else if indent(content) > open.indent {
                changed = true;
                at = end;
                continue;
            } else {
                *block = None;
                continue;
            }
        } else if let Some((end, opened)) = reader.next_header(at) {
            *block = Some(opened);
            end
        } else {
            text.len()
        };
        kept.push_str(&text[at..end]);
        at = end;
    }
    if changed { Cow::Owned(kept) } else { Cow::Borrowed(text) }
}

/// Looks for things in a text, further and further on, and remembers what it came by: nothing is looked for twice.
struct Reader<'a> {
    text: &'a str,
    /// Where the line ends that was looked at last, with its end.
    line_end: usize,
    /// The first `", line 1` behind what was looked at last, in the same line: where it begins and ends.
    place: Option<(usize, usize)>,
    /// Up to where it is known that there is none before that.
    placeless_until: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, line_end: 0, place: None, placeless_until: 0 }
    }

    /// The first `File "…", line …` that begins a line: where its line ends, and what then follows.
    fn next_header(&mut self, begin: usize) -> Option<(usize, Block)> {
        let mut from = begin;
        while let Some(found) = self.text[from..].find("File ") {
            let start = from + found;
            from = start + "File ".len();
            let margin = self.text[begin..start].trim_end_matches([' ', '\t', '|']);
            // A line begins at its beginning, after an escaped line end, or where a quoted text does.
            let begins = margin.is_empty()
                || margin.ends_with("\\n")
                || margin.ends_with(['\n', '\'', '"', '[', '(', ',', '+', '-', ':', '`', '>']);
            let Some(behind) = begins.then(|| self.place(from)).flatten() else { continue };
            let mut block = Block { indent: start - begin - margin.len(), backslashes: 0 };
            let real = self.line_end(behind, 0);
            // The name of a function has no backslash: the first one belongs to the line's end.
            let end = match self.text[behind..real].find('\\') {
                Some(first) => {
                    let first = behind + first;
                    let run = self.text[first..].bytes().take_while(|byte| *byte == b'\\').count();
                    if self.text[first + run..].starts_with('n') {
                        block.backslashes = run;
                        first + run + 1
                    } else {
                        real
                    }
                }
                None => real,
            };
            return Some((end, block));
        }
        None
    }

    /// Where `"…", line 1` ends that begins here, whose quotes may be escaped.
    fn place(&mut self, begin: usize) -> Option<usize> {
        if !self.text[begin..].trim_start_matches('\\').starts_with('"') {
            return None;
        }
        let inside = begin + 1;
        if let Some((start, end)) = self.place
            && start >= inside
        {
            return Some(end);
        }
        self.place = None;
        let line_end = self.line_end(begin, 0);
        let mut from = inside.max(self.placeless_until);
        while let Some(found) = self.text.get(from..line_end).and_then(|rest| rest.find("\", line ")) {
            let start = from + found;
            from = start + "\", line ".len();
            let digits = self.text[from..line_end].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.place = Some((start, from + digits));
                return Some(from + digits);
            }
        }
        self.placeless_until = line_end;
        None
    }

    /// Where the line ends that this lies in, with its end.
    fn line_end(&mut self, at: usize, backslashes: usize) -> usize {
        if at >= self.line_end {
            self.line_end = self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1);
        }
        let real = self.line_end;
        if backslashes == 0 {
            return real;
        }
        let bytes = &self.text.as_bytes()[..real];
        let mut at = at;
        while at < bytes.len() {
            let run = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
            // Each backslash of the source itself is twice as many as those of a line's end.
            if run % (2 * backslashes) == backslashes && bytes.get(at + run) == Some(&b'n') {
                return at + run + 1;
            }
            at += run.max(1);
        }
        real
    }
}

/// An escaped line without its end.
fn without_escape(line: &str) -> &str {
    match line.strip_suffix('n') {
        Some(rest) if rest.ends_with('\\') => rest.trim_end_matches('\\'),
        _ => line,
    }
}

/// Groups of exceptions draw a line in front of their tracebacks.
fn indent(line: &str) -> usize {
    line.chars().take_while(|c| matches!(c, ' ' | '\t' | '|')).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn source_goes_and_the_rest_stays() {
        let cases = [
            ("no traceback\n    at all", "no traceback\n    at all"),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    secret()\n    ~~~~~~^^\n\
                 ValueError: no\n  hint",
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: no\n  hint",
            ),
            (
                "  File \"a.py\", line 1, in f\n    secret(\n\n        1)\n  File \"b.py\", line 2, in g\n    other()",
                "  File \"a.py\", line 1, in f\n\n  File \"b.py\", line 2, in g\n",
            ),
            // No indentation at all, and Windows' line ends and paths.
            ("File \"C:\\new\\a.py\", line 1\r\n  secret\r\nend", "File \"C:\\new\\a.py\", line 1\r\nend"),
            // A repeated frame, as of a recursion.
            (
                "  File \"a.py\", line 1, in f\n    f()\n  [Previous line repeated 9 more times]\nE",
                "  File \"a.py\", line 1, in f\n  [Previous line repeated 9 more times]\nE",
            ),
            // A group of exceptions.
            (
                "  |   File \"a.py\", line 1, in f\n  |     secret()\n  | ValueError: no",
                "  |   File \"a.py\", line 1, in f\n  | ValueError: no",
            ),
            // A syntax error.
            (
                "  File \"<string>\", line 1\n    def f(:\n          ^\nSyntaxError",
                "  File \"<string>\", line 1\nSyntaxError",
            ),
            // Within a repr, and within the repr of that.
            (
                r#"E('Traceback:\n  File "a.py", line 1, in f\n    print("a\\n  b")\nValueError: no')"#,
                r#"E('Traceback:\n  File "a.py", line 1, in f\nValueError: no')"#,
            ),
            (
                r#"['  File \"a.py\", line 1, in f\\n    x = \\\\\\n        secret\\nValueError']"#,
                r#"['  File \"a.py\", line 1, in f\\nValueError']"#,
            ),
            (
                r#"('  File "a.py", line 1, in f\n    secret()\n', '  File "b.py", line 2, in g\n    other()\n', 3)"#,
                r#"('  File "a.py", line 1, in f\n', '  File "b.py", line 2, in g\n', 3)"#,
            ),
            // A repr on one line of a text with many.
            (
                "first \\n  File \"a.py\", line 1, in f\\n    secret\nsecond",
                "first \\n  File \"a.py\", line 1, in f\\nsecond",
            ),
            // Syntax errors say what they stumbled over, with or without its end, and within other texts.
            (
                r#"SyntaxError('invalid syntax', ('<string>', 1, 5, 'api_key = "x" +', 1, 6))"#,
                "SyntaxError('invalid syntax', ('<string>', 1, 5, '', 1, 6))",
            ),
            (
                r#"[TabError('m', ("it's.py", 1, None, 'f(\'a\', 1, 2)\n')), E('n', ('b', 2, -1, "f('c'"))]"#,
                r#"[TabError('m', ("it's.py", 1, None, '')), E('n', ('b', 2, -1, ""))]"#,
            ),
            (
                r#"E("S('m', ('f', 1, 5, 'it\\'s', 1, 6))", 'S(\'m\', (\'f\', 1, 5, \'g(\\\'x\\\')\', 1, 6))')"#,
                r#"E("S('m', ('f', 1, 5, '', 1, 6))", 'S(\'m\', (\'f\', 1, 5, \'\', 1, 6))')"#,
            ),
            ("S('m', (None, 1, 5, 'secret\nnext", "S('m', (None, 1, 5, '\nnext"),
            ("S('m', ('f', 1, 5, None))", "S('m', ('f', 1, 5, None))"),
            // No place in a file.
            ("File \"a.py\" is gone\n  really", "File \"a.py\" is gone\n  really"),
            ("see File \"a.py\", line 1\n  hint", "see File \"a.py\", line 1\n  hint"),
        ];
        for (text, expected) in cases {
            assert_eq!(strip_source(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_stripped_stays_as_it_is() {
        let text = "  File \"a.py\", line 1, in f\n    secret()\nValueError";
        let once = strip_source(text).into_owned();
        assert_eq!(strip_source(&once), once);
    }

    #[test]
    fn json_is_stripped_in_every_text() {
        let mut value = json!({
            "a": ["  File \"a.py\", line 1, in f", "    secret()", "ValueError"],
            "b": { "c": "  File \"a.py\", line 1, in f\n    secret()\n" },
            "d": [1, null, "    kept"],
            "e": [["a.py", 1, "f", "secret()"], ["a.py", 1, "f"], ["a.py", 1, "f", "x", "y"]],
            "f": ["invalid syntax", ["a.py", 1, 5, "secret(", 1, null]],
            "g": "SyntaxError('m', ('f', 1, 5, 'secret'))",
            "  File \"a.py\", line 1\n    secret": true,
        });
        assert!(may_hold_source(&value["e"].to_string()) && may_hold_source(&value["f"].to_string()));
        assert!(may_hold_source(&value["g"].to_string()));
        assert!(!may_hold_source(r#"{"worker":"a","memory":1,"x":[1,2,"kept"]}"#));
        strip_source_of_json(&mut value);
        let expected = json!({
            "a": ["  File \"a.py\", line 1, in f", "", "ValueError"],
            "b": { "c": "  File \"a.py\", line 1, in f\n" },
            "d": [1, null, "    kept"],
            "e": [["a.py", 1, "f", ""], ["a.py", 1, "f"], ["a.py", 1, "f", "x", "y"]],
            "f": ["invalid syntax", ["a.py", 1, 5, "", 1, null]],
            "g": "SyntaxError('m', ('f', 1, 5, ''))",
            "  File \"a.py\", line 1\n": true,
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_large_text_is_read_in_no_time() {
        let patterns = [
            "\"File ",
            "\"File \", line ",
            "\"File \"",
            "File \\\\\\\"",
            "File \", line 1",
            r#"\n  File "a", line 1"#,
            r#"\n  File "a", line 1\n    x"#,
            r#"\n  File "a", line 1\n"#,
            r#"\n  File "a", line 1\nx\n\n    \\n"#,
            "  File \"a\", line 1\n    x\n",
            "  File \"a\", line 1, in f\\\\",
            "     |||  File ",
            ", ('",
            ", (\", ('",
            ", ('f', 1, 2, '",
            ", ('f', 1, 2, \"",
            ", ('f', 1, 2, '\\\\\\",
        ];
        for pattern in patterns {
            let text = pattern.repeat((1 << 20) / pattern.len());
            let start = std::time::Instant::now();
            std::hint::black_box(strip_source(&text));
            // Far from what it takes even on a busy machine, and farther from what looking ahead each time would.
            assert!(start.elapsed().as_secs() < 10, "{pattern:?}: {:?}", start.elapsed());
        }
    }
}
