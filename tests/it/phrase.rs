//! A client that phrases answers itself. It knows the codes and texts of the documentation, and must come
//! to the server's headlines, labels and details.

use std::collections::BTreeMap;

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, usage};
use regex::{Captures, Regex};
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../docs/answer-codes.md");

/// The arguments of a code.
pub(crate) const ARGUMENTS: &str = "arguments { name number unit time text }";

/// The fields of an answer from which a client phrases it.
pub(crate) fn fields() -> String {
    format!("code {ARGUMENTS} qualifications {{ code {ARGUMENTS} }}")
}

/// The fields of an answer and of its evidence from which a client phrases them.
pub(crate) fn fields_with_evidence() -> String {
    format!("{} evidence {{ code {ARGUMENTS} }}", fields())
}

/// The texts of the documentation by code, each with the headings below which it stands.
type Texts = BTreeMap<&'static str, (&'static str, Vec<&'static str>)>;

fn texts() -> Texts {
    let mut texts = Texts::new();
    let (mut heading, (_, document)) = ("", DOCUMENT.split_once("\n## Answers\n").unwrap());
    for line in document.lines() {
        if let Some(name) = line.strip_prefix("##") {
            heading = name.trim_matches(['#', ' ', '`']);
        } else if let Some(row) = line.strip_prefix("| `") {
            let (code, rest) = row.split_once("` |").unwrap();
            let text = rest.rsplit_once("| `").map_or(rest, |(_, text)| text).trim_start_matches(" `");
            texts.entry(code).or_insert((text.strip_suffix("` |").unwrap(), vec![])).1.push(heading);
        }
    }
    texts
}

/// Asserts that the client comes to the same headline and labels. Returns the answer without the fields for
/// it.
pub(crate) fn checked(question: &str, mut answer: Value) -> Value {
    let texts = texts();
    let code = answer["code"].as_str().unwrap();
    assert!(texts[code].1.contains(&question), "{code} does not answer {question}");
    assert_eq!(headline(&texts, &answer), answer["headline"].as_str().unwrap(), "{answer}");
    let fields = answer.as_object_mut().unwrap();
    for name in ["code", "arguments", "qualifications"] {
        fields.remove(name);
    }
    for evidence in fields.get_mut("evidence").and_then(Value::as_array_mut).into_iter().flatten() {
        assert_eq!(phrase(&texts, evidence, ""), evidence["label"].as_str().unwrap(), "{evidence}");
        let fields = evidence.as_object_mut().unwrap();
        fields.remove("code");
        fields.remove("arguments");
    }
    answer
}

/// Asserts that the client comes to the same sentence for a reason why a cluster runs.
pub(crate) fn check_reason(reason: &Value) {
    assert_eq!(phrase(&texts(), reason, ""), reason["detail"].as_str().unwrap(), "{reason}");
}

fn headline(texts: &Texts, answer: &Value) -> String {
    let qualifications = answer["qualifications"].as_array().unwrap().iter();
    let is_clause = |part: &&Value| texts[part["code"].as_str().unwrap()].0.contains('…');
    let (clauses, parts): (Vec<&Value>, Vec<&Value>) = qualifications.partition(is_clause);
    let parts: Vec<String> = parts.into_iter().map(|part| phrase(texts, part, "")).collect();
    let mut answer = answer.clone();
    if !parts.is_empty() {
        let listed =
            json!({ "name": "*", "number": null, "unit": null, "time": null, "text": parts.join(", ") });
        answer["arguments"].as_array_mut().unwrap().push(listed);
    }
    let whole =
        clauses.into_iter().fold(phrase(texts, &answer, ""), |text, clause| phrase(texts, clause, &text));
    format!("{whole}.")
}

