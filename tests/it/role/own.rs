//! The rights to own objects: every change of an object of the caller and of another member, for every role,
//! and the field `viewerCan…` that announces it. The tables are written by hand.

use std::collections::BTreeSet;

use entity::{api_token::Scope, membership::Role};
use harness::{Member, ReportBuilder, TestApp, computation, error, span, task_group};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ADMINS, ALL, By, DONE, FORBIDDEN, HIDDEN, NOT_FOUND, ROLES, World, owners, start};
use crate::sdl::Sdl;

/// Owners and admins may do it to all objects, and members to their own.
const MEMBERS: [&str; 5] = [DONE, DONE, DONE, FORBIDDEN, FORBIDDEN];

/// A field, the mutation that it announces, its arguments, and the result for an owner, an admin, a member,
/// a viewer and a guest. `<CLUSTER>`, `<GROUP>` and `<TOKEN>` stand for objects of the caller (`Own`) or of
/// the owner of the account (`Others`), the other words for objects of the account.
const CELLS: &[(&str, &str, &str, Whose, [&str; 5])] = &[
    ("Cluster.viewerCanTag", "setClusterTags", TAGS, Own, MEMBERS),
    ("Cluster.viewerCanTag", "setClusterTags", TAGS, Others, ADMINS),
    ("Cluster.viewerCanAnnotate", "setClusterNotes", NOTES, Own, MEMBERS),
    ("Cluster.viewerCanAnnotate", "setClusterNotes", NOTES, Others, ADMINS),
    ("Cluster.viewerCanKeepAlive", "keepAlive", KEEP, Own, MEMBERS),
    ("Cluster.viewerCanKeepAlive", "keepAlive", KEEP, Others, ADMINS),
    ("Cluster.viewerCanStop", "setDesiredState", STOP, Own, MEMBERS),
    ("Cluster.viewerCanStop", "setDesiredState", STOP, Others, ADMINS),
    ("ErrorGroup.viewerCanTriage", "setErrorGroupStatus", TRIAGE, Own, MEMBERS),
    ("ErrorGroup.viewerCanTriage", "setErrorGroupStatus", TRIAGE, Others, ADMINS),
    ("ApiToken.viewerCanRevoke", "revokeToken", REVOKE, Own, ALL),
    // The token of an owner.
    (
        "ApiToken.viewerCanRevoke",
        "revokeToken",
        REVOKE,
        Others,
        [DONE, "MEMBER_ABOVE", NOT_FOUND, NOT_FOUND, NOT_FOUND],
    ),
    // The token of a viewer.
    (
        "ApiToken.viewerCanRevoke",
        "revokeToken",
        "(identifier: <VIEWERS_TOKEN>) { userErrors { code } }",
        Viewers,
        HIDDEN,
    ),
    (
        "Account.viewerCanCreateToken",
        "createToken",
        "(input: { scopes: [READ], expiresAt: <END> }) { userErrors { code } }",
        Own,
        ALL,
    ),
    ("Cluster.viewerCanHandOver", "handOverCluster", HAND_OVER, Own, ADMINS),
    ("Cluster.viewerCanHandOver", "handOverCluster", HAND_OVER, Others, ADMINS),
    (
        "Member.viewerCanChange",
        "setMemberRole",
        "(user: <OWNER>, role: OWNER) { userErrors { code } }",
        Others,
        owners("MEMBER_ABOVE"),
    ),
    (
        "Member.viewerCanChange",
        "setMemberRole",
        "(user: <TARGET>, role: VIEWER) { userErrors { code } }",
        Viewers,
        ADMINS,
    ),
    (
        "Invitation.viewerCanRevoke",
        "revokeInvitation",
        "(identifier: <INVITATION>) { userErrors { code } }",
        Viewers,
        ADMINS,
    ),
    (
        "Account.viewerCanManageMembers",
        "inviteMember",
        "(input: { role: VIEWER }) { userErrors { code } }",
        Own,
        ADMINS,
    ),
    (
        "Account.viewerCanChangeSettings",
        "setIdlePolicy",
        "(input: { mode: OBSERVE }) { userErrors { message } }",
        Own,
        ADMINS,
    ),
    (
        "Account.viewerCanDeleteData",
        "deleteData",
        "(input: { class: LOGS }) { userErrors { message } }",
        Own,
        ADMINS,
    ),
    ("Account.viewerCanSaveView", "createSavedView", KEEP_VIEW, Own, ALL),
    ("Account.viewerCanShareView", "createSavedView", SHARE_VIEW, Own, MEMBERS),
    // A private view of the actor, and a shared one of the owner.
    ("SavedView.viewerCanChange", "updateSavedView", CHANGE_VIEW, Own, ALL),
    ("SavedView.viewerCanChange", "updateSavedView", CHANGE_SHARED_VIEW, Others, ADMINS),
    ("SavedView.viewerCanChange", "deleteSavedView", DELETE_VIEW, Own, ALL),
    ("SavedView.viewerCanChange", "deleteSavedView", DELETE_VIEW, Others, ADMINS),
    ("PerformanceReport.viewerCanDelete", "deletePerformanceReport", DELETE_REPORT, Others, ADMINS),
    ("Cluster.viewerCanDelete", "deleteCluster", DELETE, Own, ADMINS),
    ("Cluster.viewerCanDelete", "deleteCluster", DELETE, Others, ADMINS),
    (
        "Account.viewerCanDelete",
        "deleteAccount",
        "(input: { confirmSlug: <ACCOUNT> }) { userErrors { message } }",
        Own,
        owners(FORBIDDEN),
    ),
];

