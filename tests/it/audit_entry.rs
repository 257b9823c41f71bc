//! The audit log: every change has an entry with the user, action, time and origin, and no operation
//! changes or removes an entry.

use std::collections::BTreeSet;

use entity::{api_token::Scope, audit_entry, membership::Role};
use galvo::{
    config::{NetworkConfig, Provision},
    domain::{
        access::{Grant, NewInvitation},
        client_ip::{ForwardedHeader, TrustedProxies},
    },
};
use harness::{
    Browser, Member, ReportBuilder, SigningKey, TestApp, claims, code, code_frame, error, profile,
    shared_jwt_config, span, task_group,
};
use reqwest::Method;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use crate::sdl::Sdl;

const LOG: &str = "query($filter: AuditFilter, $first: Int, $after: String) { viewer { account {
    auditLog(filter: $filter, first: $first, after: $after) { totalCount pageInfo { endCursor hasNextPage } nodes {
        at action outcome user { name } userName credential tokenIdentifier address requestId
        target { kind id } detail } } } } }";

async fn log(member: &Member, filter: Value) -> Vec<Value> {
    let answer = member.query(LOG, json!({ "filter": filter, "first": 100 })).await;
    let log = &answer["viewer"]["account"]["auditLog"];
    let nodes = log["nodes"].as_array().unwrap().clone();
    assert_eq!(log["totalCount"], nodes.len(), "{log}");
    nodes
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect()
}

