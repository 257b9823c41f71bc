//! Compiled reads give the same responses as the executor, to the byte. An explicit order, even the default
//! one, makes the executor resolve a list of clusters.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp};
use proptest::{
    collection::vec,
    prelude::any,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use reqwest::{Method, StatusCode};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::sdl::{Sdl, required};

/// The argument that makes the executor resolve the list.
const ORDER: &str = "orderBy: {}";

/// The fields of a cluster and of its totals that a compiled read can have.
const CLUSTER: [&str; 15] = [
    "id",
    "number",
    "schedulerId",
    "name",
    "address",
    "dashboardUrl",
    "state",
    "desiredState",
    "startedAt",
    "endedAt",
    "durationSeconds",
    "closeReason",
    "lastSeenAt",
    "idleSince",
    "idleSeconds",
];

/// The variables of the documents, with their types.
const VARIABLES: [(&str, &str); 7] = [
    ("yes", "Boolean!"),
    ("no", "Boolean!"),
    ("first", "Int"),
    ("after", "String"),
    ("last", "Int"),
    ("before", "String"),
    ("filter", "ClusterFilter"),
];

/// Draws documents from random choices.
struct Documents {
    totals: Vec<String>,
    choices: Vec<usize>,
    cursors: Vec<String>,
}

impl Documents {
    fn choose(&mut self, below: usize) -> usize {
        self.choices.pop().unwrap_or_default() % below
    }

    /// A selection of a type. `fields` draws one of its fields.
    fn selection(&mut self, ty: &str, depth: usize, field: &dyn Fn(&mut Self) -> String) -> String {
        let count = 1 + self.choose(6);
        let selected = (0..count).map(|_| match self.choose(12) {
            0 => " __typename".to_owned(),
            1 => " type: __typename".to_owned(),
            2 if depth > 0 => format!(" ... on {ty} {{{} }}", self.selection(ty, depth - 1, field)),
            3 if depth > 0 => format!(" ... {{{} }}", self.selection(ty, depth - 1, field)),
            4 if depth > 0 => {
                format!(" ... @include(if: $yes) {{{} }}", self.selection(ty, depth - 1, field))
            }
            _ => format!(" {}", field(self)),
        });
        selected.collect()
    }

    /// A field without sub-fields, which may have another name.
    fn leaf(&mut self, name: &str) -> String {
        match self.choose(8) {
            0 => format!("my_{name}: {name}"),
            1 => format!("{name} @include(if: $yes)"),
            2 => format!("{name} @skip(if: $no)"),
            _ => name.to_owned(),
        }
    }

    /// Objects that are selected twice have different names.
    fn object(&mut self, name: &str, inside: &str) -> String {
        let number = self.choices.len();
        format!("{name}_{number}: {name} {{ __typename {inside} }}")
    }

    fn node(&mut self) -> String {
        self.selection("Cluster", 2, &|documents| match documents.choose(CLUSTER.len() + 3) {
            choice if choice < CLUSTER.len() => documents.leaf(CLUSTER[choice]),
            choice if choice == CLUSTER.len() => {
                // Only the executor resolves them.
                let name = ["clampedFields", "viewerCanStop", "environmentMismatches { name }"];
                name[documents.choose(3)].to_owned()
            }
            _ => {
                let inside = documents.selection("ClusterTotals", 1, &|documents| {
                    let choice = documents.choose(documents.totals.len());
                    let name = documents.totals[choice].clone();
                    documents.leaf(&name)
                });
                documents.object("totals", &inside)
            }
        })
    }

    fn page_info(&mut self) -> String {
        self.selection("PageInfo", 1, &|documents| {
            let fields = ["hasNextPage", "hasPreviousPage", "startCursor", "endCursor"];
            let choice = documents.choose(4);
            documents.leaf(fields[choice])
        })
    }

    fn connection(&mut self) -> String {
        self.selection("ClusterConnection", 1, &|documents| match documents.choose(8) {
            0 => "totalCount".to_owned(),
            1 | 2 => {
                let inside = documents.page_info();
                documents.object("pageInfo", &inside)
            }
            3 | 4 => {
                let node = documents.node();
                let node = documents.object("node", &node);
                let edge = if documents.choose(2) == 0 { format!("cursor {node}") } else { node };
                documents.object("edges", &edge)
            }
            _ => {
                let node = documents.node();
                documents.object("nodes", &node)
            }
        })
    }

    /// A cursor of the list, or an invalid one.
    fn cursor(&mut self) -> Value {
        match self.choose(self.cursors.len() + 2) {
            choice if choice < self.cursors.len() => json!(self.cursors[choice]),
            choice if choice == self.cursors.len() => Value::Null,
            _ => json!("bm9uZQ"),
        }
    }

    /// The arguments of the list, in the document or as variables.
    fn arguments(&mut self) -> (Vec<String>, Value) {
        let mut given = Vec::new();
        if self.choose(4) > 0 {
            let numbers =
                [json!(1), json!(3), json!(4), json!(100), json!(500), json!(0), json!(501), Value::Null];
            let end = ["first", "first", "last"][self.choose(3)];
            given.push((end, numbers[self.choose(numbers.len())].clone()));
            if self.choose(20) == 0 {
                given.push((if end == "last" { "first" } else { "last" }, json!(2)));
            }
        }
        for name in ["after", "before"] {
            if self.choose(3) == 0 {
                given.push((name, self.cursor()));
            }
        }
        if self.choose(6) == 0 {
            given.push((
                "filter",
                [Value::Null, json!({}), json!({ "hasErrors": true })][self.choose(3)].clone(),
            ));
        }
        let (mut arguments, mut variables) = (Vec::new(), json!({ "yes": true, "no": false }));
        for (name, value) in given {
            // Objects have another syntax in documents than in JSON.
            if value.is_object() || self.choose(2) == 0 {
                variables[name] = value;
                arguments.push(format!("{name}: ${name}"));
            } else {
                arguments.push(format!("{name}: {value}"));
            }
            // A variable that is not given is as an argument that is not given.
            if self.choose(12) == 0 {
                variables.as_object_mut().unwrap().remove(name);
            }
        }
        (arguments, variables)
    }

    /// Draws two documents, which select the same, and their variables. The executor resolves the second one.
    fn draw(&mut self) -> ([String; 2], Value) {
        let (arguments, variables) = self.arguments();
        let connection = self.connection();
        let document = |arguments: &[String]| {
            let arguments =
                if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(" ")) };
            let list = format!("who: viewer {{ account {{ list: clusters{arguments} {{{connection} }} }} }}");
            // Each declared variable must be used.
            let uses = |(name, _): &(&str, &str)| list.contains(&format!("${name}"));
            let declared = VARIABLES.iter().copied().filter(uses).map(|(name, ty)| format!("${name}: {ty}"));
            let declared: Vec<String> = declared.collect();
            let declared =
                if declared.is_empty() { String::new() } else { format!("({})", declared.join(" ")) };
            format!("query{declared} {{ {list} }}")
        };
        let ordered: Vec<String> = arguments.iter().cloned().chain([ORDER.to_owned()]).collect();
        ([document(&arguments), document(&ordered)], variables)
    }
}

