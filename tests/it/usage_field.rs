//! The fields of `Usage`. A statement reads only the columns that the selected fields need, so each field
//! must have the same value alone as beside all others.

use harness::{ReportBuilder, TestApp, usage};
use serde_json::{Value, json};

use crate::sdl::{Sdl, innermost, required};

/// The places that read usage, with their selection for `{ … }` of a usage and the values in the response.
const PLACES: [(&str, &str); 7] = [
    ("usage {fields}", "/usage"),
    ("usage(clusters: { hasErrors: false }) {fields}", "/usage"),
    (r#"statistics(from: "2026-11-20", to: "2026-11-22") { usage {fields} }"#, "/statistics/usage"),
    (
        r#"table: usageTable(from: "2026-11-20", to: "2026-11-22", by: [DAY]) { usage {fields} }"#,
        "/table/0/usage /table/1/usage",
    ),
    (
        r#"table: usageTable(from: "2026-11-20", to: "2026-11-22", by: [USER, HOUR]) { user { name } usage {fields} }"#,
        "/table/0/usage /table/1/usage",
    ),
    (r#"table: usageTable(from: "2026-11-20", to: "2026-11-22", by: [TAG]) { ...row }"#, "/table/0/usage"),
    (
        "clusters { aggregates { usage {fields} } nodes { usage {fields} } }",
        "/clusters/aggregates/usage /clusters/nodes/0/usage",
    ),
];

/// Two hours of different days with a different value in each column. In the first one, the other causes
/// limit the idle time. In the second one, the compute time limits it.
fn hours() -> Value {
    let hour = |hour: i64, cpu: i64, compute: i64| {
        let mut hour = usage(hour, 8);
        for (column, value) in [
            ("observed_seconds", json!(25_000)),
            ("compute_seconds", json!(compute)),
            ("cpu_seconds", json!(cpu)),
            ("noncpu_seconds", json!(900)),
            ("serialize_seconds", json!(300)),
            ("spill_seconds", json!(200)),
            ("overhead_seconds", json!(100)),
            ("failed_seconds", json!(50)),
            ("idle_seconds", json!(24_000)),
        ] {
            hour[column] = value;
        }
        hour
    };
    json!([hour(23, 20_000, 3_000), hour(24, 2_000, 15_000)])
}

#[tokio::test]
async fn each_field_has_the_same_value_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/usage", hours()).build()).await;
    app.fold_usage().await;
    let sdl = Sdl::read();
    let fields: Vec<(String, String)> = sdl
        .fields("Usage")
        .filter(|field| required(field).next().is_none())
        .map(|field| {
            let (name, ty) = (field.name.node.to_string(), innermost(&field.ty.node));
            let leaves = sdl.fields(ty).filter(|field| !sdl.is_composite(innermost(&field.ty.node)));
            let leaves: Vec<_> = leaves.map(|field| field.name.node.as_str()).collect();
            let selection =
                if leaves.is_empty() { name.clone() } else { format!("{name} {{ {} }}", leaves.join(" ")) };
            (name, selection)
        })
        .collect();
    let everything: Vec<_> = fields.iter().map(|(_, selection)| selection.as_str()).collect();
    let everything = everything.join(" ");

    for (place, paths) in PLACES {
        let values = async |selection: &str| {
            let fields = format!("{{ {selection} }}");
            let mut query =
                format!("{{ viewer {{ account {{ {} }} }} }}", place.replace("{fields}", &fields));
            if place.contains("...row") {
                query.extend([" fragment row on UsageRow { a: usage { tasks } usage ", &fields, " }"]);
            }
            let answer = ada.query(&query, json!({})).await;
            let account = &answer["viewer"]["account"];
            paths.split(' ').map(|path| account.pointer(path).unwrap().clone()).collect::<Vec<Value>>()
        };
        let whole = values(&everything).await;
        for usage in &whole {
            let empty: Vec<_> =
                usage.as_object().unwrap().iter().filter(|(_, value)| is_empty(value)).collect();
            assert_eq!(empty, [], "{place}: a field without a value shows nothing");
        }
        for (name, selection) in &fields {
            let alone: Vec<_> = values(selection).await;
            let expected: Vec<_> = whole.iter().map(|usage| json!({ name: usage[name] })).collect();
            assert_eq!(alone, expected, "{place}: {name}");
        }
    }
    let idle = "{ viewer { account { usageTable(from: \"2026-11-20\", to: \"2026-11-22\") { usage { idleSeconds } } } } }";
    let answer = ada.query(idle, json!({})).await;
    // 28,800 s, of which 3,800 were not observed and 21,550 have other causes; then the observed 25,000 s
    // without 15,000 s of compute time.
    let expected = json!([{ "usage": { "idleSeconds": 3_450.0 } }, { "usage": { "idleSeconds": 10_000.0 } }]);
    assert_eq!(answer["viewer"]["account"]["usageTable"], expected);
    app.stop().await;
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == &json!(0) || value == &json!(0.0) || value == &json!([])
}
