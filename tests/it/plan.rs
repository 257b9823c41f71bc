//! How the databases find a page: by a range of the index, whatever its depth.

use std::{cell::RefCell, sync::Once};

use entity::ids::ClusterId;
use harness::{Member, ReportBuilder, TestApp};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseBackend, EntityTrait,
    IntoActiveModel, QueryFilter, Statement,
};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

const CLUSTERS: i64 = 6_000;

thread_local! {
    /// Statements of the server on this thread, while they are wanted.
    static STATEMENTS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Reads the statements out of the server's log at the level `trace`.
struct Statements;

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Sql(Option<String>);
        impl Visit for Sql {
            fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
            fn record_str(&mut self, field: &Field, value: &str) {
                if field.name() == "sql" {
                    self.0 = Some(value.to_owned());
                }
            }
        }
        let mut sql = Sql(None);
        event.record(&mut sql);
        STATEMENTS.with_borrow_mut(|statements| {
            if let Some(statements) = statements {
                statements.extend(sql.0);
            }
        });
    }
}

/// What the server on this thread sends to its database meanwhile.
async fn statements_of(work: impl Future<Output = Value>) -> (Value, Vec<String>) {
    // For the whole process: a subscriber of one thread is overlooked when another thread logs first.
    static LOG: Once = Once::new();
    LOG.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Statements)).unwrap();
    });
    STATEMENTS.set(Some(Vec::new()));
    let value = work.await;
    (value, STATEMENTS.take().unwrap())
}

/// Copies one reported cluster many times, past the server.
async fn fill(app: &TestApp, member: &Member) {
    member.reported(&ReportBuilder::new("Scheduler", 1).build()).await;
    let connection = app.database.connection().await;
    let cluster = entity::cluster::Entity::find().one(&connection).await.unwrap().unwrap();
    let rows = (1..CLUSTERS).map(|number| {
        let mut row = cluster.clone().into_active_model().reset_all();
        row.id = Set(ClusterId(cluster.id.0 + number));
        row.scheduler_id = Set(format!("Scheduler-{number}"));
        row.started_at = Set((cluster.started_at.0 + chrono::TimeDelta::seconds(number)).into());
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
        let sql =
            (1..).zip(&values).fold(statement, |sql, (n, value)| sql.replacen(&format!("${n}"), value, 1));
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
        let expected =
            "SEARCH clusters USING INDEX clusters_started_idx (account_id=? AND (started_at,id)<(?,?))";
        assert_eq!(plan, expected);
    }
    app.stop().await;
}

async fn explain(connection: &sea_orm::DatabaseConnection, sql: &str) -> String {
    let backend = connection.get_database_backend();
    let rows = connection.query_all_raw(Statement::from_string(backend, sql)).await.unwrap();
    let column = if backend == DatabaseBackend::Postgres { 0 } else { 3 };
    rows.iter().map(|row| row.try_get_by_index::<String>(column).unwrap()).collect::<Vec<_>>().join("\n")
}
