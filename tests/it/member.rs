//! The members of an account, and the rights that they cannot grant themselves.

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, TestApp};
use reqwest::Method;
use serde_json::{Value, json};

const ADD: &str =
    "mutation($name: String!, $role: MemberRole!) { result: addMember(input: { name: $name, role: $role }) {
    member { user { id name } role since } userErrors { field code message } } }";

const SET_ROLE: &str =
    "mutation($user: ID!, $role: MemberRole!) { result: setMemberRole(user: $user, role: $role) {
    member { user { name } role } userErrors { field code } } }";

const REMOVE: &str = "mutation($user: ID!) { result: removeMember(user: $user) {
    member { role } account { members { nodes { user { name } role } } } userErrors { field code } } }";

const CREATE_TOKEN: &str = "mutation($user: ID, $scopes: [TokenScope!]!, $end: DateTime) {
    result: createToken(input: { user: $user, scopes: $scopes, expiresAt: $end }) {
    secret token { identifier } userErrors { field code } } }";

const REVOKE: &str = "mutation($identifier: String!) { result: revokeToken(identifier: $identifier) {
    token { identifier } userErrors { field code } } }";

const SCOPES: &str = "{ viewer { user { name } scopes } }";

async fn result(member: &Member, query: &str, variables: Value) -> Value {
    member.query(query, variables).await["result"].take()
}

/// The errors of a change, which must have no effect.
async fn refused(member: &Member, query: &str, variables: Value) -> Value {
    let answer = result(member, query, variables.clone()).await;
    for field in ["member", "token", "secret"] {
        assert!(answer.get(field).is_none_or(Value::is_null), "{query} {variables}: {answer}");
    }
    let errors = answer["userErrors"].as_array().unwrap();
    json!(errors.iter().map(|error| json!([error["field"], error["code"]])).collect::<Vec<_>>())
}

async fn user_id(member: &Member) -> Value {
    member.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take()
}

/// Creates a member with a token through the API, and returns the member and the user's identifier.
async fn join(by: &Member, name: &str, role: &str, scopes: Value) -> (Member, Value) {
    let added = result(by, ADD, json!({ "name": name, "role": role })).await;
    assert_eq!(added["userErrors"], json!([]), "{added}");
    let user = added["member"]["user"]["id"].clone();
    let made = result(by, CREATE_TOKEN, json!({ "user": user, "scopes": scopes })).await;
    (by.with_token(made["secret"].as_str().unwrap().to_owned()), user)
}

/// The roles by name.
async fn roles(member: &Member) -> Value {
    let query = "{ viewer { account { members(first: 100) { nodes { user { name } role } } } } }";
    let nodes = member.query(query, json!({})).await["viewer"]["account"]["members"]["nodes"].take();
    let roles = nodes.as_array().unwrap().iter();
    roles.map(|node| (node["user"]["name"].as_str().unwrap().to_owned(), node["role"].clone())).collect()
}

