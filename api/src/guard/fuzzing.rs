//! Properties that hold for every document.

use std::sync::LazyLock;

use async_graphql::{Response, ServerError, Value as GraphQlValue};
use serde_json::{Map, Value};

use super::{Guard, MAX_ERRORS, PersistedDocuments};
use crate::{
    fuzzing::{lines, wait},
    graphql::finalize_response,
};

const MAX_COST: u64 = 500_000;

static GUARD: LazyLock<Guard> = LazyLock::new(|| Guard::new(MAX_COST, PersistedDocuments::default()));

/// Checks one input. Its first line is the operation's name, the second the variables, the remainder the
/// document.
pub(crate) fn document(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let [operation, variables, document] =
        lines(text.as_bytes()).map(|line| str::from_utf8(line).unwrap_or_default());
    let operation = Some(operation.to_owned()).filter(|name| !name.is_empty());
    let variables: Map<String, Value> = serde_json::from_str(variables).unwrap_or_default();
    let check = || wait(GUARD.check(document.to_owned(), operation.clone(), variables.clone()));
    match check() {
        Ok(request_check) => {
            assert!(request_check.price.points(0) <= MAX_COST);
            // The second check reads the document from the cache, and checks only the variables again.
            let repeated_check = check().unwrap_or_else(|errors| panic!("{errors:?}"));
            assert_eq!(repeated_check.price, request_check.price, "the same costs the same");
            assert_eq!(repeated_check.kind, request_check.kind, "the same is the same");
            let request = request_check.template.into_request();
            assert!(request.query.is_empty(), "the executor reads no text");
            let variable_count = request.variables.len();
            assert!(variable_count <= 10_000, "a document has no more variables than tokens");
        }
        Err(errors) => {
            assert!((1..=MAX_ERRORS).contains(&errors.len()), "{errors:?}");
            let mut response = Response::from_errors(errors);
            assert!(finalize_response(&mut response), "nothing has run");
            response.errors.iter().for_each(|error| check_reason(error, document));
        }
    }
}

fn check_reason(error: &ServerError, document: &str) {
    let code = error.extensions.as_ref().and_then(|extensions| extensions.get("code"));
    assert!(matches!(code, Some(GraphQlValue::String(code)) if !code.is_empty()), "{error:?}");
    assert!(!error.message.is_empty() && error.message.chars().count() <= 301, "{error:?}");
    assert!(error.path.is_empty(), "nothing has run: {error:?}");
    let lines = document.matches(['\n', '\r']).count() + 1;
    assert!(error.locations.iter().all(|location| location.line <= lines), "{error:?} in {lines} lines");
}
