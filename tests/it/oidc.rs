//! Signing in with an OpenID provider, without an actual provider; `tests/oidc` has one.

use galvo::config::OidcConfig;
use harness::{Browser, Program, TestApp};
use reqwest::StatusCode;

/// A provider at a port on which nothing listens.
fn nobody() -> OidcConfig {
    OidcConfig {
        issuer: "http://127.0.0.1:1".to_owned(),
        client_id: "galvo".to_owned(),
        client_secret: None,
        name: "Nobody".to_owned(),
        scopes: Vec::new(),
        account_claim: None,
        role_claim: None,
        provision: None,
    }
}

#[tokio::test]
async fn a_provider_that_is_away_keeps_nobody_out() {
    let app = TestApp::start_with(|serve| {
        serve.public_url = Some("http://galvo.example".parse().unwrap());
        serve.oidc = Some(nobody());
    })
    .await;
    app.account("ada").await;
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let browser = Browser::new(&app);
    let page = browser.open("/sign-in?return_to=/x").await;
    assert!(
        page.html.contains("<a href=\"/sign-in/oidc?return_to=%2Fx\">Sign in with Nobody</a>"),
        "{}",
        page.html
    );
    let page = browser.open("/sign-in/oidc").await;
    assert_eq!((page.status, page.set_cookies.len()), (StatusCode::SERVICE_UNAVAILABLE, 0));
    assert!(page.html.contains("the provider is unavailable"), "{}", page.html);
    // A callback without a preceding redirect is rejected.
    let page = browser.open("/sign-in/oidc/callback?code=x&state=y").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN, "{}", page.html);
    let credentials = [("username", "ada"), ("password", "password of ada")];
    let page = browser.submit_from("http://galvo.example", "/sign-in", &credentials).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.html);
    app.stop().await;
}

#[tokio::test]
async fn without_a_provider_there_is_no_such_page() {
    let app = TestApp::start().await;
    let browser = Browser::new(&app);
    assert!(!browser.open("/sign-in").await.html.contains("oidc"));
    for path in ["/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y"] {
        assert_eq!(browser.open(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn wrong_settings_of_a_provider_are_named() {
    for (variables, wrong) in [
        (&[("GALVO_OIDC_CLIENT_ID", "galvo")][..], &["--oidc-issuer"][..]),
        (&[("GALVO_OIDC_ISSUER", "https://login.example")], &["--oidc-client-id", "--public-url"]),
        (
            &[
                ("GALVO_OIDC_ISSUER", "http://login.example"),
                ("GALVO_OIDC_CLIENT_ID", "galvo"),
                ("GALVO_OIDC_PROVISION", "owner"),
                ("GALVO_PUBLIC_URL", "galvo.example"),
            ],
            &["--oidc-issuer", "--oidc-provision", "--public-url"],
        ),
        (
            &[
                ("GALVO_OIDC_ISSUER", "https://login.example"),
                ("GALVO_OIDC_CLIENT_ID", "galvo"),
                ("GALVO_OIDC_CLIENT_SECRET", "geheim"),
                ("GALVO_OIDC_CLIENT_SECRET_FILE", "/nowhere"),
                ("GALVO_OIDC_PROVISION", "member"),
                ("GALVO_PUBLIC_URL", "https://galvo.example"),
                ("GALVO_SESSION_IDLE", "1"),
                ("GALVO_SESSION_LIFETIME", "401d"),
            ],
            &[
                "--oidc-client-secret-file",
                "--oidc-provision-account",
                "--session-idle",
                "--session-lifetime",
            ],
        ),
    ] {
        let mut command = Program::command(&["serve", "--database-url", "sqlite:///nowhere/galvo.db"]);
        let output = command.envs(variables.iter().copied()).output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {errors}");
        assert_eq!(errors.lines().count(), wrong.len() + 1, "{errors}");
        assert!(wrong.iter().all(|flag| errors.contains(flag)), "{variables:?}: {errors}");
        assert!(!errors.contains("geheim"), "{errors}");
    }
}
