//! Test messages of alert rules.

use harness::TestApp;
use serde_json::{Value, json};

const CREATE: &str =
    "mutation($input: AlertRuleInput!) { createAlertRule(input: $input) { alertRule { identifier } } }";
const TEST: &str = "mutation($identifier: String!) { testAlertRule(identifier: $identifier) {
    deliveries { state } userErrors { field code message } } }";
const DELIVERIES: &str = "{ viewer { account { alertDeliveries { totalCount } } } }";

#[tokio::test]
async fn a_rule_is_tested_once_a_minute_and_an_account_tests_ten() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let emails = json!(["ada@example.com", "bob@example.com"]);
    let of = |name: &str| json!({ "name": name, "condition": { "flags": ["IDLE"] }, "emails": emails });
    let create = async |name: &str| {
        let mut made = ada.query(CREATE, json!({ "input": of(name) })).await["createAlertRule"].take();
        made["alertRule"]["identifier"].take()
    };
    let (first, second) = (create("first").await, create("second").await);
    let test = async |identifier: &Value| {
        let tested = ada.query(TEST, json!({ "identifier": identifier })).await["testAlertRule"].take();
        (tested["deliveries"].as_array().unwrap().len(), tested["userErrors"].clone())
    };
    let refused = json!([
        { "field": "identifier", "code": "TOO_MANY", "message": "a rule can be tested once a minute" }
    ]);
    assert_eq!(test(&first).await, (2, json!([])));
    for _ in 0..5 {
        assert_eq!(test(&first).await, (0, refused.clone()));
    }
    // Each rule has its own minute.
    assert_eq!(test(&second).await, (2, json!([])));
    app.set_clock("2026-11-20T12:00:59.999Z");
    assert_eq!(test(&first).await, (0, refused));
    app.set_clock("2026-11-20T12:01:00Z");
    assert_eq!(test(&first).await, (2, json!([])));
    // Rules that are deleted and created again count as well.
    let delete =
        "mutation($identifier: String!) { deleteAlertRule(identifier: $identifier) { userErrors { code } } }";
    for number in 0..9 {
        let another = create(&format!("another {number}")).await;
        assert_eq!(test(&another).await, (2, json!([])), "{number}");
        ada.query(delete, json!({ "identifier": another })).await;
    }
    let (sent, errors) = test(&create("last").await).await;
    assert_eq!((sent, &errors[0]["message"]), (0, &json!("an account can test 10 rules a minute")));
    let found = ada.query(DELIVERIES, json!({})).await;
    assert_eq!(found["viewer"]["account"]["alertDeliveries"]["totalCount"], 6);
    app.stop().await;
}
