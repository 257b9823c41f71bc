//! Authorization: every mutation and every route, for every role. A missing row of a table fails the test.

mod own;
mod route;

use std::collections::BTreeSet;

use entity::{api_token::Scope, membership::Role};
use galvo::domain::access::{Grant, NewInvitation};
use harness::{
    Member, ReportBuilder, SigningKey, TestApp, claims, computation, error, profile, shared_jwt_config, span,
    task_group, uuid,
};
use reqwest::{Method, header};
use serde_json::{Value, json};

use self::route::{ROUTES, Sent, UNDESCRIBED};
use crate::sdl::Sdl;

const ROLES: [(Role, &str); 5] = [
    (Role::Owner, "owner"),
    (Role::Admin, "admin"),
    (Role::Member, "member"),
    (Role::Viewer, "viewer"),
    (Role::Guest, "guest"),
];

/// The operation succeeds.
const DONE: &str = "";
const FORBIDDEN: &str = "FORBIDDEN";
const NOT_FOUND: &str = "NOT_FOUND";

/// Only owners and admins may do it.
const ADMINS: [&str; 5] = [DONE, DONE, FORBIDDEN, FORBIDDEN, FORBIDDEN];
/// Only owners and admins may do it, and others do not see the object.
const HIDDEN: [&str; 5] = [DONE, DONE, NOT_FOUND, NOT_FOUND, NOT_FOUND];
/// Everybody may do it.
const ALL: [&str; 5] = [DONE; 5];

/// An operation on a role above that of an admin.
const fn owners(otherwise: &str) -> [&str; 5] {
    [DONE, otherwise, FORBIDDEN, FORBIDDEN, FORBIDDEN]
}

