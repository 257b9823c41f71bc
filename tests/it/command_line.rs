//! The program as an operator runs it.

use std::net::TcpListener;

use harness::{AUDIENCE, Database, ISSUER, Program, SHARED_SECRET, SigningKey, claims};
use rcgen::generate_simple_self_signed;
use reqwest::header;
use serde_json::{Value, json};

#[tokio::test]
async fn an_empty_store_is_set_up_once() {
    let database = Database::empty().await;
    let mut server = Program::serve(database.url(), "127.0.0.1:0", &["--bootstrap"]).await;
    let address = server.url("");
    let mut lines = Vec::new();
    while let Some(line) = server.output.next_line().await.unwrap() {
        let done = line.contains("--preload");
        lines.push(line);
        if done {
            break;
        }
    }
    let token = lines[2].strip_prefix("token:").unwrap().split_whitespace().next().unwrap().to_owned();
    let expected = [
        format!("dashboard:    {address}/"),
        format!("graphql:      {address}/graphql"),
        format!("token:        {token}   (account default, user admin; shown only now)"),
        format!("sign in:      {address}/sign-in   (once `galvo user password admin` has set a password)"),
        "point Dask here:".to_owned(),
        format!("  export DASK_GALVO__TOKEN={token}"),
        format!("  dask scheduler --preload {address}/api/v2/analytics/preload"),
    ];
    assert_eq!(lines, expected);
    let body = json!({ "query": "{ viewer { scopes user { name } account { slug } } }" });
    let answer =
        server.client().post(server.url("/graphql")).bearer_auth(&token).json(&body).send().await.unwrap();
    let expected = json!({ "scopes": ["INGEST", "READ", "ADMIN"], "user": { "name": "admin" }, "account": { "slug": "default" } });
    assert_eq!(answer.json::<Value>().await.unwrap()["data"]["viewer"], expected);
    assert_eq!(server.terminate().await, Some(0), "SIGTERM is a clean end");

    let mut again = Program::serve(database.url(), "127.0.0.1:0", &["--bootstrap"]).await;
    for _ in 0..2 {
        again.output.next_line().await.unwrap();
    }
    let line = again.output.next_line().await.unwrap().unwrap();
    assert_eq!(line, "point Dask here:", "the second start shows no token");
    let answer =
        again.client().post(again.url("/graphql")).bearer_auth(&token).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200, "the first token is still good");
}

#[tokio::test]
async fn a_server_that_cannot_listen_sets_nothing_up() {
    let database = Database::empty().await;
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let pair = || generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name).display().to_string()
    };
    let certificate = file("certificate.pem", pair().cert.pem());
    let key = file("key.pem", pair().signing_key.serialize_pem());
    let free = ["--listen", "127.0.0.1:0"];
    for (arguments, message) in [
        (vec!["--listen", &taken], format!("cannot listen on {taken}")),
        ([&free[..], &["--metrics-listen", &taken]].concat(), format!("cannot listen on {taken}")),
        (
            [&free[..], &["--tls-certificate", &certificate, "--tls-key", &key]].concat(),
            "cannot be used with its key".to_owned(),
        ),
    ] {
        let serve = ["serve", "--bootstrap", "--database-url", database.url(), "--log", "off"];
        let mut command = Program::command(&[&serve[..], &arguments].concat());
        if !database.url().starts_with("sqlite:") {
            command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
        }
        let output = command.output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains(&message), "{arguments:?}: {errors}");
    }
    let mut server = Program::serve(database.url(), "127.0.0.1:0", &["--bootstrap"]).await;
    for _ in 0..2 {
        server.output.next_line().await.unwrap();
    }
    let line = server.output.next_line().await.unwrap().unwrap();
    assert!(line.starts_with("token:"), "the first server that starts shows it: {line}");
}

#[tokio::test]
async fn a_server_is_asked_whether_it_is_ready() {
    let database = Database::empty().await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let listen = server.listen().to_owned();
    let (port, url) = (listen.rsplit(':').next().unwrap(), server.url("/graphql"));
    let everywhere = format!("0.0.0.0:{port}");
    for which in [["--listen", &listen], ["--listen", &everywhere], ["--url", &url]] {
        let asked = Program::run(&["ready", which[0], which[1]]).await;
        assert_eq!(asked, (Some(0), String::new(), String::new()), "{which:?}");
    }
    assert_eq!(server.terminate().await, Some(0));
    let (status, _, errors) = Program::run(&["ready", "--listen", &listen]).await;
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.starts_with("galvo: the server is not ready: it does not answer"), "{errors}");
}

