//! What cannot be watched: each look at code and profiles is written down, with who looked, and a subscription's payload is
//! written once for many.

use apollo_compiler::{
    ExecutableDocument, Schema,
    executable::{Field, Operation},
};
use async_graphql::ServerError;

use super::{
    place::Places,
    refusal::{self, Code},
};
use crate::graphql::NOT_WATCHED;

/// Types that are decrypted whatever is selected of them, and the one whose text is.
const PROFILES: [&str; 2] = ["Profile", "ProfileComparison"];
const CODE: (&str, &str) = ("CodeSnippet", "text");

/// Refuses a subscription that selects what cannot be watched, wherever that is.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
    places: &Places,
) -> Result<(), ServerError> {
    if !operation.is_subscription() {
        return Ok(());
    }
    let text = schema.type_field(CODE.0, CODE.1).ok();
    let is_audited = |field: &Field| {
        PROFILES.contains(&field.definition.ty.inner_named_type().as_str())
            || text.is_some_and(|text| field.name == CODE.1 && field.definition == text.node)
    };
    match operation.all_fields(document).find(|field| is_audited(field)) {
        Some(field) => Err(refusal::at(Code::Forbidden, NOT_WATCHED, places.of(field.name.location()))),
        None => Ok(()),
    }
}
