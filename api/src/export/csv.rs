//! CSV by RFC 4180: UTF-8, a line of names first, lines that end in CRLF.

use csv::{Terminator, Writer, WriterBuilder};

use super::{
    column::{Cell, Column, Kind},
    encode::{EncodeError, Encoder},
};

/// What a cell begins with that spreadsheets take for a formula, and what stands before those that would.
const FORMULAS: [char; 7] = ['=', '+', '-', '@', '\t', '\r', TEXT];

/// Makes a spreadsheet take a cell for text.
const TEXT: char = '\'';

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
            Cell::Text(text) if kind == Kind::Text && text.starts_with(FORMULAS) => format!("{TEXT}{text}"),
            Cell::Text(text) => return self.field(text),
            Cell::Json(text) => return self.field(text),
            Cell::Texts(texts) => serde_json::to_string(texts).expect("texts are JSON"),
            Cell::Integer(number) => number.to_string(),
            // Never rounded, and with an exponent where it would be long.
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

    fn held(&self) -> usize {
        self.held
    }

    fn piece(&mut self) -> Result<Vec<u8>, EncodeError> {
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
        String::from_utf8(file.piece().expect("it is in memory")).expect("it is text")
    }

    #[test]
    fn texts_are_no_formulas() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("'x", "''x"),
            ("a=b", "a=b"),
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
            (Kind::Json, Cell::Json("{}".to_owned()), "{}"),
            (Kind::Text, Cell::Null, ""),
        ] {
            assert_eq!(written(kind, cell), format!("a,b\r\n1,{expected}\r\n"));
        }
    }
}
