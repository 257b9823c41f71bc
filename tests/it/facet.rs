//! Facets of lists: each count is that of the list with the value as its filter.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, error, event, log_line, uuid};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::{plan, statements::statements_of};

const FACETS: &str = "query($filter: ClusterFilter, $first: Int! = 20) { viewer { account { clusters(filter: $filter, first: 1) {
    totalCount facets {
        states { state count }
        users(first: $first) { values { user { id name } count } valueCount }
        tags(first: $first) { values { tag { key value } count } valueCount }
        flags { kind count }
        packageVersions(first: $first) { values { value count } valueCount }
        python: packageVersions(package: \"python\") { values { value count } }
    } } } } }";

async fn facets(member: &Member, filter: &Value) -> Value {
    let answer = member.query(FACETS, json!({ "filter": filter })).await;
    answer["viewer"]["account"]["clusters"]["facets"].clone()
}

/// The values of a facet with their counts, as in `CLOSED 3, IDLE 2`.
fn text(facet: &Value) -> String {
    let values = facet.as_array().or_else(|| facet["values"].as_array()).unwrap();
    let value = |item: &Value| {
        let named = [&item["state"], &item["kind"], &item["value"], &item["user"]["name"]];
        let tag = || match item["tag"]["value"].as_str() {
            Some(value) => format!("{}={value}", item["tag"]["key"].as_str().unwrap()),
            None => item["tag"]["key"].as_str().unwrap().to_owned(),
        };
        let name = named.iter().find_map(|name| name.as_str().map(str::to_owned)).unwrap_or_else(tag);
        format!("{name} {}", item["count"])
    };
    values.iter().map(value).collect::<Vec<_>>().join(", ")
}

/// Queries the list for the count of each value, with the value in place of the facet's own condition.
async fn compare_with_lists(member: &Member, filter: &Value) {
    let facets = facets(member, filter).await;
    let count = async |dimension: &str, condition: Value| {
        let mut filter = filter.clone();
        filter[dimension] = condition;
        let query = "query($filter: ClusterFilter) { viewer { account { clusters(filter: $filter) { totalCount } } } }";
        let answer = member.query(query, json!({ "filter": filter })).await;
        answer["viewer"]["account"]["clusters"]["totalCount"].clone()
    };
    let values = |facet: &Value| facet.as_array().or_else(|| facet["values"].as_array()).unwrap().clone();
    for item in values(&facets["states"]) {
        assert_eq!(item["count"], count("states", json!([item["state"]])).await, "{filter}: {item}");
    }
    for item in values(&facets["users"]) {
        assert_eq!(item["count"], count("users", json!([item["user"]["id"]])).await, "{filter}: {item}");
    }
    for item in values(&facets["tags"]) {
        let mut tag = item["tag"].clone();
        // An absent value of a tag is an empty one in a pattern.
        tag["value"] = json!(tag["value"].as_str().unwrap_or_default());
        assert_eq!(item["count"], count("tags", json!({ "any": [tag] })).await, "{filter}: {item}");
    }
    for item in values(&facets["flags"]) {
        assert_eq!(item["count"], count("flags", json!([item["kind"]])).await, "{filter}: {item}");
    }
    for (facet, package) in [("packageVersions", "dask"), ("python", "python")] {
        for item in values(&facets[facet]) {
            let version = json!({ "name": package, "version": item["value"] });
            assert_eq!(item["count"], count("package", version).await, "{filter}: {item}");
        }
    }
}

fn cluster(name: &str) -> ReportBuilder {
    ReportBuilder::new(name, 1).with("/cluster/name", name).with("/sent_at", STARTED_AT + 3_000.0)
}

fn closed(report: ReportBuilder) -> ReportBuilder {
    report.with("/final", true).with("/cluster/closed_at", STARTED_AT + 3_000.0)
}

fn with_packages(report: ReportBuilder, python: &str, packages: &Value) -> ReportBuilder {
    let environment = json!([{ "id": uuid(1), "python": python, "packages": packages }]);
    report.with("/cluster/environment_id", uuid(1)).with("/environments", environment)
}

