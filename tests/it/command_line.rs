//! The program as an operator runs it.

use harness::{Database, Program};
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
    for path in ["/healthz", "/readyz"] {
        let answer = server.client().get(server.url(path)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap(), json!({ "status": "ok" }), "{path}");
    }
    let nothing = server.client().get(server.url("/nothing")).send().await.unwrap();
    assert_eq!(
        (nothing.status().as_u16(), nothing.headers()[header::CONTENT_TYPE].to_str().unwrap()),
        (404, "application/json")
    );
    assert_eq!(nothing.json::<Value>().await.unwrap()["code"], "NOT_FOUND");
}