async fn status(member: &Member) -> u16 {
    let ask = member.request(Method::POST, "/graphql").json(&json!({ "query": SCOPES }));
    ask.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_member_comes_changes_and_goes() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.set_clock("2026-11-20T12:00:01Z");
    let added = result(&ada, ADD, json!({ "name": "bob", "role": "MEMBER" })).await;
    let user = added["member"]["user"]["id"].clone();
    let expected = json!({ "user": { "id": user, "name": "bob" }, "role": "MEMBER",
        "since": "2026-11-20T12:00:01+00:00" });
    assert_eq!((&added["member"], &added["userErrors"]), (&expected, &json!([])));
    let query = "{ viewer { account { members { totalCount nodes { user { name } role since } } } } }";
    let members = ada.query(query, json!({})).await["viewer"]["account"]["members"].take();
    let expected = json!({ "totalCount": 2, "nodes": [
        { "user": { "name": "ada" }, "role": "OWNER", "since": "2026-11-20T12:00:00+00:00" },
        { "user": { "name": "bob" }, "role": "MEMBER", "since": "2026-11-20T12:00:01+00:00" },
    ] });
    assert_eq!(members, expected);

    let made = result(&ada, CREATE_TOKEN, json!({ "user": user, "scopes": ["INGEST", "READ"] })).await;
    let bob = ada.with_token(made["secret"].as_str().unwrap().to_owned());
    let scopes = async |scopes: Value| {
        let expected = json!({ "viewer": { "user": { "name": "bob" }, "scopes": scopes } });
        assert_eq!(bob.query(SCOPES, json!({})).await, expected);
    };
    scopes(json!(["INGEST", "READ"])).await;
    let number = bob.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let owner = "query($id: ID!) { cluster(id: $id) { user { name } } }";
    let cluster = json!({ "id": number.to_string() });
    assert_eq!(ada.query(owner, cluster.clone()).await["cluster"]["user"], json!({ "name": "bob" }));

    // The same token loses scopes immediately, and never gains more than it was created with.
    for (role, ingests, covered) in [
        ("VIEWER", 403, json!(["READ"])),
        ("ADMIN", 200, json!(["INGEST", "READ"])),
        ("MEMBER", 200, json!(["INGEST", "READ"])),
    ] {
        let set = result(&ada, SET_ROLE, json!({ "user": user, "role": role })).await;
        let expected = json!({ "member": { "user": { "name": "bob" }, "role": role }, "userErrors": [] });
        assert_eq!(set, expected);
        scopes(covered).await;
        let (answer, _) = bob.report(&ReportBuilder::new("Scheduler-1", 2).build()).await;
        assert_eq!(answer, ingests, "{role}");
    }

    let removed = result(&ada, REMOVE, json!({ "user": user })).await;
    let expected = json!({ "member": null, "userErrors": [],
        "account": { "members": { "nodes": [{ "user": { "name": "ada" }, "role": "OWNER" }] } } });
    assert_eq!(removed, expected);
    assert_eq!(status(&bob).await, 401);
    assert_eq!(bob.report(&ReportBuilder::new("Scheduler-1", 3).build()).await.0, 401);
    let tokens = "{ viewer { account { tokens { nodes { user { name } } } } } }";
    let left = ada.query(tokens, json!({})).await["viewer"]["account"]["tokens"]["nodes"].take();
    assert_eq!(left, json!([{ "user": { "name": "ada" } }]));
    // The data of the member's cluster remains, without its user.
    assert_eq!(ada.query(owner, cluster).await, json!({ "cluster": { "user": null } }));
    let again = ada.ask(REMOVE, json!({ "user": user })).await;
    assert_eq!(again["errors"][0]["extensions"]["code"], "NOT_FOUND", "{again}");
    // A member who returns does not regain old tokens.
    result(&ada, ADD, json!({ "name": "bob", "role": "MEMBER" })).await;
    assert_eq!(status(&bob).await, 401);
    app.stop().await;
}

