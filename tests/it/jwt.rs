//! JWTs: accepted and rejected tokens, and the claims that are used.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::membership::Role;
use galvo::config::{JwksRefresh, JwksSource, JwtConfig, Provision};
use harness::{
    ISSUER, KeyServer, Member, ReportBuilder, SHARED_SECRET, SigningKey, TestApp, claims, jwt_config,
    key_set, shared_jwt_config,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, header};
use serde_json::{Value, json};

const WHO: &str = "{ viewer { user { name } account { slug } scopes } }";

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

async fn who(member: &Member) -> Value {
    member.query(WHO, json!({})).await["viewer"].take()
}

fn is(name: &str, account: &str, scopes: &[&str]) -> Value {
    json!({ "user": { "name": name }, "account": { "slug": account }, "scopes": scopes })
}

async fn start(config: JwtConfig) -> TestApp {
    TestApp::start_with(|serve| serve.jwt = Some(config)).await
}

fn refused() -> (u16, String) {
    (401, "UNAUTHENTICATED".to_owned())
}

fn no_account() -> (u16, String) {
    (403, "ACCOUNT_MISMATCH".to_owned())
}

fn fine() -> (u16, String) {
    (200, String::new())
}

#[tokio::test]
async fn a_jwt_stands_for_the_user_whom_its_issuer_means() {
    let app = start(shared_jwt_config()).await;
    let ada = app.account("ada").await;
    let sign = |claims: &Value| app.bearer(SigningKey::Shared.sign(None, claims), None);
    let jwt = sign(&claims("auth0|1"));
    assert_eq!(jwt.status().await, no_account(), "nobody is known by that name");
    assert_eq!(sign(&claims("ada")).status().await, no_account(), "and by its own name neither");
    app.link("ada", "auth0|1").await;
    assert_eq!(who(&jwt).await, is("ada", "ada", &["INGEST", "READ", "ADMIN"]));
    let number = jwt.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let owner = "query($id: ID!) { cluster(id: $id) { user { name } } }";
    let cluster = json!({ "id": number.to_string() });
    assert_eq!(ada.query(owner, cluster).await["cluster"]["user"]["name"], "ada");

    // The scope claim, the role, and the scopes permitted by both.
    for (number, (role, scope, scopes)) in [
        (Role::Owner, json!("read"), &["READ"][..]),
        (Role::Owner, json!("openid galvo:ingest galvo:admin"), &["INGEST", "ADMIN"]),
        (Role::Owner, json!("openid email"), &["INGEST", "READ", "ADMIN"]),
        (Role::Viewer, json!("ingest read admin"), &["READ"]),
        (Role::Member, json!("read admin"), &["READ"]),
        (Role::Viewer, json!("ingest"), &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, subject) = (format!("user-{number}"), format!("{role:?}: {scope}"));
        app.join(&name, "ada", role, None).await;
        app.link(&name, &subject).await;
        let jwt = sign(&with(claims(&subject), "scope", scope.clone()));
        if scopes.contains(&"READ") {
            assert_eq!(who(&jwt).await, is(&name, "ada", scopes), "{subject}");
        } else {
            assert_eq!(jwt.status().await, (403, "MISSING_SCOPE".to_owned()), "{subject}");
        }
        let (status, _) = jwt.report(&ReportBuilder::new(&subject, 1).build()).await;
        assert_eq!(status == 200, scopes.contains(&"INGEST"), "{subject}");
    }

    // A token created with a JWT expires no later than that, and the removal of a member takes effect
    // immediately.
    let create = "mutation($end: DateTime) { createToken(input: { scopes: [READ], expiresAt: $end }) {
        token { expiresAt } userErrors { code } } }";
    let made = jwt.query(create, json!({})).await["createToken"].take();
    assert_eq!(made, json!({ "token": null, "userErrors": [{ "code": "OUTLIVES_OWN" }] }));
    let end = "2026-11-20T12:05:30+00:00";
    let made = jwt.query(create, json!({ "end": end })).await["createToken"].take();
    assert_eq!(made, json!({ "token": { "expiresAt": end }, "userErrors": [] }));
    app.join("eve", "ada", Role::Admin, None).await;
    app.link("eve", "eve").await;
    let eve = sign(&claims("eve"));
    let user = eve.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    ada.query(remove, json!({ "user": user })).await;
    assert_eq!(eve.status().await, no_account());
    app.stop().await;
}