/// Each mutation with its arguments, the kind and identifier of its target, and the other data of its
/// entry. Words in angle brackets are replaced by objects of the account.
const MUTATIONS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "setDesiredState",
        r#"(cluster: <CLUSTER>, state: STOPPED, reason: "too dear") { cluster { id } }"#,
        "CLUSTER",
        "<CLUSTER>",
        r#"{"reason":"too dear","state":"stopped"}"#,
    ),
    (
        "keepAlive",
        "(cluster: <CLUSTER>, seconds: 60) { userErrors { message } }",
        "CLUSTER",
        "<CLUSTER>",
        r#"{"until":"2026-11-20T12:01:00+00:00"}"#,
    ),
    (
        "setClusterTags",
        r#"(cluster: <CLUSTER>, tags: [{ key: "nightly" }, { key: "team", value: "a" }]) { userErrors { message } }"#,
        "CLUSTER",
        "<CLUSTER>",
        r#"{"tags":["nightly","team=a"]}"#,
    ),
    (
        "setClusterNotes",
        r#"(cluster: <CLUSTER>, text: "geheim") { userErrors { message } }"#,
        "CLUSTER",
        "<CLUSTER>",
        r#"{"characters":6}"#,
    ),
    (
        "setErrorGroupStatus",
        "(group: <GROUP>, status: IGNORED) { errorGroup { id } }",
        "ERROR_GROUP",
        "<GROUP>",
        r#"{"status":"ignored"}"#,
    ),
    (
        "setIdlePolicy",
        r#"(input: { mode: STOP, timeoutSeconds: 600, exemptTags: [{ key: "keep" }] }) { userErrors { message } }"#,
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"mode":"stop","timeout_seconds":600,"warn_before_seconds":300,"exempt_tags":[["keep",null]]}"#,
    ),
    (
        "setCostRate",
        r#"(input: { validFrom: "2026-11-20", perThreadHour: 0.5 }) { userErrors { message } }"#,
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"valid_from":"2026-11-20","currency":<CURRENCY>,"per_thread_hour":0.5,"per_gib_hour":0.0,"per_worker_hour":0.0}"#,
    ),
    (
        "deleteCostRate",
        r#"(validFrom: "2026-11-20") { userErrors { message } }"#,
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"valid_from":"2026-11-20"}"#,
    ),
    (
        "setDataPolicy",
        "(input: { class: LOGS, accepted: false, retentionDays: 7 }) { userErrors { code } }",
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"class":"logs","accepted":false,"retention_days":7}"#,
    ),
    (
        "setTokenPolicy",
        "(input: { refusesBroadTokens: false }) { tokenPolicy { refusesBroadTokens } }",
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"refuses_broad_tokens":false}"#,
    ),
    (
        "muteFlag",
        r#"(input: { kind: IDLE, tag: { key: "team" }, until: "2026-12-01T00:00:00Z" }) { userErrors { message } }"#,
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"kind":"idle","tag":["team",null],"until":"2026-12-01T00:00:00+00:00"}"#,
    ),
    (
        "unmuteFlag",
        r#"(input: { kind: IDLE, tag: { key: "team" } }) { userErrors { message } }"#,
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"kind":"idle","tag":["team",null]}"#,
    ),
    (
        "createAlertRule",
        r#"(input: { name: "x", condition: { idle: { forSeconds: 60 } }, emails: ["a@b.de"] }) { made: alertRule { identifier } userErrors { message } }"#,
        "ALERT_RULE",
        "<MADE>",
        r#"{"name":"x","enabled":true,"condition":{"idle":{"for_seconds":60}},"webhooks":0,"emails":1}"#,
    ),
    (
        "updateAlertRule",
        r#"(identifier: <RULE>, newSecret: true, input: { name: "y", isEnabled: false, condition: { flags: [IDLE] }, webhooks: ["https://example.com/geheim"] }) { userErrors { message } }"#,
        "ALERT_RULE",
        "<RULE>",
        r#"{"name":"y","enabled":false,"condition":{"flags":["idle"]},"webhooks":1,"emails":1,"new_secret":true}"#,
    ),
    (
        "testAlertRule",
        "(identifier: <RULE>) { deliveries { state } }",
        "ALERT_RULE",
        "<RULE>",
        r#"{"messages":2}"#,
    ),
    (
        "deleteAlertRule",
        "(identifier: <RULE>) { account { slug } }",
        "ALERT_RULE",
        "<RULE>",
        r#"{"name":"y"}"#,
    ),
    (
        "deletePerformanceReport",
        "(identifier: <REPORT>) { account { slug } }",
        "PERFORMANCE_REPORT",
        "<REPORT>",
        r#"{"name":"report.html"}"#,
    ),
    (
        "createToken",
        r#"(input: { user: <TARGET>, label: "ci", scopes: [READ], expiresAt: "2026-11-20T12:04:00Z" }) { made: token { identifier } userErrors { code } }"#,
        "API_TOKEN",
        "<MADE>",
        r#"{"user":<TARGET UUID>,"label":"ci","scopes":["read"],"expires_at":"2026-11-20T12:04:00+00:00"}"#,
    ),
    (
        "forgetToken",
        r#"(input: { tokenId: <TOKEN>, since: "2026-11-20T11:00:00Z" }) { userErrors { code } }"#,
        "API_TOKEN",
        "<TOKEN>",
        r#"{"quarantined":0,"since":"2026-11-20T11:00:00+00:00"}"#,
    ),
    (
        "restoreToken",
        "(input: { tokenId: <TOKEN> }) { userErrors { code } }",
        "API_TOKEN",
        "<TOKEN>",
        r#"{"restored":0}"#,
    ),
    (
        "handOverCluster",
        "(input: { clusterId: <CLUSTER>, userId: <TARGET> }) { userErrors { code } }",
        "CLUSTER",
        "<CLUSTER>",
        r#"{"before":<SELF UUID>,"after":<TARGET UUID>}"#,
    ),
    (
        "deleteCluster",
        "(input: { clusterId: <OTHER CLUSTER> }) { userErrors { code } }",
        "CLUSTER",
        "<OTHER CLUSTER>",
        r#"{"scheduler_id":"Scheduler-2"}"#,
    ),
    (
        "revokeToken",
        "(identifier: <TOKEN>) { userErrors { code } }",
        "API_TOKEN",
        "<TOKEN>",
        r#"{"user":<TARGET UUID>,"label":"","scopes":["read"],"expires_at":null}"#,
    ),
    (
        "inviteMember",
        r#"(input: { role: MEMBER, label: "bob" }) { made: invitation { identifier } userErrors { code } }"#,
        "INVITATION",
        "<MADE>",
        r#"{"role":"member","until":null,"name":null,"label":"bob","expires_at":"2026-11-27T12:00:00+00:00"}"#,
    ),
    (
        "revokeInvitation",
        "(identifier: <INVITATION>) { userErrors { code } }",
        "INVITATION",
        "<INVITATION>",
        r#"{"role":"viewer","until":null,"name":null,"label":"","expires_at":"2026-11-27T12:00:00+00:00"}"#,
    ),
    (
        "addMember",
        r#"(input: { name: "new", role: GUEST, until: "2026-12-01T00:00:00Z" }) { made: member { user { identifier: id } } userErrors { code } }"#,
        "USER",
        "<MADE>",
        r#"{"role":"guest","until":"2026-12-01T00:00:00+00:00","name":"new"}"#,
    ),
    (
        "setMemberRole",
        "(user: <TARGET>, role: ADMIN) { userErrors { code } }",
        "USER",
        "<TARGET>",
        r#"{"before":{"role":"viewer","until":null},"after":{"role":"admin","until":null}}"#,
    ),
    (
        "removeMember",
        "(user: <TARGET>) { userErrors { code } }",
        "USER",
        "<TARGET>",
        r#"{"before":{"role":"admin","until":null}}"#,
    ),
    (
        "deleteUser",
        "(input: { userId: <TARGET> }) { userErrors { code } }",
        "USER",
        "<TARGET>",
        r#"{"clusters":1}"#,
    ),
    (
        "deleteData",
        "(input: { class: LOGS }) { userErrors { code } }",
        "ACCOUNT",
        "<ACCOUNT>",
        r#"{"class":"logs","cluster":null}"#,
    ),
    ("setDefaultAccount", r#"(slug: "ada") { memberships { slug } }"#, "USER", "<SELF>", "{}"),
];

