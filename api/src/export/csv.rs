//! CSV (RFC 4180) in UTF-8, with a header line and CRLF line ends.

use std::fmt::Write;

use csv::{Terminator, Writer, WriterBuilder};

use super::{
    column::{Cell, Column, Kind},
    file_format::{EncodeError, Encoder},
};
use crate::domain::visible_text::{escape, is_unseen, without_controls};

/// The prefix that makes a spreadsheet treat a cell as text.
const TEXT_PREFIX: char = '\'';

/// Returns true if a spreadsheet treats a cell that begins with this character as a formula. Some also
/// accept the full-width forms. The prefix itself is escaped too, so that it can be removed again.
fn starts_formula(character: char) -> bool {
    matches!(character, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠' | TEXT_PREFIX)
}

/// Returns true if a spreadsheet may treat this character as the end of a cell, because it separates
/// lists by another character than a comma.
fn is_separator(character: char) -> bool {
    matches!(character, ';' | '\t' | '\r' | '\n')
}

/// Copies a text, and calls `escape_character` for each character that could begin a formula instead of
/// copying it. Such a character is at the start of a cell, possibly after blanks.
fn escape_formulas(text: &str, mut escape_character: impl FnMut(char, &mut String)) -> String {
    let mut output = String::with_capacity(text.len() + 1);
    let mut is_cell_start = true;
    for character in text.chars() {
        if is_cell_start && starts_formula(character) {
            escape_character(character, &mut output);
        } else {
            output.push(character);
        }
        is_cell_start =
            is_separator(character) || is_cell_start && (character.is_whitespace() || is_unseen(character));
    }
    output
}

/// Returns a text that no spreadsheet treats as a formula, in whole or in part, and no terminal as a command.
fn escape_text(text: &str) -> String {
    let text = without_controls(text);
    let quoted = escape_formulas(&text, |character, written| written.extend([TEXT_PREFIX, character]));
    // Some spreadsheets strip these characters before they look for a formula.
    if quoted.starts_with(['\t', '\r', '\n']) { format!("{TEXT_PREFIX}{quoted}") } else { quoted }
}

/// Returns equivalent JSON that no spreadsheet treats as a formula, and no terminal as a command. JSON itself
/// begins with no such character, except for a negative number, and separators occur only inside strings.
fn escape_json(json: &str) -> String {
    let escaped = escape_formulas(json, |character, written| {
        // At the start of JSON, `-` is the sign of a number, which is not a formula.
        if written.is_empty() && character == '-' {
            written.push(character);
        } else {
            push_escape(character, written);
        }
    });
    // JSON requires escapes only for the control characters before the space.
    let needs_escape = |character: char| character > ' ' && character.is_control();
    escape(&escaped, needs_escape, push_escape).into_owned()
}

fn push_escape(character: char, json: &mut String) {
    write!(json, "\\u{:04x}", u32::from(character)).expect("writing to a string succeeds");
}

pub(super) struct CsvFile {
    writer: Writer<Vec<u8>>,
    kinds: Vec<Kind>,
    buffered_bytes: usize,
}

impl CsvFile {
    pub(super) fn new(columns: &[Column]) -> Result<Self, EncodeError> {
        let mut writer = new_writer();
        writer.write_record(columns.iter().map(|column| &column.name))?;
        Ok(Self { writer, kinds: columns.iter().map(|column| column.kind).collect(), buffered_bytes: 0 })
    }

    fn write_cell(&mut self, kind: Kind, cell: &Cell<'_>) -> Result<(), EncodeError> {
        let text = match cell {
            Cell::Null => return self.write_field(""),
            Cell::Text(value) if kind == Kind::Text => escape_text(value),
            Cell::Text(value) => return self.write_field(value),
            Cell::Json(value) => escape_json(value),
            Cell::Texts(texts) => escape_json(&serde_json::to_string(texts).expect("texts are JSON")),
            Cell::Integer(number) => number.to_string(),
            // The shortest exact form, with an exponent where the number would be long.
            Cell::Number(number) => format!("{number:?}"),
            Cell::Boolean(value) => value.to_string(),
        };
        self.write_field(&text)
    }

    fn write_field(&mut self, text: &str) -> Result<(), EncodeError> {
        self.buffered_bytes += text.len();
        Ok(self.writer.write_field(text)?)
    }
}

impl Encoder for CsvFile {
    fn add_row(&mut self, cells: &[Cell<'_>]) -> Result<(), EncodeError> {
        for (index, cell) in cells.iter().enumerate() {
            self.write_cell(self.kinds[index], cell)?;
        }
        Ok(self.writer.write_record(None::<&[u8]>)?)
    }

    fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    fn take_chunk(&mut self) -> Result<Vec<u8>, EncodeError> {
        self.buffered_bytes = 0;
        let finished_writer = std::mem::replace(&mut self.writer, new_writer());
        Ok(finished_writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?)
    }

    fn end(&mut self) -> Result<Vec<u8>, EncodeError> {
        Ok(Vec::new())
    }
}

fn new_writer() -> Writer<Vec<u8>> {
    WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_one(kind: Kind, cell: Cell<'_>) -> String {
        let columns = [Column::new("a", Kind::Integer, false, ""), Column::new("b", kind, true, "")];
        let mut file = CsvFile::new(&columns).expect("names are written");
        file.add_row(&[Cell::Integer(1), cell]).expect("a row of two");
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
            assert_eq!(write_one(Kind::Text, Cell::Text(text)), format!("a,b\r\n1,{cell}\r\n"));
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
            assert_eq!(write_one(kind, cell), format!("a,b\r\n1,{expected}\r\n"));
        }
    }
}
