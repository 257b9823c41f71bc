//! User-defined tags of clusters, and the search by them.

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, TestApp};
use sea_orm::{ConnectionTrait, EntityTrait};
use serde_json::{Value, json};

const SET_TAGS: &str =
    "mutation($cluster: ID!, $tags: [TagInput!]!) { result: setClusterTags(cluster: $cluster, tags: $tags) {
    cluster { tags { key value } } userErrors { field code message } } }";

const SET_NOTES: &str =
    "mutation($cluster: ID!, $text: String!) { result: setClusterNotes(cluster: $cluster, text: $text) {
    cluster { notes { text changedAt changedBy { name } } } userErrors { field code message } } }";

/// A cluster's global identifier.
async fn cluster(member: &Member, scheduler: &str) -> Value {
    let number = member.reported(&ReportBuilder::new(scheduler, 1).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    member.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].take()
}

async fn result(member: &Member, query: &str, variables: Value) -> Value {
    member.query(query, variables).await["result"].take()
}

fn tag(key: &str, value: Option<&str>) -> Value {
    json!({ "key": key, "value": value })
}

#[tokio::test]
async fn a_cluster_has_the_tags_that_were_set_last() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = cluster(&ada, "Scheduler-1").await;
    let set = async |tags: Value| result(&ada, SET_TAGS, json!({ "cluster": id, "tags": tags })).await;
    let given = json!([
        tag(" team ", Some("risk ")),
        tag("nightly", None),
        tag("Team", Some("")),
        tag("ä", Some("ö"))
    ]);
    let expected =
        json!([tag("Team", None), tag("nightly", None), tag("team", Some("risk")), tag("ä", Some("ö"))]);
    let done = json!({ "cluster": { "tags": expected }, "userErrors": [] });
    assert_eq!(set(given.clone()).await, done);
    assert_eq!(set(given).await, done, "once more is the same");

    // Invalid tags change nothing.
    let (long_key, long_value) = ("k".repeat(101), "v".repeat(201));
    let many: Vec<Value> = (0..51).map(|number| tag(&format!("key-{number}"), None)).collect();
    let key = "a key must have 1 to 100 characters, none of them a control character";
    let value = "a value must have at most 200 characters, none of them a control character";
    for (tags, messages) in [
        (
            json!([tag("", None), tag(&long_key, None), tag("a", Some(&long_value))]),
            vec![("INVALID", key), ("INVALID", value)],
        ),
        (json!([tag("a\u{0}", None)]), vec![("INVALID", key)]),
        (
            json!([tag("a", Some("1")), tag("a ", Some("2"))]),
            vec![("DUPLICATE", "each key can be given once")],
        ),
        (json!(many), vec![("TOO_MANY", "must be at most 50")]),
    ] {
        let messages = messages.into_iter();
        let messages: Vec<Value> = messages
            .map(|(code, message)| json!({ "field": "tags", "code": code, "message": message }))
            .collect();
        assert_eq!(set(tags).await, json!({ "cluster": { "tags": expected }, "userErrors": messages }));
    }
    // A report does not change user-defined tags.
    ada.reported(&ReportBuilder::new("Scheduler-1", 2).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { tags { key value } } }";
    assert_eq!(ada.query(query, json!({ "id": id })).await["cluster"]["tags"], expected);
    assert_eq!(set(json!([])).await, json!({ "cluster": { "tags": [] }, "userErrors": [] }));

    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    for (query, variables) in
        [(SET_TAGS, json!({ "cluster": id, "tags": [] })), (SET_NOTES, json!({ "cluster": id, "text": "" }))]
    {
        let answer = reader.ask(query, variables).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN");
    }
    app.stop().await;
}