/// A token assembled by hand from header, claims and signature.
fn forged(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}.{}", encode(header), encode(claims), URL_SAFE_NO_PAD.encode(signature))
}

/// Invalid tokens with their fault. The server knows the keys `rsa`, `ec` and `ed`.
fn wrong(good: &Value) -> Vec<(&'static str, String)> {
    let good = good.clone();
    let rsa = |claims: &Value| SigningKey::Rsa.sign(Some("rsa"), claims);
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        rsa(&claims)
    };
    let head = |kid: &str, change: &dyn Fn(&mut Header)| {
        let mut header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::RS256) };
        change(&mut header);
        SigningKey::Rsa.sign_with(&header, &good)
    };
    // The public RSA key, in every form in which an attacker may have it, used as the secret of HS256.
    let public = SigningKey::Rsa.public("rsa");
    let modulus = URL_SAFE_NO_PAD.decode(public["n"].as_str().unwrap()).unwrap();
    let confused = |secret: &[u8], kid: Option<&str>| {
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::HS256) };
        encode(&header, &good, &EncodingKey::from_secret(secret)).unwrap()
    };
    let token = rsa(&good);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let mut cut = signature.to_owned();
    cut.pop();
    let none = |alg: &str| forged(&json!({ "alg": alg, "typ": "JWT" }), &good, b"");
    vec![
        ("expired", rsa(&with(good.clone(), "exp", json!(1_795_175_940)))),
        ("not yet", rsa(&with(good.clone(), "nbf", json!(1_795_176_061)))),
        ("made in the future", rsa(&with(good.clone(), "iat", json!(1_795_176_061)))),
        ("for ever", without("exp")),
        ("until some day", rsa(&with(good.clone(), "exp", json!("2027-01-01")))),
        ("another issuer", rsa(&with(good.clone(), "iss", json!("https://login.example.com")))),
        ("two issuers", rsa(&with(good.clone(), "iss", json!([ISSUER, "https://evil.example.com"])))),
        ("no issuer", without("iss")),
        ("another audience", rsa(&with(good.clone(), "aud", json!("galvo.example.com")))),
        ("no audience", without("aud")),
        ("nobody", without("sub")),
        ("a number", rsa(&with(good.clone(), "sub", json!(1)))),
        ("another key", SigningKey::OtherRsa.sign(Some("rsa"), &good)),
        ("another key without a name", SigningKey::OtherRsa.sign(None, &good)),
        ("a key of another kind", SigningKey::Rsa.sign(Some("ec"), &good)),
        ("an unknown key", SigningKey::Rsa.sign(Some("other"), &good)),
        ("a key that is a path", SigningKey::Rsa.sign(Some("../../dev/null"), &good)),
        ("a key that is a query", SigningKey::Rsa.sign(Some("' OR '1'='1"), &good)),
        ("a key with an empty name", SigningKey::Rsa.sign(Some(""), &good)),
        ("a key with a long name", SigningKey::Rsa.sign(Some(&"k".repeat(3_000)), &good)),
        ("a stronger hash", head("rsa", &|header| header.alg = Algorithm::RS512)),
        ("another padding", head("rsa", &|header| header.alg = Algorithm::PS256)),
        ("what must be understood", head("rsa", &|header| header.crit = Some(vec!["exp".to_owned()]))),
        (
            "a key it brings along",
            SigningKey::OtherRsa.sign_with(
                &Header {
                    jwk: serde_json::from_value(SigningKey::OtherRsa.public("mine")).unwrap(),
                    jku: Some("https://evil.example.com/keys".to_owned()),
                    kid: Some("mine".to_owned()),
                    ..Header::new(Algorithm::RS256)
                },
                &good,
            ),
        ),
        ("no algorithm", none("none")),
        ("no algorithm in another case", none("None")),
        ("an empty algorithm", none("")),
        ("the public key as a secret", confused(&modulus, None)),
        ("the public key as a secret, by its name", confused(&modulus, Some("rsa"))),
        ("its JSON as a secret", confused(public.to_string().as_bytes(), Some("rsa"))),
        ("another secret", confused(b"another secret of thirty-two bytes..", None)),
        (
            "HS384",
            encode(&Header::new(Algorithm::HS384), &good, &EncodingKey::from_secret(SHARED_SECRET)).unwrap(),
        ),
        ("no signature", format!("{signed}.")),
        ("no signature and no dot", signed.to_owned()),
        ("a shorter signature", format!("{signed}.{cut}")),
        ("a fourth part", format!("{token}.x")),
        ("padding", format!("{token}==")),
        ("other claims", {
            let (header, _) = signed.split_once('.').unwrap();
            let claims = URL_SAFE_NO_PAD.encode(with(good.clone(), "sub", json!("2")).to_string());
            format!("{header}.{claims}.{signature}")
        }),
        ("no JSON", format!("{}.{}.{signature}", URL_SAFE_NO_PAD.encode("{"), URL_SAFE_NO_PAD.encode("{"))),
        ("dots", "..".to_owned()),
        ("one dot", ".".to_owned()),
        ("more than is looked at", rsa(&with(good.clone(), "more", json!("x".repeat(8_000))))),
    ]
}