/// Three clusters of ada, and three of bob.
async fn six(app: &TestApp) -> (Member, Member) {
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    app.set_clock("2026-11-20T12:00:00Z");
    let dask = |version: &str| json!({ "dask": version, "numpy": "2.1.0" });
    let idle_since = |seconds: f64| json!(STARTED_AT + 3_000.0 - seconds);
    let failed = |number: u128| {
        let mut error = error(100 + number, 11, 1);
        error["at"] = json!(STARTED_AT + 2_990.0);
        error
    };
    let errors: Vec<Value> = (0..12).map(failed).collect();
    let reports = [
        (&ada, with_packages(closed(cluster("etl-1")), "3.12.1", &dask("2026.1.0"))),
        // Idle for 40 minutes, which raises a flag.
        (
            &ada,
            with_packages(cluster("etl-2"), "3.13.0", &dask("2026.1.0"))
                .with("/cluster/idle_since", idle_since(2_400.0)),
        ),
        (
            &ada,
            with_packages(cluster("fit-3"), "3.13.0", &dask("2026.2.0"))
                .with("/cluster/totals/workers", 1)
                .with("/cluster/totals/tasks", 1),
        ),
        (&bob, with_packages(closed(cluster("fit-4")), "3.13.0", &dask("2026.2.0"))),
        (&bob, cluster("etl-5").with("/cluster/idle_since", idle_since(2_400.0)).with("/errors", errors)),
        (&bob, with_packages(closed(cluster("fit-6")), "3.13.0", &json!({ "dask": null, "numpy": "2.1.0" }))),
    ];
    let tags = [
        json!([{ "key": "team", "value": "risk" }, { "key": "nightly" }]),
        json!([{ "key": "team", "value": "risk" }]),
        json!([{ "key": "team", "value": "web" }]),
    ];
    let mut tags = tags.into_iter();
    for (member, report) in reports {
        let number = member.reported(&report.build()).await;
        let id = id_of(&ada, number).await;
        if let Some(tags) = tags.next() {
            let set = "mutation($id: ID!, $tags: [TagInput!]!) { setClusterTags(cluster: $id, tags: $tags) { userErrors { code } } }";
            ada.query(set, json!({ "id": id, "tags": tags })).await;
        }
    }
    app.run_jobs().await;
    (ada, bob)
}

async fn id_of(member: &Member, number: i64) -> Value {
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    member.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].take()
}

async fn user_id(member: &Member) -> Value {
    member.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take()
}

