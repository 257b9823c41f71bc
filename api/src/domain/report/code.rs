//! Code that called Dask.

use entity::list::CodeFrame as Frame;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Count, Digest, List, Misplaced, Text};

/// The frames of some calls.
pub type CodeStacks = List<List<CodeFrame, 20>, 20>;

/// One frame of a stack.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CodeFrame {
    /// SHA-256 of the snippet's text.
    pub hash: Digest,
    /// The file it stands in; empty when it is not known.
    pub file: Text<2_048>,
    /// The line of the call in the file, counted from 1; 0 when it is not known.
    pub line: Count,
    /// The same within the snippet, counted from 0.
    pub relative_line: Count,
}

impl From<&CodeFrame> for Frame {
    fn from(frame: &CodeFrame) -> Self {
        Self {
            hash: Some(frame.hash.as_str().to_owned()),
            // What Dask does not tell is sent as "" and 0, which no file and no line is.
            file: Some(frame.file.as_str().to_owned()).filter(|file| !file.is_empty()),
            line: Some(frame.line.get()).filter(|line| *line > 0),
            relative_line: Some(frame.relative_line.get()),
        }
    }
}

/// The text of a function, notebook cell or module that called Dask.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CodeReport {
    /// SHA-256 of the text in UTF-8.
    pub hash: Digest,
    /// The text.
    pub text: Text<200_000>,
}

impl CodeReport {
    /// Checks that the hash is the text's own: the first text of a hash is kept for all who name it.
    pub(super) fn check(&self) -> Result<(), Misplaced> {
        if Digest::of(self.text.as_str()) == self.hash {
            return Ok(());
        }
        Err(Misplaced { pointer: "/hash".to_owned(), message: "not the SHA-256 of the text".to_owned() })
    }
}