/// These have separate tests: the entry in the joined account, an account that nobody can read any more, a
/// browser, and views, of which only shared ones have entries.
const ELSEWHERE: [&str; 6] = [
    "acceptInvitation",
    "deleteAccount",
    "endSession",
    "createSavedView",
    "updateSavedView",
    "deleteSavedView",
];

#[test]
fn every_mutation_has_an_entry_of_its_name() {
    let sdl = Sdl::read();
    let mutations: BTreeSet<String> =
        sdl.fields("Mutation").map(|field| field.name.node.to_string()).collect();
    let names: BTreeSet<&str> = sdl.values("AuditAction").collect();
    let rows: BTreeSet<String> =
        MUTATIONS.iter().map(|(name, ..)| *name).chain(ELSEWHERE).map(str::to_owned).collect();
    assert_eq!(rows, mutations);
    for mutation in mutations {
        assert!(names.contains(action_of(&mutation).as_str()), "{mutation}");
    }
}

/// The action of a mutation: its name in the notation of enums.
fn action_of(mutation: &str) -> String {
    let mut action = String::new();
    for character in mutation.chars() {
        if character.is_ascii_uppercase() {
            action.push('_');
        }
        action.push(character.to_ascii_uppercase());
    }
    action
}

async fn start() -> TestApp {
    TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await
}

/// The part of a global identifier after its last colon, as a UUID.
fn uuid_of(id: &Value) -> Value {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id.as_str().unwrap()).unwrap()).unwrap();
    let uuid: uuid::Uuid = text.rsplit(':').next().unwrap().parse().unwrap();
    json!(uuid.to_string())
}

fn report() -> Value {
    let mut span = span(30, None, &["etl"], 1.0, Some(2.0));
    span["code"] = json!([[code_frame("x = 1", 1, 0)]]);
    ReportBuilder::new("Scheduler-1", 1)
        .with("/task_groups", json!([task_group(10, "load", 4)]))
        .with("/errors", json!([error(20, 10, 1)]))
        .with("/spans", json!([span]))
        .with("/code", json!([code("x = 1")]))
        .with("/profiles", json!([profile(40, 1.0, 3, &json!([]), &json!([]))]))
        .build()
}