/// Mutations, and their result for an owner, an admin, a member, a viewer and a guest. Words in angle
/// brackets stand for objects in the account.
const MUTATIONS: &[(&str, &str, [&str; 5])] = &[
    ("setDesiredState", "(cluster: <CLUSTER>, state: STOPPED) { userErrors { code } }", ADMINS),
    ("keepAlive", "(cluster: <CLUSTER>, seconds: 60) { userErrors { code } }", ADMINS),
    ("setClusterTags", "(cluster: <CLUSTER>, tags: [{ key: \"team\" }]) { userErrors { code } }", ADMINS),
    ("setClusterNotes", "(cluster: <CLUSTER>, text: \"a note\") { userErrors { code } }", ADMINS),
    ("setErrorGroupStatus", "(group: <GROUP>, status: IGNORED) { userErrors { code } }", ADMINS),
    ("setIdlePolicy", "(input: { mode: OBSERVE }) { userErrors { message } }", ADMINS),
    ("muteFlag", "(input: { kind: IDLE }) { userErrors { message } }", ADMINS),
    ("unmuteFlag", "(input: { kind: IDLE }) { userErrors { message } }", ADMINS),
    (
        "createAlertRule",
        "(input: { name: \"x\", condition: { flags: [IDLE] }, emails: [\"a@b.de\"] }) { userErrors { message } }",
        ADMINS,
    ),
    (
        "updateAlertRule",
        "(identifier: <RULE>, input: { name: \"y\", condition: { flags: [IDLE] } }) { userErrors { message } }",
        ADMINS,
    ),
    ("testAlertRule", "(identifier: <RULE>) { deliveries { state } }", ADMINS),
    ("deleteAlertRule", "(identifier: <RULE>) { account { slug } }", ADMINS),
    ("deletePerformanceReport", "(identifier: <REPORT>) { account { slug } }", ADMINS),
    (
        "createSavedView",
        "(input: { name: \"x\", page: \"clusters\", parameters: \"\", isShared: true }) { userErrors { code } }",
        [DONE, DONE, DONE, FORBIDDEN, FORBIDDEN],
    ),
    (
        "updateSavedView",
        "(id: <VIEW>, input: { name: \"y\", page: \"clusters\", parameters: \"\", isShared: true }) { userErrors { code } }",
        ADMINS,
    ),
    ("deleteSavedView", "(id: <VIEW>) { userErrors { code } }", ADMINS),
    ("setCostRate", "(input: { validFrom: \"2026-11-20\" }) { userErrors { message } }", ADMINS),
    ("deleteCostRate", "(validFrom: \"2026-11-20\") { userErrors { message } }", ADMINS),
    ("setDataPolicy", "(input: { class: LOGS, accepted: false }) { userErrors { code } }", ADMINS),
    (
        "setTokenPolicy",
        "(input: { refusesBroadTokens: false }) { tokenPolicy { refusesBroadTokens } }",
        ADMINS,
    ),
    (
        "createToken",
        "(input: { user: <TARGET>, scopes: [READ], expiresAt: <END> }) { userErrors { code } }",
        ADMINS,
    ),
    (
        "createToken",
        "(input: { user: <OWNER>, scopes: [READ], expiresAt: <END> }) { userErrors { code } }",
        owners("MEMBER_ABOVE"),
    ),
    ("revokeToken", "(identifier: <TOKEN>) { userErrors { code } }", HIDDEN),
    ("addMember", "(input: { name: \"new\", role: VIEWER }) { userErrors { code } }", ADMINS),
    ("addMember", "(input: { name: \"helper\", role: GUEST, until: <END> }) { userErrors { code } }", ADMINS),
    (
        "addMember",
        "(input: { name: \"new-owner\", role: OWNER }) { userErrors { code } }",
        owners("ABOVE_OWN_ROLE"),
    ),
    ("inviteMember", "(input: { role: MEMBER }) { userErrors { code } }", ADMINS),
    ("inviteMember", "(input: { role: OWNER }) { userErrors { code } }", owners("ABOVE_OWN_ROLE")),
    ("revokeInvitation", "(identifier: <INVITATION>) { userErrors { code } }", ADMINS),
    (
        "handOverCluster",
        "(input: { clusterId: <CLUSTER>, userId: <OWNER> }) { userErrors { message } }",
        ADMINS,
    ),
    ("setMemberRole", "(user: <TARGET>, role: ADMIN) { userErrors { code } }", ADMINS),
    ("setMemberRole", "(user: <TARGET>, role: OWNER) { userErrors { code } }", owners("ABOVE_OWN_ROLE")),
    ("setMemberRole", "(user: <OWNER>, role: OWNER) { userErrors { code } }", owners("MEMBER_ABOVE")),
    ("removeMember", "(user: <OTHER>) { userErrors { code } }", ADMINS),
    ("removeMember", "(user: <OWNER>) { userErrors { code } }", owners("MEMBER_ABOVE")),
    (
        "forgetToken",
        "(input: { tokenId: <TOKEN>, since: \"2026-11-20T00:00:00Z\" }) { userErrors { message } }",
        ADMINS,
    ),
    ("restoreToken", "(input: { tokenId: <TOKEN> }) { userErrors { message } }", ADMINS),
    ("deleteCluster", "(input: { clusterId: <CLUSTER> }) { userErrors { message } }", ADMINS),
    ("deleteData", "(input: { class: LOGS }) { userErrors { message } }", ADMINS),
    ("deleteUser", "(input: { userId: <TARGET> }) { userErrors { code } }", ADMINS),
    ("setDefaultAccount", "(slug: <ACCOUNT>) { memberships { slug } }", ALL),
    ("acceptInvitation", "(secret: <SECRET>) { userErrors { code } }", ALL),
    // None of them has a browser.
    ("endSession", "(identifier: \"0123456789abcdef\") { userErrors { message } }", [NOT_FOUND; 5]),
    // The last one, because nothing is possible after it.
    ("deleteAccount", "(input: { confirmSlug: <ACCOUNT> }) { userErrors { message } }", owners(FORBIDDEN)),
];

/// Operations of the user, independent of the role, and therefore not available to API tokens.
const OF_THE_USER: [&str; 3] = ["setDefaultAccount", "acceptInvitation", "endSession"];

/// Lists of `Account` that only owners and admins may read.
const LISTS: [&str; 7] =
    ["members", "tokens", "schedulerTokens", "invitations", "auditLog", "alertRules", "alertDeliveries"];

#[test]
fn every_mutation_and_route_has_a_row() {
    let sdl = Sdl::read();
    let mutations = sdl.fields("Mutation").map(|field| field.name.node.to_string()).collect();
    let rows: BTreeSet<String> = MUTATIONS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(rows, mutations);

    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let paths = openapi["paths"].as_object().unwrap().iter();
    let routes: BTreeSet<String> = paths
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let described = &ROUTES[..ROUTES.len() - UNDESCRIBED];
    assert_eq!(described.iter().map(|(route, ..)| (*route).to_owned()).collect::<BTreeSet<_>>(), routes);
}

/// A fresh account for an actor with a role.
struct World {
    owner: Member,
    actor: Member,
    slug: String,
    cluster: i64,
    words: Vec<(&'static str, Value)>,
}

/// The kind of credentials of the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Jwt,
    ApiToken,
}

