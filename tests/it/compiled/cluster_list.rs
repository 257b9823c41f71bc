//! The account's list of clusters. An explicit order, even the default one, makes the executor resolve it.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use super::{Documents, draw_choices, send};
use crate::sdl::Sdl;

/// The argument that makes the executor resolve the list.
const ORDER: &str = "orderBy: {}";

/// The fields of a cluster that a compiled read can have, besides its totals.
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

impl Documents<'_> {
    fn node(&mut self) -> String {
        self.selection("Cluster", 2, &|documents| match documents.choose(CLUSTER.len() + 3) {
            choice if choice < CLUSTER.len() => documents.leaf(CLUSTER[choice]),
            choice if choice == CLUSTER.len() && !documents.is_plain => {
                // Only the executor resolves them.
                let name = ["clampedFields", "viewerCanStop", "environmentMismatches { name }"];
                name[documents.choose(3)].to_owned()
            }
            _ => documents.totals(),
        })
    }

    /// The arguments of the list, in the document or as variables.
    fn list_arguments(&mut self) -> (Vec<String>, Value) {
        let numbers =
            [json!(1), json!(3), json!(4), json!(100), json!(500), json!(0), json!(501), Value::Null];
        let mut given = self.page(&numbers);
        if self.choose(6) == 0 && !self.is_plain {
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
        let (arguments, variables) = self.list_arguments();
        let connection = self.connection("Cluster", &Self::node);
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
    let (mut with_data, mut with_errors) = (0, 0);
    for (draw, choices) in draw_choices(300).enumerate() {
        let mut documents = Documents::new(&sdl, choices, &cursors);
        if documents.is_plain {
            documents.cursors = &cursors[..5];
        }
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