#[tokio::test]
async fn what_a_mutation_does_is_written_down_with_it() {
    let app = start().await;
    let ada = app.account("ada").await;
    ada.reported(&report()).await;
    app.join("target", "ada", Role::Viewer, None).await;
    app.link("ada", "ada").await;
    let jwt = app.bearer(SigningKey::Shared.sign(None, &claims("ada")), None);
    let token = app.token_of("target", "ada", &[Scope::Read]).await;
    let wish = NewInvitation {
        name: None,
        label: String::new(),
        grant: Grant { role: Role::Viewer, ends_at: None },
        expires_at: None,
    };
    let invitation = app.accounts().invite(&"ada".parse().unwrap(), wish).await.unwrap();
    let query = "{ viewer { account { id members { nodes { user { id name } } }
        clusters { nodes { id errors { nodes { group { id } } } } } } } }";
    let account = ada.query(query, json!({})).await["viewer"]["account"].take();
    let user = |name: &str| {
        let members = account["members"]["nodes"].as_array().unwrap();
        members.iter().find(|node| node["user"]["name"] == name).unwrap()["user"]["id"].clone()
    };
    let rule = r#"mutation { createAlertRule(input: { name: "x", condition: { flags: [IDLE] }, emails: ["a@b.de"] }) {
        alertRule { identifier } } }"#;
    let rule = ada.query(rule, json!({})).await["createAlertRule"]["alertRule"]["identifier"].take();
    let report = ada.stored_report("private", "report.html", "<p>").await;
    let other = ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    let other = ada.query(query, json!({ "id": other.to_string() })).await["cluster"]["id"].take();
    let mut words = vec![
        ("<OTHER CLUSTER>", other),
        ("<RULE>", rule),
        ("<REPORT>", json!(report)),
        ("<ACCOUNT>", account["id"].clone()),
        ("<CLUSTER>", account["clusters"]["nodes"][0]["id"].clone()),
        ("<GROUP>", account["clusters"]["nodes"][0]["errors"]["nodes"][0]["group"]["id"].clone()),
        ("<SELF>", user("ada")),
        ("<TARGET>", user("target")),
        ("<TARGET UUID>", uuid_of(&user("target"))),
        ("<SELF UUID>", uuid_of(&user("ada"))),
        ("<TOKEN>", json!(token.split('-').next().unwrap())),
        ("<INVITATION>", json!(invitation.identifier())),
        ("<CURRENCY>", json!("USD")),
        ("<MADE>", Value::Null),
    ];
    let mut before = log(&ada, json!({})).await.len();
    for (mutation, arguments, kind, target, detail) in MUTATIONS {
        let fill = |text: &str, words: &[(&str, Value)]| {
            words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, &value.to_string()))
        };
        let document = format!("mutation {{ result: {mutation}{} }}", fill(arguments, &words));
        // This mutation needs the user's own credentials; all others are called with a token.
        let by_token = *mutation != "setDefaultAccount";
        let member = if by_token { &ada } else { &jwt };
        let sent = member.request(Method::POST, "/graphql").json(&json!({ "query": document }));
        let response = sent.send().await.unwrap();
        let request_id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer.get("errors"), None, "{mutation}: {answer}");
        let made = &answer["data"]["result"]["made"];
        words.last_mut().unwrap().1 = made.get("identifier").unwrap_or(&made["user"]["identifier"]).clone();
        let entries = log(&ada, json!({})).await;
        assert_eq!(entries.len(), before + 1, "{mutation} has one entry");
        before += 1;
        let identifier = ada.secret().split('-').next().unwrap();
        let expected = json!({
            "at": "2026-11-20T12:00:00+00:00",
            "action": action_of(mutation),
            "outcome": "DONE",
            "user": { "name": "ada" },
            "userName": "ada",
            "credential": if by_token { "API_TOKEN" } else { "JWT" },
            "tokenIdentifier": if by_token { json!(identifier) } else { Value::Null },
            "address": "127.0.0.1",
            "requestId": request_id,
            "target": { "kind": kind, "id": serde_json::from_str::<Value>(&fill(target, &words)).unwrap() },
            "detail": serde_json::from_str::<Value>(&fill(detail, &words)).unwrap(),
        });
        assert_eq!(entries[0], expected, "{mutation}");
    }
    app.stop().await;
}

