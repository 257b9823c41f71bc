//! Acknowledged reports survive a kill of the process.

use std::{collections::BTreeMap, time::Duration};

use harness::{Database, Program, ReportBuilder, task_group};
use serde_json::{Value, json};
use tokio::sync::mpsc;

const SCHEDULERS: u128 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_reports_survive_kill_9() {
    let database = Database::migrated().await;
    let run = async |arguments: &[&str]| {
        let (status, output, errors) =
            Program::run(&[arguments, &["--database-url", database.url()]].concat()).await;
        assert_eq!(status, Some(0), "{errors}");
        output.trim().to_owned()
    };
    run(&["account", "create", "team"]).await;
    run(&["user", "create", "ada", "--account", "team"]).await;
    let token = run(&["token", "create", "--user", "ada", "--account", "team"]).await;

    let mut listen = "127.0.0.1:0".to_owned();
    let mut acknowledged: BTreeMap<u128, i64> = (0..SCHEDULERS).map(|scheduler| (scheduler, 0)).collect();
    for round in 1..=5 {
        let server = Program::serve(database.url(), &listen, &[]).await;
        server.listen().clone_into(&mut listen);
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let reporters = acknowledged.iter().map(|(scheduler, last)| {
            let sender = sender.clone();
            let (client, url, token) = (server.client(), server.url("/api/v1/reports"), token.clone());
            let (scheduler, mut sequence) = (*scheduler, *last);
            tokio::spawn(async move {
                let mut last = sequence;
                loop {
                    sequence += 1;
                    // One task group per report, with the report's sequence as its number of tasks.
                    let group = task_group(
                        1_000 * scheduler + 1 + u128::from(sequence.unsigned_abs()),
                        "load",
                        sequence,
                    );
                    let report = ReportBuilder::new(&format!("Scheduler-{scheduler}"), sequence)
                        .with("/base", Some(last).filter(|last| *last > 0))
                        .with("/cluster/totals/tasks", sequence)
                        .with("/task_groups", json!([group]))
                        .build();
                    let Ok(response) = client.post(&url).bearer_auth(&token).json(&report).send().await
                    else {
                        return (scheduler, last);
                    };
                    let Ok(body) = response.json::<Value>().await else { return (scheduler, last) };
                    assert_eq!(body["acknowledged"], sequence, "{body}");
                    assert_eq!(
                        body["resend"], false,
                        "an acknowledged report is missing after round {round}: {body}"
                    );
                    last = sequence;
                    let _ = sender.send(scheduler); // the receiver is dropped once enough have been counted
                }
            })
        });
        let reporters: Vec<_> = reporters.collect();
        // Kill the server at some point after each has reported in this round, however slow the machine
        // is.
        let mut report_counts: BTreeMap<u128, u32> = BTreeMap::new();
        while report_counts.len() < acknowledged.len() || report_counts.values().any(|reports| *reports < 2) {
            let scheduler = tokio::time::timeout(Duration::from_mins(1), receiver.recv()).await;
            *report_counts.entry(scheduler.expect("the server answers").expect("they go on")).or_default() +=
                1;
        }
        tokio::time::sleep(Duration::from_millis(7 * round)).await;
        server.kill().await;
        for reporter in reporters {
            let (scheduler, last) = reporter.await.unwrap();
            acknowledged.insert(scheduler, last);
        }
    }
    assert!(
        acknowledged.values().all(|last| *last > 5),
        "too few reports to mean anything: {acknowledged:?}"
    );

    let server = Program::serve(database.url(), &listen, &[]).await;
    let query = "{ viewer { account { clusters { nodes { schedulerId totals { tasks } taskGroups { totalCount } } } } } }";
    let request =
        server.client().post(server.url("/graphql")).bearer_auth(&token).json(&json!({ "query": query }));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    let clusters = answer["data"]["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert_eq!(clusters.len(), SCHEDULERS as usize, "{answer}");
    for cluster in clusters {
        let scheduler: u128 =
            cluster["schedulerId"].as_str().unwrap().strip_prefix("Scheduler-").unwrap().parse().unwrap();
        let last = acknowledged[&scheduler];
        // A report may be stored without its response having arrived, but never the other way round.
        let stored = cluster["totals"]["tasks"].as_i64().unwrap();
        assert!(stored == last || stored == last + 1, "{scheduler}: acknowledged {last}, stored {stored}");
        assert_eq!(cluster["taskGroups"]["totalCount"], stored, "{scheduler}: a report is stored in part");
    }
    assert_eq!(server.terminate().await, Some(0));
}