#[tokio::test]
async fn nobody_gives_more_than_they_have() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let ada_id = user_id(&ada).await;
    let everything = json!(["INGEST", "READ", "ADMIN"]);
    let (carl, carl_id) = join(&ada, "carl", "ADMIN", everything.clone()).await;
    let (dora, dora_id) = join(&ada, "dora", "MEMBER", json!(["INGEST", "READ"])).await;
    let (_, eve_id) = join(&ada, "eve", "VIEWER", json!(["READ"])).await;
    let identifier = |member: &Member| member.secret().split('-').next().unwrap().to_owned();
    let before = roles(&ada).await;

    // An admin manages everybody except owners, and appoints no owners.
    for (query, variables, wrong) in [
        (ADD, json!({ "name": "mine", "role": "OWNER" }), json!([["role", "ABOVE_OWN_ROLE"]])),
        (SET_ROLE, json!({ "user": carl_id, "role": "OWNER" }), json!([["role", "ABOVE_OWN_ROLE"]])),
        (SET_ROLE, json!({ "user": dora_id, "role": "OWNER" }), json!([["role", "ABOVE_OWN_ROLE"]])),
        (SET_ROLE, json!({ "user": ada_id, "role": "VIEWER" }), json!([["user", "MEMBER_ABOVE"]])),
        (REMOVE, json!({ "user": ada_id }), json!([["user", "MEMBER_ABOVE"]])),
        (CREATE_TOKEN, json!({ "user": ada_id, "scopes": ["READ"] }), json!([["user", "MEMBER_ABOVE"]])),
        (REVOKE, json!({ "identifier": identifier(&ada) }), json!([["identifier", "MEMBER_ABOVE"]])),
        // A member's token cannot have a scope that the role does not cover, whoever creates it.
        (
            CREATE_TOKEN,
            json!({ "user": dora_id, "scopes": ["ADMIN"] }),
            json!([["scopes", "SCOPE_NOT_COVERED"]]),
        ),
        (
            CREATE_TOKEN,
            json!({ "user": eve_id, "scopes": ["INGEST"] }),
            json!([["scopes", "SCOPE_NOT_COVERED"]]),
        ),
    ] {
        assert_eq!(refused(&carl, query, variables.clone()).await, wrong, "{query} {variables}");
    }
    let wrong = refused(&ada, CREATE_TOKEN, json!({ "user": dora_id, "scopes": ["ADMIN"] })).await;
    assert_eq!(wrong, json!([["scopes", "SCOPE_NOT_COVERED"]]), "an owner neither");
    assert_eq!(status(&ada).await, 200);

    // A token creates no token with more scopes or a later expiry.
    let narrow = ada.with_token(ada.token(&[Scope::Read, Scope::Admin], None).await);
    for scopes in [json!(["INGEST"]), everything.clone()] {
        let wrong = refused(&narrow, CREATE_TOKEN, json!({ "scopes": scopes })).await;
        assert_eq!(wrong, json!([["scopes", "SCOPE_NOT_HELD"]]));
    }
    let end = "2026-11-20T13:00:00Z".parse().unwrap();
    let short = ada.with_token(ada.token(&[Scope::Read, Scope::Admin], Some(end)).await);
    for end in [json!(null), json!("2026-11-20T13:00:00.001Z")] {
        let wrong = refused(&short, CREATE_TOKEN, json!({ "scopes": ["READ"], "end": end })).await;
        assert_eq!(wrong, json!([["expiresAt", "OUTLIVES_OWN"]]));
    }
    let same = json!({ "scopes": ["READ"], "end": "2026-11-20T13:00:00Z" });
    assert_eq!(result(&short, CREATE_TOKEN, same).await["userErrors"], json!([]));

    // Without the scope `admin`, changes of others are refused, and neither members nor tokens are listed.
    // A member cannot have that scope, and a read-only token of an admin is read-only.
    let reader = ada.with_token(ada.token(&[Scope::Ingest, Scope::Read], None).await);
    for (member, of_another_user) in [(&reader, "FORBIDDEN"), (&dora, "NOT_FOUND")] {
        for (query, variables) in [
            (ADD, json!({ "name": "mine", "role": "VIEWER" })),
            (SET_ROLE, json!({ "user": dora_id, "role": "ADMIN" })),
            (REMOVE, json!({ "user": eve_id })),
            (CREATE_TOKEN, json!({ "user": eve_id, "scopes": ["READ"] })),
            (CREATE_TOKEN, json!({ "user": carl_id, "scopes": ["ADMIN"] })),
        ] {
            let answer = member.ask(query, variables).await;
            assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{query}: {answer}");
            assert!(answer["data"].is_null(), "{query}: {answer}");
        }
        // The token of another user does not exist for a member.
        let answer = member.ask(REVOKE, json!({ "identifier": identifier(&carl) })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], of_another_user, "{answer}");
        let lists = "{ viewer { account { slug members { nodes { role } } tokens { nodes { label } } } } }";
        let answer = member.ask(lists, json!({})).await;
        let expected = json!({ "slug": "ada", "members": null, "tokens": null });
        assert_eq!(answer["data"]["viewer"]["account"], expected);
        for error in answer["errors"].as_array().unwrap() {
            assert_eq!(error["extensions"]["code"], "FORBIDDEN");
        }
    }
    assert_eq!(roles(&ada).await, before, "nothing was changed by all this");
    let wrong = refused(&dora, CREATE_TOKEN, json!({ "scopes": ["ADMIN"] })).await;
    assert_eq!(wrong, json!([["scopes", "SCOPE_NOT_HELD"], ["scopes", "SCOPE_NOT_COVERED"]]));

    // A former admin's token no longer has the scope.
    result(&ada, SET_ROLE, json!({ "user": carl_id, "role": "MEMBER" })).await;
    let answer = carl.ask(SET_ROLE, json!({ "user": carl_id, "role": "ADMIN" })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
    app.stop().await;
}

