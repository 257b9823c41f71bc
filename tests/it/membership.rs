//! A user in several accounts: the selection of the account, and the list of all.

use entity::{api_token::Scope, membership::Role};
use harness::{Member, SigningKey, TestApp, claims, shared_jwt_config};
use reqwest::Method;
use serde_json::{Value, json};

const MEMBERSHIPS: &str = "{ viewer { account { slug } memberships { slug name role isDefault } } }";

const SET_DEFAULT: &str = "mutation($slug: String!) { setDefaultAccount(slug: $slug) {
    memberships { slug isDefault } } }";

/// Ada is an owner of her own account, a member of the lab, and a guest of the team until 12:04.
async fn world() -> TestApp {
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    app.account("ada").await;
    app.set_clock("2026-11-20T12:00:01Z");
    for account in ["lab", "team", "other"] {
        app.account(account).await;
    }
    app.join("ada", "lab", Role::Member, None).await;
    app.set_clock("2026-11-20T12:00:02Z");
    app.join("ada", "team", Role::Guest, Some("2026-11-20T12:04:00Z")).await;
    app.link("ada", "1").await;
    app
}

fn jwt(app: &TestApp, account: Option<&str>) -> Member {
    app.bearer(SigningKey::Shared.sign(None, &claims("1")), account)
}

fn no_account() -> (u16, String) {
    (403, "ACCOUNT_MISMATCH".to_owned())
}

async fn get(member: &Member, path: &str) -> Value {
    member.request(Method::GET, path).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn a_user_opens_the_account_that_is_named_or_the_default_one() {
    let app = world().await;
    let slug = async |account: Option<&str>| {
        let data = jwt(&app, account).query(MEMBERSHIPS, json!({})).await;
        data["viewer"]["account"]["slug"].as_str().unwrap().to_owned()
    };
    // The first account while no default is set.
    assert_eq!(slug(None).await, "ada");
    for account in ["lab", "team", "ada"] {
        assert_eq!(slug(Some(account)).await, account);
    }
    for account in ["other", "nowhere", "", "Not a slug", "ada,lab"] {
        assert_eq!(jwt(&app, Some(account)).status().await, no_account(), "{account}");
    }
    let membership = |slug: &str, role: &str, default: bool| json!({ "slug": slug, "name": slug, "role": role, "isDefault": default });
    let data = jwt(&app, Some("lab")).query(MEMBERSHIPS, json!({})).await;
    let expected = [
        membership("ada", "OWNER", true),
        membership("lab", "MEMBER", false),
        membership("team", "GUEST", false),
    ];
    assert_eq!(data["viewer"]["memberships"], json!(expected));

    let set = jwt(&app, None).query(SET_DEFAULT, json!({ "slug": "team" })).await;
    let expected = json!([{ "slug": "team", "isDefault": true }, { "slug": "ada", "isDefault": false },
        { "slug": "lab", "isDefault": false }]);
    assert_eq!(set["setDefaultAccount"]["memberships"], expected);
    assert_eq!(slug(None).await, "team");
    assert_eq!(slug(Some("ada")).await, "ada");
    // The requests of the published client.
    let account = |slug: &str| json!({ "slug": slug, "name": slug });
    let me = get(&jwt(&app, Some("lab")), "/api/v2/user/me").await;
    assert_eq!(me, json!({ "username": "ada", "default_account": account("team") }));
    let memberships = get(&jwt(&app, None), "/api/v2/user/me/memberships").await;
    let expected = json!([
        { "account": account("team"), "is_admin": false, "is_default_account": true },
        { "account": account("ada"), "is_admin": true, "is_default_account": false },
        { "account": account("lab"), "is_admin": false, "is_default_account": false },
    ]);
    assert_eq!(memberships, expected);
    // A default account applies while the user is a member of it.
    app.set_clock("2026-11-20T12:04:00Z");
    assert_eq!(slug(None).await, "ada");
    assert_eq!(jwt(&app, Some("team")).status().await, no_account());
    for slug in ["team", "other", "nowhere"] {
        let answer = jwt(&app, None).ask(SET_DEFAULT, json!({ "slug": slug })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_FOUND", "{slug}: {answer}");
        assert_eq!(answer["errors"][0]["message"], "there is no such account");
    }
    let set = jwt(&app, None).query(SET_DEFAULT, json!({ "slug": "lab" })).await;
    assert_eq!(set["setDefaultAccount"]["memberships"][0], json!({ "slug": "lab", "isDefault": true }));
    app.accounts().change_user(&"ada".parse().unwrap(), &"lab".parse().unwrap(), None).await.unwrap();
    assert_eq!(slug(None).await, "ada");
    app.stop().await;
}

#[tokio::test]
async fn a_token_opens_its_own_account_and_reveals_no_other() {
    let app = world().await;
    let jwt = jwt(&app, Some("lab"));
    jwt.query(SET_DEFAULT, json!({ "slug": "team" })).await;
    // An admin may create tokens for others; their other accounts must stay hidden from the admin.
    let token = app.token_of("ada", "lab", &[Scope::Ingest, Scope::Read]).await;
    let bearer = |account: Option<&str>| app.bearer(token.clone(), account);
    assert_eq!(bearer(Some("lab")).status().await, (200, String::new()));
    for account in ["ada", "team", "other", "nowhere", ""] {
        assert_eq!(bearer(Some(account)).status().await, no_account(), "{account}");
    }
    let data = bearer(None).query(MEMBERSHIPS, json!({})).await;
    let only = json!([{ "slug": "lab", "name": "lab", "role": "MEMBER", "isDefault": true }]);
    assert_eq!(data["viewer"], json!({ "account": { "slug": "lab" }, "memberships": only }));
    let account = json!({ "slug": "lab", "name": "lab" });
    let me = get(&bearer(None), "/api/v2/user/me").await;
    assert_eq!(me, json!({ "username": "ada", "default_account": account }));
    let memberships = get(&bearer(None), "/api/v2/user/me/memberships").await;
    assert_eq!(memberships, json!([{ "account": account, "is_admin": false, "is_default_account": true }]));
    for slug in ["lab", "team"] {
        let answer = bearer(None).ask(SET_DEFAULT, json!({ "slug": slug })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{slug}: {answer}");
    }
    // A read-only credential changes nothing, whoever owns it.
    let mut narrow = claims("1");
    narrow["scope"] = json!("read");
    let narrow = app.bearer(SigningKey::Shared.sign(None, &narrow), None);
    assert_eq!(narrow.status().await, (200, String::new()));
    // As a guest of the default account it has all scopes of the role; as an owner it does not.
    let code = async |account: &str| {
        let narrow = app.bearer(narrow.secret().to_owned(), Some(account));
        let answer = narrow.ask(SET_DEFAULT, json!({ "slug": "ada" })).await;
        answer["errors"][0]["extensions"]["code"].clone()
    };
    assert_eq!((code("ada").await, code("team").await), (json!("FORBIDDEN"), Value::Null));
    app.stop().await;
}