#[tokio::test]
async fn what_comes_to_nothing_has_no_entry() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report()).await;
    let cluster = "{ viewer { account { clusters { nodes { id } } } } }";
    let cluster = ada.query(cluster, json!({})).await;
    let cluster = cluster["viewer"]["account"]["clusters"]["nodes"][0]["id"].as_str().unwrap();
    let before = log(&ada, json!({})).await.len();
    for document in [
        // Missing or invalid objects.
        r#"mutation { deleteCostRate(validFrom: "2026-11-20") { userErrors { field } } }"#,
        r#"mutation { revokeToken(identifier: "nobody") { userErrors { field } } }"#,
        "mutation { setIdlePolicy(input: { mode: STOP }) { userErrors { field } } }",
        r#"mutation { setDesiredState(cluster: "x", state: STOPPED) { cluster { id } } }"#,
        r#"mutation { setDesiredState(cluster: "<CLUSTER>", state: STOPPED, reason: "a\nb") { userErrors { field } } }"#,
        r#"mutation { keepAlive(cluster: "x", seconds: 60) { userErrors { field } } }"#,
        r#"mutation { addMember(input: { name: "Not a name", role: VIEWER }) { userErrors { field } } }"#,
    ] {
        ada.ask(&document.replace("<CLUSTER>", cluster), json!({})).await;
    }
    assert_eq!(log(&ada, json!({})).await.len(), before);
    // Revoking a revoked token.
    let identifier = ada.token(&[Scope::Read], None).await.split('-').next().unwrap().to_owned();
    let revoke = "mutation($id: String!) { revokeToken(identifier: $id) { userErrors { field } } }";
    for _ in 0..3 {
        ada.query(revoke, json!({ "id": identifier })).await;
    }
    assert_eq!(log(&ada, json!({ "action": "REVOKE_TOKEN" })).await.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn who_joins_is_written_down_where_they_join() {
    let app = TestApp::start_with(|serve| {
        let mut jwt = shared_jwt_config();
        jwt.provision = Some(Provision { role: Role::Viewer, account: Some("team".parse().unwrap()) });
        serve.jwt = Some(jwt);
    })
    .await;
    let (team, ada) = (app.account("team").await, app.account("ada").await);
    app.link("ada", "ada").await;
    let invite = "mutation { inviteMember(input: { role: MEMBER }) { secret } }";
    let secret = team.query(invite, json!({})).await["inviteMember"]["secret"].as_str().unwrap().to_owned();
    let accept = "mutation($secret: String!) { acceptInvitation(secret: $secret) { membership { slug } } }";
    let by_jwt = app.bearer(SigningKey::Shared.sign(None, &claims("ada")), Some("ada"));
    by_jwt.query(accept, json!({ "secret": secret })).await;
    let accepted = log(&team, json!({ "action": "ACCEPT_INVITATION" })).await;
    assert_eq!(accepted.len(), 1);
    let identifier = secret.split('-').next().unwrap();
    for (field, expected) in [
        ("userName", json!("ada")),
        ("credential", json!("JWT")),
        ("target", json!({ "kind": "INVITATION", "id": identifier })),
        ("detail", json!({ "role": "member", "until": null })),
    ] {
        assert_eq!(accepted[0][field], expected, "{field}");
    }
    assert_eq!(log(&ada, json!({ "action": "ACCEPT_INVITATION" })).await, Vec::<Value>::new());
    // A user whom the issuer sends for the first time.
    let newcomer = app.bearer(SigningKey::Shared.sign(None, &claims("newcomer")), None);
    newcomer.query("{ viewer { user { name } } }", json!({})).await;
    let joined = log(&team, json!({ "action": "JOIN_BY_SIGN_IN" })).await;
    assert_eq!(joined.len(), 1, "{joined:?}");
    assert_eq!((&joined[0]["credential"], &joined[0]["target"]["kind"]), (&json!("JWT"), &json!("USER")));
    assert_eq!(joined[0]["detail"]["role"], "viewer");
    app.stop().await;
}

#[tokio::test]
async fn what_operators_do_is_written_down_too() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.join("bob", "ada", Role::Viewer, None).await;
    let (accounts, slug, bob) = (app.accounts(), "ada".parse().unwrap(), "bob".parse().unwrap());
    let admin = Grant { role: Role::Admin, ends_at: None };
    accounts.change_user(&bob, &slug, Some(admin)).await.unwrap();
    app.link("bob", "bob").await;
    let wish = NewInvitation { name: None, label: String::new(), grant: admin, expires_at: None };
    accounts.invite(&slug, wish).await.unwrap();
    accounts.change_user(&bob, &slug, None).await.unwrap();
    let entries = log(&ada, json!({})).await;
    let expected = [
        "REMOVE_MEMBER",
        "INVITE_MEMBER",
        "LINK_USER",
        "SET_MEMBER_ROLE",
        "ADD_MEMBER",
        "CREATE_TOKEN",
        "ADD_MEMBER",
        "CREATE_ACCOUNT",
    ];
    assert_eq!(actions(&entries), expected);
    for entry in &entries {
        assert_eq!(entry["credential"], "OPERATOR");
        for field in ["user", "userName", "tokenIdentifier", "address", "requestId"] {
            assert_eq!(entry[field], Value::Null, "{field}: {entry}");
        }
    }
    assert_eq!(entries[3]["detail"]["after"]["role"], "admin");
    app.stop().await;
}

