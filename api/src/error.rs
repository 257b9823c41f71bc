//! Errors in the log, and as clients see them.

use std::{error::Error, fmt};

/// An error with all its causes on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Characters of a message or a pointer that are shown.
const MAX_TEXT: usize = 300;

/// Parsers repeat what they do not like, and that may be all that was sent.
pub(crate) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}