#[tokio::test]
async fn a_facet_of_clusters_counts_by_all_conditions_but_its_own() {
    let app = TestApp::start().await;
    let (ada, bob) = six(&app).await;
    let (ada_id, bob_id) = (user_id(&ada).await, user_id(&bob).await);
    let all = [
        "CLOSED 3, IDLE 2, RUNNING 1",
        "ada 3, bob 3",
        "team=risk 2, nightly 1, team=web 1",
        "IDLE 2, MANY_FAILURES 1",
        "2026.1.0 2, 2026.2.0 2",
        "3.13.0 4, 3.12.1 1",
    ];
    let nothing = ["", "", "", "", "", ""];
    let cases = [
        (json!({}), all),
        (
            json!({ "states": ["CLOSED"] }),
            [
                all[0],
                "bob 2, ada 1",
                "nightly 1, team=risk 1",
                "",
                "2026.1.0 1, 2026.2.0 1",
                "3.13.0 2, 3.12.1 1",
            ],
        ),
        (
            json!({ "states": ["IDLE", "RUNNING"] }),
            [all[0], "ada 2, bob 1", "team=risk 1, team=web 1", all[3], "2026.1.0 1, 2026.2.0 1", "3.13.0 2"],
        ),
        (
            json!({ "users": [ada_id] }),
            [
                "RUNNING 1, IDLE 1, CLOSED 1",
                all[1],
                all[2],
                "IDLE 1",
                "2026.1.0 2, 2026.2.0 1",
                "3.13.0 2, 3.12.1 1",
            ],
        ),
        (
            json!({ "tags": { "any": [{ "key": "team", "value": "risk" }] } }),
            ["IDLE 1, CLOSED 1", "ada 2", all[2], "IDLE 1", "2026.1.0 2", "3.12.1 1, 3.13.0 1"],
        ),
        (
            json!({ "tags": { "none": [{ "key": "team" }] }, "users": [bob_id] }),
            ["CLOSED 2, IDLE 1", "bob 3", "", "MANY_FAILURES 1, IDLE 1", "2026.2.0 1", "3.13.0 2"],
        ),
        (
            json!({ "flags": ["IDLE"] }),
            ["IDLE 2", "ada 1, bob 1", "team=risk 1", all[3], "2026.1.0 1", "3.13.0 1"],
        ),
        (
            json!({ "package": { "name": "dask", "versionPrefix": "2026.2" } }),
            ["RUNNING 1, CLOSED 1", "ada 1, bob 1", "team=web 1", "", all[4], all[5]],
        ),
        (
            json!({ "search": "etl", "users": [bob_id] }),
            ["IDLE 1", "ada 2, bob 1", "", "MANY_FAILURES 1, IDLE 1", "", ""],
        ),
        (json!({ "search": "nowhere" }), nothing),
        (json!({ "ids": [] }), nothing),
    ];
    for (filter, expected) in cases {
        let found = facets(&ada, &filter).await;
        let names = ["states", "users", "tags", "flags", "packageVersions", "python"];
        assert_eq!(names.map(|name| text(&found[name])), expected.map(str::to_owned), "{filter}");
        for name in ["users", "tags", "packageVersions"] {
            let values = found[name]["values"].as_array().unwrap().len();
            assert_eq!(found[name]["valueCount"], values, "{filter}: {name}");
        }
        compare_with_lists(&ada, &filter).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn a_facet_is_cut_and_follows_clusters_and_members_that_go() {
    let app = TestApp::start().await;
    let (ada, bob) = six(&app).await;
    let bob_id = user_id(&bob).await;
    let answer = ada.query(FACETS, json!({ "first": 1 })).await;
    let first = &answer["viewer"]["account"]["clusters"]["facets"];
    for (name, value, count) in
        [("users", "ada 3", 2), ("tags", "team=risk 2", 3), ("packageVersions", "2026.1.0 2", 2)]
    {
        assert_eq!((text(&first[name]), &first[name]["valueCount"]), (value.to_owned(), &json!(count)));
    }
    for first in [0, 101] {
        let answer = ada.ask(FACETS, json!({ "first": first })).await;
        let message = format!("argument 'first': must be between 1 and 100, not {first}");
        assert_eq!(answer["errors"][0]["message"], message);
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    }

    // A cluster is deleted, and bob leaves.
    let query = "{ viewer { account { clusters(filter: { search: \"etl-2\" }) { nodes { id } } } } }";
    let answer = ada.query(query, json!({})).await;
    let id = &answer["viewer"]["account"]["clusters"]["nodes"][0]["id"];
    let delete = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { code } } }";
    let deleted = ada.query(delete, json!({ "id": id })).await;
    assert_eq!(deleted["deleteCluster"]["userErrors"], json!([]));
    let remove = "mutation($id: ID!) { removeMember(user: $id) { userErrors { code } } }";
    assert_eq!(ada.query(remove, json!({ "id": bob_id })).await["removeMember"]["userErrors"], json!([]));
    let found = facets(&ada, &json!({})).await;
    for (name, expected) in [
        ("states", "CLOSED 3, RUNNING 1, IDLE 1"),
        ("users", "ada 2"),
        ("tags", "nightly 1, team=risk 1, team=web 1"),
        ("packageVersions", "2026.2.0 2, 2026.1.0 1"),
    ] {
        assert_eq!(text(&found[name]), expected, "{name}");
    }
    compare_with_lists(&ada, &json!({})).await;
    app.stop().await;
}

/// Compares a facet of a list with the list itself. `list` is a field of the account or a cluster, with
/// `ARGUMENTS` in place of its arguments.
async fn compare_texts(
    member: &Member,
    list: &str,
    facet: &str,
    filter: &str,
    arguments: &str,
    expected: &str,
) {
    let fields = format!("facets {{ isComplete {facet} {{ values {{ value count }} valueCount }} }} }}");
    let read_list = async |arguments: &str, fields: &str| {
        let list_field = list.replace("ARGUMENTS", &format!("(first: 1 {arguments})"));
        let close = " }".repeat(list.matches('{').count());
        let answer = member.query(&format!("{{ {list_field} {{ {fields} {close} }}"), json!({})).await;
        let mut value = &answer;
        while let Some((_, inside)) = value.as_object().and_then(|object| object.iter().next()) {
            if value.get("facets").is_some() || value.get("totalCount").is_some() {
                break;
            }
            value = inside;
        }
        value.clone()
    };
    let found = read_list(arguments, &fields).await["facets"].take();
    assert_eq!(
        (text(&found[facet]).as_str(), &found["isComplete"]),
        (expected, &json!(true)),
        "{list} {arguments}"
    );
    let others = arguments.split(filter).next().unwrap();
    for item in found[facet]["values"].as_array().unwrap() {
        let value = format!("{others} {filter}: [{}]", item["value"]);
        assert_eq!(item["count"], read_list(&value, "totalCount }").await["totalCount"], "{list} {value}");
    }
}

