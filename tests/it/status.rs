//! `galvo status`: what an operator learns of an installation, with and without a server.

use std::time::Duration;

use harness::{Database, Program, ReportBuilder};
use migration::{Migrator, MigratorTrait};
use serde_json::{Value, json};

/// A port on which nothing listens.
const NOWHERE: &str = "127.0.0.1:9";

async fn status(database: &Database, arguments: &[&str]) -> (Option<i32>, String, String) {
    let common = ["status", "--database-url", database.url(), "--log", "off"];
    Program::run(&[&common[..], arguments].concat()).await
}

async fn status_as_json(database: &Database, arguments: &[&str]) -> Value {
    let (code, output, errors) = status(database, &[arguments, &["--json"]].concat()).await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    serde_json::from_str(&output).unwrap()
}

#[tokio::test]
async fn an_installation_is_described_with_its_server_and_without() {
    let database = Database::migrated().await;
    let command = async |arguments: &[&str]| {
        let common = ["--database-url", database.url(), "--log", "off"];
        let (code, output, errors) = Program::run(&[arguments, &common].concat()).await;
        assert_eq!(code, Some(0), "{errors}");
        output.trim().to_owned()
    };
    for account in ["ada", "bob"] {
        command(&["account", "create", account]).await;
        command(&["user", "create", account, "--account", account, "--role", "owner"]).await;
    }
    let create = ["token", "create", "--user", "ada", "--account", "ada", "--scope", "ingest"];
    let token = command(&create).await;
    let revoked = command(&create).await;
    let identifier = revoked.split('-').next().unwrap();
    command(&["token", "revoke", identifier]).await;

    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let base = server.url("");
    for (scheduler, is_final) in [("Scheduler-1", false), ("Scheduler-2", true)] {
        let report = ReportBuilder::new(scheduler, 1).with("/final", is_final).build();
        let request = server.client().post(server.url("/api/v1/reports")).bearer_auth(&token).json(&report);
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    // The jobs begin with the server.
    let seen = async {
        loop {
            let there = status_as_json(&database, &["--url", &base]).await;
            if there["server"]["jobs"].get("life-cycle").is_some() {
                break there;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let there = tokio::time::timeout(Duration::from_mins(1), seen).await.expect("a job has run");
    let content = &there["content"];
    for (name, expected) in [
        ("accounts", 2),
        ("users", 2),
        ("validTokens", 1),
        ("clusters", 2),
        ("reportingClusters", 1),
        ("pendingDeliveries", 0),
    ] {
        assert_eq!(content[name], expected, "{name}");
    }
    assert_eq!(content["retention"]["stoppedBy"], Value::Null);
    assert!(content["lastReportAt"].as_str().unwrap().starts_with("20"), "{content}");
    assert_eq!(there["schema"], "up to date");
    assert_eq!(there["server"]["isReady"], true);
    assert_eq!(there["server"]["url"], format!("{base}/"));
    assert!(!there.to_string().contains("geheim"));

    let (code, text, _) = status(&database, &["--url", &base]).await;
    assert_eq!(code, Some(0));
    for line in [
        "accounts   2, 2 users, 1 valid tokens".to_owned(),
        "schema     up to date".to_owned(),
        format!("server     ready at {base}/"),
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    assert!(text.contains("clusters   2, 1 report; last report "), "{text}");
    assert!(text.contains("job        life-cycle     last success "), "{text}");

    let listen = server.listen().to_owned();
    assert_eq!(server.terminate().await, Some(0));
    let gone = status_as_json(&database, &["--listen", &listen]).await;
    assert_eq!(gone["server"]["isReady"], false);
    assert_eq!(gone["server"]["problem"], "no response");
    assert_eq!(gone["server"]["jobs"], Value::Null);
    assert_eq!(gone["content"]["clusters"], 2);
}

#[tokio::test]
async fn a_store_of_another_release_is_left_as_it_is() {
    let database = Database::empty().await;
    let connection = database.migrating_connection().await;
    Migrator::up(&connection, Some(9)).await.unwrap();
    let missing = Migrator::migrations().len() - 9;
    for _ in 0..2 {
        let there = status_as_json(&database, &["--listen", NOWHERE]).await;
        let schema = format!("{missing} migrations are missing: `galvo migrate` or a server applies them");
        assert_eq!((&there["schema"], &there["content"]), (&json!(schema), &Value::Null));
    }
    let pending = Migrator::get_pending_migrations(&connection).await.unwrap();
    assert_eq!(pending.len(), missing);
}

#[tokio::test]
async fn no_store_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("galvo.db");
    let url = format!("sqlite://{}?mode=rwc", file.display());
    let (code, output, errors) = Program::run(&["status", "--database-url", &url]).await;
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert!(errors.contains("there is no database at"), "{errors}");
    assert!(!file.exists());
}
