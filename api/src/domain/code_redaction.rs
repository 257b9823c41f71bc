//! Removal of source code from texts: the source lines in tracebacks and in syntax errors.
//!
//! Texts are untrusted and can be large, so every function reads each character a bounded number of
//! times.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// Returns true if a text, or a JSON value in text form, may contain source code. Otherwise there is
/// nothing to remove.
#[must_use]
pub fn may_contain_source(text: &str) -> bool {
    text.contains("File ") || SYNTAX_ERROR.is_match(text) || JSON_ROW.is_match(text)
}

/// Returns the text without the source lines that follow `File "…", line …`, which are the lines with a
/// larger indentation. It also recognizes tracebacks within a `repr`, whose line ends are a backslash and
/// an `n`, and the source line within the `repr` of a syntax error.
#[must_use]
pub fn redact_source(text: &str) -> Cow<'_, str> {
    strip_text(text, &mut None)
}

/// Removes source lines from all strings of a JSON value. A list of strings is treated as one text,
/// because tracebacks are often stored line by line. In a list that is an entry of a traceback, or the
/// location of a syntax error, the source line is emptied.
pub fn redact_source_in_json(value: &mut Value) {
    strip_value(value, &mut None);
}

fn strip_value(value: &mut Value, block: &mut Option<SourceBlock>) {
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
            // Names of fields are included, because any text can be one.
            if fields.keys().any(|name| matches!(redact_source(name), Cow::Owned(_))) {
                let stripped = std::mem::take(fields).into_iter();
                *fields = stripped.map(|(name, value)| (redact_source(&name).into_owned(), value)).collect();
            }
            for value in fields.values_mut() {
                strip_value(value, &mut None);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the source line in a list that is a row of `traceback.extract_tb`,
/// `[file, line, function, source]`, or the location of a `SyntaxError`, `[file, line, column, source, …]`.
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

/// Matches where a list of [`line_of_row`] may occur in JSON text.
static JSON_ROW: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:"|null),-?[0-9.eE+-]+,(?:-?[0-9.eE+-]+,)?""#).expect("the expression is constant")
});

/// Matches the `repr` of the location of a `SyntaxError`, up to the quote before the source line:
/// `, ('a.py', 1, 5, '`. Within another `repr` its quotes are preceded by backslashes.
static SYNTAX_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#", \((?:None|\\*'[^'\n]*'|\\*"[^"\n]*"), (?:-?[0-9]+|None), (?:-?[0-9]+|None), (\\*)(['"])"#)
        .expect("the expression is constant")
});

fn strip_text<'a>(text: &'a str, block: &mut Option<SourceBlock>) -> Cow<'a, str> {
    let stripped =
        if block.is_some() || text.contains("File ") { strip(text, block) } else { Cow::Borrowed(text) };
    match strip_syntax_errors(&stripped) {
        Some(text_without_source) => Cow::Owned(text_without_source),
        None => stripped,
    }
}

/// Returns the text without the source lines of syntax errors, or `None` if there are none.
fn strip_syntax_errors(text: &str) -> Option<String> {
    let (mut output, mut copied_until, mut is_changed) = (String::new(), 0, false);
    let mut from = 0;
    while let Some(captures) = SYNTAX_ERROR.captures_at(text, from) {
        let (backslashes, quote, start) = (captures[1].len(), &captures[2], captures.get_match().end());
        let line = &text[start..];
        let line = &line[..line.find('\n').unwrap_or(line.len())];
        // Quotes within the source have more backslashes than its delimiters. A truncated text has no
        // closing delimiter.
        let mut end = line.len();
        for (index, _) in line.match_indices(quote) {
            let run = line.as_bytes()[..index].iter().rev().take_while(|byte| **byte == b'\\').count();
            if run == backslashes {
                end = index - run;
                break;
            }
        }
        is_changed |= end > 0;
        output.push_str(&text[copied_until..start]);
        copied_until = start + end;
        from = copied_until;
    }
    output.push_str(&text[copied_until..]);
    is_changed.then_some(output)
}

