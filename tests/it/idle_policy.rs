//! Setting and reading an account's idle policy. Its effects are tested in `idleness.rs`.

use entity::api_token::Scope;
use harness::TestApp;
use serde_json::{Value, json};

const FIELDS: &str =
    "timeoutSeconds mode warnBeforeSeconds exemptTags { key value } changedAt changedBy { name }";

fn set() -> String {
    format!(
        "mutation($input: SetIdlePolicyInput!) {{ setIdlePolicy(input: $input) {{
         idlePolicy {{ {FIELDS} }} userErrors {{ field code message }} }} }}"
    )
}

#[tokio::test]
async fn an_idle_policy_is_kept_as_it_was_set() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let query = format!("{{ viewer {{ account {{ idlePolicy {{ {FIELDS} }} }} }} }}");
    let policy = async || ada.query(&query, json!({})).await["viewer"]["account"]["idlePolicy"].take();
    let usual = json!({ "timeoutSeconds": null, "mode": "OBSERVE", "warnBeforeSeconds": 300, "exemptTags": [],
        "changedAt": null, "changedBy": null });
    assert_eq!(policy().await, usual);

    let input = json!({ "timeoutSeconds": 1200, "mode": "STOP", "warnBeforeSeconds": 60,
        "exemptTags": [{ "key": "keep" }, { "key": " team ", "value": "risk" }, { "key": "night", "value": "" }] });
    let expected_policy = json!({ "timeoutSeconds": 1200, "mode": "STOP", "warnBeforeSeconds": 60,
        "exemptTags": [{ "key": "keep", "value": null }, { "key": "team", "value": "risk" }, { "key": "night", "value": "" }],
        "changedAt": "2026-11-20T12:00:00+00:00", "changedBy": { "name": "ada" } });
    let done = ada.query(&set(), json!({ "input": input })).await["setIdlePolicy"].take();
    assert_eq!(done, json!({ "idlePolicy": expected_policy, "userErrors": [] }));
    assert_eq!(policy().await, expected_policy);

    app.set_clock("2026-11-20T13:00:00Z");
    let done = ada.query(&set(), json!({ "input": { "mode": "OBSERVE" } })).await["setIdlePolicy"].take();
    let mut expected = usual;
    (expected["changedAt"], expected["changedBy"]) =
        (json!("2026-11-20T13:00:00+00:00"), json!({ "name": "ada" }));
    assert_eq!(done, json!({ "idlePolicy": expected, "userErrors": [] }), "what is not given is as usual");
    app.stop().await;
}

#[tokio::test]
async fn a_policy_that_cannot_be_is_refused_with_every_field_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (input, wrong) in [
        (json!({ "mode": "STOP" }), json!([["timeoutSeconds", "MISSING", "is needed to warn or to stop"]])),
        (
            json!({ "mode": "WARN", "timeoutSeconds": 59, "warnBeforeSeconds": 59 }),
            json!([
                ["timeoutSeconds", "OUT_OF_RANGE", "must be from 60 to 31536000 seconds"],
                ["warnBeforeSeconds", "OUT_OF_RANGE", "must be from 0 seconds to less than the timeout"]
            ]),
        ),
        (
            json!({ "mode": "OBSERVE", "warnBeforeSeconds": -1, "exemptTags": vec![json!({ "key": "a" }); 21] }),
            json!([
                ["warnBeforeSeconds", "OUT_OF_RANGE", "must be from 0 seconds to less than the timeout"],
                ["exemptTags", "TOO_MANY", "must be at most 20"]
            ]),
        ),
        (
            json!({ "mode": "OBSERVE", "exemptTags": [{ "key": "" }, { "key": "b\u{0}" }] }),
            json!([[
                "exemptTags",
                "INVALID",
                "a key must have 1 to 100 characters, none of them a control character"
            ]]),
        ),
    ] {
        let answer = ada.query(&set(), json!({ "input": input })).await["setIdlePolicy"].take();
        let errors = answer["userErrors"].as_array().unwrap().iter();
        let errors = json!(
            errors.map(|error| json!([error["field"], error["code"], error["message"]])).collect::<Vec<_>>()
        );
        assert_eq!(errors, wrong, "{input}");
        assert_eq!(answer["idlePolicy"]["changedAt"], Value::Null, "{input}");
    }
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let answer = reader.ask(&set(), json!({ "input": { "mode": "OBSERVE" } })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN");
    app.stop().await;
}
