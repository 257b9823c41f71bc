//! The Arrow streaming format: a schema, record batches, and an end-of-stream marker. Some readers do not
//! notice that the marker is missing after a broken connection.

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    ArrayRef, RecordBatch,
    builder::{
        BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, ListBuilder, StringBuilder,
        TimestampMillisecondBuilder,
    },
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use chrono::{DateTime, NaiveDate};

use super::{
    column::{Cell, Column, Kind},
    file_format::{EncodeError, Encoder},
};

pub(super) struct ArrowFile {
    schema: SchemaRef,
    writer: StreamWriter<Vec<u8>>,
    columns: Vec<ColumnBuilder>,
    /// The number of rows in the builders.
    row_count: usize,
    buffered_bytes: usize,
}

/// The builder of a column's values.
enum ColumnBuilder {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Integer(Int64Builder),
    Number(Float64Builder),
    Boolean(BooleanBuilder),
    Time(TimestampMillisecondBuilder),
    Day(Date32Builder),
}

impl ArrowFile {
    pub(super) fn new(columns: &[Column]) -> Result<Self, EncodeError> {
        let schema = Arc::new(Schema::new(columns.iter().map(schema_field).collect::<Vec<_>>()));
        let writer = StreamWriter::try_new(Vec::new(), &schema)?;
        let columns = columns.iter().map(|column| ColumnBuilder::of(column.kind)).collect();
        Ok(Self { schema, writer, columns, row_count: 0, buffered_bytes: 0 })
    }
}

impl Encoder for ArrowFile {
    fn add_row(&mut self, cells: &[Cell<'_>]) -> Result<(), EncodeError> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.buffered_bytes += column.append(cell);
        }
        self.row_count += 1;
        Ok(())
    }

    fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    fn take_chunk(&mut self) -> Result<Vec<u8>, EncodeError> {
        if self.row_count > 0 {
            let arrays = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
            self.writer.write(&RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)?;
        }
        (self.row_count, self.buffered_bytes) = (0, 0);
        Ok(std::mem::take(self.writer.get_mut()))
    }

    fn end(&mut self) -> Result<Vec<u8>, EncodeError> {
        self.writer.finish()?;
        Ok(std::mem::take(self.writer.get_mut()))
    }
}

fn schema_field(column: &Column) -> Field {
    let data_type = match column.kind {
        Kind::Name | Kind::Text | Kind::Json => DataType::Utf8,
        Kind::Texts => DataType::List(Arc::new(list_item_field())),
        Kind::Integer => DataType::Int64,
        Kind::Number => DataType::Float64,
        Kind::Boolean => DataType::Boolean,
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())),
        Kind::Day => DataType::Date32,
    };
    let description = HashMap::from([("description".to_owned(), column.description.clone())]);
    Field::new(&column.name, data_type, column.nullable).with_metadata(description)
}

/// Returns the field of the items of a list of texts.
fn list_item_field() -> Field {
    Field::new("item", DataType::Utf8, false)
}

const UTC: &str = "UTC";

impl ColumnBuilder {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Name | Kind::Text | Kind::Json => Self::Text(StringBuilder::new()),
            Kind::Texts => Self::Texts(ListBuilder::new(StringBuilder::new()).with_field(list_item_field())),
            Kind::Integer => Self::Integer(Int64Builder::new()),
            Kind::Number => Self::Number(Float64Builder::new()),
            Kind::Boolean => Self::Boolean(BooleanBuilder::new()),
            Kind::Time => Self::Time(TimestampMillisecondBuilder::new().with_timezone(UTC)),
            Kind::Day => Self::Day(Date32Builder::new()),
        }
    }

    /// Appends a value and returns its approximate size in bytes. A value of another kind becomes null. If
    /// the column is not nullable, the null fails the record batch.
    fn append(&mut self, cell: &Cell<'_>) -> usize {
        match self {
            Self::Text(values) => {
                let text = match cell {
                    Cell::Text(text) => Some(*text),
                    Cell::Json(text) => Some(text.as_str()),
                    _ => None,
                };
                values.append_option(text);
                text.map_or(0, str::len)
            }
            Self::Texts(values) => {
                let Cell::Texts(texts) = cell else {
                    values.append_null();
                    return 0;
                };
                values.append_value(texts.iter().map(Some));
                texts.iter().map(|text| text.len()).sum()
            }
            Self::Integer(values) => {
                values.append_option(if let Cell::Integer(number) = cell { Some(*number) } else { None });
                8
            }
            Self::Number(values) => {
                values.append_option(if let Cell::Number(number) = cell { Some(*number) } else { None });
                8
            }
            Self::Boolean(values) => {
                values.append_option(if let Cell::Boolean(value) = cell { Some(*value) } else { None });
                1
            }
            Self::Time(values) => {
                values.append_option(if let Cell::Text(text) = cell {
                    parse_milliseconds(text)
                } else {
                    None
                });
                8
            }
            Self::Day(values) => {
                values.append_option(if let Cell::Text(text) = cell { parse_day(text) } else { None });
                4
            }
        }
    }

    /// Returns the collected values and resets the builder.
    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Text(values) => Arc::new(values.finish()),
            Self::Texts(values) => Arc::new(values.finish()),
            Self::Integer(values) => Arc::new(values.finish()),
            Self::Number(values) => Arc::new(values.finish()),
            Self::Boolean(values) => Arc::new(values.finish()),
            Self::Time(values) => Arc::new(values.finish()),
            Self::Day(values) => Arc::new(values.finish()),
        }
    }
}

/// Parses a time as the number of milliseconds since 1970-01-01 UTC.
fn parse_milliseconds(text: &str) -> Option<i64> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis())
}

/// Parses a date as the number of days since 1970-01-01.
fn parse_day(text: &str) -> Option<i32> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from((day - NaiveDate::default()).num_days()).ok()
}
