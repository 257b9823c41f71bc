//! Secrets are shown once and appear nowhere else: not in the log at any level, not in traces, not in
//! responses, not in the database.

use std::{fs, path::Path, process::Stdio};

use harness::{AUDIENCE, ISSUER, Program, ReportBuilder, SHARED_SECRET, SigningKey, WebhookReceiver, claims};
use serde_json::{Value, json};

/// All files of a directory, with their content.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn secrets_are_in_no_log_at_any_level_and_not_in_the_database() {
    // The store's own files are searched, so it is on SQLite.
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let store = directory.path().join("store");
    fs::create_dir(&store).unwrap();
    let url = format!("sqlite://{}?mode=rwc", store.join("galvo.db").display());
    let arguments =
        ["serve", "--database-url", &url, "--listen", "127.0.0.1:0", "--log", "trace", "--bootstrap"];
    let mut command = Program::command(&arguments);
    let shared = std::str::from_utf8(SHARED_SECRET).unwrap();
    let collector = WebhookReceiver::start().await;
    let settings = [
        ("GALVO_JWT_SECRET", shared),
        ("GALVO_JWT_ISSUER", ISSUER),
        ("GALVO_JWT_AUDIENCE", AUDIENCE),
        ("GALVO_TRACES_ENDPOINT", &collector.origin()),
    ];
    command.stderr(Stdio::from(fs::File::create(&log).unwrap())).envs(settings);
    let mut server = Program::spawn(&mut command).await;
    let token = server.bootstrap_token().await;
    let (client, graphql) = (server.client(), server.url("/graphql"));
    let send_query = async |credentials: &str, query: &str, variables: Value| -> String {
        let body = json!({ "query": query, "variables": variables });
        client.post(&graphql).bearer_auth(credentials).json(&body).send().await.unwrap().text().await.unwrap()
    };
    let secret_of = |answer: &str, field: &str| {
        let answer: Value = serde_json::from_str(answer).unwrap();
        answer["data"][field]["secret"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let made =
        send_query(&token, "mutation { createToken(input: { scopes: [READ] }) { secret } }", json!({})).await;
    let made = secret_of(&made, "createToken");
    let invited =
        send_query(&token, "mutation { inviteMember(input: { role: VIEWER }) { secret } }", json!({})).await;
    let invited = secret_of(&invited, "inviteMember");
    let jwt = SigningKey::Shared.sign(None, &claims("nobody"));
    let wrong = format!("{}-guessed-by-somebody-who-does-not-know", token.split('-').next().unwrap());
    let report = ReportBuilder::new("Scheduler-1", 1).build();
    let mut answers = String::new();
    for credentials in [&token, &made, &jwt, &wrong] {
        let everything = "{ viewer { user { name } account { tokens { nodes { identifier label lastUsedAt } }
            invitations { nodes { identifier label } } auditLog(first: 100) { nodes { action detail target { id } } } } } }";
        answers += &send_query(credentials, everything, json!({})).await;
        answers += &send_query(credentials, "{ nonsense }", json!({})).await;
        let accept =
            "mutation($secret: String!) { acceptInvitation(secret: $secret) { userErrors { message } } }";
        answers += &send_query(credentials, accept, json!({ "secret": invited })).await;
        for path in ["/api/v2/user/me", "/api/v2/user/me/memberships", "/nowhere", "/readyz", "/metrics"] {
            let request = client.get(server.url(path)).bearer_auth(credentials);
            answers += &request.send().await.unwrap().text().await.unwrap();
        }
        let request = client.post(server.url("/api/v1/reports")).bearer_auth(credentials).json(&report);
        answers += &request.send().await.unwrap().text().await.unwrap();
    }
    assert_eq!(server.terminate().await, Some(0));
    let log = fs::read(&log).unwrap();
    assert!(holds(&log, "TRACE") && holds(&log, "listening"), "the log is complete");
    let traces: Vec<u8> = collector.received().into_iter().flat_map(|request| request.body).collect();
    assert!(holds(&traces, "POST /api/v1/reports"), "the traces are complete");
    let key = fs::read_to_string(store.join("galvo.db.key")).unwrap();
    let key =
        key.split(|c: char| c == ',' || c.is_whitespace()).max_by_key(|word| word.len()).unwrap().to_owned();
    let half = |token: &str| token.split_once('-').unwrap().1.to_owned();
    let signature = jwt.rsplit('.').next().unwrap().to_owned();
    for (what, secret) in [
        ("the first token", half(&token)),
        ("a token", half(&made)),
        ("an invitation", half(&invited)),
        ("a wrong token", half(&wrong)),
        ("a JWT", signature),
        ("what is shared with the issuer", shared.to_owned()),
        ("the key", key),
    ] {
        assert!(secret.len() >= 20, "{what}");
        assert!(!holds(&log, &secret), "{what} is in the log");
        assert!(!holds(&traces, &secret), "{what} is in a trace");
        assert!(!answers.contains(&secret), "{what} is in an answer");
        for (file, bytes) in files(&store) {
            let is_key_file = Path::new(&file).extension().is_some_and(|extension| extension == "key");
            assert!(!holds(&bytes, &secret) || is_key_file, "{what} is in {file}");
        }
    }
}
