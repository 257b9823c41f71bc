//! Code snippets: stored once per account, encrypted, and only under their own hash.

use entity::code_snippet::{Column, Entity};
use harness::{Member, ReportBuilder, TestApp, code, code_frame, computation, profile, span};
use reqwest::StatusCode;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseBackend, DatabaseConnection, EntityTrait, QueryFilter, Statement,
    sea_query::Expr,
};
use serde_json::{Value, json};

const TEXT: &str = "def secret_recipe(beans):\n    return beans.map(roast).compute()\n";

const CODE: &str = "query($id: ID!) { cluster(id: $id) { spans { nodes {
    code { file line relativeLine snippet { hash text } } } } } }";

fn report(scheduler: &str, texts: &[&str]) -> Value {
    let mut called = span(1, None, &["etl"], 1.0, Some(2.0));
    called["code"] = json!([[code_frame(TEXT, 12, 1), code_frame("other", 0, 0)], [code_frame(TEXT, 13, 0)]]);
    ReportBuilder::new(scheduler, 1)
        .with("/spans", json!([called]))
        .with("/code", texts.iter().map(|text| code(text)).collect::<Vec<_>>())
        .build()
}

async fn query_code(member: &Member, number: i64) -> Value {
    member.ask(CODE, json!({ "id": number.to_string() })).await
}

#[tokio::test]
async fn snippets_are_found_by_their_hashes() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report("Scheduler-1", &[TEXT, TEXT])).await;
    let answer = query_code(&ada, number).await;
    let frame = |text: &str, stored: bool, line: Option<i64>, relative_line: i64| {
        let text = json!({ "hash": code(text)["hash"], "text": stored.then_some(text) });
        json!({ "file": "/home/ada/etl.py", "line": line, "relativeLine": relative_line, "snippet": text })
    };
    let expected = json!([
        [frame(TEXT, true, Some(12), 1), frame("other", false, None, 0)],
        [frame(TEXT, true, Some(13), 0)]
    ]);
    assert_eq!(answer["data"]["cluster"]["spans"]["nodes"][0]["code"], expected);
    assert_eq!(answer.get("errors"), None);
    app.stop().await;
}

#[tokio::test]
async fn a_text_is_kept_once_and_remembers_when_it_was_used() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    ada.reported(&report("Scheduler-1", &[TEXT])).await;
    let connection = app.database.connection().await;
    let rows = async || Entity::find().all(&connection).await.unwrap();
    let first = rows().await;
    assert_eq!(first.len(), 1);
    let day = |row: &entity::code_snippet::Model| row.last_used_at.to_rfc3339();
    assert_eq!(day(&first[0]), "2026-11-20T00:00:00+00:00");
    app.set_clock("2026-11-20T23:59:59Z");
    ada.reported(&report("Scheduler-2", &[TEXT])).await;
    assert_eq!(rows().await, first);
    app.set_clock("2026-11-22T08:00:00Z");
    ada.reported(&report("Scheduler-3", &[TEXT])).await;
    let later = rows().await;
    assert_eq!(day(&later[0]), "2026-11-22T00:00:00+00:00");
    assert_eq!(later[0].sealed, first[0].sealed, "the first text stays");
    app.set_clock("2026-11-21T08:00:00Z");
    ada.reported(&report("Scheduler-4", &[TEXT])).await;
    assert_eq!(rows().await, later);

    let number = bob.reported(&report("Scheduler-1", &[])).await;
    let texts = query_code(&bob, number).await;
    let code = &texts["data"]["cluster"]["spans"]["nodes"][0]["code"];
    assert_eq!(code[0][0]["snippet"]["text"], Value::Null, "bob never sent it");
    bob.reported(&report("Scheduler-1", &[TEXT])).await;
    assert_eq!(rows().await.len(), 2);
    app.stop().await;
}

#[tokio::test]
async fn code_that_is_only_named_is_used_as_well() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report("Scheduler-1", &[TEXT])).await;
    let mut called = computation(1, &[]);
    called["code"] = json!([[code_frame(TEXT, 12, 1)]]);
    let by_computation =
        |sequence| ReportBuilder::new("Scheduler-1", sequence).with("/computations", json!([called])).build();
    let connection = app.database.connection().await;
    let day = async || {
        let rows = Entity::find().all(&connection).await.unwrap();
        rows.iter().map(|row| row.last_used_at.to_rfc3339()[..10].to_owned()).collect::<Vec<_>>()
    };
    // A reporter sends a text once, and refers to it while it is in use.
    app.set_clock("2027-01-10T23:00:00Z");
    ada.reported(&report("Scheduler-2", &[])).await;
    assert_eq!(day().await, ["2027-01-10"]);
    app.set_clock("2027-03-20T01:00:00Z");
    ada.reported(&by_computation(2)).await;
    assert_eq!(day().await, ["2027-03-20"]);
    app.set_clock("2027-03-19T01:00:00Z");
    ada.reported(&by_computation(3)).await;
    assert_eq!(day().await, ["2027-03-20"], "it does not go back");
    let before = app.statements();
    ada.reported(&by_computation(4)).await;
    let named = app.statements() - before;
    called["code"] = json!([]);
    let before = app.statements();
    ada.reported(&ReportBuilder::new("Scheduler-1", 5).with("/computations", json!([called])).build()).await;
    assert_eq!(named, app.statements() - before + 1, "a look is all it costs");
    // A reference from another account does not keep it. The day is rounded down, so a text has one more
    // day.
    app.set_clock("2027-06-18T23:59:59Z");
    app.account("bob").await.reported(&report("Scheduler-3", &[])).await;
    app.run_jobs().await;
    assert_eq!(day().await, ["2027-03-20"]);
    app.set_clock("2027-06-19T00:00:01Z");
    app.run_jobs().await;
    assert_eq!(day().await, Vec::<String>::new());
    app.stop().await;
}

