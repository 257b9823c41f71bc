//! Query plans of pages: an index range at any depth.

use std::{collections::BTreeSet, time::Duration};

use entity::ids::ClusterId;
use harness::{
    Member, ReportBuilder, STARTED_AT, TestApp, computation, error, event, log_line, sample, span,
    task_group, usage, worker,
};
use reqwest::Method;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseBackend, DatabaseConnection,
    EntityTrait, IntoActiveModel, QueryFilter, Statement, TransactionTrait,
};
use serde_json::{Value, json};

use crate::statements::statements_of;

const CLUSTERS: i64 = 6_000;

/// Inserts many copies of one reported cluster directly.
async fn fill(app: &TestApp, member: &Member) {
    member.reported(&ReportBuilder::new("Scheduler", 1).build()).await;
    let connection = app.database.connection().await;
    let cluster = entity::cluster::Entity::find().one(&connection).await.unwrap().unwrap();
    let rows = (1..CLUSTERS).map(|number| {
        let mut row = cluster.clone().into_active_model().reset_all();
        row.id = Set(ClusterId(cluster.id.0 + number));
        row.scheduler_id = Set(format!("Scheduler-{number}"));
        let started_at = cluster.started_at.0 + chrono::TimeDelta::seconds(number);
        row.started_at = Set(started_at.into());
        row.ended_key = Set(started_at.timestamp_millis());
        row
    });
    let rows: Vec<_> = rows.collect();
    for chunk in rows.chunks(500) {
        entity::cluster::Entity::insert_many(chunk.to_vec())
            .exec_without_returning(&connection)
            .await
            .unwrap();
    }
    connection.execute_unprepared("ANALYZE").await.unwrap();
}