#[tokio::test]
async fn clusters_are_found_by_their_tags() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (name, tags) in [
        ("a", json!([tag("team", Some("risk")), tag("nightly", None)])),
        ("b", json!([tag("team", Some("risk"))])),
        ("c", json!([tag("team", Some("ops")), tag("nightly", Some("no"))])),
        ("d", json!([tag("Team", Some("risk"))])),
        ("e", json!([])),
    ] {
        let id = cluster(&ada, name).await;
        result(&ada, SET_TAGS, json!({ "cluster": id, "tags": tags })).await;
    }
    let query = "query($tags: ClusterTagFilter) { viewer { account { clusters(filter: { tags: $tags }) {
        totalCount aggregates { clusters } nodes { schedulerId } } } } }";
    let (risk, ops, team) = (tag("team", Some("risk")), tag("team", Some("ops")), json!({ "key": "team" }));
    let (nightly, bare) = (json!({ "key": "nightly" }), tag("nightly", Some("")));
    for (tags, expected) in [
        (json!({}), "a b c d e"),
        (json!({ "any": [risk] }), "a b"),
        (json!({ "any": [team] }), "a b c"),
        (json!({ "any": [risk, ops] }), "a b c"),
        (json!({ "any": [risk, { "key": "Team" }] }), "a b d"),
        (json!({ "any": [] }), ""),
        (json!({ "all": [risk, nightly] }), "a"),
        (json!({ "all": [team, nightly] }), "a c"),
        (json!({ "all": [bare] }), "a"),
        (json!({ "all": [risk, ops] }), ""),
        (json!({ "all": [] }), "a b c d e"),
        (json!({ "none": [team] }), "d e"),
        (json!({ "none": [ops, bare] }), "b d e"),
        (json!({ "none": [] }), "a b c d e"),
        (json!({ "any": [team], "all": [nightly], "none": [ops] }), "a"),
    ] {
        let found = ada.query(query, json!({ "tags": tags })).await["viewer"]["account"]["clusters"].take();
        let nodes = found["nodes"].as_array().unwrap().iter();
        let mut names: Vec<&str> = nodes.map(|node| node["schedulerId"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), expected, "{tags}");
        assert_eq!(found["totalCount"], names.len());
        assert_eq!(found["aggregates"]["clusters"], names.len());
    }
    for (tags, message) in [
        (json!({ "any": vec![team; 21] }), "argument 'any': must be at most 20"),
        (
            json!({ "none": [tag("", None)] }),
            "argument 'none': a key must have 1 to 100 characters, none of them a control character",
        ),
    ] {
        let answer = ada.ask(query, json!({ "tags": tags })).await;
        assert_eq!(answer["errors"][0]["message"], message);
    }
    app.stop().await;
}

#[tokio::test]
async fn notes_are_told_with_who_wrote_them_and_lie_encrypted() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    let id = cluster(&ada, "Scheduler-1").await;
    let set = async |member: &Member, text: &str| {
        result(member, SET_NOTES, json!({ "cluster": id, "text": text })).await
    };
    let query = "query($id: ID!) { cluster(id: $id) { notes { text changedAt changedBy { name } } } }";
    let notes = async || ada.query(query, json!({ "id": id })).await["cluster"]["notes"].take();
    assert_eq!(notes().await, Value::Null);
    app.set_clock("2026-11-20T12:00:01Z");
    set(&ada, "first").await;
    app.set_clock("2026-11-20T12:00:02Z");
    let expected = json!({ "text": "second:\n\u{1f4dd} \u{0} end", "changedAt": "2026-11-20T12:00:02+00:00",
        "changedBy": { "name": "bob" } });
    let done = set(&bob, " second:\n\u{1f4dd} \u{0} end\n").await;
    assert_eq!(done, json!({ "cluster": { "notes": expected }, "userErrors": [] }));
    assert_eq!(notes().await, expected);

    let longest = "ä".repeat(10_000);
    let refused = set(&ada, &format!("{longest}ä")).await;
    let errors =
        json!([{ "field": "text", "code": "INVALID", "message": "must have at most 10,000 characters" }]);
    assert_eq!(refused, json!({ "cluster": { "notes": expected }, "userErrors": errors }));
    assert_eq!(set(&ada, &longest).await["cluster"]["notes"]["text"], longest);

    set(&ada, "a plain secret").await;
    let connection = app.database.connection().await;
    let row = entity::cluster_note::Entity::find().one(&connection).await.unwrap().unwrap();
    assert_ne!(row.key_id, 0);
    assert!(!row.sealed.windows(5).any(|bytes| bytes == b"plain"), "the text lies in the open");
    connection.execute_unprepared("UPDATE cluster_notes SET key_id = 12345").await.unwrap();
    let answer = ada.ask(query, json!({ "id": id })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "KEY_MISSING", "{answer}");
    let expected =
        json!({ "text": null, "changedAt": "2026-11-20T12:00:02+00:00", "changedBy": { "name": "ada" } });
    assert_eq!(answer["data"]["cluster"]["notes"], expected);
    assert_eq!(set(&ada, " \n").await, json!({ "cluster": { "notes": null }, "userErrors": [] }));
    assert_eq!(notes().await, Value::Null);
    app.stop().await;
}
