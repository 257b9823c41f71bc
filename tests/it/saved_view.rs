//! Saved views: who sees and changes them, their limits, and their end.

use entity::membership::Role;
use harness::{Member, TestApp};
use serde_json::{Value, json};

const CREATE: &str = "mutation($input: SavedViewInput!) { createSavedView(input: $input) {
    savedView { id name page parameters isShared user { name } viewerCanChange } userErrors { field code } } }";
const UPDATE: &str = "mutation($id: ID!, $input: SavedViewInput!) { updateSavedView(id: $id, input: $input) {
    savedView { name isShared createdAt changedAt } userErrors { field code } } }";
const DELETE: &str = "mutation($id: ID!) { deleteSavedView(id: $id) { userErrors { field code } } }";

fn input(name: &str, is_shared: bool) -> Value {
    json!({ "name": name, "page": "clusters", "parameters": "state=RUNNING&user=ada", "isShared": is_shared })
}

/// Creates a view, and returns its identifier.
async fn created(member: &Member, name: &str, is_shared: bool) -> Value {
    let answer = member.query(CREATE, json!({ "input": input(name, is_shared) })).await;
    assert_eq!(answer["createSavedView"]["userErrors"], json!([]), "{name}");
    answer["createSavedView"]["savedView"]["id"].clone()
}

/// The names of the views that a member sees.
async fn names(member: &Member, arguments: &str) -> Vec<String> {
    let query = format!(
        "{{ viewer {{ account {{ savedViews({arguments} first: 100) {{ totalCount nodes {{ name }} }} }} }} }}"
    );
    let answer = member.query(&query, json!({})).await;
    let list = &answer["viewer"]["account"]["savedViews"];
    let names: Vec<_> = list["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(list["totalCount"], names.len());
    names
}

async fn refusal(member: &Member, query: &str, variables: Value) -> Value {
    let answer = member.ask(query, variables).await;
    let field = answer["data"].as_object().and_then(|data| data.values().next().cloned()).unwrap_or_default();
    let error = field["userErrors"][0].clone();
    if error.is_null() { answer["errors"][0]["extensions"]["code"].clone() } else { error }
}

#[tokio::test]
async fn private_views_are_seen_by_one_member_and_shared_ones_by_all() {
    let app = TestApp::start().await;
    app.set_clock("2026-11-20T12:00:00Z");
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let eve = app.member_with("eve", "ada", Role::Viewer).await;
    let answer = bob.query(CREATE, json!({ "input": input(" of bob ", false) })).await;
    let view = &answer["createSavedView"]["savedView"];
    let expected = json!({ "id": view["id"], "name": "of bob", "page": "clusters", "parameters": "state=RUNNING&user=ada",
        "isShared": false, "user": { "name": "bob" }, "viewerCanChange": true });
    assert_eq!(*view, expected);
    let shared = created(&bob, "shared by bob", true).await;
    created(&ada, "of ada", false).await;
    let mut other = input("of eve", false);
    other["page"] = json!("errors");
    eve.query(CREATE, json!({ "input": other })).await;
    for (member, arguments, expected) in [
        (&ada, "", vec!["shared by bob", "of ada"]),
        (&bob, "", vec!["of bob", "shared by bob"]),
        (&bob, "shared: true", vec!["shared by bob"]),
        (&bob, "shared: false", vec!["of bob"]),
        (&eve, "", vec!["shared by bob", "of eve"]),
        (&eve, "page: \"errors\"", vec!["of eve"]),
        (&eve, "page: \"errors\", shared: true", vec![]),
    ] {
        assert_eq!(names(member, arguments).await, expected, "{arguments}");
    }
    let node = "query($id: ID!) { node(id: $id) { ... on SavedView { name viewerCanChange } } }";
    let found =
        async |member: &Member, id: &Value| member.query(node, json!({ "id": id })).await["node"].clone();
    assert_eq!(found(&ada, &view["id"]).await, Value::Null, "nobody sees the private view of another");
    assert_eq!(found(&ada, &shared).await, json!({ "name": "shared by bob", "viewerCanChange": true }));
    assert_eq!(found(&eve, &shared).await, json!({ "name": "shared by bob", "viewerCanChange": false }));
    app.stop().await;
}

#[tokio::test]
async fn shared_views_are_changed_by_their_creator_and_admins_and_audited() {
    let app = TestApp::start().await;
    app.set_clock("2026-11-20T12:00:00Z");
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let eve = app.member_with("eve", "ada", Role::Member).await;
    let (private, shared) = (created(&bob, "private", false).await, created(&bob, "shared", true).await);
    let forbidden = json!({ "field": "id", "code": "FORBIDDEN" });
    for (member, query, id, is_shared, expected) in [
        (&eve, UPDATE, &private, false, json!("NOT_FOUND")),
        (&ada, UPDATE, &private, false, json!("NOT_FOUND")),
        (&ada, DELETE, &private, false, json!("NOT_FOUND")),
        (&eve, UPDATE, &shared, true, forbidden.clone()),
        (&eve, DELETE, &shared, true, forbidden),
        // A private view of bob would be hidden from the admin who made it private.
        (&ada, UPDATE, &shared, false, json!({ "field": "isShared", "code": "FORBIDDEN" })),
    ] {
        let variables = json!({ "id": id, "input": input("taken", is_shared) });
        assert_eq!(refusal(member, query, variables).await, expected);
    }
    app.set_clock("2026-11-20T12:30:00Z");
    let answer = ada.query(UPDATE, json!({ "id": shared, "input": input("renamed", true) })).await;
    let expected = json!({ "name": "renamed", "isShared": true, "createdAt": "2026-11-20T12:00:00+00:00",
        "changedAt": "2026-11-20T12:30:00+00:00" });
    assert_eq!(answer["updateSavedView"]["savedView"], expected);
    bob.query(UPDATE, json!({ "id": private, "input": input("still private", false) })).await;
    bob.query(UPDATE, json!({ "id": private, "input": input("now shared", true) })).await;
    assert_eq!(names(&eve, "").await, ["now shared", "renamed"]);
    bob.query(UPDATE, json!({ "id": shared, "input": input("withdrawn", false) })).await;
    assert_eq!(names(&eve, "").await, ["now shared"]);
    bob.query(DELETE, json!({ "id": shared })).await;
    bob.query(DELETE, json!({ "id": private })).await;
    assert_eq!(names(&bob, "").await, Vec::<String>::new());

    let log = "query($target: ID!) { viewer { account { auditLog(filter: { target: $target }) { nodes {
        action outcome userName target { kind id } detail } } } } }";
    let entries = async |id: &Value| {
        let answer = ada.query(log, json!({ "target": id })).await;
        let nodes = answer["viewer"]["account"]["auditLog"]["nodes"].as_array().unwrap().clone();
        assert!(
            nodes.iter().all(|node| node["target"] == json!({ "kind": "SAVED_VIEW", "id": id })),
            "{nodes:?}"
        );
        let entry = |node: &Value| json!([node["action"], node["outcome"], node["userName"]]);
        (nodes.iter().rev().map(entry).collect::<Vec<_>>(), nodes.last().unwrap()["detail"].clone())
    };
    let (of_shared, first) = entries(&shared).await;
    let expected = [
        json!(["CREATE_SAVED_VIEW", "DONE", "bob"]),
        json!(["UPDATE_SAVED_VIEW", "REFUSED", "eve"]),
        json!(["DELETE_SAVED_VIEW", "REFUSED", "eve"]),
        json!(["UPDATE_SAVED_VIEW", "DONE", "ada"]),
        json!(["UPDATE_SAVED_VIEW", "DONE", "bob"]),
    ];
    assert_eq!(of_shared, expected, "the last deletion was of a private view");
    assert_eq!(first, json!({ "name": "shared", "page": "clusters", "shared": true }));
    let (of_private, first) = entries(&private).await;
    // Readers of the log see nothing of the view from before it was shared.
    let after = json!({ "name": "now shared", "page": "clusters", "shared": true });
    assert_eq!(first, json!({ "before": { "shared": false }, "after": after }));
    assert_eq!(
        of_private,
        [json!(["UPDATE_SAVED_VIEW", "DONE", "bob"]), json!(["DELETE_SAVED_VIEW", "DONE", "bob"])]
    );
    app.stop().await;
}

