//! Converts the library's diagnostics to errors for clients.

use apollo_compiler::{diagnostic::ToCliReport, validation::DiagnosticList};
use async_graphql::ServerError;

use super::{
    line_index::LineIndex,
    refusal::{self, Code},
};

/// The maximum number of errors that are reported for a document.
pub(crate) const MAX_ERRORS: usize = 5;

/// Messages about the consequences of another error: the library continues without the part that it did
/// not understand, and then reports that part as missing. Beside other errors, they would mislead.
const CONSEQUENCES: [&str; 5] = [
    "must have a subselection set",
    "cannot find fragment",
    "is not provided",
    "cannot be applied to",
    "cannot be used for argument",
];

/// Returns the error of a text that is not GraphQL. Only the first one counts: after it the parser
/// guesses.
pub(super) fn parse_errors(errors: &DiagnosticList, line_index: &LineIndex) -> Vec<ServerError> {
    to_errors(Code::Parse, errors, line_index).take(1).collect()
}

/// Returns the errors of a document that does not match the schema.
pub(super) fn validation_errors(errors: &DiagnosticList, line_index: &LineIndex) -> Vec<ServerError> {
    let is_consequence =
        |error: &ServerError| CONSEQUENCES.iter().any(|consequence| error.message.contains(consequence));
    // Only the first errors are examined: a very large number comes from one mistake, or was provoked.
    let (mut consequences, mut causes): (Vec<_>, Vec<_>) =
        to_errors(Code::Validation, errors, line_index).take(20 * MAX_ERRORS).partition(is_consequence);
    if causes.is_empty() {
        causes.append(&mut consequences);
    }
    causes.truncate(MAX_ERRORS);
    causes
}

fn to_errors(
    code: Code,
    errors: &DiagnosticList,
    line_index: &LineIndex,
) -> impl Iterator<Item = ServerError> {
    // The library's own lines also end where GraphQL's do not, such as at form feeds.
    errors.iter().map(move |diagnostic| {
        refusal::at(code, diagnostic.error.to_string(), line_index.position_of(diagnostic.error.location()))
    })
}