/// The field that announces a list and no mutation; `a_role_reads_what_the_table_lists` tests the list.
const LISTED: &str = "Account.viewerCanReadAuditLog";

const TAGS: &str = "(cluster: <CLUSTER>, tags: [{ key: \"team\" }]) { userErrors { code } }";
const NOTES: &str = "(cluster: <CLUSTER>, text: \"a note\") { userErrors { code } }";
const KEEP: &str = "(cluster: <CLUSTER>, seconds: 60) { userErrors { code } }";
const STOP: &str = "(cluster: <CLUSTER>, state: STOPPED) { userErrors { code } }";
const TRIAGE: &str = "(group: <GROUP>, status: IGNORED) { userErrors { code } }";
const REVOKE: &str = "(identifier: <TOKEN>) { userErrors { code } }";
const HAND_OVER: &str = "(input: { clusterId: <CLUSTER>, userId: <HOLDER> }) { userErrors { message } }";
const DELETE_REPORT: &str = "(identifier: <REPORT>) { userErrors { message } }";
const KEEP_VIEW: &str =
    "(input: { name: \"v\", page: \"clusters\", parameters: \"\" }) { userErrors { code } }";
const SHARE_VIEW: &str =
    "(input: { name: \"v\", page: \"clusters\", parameters: \"\", isShared: true }) { userErrors { code } }";
const CHANGE_VIEW: &str =
    "(id: <VIEW>, input: { name: \"w\", page: \"clusters\", parameters: \"\" }) { userErrors { code } }";
const CHANGE_SHARED_VIEW: &str =
    "(id: <VIEW>, input: { name: \"w\", page: \"clusters\", parameters: \"\", isShared: true }) {
    userErrors { code } }";
const DELETE_VIEW: &str = "(id: <VIEW>) { userErrors { code } }";
const DELETE: &str = "(input: { clusterId: <CLUSTER> }) { userErrors { message } }";

/// The user to whom the objects of a cell belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Own,
    Others,
    Viewers,
}
use Whose::{Others, Own, Viewers};