#[tokio::test]
async fn what_is_not_as_it_should_be_is_refused() {
    let keys = key_set(&[(SigningKey::Rsa, "rsa"), (SigningKey::Ec, "ec"), (SigningKey::Ed, "ed")]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), keys.to_string()).unwrap();
    let config = JwtConfig { jwks: Some(JwksSource::File(file.path().to_owned())), ..shared_jwt_config() };
    let app = start(config).await;
    app.account("ada").await;
    app.link("ada", "1").await;
    let good = claims("1");
    let rsa = |claims: &Value| SigningKey::Rsa.sign(Some("rsa"), claims);
    for token in [
        rsa(&good),
        SigningKey::Rsa.sign(None, &good),
        SigningKey::Ec.sign(Some("ec"), &good),
        SigningKey::Ed.sign(Some("ed"), &good),
        SigningKey::Shared.sign(None, &good),
        rsa(&with(good.clone(), "aud", json!(["other", "galvo"]))),
        rsa(&with(good.clone(), "exp", json!(1_795_175_941))),
        rsa(&with(good.clone(), "nbf", json!(1_795_176_060))),
        rsa(&with(good.clone(), "iat", json!(1_795_176_060))),
    ] {
        assert_eq!(app.bearer(token.clone(), None).status().await, fine(), "{token}");
    }

    for (what, token) in wrong(&good) {
        assert_eq!(app.bearer(token, None).status().await, refused(), "{what}");
    }
    // All rejections have the same response.
    let text = async |token: &str| {
        let request = app.bearer(token.to_owned(), None).request(Method::POST, "/graphql");
        request.json(&json!({ "query": WHO })).send().await.unwrap().text().await.unwrap()
    };
    let none = forged(&json!({ "alg": "none", "typ": "JWT" }), &good, b"");
    assert_eq!(text(&none).await, text("nobody-x").await);
    assert_eq!(text(&SigningKey::OtherRsa.sign(Some("rsa"), &good)).await, text("nobody-x").await);

    let token = rsa(&good);
    let post = || app.anonymous(Method::POST, "/graphql").json(&json!({ "query": WHO }));
    let long = post().bearer_auth("x".repeat(1 << 20)).send().await.unwrap();
    assert_eq!(long.status(), 431, "a megabyte is not read");
    for second in [format!("Bearer {token}"), "Bearer x-y".to_owned()] {
        let twice = post().bearer_auth(&token).header(header::AUTHORIZATION, second).send().await.unwrap();
        assert_eq!(twice.status(), 401);
        let body: Value = twice.json().await.unwrap();
        assert_eq!(body["errors"][0]["extensions"]["code"], "UNAUTHENTICATED");
    }
    let named_twice =
        post().bearer_auth(&token).header("Galvo-Account", "ada").header("Galvo-Account", "ada");
    assert_eq!(named_twice.send().await.unwrap().status(), 400);
    app.stop().await;
}