#[tokio::test]
async fn a_hash_that_is_not_the_texts_own_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut wrong = report("Scheduler-1", &["fine", TEXT]);
    wrong["code"][1]["text"] = json!("something else");
    let (status, answer) = ada.report(&wrong).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!((&answer["code"], &answer["pointer"]), (&json!("INVALID_BODY"), &json!("/code/1/hash")));
    let connection = app.database.connection().await;
    assert_eq!(Entity::find().all(&connection).await.unwrap(), [], "nothing of it was stored");
    app.stop().await;
}

#[tokio::test]
async fn a_lost_key_takes_the_text_and_nothing_else() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report("Scheduler-1", &[TEXT, "other"])).await;
    let connection = app.database.connection().await;
    let hash = code(TEXT)["hash"].as_str().unwrap().to_owned();
    let lose =
        Entity::update_many().col_expr(Column::KeyId, Expr::value(12_345)).filter(Column::Hash.eq(hash));
    lose.exec(&connection).await.unwrap();
    let answer = query_code(&ada, number).await;
    let stacks = &answer["data"]["cluster"]["spans"]["nodes"][0]["code"];
    assert_eq!(stacks[0][0]["snippet"]["text"], Value::Null);
    assert_eq!(stacks[0][0]["line"], 12);
    assert_eq!(stacks[0][0]["snippet"]["hash"], code(TEXT)["hash"]);
    assert_eq!(stacks[0][1]["snippet"]["text"], "other");
    let errors = answer["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["extensions"]["code"] == "KEY_MISSING"), "{answer}");
    app.stop().await;
}

/// The raw content of the whole database.
async fn contents(app: &TestApp, connection: &DatabaseConnection) -> Vec<u8> {
    if connection.get_database_backend() == DatabaseBackend::Postgres {
        let query = async |sql: String| {
            let rows = connection.query_all_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await;
            let text = |row: sea_orm::QueryResult| row.try_get_by_index::<String>(0).unwrap();
            rows.unwrap().into_iter().map(text).collect::<Vec<_>>()
        };
        let tables =
            query("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'".to_owned()).await;
        let mut all = String::new();
        for table in tables {
            all.extend(query(format!("SELECT t::text FROM {table} t")).await);
        }
        return all.into_bytes();
    }
    let path = app.database.url().trim_start_matches("sqlite://").split('?').next().unwrap().to_owned();
    let mut all = std::fs::read(&path).unwrap();
    all.extend(std::fs::read(format!("{path}-wal")).unwrap_or_default());
    all
}

#[tokio::test]
async fn no_line_of_code_lies_in_the_open() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let frames = json!([{ "file": "/home/ada/roasting.py", "function": "roast", "line": 3,
        "text": "grind(beans, fineness=secret_fineness)" }]);
    let mut all = report("Scheduler-1", &[TEXT]);
    all["profiles"] = json!([profile(50, 0.0, 9, &frames, &json!([[-1, 0, 9, 9]]))]);
    let number = ada.reported(&all).await;
    let client_span =
        json!({ "start": 1, "stop": 2, "callstack": [{ "code": "taste(secret_cup)", "filename": "a.py" }] });
    let path = format!("/api/v2/analytics/ada/cluster/{number}/span/{}", harness::uuid(1));
    let response = ada.request(reqwest::Method::POST, &path).json(&client_span).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let connection = app.database.connection().await;
    let contents = contents(&app, &connection).await;
    let holds = |needle: &str| {
        let hex = needle.bytes().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let found = |needle: &str| contents.windows(needle.len()).any(|window| window == needle.as_bytes());
        found(needle) || found(&hex)
    };
    assert!(holds("/home/ada/etl.py"), "the search finds what is there");
    for line in TEXT.lines().chain(["grind(beans", "roasting.py", "secret_cup", "secret_recipe"]) {
        assert!(!holds(line), "{line}");
    }
    app.stop().await;
}