/// The fields of a cell's object.
const FIELDS: &str = "query($cluster: ID!, $group: ID!) {
    cluster(id: $cluster) { viewerCanTag viewerCanAnnotate viewerCanKeepAlive viewerCanStop viewerCanHandOver
        viewerCanDelete }
    node(id: $group) { ... on ErrorGroup { viewerCanTriage } }
    viewer { tokens { nodes { identifier viewerCanRevoke } } account {
        viewerCanCreateToken viewerCanManageMembers viewerCanChangeSettings viewerCanReadAuditLog viewerCanDeleteData
        viewerCanDelete viewerCanSaveView viewerCanShareView
        savedViews { nodes { id viewerCanChange } }
        tokens { nodes { identifier viewerCanRevoke } }
        members { nodes { user { id } viewerCanChange } }
        invitations { nodes { identifier viewerCanRevoke } }
        performanceReports { nodes { identifier viewerCanDelete } } } } }";

/// An account in which the actor has a cluster with an error, and a token.
struct OwnWorld {
    world: World,
    actor_id: Value,
}

impl OwnWorld {
    async fn of(app: &TestApp, role: Role, name: &str, by: By) -> Self {
        let mut world = World::of(app, role, &format!("own-{name}"), by).await;
        let mut raised = error(21, 10, 1);
        (raised["type"], raised["message"]) = (json!("OSError"), json!("OSError('of the actor')"));
        let report = ReportBuilder::new("Scheduler-Own", 1)
            .with("/computations", json!([computation(1, &[10])]))
            .with("/spans", json!([span(30, None, &["etl"], 1.0, None)]))
            .with("/task_groups", json!([task_group(10, "load", 4)]))
            .with("/errors", json!([raised]))
            .build();
        let number = world.owner.reported(&report).await;
        let found = "query($id: ID!) { cluster(id: $id) { id errors { nodes { group { id } } } }
            viewer { account { members { nodes { user { id name } } } } } }";
        let found = world.owner.query(found, json!({ "id": number.to_string() })).await;
        let members = found["viewer"]["account"]["members"]["nodes"].as_array().unwrap();
        let actor_name = format!("actor-of-{}", world.slug);
        let is_actor = |node: &&Value| node["user"]["name"] == actor_name.as_str();
        let actor_id = members.iter().find(is_actor).unwrap()["user"]["id"].clone();
        let hand_over = "mutation($cluster: ID!, $user: ID!) {
            handOverCluster(input: { clusterId: $cluster, userId: $user }) { userErrors { message } } }";
        let cluster = &found["cluster"]["id"];
        world.owner.query(hand_over, json!({ "cluster": cluster, "user": actor_id })).await;
        let token = async |user: &str| {
            let token = app.token_of(user, &world.slug, &[Scope::Read]).await;
            json!(token.split('-').next().unwrap())
        };
        let of_group = found["cluster"]["errors"]["nodes"][0]["group"]["id"].clone();
        let (own_token, others_token) = (token(&actor_name).await, token(&world.slug).await);
        let keep = format!(
            "mutation {{ createSavedView{} }}",
            KEEP_VIEW.replace("userErrors { code }", "savedView { id }")
        );
        let own_view = world.actor.query(&keep, json!({})).await["createSavedView"]["savedView"]["id"].take();
        let more = [
            ("OWN_VIEW", own_view),
            ("OTHERS_VIEW", world.word("VIEW")),
            ("OWN_CLUSTER", cluster.clone()),
            ("OWN_GROUP", of_group),
            ("OWN_TOKEN", own_token),
            ("OTHERS_CLUSTER", world.word("CLUSTER")),
            ("OTHERS_GROUP", world.word("GROUP")),
            ("OTHERS_TOKEN", others_token),
            ("VIEWERS_TOKEN", world.word("TOKEN")),
        ];
        world.words.extend(more);
        Self { world, actor_id }
    }

    /// Replaces the words that depend on whose object it is.
    fn arguments(&self, arguments: &str, whose: Whose) -> String {
        let (prefix, holder) = match whose {
            Own => ("OWN", self.actor_id.clone()),
            Others | Viewers => ("OTHERS", self.world.word("OWNER")),
        };
        ["CLUSTER", "GROUP", "TOKEN", "VIEW"]
            .into_iter()
            .fold(arguments.to_owned(), |text, word| {
                text.replace(&format!("<{word}>"), &format!("<{prefix}_{word}>"))
            })
            .replace("<HOLDER>", &holder.to_string())
    }

    /// The value of a field `viewerCan…` for an actor. False if the actor cannot see the object.
    async fn announced(&self, actor: &Member, field: &str, whose: Whose) -> bool {
        let prefix = if whose == Own { "OWN" } else { "OTHERS" };
        let [cluster, group] = ["CLUSTER", "GROUP"].map(|word| self.world.word(&format!("{prefix}_{word}")));
        let answer = actor.ask(FIELDS, json!({ "cluster": cluster, "group": group })).await;
        let (data, (of, name)) = (&answer["data"], field.split_once('.').unwrap());
        let account = &data["viewer"]["account"];
        let listed = |list: &Value, key: &str, id: Value| {
            let nodes = list["nodes"].as_array().cloned().unwrap_or_default();
            nodes.into_iter().find(|node| *node.pointer(key).unwrap() == id).map(|node| node[name].clone())
        };
        let value = match of {
            "Cluster" => Some(data["cluster"][name].clone()),
            "ErrorGroup" => Some(data["node"][name].clone()),
            "Account" => Some(account[name].clone()),
            "ApiToken" => {
                let token = match whose {
                    Own => "OWN_TOKEN",
                    Others => "OTHERS_TOKEN",
                    Viewers => "VIEWERS_TOKEN",
                };
                let token = self.world.word(token);
                let own = listed(&data["viewer"]["tokens"], "/identifier", token.clone());
                own.or_else(|| listed(&account["tokens"], "/identifier", token))
            }
            "Member" => {
                let user = self.world.word(if whose == Others { "OWNER" } else { "TARGET" });
                listed(&account["members"], "/user/id", user)
            }
            "Invitation" => listed(&account["invitations"], "/identifier", self.world.word("INVITATION")),
            "SavedView" => listed(&account["savedViews"], "/id", self.world.word(&format!("{prefix}_VIEW"))),
            "PerformanceReport" => {
                listed(&account["performanceReports"], "/identifier", self.world.word("REPORT"))
            }
            _ => panic!("{field}"),
        };
        value.is_some_and(|value| value.as_bool().unwrap_or_else(|| panic!("{field}: {answer}")))
    }
}

