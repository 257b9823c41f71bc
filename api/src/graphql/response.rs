//! Answers as they go out.

use async_graphql::Response;

use super::json;
use crate::{error::cut, guard::MAX_ERRORS};

/// Makes an answer fit to go out: every error has a code, none is long, and there are not many. Returns whether the request
/// was stopped before anything ran; then there is no data, not null data.
pub(crate) fn finish(response: &mut Response) -> bool {
    let refused = !response.errors.is_empty() && response.errors.iter().all(|error| error.path.is_empty());
    response.errors.truncate(MAX_ERRORS);
    for error in &mut response.errors {
        error.message = cut(std::mem::take(&mut error.message));
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", if refused { "GRAPHQL_VALIDATION_FAILED" } else { "BAD_USER_INPUT" });
        }
    }
    refused
}

/// The answer as the executor would write it, with what stands in it as JSON already.
pub(crate) fn written(response: &Response) -> Vec<u8> {
    let mut text = b"{\"data\":".to_vec();
    json::write(&response.data, &mut text);
    if !response.extensions.is_empty() {
        text.extend_from_slice(b",\"extensions\":");
        append(&response.extensions, &mut text);
    }
    if !response.errors.is_empty() {
        text.extend_from_slice(b",\"errors\":");
        append(&response.errors, &mut text);
    }
    text.push(b'}');
    text
}

fn append(value: &impl serde::Serialize, json: &mut Vec<u8>) {
    // It consists of texts and numbers, and memory does not refuse.
    let _ = serde_json::to_writer(json, value);
}
