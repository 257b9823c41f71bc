//! Invitations: shown once, and accepted once by the invited user only.

use entity::membership::Role;
use galvo::domain::access::{Grant, NewInvitation};
use harness::{Browser, Member, SigningKey, TestApp, claims, shared_jwt_config};
use reqwest::StatusCode;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

const INVITE: &str = "mutation($input: InviteMemberInput!) { result: inviteMember(input: $input) {
    secret invitation { identifier name label role until createdAt expiresAt isOpen invitedBy { name } }
    userErrors { field code } } }";

const REVOKE: &str = "mutation($identifier: String!) { result: revokeInvitation(identifier: $identifier) {
    invitation { revokedAt acceptedAt isOpen } userErrors { field code } } }";

const ACCEPT: &str = "mutation($secret: String!) { result: acceptInvitation(secret: $secret) {
    membership { slug role until isDefault } userErrors { field code message } } }";

const LIST: &str = "{ viewer { account { invitations { totalCount
    nodes { identifier label isOpen acceptedBy { name } acceptedAt revokedAt } } } } }";

async fn result(member: &Member, query: &str, variables: Value) -> Value {
    member.query(query, variables).await["result"].take()
}

async fn invite(member: &Member, input: Value) -> String {
    let made = result(member, INVITE, json!({ "input": input })).await;
    assert_eq!(made["userErrors"], json!([]), "{made}");
    made["secret"].as_str().unwrap().to_owned()
}

async fn accept(member: &Member, secret: &str) -> Value {
    result(member, ACCEPT, json!({ "secret": secret })).await
}

/// The response to every invitation that is unknown, for another user, or no longer valid.
fn invalid() -> Value {
    json!({ "membership": null, "userErrors": [{ "field": "secret", "code": "INVITATION_INVALID",
        "message": "there is no such invitation, or it is for another user or no longer open" }] })
}

/// A user with an account of their own, as known to the issuer.
async fn user(app: &TestApp, name: &str) -> Member {
    app.account(name).await;
    app.link(name, name).await;
    app.bearer(SigningKey::Shared.sign(None, &claims(name)), None)
}

async fn start() -> TestApp {
    TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await
}

#[tokio::test]
async fn an_invitation_makes_a_member_once() {
    let app = start().await;
    let owner = app.account("team").await;
    let (ada, bob) = (user(&app, "ada").await, user(&app, "bob").await);
    let input = json!({ "role": "MEMBER", "label": "ada@example.com" });
    let made = result(&owner, INVITE, json!({ "input": input })).await;
    let secret = made["secret"].as_str().unwrap().to_owned();
    let identifier = secret.split('-').next().unwrap();
    let expected = json!({ "identifier": identifier, "name": null, "label": "ada@example.com", "role": "MEMBER",
        "until": null, "createdAt": "2026-11-20T12:00:00+00:00", "expiresAt": "2026-11-27T12:00:00+00:00",
        "isOpen": true, "invitedBy": { "name": "team" } });
    assert_eq!(made["invitation"], expected);
    let rows = entity::invitation::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert!(
        !format!("{rows:?}").contains(secret.split_once('-').unwrap().1),
        "the secret is stored in clear"
    );

    app.set_clock("2026-11-20T12:00:01Z");
    let half = secret[..secret.len() - 1].to_owned();
    for wrong in ["", "x", "nobody-x", identifier, &format!("{identifier}-x"), &half, &"x-".repeat(500)] {
        assert_eq!(accept(&ada, wrong).await, invalid(), "{wrong}");
    }
    let accepted = accept(&ada, &secret).await;
    let membership = json!({ "slug": "team", "role": "MEMBER", "until": null, "isDefault": false });
    assert_eq!(accepted, json!({ "membership": membership, "userErrors": [] }));
    let there = app.bearer(ada.secret().to_owned(), Some("team"));
    let data = there.query("{ viewer { account { slug } scopes } }", json!({})).await;
    assert_eq!(data["viewer"], json!({ "account": { "slug": "team" }, "scopes": ["INGEST", "READ"] }));
    for member in [&ada, &bob] {
        assert_eq!(accept(member, &secret).await, invalid(), "it was used");
    }
    let listed = owner.query(LIST, json!({})).await["viewer"]["account"]["invitations"].take();
    let node = json!({ "identifier": identifier, "label": "ada@example.com", "isOpen": false,
        "acceptedBy": { "name": "ada" }, "acceptedAt": "2026-11-20T12:00:01+00:00", "revokedAt": null });
    assert_eq!(listed, json!({ "totalCount": 1, "nodes": [node] }));
    // A member needs no invitation, and does not use it up.
    let another = invite(&owner, json!({ "role": "ADMIN" })).await;
    let refused = accept(&ada, &another).await;
    assert_eq!(refused["userErrors"][0]["code"], "ALREADY_MEMBER");
    assert_eq!(accept(&bob, &another).await["membership"]["role"], "ADMIN");
    app.stop().await;
}

