//! The objects that `Query.node` finds.

use std::collections::{BTreeMap, BTreeSet};

use harness::Member;
use serde_json::{Value, json};

use super::NODES;

/// Global identifiers of one object of every kind that reports create, of a user and of the account.
pub(super) async fn node_ids(member: &Member) -> Vec<(&'static str, Value)> {
    let query = "{ viewer { user { id } account { id clusters { nodes { id
        computations { nodes { id } } taskGroups { nodes { id } } errors { nodes { id group { id } } }
        workers { nodes { id } } spans { nodes { id } } } } } } }";
    let answer = member.query(query, json!({})).await;
    let cluster = &answer["viewer"]["account"]["clusters"]["nodes"][0];
    let ids = vec![
        ("User", answer["viewer"]["user"]["id"].clone()),
        ("Account", answer["viewer"]["account"]["id"].clone()),
        ("Cluster", cluster["id"].clone()),
        ("Computation", cluster["computations"]["nodes"][0]["id"].clone()),
        ("TaskGroup", cluster["taskGroups"]["nodes"][0]["id"].clone()),
        ("ErrorOccurrence", cluster["errors"]["nodes"][0]["id"].clone()),
        ("ErrorGroup", cluster["errors"]["nodes"][0]["group"]["id"].clone()),
        ("Worker", cluster["workers"]["nodes"][0]["id"].clone()),
        ("Span", cluster["spans"]["nodes"][0]["id"].clone()),
    ];
    assert!(ids.iter().all(|(_, id)| id.is_string()), "{ids:?}");
    let nouns: BTreeSet<_> = ids.iter().map(|(noun, _)| *noun).collect();
    assert_eq!(nouns, NODES[..ids.len()].iter().copied().collect());
    ids
}

/// An identifier of the same form that names nothing: its last digit differs.
pub(super) fn of_nothing(id: &Value) -> Value {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    let mut text = URL_SAFE_NO_PAD.decode(id.as_str().unwrap()).unwrap();
    let last = text.last_mut().unwrap();
    *last = if *last == b'9' { b'8' } else { b'9' };
    URL_SAFE_NO_PAD.encode(text).into()
}

/// Adds the identifier of one object of each type in an answer.
fn collect_ids(answer: &Value, found: &mut BTreeMap<String, Value>) {
    match answer {
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, found)),
        Value::Object(fields) => {
            if let (Some(Value::String(noun)), Some(id)) = (fields.get("__typename"), fields.get("id"))
                && NODES.contains(&noun.as_str())
            {
                found.entry(noun.clone()).or_insert_with(|| id.clone());
            }
            fields.values().for_each(|value| collect_ids(value, found));
        }
        _ => {}
    }
}

/// Checks that a member finds one object of every type among `answers` again, and a stranger finds none.
pub(super) async fn found_by_their_own_account_alone(
    answers: impl Iterator<Item = &Value>,
    member: &Member,
    stranger: &Member,
) {
    let mut ids = BTreeMap::new();
    answers.for_each(|answer| collect_ids(answer, &mut ids));
    assert_eq!(ids.keys().map(String::as_str).collect::<BTreeSet<_>>(), NODES.into());
    let node = "query($id: ID!) { node(id: $id) { __typename id } }";
    for (noun, id) in ids {
        let found = member.query(node, json!({ "id": id })).await;
        assert_eq!(found["node"], json!({ "__typename": noun, "id": id }));
        let theirs = stranger.ask(node, json!({ "id": id })).await;
        assert_eq!(theirs["data"], json!({ "node": null }), "{noun}");
        let nobodys = stranger.ask(node, json!({ "id": of_nothing(&id) })).await;
        assert_eq!(theirs.to_string(), nobodys.to_string(), "{noun}");
    }
}
