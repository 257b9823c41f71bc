//! The representation of errors in the log and to clients.

use std::{any::Any, error::Error, fmt};

/// The error code of an internal error in GraphQL responses, subscription events and REST responses.
pub(crate) const INTERNAL: &str = "INTERNAL_SERVER_ERROR";

/// The message of an internal error for clients. Details are only in the log, under a reference that
/// clients receive as well.
pub(crate) const INTERNAL_MESSAGE: &str = "internal error";

/// Displays an error and all its causes on one line. Causes that repeat the text before them are left
/// out.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last_message = message_without_source_line(self.0);
        f.write_str(&last_message)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = message_without_source_line(error);
            if !last_message.ends_with(&text) {
                write!(f, ": {text}")?;
                last_message = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

/// Returns the message of an error without the line in the source code of PostgreSQL, which PostgreSQL
/// appends.
fn message_without_source_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    if let Some((message, line)) = text.rsplit_once(" at line ")
        && line.bytes().all(|byte| byte.is_ascii_digit())
    {
        text.truncate(message.len());
    }
    text
}

/// Returns the message of a panic. It may hold user data, so it goes only to the log.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

/// The maximum length of a message or a JSON pointer in a response, in characters.
const MAX_TEXT: usize = 300;

/// Truncates a text to `MAX_TEXT`. Parsers repeat the input they reject, which may be the whole request.
pub(crate) fn truncate_text(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn what_an_error_repeats_of_its_cause_is_said_once() {
        let chain = |texts: &[&'static str]| {
            let nothing: Option<Box<Layer>> = None;
            let error = texts.iter().rev().fold(nothing, |cause, text| Some(Box::new(Layer(text, cause))));
            Chain(&*error.expect("there is a text")).to_string()
        };
        for (texts, expected) in [
            (&["cannot open the store", "no such file"][..], "cannot open the store: no such file"),
            (&["refused: no role x at line 768", "no role x at line 768"], "refused: no role x"),
            (&["a", "a: b", "b", "c"], "a: a: b: c"),
            (&["not JSON at line 1 column 2"], "not JSON at line 1 column 2"),
        ] {
            assert_eq!(chain(texts), expected);
        }
    }
}