/// The text of a code with its arguments, and with the text that it qualifies.
fn phrase(texts: &Texts, of: &Value, qualified: &str) -> String {
    let arguments = of["arguments"].as_array().unwrap();
    let named = |name: &str| arguments.iter().filter(|one| one["name"] == name).collect::<Vec<_>>();
    let choice = Regex::new(r"\[([^\]]*)\]").unwrap();
    let alternative = Regex::new(r"(?:\{[^}]*\}|[^/{])+").unwrap();
    let place = Regex::new(r"…|\{([^}:]+)(?::([^/}]*)/([^}]*))?\}").unwrap();
    let (text, _) = &texts[of["code"].as_str().unwrap()];
    let text = choice.replace_all(text, |found: &Captures<'_>| {
        let mut choices = alternative.find_iter(found.get(1).unwrap().as_str()).map(|found| found.as_str());
        let is_given = |text: &&str| {
            place
                .captures_iter(text)
                .filter_map(|found| found.get(1))
                .all(|name| !named(name.as_str()).is_empty())
        };
        choices.find(is_given).unwrap_or_default().to_owned()
    });
    let fill = |found: &Captures<'_>| {
        let Some(name) = found.get(1) else { return qualified.to_owned() };
        let values = named(name.as_str());
        match (found.get(2), found.get(3)) {
            (Some(one), Some(many)) => {
                let is_one = values.len() == 1 && values[0]["number"] == 1.0;
                if is_one { one.as_str() } else { many.as_str() }.to_owned()
            }
            _ => list(&values),
        }
    };
    place.replace_all(&text, fill).into_owned()
}

fn list(values: &[&Value]) -> String {
    let words: Vec<String> = values.iter().map(|value| value_in_words(value)).collect();
    match (values, &words[..]) {
        ([first, _, ..], [words @ .., last]) if first["name"] == "items" || first["name"] == "sections" => {
            format!("{} and {last}", words.join(", "))
        }
        _ => words.join(" and "),
    }
}

fn value_in_words(argument: &Value) -> String {
    let name = argument["name"].as_str().unwrap();
    if let Some(time) = argument["time"].as_str() {
        return format!("{} UTC", time.replace('T', " ").split(['.', '+']).next().unwrap());
    }
    if let Some(text) = argument["text"].as_str() {
        return if name == "sections" { text.replace('_', " ") } else { text.to_owned() };
    }
    let number = argument["number"].as_f64().unwrap();
    match (name, argument["unit"].as_str().unwrap_or_default()) {
        ("tick" | "usual", "seconds") => format!("{:.0} ms", 1_000.0 * number),
        ("rate", currency) => format!("{number} {currency}"),
        ("items", section) => {
            let (one, many) = match section {
                "computations" => ("computation", "computations"),
                "environments" => ("environment", "environments"),
                "fine_metrics" => ("set of fine metrics", "sets of fine metrics"),
                "samples" => ("sample", "samples"),
                "spans" => ("span", "spans"),
                "thread_history" => ("change of the threads", "changes of the threads"),
                "usage" => ("hour of usage", "hours of usage"),
                "workers" => ("worker", "workers"),
                other => panic!("a section without a name: {other}"),
            };
            if argument["number"] == 1.0 { format!("1 more {one}") } else { format!("{number} more {many}") }
        }
        (_, "seconds" | "thread-seconds") => duration(number),
        (_, "share") if number > 0.0 && number < 0.01 => format!("{:.1} %", 100.0 * number),
        (_, "share") => format!("{:.0} %", 100.0 * number),
        ("from" | "to" | "written", "bytes") => {
            let units = ["KiB", "MiB", "GiB", "TiB"];
            let power = (1..=4).rev().find(|power| number >= 1024_f64.powi(*power));
            let unit = |power: i32| units[usize::try_from(power).unwrap() - 1];
            let scaled = power.map(|power| format!("{:.1} {}", number / 1024_f64.powi(power), unit(power)));
            scaled.unwrap_or_else(|| format!("{number:.0} bytes"))
        }
        (_, unit) if unit.len() == 3 && unit.chars().all(|letter| letter.is_ascii_uppercase()) => {
            match number {
                0.0 | 0.1.. => format!("{number:.2} {unit}"),
                0.0001.. => format!("{number:.4} {unit}"),
                _ => format!("less than 0.0001 {unit}"),
            }
        }
        _ => number.to_string(),
    }
}

