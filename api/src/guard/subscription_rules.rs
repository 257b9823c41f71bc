//! Two kinds of fields that matter to subscriptions, whose payloads are written once for many users. A
//! subscription must not select code and profiles, since the audit log records each user who reads them. A
//! payload with a field whose value depends on the user must not be shared.

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

/// The types whose objects are decrypted, whichever of their fields are selected.
const PROFILE_TYPES: [&str; 2] = ["Profile", "ProfileComparison"];

/// The type and the field that decrypt code.
const CODE_FIELD: (&str, &str) = ("CodeSnippet", "text");

/// The fields whose values depend on the user. The values of other fields depend on the role and the scopes
/// at most.
const PERSONAL_FIELDS: [&str; 2] = ["performanceReports", "savedViews"];

/// The prefix of further such fields.
const PERSONAL_PREFIX: &str = "viewerCan";

/// Returns true if an operation selects a field whose value depends on the user.
pub(super) fn is_personal(document: &ExecutableDocument, operation: &Operation) -> bool {
    operation.all_fields(document).any(|field| {
        PERSONAL_FIELDS.contains(&field.name.as_str()) || field.name.starts_with(PERSONAL_PREFIX)
    })
}

/// Returns an error if a subscription selects code or a profile at any depth.
pub(super) fn check(
    schema: &Schema,
    document: &ExecutableDocument,
    operation: &Operation,
    line_index: &LineIndex,
) -> Result<(), ServerError> {
    if !operation.is_subscription() {
        return Ok(());
    }
    let code_text = schema.type_field(CODE_FIELD.0, CODE_FIELD.1).ok();
    let is_audited = |field: &Field| {
        PROFILE_TYPES.contains(&field.definition.ty.inner_named_type().as_str())
            || code_text.is_some_and(|text| field.name == CODE_FIELD.1 && field.definition == text.node)
    };
    match operation.all_fields(document).find(|field| is_audited(field)) {
        Some(field) => Err(refusal::at(
            Code::Forbidden,
            AUDITED_READS_REFUSED,
            line_index.position_of(field.name.location()),
        )),
        None => Ok(()),
    }
}
