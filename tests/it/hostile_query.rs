//! Malicious queries: each is refused with the documented response, is charged to its token, and leaves
//! no resources behind.

use futures::StreamExt;
use harness::{HostileRequest, Member, Program, TestApp, hostile_requests};
use reqwest::{Method, header};
use serde_json::{Value, json};

/// Every request has one statement that looks up the token.
const SIGN_IN: u64 = 1;

#[tokio::test]
async fn hostile_requests_are_refused_before_anything_runs() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut wrong = Vec::new();
    for request in hostile_requests() {
        let before = app.statements();
        let (status, text) = send(&ada, &request).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        let errors = answer["errors"].as_array().unwrap();
        // An error that only the executor detects is executed without a result. A refusal based on the
        // headers precedes authentication.
        let data = (request.status == 200).then_some(&Value::Null);
        let statements = u64::from(!matches!(request.status, 413 | 415)) * SIGN_IN;
        let right = status == request.status
            && errors[0]["extensions"]["code"] == request.code
            && errors.len() <= 5
            && text.len() < 2_500
            && answer.get("data") == data
            && app.statements() - before == statements;
        if !right {
            wrong.push(format!("{}: {status} {text}", request.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    app.stop().await;
}

async fn send(member: &Member, request: &HostileRequest) -> (u16, String) {
    let method = Method::from_bytes(request.method.as_bytes()).unwrap();
    let sent = member.request(method, &request.target).header(header::CONTENT_TYPE, request.content_type);
    let sent = sent.header(header::ACCEPT, "application/graphql-response+json").body(request.body.clone());
    let response = sent.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn send_json(member: &Member, body: String) -> (u16, String) {
    let sent = member.request(Method::POST, "/graphql").header(header::CONTENT_TYPE, "application/json");
    let sent = sent.header(header::ACCEPT, "application/graphql-response+json").body(body);
    let response = sent.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn requests_that_are_refused_cost_their_token_something() {
    let app = TestApp::start_with(|settings| settings.query_cost_per_minute = 10_000).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let refused = [
        json!({ "query": "{" }).to_string(),
        json!({ "query": "{ nonsense }" }).to_string(),
        json!({ "query": "query($n: Int!) { account(slug: \"x\") { clusters(first: $n) { totalCount } } }" })
            .to_string(),
        json!({ "documentId": "x" }).to_string(),
        "[]".to_owned(),
        "{".to_owned(),
    ];
    let mut answers = Vec::new();
    for body in refused.iter().cycle().take(100) {
        let before = app.statements();
        let (status, answer) = send_json(&ada, body.clone()).await;
        assert_eq!(app.statements() - before, SIGN_IN);
        if status == 429 {
            assert!(answer.contains("RATE_LIMITED"), "{answer}");
            break;
        }
        assert_eq!(status, 400, "{answer}");
        answers.push(status);
    }
    // Each cost 1,000, and points are restored meanwhile.
    assert!((10..100).contains(&answers.len()), "{}", answers.len());
    let (status, _) = send_json(&ada, json!({ "query": "{ __typename }" }).to_string()).await;
    assert_eq!(status, 429, "nothing is left for what is right either");
    assert_eq!(bob.query("{ rateLimit { remaining } }", json!({})).await["rateLimit"]["remaining"], 9_998);
    app.stop().await;
}

#[tokio::test]
async fn memory_stays_bounded_whatever_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}/galvo.db?mode=rwc", directory.path().display());
    let mut program =
        Program::serve(&database, "127.0.0.1:0", &["--bootstrap", "--query-cost-per-minute", "1000000000"])
            .await;
    let token = program.bootstrap_token().await;
    let (client, requests) = (program.client(), hostile_requests());
    let round = async || {
        let answers = futures::stream::iter(&requests).map(|request| {
            let method = Method::from_bytes(request.method.as_bytes()).unwrap();
            let sent = client
                .request(method, program.url(&request.target))
                .bearer_auth(&token)
                .header(header::CONTENT_TYPE, request.content_type)
                .header(header::ACCEPT, "application/graphql-response+json")
                .body(request.body.clone())
                .send();
            async move {
                let status = sent.await.map(|response| response.status().as_u16());
                assert_eq!(
                    status.map_err(|error| format!("{error:?}")),
                    Ok(request.status),
                    "{}",
                    request.name
                );
            }
        });
        answers.buffer_unordered(4).collect::<Vec<()>>().await;
    };
    round().await;
    let before = program.resident_bytes();
    for _ in 1..12 {
        round().await;
    }
    let grown = program.resident_bytes().saturating_sub(before);
    assert!(grown < 150_000_000, "{grown} bytes more than {before}");
    // The peak was not higher either: four of the largest bodies, of 10 MB, are a small part of it.
    let peak = program.peak_bytes().saturating_sub(before);
    assert!(peak < 200_000_000, "{peak} bytes more than {before} at a time");
    assert_eq!(program.terminate().await, Some(0));
}