fn duration(seconds: f64) -> String {
    let short = |value: f64, unit: &str| format!("{} {unit}", format!("{value:.1}").trim_end_matches(".0"));
    let minutes = (seconds / 60.0).round();
    match seconds {
        ..59.95 => short(seconds, "s"),
        ..597.0 => short(seconds / 60.0, "min"),
        _ if minutes < 60.0 => format!("{minutes} min"),
        _ if minutes < 2_880.0 => format!("{} h {} min", (minutes / 60.0).floor(), minutes % 60.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

async fn ask(member: &Member, number: i64, question: &str) -> Value {
    let query = format!(
        "query($id: ID!) {{ cluster(id: $id) {{ answers {{ {question} {{ headline {} }} }} }} }}",
        fields()
    );
    let mut data = member.query(&query, json!({ "id": number.to_string() })).await;
    data["cluster"]["answers"][question].take()
}

fn number(name: &str, number: f64, unit: &str) -> Value {
    json!({ "name": name, "number": number, "unit": unit, "time": null, "text": null })
}

fn time(name: &str, time: &str) -> Value {
    json!({ "name": name, "number": null, "unit": null, "time": time, "text": null })
}

fn text(name: &str, text: &str) -> Value {
    json!({ "name": name, "number": null, "unit": null, "time": null, "text": text })
}

#[tokio::test]
async fn a_client_phrases_an_answer_itself() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let closed = ReportBuilder::new("Scheduler-1", 1)
        .with("/final", true)
        .with("/cluster/closed_at", STARTED_AT + 1_800.0)
        .with("/cluster/close_reason", "no work for 20 minutes")
        .with("/usage", vec![usage(23, 1)])
        .with("/dropped", json!({ "usage": 2 }));
    let cluster = ada.reported(&closed.build()).await;
    let expected = json!({
        "code": "CLUSTER_CLOSED",
        "arguments": [time("closed", "2026-11-20T11:30:00+00:00"), number("age", 1_800.0, "seconds"),
            text("reason", "no work for 20 minutes")],
        "qualifications": [],
        "headline": "It is not running: it closed at 2026-11-20 11:30:00 UTC, 30 min ago: no work for 20 minutes.",
    });
    assert_eq!(ask(&ada, cluster, "whyRunning").await, expected);
    // 3,000.5 of 3,600 thread-seconds.
    let expected = json!({
        "code": "TOP_FUNCTION",
        "arguments": [text("function", "load"), number("time", 3_000.5, "thread-seconds"),
            number("share", 3_000.5 / 3_600.0, "share")],
        "qualifications": [{ "code": "ITEMS_NOT_REPORTED", "arguments": [number("items", 2.0, "usage")] }],
        "headline": "load takes 50 min of thread time, 83 % of what was computed. 2 more hours of usage were not \
                     reported.",
    });
    assert_eq!(ask(&ada, cluster, "topTime").await, expected);
    let file = ReportBuilder::new("import-7c0e4bd3", 1)
        .with("/final", true)
        .with("/cluster/closed_at", STARTED_AT + 1_800.0);
    let cluster = ada.reported(&file.build()).await;
    let until =
        json!({ "code": "UNKNOWN_OUTSIDE", "arguments": [time("until", "2026-11-20T11:30:00+00:00")] });
    let found = ask(&ada, cluster, "gil").await;
    assert_eq!((&found["code"], &found["qualifications"]), (&json!("GIL_NOT_MEASURED"), &json!([until])));
    assert_eq!(found["arguments"], json!([text("release", "2023.4.1")]));
    app.stop().await;
}
