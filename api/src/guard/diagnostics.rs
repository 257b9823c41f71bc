//! What the library finds wrong in a document, as it is told to clients.

use apollo_compiler::{diagnostic::ToCliReport, validation::DiagnosticList};
use async_graphql::ServerError;

use super::{
    place::Places,
    refusal::{self, Code},
};

/// How many errors of a document are told.
pub(crate) const MAX_ERRORS: usize = 5;

/// What the library says besides when something else is wrong: it goes on without what it did not understand, and misses
/// it then. Where there is anything else to tell, these would mislead.
const CONSEQUENCES: [&str; 5] = [
    "must have a subselection set",
    "cannot find fragment",
    "is not provided",
    "cannot be applied to",
    "cannot be used for argument",
];

/// The text is no GraphQL. After the first error the parser guesses.
pub(super) fn of_text(errors: &DiagnosticList, places: &Places) -> Vec<ServerError> {
    told(Code::Parse, errors, places).take(1).collect()
}

/// The document is not of this schema.
pub(super) fn of_document(errors: &DiagnosticList, places: &Places) -> Vec<ServerError> {
    let is_consequence =
        |error: &ServerError| CONSEQUENCES.iter().any(|consequence| error.message.contains(consequence));
    // Very many are one mistake, or no mistake.
    let (mut others, mut causes): (Vec<_>, Vec<_>) =
        told(Code::Validation, errors, places).take(20 * MAX_ERRORS).partition(is_consequence);
    if causes.is_empty() {
        causes.append(&mut others);
    }
    causes.truncate(MAX_ERRORS);
    causes
}

fn told(code: Code, errors: &DiagnosticList, places: &Places) -> impl Iterator<Item = ServerError> {
    // The library's own lines also end where GraphQL's do not, such as at form feeds.
    errors.iter().map(move |diagnostic| {
        refusal::at(code, diagnostic.error.to_string(), places.of(diagnostic.error.location()))
    })
}
