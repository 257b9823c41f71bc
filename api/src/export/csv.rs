//! CSV (RFC 4180) in UTF-8, with a header line and CRLF line ends.

use std::fmt::Write;

use csv::{Terminator, Writer, WriterBuilder};

use super::{
    column::{Cell, Column, Kind},
    file_format::{EncodeError, Encoder},
};
use crate::domain::visible_text::{escape, is_unseen, without_controls};

/// The prefix that makes a spreadsheet treat a cell as text.
const TEXT: char = '\'';

/// Returns true if a spreadsheet treats a cell that begins with this character as a formula. Some also
/// accept the full-width forms. The prefix itself is guarded too, so that it can be removed again.
fn begins_formula(character: char) -> bool {
    matches!(character, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | TEXT)
}

/// Returns true if a spreadsheet may treat this character as the end of a cell, because it separates
/// lists by another character than a comma.
fn separates(character: char) -> bool {
    matches!(character, ';' | '\t' | '\r' | '\n')
}

/// Copies a text. Calls `guard` instead for each character that could begin a formula: at the start of a
/// cell, possibly after blanks.
fn guard_formulas(text: &str, mut guard: impl FnMut(char, &mut String)) -> String {
    let mut written = String::with_capacity(text.len() + 1);
    let mut begins = true;
    for character in text.chars() {
        if begins && begins_formula(character) {
            guard(character, &mut written);
        } else {
            written.push(character);
        }
        begins = separates(character) || begins && (character.is_whitespace() || is_unseen(character));
    }
    written
}

/// Returns a text in which no spreadsheet sees a formula, in whole or in part, and no terminal a command.
fn text(text: &str) -> String {
    let text = without_controls(text);
    let quoted = guard_formulas(&text, |character, written| written.extend([TEXT, character]));
    // Some spreadsheets strip these characters before they look for a formula.
    if quoted.starts_with(['\t', '\r', '\n']) { format!("{TEXT}{quoted}") } else { quoted }
}

/// Returns equivalent JSON in which no spreadsheet sees a formula, and no terminal a command. JSON never
/// begins with one of the signs itself, and separators occur only inside its strings.
fn json(json: &str) -> String {
    let mut is_number = true;
    let guarded = guard_formulas(json, |character, written| {
        // A bare number is not inside a string and is not a formula.
        if is_number && written.is_empty() && character == '-' {
            written.push(character);
        } else {
            push_escape(character, written);
        }
        is_number = false;
    });
    // JSON requires escapes only for the control characters before the space.
    let needs_escape = |character: char| character > ' ' && character.is_control();
    escape(&guarded, needs_escape, push_escape).into_owned()
}

fn push_escape(character: char, json: &mut String) {
    write!(json, "\\u{:04x}", u32::from(character)).expect("a text takes all");
}

pub(super) struct CsvFile {
    writer: Writer<Vec<u8>>,
    kinds: Vec<Kind>,
    held: usize,
}

impl CsvFile {
    pub(super) fn new(columns: &[Column]) -> Result<Self, EncodeError> {
        let mut writer = writer();
        writer.write_record(columns.iter().map(|column| &column.name))?;
        Ok(Self { writer, kinds: columns.iter().map(|column| column.kind).collect(), held: 0 })
    }

    fn write(&mut self, kind: Kind, cell: &Cell<'_>) -> Result<(), EncodeError> {
        let text = match cell {
            Cell::Null => return self.field(""),
            Cell::Text(value) if kind == Kind::Text => text(value),
            Cell::Text(value) => return self.field(value),
            Cell::Json(value) => json(value),
            Cell::Texts(texts) => json(&serde_json::to_string(texts).expect("texts are JSON")),
            Cell::Integer(number) => number.to_string(),
            // The shortest exact form, with an exponent where the number would be long.
            Cell::Number(number) => format!("{number:?}"),
            Cell::Boolean(value) => value.to_string(),
        };
        self.field(&text)
    }

    fn field(&mut self, text: &str) -> Result<(), EncodeError> {
        self.held += text.len();
        Ok(self.writer.write_field(text)?)
    }
}

impl Encoder for CsvFile {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), EncodeError> {
        for (index, cell) in cells.iter().enumerate() {
            self.write(self.kinds[index], cell)?;
        }
        Ok(self.writer.write_record(None::<&[u8]>)?)
    }

    fn buffered_bytes(&self) -> usize {
        self.held
    }

    fn take_chunk(&mut self) -> Result<Vec<u8>, EncodeError> {
        self.held = 0;
        let written = std::mem::replace(&mut self.writer, writer());
        Ok(written.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
    }

    fn end(&mut self) -> Result<Vec<u8>, EncodeError> {
        Ok(Vec::new())
    }
}

fn writer() -> Writer<Vec<u8>> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(kind: Kind, cell: Cell<'_>) -> String {
        let columns = [Column::new("a", Kind::Integer, false, ""), Column::new("b", kind, true, "")];
        let mut file = CsvFile::new(&columns).expect("names are written");
        file.row(&[Cell::Integer(1), cell]).expect("a row of two");
        String::from_utf8(file.take_chunk().expect("it is in memory")).expect("it is text")
    }

    #[test]
    fn texts_are_no_formulas() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("'x", "''x"),
            ("a=b", "a=b"),
            (" =1+1", " '=1+1"),
            ("\u{a0}\u{200b}=1", "\u{a0}\u{200b}'=1"),
            ("\n=1", "\"'\n'=1\""),
            ("\t=1", "'\t'=1"),
            ("x", "x"),
            ("\tx", "'\tx"),
            ("＝1", "'＝1"),
            ("x;=1;-2; @y;'z", "x;'=1;'-2; '@y;''z"),
            ("x\t＋1", "x\t'＋1"),
            ("x;y-1=2 = 3", "x;y-1=2 = 3"),
            ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"),
            ("\u{1b}]0;x\u{7}\u{9b}2J\u{7f}", "\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{7f}"),
            ("\u{1}=1", "\\u{1}=1"),
            ("x,\"y\"\r\n", "\"x,\"\"y\"\"\r\n\""),
            ("", ""),
        ] {
            assert_eq!(written(Kind::Text, Cell::Text(text)), format!("a,b\r\n1,{cell}\r\n"));
        }
    }

    #[test]
    fn values_are_written_in_full() {
        for (kind, cell, expected) in [
            (Kind::Integer, Cell::Integer(-7), "-7"),
            (Kind::Number, Cell::Number(-0.1), "-0.1"),
            (Kind::Number, Cell::Number(1e100), "1e100"),
            (Kind::Boolean, Cell::Boolean(true), "true"),
            (Kind::Texts, Cell::Texts(vec!["a", "=b"]), r#""[""a"",""=b""]""#),
            (Kind::Texts, Cell::Texts(vec!["x;=b", "y; -1"]), r#""[""x;\u003db"",""y; \u002d1""]""#),
            (Kind::Json, Cell::Json("{}".to_owned()), "{}"),
            (Kind::Json, Cell::Json("-1".to_owned()), "-1"),
            (
                Kind::Json,
                Cell::Json(r#"{"a;=":-1,"b":"＠;＠"}"#.to_owned()),
                r#""{""a;\u003d"":-1,""b"":""＠;\uff20""}""#,
            ),
            (
                Kind::Json,
                Cell::Json("{\"a\":\"\\u001b\u{9b}\u{7f}\"}".to_owned()),
                r#""{""a"":""\u001b\u009b\u007f""}""#,
            ),
            (Kind::Text, Cell::Null, ""),
        ] {
            assert_eq!(written(kind, cell), format!("a,b\r\n1,{expected}\r\n"));
        }
    }
}