#[tokio::test]
async fn of_several_who_show_it_at_once_one_comes_in() {
    let app = start().await;
    let owner = app.account("team").await;
    let mut users = Vec::new();
    for number in 0..6 {
        users.push(user(&app, &format!("user-{number}")).await);
    }
    let secret = invite(&owner, json!({ "role": "VIEWER" })).await;
    let all = futures::future::join_all(users.iter().map(|user| accept(user, &secret))).await;
    let came_in = all.iter().filter(|answer| answer["membership"]["slug"] == "team").count();
    assert_eq!(came_in, 1, "{all:?}");
    assert_eq!(all.iter().filter(|answer| **answer == invalid()).count(), 5, "{all:?}");
    app.stop().await;
}

#[tokio::test]
async fn an_invitation_that_has_ended_in_any_way_is_none() {
    let app = start().await;
    let owner = app.account("team").await;
    app.join("carl", "team", Role::Admin, None).await;
    app.link("carl", "carl").await;
    let carl = app.bearer(SigningKey::Shared.sign(None, &claims("carl")), None);
    let ada = user(&app, "ada").await;
    // For another user.
    let for_bob = invite(&owner, json!({ "name": "bob", "role": "VIEWER" })).await;
    assert_eq!(accept(&ada, &for_bob).await, invalid());
    // Revoked.
    let revoked = invite(&owner, json!({ "role": "VIEWER" })).await;
    let identifier = json!({ "identifier": revoked.split('-').next().unwrap() });
    let ended = json!({ "revokedAt": "2026-11-20T12:00:00+00:00", "acceptedAt": null, "isOpen": false });
    let expected = json!({ "invitation": ended, "userErrors": [] });
    assert_eq!(result(&carl, REVOKE, identifier.clone()).await, expected);
    assert_eq!(result(&owner, REVOKE, identifier).await, expected, "again changes nothing");
    assert_eq!(accept(&ada, &revoked).await, invalid());
    // Expired.
    let input = json!({ "role": "VIEWER", "expiresAt": "2026-11-20T12:01:00Z" });
    let short = invite(&owner, input).await;
    // For a guest whose membership would end before the invitation is accepted.
    let guest = invite(&owner, json!({ "role": "GUEST", "until": "2026-11-20T12:01:00Z" })).await;
    app.set_clock("2026-11-20T12:01:00Z");
    assert_eq!(accept(&ada, &short).await, invalid());
    assert_eq!(accept(&ada, &guest).await, invalid());
    // From a member who lost the right to invite with this role.
    let by_carl = invite(&carl, json!({ "role": "VIEWER" })).await;
    let (accounts, team, name) = (app.accounts(), "team".parse().unwrap(), "carl".parse().unwrap());
    let demoted = Grant { role: Role::Member, ends_at: None };
    accounts.change_user(&name, &team, Some(demoted)).await.unwrap();
    assert_eq!(accept(&ada, &by_carl).await, invalid());
    let restored = Grant { role: Role::Admin, ends_at: None };
    accounts.change_user(&name, &team, Some(restored)).await.unwrap();
    assert_eq!(accept(&ada, &by_carl).await["membership"]["slug"], "team");
    app.stop().await;
}