#[tokio::test]
async fn what_people_do_in_browsers_is_written_down_in_all_their_accounts() {
    let app = TestApp::start().await;
    let (ada, team) = (app.account("ada").await, app.account("team").await);
    app.join("ada", "team", Role::Viewer, None).await;
    let browser = app.browser(&ada).await;
    let made = entries_since(&team, &[]).await;
    let expected =
        [("SIGN_IN", "SESSION", json!({ "by": "password" })), ("SET_PASSWORD", "OPERATOR", json!({}))];
    assert_eq!(actions_and_details(&made[..2]), expected);
    assert_eq!(actions_and_details(&log(&ada, json!({})).await[..2]), expected);
    assert_eq!((&made[0]["userName"], &made[0]["address"]), (&json!("ada"), &json!("127.0.0.1")));
    assert!(made[0]["requestId"].is_string());
    // A wrong password neither signs in nor changes the password.
    let wrong = Browser::new(&app);
    assert_eq!(
        wrong.submit("/sign-in", &[("username", "ada"), ("password", "wrong password")]).await.status,
        401
    );
    let change = async |old: &str, new: &str| {
        let csrf = browser.csrf().await;
        browser.submit("/password", &[("csrf", &csrf), ("old", old), ("new", new)]).await.status
    };
    assert_eq!(change("wrong password", "another password").await, 401);
    assert_eq!(entries_since(&team, &made).await, Vec::<Value>::new());
    assert_eq!(change("password of ada", "another password").await, 200);
    let csrf = browser.csrf().await;
    assert_eq!(browser.submit("/sign-out", &[("csrf", &csrf), ("everywhere", "1")]).await.status, 303);
    let expected = [("SIGN_OUT_EVERYWHERE", "SESSION", json!({})), ("SET_PASSWORD", "SESSION", json!({}))];
    let since = entries_since(&team, &made).await;
    assert_eq!(actions_and_details(&since), expected);
    for entry in &since {
        assert_eq!((&entry["userName"], &entry["target"]["kind"]), (&json!("ada"), &json!("USER")));
    }
    app.stop().await;
}

#[tokio::test]
async fn tokens_made_and_ended_by_the_coiled_client_are_written_down() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let before = log(&ada, json!({})).await;
    let path = "/api/v1/api-tokens/";
    let made = ada.request(Method::POST, path).json(&json!({ "label": "laptop" })).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let identifier = made["identifier"].as_str().unwrap();
    for _ in 0..2 {
        let revoke = ada.request(Method::DELETE, &format!("{path}{identifier}/revoke"));
        assert_eq!(revoke.send().await.unwrap().status(), 200);
    }
    // And a token that a user in a browser gives to a program.
    let browser = app.browser(&ada).await;
    let request = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body("label=job");
    let token_request: Value = request.send().await.unwrap().json().await.unwrap();
    let (csrf, waits) = (browser.csrf().await, token_request["identifier"].as_str().unwrap());
    let fields =
        [("csrf", csrf.as_str()), ("id", waits), ("account", "ada"), ("days", ""), ("decision", "approve")];
    assert_eq!(browser.submit("/activate-token", &fields).await.status, 200);
    let entries = entries_since(&ada, &before).await;
    assert_eq!(
        actions(&entries),
        ["CREATE_TOKEN", "SIGN_IN", "SET_PASSWORD", "REVOKE_TOKEN", "CREATE_TOKEN"]
    );
    for (entry, identifier, credential, label) in [
        (&entries[0], waits, "SESSION", "job"),
        (&entries[3], identifier, "API_TOKEN", "laptop"),
        (&entries[4], identifier, "API_TOKEN", "laptop"),
    ] {
        assert_eq!(entry["target"], json!({ "kind": "API_TOKEN", "id": identifier }));
        assert_eq!((&entry["credential"], &entry["detail"]["label"]), (&json!(credential), &json!(label)));
    }
    app.stop().await;
}

/// The entries written since.
async fn entries_since(member: &Member, before: &[Value]) -> Vec<Value> {
    let mut entries = log(member, json!({})).await;
    entries.truncate(entries.len() - before.len());
    entries
}

