//! Fields that a subscription must not select: each access to code and profiles is audited with its
//! user, but a subscription's payload is written once for many users. And fields whose value depends on
//! the user, so that the payload must not be shared.

use apollo_compiler::{
    ExecutableDocument, Schema,
    executable::{Field, Operation},
};
use async_graphql::ServerError;

use super::{
    line_index::LineIndex,
    refusal::{self, Code},
};
use crate::graphql::AUDITED_READS_REFUSED;

/// The types that are decrypted whatever is selected of them, and the field that decrypts code.
const PROFILES: [&str; 2] = ["Profile", "ProfileComparison"];
const CODE: (&str, &str) = ("CodeSnippet", "text");

/// The fields whose values depend on the user, as do those with the prefix. Other fields depend on the role
/// and the scopes at most.
const PERSONAL: [&str; 2] = ["performanceReports", "savedViews"];
const PERSONAL_PREFIX: &str = "viewerCan";

/// Returns true if an operation selects a field whose value depends on the user.
pub(super) fn is_personal(document: &ExecutableDocument, operation: &Operation) -> bool {
    operation
        .all_fields(document)
        .any(|field| PERSONAL.contains(&field.name.as_str()) || field.name.starts_with(PERSONAL_PREFIX))
}

/// Returns an error if a subscription selects such a field at any depth.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
    places: &LineIndex,
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
        Some(field) => Err(refusal::at(
            Code::Forbidden,
            AUDITED_READS_REFUSED,
            places.position_of(field.name.location()),
        )),
        None => Ok(()),
    }
}