#[tokio::test]
async fn a_facet_of_another_list_counts_by_all_conditions_but_its_own() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let of = |number: u128, class: &str, message: &str, origin: &str| {
        let mut error = error(number, 1, 1);
        (error["type"], error["message"], error["origin"]) = (json!(class), json!(message), json!(origin));
        error
    };
    let line = |number: u32, level: &str, source: &str| {
        let mut line = log_line(number, "text");
        (line["level"], line["source"]) = (json!(level), json!(source));
        if source != "scheduler" {
            (line["worker"], line["worker_id"]) = (json!("w"), json!(uuid(30)));
        }
        line
    };
    let first = ReportBuilder::new("Scheduler-1", 60)
        .with(
            "/errors",
            json!([
                of(1, "KeyError", "one", "user"),
                of(2, "KeyError", "two", "dask"),
                of(3, "OSError", "one", "user")
            ]),
        )
        .with("/events", json!([event(1, "mine", 1), event(2, "mine", 2), event(3, "worker-restart", 3)]))
        .with(
            "/logs",
            json!([
                line(1, "INFO", "scheduler"),
                line(2, "ERROR", "worker"),
                line(3, "INFO", "worker"),
                line(4, "INFO", "nanny")
            ]),
        );
    let second = ReportBuilder::new("Scheduler-2", 60)
        .with("/errors", json!([of(1, "KeyError", "one", "user"), of(2, "ValueError", "one", "user")]))
        .with("/events", json!([event(5, "mine", 1), event(6, "Other", 2)]))
        .with("/logs", json!([line(5, "WARNING", "scheduler"), line(6, "INFO", "scheduler")]));
    let number = ada.reported(&first.build()).await;
    ada.reported(&second.build()).await;

    let of_account = |list: &str| format!("viewer {{ account {{ {list}ARGUMENTS");
    let of_cluster = |list: &str| format!("cluster(id: \"{number}\") {{ {list}ARGUMENTS");
    let (errors, events, logs) = (of_account("errorGroups"), of_account("events"), of_account("logs"));
    for (list, facet, filter, arguments, expected) in [
        (&errors, "types", "types", "", "KeyError 2, OSError 1, ValueError 1"),
        (&errors, "types", "types", "types: [\"OSError\"]", "KeyError 2, OSError 1, ValueError 1"),
        (&errors, "types", "types", "origin: USER types: []", "KeyError 1, OSError 1, ValueError 1"),
        (&errors, "types", "types", "clusters: { search: \"Scheduler-2\" }", "KeyError 1, ValueError 1"),
        (&errors, "types", "types", "clusters: { search: \"nowhere\" }", ""),
        (&errors, "types", "types", "status: [RESOLVED]", ""),
        (&errors, "types", "types", "lastSeenIn: { to: \"2026-11-20T11:00:00Z\" }", ""),
        (&events, "topics", "topics", "", "mine 3, Other 1, worker-restart 1"),
        (&events, "topics", "topics", "topics: [\"mine\"]", "mine 3, Other 1, worker-restart 1"),
        (&events, "topics", "topics", "clusters: { search: \"Scheduler-2\" }", "Other 1, mine 1"),
        (
            &events,
            "topics",
            "topics",
            "at: { from: \"2026-11-20T11:00:02Z\" }",
            "mine 2, Other 1, worker-restart 1",
        ),
        (&events, "topics", "topics", "clusters: { search: \"nowhere\" }", ""),
        (&of_cluster("events"), "topics", "topics", "topics: [\"none\"]", "mine 2, worker-restart 1"),
        (&of_cluster("events"), "topics", "topics", "at: { to: \"2026-11-20T11:00:02Z\" }", "mine 1"),
        (&logs, "levels", "levels", "", "INFO 4, ERROR 1, WARNING 1"),
        (&logs, "levels", "levels", "sources: [SCHEDULER] levels: [\"ERROR\"]", "INFO 2, WARNING 1"),
        (&logs, "levels", "levels", "clusters: { search: \"Scheduler-2\" }", "INFO 1, WARNING 1"),
        (&logs, "levels", "levels", "at: { from: \"2026-11-20T11:00:04Z\" }", "INFO 2, WARNING 1"),
        (&of_cluster("logs"), "levels", "levels", "", "INFO 3, ERROR 1"),
        (&of_cluster("logs"), "levels", "levels", "sources: [WORKER, NANNY]", "INFO 2, ERROR 1"),
    ] {
        compare_texts(&ada, list, facet, filter, arguments, expected).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn a_facet_of_a_long_list_counts_the_newest_rows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut error = log_line(100, "last");
    error["level"] = json!("ERROR");
    let report = ReportBuilder::new("Scheduler-1", 200).with("/logs", json!([log_line(99, "first"), error]));
    let number = ada.reported(&report.build()).await;
    let database = app.database.connection().await;
    // 49,999 older lines of the level INFO: one more in all than are counted.
    let copies = format!(
        "INSERT INTO log_lines SELECT account_id, cluster_id, logged_at - n, id, source, worker_id, worker, level, logger,
        repeated, key_id, sealed, arrived_at FROM log_lines, {} WHERE level = 'INFO'",
        harness::numbers(database.get_database_backend(), 1, 49_999)
    );
    database.execute_unprepared(&copies).await.unwrap();
    let facets = "totalCount facets { isComplete levels { values { value count } valueCount } }";
    let of_account = format!("{{ viewer {{ account {{ logs(ARGUMENTS) {{ {facets} }} }} }} }}");
    let of_cluster = format!("{{ cluster(id: \"{number}\") {{ logs(ARGUMENTS) {{ {facets} }} }} }}");
    let read_facets = async |query: &str, arguments: &str| {
        let answer = ada.query(&query.replace("(ARGUMENTS)", arguments), json!({})).await;
        let list = [&answer["viewer"]["account"]["logs"], &answer["cluster"]["logs"]];
        let list = list.into_iter().find(|list| !list.is_null()).unwrap();
        (
            text(&list["facets"]["levels"]),
            list["facets"]["isComplete"] == true,
            list["totalCount"].as_i64().unwrap(),
        )
    };
    for query in [of_account, of_cluster] {
        assert_eq!(read_facets(&query, "").await, ("INFO 49999, ERROR 1".to_owned(), false, 50_001));
        // Without the oldest line.
        let at = "(at: { from: \"2026-11-20T11:00:49.002Z\" })";
        assert_eq!(read_facets(&query, at).await, ("INFO 49999, ERROR 1".to_owned(), true, 50_000));
    }
    app.stop().await;
}