impl World {
    async fn of(app: &TestApp, role: Role, name: &str, by: By) -> Self {
        let slug = format!("{name}-{by:?}").to_lowercase();
        let owner = app.account(&slug).await;
        let report = ReportBuilder::new("Scheduler-1", 1)
            .with("/computations", json!([computation(1, &[10])]))
            .with("/spans", json!([span(30, None, &["etl"], 1.0, None)]))
            .with("/task_groups", json!([task_group(10, "load", 4)]))
            .with("/errors", json!([error(20, 10, 1)]))
            .with("/profiles", json!([profile(50, 0.0, 1, &json!([]), &json!([]))]))
            .build();
        let cluster = owner.reported(&report).await;
        let named = |what: &str| format!("{what}-of-{slug}");
        for what in ["target", "other"] {
            app.join(&named(what), &slug, Role::Viewer, None).await;
        }
        let until = (role == Role::Guest).then_some("2026-12-01T00:00:00Z");
        app.join(&named("actor"), &slug, role, until).await;
        let actor = match by {
            By::Jwt => {
                app.link(&named("actor"), &slug).await;
                app.bearer(SigningKey::Shared.sign(None, &claims(&slug)), None)
            }
            By::ApiToken => {
                let scopes: &[Scope] = match role {
                    Role::Owner | Role::Admin => &[Scope::Ingest, Scope::Read, Scope::Admin],
                    Role::Member => &[Scope::Ingest, Scope::Read],
                    Role::Viewer | Role::Guest => &[Scope::Read],
                };
                app.bearer(app.token_of(&named("actor"), &slug, scopes).await, None)
            }
        };
        let query = "{ viewer { account { members { nodes { user { id name } } }
            clusters { nodes { id computations { nodes { id } } spans { nodes { id } } errors { nodes { group { id } } } } } } } }";
        let account = owner.query(query, json!({})).await["viewer"]["account"].take();
        let user = |name: &str| {
            let members = account["members"]["nodes"].as_array().unwrap();
            members.iter().find(|node| node["user"]["name"] == name).unwrap()["user"]["id"].clone()
        };
        let token = app.token_of(&named("target"), &slug, &[Scope::Read]).await;
        let invite = async |account: &str| {
            let grant = Grant { role: Role::Viewer, ends_at: None };
            let wish = NewInvitation { name: None, label: String::new(), grant, expires_at: None };
            app.accounts().invite(&account.parse().unwrap(), wish).await.unwrap()
        };
        let create = "mutation { createAlertRule(input: { name: \"x\", condition: { flags: [IDLE] }, emails: [\"a@b.de\"] }) {
            alertRule { identifier } } }";
        let alert_rule =
            owner.query(create, json!({})).await["createAlertRule"]["alertRule"]["identifier"].take();
        let create = "mutation { createSavedView(input: { name: \"x\", page: \"clusters\", parameters: \"\", isShared: true }) {
            savedView { id } } }";
        let view = owner.query(create, json!({})).await["createSavedView"]["savedView"]["id"].take();
        let report = owner.stored_report("public", "report.html", "<p>").await;
        let node = &account["clusters"]["nodes"][0];
        let words = vec![
            ("REPORT", json!(report)),
            ("CLUSTER", node["id"].clone()),
            ("COMPUTATION", node["computations"]["nodes"][0]["id"].clone()),
            ("SPAN", node["spans"]["nodes"][0]["id"].clone()),
            ("GROUP", node["errors"]["nodes"][0]["group"]["id"].clone()),
            ("RULE", alert_rule),
            ("VIEW", view),
            ("TARGET", user(&named("target"))),
            ("OTHER", user(&named("other"))),
            ("OWNER", user(&slug)),
            ("TOKEN", json!(token.split('-').next().unwrap())),
            ("INVITATION", json!(invite(&slug).await.identifier())),
            ("SECRET", json!(invite("elsewhere").await.reveal())),
            ("ACCOUNT", json!(slug)),
            ("END", json!("2026-11-20T12:04:00Z")),
        ];
        Self { owner, actor, slug, cluster, words }
    }

    /// The object that a word stands for.
    fn word(&self, word: &str) -> Value {
        let (_, value) = self.words.iter().find(|(name, _)| *name == word).unwrap();
        value.clone()
    }

    /// The value of a route's `{id}`.
    fn id(&self, path: &str) -> String {
        let of = [("computations", "COMPUTATION"), ("error-groups", "GROUP"), ("spans", "SPAN")];
        let named = of.iter().find(|(of, _)| path.starts_with(&format!("/api/v1/export/{of}/")));
        match named {
            Some((_, word)) => self.word(word).as_str().unwrap().to_owned(),
            None => self.cluster.to_string(),
        }
    }

    /// The error code of a mutation; empty on success.
    async fn outcome(&self, mutation: &str, arguments: &str) -> String {
        let mut document = format!("mutation {{ result: {mutation}{arguments} }}");
        for (word, value) in &self.words {
            document = document.replace(&format!("<{word}>"), &value.to_string());
        }
        let answer = self.actor.ask(&document, json!({})).await;
        let codes = [
            &answer["errors"][0]["extensions"]["code"],
            &answer["data"]["result"]["userErrors"][0]["code"],
            &answer["data"]["result"]["userErrors"][0]["message"],
        ];
        codes.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
    }
}

