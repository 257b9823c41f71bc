//! The identity of subscriptions: equal ones are read and written once.

use std::collections::HashMap;

use apollo_compiler::executable::{Operation, Selection, Value};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use super::cache;

/// The argument that holds a subscription's cursor.
const CURSOR: &str = "after";

/// The identity of a subscription's document and variables.
pub(crate) type Digest = [u8; 32];

/// Counts the occurrences of each variable in a document. Those in comments and strings count too, which
/// only reduces sharing.
pub(super) fn mentions(document: &str) -> HashMap<String, usize> {
    let mut mentions = HashMap::new();
    for rest in document.split('$').skip(1) {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        *mentions.entry(rest[..end].to_owned()).or_default() += 1;
    }
    mentions
}

/// Returns the variable that holds only the subscription's cursor. It occurs twice: declared, and used
/// there.
pub(super) fn cursor_variable(operation: &Operation, mentions: &HashMap<String, usize>) -> Option<String> {
    let [Selection::Field(field)] = &operation.selection_set.selections[..] else { return None };
    let argument = field.arguments.iter().find(|argument| argument.name == CURSOR)?;
    let Value::Variable(name) = &*argument.value else { return None };
    (mentions.get(name.as_str()) == Some(&2)).then(|| name.to_string())
}

/// Returns the digest of a document and its variables without the cursor.
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
