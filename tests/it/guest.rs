//! Guests: members until a given time, and afterwards like non-members.

use entity::{api_token::Scope, membership::Role};
use harness::{Member, SigningKey, TestApp, claims, shared_jwt_config};
use serde_json::{Value, json};

const END: &str = "2026-11-20T12:04:00Z";

const ADD: &str = "mutation($role: MemberRole!, $until: DateTime) {
    result: addMember(input: { name: \"help\", role: $role, until: $until }) {
    member { user { id } role until isOver } userErrors { field code } } }";

const SET: &str = "mutation($user: ID!, $role: MemberRole!, $until: DateTime) {
    result: setMemberRole(user: $user, role: $role, until: $until) {
    member { role until isOver } userErrors { field code } } }";

const MEMBERS: &str =
    "{ viewer { account { members { totalCount nodes { user { name } role until isOver } } } } }";

async fn result(member: &Member, query: &str, variables: Value) -> Value {
    member.query(query, variables).await["result"].take()
}

async fn guest_of(owner: &Member) -> Value {
    let members = owner.query(MEMBERS, json!({})).await["viewer"]["account"]["members"]["nodes"].take();
    members.as_array().unwrap().iter().find(|node| node["user"]["name"] == "help").unwrap().clone()
}

#[tokio::test]
async fn a_guest_reads_until_the_end_and_is_nobody_then() {
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    let ada = app.account("ada").await;
    let added = result(&ada, ADD, json!({ "role": "GUEST", "until": END })).await;
    let expected = json!({ "role": "GUEST", "until": "2026-11-20T12:04:00+00:00", "isOver": false });
    let user = added["member"]["user"]["id"].clone();
    assert_eq!((&added["member"]["role"], &added["userErrors"]), (&expected["role"], &json!([])), "{added}");
    app.link("help", "1").await;
    let create = "mutation($user: ID!) { result: createToken(input: { user: $user, scopes: [READ] }) {
        secret userErrors { field code } } }";
    let made = result(&ada, create, json!({ "user": user })).await;
    let token = ada.with_token(made["secret"].as_str().unwrap().to_owned());
    let jwt = app.bearer(SigningKey::Shared.sign(None, &claims("1")), None);
    let fine = (200, String::new());
    let nobody = [(401, "UNAUTHENTICATED".to_owned()), (403, "ACCOUNT_MISMATCH".to_owned())];

    app.set_clock("2026-11-20T12:03:59.999Z");
    for guest in [&token, &jwt] {
        assert_eq!(guest.status().await, fine);
        let response = guest.query("{ viewer { scopes memberships { slug role until } } }", json!({})).await;
        let membership = json!({ "slug": "ada", "role": "GUEST", "until": "2026-11-20T12:04:00+00:00" });
        assert_eq!(response["viewer"], json!({ "scopes": ["READ"], "memberships": [membership] }));
    }
    app.set_clock(END);
    assert_eq!([token.status().await, jwt.status().await], nobody);
    // Other members still see the expired guest, and may change the end.
    let over = json!({ "user": { "name": "help" }, "role": "GUEST", "until": "2026-11-20T12:04:00+00:00", "isOver": true });
    assert_eq!(guest_of(&ada).await, over);
    let refused = result(&ada, create, json!({ "user": user })).await;
    let expected = json!({ "secret": null, "userErrors": [{ "field": "user", "code": "MEMBERSHIP_OVER" }] });
    assert_eq!(refused, expected);
    let later = json!({ "user": user, "role": "GUEST", "until": "2026-11-20T12:04:30Z" });
    let set = result(&ada, SET, later).await;
    let expected = json!({ "role": "GUEST", "until": "2026-11-20T12:04:30+00:00", "isOver": false });
    assert_eq!(set, json!({ "member": expected, "userErrors": [] }));
    assert_eq!([token.status().await, jwt.status().await], [fine.clone(), fine.clone()]);
    app.set_clock("2026-11-20T12:04:30Z");
    assert_eq!([token.status().await, jwt.status().await], nobody);
    // A viewer has no end.
    let set = result(&ada, SET, json!({ "user": user, "role": "VIEWER" })).await;
    assert_eq!(set["member"], json!({ "role": "VIEWER", "until": null, "isOver": false }));
    assert_eq!([token.status().await, jwt.status().await], [fine.clone(), fine]);
    app.stop().await;
}

#[tokio::test]
async fn only_guests_have_an_end_and_all_of_them_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let until = |code: &str| json!([{ "field": "until", "code": code }]);
    for (role, end, wrong) in [
        ("GUEST", json!(null), until("END_MISSING")),
        ("GUEST", json!("2026-11-20T12:00:00Z"), until("END_PAST")),
        ("VIEWER", json!(END), until("END_NOT_ALLOWED")),
        ("OWNER", json!(END), until("END_NOT_ALLOWED")),
    ] {
        let variables = json!({ "role": role, "until": end });
        let refused = result(&ada, ADD, variables.clone()).await;
        assert_eq!(refused, json!({ "member": null, "userErrors": wrong }), "{variables}");
    }
    app.join("help", "ada", Role::Viewer, None).await;
    let id = "{ viewer { account { members { nodes { user { id name } } } } } }";
    let members = ada.query(id, json!({})).await["viewer"]["account"]["members"]["nodes"].take();
    let user =
        members.as_array().unwrap().iter().find(|node| node["user"]["name"] == "help").unwrap()["user"]["id"]
            .clone();
    for (role, end, code) in
        [("GUEST", json!(null), "END_MISSING"), ("MEMBER", json!(END), "END_NOT_ALLOWED")]
    {
        let refused = result(&ada, SET, json!({ "user": user, "role": role, "until": end })).await;
        assert_eq!(refused, json!({ "member": null, "userErrors": until(code) }));
    }
    let viewer = json!({ "user": { "name": "help" }, "role": "VIEWER", "until": null, "isOver": false });
    assert_eq!(guest_of(&ada).await, viewer);
    // A token of the account is not affected by another member's end.
    assert_eq!(ada.with_token(ada.token(&[Scope::Read], None).await).status().await.0, 200);
    app.stop().await;
}
