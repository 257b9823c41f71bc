//! A cluster with its lists. A directive makes the executor resolve it.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, computation, error, task_group, uuid};
use reqwest::StatusCode;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use super::{Documents, draw_choices, send};
use crate::sdl::Sdl;

/// The directive that makes the executor resolve the cluster, and spaces of the same length, because errors
/// have positions in the document.
const DIRECTIVE: &str = "@include(if: true)";
const NO_DIRECTIVE: &str = "                  ";

impl Documents<'_> {
    fn task_group(&mut self) -> String {
        self.selection("TaskGroup", 1, &|documents| match documents.choose(12) {
            0 | 1 => {
                let inside = documents.selection("StateCount", 1, &|documents| {
                    let name = ["state", "count"][documents.choose(2)];
                    documents.leaf(name)
                });
                documents.object("states", &inside)
            }
            2 | 3 => {
                let inside = documents.selection("ActionDuration", 1, &|documents| {
                    let name = ["action", "seconds"][documents.choose(2)];
                    documents.leaf(name)
                });
                documents.object("durations", &inside)
            }
            // Only the executor resolves it.
            4 if documents.choose(4) == 0 && !documents.is_plain => "dependencies { name }".to_owned(),
            _ => documents.any_leaf("TaskGroup"),
        })
    }

    fn error(&mut self) -> String {
        // `message` and others are decrypted, which only the executor does.
        let compiled =
            ["id", "number", "key", "type", "worker", "workerId", "origin", "retries", "at", "message"];
        self.selection("ErrorOccurrence", 1, &|documents| {
            let count = if documents.choose(8) == 0 && !documents.is_plain { 10 } else { 9 };
            let choice = documents.choose(count);
            documents.leaf(compiled[choice])
        })
    }

    fn computation(&mut self) -> String {
        self.selection("Computation", 1, &|documents| match documents.choose(10) {
            0..3 => documents.list("taskGroups", "TaskGroup", &Self::task_group),
            3 => documents.list("errors", "ErrorOccurrence", &Self::error),
            4 if documents.choose(4) == 0 && !documents.is_plain => "totals { tasks }".to_owned(),
            _ => documents.any_leaf("Computation"),
        })
    }

    /// A list with its page in the document.
    fn list(&mut self, name: &str, ty: &str, node: &dyn Fn(&mut Self) -> String) -> String {
        let numbers =
            [json!(1), json!(2), json!(3), json!(4), json!(5), json!(20), json!(0), json!(101), Value::Null];
        // Mostly a cursor of this list.
        let all = self.cursors;
        self.cursors = match name {
            _ if !self.is_plain && self.choose(12) == 0 => all,
            "computations" => &all[..5],
            "taskGroups" => &all[5..11],
            _ => &all[11..],
        };
        let page = self.page(&numbers);
        self.cursors = all;
        let mut arguments: Vec<String> =
            page.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        if name == "taskGroups" && self.choose(4) == 0 {
            let other = ["filter: null", "orderBy: null", "filter: {}", "orderBy: { field: TASKS }"];
            arguments.push(other[self.choose(if self.is_plain { 2 } else { 4 })].to_owned());
        }
        let arguments =
            if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(" ")) };
        let (number, connection) = (self.choices.len(), self.connection(ty, node));
        format!("{name}_{number}: {name}{arguments} {{ __typename {connection} }}")
    }

    /// Draws two documents, which select the same, and their variables. The executor resolves the second one.
    fn draw_cluster(&mut self, ids: &[Value]) -> ([String; 2], Value) {
        let id = ids[self.choose(ids.len())].clone();
        let cluster = self.selection("Cluster", 2, &|documents| match documents.choose(10) {
            0..3 => documents.list("computations", "Computation", &Self::computation),
            3 => documents.list("taskGroups", "TaskGroup", &Self::task_group),
            4 => documents.list("errors", "ErrorOccurrence", &Self::error),
            5 => documents.totals(),
            choice => {
                let names = ["id", "number", "name", "state", "durationSeconds", "endedAt", "address"];
                let name = names[documents.choose(names.len())];
                if choice == 6 { documents.leaf(name) } else { name.to_owned() }
            }
        });
        let declared = if cluster.contains("$yes") { ", $yes: Boolean!" } else { "" };
        let declared = format!("{declared}{}", if cluster.contains("$no") { ", $no: Boolean!" } else { "" });
        let as_variable = self.choose(2) == 0;
        let (id_type, argument) =
            if as_variable { ("$id: ID!", "$id".to_owned()) } else { ("", id.to_string()) };
        let declared = format!("{id_type}{declared}");
        let declared = declared.trim_start_matches(", ");
        let declared = if declared.is_empty() { String::new() } else { format!("({declared})") };
        let document = |directive: &str| {
            format!("query{declared} {{ it: cluster(id: {argument}) {directive} {{{cluster} }} }}")
        };
        let variables = json!({ "id": id, "yes": true, "no": false });
        ([document(NO_DIRECTIVE), document(DIRECTIVE)], variables)
    }
}