#[tokio::test]
async fn facets_of_all_clusters_read_indexes_alone() {
    let app = TestApp::start_on_one_machine().await;
    let (ada, _) = six(&app).await;
    for (facet, table, index) in [
        ("states { count }", "clusters", "COVERING INDEX clusters_status_idx (account_id=? AND status=?)"),
        ("users { valueCount }", "clusters", "COVERING INDEX clusters_user_idx (account_id=? AND user_id>?)"),
        ("tags { valueCount }", "cluster_tags", "COVERING INDEX cluster_tags_key_idx (account_id=?)"),
        ("flags { count }", "cluster_flags", "INDEX cluster_flags_ended_idx (account_id=? AND ended_key=?)"),
    ] {
        let query = format!("{{ viewer {{ account {{ clusters {{ facets {{ {facet} }} }} }} }} }}");
        let (_, statements) = statements_of(ada.query(&query, json!({}))).await;
        let statement = statements.last().unwrap();
        let plan = plan::plan_of(&app, statement).await;
        if app.database.url().starts_with("sqlite") {
            let found = plan.contains(&format!("SEARCH {table} USING {index}"));
            assert!(found && !plan.contains(&format!("SCAN {table}")), "{statement}\n{plan}");
        } else {
            // PostgreSQL chooses between the indexes by its statistics.
            assert!(
                plan.contains("Index Cond: (account_id = ") && !plan.contains("Seq Scan"),
                "{statement}\n{plan}"
            );
        }
    }
    app.stop().await;
}