/// The lines that follow a `File "…", line …`: all lines with a larger indentation, up to the first other
/// line.
#[derive(Clone, Copy)]
struct SourceBlock {
    indent: usize,
    /// The number of backslashes before the `n` of an escaped line end. 0 for real line ends.
    backslashes: usize,
}

fn strip<'a>(text: &'a str, block: &mut Option<SourceBlock>) -> Cow<'a, str> {
    let mut output = String::new();
    let mut is_changed = false;
    let mut reader = ForwardSearch::new(text);
    let mut position = 0;
    while position < text.len() {
        let end = if let Some(open) = *block {
            let end = reader.line_end(position, open.backslashes);
            let content = text[position..end].trim_end_matches(['\r', '\n']);
            let content = if open.backslashes > 0 { without_escape(content) } else { content };
            if content.trim().is_empty() {
                // Python also prints the empty lines of a statement with several lines.
                end
            } else if indent(content) > open.indent {
                is_changed = true;
                position = end;
                continue;
            } else {
                *block = None;
                continue;
            }
        } else if let Some((end, opened_block)) = reader.next_header(position) {
            *block = Some(opened_block);
            end
        } else {
            text.len()
        };
        output.push_str(&text[position..end]);
        position = end;
    }
    if is_changed { Cow::Owned(output) } else { Cow::Borrowed(text) }
}

/// A forward search in a text. It caches what it finds, so that no part of the text is searched twice.
struct ForwardSearch<'a> {
    text: &'a str,
    /// The end of the last examined line, including its line break.
    line_end: usize,
    /// The start and the end of the first `", line 1` after the last examined position, in the same line.
    location: Option<(usize, usize)>,
    /// The position before which no further one exists.
    no_location_until: usize,
}

impl<'a> ForwardSearch<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, line_end: 0, location: None, no_location_until: 0 }
    }

    /// Finds the first `File "…", line …` at the start of a line. Returns the end of its line and the
    /// block that follows.
    fn next_header(&mut self, search_start: usize) -> Option<(usize, SourceBlock)> {
        let mut from = search_start;
        while let Some(offset) = self.text[from..].find("File ") {
            let start = from + offset;
            from = start + "File ".len();
            let margin = self.text[search_start..start].trim_end_matches([' ', '\t', '|']);
            // A line starts at the start of the text, after an escaped line end, or at the start of a
            // quoted text.
            let is_line_start = margin.is_empty()
                || margin.ends_with("\\n")
                || margin.ends_with(['\n', '\'', '"', '[', '(', ',', '+', '-', ':', '`', '>']);
            let Some(location_end) = is_line_start.then(|| self.find_location_end(from)).flatten() else {
                continue;
            };
            let mut block = SourceBlock { indent: start - search_start - margin.len(), backslashes: 0 };
            let real_line_end = self.line_end(location_end, 0);
            // The name of a function contains no backslash, so the first one belongs to the line end.
            let end = match self.text[location_end..real_line_end].find('\\') {
                Some(backslash) => {
                    let backslash = location_end + backslash;
                    let run = self.text[backslash..].bytes().take_while(|byte| *byte == b'\\').count();
                    if self.text[backslash + run..].starts_with('n') {
                        block.backslashes = run;
                        backslash + run + 1
                    } else {
                        real_line_end
                    }
                }
                None => real_line_end,
            };
            return Some((end, block));
        }
        None
    }

    /// Returns the end of a `"…", line 1` that starts here. Its quotes may be escaped.
    fn find_location_end(&mut self, quote_start: usize) -> Option<usize> {
        if !self.text[quote_start..].trim_start_matches('\\').starts_with('"') {
            return None;
        }
        let content_start = quote_start + 1;
        if let Some((start, end)) = self.location
            && start >= content_start
        {
            return Some(end);
        }
        self.location = None;
        let line_end = self.line_end(quote_start, 0);
        let mut from = content_start.max(self.no_location_until);
        while let Some(offset) =
            self.text.get(from..line_end).and_then(|line_rest| line_rest.find("\", line "))
        {
            let start = from + offset;
            from = start + "\", line ".len();
            let digits = self.text[from..line_end].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.location = Some((start, from + digits));
                return Some(from + digits);
            }
        }
        self.no_location_until = line_end;
        None
    }

    /// Returns the end of the line that contains this position, including its line break.
    fn line_end(&mut self, position: usize, backslashes: usize) -> usize {
        if position >= self.line_end {
            self.line_end =
                self.text[position..].find('\n').map_or(self.text.len(), |end| position + end + 1);
        }
        let real_line_end = self.line_end;
        if backslashes == 0 {
            return real_line_end;
        }
        let bytes = &self.text.as_bytes()[..real_line_end];
        let mut position = position;
        while position < bytes.len() {
            let run = bytes[position..].iter().take_while(|byte| **byte == b'\\').count();
            // Each backslash within the source has twice as many backslashes as a line end.
            if run % (2 * backslashes) == backslashes && bytes.get(position + run) == Some(&b'n') {
                return position + run + 1;
            }
            position += run.max(1);
        }
        real_line_end
    }
}