/// Creates a cluster with computations, task groups and errors. Returns its number.
async fn create_cluster(member: &Member) -> i64 {
    let mut groups: Vec<Value> = (10..16).map(|n| task_group(n, "load", 4)).collect();
    groups[1]["states"] = json!({ "released": 3, "waiting": 1, "erred": 2, "forgotten": 7 });
    groups[2]["durations"] = json!({ "compute": 0.1, "disk-read": 0.5, "my-action": 2.25 });
    groups[3]["types"] = json!(["int", "tab\t\"quoted\" \u{1F980}\u{2028}"]);
    (groups[4]["started_at"], groups[4]["stopped_at"]) = (Value::Null, Value::Null);
    let mut computations: Vec<Value> = (1..=5).map(|n| computation(n, &[9 + n, 10, 15])).collect();
    for (index, started) in [1.0, 2.0, 2.0, 0.5, 3.25].into_iter().enumerate() {
        computations[index]["started_at"] = json!(STARTED_AT + started);
    }
    (computations[1]["state"], computations[1]["stopped_at"]) = (json!("running"), Value::Null);
    let errors = (0..5).map(|n| {
        let mut error = error(20 + n, 10 + n, 1 + n % 2);
        (error["number"], error["retries"]) = (json!(1 + n), json!(n));
        if n == 3 {
            (error["type"], error["worker"], error["worker_id"]) =
                (Value::Null, Value::Null, json!(uuid(30)));
        }
        error
    });
    let report = ReportBuilder::new("Scheduler", 1)
        .with("/cluster/name", "etl")
        .with("/computations", computations)
        .with("/task_groups", groups)
        .with("/errors", errors.collect::<Vec<_>>());
    member.reported(&report.build()).await
}