#[tokio::test]
async fn without_an_issuer_no_jwt_is_believed() {
    let app = TestApp::start().await;
    app.account("ada").await;
    app.link("ada", "1").await;
    for key in [SigningKey::Shared, SigningKey::Rsa] {
        assert_eq!(app.bearer(key.sign(None, &claims("1")), None).status().await, refused());
    }
    app.stop().await;
    // With a key set only, there is no secret, and the empty string is not accepted as one.
    let server = KeyServer::start(&key_set(&[(SigningKey::Rsa, "1")])).await;
    let app = start(with_keys_of(&server)).await;
    app.account("ada").await;
    app.link("ada", "1").await;
    let empty = encode(&Header::default(), &claims("1"), &EncodingKey::from_secret(b"")).unwrap();
    assert_eq!(app.bearer(empty, None).status().await, refused());
    assert_eq!(app.bearer(SigningKey::Shared.sign(None, &claims("1")), None).status().await, refused());
    app.stop().await;
}

fn with_keys_of(server: &KeyServer) -> JwtConfig {
    JwtConfig { jwks: Some(server.url().parse().unwrap()), ..jwt_config() }
}

#[tokio::test]
async fn keys_are_rotated_while_the_server_runs() {
    let server = KeyServer::start(&key_set(&[(SigningKey::Rsa, "1")])).await;
    let app = start(with_keys_of(&server)).await;
    app.account("ada").await;
    app.link("ada", "1").await;
    let status =
        async |key: SigningKey, id: &str| app.bearer(key.sign(Some(id), &claims("1")), None).status().await;
    assert_eq!(status(SigningKey::Rsa, "1").await, fine());
    assert_eq!(server.request_count(), 1, "at the start");
    // A new key is fetched when a token first names it. The old one is valid while the issuer publishes
    // it.
    server.answer(200, key_set(&[(SigningKey::Rsa, "1"), (SigningKey::OtherRsa, "2")]).to_string());
    assert_eq!(status(SigningKey::OtherRsa, "2").await, fine());
    assert_eq!((status(SigningKey::Rsa, "1").await, server.request_count()), (fine(), 2));
    server.answer(200, key_set(&[(SigningKey::OtherRsa, "2")]).to_string());
    assert_eq!(status(SigningKey::Ec, "3").await, refused(), "looked for, and not found");
    assert_eq!(
        (status(SigningKey::OtherRsa, "2").await, status(SigningKey::Rsa, "1").await),
        (fine(), refused())
    );
    // An unreadable key set changes nothing.
    for (code, body) in [
        (500, key_set(&[(SigningKey::Rsa, "1")]).to_string()),
        (302, key_set(&[(SigningKey::Rsa, "1")]).to_string()),
        (200, "<html>".to_owned()),
        (200, json!({ "keys": "none" }).to_string()),
        (200, json!({ "keys": [], "more": "x".repeat(300_000) }).to_string()),
    ] {
        server.answer(code, body);
        let fetches_before = server.request_count();
        assert_eq!(status(SigningKey::Rsa, "1").await, refused(), "{code}");
        assert_eq!(server.request_count(), fetches_before + 1, "{code}");
        assert_eq!(status(SigningKey::OtherRsa, "2").await, fine(), "{code}");
    }
    // A readable key set without keys invalidates all of them.
    server.answer(200, json!({ "keys": [] }).to_string());
    assert_eq!(status(SigningKey::Rsa, "1").await, refused());
    assert_eq!(status(SigningKey::OtherRsa, "2").await, refused());
    app.stop().await;
}

