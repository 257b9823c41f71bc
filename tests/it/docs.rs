//! The documentation is correct: its queries run, and its settings exist.

use std::{collections::HashSet, fs, path::Path};

use harness::{Program, TestApp};
use serde_json::json;

fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths: Vec<_> = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "python/README.md",
    ]
    .map(|name| root.join(name))
    .into();
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
                socket.subscribe("1", query, json!({})).await;
                // An invalid subscription is refused at once; a valid one sends nothing at first.
                let received = socket.receive_within(std::time::Duration::from_millis(500)).await;
                assert_eq!(received, None, "{path}: {query}");
                continue;
            }
            let answer = ada.ask(query, json!({})).await;
            // The example of a mutation names a cluster that does not exist.
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
            // Variables that only tests, or the command of the Python package, read are not settings.
            .filter(|word| !word.starts_with("GALVO_TEST_") && *word != "GALVO_SERVER_BIN")
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

/// Returns the cells of each row of the tables with three columns that begin with the given one.
fn rows_of<'a>(text: &'a str, first_column: &str) -> Vec<[&'a str; 3]> {
    let head = format!("| {first_column} |");
    let (mut rows, mut is_inside) = (Vec::new(), false);
    for line in text.lines() {
        let is_head = line.starts_with(&head);
        // Other tables have other columns.
        is_inside = is_head || (is_inside && line.starts_with('|'));
        if is_inside && !is_head && line.starts_with("| ") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [first, second, third] = cells[..] else { panic!("not three cells: {line}") };
            rows.push([first, second, third]);
        }
    }
    rows
}

/// Returns the texts between backquotes in a cell.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[tokio::test]
async fn what_answers_a_question_exists_and_is_tested() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (_, features) = documents().into_iter().find(|(path, _)| path.ends_with("features.md")).unwrap();
    let rows = rows_of(&features, "question");
    let (mut questions, mut fields, mut tests) = (HashSet::new(), Vec::new(), Vec::new());
    for [question, of_fields, of_tests] in &rows {
        assert!(!question.is_empty() && questions.insert(*question), "empty or duplicate: {question}");
        let (of_fields, of_tests) = (named(of_fields), named(of_tests));
        assert!(!of_fields.is_empty() && !of_tests.is_empty(), "no field, or no test: {question}");
        fields.extend(of_fields);
        tests.extend(of_tests);
    }
    let counts = (rows.len(), fields.len(), tests.len());
    assert!(rows.len() > 70 && fields.len() > 80 && tests.len() > 80, "rows, fields, tests: {counts:?}");
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

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .replace(' ', "-")
        .replace(|letter: char| letter != '-' && letter != '_' && !letter.is_alphanumeric(), "")
}

/// Lines of the threat model without a test. This list may only become shorter.
const OPEN: [&str; 0] = [];

#[test]
fn every_line_of_the_threat_model_has_a_test() {
    let (_, model) = documents().into_iter().find(|(path, _)| path.ends_with("threat-model.md")).unwrap();
    let (mut lines, mut open) = (0, Vec::new());
    for [line, promise, tests] in rows_of(&model, "threat") {
        assert!(!line.is_empty() && !promise.is_empty(), "{line} | {promise}");
        if tests == "open" {
            open.push(line);
            continue;
        }
        let tests = named(tests);
        assert!(!tests.is_empty(), "no test: {line}");
        for test in tests {
            assert!(is_a_test(test), "there is no test {test}");
        }
        lines += 1;
    }
    assert!(lines > 60, "{lines}");
    assert_eq!(open, OPEN, "lines without a test");
    assert!(!is_a_test("machine::there_is_no_such_test") && !is_a_test("test_scrub.py::test_nothing"));
}

/// True if the sources have a test with this name: `module::name` in Rust, or `file.py::name` in Python.
fn is_a_test(test: &str) -> bool {
    let Some((module, name)) = test.rsplit_once("::") else { return false };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Path::new(module).extension().is_some_and(|extension| extension == "py") {
        let directories = [here.join("dask"), here.join("faults"), here.join("../python/tests")];
        return directories.iter().any(|directory| {
            let source = fs::read_to_string(directory.join(module)).unwrap_or_default();
            source.contains(&format!("\ndef {name}("))
        });
    }
    let file = here.join("it").join(module.replace("::", "/")).with_extension("rs");
    let source = fs::read_to_string(file).unwrap_or_default();
    source.contains(&format!("\n#[tokio::test]\nasync fn {name}()"))
        || source.contains(&format!("\n#[test]\nfn {name}()"))
        || (source.contains("#[tokio::test(") && source.contains(&format!("\nasync fn {name}()")))
}
