//! The metrics used by the dashboard and the alert rules exist.

use std::{collections::BTreeSet, fs, path::Path};

use harness::TestApp;
use serde_json::Value;

use super::{Exposition, do_a_little, scrape};

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)).unwrap()
}

/// The words of an expression, without quoted parts.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split('"')
        .step_by(2)
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
}

/// Checks that all metrics and labels of an expression exist.
fn check(expression: &str, metrics: &Exposition, names: &BTreeSet<&str>) {
    let asked_for: Vec<&str> =
        words(expression).filter(|word| word.starts_with("galvo_") || word.starts_with("process_")).collect();
    assert!(!asked_for.is_empty() || expression.contains("up{"), "it asks for nothing of ours: {expression}");
    for name in asked_for {
        assert!(names.contains(name), "there is no {name}: {expression}");
    }
    // The names before an operator in braces, and in the parentheses of an aggregation.
    let in_braces = expression.split('{').skip(1).map(|rest| rest.split('}').next().unwrap());
    let selected = in_braces.flat_map(|selector| {
        let plain = selector.split('"').step_by(2);
        plain.flat_map(|part| part.split(',')).filter_map(|label| label.split(['=', '!', '~']).next())
    });
    let grouped = ["by (", "without ("].iter().flat_map(|keyword| expression.split(keyword).skip(1));
    let grouped = grouped.flat_map(|rest| rest.split(')').next().unwrap().split(','));
    for label in selected.chain(grouped).map(str::trim).filter(|label| !label.is_empty()) {
        let known = metrics.labels.contains(label) || ["le", "job", "instance"].contains(&label);
        assert!(known, "there is no label {label}: {expression}");
    }
}

/// The expressions of all panels.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" => found.push(text.clone()),
                    Value::String(text) if name == "query" && text.starts_with("label_values(") => {
                        found.push(text["label_values(".len()..].split(',').next().unwrap().to_owned());
                    }
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_dashboard_and_the_rules_ask_for_what_there_is() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    do_a_little(&app, &ada).await;
    let metrics = scrape(&app).await;
    let names = metrics.names();

    let dashboard: Value = serde_json::from_str(&file("docker/grafana/galvo.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    assert!(found.len() > 20, "{}", found.len());
    for expression in &found {
        check(expression, &metrics, &names);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(
        variables
            .iter()
            .any(|variable| variable["type"] == "datasource" && variable["query"] == "prometheus")
    );
    let mut identifiers = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(identifiers.insert(panel["id"].as_i64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "a panel without a unit: {panel}");
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
    }

    let rules = file("docker/prometheus/galvo.rules.yml");
    let rules: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(rules.len() >= 8, "{}", rules.len());
    let mut alerts = BTreeSet::new();
    for rule in rules {
        let name = rule.lines().next().unwrap();
        assert!(alerts.insert(name), "{name} is there twice");
        let field = |field: &str| {
            let line = rule.lines().find_map(|line| line.trim().strip_prefix(field));
            line.unwrap_or_else(|| panic!("{name} has no {field}")).trim()
        };
        check(field("expr:"), &metrics, &names);
        for needed in ["for:", "severity:", "summary:", "description:"] {
            assert!(!field(needed).is_empty(), "{name}: {needed}");
        }
    }
    // Every documented metric exists, whether it is on the dashboard or not.
    assert!(metrics.kinds.len() > 40, "{:?}", metrics.kinds.keys());
    app.stop().await;
}