/// The action, credential and detail of entries.
fn actions_and_details(entries: &[Value]) -> Vec<(&str, &str, Value)> {
    entries
        .iter()
        .map(|entry| {
            let [action, credential] = ["action", "credential"].map(|name| entry[name].as_str().unwrap());
            (action, credential, entry["detail"].clone())
        })
        .collect()
}

#[tokio::test]
async fn what_is_tried_without_the_right_to_it_is_written_down_once_a_minute() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let remove =
        "mutation { setDataPolicy(input: { class: LOGS, accepted: false }) { userErrors { code } } }";
    let refused = json!({ "outcome": "REFUSED" });
    for _ in 0..3 {
        assert_eq!(reader.ask(remove, json!({})).await["errors"][0]["extensions"]["code"], "FORBIDDEN");
    }
    let entries = log(&ada, refused.clone()).await;
    assert_eq!(actions(&entries), ["SET_DATA_POLICY"]);
    assert_eq!(entries[0]["detail"], json!({ "missing_scope": "admin" }));
    assert_eq!(entries[0]["tokenIdentifier"], reader.secret().split('-').next().unwrap());
    app.set_clock("2026-11-20T12:01:00Z");
    reader.ask(remove, json!({})).await;
    assert_eq!(log(&ada, refused.clone()).await.len(), 2);
    // An admin, who ranks below the owner.
    app.join("carl", "ada", Role::Admin, None).await;
    let carl = app.bearer(app.token_of("carl", "ada", &[Scope::Read, Scope::Admin]).await, None);
    let owner = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    let answer = carl.query(remove, json!({ "user": owner })).await;
    assert_eq!(answer["removeMember"]["userErrors"][0]["code"], "MEMBER_ABOVE");
    let entries = log(&ada, json!({ "outcome": "REFUSED", "action": "REMOVE_MEMBER" })).await;
    assert_eq!(entries.len(), 1);
    assert_eq!((&entries[0]["userName"], &entries[0]["target"]["id"]), (&json!("carl"), &owner));
    app.stop().await;
}

#[tokio::test]
async fn reading_code_is_written_down_once_a_request() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report()).await;
    let reads = json!({ "target": null });
    let before = log(&ada, reads.clone()).await.len();
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let names = "{ viewer { account { clusters { nodes { spans { nodes { path } } } } } } }";
    reader.query(names, json!({})).await;
    assert_eq!(log(&ada, reads.clone()).await.len(), before + 1, "the token is all that is new");
    let code = "{ viewer { account { clusters { nodes { spans { nodes { code { snippet { text } } } }
        again: spans { nodes { code { snippet { text hash } } } } profile { windows } } } } } }";
    let answer = reader.ask(code, json!({})).await;
    assert!(answer.to_string().contains("x = 1"), "{answer}");
    let entries = log(&ada, json!({})).await;
    assert_eq!(entries[0]["userName"], "ada");
    assert_eq!(entries[0]["tokenIdentifier"], reader.secret().split('-').next().unwrap());
    let read = log(&ada, json!({ "action": "READ_CODE" })).await;
    assert_eq!(read.len(), 1);
    assert_eq!(read[0]["detail"], json!({ "texts": 2 }), "each was decrypted where it was requested");
    let written = read.len() + log(&ada, json!({ "action": "READ_PROFILES" })).await.len();
    assert_eq!(entries.len(), before + 1 + written);
    let first = "{ viewer { account { spans(first: 1) { nodes { code { snippet { text } } } } } } }";
    let cost = reader.ask(first, json!({})).await["extensions"]["cost"].take();
    assert_eq!(cost["requested"].as_u64().unwrap() + cost["added"].as_u64().unwrap(), 2_000, "an entry");
    app.stop().await;
}

