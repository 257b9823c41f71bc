//! The documentation is true: its queries run, and its settings exist.

use std::{fs, path::Path};

use harness::{Program, TestApp};
use serde_json::json;

fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("python/README.md")];
    paths.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

#[tokio::test]
async fn every_query_of_the_documentation_runs() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut run = 0;
    for (path, text) in documents() {
        for block in text.split("```graphql\n").skip(1) {
            let query = block.split("```").next().unwrap();
            run += 1;
            if query.starts_with("subscription") {
                let mut socket = app.socket_of(&ada).await;
                socket.ask("1", query, json!({})).await;
                // One that is wrong is refused at once; of one that begins nothing is heard.
                let heard = socket.hear_within(std::time::Duration::from_millis(500)).await;
                assert_eq!(heard, None, "{path}: {query}");
                continue;
            }
            let answer = ada.ask(query, json!({})).await;
            // The example of a mutation names a cluster that is not there.
            let code = &answer["errors"][0]["extensions"]["code"];
            assert!(answer.get("errors").is_none() || code == "NOT_FOUND", "{path}: {query}: {answer}");
        }
    }
    assert!(run >= 5, "only {run} queries were found");
    app.stop().await;
}

#[tokio::test]
async fn the_settings_of_the_documentation_are_those_of_the_program() {
    let (_, help, _) = Program::run(&["serve", "--help"]).await;
    let variables = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        let mut found: Vec<String> = words
            .filter(|word| word.starts_with("GALVO_") && !word.starts_with("GALVO__"))
            // What only tests read is no setting of the program.
            .filter(|word| !word.starts_with("GALVO_TEST_"))
            .map(str::to_owned)
            .collect();
        found.sort();
        found.dedup();
        found.retain(|word| word != "GALVO_");
        found
    };
    let running = documents().into_iter().find(|(path, _)| path.ends_with("running.md")).unwrap().1;
    assert_eq!(variables(&running), variables(&help));
    for (path, text) in documents() {
        for variable in variables(&text) {
            assert!(help.contains(&variable), "{path} names {variable}");
        }
    }
}

/// What stands between backquotes in the cells of the tables' last two columns.
fn named(text: &str, column: usize) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with("| A"));
    let cells = rows.map(|line| line.split('|').nth(column).unwrap_or_else(|| panic!("no column: {line}")));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[tokio::test]
async fn what_answers_a_question_exists_and_is_tested() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (_, features) = documents().into_iter().find(|(path, _)| path.ends_with("features.md")).unwrap();
    let (fields, tests) = (named(&features, 3), named(&features, 4));
    assert!(fields.len() > 80 && tests.len() > 80, "{} fields, {} tests", fields.len(), tests.len());
    let known = ada.query("{ __schema { types { name fields { name } } } }", json!({})).await;
    let known: Vec<String> =
        known["__schema"]["types"].as_array().unwrap().iter().fold(vec![], |mut all, of| {
            let fields = of["fields"].as_array().into_iter().flatten();
            all.extend(fields.map(|field| format!("{}.{}", of["name"], field["name"]).replace('"', "")));
            all
        });
    for field in fields {
        assert!(known.iter().any(|known| known == field), "there is no {field}");
    }
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    for test in tests {
        let (file, name) = test.split_once("::").unwrap();
        let (path, begin) = if Path::new(file).extension().is_some_and(|extension| extension == "py") {
            (directory.join("dask").join(file), format!("\ndef {name}("))
        } else {
            (directory.join("it").join(file).with_extension("rs"), format!("\nasync fn {name}()"))
        };
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text.contains(&begin), "there is no test {test}");
    }
    app.stop().await;
}

#[test]
fn links_between_documents_lead_somewhere() {
    for (path, text) in documents() {
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let (name, place) = target.split_once('#').unwrap_or((target, ""));
            let file = match name {
                "" => Path::new(&path).to_owned(),
                name => Path::new(&path).parent().unwrap().join(name),
            };
            assert!(file.exists(), "{path} links to {target}");
            if !place.is_empty() {
                let text = fs::read_to_string(file).unwrap();
                let headings = text.lines().filter(|line| line.starts_with('#'));
                assert!(headings.map(anchor).any(|anchor| anchor == place), "{path} links to {target}");
            }
        }
    }
}

/// The name of a heading's place in a page.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .replace(' ', "-")
        .replace(|letter: char| letter != '-' && letter != '_' && !letter.is_alphanumeric(), "")
}

#[test]
fn every_line_of_the_threat_model_has_a_test() {
    let (_, model) = documents().into_iter().find(|(path, _)| path.ends_with("threat-model.md")).unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("it");
    let mut lines = 0;
    for line in model.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what ")) {
        let test = line.trim_end_matches(" |").rsplit("| ").next().unwrap().trim_matches('`');
        let (module, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("no test: {line}"));
        let file = directory.join(module.replace("::", "/")).with_extension("rs");
        let source = fs::read_to_string(file).unwrap_or_default();
        assert!(source.contains(&format!("\nasync fn {name}()")), "there is no test {test}");
        lines += 1;
    }
    assert!(lines > 20, "{lines}");
}