/// Returns an escaped line without its line end.
fn without_escape(line: &str) -> &str {
    match line.strip_suffix('n') {
        Some(content) if content.ends_with('\\') => content.trim_end_matches('\\'),
        _ => line,
    }
}

/// Returns the indentation of a line. Exception groups draw a vertical line before their tracebacks,
/// which counts.
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
            // No indentation at all, and line ends and paths of Windows.
            ("File \"C:\\new\\a.py\", line 1\r\n  secret\r\nend", "File \"C:\\new\\a.py\", line 1\r\nend"),
            // A repeated frame, as in a recursion.
            (
                "  File \"a.py\", line 1, in f\n    f()\n  [Previous line repeated 9 more times]\nE",
                "  File \"a.py\", line 1, in f\n  [Previous line repeated 9 more times]\nE",
            ),
            // An exception group.
            (
                "  |   File \"a.py\", line 1, in f\n  |     secret()\n  | ValueError: no",
                "  |   File \"a.py\", line 1, in f\n  | ValueError: no",
            ),
            // A syntax error.
            (
                "  File \"<string>\", line 1\n    def f(:\n          ^\nSyntaxError",
                "  File \"<string>\", line 1\nSyntaxError",
            ),
            // Within a `repr`, and within the `repr` of that.
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
            // A `repr` on one line of a text with several lines.
            (
                "first \\n  File \"a.py\", line 1, in f\\n    secret\nsecond",
                "first \\n  File \"a.py\", line 1, in f\\nsecond",
            ),
            // Locations of syntax errors, complete, truncated, and within other texts.
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
            // Text that is not a location in a file.
            ("File \"a.py\" is gone\n  really", "File \"a.py\" is gone\n  really"),
            ("see File \"a.py\", line 1\n  hint", "see File \"a.py\", line 1\n  hint"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact_source(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_stripped_stays_as_it_is() {
        let text = "  File \"a.py\", line 1, in f\n    secret()\nValueError";
        let once = redact_source(text).into_owned();
        assert_eq!(redact_source(&once), once);
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
        assert!(may_contain_source(&value["e"].to_string()) && may_contain_source(&value["f"].to_string()));
        assert!(may_contain_source(&value["g"].to_string()));
        assert!(!may_contain_source(r#"{"worker":"a","memory":1,"x":[1,2,"kept"]}"#));
        redact_source_in_json(&mut value);
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
            let text = pattern.repeat((1 << 18) / pattern.len());
            let start = std::time::Instant::now();
            std::hint::black_box(redact_source(&text));
            // The limit is far above the duration on a busy machine, and far below that of a quadratic
            // search.
            assert!(start.elapsed().as_secs() < 5, "{pattern:?}: {:?}", start.elapsed());
        }
    }
}