#[tokio::test]
async fn the_log_is_for_admins_and_can_be_filtered() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let cluster = ada.reported(&report()).await;
    let id =
        ada.query(&format!("{{ cluster(id: \"{cluster}\") {{ id }} }}"), json!({})).await["cluster"]["id"]
            .clone();
    let tags = "mutation($id: ID!) { setClusterTags(cluster: $id, tags: []) { userErrors { message } } }";
    app.set_clock("2026-11-20T12:00:10Z");
    ada.query(tags, json!({ "id": id })).await;
    app.set_clock("2026-11-20T12:00:20Z");
    ada.query(tags, json!({ "id": id })).await;
    let me = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    for (filter, expected) in [
        (json!({ "action": "SET_CLUSTER_TAGS" }), 2),
        (json!({ "target": id }), 2),
        (json!({ "user": me }), 2),
        (json!({ "since": "2026-11-20T12:00:10Z", "until": "2026-11-20T12:00:20Z" }), 1),
        (json!({ "since": "2026-11-20T12:00:21Z" }), 0),
        (json!({ "action": "SET_CLUSTER_TAGS", "outcome": "REFUSED" }), 0),
        (json!({ "target": ada.secret().split('-').next().unwrap() }), 1),
        (json!({ "target": "nothing at all" }), 0),
        (json!({}), 5),
    ] {
        assert_eq!(log(&ada, filter.clone()).await.len(), expected, "{filter}");
    }
    // Paging returns the same entries.
    let (mut after, mut paged) = (Value::Null, Vec::new());
    loop {
        let answer = ada.query(LOG, json!({ "first": 2, "after": after })).await;
        let page = &answer["viewer"]["account"]["auditLog"];
        paged.extend(page["nodes"].as_array().unwrap().clone());
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
    assert_eq!(paged, log(&ada, json!({})).await);
    // Other accounts see no such entry.
    assert_eq!(log(&bob, json!({ "target": id })).await, Vec::<Value>::new());
    assert_eq!(log(&bob, json!({})).await.len(), 3);
    let theirs = bob.ask(LOG, json!({ "filter": { "user": me } })).await;
    assert_eq!(theirs["errors"][0]["extensions"]["code"], "NOT_FOUND", "{theirs}");
    let reader = ada.with_token(ada.token(&[Scope::Ingest, Scope::Read], None).await);
    let refused = reader.ask(LOG, json!({})).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN");
    assert_eq!(refused["data"]["viewer"]["account"]["auditLog"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn an_entry_outlives_its_subject_and_contains_no_secret() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.join("bob", "ada", Role::Owner, None).await;
    let token = app.token_of("bob", "ada", &[Scope::Read, Scope::Admin]).await;
    let bob = app.bearer(token.clone(), None);
    let me = bob.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let create = "mutation { createToken(input: { scopes: [READ] }) { secret } }";
    let made = bob.query(create, json!({})).await["createToken"]["secret"].as_str().unwrap().to_owned();
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    bob.query(remove, json!({ "user": me })).await;
    let entries = log(&ada, json!({ "action": "REMOVE_MEMBER" })).await;
    let recorded = (&entries[0]["user"], &entries[0]["userName"], &entries[0]["tokenIdentifier"]);
    assert_eq!(recorded, (&Value::Null, &json!("bob"), &json!(token.split('-').next().unwrap())));
    // Data with a retention of a year is deleted, and no audit entry is.
    app.set_clock("2036-11-20T12:00:00Z");
    app.run_jobs().await;
    let rows = audit_entry::Entity::find().all(&app.database.connection().await).await.unwrap();
    let rows = format!("{rows:?}");
    assert!(rows.contains("RemoveMember") && rows.contains("CreateAccount"));
    for secret in [&token, &made, &ada.secret().to_owned()] {
        assert!(!rows.contains(secret.split_once('-').unwrap().1));
    }
    app.stop().await;
}

#[tokio::test]
async fn the_address_is_the_one_that_a_trusted_proxy_reports() {
    let behind = |proxies: &[&str]| {
        let trusted = proxies.iter().map(|network| network.parse().unwrap()).collect();
        NetworkConfig {
            proxies: TrustedProxies::new(trusted, ForwardedHeader::XForwardedFor),
            ..NetworkConfig::default()
        }
    };
    for (proxies, expected) in [(vec![], "127.0.0.1"), (vec!["127.0.0.0/8"], "203.0.113.9")] {
        let perimeter = behind(&proxies);
        let app = TestApp::start_with(|serve| serve.network = perimeter).await;
        let ada = app.account("ada").await;
        let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-20" }) { userErrors { field } } }"#;
        let sent = ada
            .request(Method::POST, "/graphql")
            .header("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
            .json(&json!({ "query": rate }));
        assert_eq!(sent.send().await.unwrap().status(), 200);
        let entries = log(&ada, json!({ "action": "SET_COST_RATE" })).await;
        assert_eq!(entries[0]["address"], expected, "{proxies:?}");
        app.stop().await;
    }
}
