//! `docs/export.md` and `/api/v1/openapi.json` match the actual exports.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use super::file::{ARROW, CSV, exports};

/// The line after which the document's tables are generated from the routes' description.
const TABLES: &str =
    "<!-- What follows is written by `INSTA_UPDATE=always cargo test --workspace --test it export`. -->\n";

fn openapi() -> Value {
    serde_json::to_value(galvo::http::openapi()).unwrap()
}

/// The tables as they should be.
fn tables() -> String {
    let openapi = openapi();
    let mut text = String::new();
    for export in exports() {
        let get = &openapi["paths"][&export.path]["get"];
        let description = get["description"].as_str().unwrap();
        write!(text, "\n### `{}`\n\n{description}\n", export.path).unwrap();
        let parameters = get["parameters"].as_array().unwrap().iter();
        let parameters: Vec<_> = parameters
            .filter(|parameter| parameter["in"] == "query" && parameter["name"] != "format")
            .map(|parameter| {
                let needed = if parameter["required"] == true { " Required." } else { "" };
                let (name, description) = (parameter["name"].as_str(), parameter["description"].as_str());
                format!("- `{}`: {}{needed}", name.unwrap(), description.unwrap())
            })
            .collect();
        if !parameters.is_empty() {
            write!(text, "\n{}\n", parameters.join("\n")).unwrap();
        }
        text.push_str("\n| column | type | null | |\n|---|---|---|---|\n");
        for column in &export.columns {
            let null = if column.nullable { "yes" } else { "" };
            let description = column.description.replace('|', "\\|");
            writeln!(text, "| `{}` | {} | {null} | {description} |", column.name, column.kind).unwrap();
        }
    }
    text
}

#[test]
fn the_document_lists_all_exports_and_columns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/export.md");
    let text = fs::read_to_string(&path).unwrap();
    let (above, below) = text.split_once(TABLES).expect("the tables have their place");
    let tables = tables();
    if below == tables {
        return;
    }
    assert_eq!(std::env::var("INSTA_UPDATE").as_deref(), Ok("always"), "the tables are out of date");
    fs::write(&path, format!("{above}{TABLES}{tables}")).unwrap();
}

#[test]
fn the_openapi_document_describes_every_export() {
    let openapi = openapi();
    let mut operations = BTreeSet::new();
    for export in exports() {
        let get = &openapi["paths"][&export.path]["get"];
        let operation = get["operationId"].as_str().unwrap().to_owned();
        assert!(operation.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{operation}");
        assert!(operations.insert(operation), "{} is called like another", export.path);
        let content = get["responses"]["200"]["content"].as_object().unwrap();
        assert_eq!(content.keys().collect::<Vec<_>>(), [ARROW, CSV]);
        assert_eq!(get["security"], json!([{ "token": ["read"] }]));
        for status in ["400", "401", "403", "406", "429", "500", "503", "504", "505"] {
            let body = &get["responses"][status]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(body, "#/components/schemas/ErrorBody", "{} {status}", export.path);
        }
        let has_id = export.of().is_some();
        assert_eq!(get["responses"].get("404").is_some(), has_id, "{}", export.path);
        let parameters = get["parameters"].as_array().unwrap();
        let names: Vec<_> = parameters.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names[0], if has_id { "id" } else { "format" });
        for parameter in parameters {
            assert!(!parameter["description"].as_str().unwrap_or_default().is_empty(), "{parameter}");
        }
    }
}
