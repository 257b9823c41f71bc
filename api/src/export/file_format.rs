//! Encoding of rows as a file of one of the formats, chunk by chunk.

use std::sync::Arc;

use super::{arrow::ArrowFile, column::Cell, csv::CsvFile, export_registry::Export, page_reader::Page};

/// The number of rows per chunk. Arrow readers work best with batches of some thousand rows.
const ROWS: usize = 4_000;

/// The size at which a chunk is complete, in bytes, regardless of its number of rows.
const BYTES: usize = 1 << 20;

/// The file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Arrow's streaming format.
    Arrow,
    /// Comma-separated values (RFC 4180).
    Csv,
}

impl Format {
    pub(crate) const ALL: [Self; 2] = [Self::Arrow, Self::Csv];

    /// Returns the format's name in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Csv => "csv",
        }
    }

    /// Returns the file name extension.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Arrow => "arrows",
            Self::Csv => "csv",
        }
    }

    /// Returns the media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Csv => "text/csv",
        }
    }

    /// Returns the media type with parameters.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Arrow => self.media_type(),
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

/// The reason why rows cannot be encoded. It is always an internal error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    /// The rows do not fit their columns.
    #[error("rows cannot be written as Arrow")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The number of cells differs from the number of columns.
    #[error("rows cannot be written as CSV")]
    Csv(#[from] ::csv::Error),
}

/// An encoder of one format.
pub(super) trait Encoder: Send {
    /// Adds a row.
    fn add_row(&mut self, cells: &[Cell<'_>]) -> Result<(), EncodeError>;

    /// Returns the approximate size of the added rows, in bytes.
    fn buffered_bytes(&self) -> usize;

    /// Returns the encoded rows and resets the buffer. The first chunk begins with the header of the
    /// file.
    fn take_chunk(&mut self) -> Result<Vec<u8>, EncodeError>;

    /// Returns the end of the file.
    fn end(&mut self) -> Result<Vec<u8>, EncodeError>;
}

/// A file that is being written.
pub(crate) struct File {
    export: Arc<Export>,
    encoder: Box<dyn Encoder>,
    /// The number of rows in the incomplete chunk.
    rows: usize,
}

impl File {
    pub(crate) fn new(export: Arc<Export>, format: Format) -> Result<Self, EncodeError> {
        let encoder: Box<dyn Encoder> = match format {
            Format::Arrow => Box::new(ArrowFile::new(&export.columns)?),
            Format::Csv => Box::new(CsvFile::new(&export.columns)?),
        };
        Ok(Self { export, encoder, rows: 0 })
    }

    /// Adds the rows of a page. Returns a chunk of the file once it is complete.
    pub(crate) fn add(&mut self, page: &Page) -> Result<Option<Vec<u8>>, EncodeError> {
        let Self { export, encoder, rows } = self;
        page.for_each_row(export, |cells| {
            *rows += 1;
            encoder.add_row(cells)
        })?;
        if *rows < ROWS && encoder.buffered_bytes() < BYTES {
            return Ok(None);
        }
        *rows = 0;
        encoder.take_chunk().map(Some)
    }

    /// Returns the rest of the file.
    pub(crate) fn end(mut self) -> Result<Vec<u8>, EncodeError> {
        let mut last_chunk = self.encoder.take_chunk()?;
        last_chunk.extend(self.encoder.end()?);
        Ok(last_chunk)
    }
}