/// Returns cursors of all lists of a cluster.
async fn cursors(member: &Member, cluster: i64) -> Vec<String> {
    let query = "query($id: ID!) { cluster(id: $id) { computations { edges { cursor } }
        taskGroups { edges { cursor } } errors { edges { cursor } } } }";
    let answer = member.query(query, json!({ "id": cluster.to_string() })).await;
    let lists = ["computations", "taskGroups", "errors"].into_iter();
    let edges = lists.flat_map(|list| answer["cluster"][list]["edges"].as_array().unwrap());
    edges.map(|edge| edge["cursor"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn compiled_and_executed_responses_are_equal() {
    let app = TestApp::start().await;
    let (ada, eve) = (app.account("ada").await, app.account("eve").await);
    let (cluster, others) = (create_cluster(&ada).await, create_cluster(&eve).await);
    let empty = ada.reported(&ReportBuilder::new("Empty", 1).build()).await;
    let deleted = ada.reported(&ReportBuilder::new("Deleted", 1).build()).await;
    let delete = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { message } } }";
    let answer = ada.query(delete, json!({ "id": deleted.to_string() })).await;
    assert_eq!(answer["deleteCluster"]["userErrors"], json!([]));
    let (sdl, cursors) = (Sdl::read(), cursors(&ada, cluster).await);
    assert_eq!(cursors.len(), 16);
    let (mut compiled_lists, mut with_data, mut nulls, mut with_errors) = (0, 0, 0, 0);
    let other_ids = [json!(empty.to_string()), json!(deleted.to_string()), json!("unknown"), json!("")];
    let mut ids = Vec::new();
    for (member, number) in [(&ada, cluster), (&eve, others)] {
        let query = "query($id: ID!) { cluster(id: $id) { id } }";
        let answer = member.query(query, json!({ "id": number.to_string() })).await;
        let own_ids = [answer["cluster"]["id"].clone(), json!(number.to_string()), json!(number)];
        ids.push([&own_ids[..], &own_ids, &own_ids, &other_ids].concat());
    }
    for choices in draw_choices(400) {
        for (member, ids) in [&ada, &eve].into_iter().zip(&ids) {
            // The same document, which for half of the choices has the identifier as a variable, so that both
            // accounts use the same plan.
            let mut documents = Documents::new(&sdl, choices.clone(), &cursors);
            let is_plain = documents.is_plain;
            let ([compiled, executed], variables) = documents.draw_cluster(ids);
            let (answer, expected) =
                (send(member, &compiled, &variables).await, send(member, &executed, &variables).await);
            assert_eq!(answer, expected, "{compiled}\n{variables}");
            assert!(!answer.1.contains("GRAPHQL_VALIDATION_FAILED"), "{compiled}\n{answer:?}");
            if answer.1.contains("\"errors\":[{\"") {
                with_errors += 1;
            } else if answer.1.starts_with(r#"{"data":{"it":null}"#) {
                nulls += 1;
            } else {
                assert!(answer.1.starts_with(r#"{"data":{"it":{"#), "{answer:?}");
                with_data += 1;
                compiled_lists += usize::from(is_plain && answer.1.contains(r#"":[{"#));
            }
        }
    }
    assert!(
        compiled_lists >= 150 && with_data >= 300 && nulls >= 50 && with_errors >= 30,
        "{compiled_lists} with compiled lists, {with_data} with data, {nulls} without, {with_errors} with errors"
    );
    app.stop().await;
}

#[tokio::test]
async fn nested_lists_belong_to_their_parents() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cluster = create_cluster(&ada).await;
    let query = "query($id: ID!) { cluster(id: $id) { name computations(first: 4) { nodes { daskId
        taskGroups(first: 2) { nodes { prefix states { state count } } pageInfo { hasNextPage } }
        errors { nodes { number type } } } } errors(last: 2) { nodes { number retries } } } }";
    let answer = ada.query(query, json!({ "id": cluster.to_string() })).await;
    let groups = |states: [Value; 2], has_next: bool| {
        let nodes: Vec<Value> =
            states.iter().map(|states| json!({ "prefix": "load", "states": states })).collect();
        json!({ "nodes": nodes, "pageInfo": { "hasNextPage": has_next } })
    };
    let memory = json!([{ "state": "MEMORY", "count": 4 }]);
    let several = json!([
        { "state": "RELEASED", "count": 3 },
        { "state": "WAITING", "count": 1 },
        { "state": "ERRED", "count": 2 },
        { "state": "FORGOTTEN", "count": 7 },
    ]);
    let errors = |numbers: &[i64]| {
        let ty = |number| if number == 4 { Value::Null } else { json!("ZeroDivisionError") };
        let nodes: Vec<Value> =
            numbers.iter().map(|number| json!({ "number": number, "type": ty(*number) })).collect();
        json!({ "nodes": nodes })
    };
    // The newest computation comes first; of those that started at once, the one with the larger identifier.
    let both = || groups([memory.clone(), memory.clone()], true);
    assert_eq!(
        answer["cluster"],
        json!({
            "name": "etl",
            "computations": { "nodes": [
                { "daskId": uuid(5), "taskGroups": both(), "errors": errors(&[]) },
                { "daskId": uuid(3), "taskGroups": both(), "errors": errors(&[]) },
                { "daskId": uuid(2), "taskGroups": groups([memory.clone(), several], true), "errors": errors(&[4, 2]) },
                { "daskId": uuid(1), "taskGroups": groups([memory.clone(), memory.clone()], false),
                  "errors": errors(&[5, 3, 1]) },
            ] },
            "errors": { "nodes": [{ "number": 2, "retries": 1 }, { "number": 1, "retries": 0 }] },
        })
    );
    app.stop().await;
}

#[tokio::test]
async fn the_executor_reports_an_error_of_the_database() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cluster = create_cluster(&ada).await;
    let damage = app.database.connection().await;
    damage.execute_unprepared("ALTER TABLE task_groups RENAME COLUMN bytes TO size").await.unwrap();
    let mut answers = Vec::new();
    for directive in [NO_DIRECTIVE, DIRECTIVE] {
        let query = format!(
            "query($id: ID!) {{ it: cluster(id: $id) {directive} {{ name computations {{ nodes {{
               list: taskGroups {{ nodes {{ bytes }} }} }} }} }} }}"
        );
        let (status, text) = send(&ada, &query, &json!({ "id": cluster.to_string() })).await;
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        for error in answer["errors"].as_array_mut().unwrap() {
            // Each time differs.
            error["extensions"].as_object_mut().unwrap().remove("reference").unwrap();
        }
        answers.push((status, answer));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, StatusCode::OK);
    let error = &answers[0].1["errors"][0];
    assert_eq!(error["path"], json!(["it", "computations", "nodes", 0, "list"]), "{error}");
    damage.execute_unprepared("ALTER TABLE task_groups RENAME COLUMN size TO bytes").await.unwrap();
    app.stop().await;
}