#[tokio::test]
async fn an_unknown_key_is_fetched_once_for_any_number_of_requests() {
    let server = KeyServer::start(&key_set(&[])).await;
    let mut config = with_keys_of(&server);
    config.jwks_timing.min_refresh_interval = Duration::from_mins(5);
    let app = start(config).await;
    app.account("ada").await;
    app.link("ada", "1").await;
    server.answer(200, key_set(&[(SigningKey::Ed, "1")]).to_string());
    let jwt = app.bearer(SigningKey::Ed.sign(Some("1"), &claims("1")), None);
    // A busy machine has no connection to the database for all of them in time, and responds with 503.
    let final_status = || async {
        loop {
            let status = jwt.status().await;
            if status.0 != 503 {
                return status;
            }
        }
    };
    let all = futures::future::join_all((0..40).map(|_| final_status())).await;
    assert!(all.iter().all(|status| *status == fine()), "{all:?}");
    assert_eq!(server.request_count(), 2, "at the start, and once");
    for id in ["2", "3", "4"] {
        assert_eq!(app.bearer(SigningKey::Ed.sign(Some(id), &claims("1")), None).status().await, refused());
    }
    assert_eq!(server.request_count(), 2, "not again so soon");
    app.stop().await;
}

#[tokio::test]
async fn a_key_that_was_withdrawn_is_forgotten_by_and_by() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |keys: &Value| std::fs::write(file.path(), keys.to_string()).unwrap();
    write(&key_set(&[(SigningKey::Rsa, "1")]));
    let timing = JwksRefresh {
        refresh_interval: Duration::from_millis(20),
        min_refresh_interval: Duration::from_mins(5),
    };
    let config = JwtConfig {
        jwks: Some(JwksSource::File(file.path().to_owned())),
        jwks_timing: timing,
        ..jwt_config()
    };
    let app = start(config).await;
    app.account("ada").await;
    app.link("ada", "1").await;
    let jwt = app.bearer(SigningKey::Rsa.sign(Some("1"), &claims("1")), None);
    assert_eq!(jwt.status().await, fine());
    write(&key_set(&[(SigningKey::OtherRsa, "1")]));
    while jwt.status().await == fine() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(jwt.status().await, refused());
    app.stop().await;
}