#[tokio::test]
async fn accounts_users_and_tokens_are_made_by_commands() {
    let database = Database::empty().await;
    let run = async |arguments: &[&str]| {
        Program::run(&[arguments, &["--database-url", database.url(), "--log", "warn"]].concat()).await
    };
    let (status, _, errors) = run(&["migrate"]).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let (status, id, _) = run(&["account", "create", "team"]).await;
    assert_eq!((status, id.trim().len()), (Some(0), 36));
    assert_eq!(run(&["user", "create", "ada", "--account", "team", "--role", "owner"]).await.0, Some(0));
    assert_eq!(run(&["user", "create", "eve", "--account", "team", "--role", "viewer"]).await.0, Some(0));
    let create =
        ["token", "create", "--user", "ada", "--account", "team", "--label", "laptop", "--expires", "90d"];
    let (status, token, errors) = run(&[&create[..], &["--scope", "read"]].concat()).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(token.lines().count(), 1, "the secret stands alone on one line");
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let body = json!({ "query": "{ viewer { scopes user { name } account { slug } } }" });
    let answer = server
        .client()
        .post(server.url("/graphql"))
        .bearer_auth(token.trim())
        .json(&body)
        .send()
        .await
        .unwrap();
    let expected = json!({ "scopes": ["READ"], "user": { "name": "ada" }, "account": { "slug": "team" } });
    assert_eq!(answer.json::<Value>().await.unwrap()["data"]["viewer"], expected);

    for (arguments, status, message) in [
        (&["account", "create", "team"][..], 1, "account 'team' exists already"),
        (&["user", "create", "ada", "--account", "team"], 1, "user 'ada' in account 'team' exists already"),
        (&["user", "create", "ada", "--account", "nowhere"], 1, "there is no account 'nowhere'"),
        (
            &["token", "create", "--user", "bob", "--account", "team"],
            1,
            "there is no user 'bob' in account 'team'",
        ),
        (
            &["token", "create", "--user", "eve", "--account", "team", "--scope", "admin"],
            1,
            "the role Viewer cannot",
        ),
        (&["account", "create", "Not A Slug"], 2, "must be 1 to 63 lower-case letters"),
        (&["user", "create", "x", "--account", "team", "--role", "king"], 2, "invalid value 'king'"),
        (
            &["token", "create", "--user", "ada", "--account", "team", "--expires", "soon"],
            2,
            "must be a whole number",
        ),
    ] {
        let (answered, output, errors) = run(arguments).await;
        assert_eq!((answered, output.as_str()), (Some(status), ""), "{arguments:?}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
}

#[tokio::test]
async fn what_no_token_can_be_commands_refuse() {
    let database = Database::empty().await;
    let run = async |arguments: &[&str]| {
        Program::run(&[arguments, &["--database-url", database.url(), "--log", "warn"]].concat()).await
    };
    for arguments in [
        &["account", "create", "team"][..],
        &["user", "create", "ada", "--account", "team", "--role", "admin"],
    ] {
        assert_eq!(run(arguments).await.0, Some(0), "{arguments:?}");
    }
    let (longest, long) = ("ä".repeat(200), "ä".repeat(201));
    let label = "--label: must have at most 200 characters, none of them a control character";
    for (more, messages) in [
        (&["--expires", "0s"][..], &["--expires: must lie in the future"][..]),
        (&["--expires", "9999999d"], &["--expires: lies too far in the future"]),
        (&["--expires", "4294967295d"], &["--expires: lies too far in the future"]),
        (&["--label", "two\nlines"], &[label]),
        (&["--label", "\u{1b}[31mred"], &[label]),
        (&["--label", &long], &[label]),
        (&["--label", &long, "--expires", "0s"], &[label, "--expires: must lie in the future"]),
    ] {
        let create = ["token", "create", "--user", "ada", "--account", "team"];
        let (status, output, errors) = run(&[&create[..], more].concat()).await;
        assert_eq!((status, output.as_str()), (Some(1), ""), "{more:?}: {errors}");
        for message in messages {
            assert!(errors.contains(message), "{more:?}: {errors}");
        }
    }
    let create = ["token", "create", "--user", "ada", "--account", "team", "--label", &longest];
    let (status, token, errors) = run(&[&create[..], &["--expires", "1d"]].concat()).await;
    assert_eq!((status, token.lines().count()), (Some(0), 1), "{errors}");
}

#[tokio::test]
async fn members_are_decided_on_by_commands() {
    let database = Database::empty().await;
    let run = async |arguments: &[&str]| {
        Program::run(&[arguments, &["--database-url", database.url(), "--log", "warn"]].concat()).await
    };
    for arguments in [
        &["account", "create", "team"][..],
        &["user", "create", "ada", "--account", "team", "--role", "owner"],
        &["user", "create", "eve", "--account", "team", "--role", "guest", "--until", "2099-01-01T00:00:00Z"],
        &["user", "role", "eve", "--account", "team", "--role", "viewer"],
        &["user", "role", "eve", "--account", "team", "--role", "guest", "--until", "2098-01-01T00:00:00Z"],
        &["user", "link", "ada", "--issuer", "https://login.example.com/", "--subject", "auth0|1"],
    ] {
        let (status, _, errors) = run(arguments).await;
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
    let (status, secret, _) =
        run(&["user", "invite", "--account", "team", "--label", "bob", "--expires", "12h"]).await;
    assert_eq!((status, secret.lines().count()), (Some(0), 1), "the secret stands alone on one line");
    assert!(galvo::domain::token::ApiToken::parse(secret.trim()).is_some());
    let (_, token, _) = run(&[
        "token",
        "create",
        "--user",
        "ada",
        "--account",
        "team",
        "--scope",
        "read",
        "--scope",
        "admin",
    ])
    .await;

    let mut command = Program::command(&[
        "serve",
        "--database-url",
        database.url(),
        "--listen",
        "127.0.0.1:0",
        "--log",
        "warn",
    ]);
    let secret_of_issuer = std::str::from_utf8(SHARED_SECRET).unwrap();
    command
        .env("GALVO_JWT_ISSUER", ISSUER)
        .env("GALVO_JWT_AUDIENCE", AUDIENCE)
        .env("GALVO_JWT_SECRET", secret_of_issuer);
    command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
    let server = Program::spawn(&mut command).await;
    let ask = async |token: &str, query: &str| {
        let ask = server.client().post(server.url("/graphql")).bearer_auth(token);
        let answer = ask.json(&json!({ "query": query })).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let query = "{ viewer { account { members { nodes { user { name } role until } }
        invitations { nodes { label invitedBy { name } isOpen } } } } }";
    let mut told = ask(token.trim(), query).await["data"]["viewer"]["account"].take();
    told["members"]["nodes"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    let expected = json!({
        "members": { "nodes": [
            { "user": { "name": "eve" }, "role": "GUEST", "until": "2098-01-01T00:00:00+00:00" },
            { "user": { "name": "ada" }, "role": "OWNER", "until": null },
        ] },
        "invitations": { "nodes": [{ "label": "bob", "invitedBy": null, "isOpen": true }] },
    });
    assert_eq!(told, expected);
    let mut claims = claims("auth0|1");
    (claims["iat"], claims["exp"]) = (json!(0), json!(4_000_000_000_i64));
    let jwt = SigningKey::Shared.sign(None, &claims);
    let who = ask(&jwt, "{ viewer { user { name } } }").await;
    assert_eq!(who["data"]["viewer"]["user"]["name"], "ada");

    assert_eq!(run(&["user", "remove", "eve", "--account", "team"]).await.0, Some(0));
    let told = ask(token.trim(), "{ viewer { account { members { totalCount } } } }").await;
    assert_eq!(told["data"]["viewer"]["account"]["members"]["totalCount"], 1);
}

#[tokio::test]
async fn what_no_member_can_be_commands_refuse() {
    let database = Database::empty().await;
    let run = async |arguments: &[&str]| {
        Program::run(&[arguments, &["--database-url", database.url(), "--log", "warn"]].concat()).await
    };
    for arguments in [
        &["account", "create", "team"][..],
        &["user", "create", "ada", "--account", "team", "--role", "owner"],
        &["user", "link", "ada", "--issuer", "https://login.example.com/", "--subject", "auth0|1"],
    ] {
        assert_eq!(run(arguments).await.0, Some(0), "{arguments:?}");
    }
    let until = &["--until", "2020-01-01T00:00:00Z"];
    for (arguments, status, message) in [
        (&["user", "remove", "eve", "--account", "team"][..], 1, "there is no user 'eve' in account 'team'"),
        (&["user", "remove", "bob", "--account", "team"], 1, "there is no user 'bob' in account 'team'"),
        (&["user", "remove", "ada", "--account", "team"], 1, "is the account's last owner"),
        (&["user", "role", "ada", "--account", "team", "--role", "admin"], 1, "is the account's last owner"),
        (&["user", "create", "kim", "--account", "team", "--role", "guest"], 1, "a guest needs a time"),
        (
            &[&["user", "create", "kim", "--account", "team", "--role", "guest"], &until[..]].concat(),
            1,
            "must lie in the future",
        ),
        (
            &[&["user", "create", "kim", "--account", "team"], &until[..]].concat(),
            1,
            "only guests are members until",
        ),
        (&["user", "create", "kim", "--account", "team", "--until", "soon"], 2, "invalid value 'soon'"),
        (&["user", "invite", "--account", "nowhere"], 1, "there is no account 'nowhere'"),
        (
            &["user", "invite", "--account", "team", "--expires", "31d"],
            1,
            "--expires: must not lie more than 30 days ahead",
        ),
        (
            &["user", "link", "ada", "--issuer", "https://login.example.com/", "--subject", "auth0|1"],
            1,
            "exists already",
        ),
        (
            &["user", "link", "kim", "--issuer", "https://login.example.com/", "--subject", "2"],
            1,
            "there is no user 'kim'",
        ),
        (
            &["user", "link", "ada", "--issuer", "https://login.example.com/", "--subject", ""],
            2,
            "must be 1 to 255",
        ),
    ] {
        let (answered, output, errors) = run(arguments).await;
        assert_eq!((answered, output.as_str()), (Some(status), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
}

#[tokio::test]
async fn jwts_need_all_that_makes_them_safe() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (short, large) = (file("short", "secret"), file("large", &"x".repeat(5_000)));
    let (long, broken) = (file("long", &"s".repeat(32)), file("broken", "{"));
    let complete = ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE];
    let database = Database::empty().await;
    for (arguments, named) in [
        (vec!["--jwt-secret-file", &long], vec!["--jwt-issuer", "--jwt-audience"]),
        (vec!["--jwt-issuer", ISSUER], vec!["--jwks"]),
        (
            [&complete[..], &["--jwt-secret-file", &short]].concat(),
            vec!["--jwt-secret-file", "at least 32 bytes"],
        ),
        (
            [&complete[..], &["--jwt-secret-file", &large]].concat(),
            vec!["--jwt-secret-file", "at most 4096 bytes"],
        ),
        ([&complete[..], &["--jwt-secret-file", "/nowhere"]].concat(), vec!["--jwt-secret-file"]),
        ([&complete[..], &["--jwks", "http://login.example.com/keys"]].concat(), vec!["--jwks", "https://"]),
        ([&complete[..], &["--jwks", "ftp://127.0.0.1/keys"]].concat(), vec!["--jwks"]),
        ([&complete[..], &["--jwks", "/nowhere"]].concat(), vec!["cannot read the keys in /nowhere"]),
        ([&complete[..], &["--jwks", &broken]].concat(), vec!["no JSON Web Key Set"]),
        (
            [
                &complete[..],
                &["--jwt-secret-file", &long, "--jwt-provision", "owner", "--jwt-user-claim", ""],
            ]
            .concat(),
            vec!["--jwt-provision", "--jwt-user-claim"],
        ),
        (
            [&complete[..], &["--jwt-secret-file", &long, "--jwt-provision", "member"]].concat(),
            vec!["--jwt-provision-account"],
        ),
    ] {
        let serve = ["serve", "--database-url", database.url(), "--listen", "127.0.0.1:0", "--log", "off"];
        let mut command = Program::command(&[&serve[..], &arguments].concat());
        command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
        let output = command.output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        for name in named {
            assert!(errors.contains(name), "{name} is missing in: {errors}");
        }
    }
}

#[tokio::test]
async fn wrong_settings_are_all_named_at_once() {
    let mut command =
        Program::command(&["serve", "--listen", "nowhere", "--database-url", "mysql://ada:geheim@x/y"]);
    command.env("GALVO_REPORTS_PER_SECOND", "many").env("GALVO_LISTN", "127.0.0.1:1");
    let output = command.output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for name in
        ["--listen", "--database-url", "GALVO_REPORTS_PER_SECOND", "GALVO_LISTN: there is no such setting"]
    {
        assert!(errors.contains(name), "{name} is missing in: {errors}");
    }
    assert!(!errors.contains("geheim"), "{errors}");
    assert_eq!(Program::run(&["dance"]).await.0, Some(2));
    let unreachable = "postgres://ada:geheim@127.0.0.1:1/galvo";
    let (status, _, errors) = Program::run(&["migrate", "--database-url", unreachable]).await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("PostgreSQL 127.0.0.1:1/galvo") && !errors.contains("geheim"), "{errors}");
    assert!(errors.contains("Connection refused"), "{errors}");
}

#[tokio::test]
async fn the_schema_goes_to_standard_output() {
    let (status, output, errors) = Program::run(&["schema"]).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(output, include_str!("../../schema.graphql"));
}

#[tokio::test]
async fn health_is_told_without_a_token() {
    let database = Database::migrated().await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let told =
        [("/healthz", json!({ "status": "ok" })), ("/readyz", json!({ "status": "ok", "live": "whole" }))];
    for (path, expected) in told {
        let answer = server.client().get(server.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap(), expected, "{path}");
    }
    let nothing = server.client().get(server.url("/nothing")).send().await.unwrap();
    assert_eq!(
        (nothing.status().as_u16(), nothing.headers()[header::CONTENT_TYPE].to_str().unwrap()),
        (404, "application/json")
    );
    assert_eq!(nothing.json::<Value>().await.unwrap()["code"], "NOT_FOUND");
}