#[tokio::test]
async fn texts_and_numbers_of_views_are_bounded() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("n".repeat(101))),
        ("page", json!("Clusters")),
        ("parameters", json!("x".repeat(2_049))),
        ("parameters", json!("\u{0}")),
    ] {
        let mut wrong = input("v", false);
        wrong[field] = value;
        let expected = json!({ "field": field, "code": "INVALID" });
        assert_eq!(refusal(&bob, CREATE, json!({ "input": wrong })).await, expected);
    }
    for is_shared in [false, true] {
        let mut last = Value::Null;
        for number in 0..100 {
            last = created(&bob, &format!("view {number}"), is_shared).await;
        }
        let too_many = json!({ "field": "name", "code": "TOO_MANY" });
        assert_eq!(refusal(&bob, CREATE, json!({ "input": input("one more", is_shared) })).await, too_many);
        if is_shared {
            // All members share one limit, and a private view has no room among the shared ones.
            assert_eq!(refusal(&ada, CREATE, json!({ "input": input("one more", true) })).await, too_many);
            let private = created(&ada, "of ada", false).await;
            let share = json!({ "id": private, "input": input("of ada", true) });
            assert_eq!(refusal(&ada, UPDATE, share).await, too_many);
        } else {
            created(&ada, "of ada", false).await;
        }
        // A full list can still be changed.
        bob.query(UPDATE, json!({ "id": last, "input": input("changed", is_shared) })).await;
        bob.query(DELETE, json!({ "id": last })).await;
        created(&bob, "another", is_shared).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn private_views_end_with_their_members_and_shared_ones_with_the_account() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    created(&bob, "private", false).await;
    created(&bob, "shared", true).await;
    let user = bob.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    assert_eq!(ada.query(remove, json!({ "user": user })).await["removeMember"]["userErrors"], json!([]));
    let query = "{ viewer { account { savedViews { nodes { name user { name } viewerCanChange } } } } }";
    let left = ada.query(query, json!({})).await["viewer"]["account"]["savedViews"]["nodes"].clone();
    assert_eq!(left, json!([{ "name": "shared", "user": null, "viewerCanChange": true }]));
    let bob = app.member_with("bob", "ada", Role::Member).await;
    assert_eq!(names(&bob, "").await, ["shared"], "the private view does not return");
    app.stop().await;
}

#[tokio::test]
async fn views_of_another_account_do_not_exist() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let view = created(&ada, "shared", true).await;
    for (query, variables) in [
        (UPDATE, json!({ "id": view, "input": input("taken", true) })),
        (DELETE, json!({ "id": view })),
        (DELETE, json!({ "id": "x" })),
    ] {
        assert_eq!(refusal(&bob, query, variables).await, "NOT_FOUND");
    }
    created(&bob, "of bob", true).await;
    assert_eq!(
        (names(&ada, "").await, names(&bob, "").await),
        (vec!["shared".to_owned()], vec!["of bob".to_owned()])
    );
    app.stop().await;
}
