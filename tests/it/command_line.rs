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
    let link = lines[3].split_once('#').unwrap().1.split_whitespace().next().unwrap().to_owned();
    let expected = [
        format!("dashboard:    {address}/"),
        format!("graphql:      {address}/graphql"),
        format!("token:        {token}   (account default, user admin; shown only now)"),
        format!("sign in:      {address}/sign-in/link#{link}   (once, within 15 minutes)"),
        "connect Dask:".to_owned(),
        format!("  export DASK_GALVO__SERVER={address} DASK_GALVO__TOKEN={token}"),
        "  dask scheduler --preload galvo   (requires the Python package; without it, use `galvo preload`)"
            .to_owned(),
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
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(again.output.next_line().await.unwrap().unwrap());
    }
    assert_eq!(lines[0], "connect Dask:", "the second start shows no token");
    assert_eq!(
        lines[3],
        "new token:    galvo token create --user NAME --account ACCOUNT   (`galvo user list` shows both)"
    );
    assert!(lines[4].starts_with("store:        "), "{lines:?}");
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
async fn a_server_is_checked_for_readiness() {
    let database = Database::empty().await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let listen = server.listen().to_owned();
    let (port, url) = (listen.rsplit(':').next().unwrap(), server.url("/graphql"));
    let everywhere = format!("0.0.0.0:{port}");
    for which in [["--listen", &listen], ["--listen", &everywhere], ["--url", &url]] {
        let result = Program::run(&["ready", which[0], which[1]]).await;
        assert_eq!(result, (Some(0), String::new(), String::new()), "{which:?}");
    }
    assert_eq!(server.terminate().await, Some(0));
    let (status, _, errors) = Program::run(&["ready", "--listen", &listen]).await;
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.starts_with("galvo: the server is not ready: no response"), "{errors}");
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
        (&["account", "create", "team"][..], 1, "account 'team' already exists"),
        (&["user", "create", "ada", "--account", "team"], 1, "user 'ada' in account 'team' already exists"),
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
    let database = Database::migrated().await;
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
    let database = Database::migrated().await;
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
    let send_query = async |token: &str, query: &str| {
        let request = server.client().post(server.url("/graphql")).bearer_auth(token);
        let answer = request.json(&json!({ "query": query })).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let query = "{ viewer { account { members { nodes { user { name } role until } }
        invitations { nodes { label invitedBy { name } isOpen } } } } }";
    let mut account = send_query(token.trim(), query).await["data"]["viewer"]["account"].take();
    account["members"]["nodes"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    let expected = json!({
        "members": { "nodes": [
            { "user": { "name": "eve" }, "role": "GUEST", "until": "2098-01-01T00:00:00+00:00" },
            { "user": { "name": "ada" }, "role": "OWNER", "until": null },
        ] },
        "invitations": { "nodes": [{ "label": "bob", "invitedBy": null, "isOpen": true }] },
    });
    assert_eq!(account, expected);
    let mut claims = claims("auth0|1");
    (claims["iat"], claims["exp"]) = (json!(0), json!(4_000_000_000_i64));
    let jwt = SigningKey::Shared.sign(None, &claims);
    let who = send_query(&jwt, "{ viewer { user { name } } }").await;
    assert_eq!(who["data"]["viewer"]["user"]["name"], "ada");

    assert_eq!(run(&["user", "remove", "eve", "--account", "team"]).await.0, Some(0));
    let response = send_query(token.trim(), "{ viewer { account { members { totalCount } } } }").await;
    assert_eq!(response["data"]["viewer"]["account"]["members"]["totalCount"], 1);
}