#[tokio::test]
async fn an_account_keeps_an_owner_whoever_is_faster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let ada_id = user_id(&ada).await;
    let last = json!([["user", "LAST_OWNER"]]);
    for role in ["ADMIN", "MEMBER", "VIEWER"] {
        assert_eq!(refused(&ada, SET_ROLE, json!({ "user": ada_id, "role": role })).await, last, "{role}");
    }
    assert_eq!(refused(&ada, REMOVE, json!({ "user": ada_id })).await, last);
    let everything = json!(["INGEST", "READ", "ADMIN"]);
    let (mut one, mut one_id) = (ada, ada_id);
    for round in 0..6 {
        let (two, two_id) = join(&one, &format!("owner-{round}"), "OWNER", everything.clone()).await;
        let take = async |by: &Member, from: &Value| {
            by.ask(SET_ROLE, json!({ "user": from, "role": "VIEWER" })).await
        };
        let (first, second) = tokio::join!(take(&one, &two_id), take(&two, &one_id));
        let done = |answer: &Value| answer["data"]["result"]["member"]["role"] == "VIEWER";
        assert!(done(&first) != done(&second), "{first} {second}");
        if done(&second) {
            (one, one_id) = (two, two_id);
        }
        let owners = roles(&one).await.as_object().unwrap().values().filter(|role| **role == "OWNER").count();
        assert_eq!(owners, 1);
        assert_eq!(refused(&one, REMOVE, json!({ "user": one_id })).await, last);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_name_is_one_user_and_tells_nothing_of_other_accounts() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    for name in ["", "Bob", "b b", "-b", "bob\u{0}", &"b".repeat(64)] {
        let answer = refused(&ada, ADD, json!({ "name": name, "role": "VIEWER" })).await;
        assert_eq!(answer, json!([["name", "NAME_INVALID"]]), "{name}");
    }
    // A user of another account and an unknown name are added alike.
    let known = result(&ada, ADD, json!({ "name": "bob", "role": "VIEWER" })).await;
    let unknown = result(&ada, ADD, json!({ "name": "bab", "role": "VIEWER" })).await;
    let bobs = known["member"]["user"]["id"].clone();
    let shape = |answer: &Value, name: &str| {
        let id = answer["member"]["user"]["id"].as_str().unwrap();
        let text = answer.to_string().replace(id, "ID").replace(&format!("\"{name}\""), "NAME");
        (text, uuid_version(id))
    };
    assert_eq!(shape(&known, "bob"), shape(&unknown, "bab"));
    assert_eq!(shape(&known, "bob").1, 4, "an identifier tells when it was made");
    let again = refused(&ada, ADD, json!({ "name": "bob", "role": "VIEWER" })).await;
    assert_eq!(again, json!([["name", "ALREADY_MEMBER"]]));
    // Changes here do not affect their own account.
    result(&ada, REMOVE, json!({ "user": bobs })).await;
    assert_eq!(roles(&bob).await, json!({ "bob": "OWNER" }));
    assert_eq!(status(&bob).await, 200);
    app.stop().await;
}

/// The version of the UUID at the end of a user's global identifier.
fn uuid_version(id: &str) -> usize {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).unwrap()).unwrap();
    let uuid: uuid::Uuid = text.rsplit(':').next().unwrap().parse().unwrap();
    uuid.get_version_num()
}
