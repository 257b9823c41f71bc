//! How rows are written: as a file of one of the formats, piece by piece.

use std::sync::Arc;

use super::{arrow::ArrowFile, catalog::Export, column::Cell, csv::CsvFile, read::Page};

/// Rows of a piece. Readers of Arrow do best with batches of some thousand.
const ROWS: usize = 4_000;

/// Bytes of a piece at which it is complete, however few rows it has.
const BYTES: usize = 1 << 20;

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Arrow's streaming format.
    Arrow,
    /// Comma-separated values, by RFC 4180.
    Csv,
}

impl Format {
    pub(crate) const ALL: [Self; 2] = [Self::Arrow, Self::Csv];

    /// What it is called in an address.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Csv => "csv",
        }
    }

    /// What files of it end in.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Arrow => "arrows",
            Self::Csv => "csv",
        }
    }

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Csv => "text/csv",
        }
    }

    /// Its media type with parameters.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Arrow => self.media_type(),
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

/// Why rows cannot be written, which is a defect of ours.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncodeError {
    /// They do not fit their columns.
    #[error("rows cannot be written as Arrow")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// They have another number of cells than there are columns.
    #[error("rows cannot be written as CSV")]
    Csv(#[from] ::csv::Error),
}

/// A file of one format.
pub(super) trait Encoder: Send {
    /// Adds a row.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), EncodeError>;

    /// About how many bytes the rows take that were added.
    fn held(&self) -> usize;

    /// What the rows that were added are in the file; before the first of them stands what the file begins with.
    fn piece(&mut self) -> Result<Vec<u8>, EncodeError>;

    /// What the file ends with.
    fn end(&mut self) -> Result<Vec<u8>, EncodeError>;
}

/// A file that is written.
pub(crate) struct File {
    export: Arc<Export>,
    encoder: Box<dyn Encoder>,
    /// Rows that wait for others to make a piece.
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

    /// Adds the rows of a page. Returns a piece of the file when it is complete.
    pub(crate) fn add(&mut self, page: &Page) -> Result<Option<Vec<u8>>, EncodeError> {
        let Self { export, encoder, rows } = self;
        page.each(export, |cells| {
            *rows += 1;
            encoder.row(cells)
        })?;
        if *rows < ROWS && encoder.held() < BYTES {
            return Ok(None);
        }
        *rows = 0;
        encoder.piece().map(Some)
    }

    /// The rest of the file.
    pub(crate) fn end(mut self) -> Result<Vec<u8>, EncodeError> {
        let mut rest = self.encoder.piece()?;
        rest.extend(self.encoder.end()?);
        Ok(rest)
    }
}