#[tokio::test]
async fn claims_name_the_accounts_and_the_role() {
    let mut config = shared_jwt_config();
    config.claims.user = "/user/id".parse().unwrap();
    config.claims.accounts = Some("accounts".parse().unwrap());
    config.claims.role = Some("/realm_access/roles".parse().unwrap());
    let app = start(config).await;
    app.account("ada").await;
    app.account("lab").await;
    app.account("secret").await;
    for account in ["lab", "secret"] {
        app.join("ada", account, Role::Owner, None).await;
    }
    app.link("ada", "1").await;
    let jwt = |accounts: Value, roles: Value, requested_account: Option<&str>| {
        let mut claims = claims("somebody else");
        claims["user"] = json!({ "id": "1" });
        claims["accounts"] = accounts;
        claims["realm_access"] = json!({ "roles": roles });
        app.bearer(SigningKey::Shared.sign(None, &claims), requested_account)
    };
    let all = &["INGEST", "READ", "ADMIN"][..];
    for (accounts, roles, requested_account, answer) in [
        (json!("lab"), json!(["owner"]), None, Some(("lab", all))),
        (json!(["lab", "ada"]), json!(["staff", "galvo:admin"]), None, Some(("ada", all))),
        (json!(["lab", "ada"]), json!(["viewer", "member"]), Some("lab"), Some(("lab", &all[..2]))),
        (json!(["lab", "ada"]), json!("viewer"), Some("ada"), Some(("ada", &["READ"][..]))),
        (json!(["lab", "ada"]), json!(["owner"]), Some("secret"), None),
        (json!(["lab", "ada"]), json!(["owner"]), Some("nowhere"), None),
        (json!(["lab", "ada"]), json!(["owner"]), Some("Not a slug"), None),
        (json!(["nowhere"]), json!(["owner"]), None, None),
        (json!([]), json!(["owner"]), None, None),
        (json!(null), json!(["owner"]), None, None),
        (json!("lab"), json!(["staff"]), None, None),
        (json!("lab"), json!(null), None, None),
    ] {
        let jwt = jwt(accounts.clone(), roles.clone(), requested_account);
        match answer {
            Some((account, scopes)) => {
                assert_eq!(who(&jwt).await, is("ada", account, scopes), "{accounts} {roles}");
            }
            None => assert_eq!(jwt.status().await, no_account(), "{accounts} {roles} {requested_account:?}"),
        }
    }
    // A rejection looks the same whether the account exists or not.
    let body = async |slug: &str| {
        let request = jwt(json!(["lab"]), json!("owner"), Some(slug)).request(Method::POST, "/graphql");
        request.json(&json!({ "query": WHO })).send().await.unwrap().text().await.unwrap()
    };
    assert_eq!(body("secret").await, body("nowhere").await);
    // Of the user's accounts, only those named in the claims are listed.
    let memberships = "{ viewer { memberships { slug isDefault } } }";
    let response =
        jwt(json!(["lab", "ada"]), json!("owner"), Some("lab")).query(memberships, json!({})).await;
    let expected = json!([{ "slug": "ada", "isDefault": true }, { "slug": "lab", "isDefault": false }]);
    assert_eq!(response["viewer"]["memberships"], expected);
    app.stop().await;
}

fn provision(role: Role, account: Option<&str>) -> Provision {
    Provision { role, account: account.map(|account| account.parse().unwrap()) }
}

#[tokio::test]
async fn whom_the_issuer_sends_becomes_a_member_once() {
    let mut config = shared_jwt_config();
    config.provision = Some(provision(Role::Member, Some("team")));
    let app = start(config).await;
    let owner = app.account("team").await;
    app.account("other").await;
    let jwt = |subject: &str, called: &str, requested_account: Option<&str>| {
        let claims = with(claims(subject), "preferred_username", json!(called));
        app.bearer(SigningKey::Shared.sign(None, &claims), requested_account)
    };
    // Several simultaneous requests create one user. A name that is taken or reserved is not used.
    let newcomer = jwt("1", "Team", None);
    let all = futures::future::join_all((0..10).map(|_| newcomer.status())).await;
    assert!(all.iter().all(|status| *status == fine()), "{all:?}");
    let found = who(&newcomer).await;
    let name = found["user"]["name"].as_str().unwrap().to_owned();
    assert_eq!(found, is(&name, "team", &["INGEST", "READ"]));
    assert!(name.starts_with("team-") && name.len() == "team-".len() + 6, "{name}");
    let members = "{ viewer { account { members { totalCount nodes { role user { id name } } } } } }";
    let page = owner.query(members, json!({})).await["viewer"]["account"]["members"].take();
    assert_eq!(page["totalCount"], 2);
    // A user who requests another account does not get access to it, even on the first sign-in.
    for subject in ["1", "2"] {
        assert_eq!(jwt(subject, "eve", Some("other")).status().await, no_account());
        assert_eq!(jwt(subject, "eve", Some("nowhere")).status().await, no_account());
    }
    assert_eq!(owner.query(members, json!({})).await["viewer"]["account"]["members"]["totalCount"], 2);
    // The issuer does not restore a removed member; members can.
    let user =
        page["nodes"].as_array().unwrap().iter().find(|node| node["user"]["name"] == name.as_str()).unwrap();
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    owner.query(remove, json!({ "user": user["user"]["id"] })).await;
    for _ in 0..2 {
        assert_eq!(newcomer.status().await, no_account());
    }
    let add = "mutation($name: String!) { addMember(input: { name: $name, role: VIEWER }) { userErrors { code } } }";
    owner.query(add, json!({ "name": name })).await;
    assert_eq!(who(&newcomer).await, is(&name, "team", &["READ"]));
    app.stop().await;
}