/// Creates five clusters, with and without the values that may be missing, and one that is deleted.
async fn create_clusters(member: &Member) {
    for cluster in 0..5 {
        let mut report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            // Clusters that started at the same time are ordered by their numbers.
            .with("/cluster/started_at", STARTED_AT - 10.75 + f64::from(cluster / 2))
            .with("/cluster/totals/tasks", cluster)
            .with("/cluster/totals/compute_seconds", f64::from(cluster) / 3.0)
            .with("/cluster/totals/thread_seconds", f64::from(cluster));
        if cluster % 2 == 1 {
            report = report
                .with("/cluster/name", "tab\t\"quoted\" \u{1F980}\u{2028}")
                .with("/cluster/address", "tcp://10.0.0.1:8786")
                .with("/cluster/dashboard_url", "http://10.0.0.1:8787/status")
                .with("/cluster/idle_since", STARTED_AT - 5.25)
                .with("/cluster/memory_used_bytes", 1_000);
        }
        if cluster == 2 {
            report = report
                .with("/final", true)
                .with("/cluster/closed_at", STARTED_AT)
                .with("/cluster/close_reason", "scale-down");
        }
        member.reported(&report.build()).await;
    }
    let deleted = member.reported(&ReportBuilder::new("Deleted", 1).build()).await;
    let delete = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { message } } }";
    let answer = member.query(delete, json!({ "id": deleted.to_string() })).await;
    assert_eq!(answer["deleteCluster"]["userErrors"], json!([]));
}