async fn start() -> TestApp {
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    app.account("elsewhere").await;
    app
}

#[tokio::test]
async fn a_role_changes_what_the_table_lists() {
    let app = start().await;
    for by in [By::Jwt, By::ApiToken] {
        for (column, (role, name)) in ROLES.into_iter().enumerate() {
            let world = World::of(&app, role, name, by).await;
            for (mutation, arguments, expected) in MUTATIONS {
                let of_the_user = by == By::ApiToken && OF_THE_USER.contains(mutation);
                let expected = if of_the_user { FORBIDDEN } else { expected[column] };
                let outcome = world.outcome(mutation, arguments).await;
                assert_eq!(outcome, expected, "{name} by {by:?}: {mutation}{arguments}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_role_reads_what_the_table_lists() {
    let app = start().await;
    for by in [By::Jwt, By::ApiToken] {
        for (column, (role, name)) in ROLES.into_iter().enumerate() {
            let World { actor, slug, .. } = World::of(&app, role, name, by).await;
            for list in LISTS {
                let query = format!("{{ viewer {{ account {{ slug {list} {{ totalCount }} }} }} }}");
                let answer = actor.ask(&query, json!({})).await;
                let code = answer["errors"][0]["extensions"]["code"].as_str().unwrap_or_default();
                assert_eq!(code, ADMINS[column], "{name} by {by:?}: {list}");
                assert_eq!(answer["data"]["viewer"]["account"]["slug"], json!(slug), "{name}: {list}");
                let is_hidden = answer["data"]["viewer"]["account"][list]["totalCount"].is_null();
                assert_eq!(is_hidden, column > 1, "{name}: {list}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_role_reaches_the_routes_it_may() {
    let app = start().await;
    let strange = World::of(&app, Role::Owner, "stranger", By::ApiToken).await;
    for by in [By::Jwt, By::ApiToken] {
        let mut worlds = Vec::new();
        for (role, name) in ROLES {
            worlds.push((World::of(&app, role, name, by).await, name));
        }
        for (route, sent, expected) in ROUTES {
            let (method, path) = route.split_once(' ').unwrap();
            let method: Method = method.parse().unwrap();
            let call = async |world: &World, signed_in: bool| {
                let path = path
                    .replace("{workspace}", &world.slug)
                    .replace("{id}", &world.id(path))
                    .replace("{identifier}", &uuid(30))
                    .replace("{name}", "Scheduler-1")
                    .replace("{kind}", "private");
                let request = if signed_in {
                    world.actor.request(method.clone(), &path)
                } else {
                    app.anonymous(method.clone(), &path)
                };
                let request = match sent {
                    Sent::Nothing => request,
                    Sent::Form => request
                        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                        .body("label=x"),
                    Sent::Json(body) => request.header(header::CONTENT_TYPE, "application/json").body(*body),
                    Sent::Report => request.json(&ReportBuilder::new("Scheduler-2", 1).build()),
                    Sent::Span => request.json(&json!({ "start": 1, "stop": 2 })),
                    Sent::Parts => request
                        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=x")
                        .body("--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n<p>\r\n--x--\r\n"),
                    Sent::Query => request.json(&json!({ "query": "{ __typename }" })),
                };
                request.send().await.unwrap().status().as_u16()
            };
            for (column, (world, name)) in worlds.iter().enumerate() {
                assert_eq!(call(world, true).await, expected[column], "{name} by {by:?}: {route}");
            }
            assert_eq!(call(&strange, false).await, expected[5], "nobody: {route}");
        }
    }
    app.stop().await;
}