/// Vacuums until PostgreSQL knows that every row is visible, without which an index-only scan costs as
/// much as any other. It may not know that during a statement of a job that began while another test wrote.
async fn mark_all_visible(connection: &DatabaseConnection) {
    for _ in 0..100 {
        connection.execute_unprepared("VACUUM").await.unwrap();
        if connection.get_database_backend() != DatabaseBackend::Postgres {
            return;
        }
        let sql = "SELECT relallvisible >= relpages FROM pg_class WHERE oid = 'clusters'::regclass";
        let row = connection.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await;
        if row.unwrap().unwrap().try_get_by_index::<bool>(0).unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a transaction stays open");
}

/// The cursor of a cluster deep in the list.
fn cursor(answer: &Value) -> Value {
    answer["viewer"]["account"]["clusters"]["pageInfo"]["endCursor"].clone()
}

#[tokio::test]
async fn a_page_of_clusters_is_a_range_of_the_index() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    fill(&app, &ada).await;
    let connection = app.database.connection().await;
    let account = entity::account::Entity::find().one(&connection).await.unwrap().unwrap().id;
    let query = "query($after: String) { viewer { account { clusters(first: 100, after: $after) {
        nodes { schedulerId } pageInfo { endCursor } } } } }";
    let mut after = Value::Null;
    for _ in 0..30 {
        after = cursor(&ada.query(query, json!({ "after": after })).await);
    }
    let (page, statements) = statements_of(ada.query(query, json!({ "after": after }))).await;
    let ids = page["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert_eq!(ids[0]["schedulerId"], format!("Scheduler-{}", CLUSTERS - 1 - 3_000));
    let statement = statements.iter().find(|sql| sql.contains(r#"FROM "clusters""#));
    let statement = statement.unwrap_or_else(|| panic!("{statements:?}")).clone();
    assert!(statement.contains(r#"("clusters"."started_at", "clusters"."id") < ("#), "{statement}");
    assert!(!statement.contains("dashboard_url"), "more is read than lists show: {statement}");

    let last = CLUSTERS - 3_000;
    let started_at = 1_795_172_400_000 + 1_000 * last;
    let id: i64 = entity::cluster::Entity::find()
        .filter(entity::cluster::Column::SchedulerId.eq(format!("Scheduler-{last}")))
        .one(&connection)
        .await
        .unwrap()
        .unwrap()
        .id
        .0;
    if connection.get_database_backend() == DatabaseBackend::Postgres {
        let values = [format!("'{account}'"), started_at.to_string(), id.to_string(), "101".to_owned()];
        let sql = (1..).zip(&values).fold(statement, |sql, (n, value)| sql.replace(&format!("${n}"), value));
        let plan =
            explain(&connection, &format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {sql}")).await;
        assert!(plan.contains("Index Scan Backward using clusters_started_idx"), "{plan}");
        assert!(
            plan.contains("(ROW(started_at, id) < ROW("),
            "the position is not part of the range: {plan}"
        );
        assert!(!plan.contains("Rows Removed") && !plan.contains("Sort"), "{plan}");
        assert!(plan.contains("rows=101"), "{plan}");
    } else {
        let plan = explain(&connection, &format!("EXPLAIN QUERY PLAN {statement}")).await;
        // Hidden clusters are looked up once.
        let expected = "SEARCH clusters USING INDEX clusters_started_idx (account_id=? AND (started_at,id)<(?,?))\n\
             LIST SUBQUERY 1\n\
             SEARCH cluster_removals USING INDEX cluster_removals_hidden_idx (account_id=?)\n\
             CREATE BLOOM FILTER";
        assert_eq!(plan, expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_page_of_clusters_by_time_is_a_range_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    fill(&app, &ada).await;
    let postgres = app.database.url().starts_with("postgres");
    let user = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let anything = json!({});
    let started = json!({ "startedIn": { "from": "2026-11-20T11:00:00Z", "to": "2026-11-21T11:00:00Z" } });
    let states = json!({ "states": ["STARTING"] });
    let users = json!({ "users": [user] });
    let ended = json!({ "endedIn": { "from": "2026-11-20T11:00:00Z", "to": "2026-11-21T11:00:00Z" } });
    let others = json!({ "hasErrors": false, "search": "scheduler", "minDurationSeconds": 0 });
    let cases = [
        (&anything, "STARTED_AT", "clusters_started_idx", "", "started_at"),
        (&anything, "ENDED_AT", "clusters_ended_idx", "", "ended_key"),
        (&states, "STARTED_AT", "clusters_status_idx", "status=? AND ", "started_at"),
        (&users, "STARTED_AT", "clusters_user_idx", "user_id=? AND ", "started_at"),
        (&started, "STARTED_AT", "clusters_started_idx", "", "started_at"),
        (&ended, "ENDED_AT", "clusters_ended_idx", "", "ended_key"),
        (&others, "STARTED_AT", "clusters_started_idx", "", "started_at"),
    ];
    let query = "query($filter: ClusterFilter, $field: ClusterOrderField!, $direction: OrderDirection!, $after: String) {
        viewer { account { clusters(filter: $filter, orderBy: { field: $field, direction: $direction }, first: 100,
            after: $after) { nodes { schedulerId } pageInfo { endCursor } } } } }";
    let everywhere = "query($field: ClusterOrderField!, $direction: OrderDirection!) { viewer { account {
        clusters(orderBy: { field: $field, direction: $direction }, first: 50) { pageInfo { endCursor } } } } }";
    for (filter, field, index, equal, column) in cases {
        for (direction, behind) in [("ASC", '>'), ("DESC", '<')] {
            let mut variables = json!({ "filter": filter, "field": field, "direction": direction });
            variables["after"] =
                cursor(&ada.query(everywhere, json!({ "field": field, "direction": direction })).await);
            let (_, statements) = statements_of(ada.query(query, variables)).await;
            // The clusters may be counted first, for the cost.
            let statement = statements.iter().rfind(|sql| sql.contains(r#"FROM "clusters""#)).unwrap();
            let plan = plan_of(&app, statement).await;
            assert!(
                !plan.contains("Sort") && !plan.contains("B-TREE"),
                "{filter} {field}\n{statement}\n{plan}"
            );
            if postgres {
                let position = format!("(ROW({column}, id) {behind} ROW(");
                // PostgreSQL chooses between the filters' indexes by its statistics.
                let found = plan.contains(&position) && (!equal.is_empty() || plan.contains(index));
                assert!(found, "{filter} {field}\n{statement}\n{plan}");
            } else {
                // A filter of the same column may be the range's other bound.
                let found = plan
                    .starts_with(&format!("SEARCH clusters USING INDEX {index} (account_id=? AND {equal}"))
                    && plan.contains(&format!("({column},id){behind}(?,?)"));
                assert!(found, "{filter} {field}\n{statement}\n{plan}");
            }
        }
    }
    app.stop().await;
}

/// The `coiled` client requests pages by offset.
#[tokio::test]
async fn a_page_by_offset_counts_what_lies_in_front_in_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    fill(&app, &ada).await;
    mark_all_visible(&app.database.connection().await).await;
    for (which, index) in [
        ("", "clusters_started_idx"),
        ("&since=604800", "clusters_started_idx"),
        ("&user=ada", "clusters_user_idx"),
    ] {
        let path = format!("/api/v2/analytics/ada/clusters/list?limit=100&offset=5850{which}");
        let request =
            async || ada.request(Method::GET, &path).send().await.unwrap().json::<Value>().await.unwrap();
        let (page, statements) = statements_of(request()).await;
        assert_eq!(page.as_array().unwrap().len(), 100, "{page}");
        assert_eq!(page[0]["scheduler_id"], format!("Scheduler-{}", CLUSTERS - 1 - 5_850));
        let statement = statements.iter().find(|sql| sql.contains("OFFSET")).unwrap();
        let plan = plan_of(&app, statement).await;
        if app.database.url().starts_with("sqlite") {
            assert!(
                plan.starts_with(&format!("SEARCH clusters USING INDEX {index} (account_id=?")),
                "{plan}"
            );
            assert!(
                plan.contains(&format!("SEARCH clusters USING COVERING INDEX {index} (account_id=?")),
                "{plan}"
            );
            assert!(plan.contains("started_at<?)") && !plan.contains("TEMP B-TREE"), "{plan}");
        } else {
            assert!(plan.contains(&format!("Index Only Scan Backward using {index}")), "{plan}");
            // If a user has all clusters, the index over all users is as good.
            assert!(plan.contains("Index Scan Backward using clusters_"), "{plan}");
            assert!(plan.contains("(ROW(started_at, id) <= ROW(") && !plan.contains("Sort"), "{plan}");
        }
    }
    app.stop().await;
}

async fn explain(connection: &DatabaseConnection, sql: &str) -> String {
    let backend = connection.get_database_backend();
    let rows = connection.query_all_raw(Statement::from_string(backend, sql)).await.unwrap();
    let column = if backend == DatabaseBackend::Postgres { 0 } else { 3 };
    rows.iter().map(|row| row.try_get_by_index::<String>(column).unwrap()).collect::<Vec<_>>().join("\n")
}

/// Creates clusters with enough rows that an index pays off, and returns the last one's number.
pub(crate) async fn fill_clusters(app: &TestApp, member: &Member) -> i64 {
    let mut number = 0;
    for cluster in 0..4_u32 {
        let errors = (0..200_u128).map(|n| {
            let mut error = error(n, 1, 1);
            let letters: String = n.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
            error["message"] = json!(format!("no {letters} on {cluster}"));
            error["at"] = json!(1_795_172_400 + n);
            error
        });
        let samples = (0..1_000_i64).flat_map(|n| {
            [None, Some(1), Some(2)].map(|of| sample(of, 600_000 * n, json!({ "cpu_cores": 1 })))
        });
        let spans = (0..500_u32).map(|n| span(n.into(), None, &["etl"], n.into(), None));
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/sent_at", 1_795_172_400 + 600_000)
            .with("/errors", errors.collect::<Vec<_>>())
            .with("/samples", samples.collect::<Vec<_>>())
            .with("/workers", json!([worker(1), worker(2)]))
            .with("/spans", spans.collect::<Vec<_>>())
            .with("/events", (0..1_000).map(|n| event(n, "mine", 1)).collect::<Vec<_>>())
            .with("/logs", (0..1_000).map(|n| log_line(n, "line")).collect::<Vec<_>>())
            .with("/usage", (0..100).map(|n| usage(n, 1)).collect::<Vec<_>>());
        // A week later, so that these times are not in the future.
        app.set_clock("2026-11-27T12:00:00Z");
        number = member.reported(&report.build()).await;
    }
    app.fold_usage().await;
    let database = app.database.connection().await;
    // SQLite plans without statistics, because the server does not collect any there.
    if database.get_database_backend() == DatabaseBackend::Postgres {
        database.execute_unprepared("ANALYZE").await.unwrap();
    }
    number
}

/// The database's plan for a statement, independent of its values.
pub(crate) async fn plan_of(app: &TestApp, sql: &str) -> String {
    let database = app.database.connection().await;
    if database.get_database_backend() != DatabaseBackend::Postgres {
        return explain(&database, &format!("EXPLAIN QUERY PLAN {sql}")).await;
    }
    let transaction = database.begin().await.unwrap();
    // A sequential scan is best for tables as small as in a test. The server disables bitmap scans, too.
    let settings =
        ["enable_seqscan = off", "enable_bitmapscan = off", "plan_cache_mode = force_generic_plan"];
    for setting in settings {
        transaction.execute_unprepared(&format!("SET LOCAL {setting}")).await.unwrap();
    }
    transaction.execute_unprepared(&format!("PREPARE wanted AS {sql}")).await.unwrap();
    let values = (1..100).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE wanted({})", values.join(", "));
    let rows = transaction.query_all_raw(Statement::from_string(DatabaseBackend::Postgres, explain)).await;
    rows.unwrap().iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect::<Vec<_>>().join("\n")
}

/// The index that finds a table's rows in order, or a range of them, and the range in each database's
/// notation.
struct Found {
    table: &'static str,
    sqlite: &'static str,
    postgres: [&'static str; 2],
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn what_is_read_by_time_is_a_range_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    let number = fill_clusters(&app, &ada).await;
    let range = "metrics: [CPU], from: \"2026-11-20T13:00:00Z\", to: \"2026-11-20T14:00:00Z\"";
    let days = "from: \"2026-12-01\", to: \"2026-12-20\"";
    let page = "pageInfo { endCursor }";
    let of_cluster = |field: &str| format!("cluster(id: \"{number}\") {{ {field} }}");
    let of_account = |field: &str| format!("account(slug: \"ada\") {{ {field} }}");
    let cases = [
        (
            of_cluster(&format!("series({range}) {{ points {{ value }} }}")),
            Found {
                table: "cluster_sample_chunks",
                sqlite: "SEARCH cluster_sample_chunks USING INDEX sqlite_autoindex_cluster_sample_chunks_1 \
                         (account_id=? AND cluster_id=? AND started_at>? AND started_at<?)",
                postgres: ["cluster_sample_chunks_default_pkey", "(started_at >= "],
            },
        ),
        (
            of_cluster("functionActivity { computeSeconds }"),
            Found {
                table: "function_activity_chunks",
                sqlite: "SEARCH function_activity_chunks USING INDEX sqlite_autoindex_function_activity_chunks_1 \
                         (account_id=? AND cluster_id=? AND started_at>? AND started_at<?)",
                postgres: ["function_activity_chunks_default_pkey", "(started_at >= "],
            },
        ),
        (
            of_cluster(&format!("workers {{ nodes {{ series({range}) {{ points {{ value }} }} }} }}")),
            Found {
                table: "worker_sample_chunks",
                sqlite: "SEARCH worker_sample_chunks USING INDEX sqlite_autoindex_worker_sample_chunks_1 \
                         (account_id=? AND cluster_id=? AND worker_id=? AND started_at>? AND started_at<?)",
                postgres: ["worker_sample_chunks_default_pkey", "(started_at >= "],
            },
        ),
        (
            of_cluster(&format!("spans(first: 100 AFTER) {{ nodes {{ tag }} {page} }}")),
            Found {
                table: "spans",
                sqlite: "SEARCH spans USING INDEX spans_enqueued_idx \
                         (account_id=? AND cluster_id=? AND (enqueued_at,id)>(?,?))",
                postgres: ["spans_enqueued_idx", "(ROW(enqueued_at, id) > ROW("],
            },
        ),
        (
            of_cluster(&format!("events(first: 100 AFTER) {{ nodes {{ topic }} {page} }}")),
            Found {
                table: "events",
                sqlite: "SEARCH events USING INDEX sqlite_autoindex_events_1 \
                         (account_id=? AND cluster_id=? AND (occurred_at,id)>(?,?))",
                postgres: ["events_default_pkey", "(ROW(occurred_at, id) > ROW("],
            },
        ),
        (
            of_cluster(&format!("logs(first: 100 AFTER) {{ nodes {{ message }} {page} }}")),
            Found {
                table: "log_lines",
                sqlite: "SEARCH log_lines USING INDEX sqlite_autoindex_log_lines_1 \
                         (account_id=? AND cluster_id=? AND (logged_at,id)>(?,?))",
                postgres: ["log_lines_default_pkey", "(ROW(logged_at, id) > ROW("],
            },
        ),
        (
            of_account(&format!("errorGroups(first: 100 AFTER) {{ nodes {{ title }} {page} }}")),
            Found {
                table: "error_groups",
                sqlite: "SEARCH error_groups USING INDEX error_groups_seen_idx \
                         (account_id=? AND (last_seen_at,id)<(?,?))",
                postgres: ["error_groups_seen_idx", "(ROW(last_seen_at, id) < ROW("],
            },
        ),
        (
            of_account(&format!("usageTable({days}) {{ day }}")),
            Found {
                table: "usage_days",
                sqlite: "SEARCH usage_days USING INDEX sqlite_autoindex_usage_days_1 \
                         (account_id=? AND day>? AND day<?)",
                postgres: ["usage_days_pkey", "(day >= "],
            },
        ),
        (
            of_account(&format!("functions({days}) {{ prefix }}")),
            Found {
                table: "function_usage_days",
                sqlite: "SEARCH function_usage_days USING INDEX sqlite_autoindex_function_usage_days_1 \
                         (account_id=? AND day>? AND day<?)",
                postgres: ["function_usage_days_pkey", "(day >= "],
            },
        ),
    ];
    for (field, Found { table, sqlite, postgres }) in cases {
        let query = |after: &str| format!("{{ {} }}", field.replace(" AFTER", after));
        let first = ada.query(&query(""), json!({})).await;
        let cursor = first.pointer("/cluster").or(first.pointer("/account")).and_then(Value::as_object);
        let cursor = cursor.and_then(|fields| fields.values().next()?["pageInfo"]["endCursor"].as_str());
        let after = cursor.map(|cursor| format!(", after: \"{cursor}\"")).unwrap_or_default();
        let (_, statements) = statements_of(ada.query(&query(&after), json!({}))).await;
        let from = format!("FROM \"{table}\"");
        let statement = statements.iter().find(|sql| sql.contains(&from));
        let statement = statement.unwrap_or_else(|| panic!("{table}: {statements:?}"));
        let plan = plan_of(&app, statement).await;
        if app.database.url().starts_with("sqlite") {
            assert_eq!(plan.lines().next(), Some(sqlite), "{statement}\n{plan}");
            let sorted = plan.contains("TEMP B-TREE FOR ORDER BY");
            assert!(!sorted || table == "function_usage_days", "{statement}\n{plan}");
        } else {
            assert!(postgres.iter().all(|part| plan.contains(part)), "{postgres:?}\n{statement}\n{plan}");
            assert!(cursor.is_none() || !plan.contains("Sort"), "{statement}\n{plan}");
        }
    }
    app.stop().await;
}

/// Each in its own cluster, for which no index is usable with a list of alternatives.
#[tokio::test]
async fn what_is_queried_of_many_clusters_is_looked_up_in_each() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for cluster in 0..3_u32 {
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/computations", json!([computation(1, &[11]), computation(2, &[12])]))
            .with("/task_groups", json!([task_group(11, "load", 1), task_group(12, "sum", 1)]))
            .with("/errors", json!([error(1, 11, 1), error(2, 12, 2)]))
            .with(
                "/spans",
                json!([span(50, None, &["etl"], 1.0, None), span(51, Some(50), &["etl", "a"], 1.0, None)]),
            )
            .with("/events", json!([event(1, "mine", 1)]))
            .with("/logs", json!([log_line(1, "line")]));
        ada.reported(&report.build()).await;
    }
    let query = "{ viewer { account { clusters { nodes {
        logs { totalCount } events { totalCount } errors { totalCount nodes { computation { id } taskGroup { id } } }
        computations { nodes { totals { tasks } taskGroups { totalCount } errors { totalCount } } }
        spans { nodes { totals { tasks } children { totalCount } taskGroups { totalCount } } } } } } } }";
    let (answer, statements) = statements_of(ada.query(query, json!({}))).await;
    let clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert_eq!(clusters.len(), 3);
    for cluster in clusters {
        assert_eq!(cluster["spans"]["nodes"][0]["children"]["totalCount"], 1);
        for computation in cluster["computations"]["nodes"].as_array().unwrap() {
            let counts = ["taskGroups", "errors"].map(|list| computation[list]["totalCount"].as_i64());
            assert_eq!((counts, &computation["totals"]["tasks"]), ([Some(1), Some(1)], &json!(1)));
        }
    }
    // The rows read by PostgreSQL are counted in `history.rs`.
    if app.database.url().starts_with("sqlite") {
        let tables = [
            "computation_task_groups",
            "computations",
            "error_occurrences",
            "events",
            "log_lines",
            "spans",
            "task_groups",
        ];
        let mut found = BTreeSet::new();
        for statement in &statements {
            let plan = plan_of(&app, statement).await;
            for line in plan.lines() {
                let Some(table) = tables.iter().find(|table| line.contains(&format!(" {table} "))) else {
                    continue;
                };
                assert!(line.contains(" (account_id=? AND cluster_id=?"), "{statement}\n{plan}");
                found.insert(*table);
            }
        }
        assert_eq!(Vec::from_iter(found), tables);
    }
    app.stop().await;
}