/// Returns the status and the text of a response.
async fn send(member: &Member, query: &str, variables: &Value) -> (StatusCode, String) {
    let body = json!({ "query": query, "variables": variables });
    let answer = member.request(Method::POST, "/graphql").json(&body).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn compiled_and_executed_responses_are_equal() {
    let app = TestApp::start().await;
    let (ada, empty, other) = (app.account("ada").await, app.account("bob").await, app.account("eve").await);
    create_clusters(&ada).await;
    create_clusters(&other).await;
    let cursors = "{ viewer { account { clusters(first: 5) { edges { cursor } } } } }";
    let cursors = ada.query(cursors, json!({})).await;
    let cursors = cursors["viewer"]["account"]["clusters"]["edges"].as_array().unwrap().iter();
    let mut cursors: Vec<String> = cursors.map(|edge| edge["cursor"].as_str().unwrap().to_owned()).collect();
    let by_name = "{ viewer { account { clusters(orderBy: { field: NAME }) { pageInfo { endCursor } } } } }";
    let by_name = ada.query(by_name, json!({})).await;
    // A cursor of another order.
    let of_names = &by_name["viewer"]["account"]["clusters"]["pageInfo"]["endCursor"];
    cursors.push(of_names.as_str().unwrap().to_owned());

    let sdl = Sdl::read();
    let totals = sdl.fields("ClusterTotals").filter(|field| required(field).next().is_none());
    let totals: Vec<String> = totals.map(|field| field.name.node.to_string()).collect();
    assert!(totals.len() >= 12, "{totals:?}");
    let (mut runner, choices) = (TestRunner::deterministic(), vec(any::<u16>(), 20..140));
    let (mut with_data, mut with_errors) = (0, 0);
    for draw in 0..300 {
        let choices = choices.new_tree(&mut runner).unwrap().current().into_iter().map(usize::from).collect();
        let mut documents = Documents { totals: totals.clone(), choices, cursors: cursors.clone() };
        let ([compiled, executed], variables) = documents.draw();
        let member = if draw % 10 == 9 { &empty } else { &ada };
        // The other account uses the same plan.
        let (answer, expected) =
            (send(member, &compiled, &variables).await, send(member, &executed, &variables).await);
        assert_eq!(answer, expected, "{compiled}\n{variables}");
        let others = (send(&other, &compiled, &variables).await, send(&other, &executed, &variables).await);
        assert_eq!(others.0, others.1, "{compiled}\n{variables}");
        if answer.1.contains("\"errors\"") {
            with_errors += 1;
        } else {
            assert!(answer.1.starts_with(r#"{"data":{"who":{"account":{"list":{"#), "{answer:?}");
            with_data += 1;
        }
        assert!(!answer.1.contains("GRAPHQL_VALIDATION_FAILED"), "{compiled}\n{answer:?}");
    }
    assert!(with_data >= 150 && with_errors >= 20, "{with_data} with data, {with_errors} with errors");
    app.stop().await;
}

/// Reads all pages, and returns the schedulers in the order of the pages.
async fn read_pages(member: &Member, size: usize, order: &str, backwards: bool) -> Vec<Vec<String>> {
    let (end, from, more, cursor) = if backwards {
        ("last", "before", "hasPreviousPage", "startCursor")
    } else {
        ("first", "after", "hasNextPage", "endCursor")
    };
    let query = format!(
        "query($size: Int!, $from: String) {{ viewer {{ account {{ clusters({end}: $size, {from}: $from {order}) {{
           nodes {{ schedulerId }} pageInfo {{ {more} {cursor} }} }} }} }} }}"
    );
    let (mut found, mut position) = (Vec::new(), Value::Null);
    loop {
        let answer = member.query(&query, json!({ "size": size, "from": position })).await;
        let page = &answer["viewer"]["account"]["clusters"];
        let nodes = page["nodes"].as_array().unwrap().iter();
        found.push(nodes.map(|node| node["schedulerId"].as_str().unwrap().to_owned()).collect());
        if page["pageInfo"][more] == false {
            return found;
        }
        position = page["pageInfo"][cursor].clone();
    }
}

#[tokio::test]
async fn pages_follow_each_other() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    create_clusters(&ada).await;
    let newest_first = ["Scheduler-4", "Scheduler-3", "Scheduler-2", "Scheduler-1", "Scheduler-0"];
    assert_eq!(
        read_pages(&ada, 2, "", false).await,
        [&newest_first[..2], &newest_first[2..4], &newest_first[4..]]
    );
    assert_eq!(
        read_pages(&ada, 2, "", true).await,
        [&newest_first[3..], &newest_first[1..3], &newest_first[..1]]
    );
    for (size, backwards) in [(1, false), (1, true), (3, false), (5, true), (100, false)] {
        let executed = read_pages(&ada, size, &format!(" {ORDER}"), backwards).await;
        assert_eq!(read_pages(&ada, size, "", backwards).await, executed, "{size} {backwards}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_error_of_the_database_is_reported_at_the_list() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    create_clusters(&ada).await;
    let damage = app.database.connection().await;
    damage.execute_unprepared("ALTER TABLE clusters RENAME COLUMN last_seen_at TO seen").await.unwrap();
    let mut answers = Vec::new();
    for order in ["", "(orderBy: {})"] {
        let query = format!(
            "{{ who: viewer {{ account {{ list: clusters{order} {{ nodes {{ id lastSeenAt }} }} }} }} }}"
        );
        let (status, text) = send(&ada, &query, &json!({})).await;
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        let reference = answer["errors"][0]["extensions"].as_object_mut().unwrap().remove("reference");
        assert!(reference.is_some_and(|reference| reference.is_string()), "{text}");
        answers.push((status, answer));
    }
    assert_eq!(answers[0], answers[1]);
    let error = &answers[0].1["errors"][0];
    assert_eq!(error["path"], json!(["who", "account", "list"]), "{error}");
    assert_eq!(error["extensions"]["code"], "INTERNAL_SERVER_ERROR", "{error}");
    damage.execute_unprepared("ALTER TABLE clusters RENAME COLUMN seen TO last_seen_at").await.unwrap();
    app.stop().await;
}