#[tokio::test]
async fn what_no_member_can_be_commands_refuse() {
    let database = Database::migrated().await;
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
        (
            &["user", "create", "kim", "--account", "team", "--role", "guest"],
            1,
            "a guest membership needs an end",
        ),
        (
            &[&["user", "create", "kim", "--account", "team", "--role", "guest"], &until[..]].concat(),
            1,
            "must lie in the future",
        ),
        (
            &[&["user", "create", "kim", "--account", "team"], &until[..]].concat(),
            1,
            "only a guest membership can have an end",
        ),
        (&["user", "create", "kim", "--account", "team", "--until", "soon"], 2, "invalid value 'soon'"),
        (
            &["user", "create", "kim", "--account", "team", "--until", "2026-12-24"],
            2,
            "the time of day and the zone are missing",
        ),
        (
            &["user", "invite", "--account", "team", "--until", "2026-12-24T08:00:00"],
            2,
            "the zone is missing",
        ),
        (&["user", "invite", "--account", "nowhere"], 1, "there is no account 'nowhere'"),
        (
            &["user", "invite", "--account", "team", "--expires", "31d"],
            1,
            "--expires: must not be more than 30 days ahead",
        ),
        (
            &["user", "link", "ada", "--issuer", "https://login.example.com/", "--subject", "auth0|1"],
            1,
            "already exists",
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
        ([&complete[..], &["--jwks", &broken]].concat(), vec!["not a JSON Web Key Set"]),
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
    for name in ["--listen", "--database-url", "GALVO_REPORTS_PER_SECOND", "GALVO_LISTN: unknown setting"] {
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

/// The variables that Kubernetes sets in the containers of a namespace with a Service called `galvo`,
/// and with one called `galvo-redis`.
const SERVICES: [(&str, &str); 14] = [
    ("GALVO_SERVICE_HOST", "192.0.2.7"),
    ("GALVO_SERVICE_PORT", "8000"),
    ("GALVO_SERVICE_PORT_HTTP", "8000"),
    ("GALVO_PORT", "tcp://192.0.2.7:8000"),
    ("GALVO_PORT_8000_TCP", "tcp://192.0.2.7:8000"),
    ("GALVO_PORT_8000_TCP_PROTO", "tcp"),
    ("GALVO_PORT_8000_TCP_PORT", "8000"),
    ("GALVO_PORT_8000_TCP_ADDR", "192.0.2.7"),
    ("GALVO_REDIS_SERVICE_HOST", "192.0.2.8"),
    ("GALVO_REDIS_SERVICE_PORT", "6379"),
    ("GALVO_REDIS_PORT", "tcp://192.0.2.8:6379"),
    ("GALVO_REDIS_PORT_6379_TCP", "tcp://192.0.2.8:6379"),
    ("GALVO_REDIS_PORT_6379_TCP_PROTO", "tcp"),
    ("GALVO_REDIS_PORT_6379_TCP_ADDR", "192.0.2.8"),
];

#[tokio::test]
async fn what_is_named_after_a_service_is_no_setting() {
    let database = Database::empty().await;
    let key = ("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
    let arguments = ["--database-url", database.url(), "--listen", "127.0.0.1:0", "--log", "warn"];
    let mut command = Program::command(&[&["serve"][..], &arguments].concat());
    let server = Program::spawn(command.envs(SERVICES).envs([key])).await;
    assert_eq!(server.terminate().await, Some(0));
    let mut doctor = Program::command(&[&["doctor", "--json"][..], &arguments].concat());
    let output = doctor.envs(SERVICES).envs([key]).output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "settings");
    assert_eq!(settings.unwrap()["verdict"], "ok", "{report}");

    let near = [
        ("GALVO_PORT", "8000"),
        ("GALVO_HOST", "0.0.0.0"),
        ("GALVO_LISTEN_PORT", "8000"),
        ("GALVO_SERVICE", "galvo"),
        ("GALVO_SERVICE_HOSTNAME", "galvo"),
        ("GALVO_PORT_8000", "tcp://192.0.2.7:8000"),
        ("GALVO_PORT_8000_TCP_NAME", "http"),
        ("GALVO_DATABASE_URI", "x"),
        ("GALVO_PUBLIC_URI", "x"),
        ("GALVO_TRUSTED_PROXY", "x"),
    ];
    let mut command = Program::command(&[&["serve"][..], &arguments].concat());
    let output = command.envs(SERVICES).envs(near).envs([key]).output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    let mut named: Vec<&str> =
        errors.lines().filter_map(|line| line.trim().strip_suffix(": unknown setting")).collect();
    named.sort_unstable();
    let mut expected: Vec<&str> = near.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(named, expected, "{errors}");
}

#[tokio::test]
async fn only_the_server_and_migrations_make_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let within = |name: &str| directory.path().join(name).display().to_string();
    let url = format!("sqlite://{}?mode=rwc", within("galvo.db"));
    let copy = within("copy.db");
    let commands: [&[&str]; 14] = [
        &["account", "list"],
        &["account", "create", "team"],
        &["user", "list"],
        &["user", "create", "ada", "--account", "team"],
        &["user", "remove", "ada", "--account", "team"],
        &["token", "list"],
        &["session", "list"],
        &["session", "end", "--user", "ada"],
        &["token", "create", "--user", "ada", "--account", "team"],
        &["cluster", "list", "--account", "team"],
        &["rollup", "rebuild"],
        &["retention", "confirm"],
        &["key", "list"],
        &["backup", &copy],
    ];
    let refused = async |message: &str| {
        for command in commands {
            let (status, output, errors) = Program::run(&[command, &["--database-url", &url]].concat()).await;
            assert_eq!((status, output.as_str()), (Some(1), ""), "{command:?}: {errors}");
            assert!(errors.contains(message), "{command:?}: {errors}");
        }
    };
    refused(&format!(
        "there is no database at {}: `galvo serve` or `galvo migrate` creates it",
        within("galvo.db")
    ))
    .await;
    // A relative path is resolved against the working directory, which the message shows.
    let mut elsewhere = Program::command(&["user", "list"]);
    let output = elsewhere.current_dir(directory.path()).output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let absolute = directory.path().canonicalize().unwrap().join("galvo.db");
    assert!(errors.contains(&format!("there is no database at {}", absolute.display())), "{errors}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was made");
    std::fs::write(within("galvo.db"), "").unwrap();
    refused("is not migrated yet: run `galvo migrate`").await;
    assert_eq!(std::fs::metadata(within("galvo.db")).unwrap().len(), 0, "nothing was written");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");

    for (url, message) in [
        (format!("sqlite://{}", within("other.db")), "append ?mode=rwc to it".to_owned()),
        (
            format!("sqlite://{}?mode=rwc", within("nowhere/galvo.db")),
            format!("the directory {} for the database does not exist", within("nowhere")),
        ),
    ] {
        for command in [&["migrate"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            let (status, _, errors) = Program::run(&[command, &["--database-url", &url]].concat()).await;
            assert_eq!(status, Some(1), "{command:?}: {errors}");
            assert!(errors.contains(&message), "{command:?}: {errors}");
        }
    }
    // The same problem for a database without tables, on every backend.
    let database = Database::empty().await;
    let (status, _, errors) = Program::run(&["user", "list", "--database-url", database.url()]).await;
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("galvo migrate"), "{errors}");
}

#[tokio::test]
async fn what_there_is_is_listed_and_tokens_are_ended() {
    let database = Database::migrated().await;
    let run = async |arguments: &[&str]| {
        let run = [arguments, &["--database-url", database.url(), "--log", "warn"]].concat();
        let (status, output, errors) = Program::run(&run).await;
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{arguments:?}");
        output
    };
    for arguments in [
        &["account", "create", "team"][..],
        &["account", "create", "empty"],
        &["user", "create", "ada", "--account", "team", "--role", "owner"],
        &["user", "create", "eve", "--account", "team", "--role", "guest", "--until", "2099-01-01T00:00:00Z"],
    ] {
        run(arguments).await;
    }
    let create = ["token", "create", "--user", "ada", "--account", "team", "--label", "laptop"];
    let token = run(&[&create[..], &["--scope", "read"]].concat()).await;
    let other = run(&["token", "create", "--user", "eve", "--account", "team", "--scope", "read"]).await;
    let cells = |output: &str| -> Vec<Vec<String>> {
        output.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let accounts = cells(&run(&["account", "list"]).await);
    assert_eq!(accounts[0], ["account", "members", "since"]);
    let names: Vec<_> = accounts[1..].iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(names, [("empty", "0"), ("team", "2")]);
    let users = cells(&run(&["user", "list"]).await);
    let expected = [
        ["user", "account", "role", "until"],
        ["ada", "team", "owner", "-"],
        ["eve", "team", "guest", "2099-01-01T00:00:00Z"],
    ];
    assert_eq!(users, expected);
    assert_eq!(cells(&run(&["user", "list", "--account", "empty"]).await).len(), 1);

    let identifier = token.split_once('-').unwrap().0;
    let listed = run(&["token", "list"]).await;
    assert!(!listed.contains(token.trim().split_once('-').unwrap().1), "no secrets");
    assert!(!listed.contains(other.trim().split_once('-').unwrap().1), "no secrets");
    let state = async |more: &[&str]| {
        let rows = cells(&run(&[&["token", "list"], more].concat()).await);
        rows.into_iter()
            .skip(1)
            .map(|row| (row[0].clone(), row[1].clone(), row[2].clone()))
            .collect::<Vec<_>>()
    };
    let ada = (identifier.to_owned(), "valid".to_owned(), "ada".to_owned());
    assert_eq!(state(&["--user", "ada"]).await, [ada]);
    assert_eq!(state(&["--account", "team"]).await.len(), 2);
    assert_eq!(state(&["--account", "empty"]).await.len(), 0);
    assert_eq!(state(&["--schedulers"]).await.len(), 0);
    let heads =
        ["token", "state", "user", "account", "scopes", "expires", "last", "used", "scheduler", "label"];
    assert_eq!(cells(&run(&["token", "list", "--schedulers"]).await), [heads]);
    // Nobody has signed in with a browser.
    let heads = ["session", "user", "since", "last", "used", "until"];
    assert_eq!(cells(&run(&["session", "list", "--user", "ada"]).await), [heads]);
    assert_eq!(run(&["session", "end", "--user", "ada"]).await, "0 sessions\n");

    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let query_status = async || {
        let body = json!({ "query": "{ viewer { user { name } } }" });
        let request = server.client().post(server.url("/graphql")).bearer_auth(token.trim()).json(&body);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(query_status().await, 200);
    run(&["token", "revoke", identifier]).await;
    assert_eq!(query_status().await, 401, "it is refused from then on");
    run(&["token", "revoke", identifier]).await;
    assert_eq!(state(&["--user", "ada"]).await[0].1, "revoked");
    for (arguments, status, message) in [
        (&["token", "revoke", "nobody"][..], 1, "there is no token 'nobody'"),
        (&["token", "revoke", "no such"], 2, "must be the public half of a token"),
        (&["token", "list", "--user", "bob"], 1, "there is no user 'bob'"),
        (&["session", "list", "--user", "bob"], 1, "there is no user 'bob'"),
        (&["session", "end", "--user", "bob"], 1, "there is no user 'bob'"),
        (&["session", "end", "--user", "ada", "--session", "x"], 1, "there is no session 'x' of user 'ada'"),
        (&["token", "list", "--account", "nowhere"], 1, "there is no account 'nowhere'"),
        (&["user", "list", "--account", "nowhere"], 1, "there is no account 'nowhere'"),
    ] {
        let arguments = [arguments, &["--database-url", database.url()]].concat();
        let (answered, _, errors) = Program::run(&arguments).await;
        assert_eq!(answered, Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
}

#[tokio::test]
async fn a_start_logs_where_the_store_is_and_little_else() {
    let directory = tempfile::tempdir().unwrap();
    let start = async || {
        let serve = ["serve", "--database-url", "sqlite://here.db?mode=rwc", "--listen", "127.0.0.1:0"];
        let log = directory.path().join("log");
        let mut command = Program::command(&[&serve[..], &["--log", "info"]].concat());
        command.current_dir(directory.path()).stderr(std::fs::File::create(&log).unwrap());
        let mut server = Program::spawn(&mut command).await;
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with("store:")) {
            lines.push(server.output.next_line().await.unwrap().unwrap());
        }
        assert_eq!(server.terminate().await, Some(0));
        (lines.pop().unwrap(), std::fs::read_to_string(log).unwrap())
    };
    let (store, log) = start().await;
    let path = directory.path().canonicalize().unwrap().join("here.db");
    assert_eq!(store, format!("store:        SQLite file {}", path.display()));
    assert!(log.contains(&format!("SQLite file {}", path.display())), "{log}");
    let applied: Vec<&str> = log.lines().filter(|line| line.contains("migration")).collect();
    assert_eq!(applied.len(), 1, "{log}");
    let count = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../migration/src")).unwrap();
    let count =
        count.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with("m20")).count();
    assert!(applied[0].ends_with(&format!("{count} migrations applied")), "{log}");
    let (_, log) = start().await;
    assert_eq!(log.lines().filter(|line| line.contains("migration")).count(), 0, "{log}");
}

#[tokio::test]
async fn a_database_that_is_there_logs_nothing_of_its_own() {
    let database = Database::migrated().await;
    for log in ["info", "info,sea_orm_migration=warn"] {
        let arguments = ["account", "list", "--database-url", database.url(), "--log", log];
        let (status, _, errors) = Program::run(&arguments).await;
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{log}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_reported_once_with_an_example() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite://{}?mode=rwc", directory.path().join("galvo.db").display());
    let example = "must be an IP address and a port, such as 127.0.0.1:8000";
    for listen in ["8000", ":8000", "localhost:8000", "127.0.0.1"] {
        for command in [["serve", "--listen"], ["serve", "--metrics-listen"], ["ready", "--listen"]] {
            let (status, _, errors) = Program::run(&[&command[..], &[listen]].concat()).await;
            assert_eq!(status, Some(2), "{command:?} {listen}: {errors}");
            assert!(errors.contains(example), "{command:?} {listen}: {errors}");
        }
    }
    for url in ["postgres://ada:ge/heim@db/galvo", "postgres://ada:p@ge/heim@db/galvo"] {
        let (status, _, errors) = Program::run(&["migrate", "--database-url", url]).await;
        assert_eq!(status, Some(2), "{errors}");
        assert!(errors.contains("must be written as %2F, %3F or %23"), "{errors}");
        assert!(!errors.contains("heim") && !errors.contains("ge/"), "{errors}");
    }
    // An invalid key is not a missing key.
    let mut command = Program::command(&["serve", "--database-url", &store]);
    let output = command.env("GALVO_SECRET_KEY", "geheim").output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(errors.matches("GALVO_SECRET_KEY").count(), 1, "{errors}");
    assert!(!errors.contains("PostgreSQL") && !errors.contains("geheim"), "{errors}");

    let run =
        async |arguments: &[&str]| Program::run(&[arguments, &["--database-url", &store]].concat()).await;
    for arguments in
        [&["migrate"][..], &["account", "create", "team"], &["user", "create", "ada", "--account", "team"]]
    {
        assert_eq!(run(arguments).await.0, Some(0), "{arguments:?}");
    }
    let mut password =
        Program::command(&["user", "password", "ada", "--database-url", &store, "--log", "off"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut password.stdin.take().unwrap(), b"short\n").await.unwrap();
    let errors = String::from_utf8(password.wait_with_output().await.unwrap().stderr).unwrap();
    assert_eq!(errors.matches("must have at least 12 characters").count(), 1, "{errors}");

    let database = Database::migrated().await;
    if let Some((_, place)) = database.url().split_once('@') {
        let url = format!("postgres://nobody_of_that_name:x@{place}");
        let (status, _, errors) = Program::run(&["migrate", "--database-url", &url]).await;
        assert_eq!(status, Some(1));
        assert_eq!(errors.matches("nobody_of_that_name").count(), 1, "{errors}");
        assert!(!errors.contains("at line"), "{errors}");
    }
}

#[tokio::test]
async fn the_schema_goes_to_standard_output() {
    let (status, output, errors) = Program::run(&["schema"]).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(output, include_str!("../../schema.graphql"));
}

#[tokio::test]
async fn health_is_returned_without_a_token() {
    let database = Database::migrated().await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let checks =
        [("/healthz", json!({ "status": "ok" })), ("/readyz", json!({ "status": "ok", "live": "whole" }))];
    for (path, expected) in checks {
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