/// PostgreSQL has one plan for lists that differ only in values, which SQLite does not support.
#[tokio::test]
async fn lists_of_many_clusters_are_one_statement_whose_plan_does_not_grow() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    for cluster in 0..3_u32 {
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/workers", json!([worker(1), worker(2)]))
            .with("/workers/0/name", format!("a-of-{cluster}"))
            .with("/workers/1/name", format!("b-of-{cluster}"))
            .with("/workers/1/ended_at", STARTED_AT + 9.0)
            .with("/workers/1/end", "lost");
        ada.reported(&report.build()).await;
    }
    let query = "{ viewer { account { clusters { nodes { schedulerId
        all: workers { nodes { name } } here: workers(alive: true) { nodes { name } }
        gone: workers(alive: false) { nodes { name } } } } } } }";
    let (answer, statements) = statements_of(ada.query(query, json!({}))).await;
    let mut clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
    // They started at the same time.
    clusters.sort_by_key(|cluster| cluster["schedulerId"].to_string());
    let expected = [0, 1, 2].map(|cluster| {
        let [a, b] = ["a", "b"].map(|name| json!({ "name": format!("{name}-of-{cluster}") }));
        json!({
            "schedulerId": format!("Scheduler-{cluster}"),
            "all": { "nodes": [a, b] },
            "here": { "nodes": [a] },
            "gone": { "nodes": [b] },
        })
    });
    assert_eq!(clusters, expected);
    let of_workers: Vec<&String> = statements.iter().filter(|sql| sql.contains("FROM \"workers\"")).collect();
    let [statement] = of_workers[..] else { panic!("{of_workers:?}") };
    let arms = statement.matches("FROM \"workers\"").count();
    if app.database.url().starts_with("sqlite") {
        assert_eq!(arms, 9, "{statement}");
    } else {
        assert_eq!((arms, statement.matches(" LATERAL ").count()), (3, 3), "{statement}");
        // PREPARE assumes text for a column of values with unknown types; the server declares the types
        // it binds.
        let typed = statement.replace("AS BIGINT), $", "AS BIGINT), 0 + $");
        let plan = plan_of(&app, &typed).await;
        assert_eq!(plan.matches("Values Scan").count(), 3, "{plan}");
        assert_eq!(plan.matches("Index Scan using").count(), 3, "{plan}");
    }
    app.stop().await;
}
