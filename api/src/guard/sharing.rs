//! Which subscriptions are the same, so that what is read for one of them is written for all.

use std::collections::HashMap;

use apollo_compiler::executable::{Operation, Selection, Value};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use super::cache;

/// The argument that says from where a subscription is resumed.
const CURSOR: &str = "after";

/// Tells subscriptions apart that are not the same.
pub(crate) type Digest = [u8; 32];

/// The variables of a document, with how often each is named. What stands in comments and texts is counted, too: then a
/// subscription is shared with fewer.
pub(super) fn mentions(document: &str) -> HashMap<String, usize> {
    let mut mentions = HashMap::new();
    for rest in document.split('$').skip(1) {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        *mentions.entry(rest[..end].to_owned()).or_default() += 1;
    }
    mentions
}

/// The variable that says nothing but from where a subscription is resumed: it is declared and used there alone.
pub(super) fn cursor_variable(operation: &Operation, mentions: &HashMap<String, usize>) -> Option<String> {
    let [Selection::Field(field)] = &operation.selection_set.selections[..] else { return None };
    let argument = field.arguments.iter().find(|argument| argument.name == CURSOR)?;
    let Value::Variable(name) = &*argument.value else { return None };
    (mentions.get(name.as_str()) == Some(&2)).then(|| name.to_string())
}

/// What a document and its variables come to, but for the cursor.
pub(super) fn digest(
    document: &cache::Key,
    cursor: Option<&str>,
    mut variables: Map<String, Json>,
) -> Digest {
    if let Some(cursor) = cursor {
        variables.remove(cursor);
    }
    let mut hash = Sha256::new();
    hash.update(document);
    hash.update(Json::Object(variables).to_string());
    hash.finalize().into()
}