#[tokio::test]
async fn what_the_issuer_may_make_of_somebody_is_bounded() {
    let mut config = shared_jwt_config();
    config.claims.accounts = Some("accounts".parse().unwrap());
    config.claims.role = Some("role".parse().unwrap());
    config.provision = Some(provision(Role::Member, None));
    let app = start(config).await;
    let owner = app.account("team").await;
    app.account("lab").await;
    let jwt = |subject: &str, role: &str, accounts: Value, requested_account: Option<&str>| {
        let claims = with(with(claims(subject), "role", json!(role)), "accounts", accounts);
        app.bearer(SigningKey::Shared.sign(None, &claims), requested_account)
    };
    let both = json!(["team", "lab"]);
    for (subject, role, requested_account, account, stored, scopes) in [
        ("1", "owner", None, "team", "MEMBER", &["INGEST", "READ"][..]),
        ("2", "viewer", None, "team", "VIEWER", &["READ"]),
        ("3", "member", Some("lab"), "lab", "MEMBER", &["INGEST", "READ"]),
    ] {
        let jwt = jwt(subject, role, both.clone(), requested_account);
        let query = "{ viewer { account { slug } scopes memberships { slug role } } }";
        let viewer = jwt.query(query, json!({})).await["viewer"].take();
        let expected = json!({ "account": { "slug": account }, "scopes": scopes,
            "memberships": [{ "slug": account, "role": stored }] });
        assert_eq!(viewer, expected, "{subject}");
    }
    // A role claimed later limits a token's scopes, and does not change the stored role.
    assert_eq!(who(&jwt("1", "viewer", both.clone(), None)).await["scopes"], json!(["READ"]));
    assert_eq!(who(&jwt("2", "owner", both.clone(), None)).await["scopes"], json!(["READ"]));
    for (role, accounts) in [("guest", both.clone()), ("king", both), ("viewer", json!("nowhere"))] {
        assert_eq!(jwt("4", role, accounts, None).status().await, no_account(), "{role}");
    }
    let members = owner.query("{ viewer { account { members { totalCount } } } }", json!({})).await;
    assert_eq!(members["viewer"]["account"]["members"]["totalCount"], 3);
    app.stop().await;
}

#[tokio::test]
async fn limits_are_a_users_however_many_jwts_there_are() {
    let app = TestApp::start_with(|serve| {
        serve.jwt = Some(shared_jwt_config());
        serve.query_cost_per_minute = 500_000;
    })
    .await;
    app.account("ada").await;
    app.link("ada", "1").await;
    let jwt = |id: u64| {
        let claims = with(claims("1"), "jti", json!(id));
        app.bearer(SigningKey::Shared.sign(None, &claims), None)
    };
    let remaining = async |member: &Member| {
        let answer = member.query("{ rateLimit { remaining } }", json!({})).await;
        answer["rateLimit"]["remaining"]
            .as_str()
            .map_or_else(|| answer["rateLimit"]["remaining"].as_i64().unwrap(), |text| text.parse().unwrap())
    };
    let costly = "{ viewer { account { clusters(first: 100) { nodes { taskGroups(first: 100) { nodes { name } } } } } } }";
    jwt(1).query(costly, json!({})).await;
    let (one, other) = (remaining(&jwt(1)).await, remaining(&jwt(2)).await);
    assert!(one < 495_000 && other < 495_000, "{one} {other}");
    app.stop().await;
}