#[test]
fn every_field_has_a_cell() {
    let sdl = Sdl::read();
    let fields = sdl.objects().flat_map(|(of, object)| {
        let names = object.fields.iter().map(|field| field.node.name.node.as_str());
        names.filter(|name| name.starts_with("viewerCan")).map(move |name| format!("{of}.{name}"))
    });
    let cells = CELLS.iter().map(|(field, ..)| (*field).to_owned()).chain([LISTED.to_owned()]);
    assert_eq!(cells.collect::<BTreeSet<_>>(), fields.collect::<BTreeSet<_>>());
}

#[tokio::test]
async fn a_role_changes_its_own_and_the_fields_announce_it() {
    let app = start().await;
    for by in [By::Jwt, By::ApiToken] {
        for (column, (role, name)) in ROLES.into_iter().enumerate() {
            let own = OwnWorld::of(&app, role, name, by).await;
            let actor = &own.world.actor;
            let reads = own.announced(actor, LISTED, Own).await;
            assert_eq!(reads, ADMINS[column] == DONE, "{name} by {by:?}: {LISTED}");
            for (field, mutation, arguments, whose, expected) in CELLS {
                let announced = own.announced(actor, field, *whose).await;
                let outcome = own.world.outcome(mutation, &own.arguments(arguments, *whose)).await;
                let cell = format!("{name} by {by:?}: {mutation} of {whose:?}");
                assert_eq!(outcome, expected[column], "{cell}");
                assert_eq!(announced, outcome == DONE, "{cell}: {field}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_token_with_fewer_scopes_than_its_user_changes_nothing() {
    let app = start().await;
    let cases: [(Role, &str, &[Scope]); 4] = [
        (Role::Owner, "owner", &[Scope::Ingest, Scope::Read]),
        (Role::Admin, "admin", &[Scope::Read]),
        (Role::Member, "member", &[Scope::Read]),
        (Role::Member, "reporter", &[Scope::Ingest]),
    ];
    for (role, name, scopes) in cases {
        let own = OwnWorld::of(&app, role, name, By::ApiToken).await;
        let token = app.token_of(&format!("actor-of-{}", own.world.slug), &own.world.slug, scopes).await;
        let narrow = app.bearer(token, None);
        let world = World { actor: narrow, ..own.world };
        let own = OwnWorld { world, ..own };
        for (field, mutation, arguments, whose, _) in CELLS {
            let outcome = own.world.outcome(mutation, &own.arguments(arguments, *whose)).await;
            // Without `read`, no field is queried.
            let is_reader = scopes.contains(&Scope::Read);
            assert_eq!(outcome, if is_reader { FORBIDDEN } else { "MISSING_SCOPE" }, "{name}: {mutation}");
            if is_reader {
                assert!(!own.announced(&own.world.actor, field, *whose).await, "{name}: {field}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_members_token_can_never_do_more_than_the_member() {
    let app = start().await;
    let own = OwnWorld::of(&app, Role::Member, "granting", By::ApiToken).await;
    let (actor, slug) = (&own.world.actor, own.world.slug.as_str());
    // No scope beyond the role, no other user, and no token from a narrower one.
    for (input, expected) in [
        ("scopes: [READ, ADMIN]", "SCOPE_NOT_HELD"),
        ("scopes: []", "NO_SCOPE"),
        ("scopes: [READ], user: <OWNER>", FORBIDDEN),
        ("scopes: [READ], user: <TARGET>", FORBIDDEN),
        ("scopes: [INGEST, READ]", DONE),
    ] {
        let arguments = format!("(input: {{ {input} }}) {{ userErrors {{ code }} }}");
        assert_eq!(own.world.outcome("createToken", &arguments).await, expected, "{input}");
    }
    let short = "mutation { createToken(input: { scopes: [INGEST, READ], expiresAt: \"2026-11-20T13:00:00Z\" }) { secret } }";
    let short = actor.query(short, json!({})).await["createToken"]["secret"].as_str().unwrap().to_owned();
    let short = app.bearer(short, None);
    let create = "mutation { createToken(input: { scopes: [READ], expiresAt: \"2026-11-20T13:00:01Z\" }) { userErrors { code } } }";
    assert_eq!(
        short.query(create, json!({})).await["createToken"]["userErrors"],
        json!([{ "code": "OUTLIVES_OWN" }])
    );
    // It changes what its user may change, as long as the cluster belongs to the user, and the role allows
    // it.
    let tag = "mutation($id: ID!) { setClusterTags(cluster: $id, tags: []) { userErrors { code } } }";
    let id = json!({ "id": own.world.word("OWN_CLUSTER") });
    let code = async |member: &Member| {
        let answer = member.ask(tag, id.clone()).await;
        let errors = answer["errors"][0]["extensions"]["code"].as_str();
        let code = errors.or(answer["data"]["setClusterTags"]["userErrors"][0]["code"].as_str());
        code.unwrap_or_default().to_owned()
    };
    assert_eq!(code(&short).await, DONE);
    let set_role = async |role: &str| {
        let change = format!(
            "mutation($id: ID!) {{ setMemberRole(user: $id, role: {role}) {{ userErrors {{ code }} }} }}"
        );
        own.world.owner.query(&change, json!({ "id": own.actor_id })).await;
    };
    set_role("VIEWER").await;
    assert_eq!(code(&short).await, FORBIDDEN, "the role does not allow it any more");
    set_role("MEMBER").await;
    assert_eq!(code(&short).await, DONE);
    // Attempts at one action are recorded once a minute.
    app.set_clock("2026-11-20T12:05:00Z");
    let hand_over = "mutation($cluster: ID!, $user: ID!) {
        handOverCluster(input: { clusterId: $cluster, userId: $user }) { userErrors { message } } }";
    let to_owner = json!({ "cluster": id["id"], "user": own.world.word("OWNER") });
    own.world.owner.query(hand_over, to_owner).await;
    assert_eq!(code(&short).await, FORBIDDEN, "the cluster belongs to somebody else");
    let announced = own.announced(&short, "ErrorGroup.viewerCanTriage", Own).await;
    assert!(!announced, "and so does the error on it");
    // The attempts are recorded with their author and their target.
    let log = "{ viewer { account { id auditLog(filter: { action: SET_CLUSTER_TAGS, outcome: REFUSED }) {
        nodes { userName target { kind id } detail } } } } }";
    let account = own.world.owner.query(log, json!({})).await["viewer"]["account"].take();
    let reason = "it belongs to another user: only owners and admins of the account can change it";
    let refused = |kind: &str, id: &Value, detail: Value| json!({ "userName": format!("actor-of-{slug}"), "target": { "kind": kind, "id": id }, "detail": detail });
    let expected = json!([
        refused("CLUSTER", &id["id"], json!({ "reasons": [reason] })),
        refused("ACCOUNT", &account["id"], json!({ "missing_scope": "admin" })),
    ]);
    assert_eq!(account["auditLog"]["nodes"], expected);
    app.stop().await;
}

#[tokio::test]
async fn of_several_changes_each_has_its_own_outcome() {
    let app = start().await;
    let own = OwnWorld::of(&app, Role::Member, "several", By::ApiToken).await;
    let several = "mutation($own: ID!, $other: ID!) {
        first: setClusterTags(cluster: $own, tags: [{ key: \"one\" }]) { ...Changed }
        second: setClusterTags(cluster: $other, tags: [{ key: \"two\" }]) { ...Changed }
        third: setClusterTags(cluster: $own, tags: [{ key: \"three\" }]) { ...Changed } }
        fragment Changed on ClusterPayload { cluster { tags { key } } userErrors { field code message } }";
    let ids = json!({ "own": own.world.word("OWN_CLUSTER"), "other": own.world.word("OTHERS_CLUSTER") });
    let message = "it belongs to another user: only owners and admins of the account can change it";
    let expected = json!({
        "first": { "cluster": { "tags": [{ "key": "one" }] }, "userErrors": [] },
        "second": { "cluster": { "tags": [] },
            "userErrors": [{ "field": "cluster", "code": FORBIDDEN, "message": message }] },
        "third": { "cluster": { "tags": [{ "key": "three" }] }, "userErrors": [] },
    });
    assert_eq!(own.world.actor.query(several, ids).await, expected);
    app.stop().await;
}

#[tokio::test]
async fn the_coiled_client_of_a_member_stops_their_own_clusters() {
    let app = start().await;
    for (role, name, expected) in [
        (Role::Admin, "admin", [200, 200]),
        (Role::Member, "member", [200, 403]),
        (Role::Viewer, "viewer", [403, 403]),
    ] {
        let own = OwnWorld::of(&app, role, &format!("coiled-{name}"), By::ApiToken).await;
        let number = |word: &str| {
            let query = "query($id: ID!) { cluster(id: $id) { number desiredState } }";
            own.world.owner.query(query, json!({ "id": own.world.word(word) }))
        };
        for (word, expected) in ["OWN_CLUSTER", "OTHERS_CLUSTER"].into_iter().zip(expected) {
            let id = number(word).await["cluster"]["number"].clone();
            let path = format!("/api/v2/clusters/account/{}/id/{}", own.world.slug, id);
            let response = own.world.actor.request(Method::DELETE, &path).send().await.unwrap();
            assert_eq!(response.status(), expected, "{name}: {word}");
            let state = if expected == 200 { "STOPPED" } else { "RUNNING" };
            assert_eq!(number(word).await["cluster"]["desiredState"], state, "{name}: {word}");
        }
    }
    app.stop().await;
}
