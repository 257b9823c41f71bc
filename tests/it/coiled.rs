//! Further requests of the published `coiled` client.

use harness::TestApp;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn nobody_runs_out_of_anything_and_nothing_that_clients_send_is_kept() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.account("bob").await;
    for (workspace, status) in [("ada", 200), ("None", 200), ("bob", 404), ("nobody", 404), ("none", 404)] {
        let path = format!("/api/v2/user/account/{workspace}/usage");
        let answer = ada.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(answer.status(), status, "{workspace}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["has_quota"] == true, status == 200, "{workspace}: {body}");
        assert_eq!(app.anonymous(Method::GET, &path).send().await.unwrap().status(), 401, "{workspace}");
    }
    let path = "/api/v2/interactions/interaction";
    let interaction = json!({ "action": "cli-login-run-quickstart", "version": 1, "success": true,
        "coiled_version": "1.135.6", "error_message": null, "additional_text": null,
        "additional_data": { "answer": "n" } });
    for (body, status) in [(&interaction, 200), (&json!({}), 400), (&json!([]), 400)] {
        let answer = ada.request(Method::POST, path).json(body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{body}");
    }
    let answer = ada.request(Method::POST, path).json(&interaction).send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap(), json!({ "kept": false }));
    assert_eq!(app.anonymous(Method::POST, path).json(&interaction).send().await.unwrap().status(), 401);
    app.stop().await;
}
