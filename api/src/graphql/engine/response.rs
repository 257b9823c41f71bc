//! The final form of responses.

use async_graphql::Response;

use super::json;
use crate::{error::truncate_text, guard::MAX_ERRORS};

/// Prepares a response for sending: sets missing error codes, shortens messages and limits the number of
/// errors. Returns true if the request was refused before execution; the response then has no data,
/// rather than null data.
pub(crate) fn finalize_response(response: &mut Response) -> bool {
    let refused = !response.errors.is_empty() && response.errors.iter().all(|error| error.path.is_empty());
    response.errors.truncate(MAX_ERRORS);
    for error in &mut response.errors {
        error.message = truncate_text(std::mem::take(&mut error.message));
        let extensions = error.extensions.get_or_insert_default();
        if extensions.get("code").is_none() {
            extensions.set("code", if refused { "GRAPHQL_VALIDATION_FAILED" } else { "BAD_USER_INPUT" });
        }
    }
    refused
}

/// Serializes the response as the executor would. Values that are already JSON are copied.
pub(crate) fn serialize_response(response: &Response) -> Vec<u8> {
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
    // The value consists of texts and numbers, which serialize, and writing to a `Vec` does not fail.
    let _ = serde_json::to_writer(json, value);
}
