//! Code that called Dask.

use entity::json_columns::CodeFrame as StoredCodeFrame;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Count, Digest, List, LocatedError, Text};

/// The stacks of several calls.
pub type CodeStacks = List<List<CodeFrame, 20>, 20>;

/// A frame of a stack.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CodeFrame {
    /// The SHA-256 of the snippet's text.
    pub hash: Digest,
    /// The file that contains it. Empty if it is not known.
    pub file: Text<2_048>,
    /// The line of the call in the file, starting from 1. 0 if it is not known.
    pub line: Count,
    /// The line of the call in the snippet, starting from 0.
    pub relative_line: Count,
}

impl From<&CodeFrame> for StoredCodeFrame {
    fn from(frame: &CodeFrame) -> Self {
        Self {
            hash: Some(frame.hash.as_str().to_owned()),
            // Reporters send "" and 0 for values that Dask does not report. No file and no line has these
            // values.
            file: Some(frame.file.as_str().to_owned()).filter(|file| !file.is_empty()),
            line: Some(frame.line.get()).filter(|line| *line > 0),
            relative_line: Some(frame.relative_line.get()),
        }
    }
}

/// The text of a function, notebook cell or module that called Dask.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CodeReport {
    /// The SHA-256 of the text in UTF-8.
    pub hash: Digest,
    /// The text.
    pub text: Text<200_000>,
}

impl CodeReport {
    /// Checks that the hash belongs to the text. Only the first text with a hash is stored, and all
    /// references to the hash show it.
    pub(super) fn check(&self) -> Result<(), LocatedError> {
        if Digest::of(self.text.as_str()) == self.hash {
            return Ok(());
        }
        Err(LocatedError { pointer: "/hash".to_owned(), message: "not the SHA-256 of the text".to_owned() })
    }
}