#[tokio::test]
async fn nobody_invites_to_more_than_they_have() {
    let app = start().await;
    let owner = app.account("team").await;
    let tokens = async |role: Role, name: &str| {
        app.join(name, "team", role, None).await;
        app.link(name, name).await;
        app.bearer(SigningKey::Shared.sign(None, &claims(name)), None)
    };
    let (carl, dora) = (tokens(Role::Admin, "carl").await, tokens(Role::Member, "dora").await);
    for (by, input, wrong) in [
        (&carl, json!({ "role": "OWNER" }), json!([["role", "ABOVE_OWN_ROLE"]])),
        (&owner, json!({ "role": "GUEST" }), json!([["until", "END_MISSING"]])),
        (
            &owner,
            json!({ "role": "VIEWER", "until": "2026-12-01T00:00:00Z" }),
            json!([["until", "END_NOT_ALLOWED"]]),
        ),
        (&owner, json!({ "role": "VIEWER", "name": "Not a name" }), json!([["name", "NAME_INVALID"]])),
        (
            &owner,
            json!({ "role": "VIEWER", "label": "x".repeat(201), "expiresAt": "2026-11-20T12:00:00Z" }),
            json!([["label", "LABEL_INVALID"], ["expiresAt", "EXPIRED"]]),
        ),
        (
            &owner,
            json!({ "role": "VIEWER", "expiresAt": "2026-12-20T12:00:01Z" }),
            json!([["expiresAt", "TOO_LATE"]]),
        ),
    ] {
        let refused = result(by, INVITE, json!({ "input": input })).await;
        assert!(refused["secret"].is_null() && refused["invitation"].is_null(), "{input}: {refused}");
        let errors = refused["userErrors"].as_array().unwrap().iter();
        let errors = json!(errors.map(|error| json!([error["field"], error["code"]])).collect::<Vec<_>>());
        assert_eq!(errors, wrong, "{input}");
    }
    let of_owner = invite(&owner, json!({ "role": "OWNER" })).await;
    let identifier = json!({ "identifier": of_owner.split('-').next().unwrap() });
    let refused = result(&carl, REVOKE, identifier.clone()).await;
    assert_eq!(refused["userErrors"], json!([{ "field": "identifier", "code": "ABOVE_OWN_ROLE" }]));
    for (query, variables) in [(INVITE, json!({ "input": { "role": "VIEWER" } })), (REVOKE, identifier)] {
        let answer = dora.ask(query, variables).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
    }
    let answer = dora.ask(LIST, json!({})).await;
    assert_eq!(answer["data"]["viewer"]["account"]["invitations"], Value::Null);
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
    for nothing in ["nobody", "", "x-y", "a\u{0}b", &"x".repeat(100)] {
        let answer = owner.ask(REVOKE, json!({ "identifier": nothing })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_FOUND", "{nothing}: {answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_guest_who_is_invited_again_comes_back() {
    let app = start().await;
    let owner = app.account("team").await;
    let ada = user(&app, "ada").await;
    app.set_clock("2026-11-20T12:00:01Z");
    let first = invite(&owner, json!({ "role": "GUEST", "until": "2026-11-20T12:01:00Z" })).await;
    assert_eq!(accept(&ada, &first).await["membership"]["until"], "2026-11-20T12:01:00+00:00");
    app.set_clock("2026-11-20T12:01:00Z");
    let again =
        invite(&owner, json!({ "role": "GUEST", "until": "2026-11-20T12:03:00Z", "name": "ada" })).await;
    let expected =
        json!({ "slug": "team", "role": "GUEST", "until": "2026-11-20T12:03:00+00:00", "isDefault": false });
    assert_eq!(accept(&ada, &again).await, json!({ "membership": expected, "userErrors": [] }));
    // An operator's invitation has no inviting member.
    let wish = NewInvitation {
        name: None,
        label: String::new(),
        grant: Grant { role: Role::Owner, ends_at: None },
        expires_at: None,
    };
    let by_operator = app.accounts().invite(&"team".parse().unwrap(), wish).await.unwrap().reveal();
    let bob = user(&app, "bob").await;
    assert_eq!(accept(&bob, &by_operator).await["membership"]["role"], "OWNER");
    app.stop().await;
}

const PAGE: &str = "/sign-in/invitation";

#[tokio::test]
async fn an_invitation_is_accepted_on_a_page() {
    let app = TestApp::start().await;
    let owner = app.account("team").await;
    let ada = app.account("ada").await;
    let secret = invite(&owner, json!({ "role": "MEMBER", "name": "ada" })).await;
    // Without a session the page leads to the sign-in page and back, and its form does as well.
    let stranger = Browser::new(&app);
    let back = "/sign-in?return_to=%2Fsign-in%2Finvitation";
    let page = stranger.open(PAGE).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.html.contains(&format!("<a href=\"{back}\">Sign in</a>")), "{}", page.html);
    let sent = stranger.submit(PAGE, &[("secret", &secret)]).await;
    assert_eq!((sent.status, sent.location.as_deref()), (StatusCode::SEE_OTHER, Some(back)));

    let browser = app.browser(&ada).await;
    let page = browser.open(PAGE).await;
    assert!(page.html.contains("You are signed in as ada."), "{}", page.html);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    // Neither a form of another page nor one of another site is accepted.
    assert_eq!(browser.submit(PAGE, &[("secret", &secret)]).await.status, StatusCode::FORBIDDEN);
    let csrf = browser.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("secret", secret.as_str())];
    let foreign = browser.submit_from("https://evil.example", PAGE, &fields).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    let error = async |browser: &Browser, secret: &str| {
        let csrf = browser.csrf().await;
        let page = browser.submit(PAGE, &[("csrf", &csrf), ("secret", secret)]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.html.split_once("Error: ").unwrap().1.split_once(".<").unwrap().0.to_owned()
    };
    let invalid = "there is no such invitation, or it is for another user or no longer open";
    for wrong in ["", "wrong", &secret.replace('-', "_"), "<script>"] {
        assert_eq!(error(&browser, wrong).await, invalid);
    }
    // It is for ada alone.
    let bob = app.account("bob").await;
    assert_eq!(error(&app.browser(&bob).await, &secret).await, invalid);

    let page = browser.submit(PAGE, &fields).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(page.html.contains("You are a member of the account <strong>team</strong> now."));
    let members =
        owner.query("{ viewer { account { members { nodes { user { name } role } } } } }", json!({}));
    let members = members.await["viewer"]["account"]["members"]["nodes"].take();
    assert!(members.as_array().unwrap().contains(&json!({ "user": { "name": "ada" }, "role": "MEMBER" })));
    let audit = "{ viewer { account { auditLog(first: 1) { nodes { action credential userName } } } } }";
    let entry = owner.query(audit, json!({})).await["viewer"]["account"]["auditLog"]["nodes"][0].take();
    assert_eq!(entry, json!({ "action": "ACCEPT_INVITATION", "credential": "SESSION", "userName": "ada" }));
    // Once only.
    assert_eq!(error(&browser, &secret).await, invalid);
    let again = invite(&owner, json!({ "role": "ADMIN" })).await;
    assert_eq!(error(&browser, &again).await, "you are a member of the account already");
    app.stop().await;
}
