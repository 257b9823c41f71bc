//! The admission checks before the executor: refused requests, and the cost of queries.

use std::time::Duration;

use entity::api_token::Scope;
use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Database, Member, ReportBuilder, TestApp, error};
use reqwest::{Method, header};
use serde_json::{Value, json};

/// Every request has one statement that looks up the token.
const SIGN_IN: u64 = 1;

/// Sends a request, and returns the status and body in the media type that expresses refusals by their
/// status.
async fn send(member: &Member, body: String) -> (u16, String) {
    let request = member.request(Method::POST, "/graphql").header(header::CONTENT_TYPE, "application/json");
    let request = request.header(header::ACCEPT, "application/graphql-response+json").body(body);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

/// Expects a request to be refused with a code and a short response, before anything is executed.
pub(crate) async fn assert_refused(app: &TestApp, member: &Member, what: &str, body: &Value, code: &str) {
    let before = app.statements();
    let (status, text) = send(member, body.to_string()).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["errors"][0]["extensions"]["code"], code, "{what}: {answer}");
    assert_eq!(status, 400, "{what}: {answer}");
    assert_eq!(answer.get("data"), None, "{what}: {answer}");
    assert!(text.len() < 2_500, "{what}: {text}");
    assert!(answer["errors"].as_array().unwrap().len() <= 5, "{what}: {answer}");
    assert_eq!(app.statements() - before, SIGN_IN, "{what}");
}

#[tokio::test]
async fn documents_and_variables_are_checked_as_the_specification_says() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (invalid, input) = ("GRAPHQL_VALIDATION_FAILED", "BAD_USER_INPUT");
    let page = "query($n: Int!) { viewer { account { clusters(first: $n) { totalCount } } } }";
    let rate = "mutation($rate: CostRateInput!) { setCostRate(input: $rate) { account { slug } } }";
    let usage = "query($from: Date) { viewer { account { usage(from: $from) { tasks } } } }";
    let table =
        "query($by: [UsageDimension!]!) { viewer { account { usageTable(from: \"2026-11-01\", to: \"2026-11-02\",
        by: $by) { day } } } }";
    for (what, document, variables, code) in [
        (
            "a field twice as two",
            "{ a: viewer { scopes } a: account(slug: \"x\") { slug } }",
            json!({}),
            invalid,
        ),
        (
            "the same through fragments",
            "{ viewer { ...A ...B } } fragment A on Viewer { x: user { id } } fragment B on Viewer { x: account { id } }",
            json!({}),
            invalid,
        ),
        (
            "a text as a number",
            "{ viewer { account { clusters(first: \"1\") { totalCount } } } }",
            json!({}),
            invalid,
        ),
        (
            "a text's variable as a number",
            "query($n: String) { viewer { account { clusters(first: $n) { totalCount } } } }",
            json!({}),
            invalid,
        ),
        (
            "a number of 33 bits",
            "{ viewer { account { clusters(first: 4294967296) { totalCount } } } }",
            json!({}),
            invalid,
        ),
        ("an unknown variable", "{ __typename @include(if: $x) }", json!({}), invalid),
        ("an unknown directive", "{ __typename @what }", json!({}), invalid),
        ("a directive of a variable", "query($x: Int @what) { __typename }", json!({}), invalid),
        ("an argument of a name", "{ __typename(x: 1) }", json!({}), invalid),
        ("a selection of a name", "{ __typename { x } }", json!({}), invalid),
        ("a variable nobody uses", "query($x: Int) { __typename }", json!({}), invalid),
        ("a fragment nobody uses", "{ __typename } fragment A on Query { __typename }", json!({}), invalid),
        ("no selection", "{ viewer }", json!({}), invalid),
        ("a subscription", "subscription { viewer { scopes } }", json!({}), invalid),
        ("a type", "type A { b: Int }", json!({}), invalid),
        ("no date", "{ viewer { account { usage(from: \"soon\") { tasks } } } }", json!({}), invalid),
        ("null for a number", page, json!({ "n": null }), input),
        ("no number", page, json!({}), input),
        ("a text for a number", page, json!({ "n": "1" }), input),
        ("a part for a number", page, json!({ "n": 1.5 }), input),
        ("33 bits for a number", page, json!({ "n": 4_294_967_296_i64 }), input),
        ("no condition", "query($x: Boolean!) { __typename @include(if: $x) }", json!({}), input),
        ("no date for a date", usage, json!({ "from": "soon" }), input),
        ("a number for a date", usage, json!({ "from": 5 }), input),
        ("a list for a date", usage, json!({ "from": ["2026-11-01"] }), input),
        ("an unknown word", table, json!({ "by": ["YEAR"] }), input),
        ("an unknown field", rate, json!({ "rate": { "validFrom": "2026-11-01", "x": 1 } }), input),
        ("a missing field", rate, json!({ "rate": { "perThreadHour": 1 } }), input),
        ("a wrong field", rate, json!({ "rate": { "validFrom": "2026-11-31" } }), input),
        ("a secret", page, json!({ "n": "geheim" }), input),
    ] {
        assert_refused(&app, &ada, what, &json!({ "query": document, "variables": variables }), code).await;
    }
    let (_, answer) = send(&ada, json!({ "query": page, "variables": { "n": "geheim" } }).to_string()).await;
    assert!(!answer.contains("geheim"), "{answer}");

    let answer = ada.query("query($x: Boolean!) { __typename @include(if: $x) }", json!({ "x": true })).await;
    assert_eq!(answer, json!({ "__typename": "Query" }));
    let answer = ada.query(r#"{ account(slug: "\u{1F600}\uD83D\uDE00") { slug } }"#, json!({})).await;
    assert_eq!(answer, json!({ "account": null }));
    let functions = "query($n: Int) { viewer { account { functions(first: $n) { prefix } } } }";
    let answer = ada.query(functions, json!({})).await;
    assert_eq!(answer["viewer"]["account"]["functions"], json!([]), "what is not given has its default");
    let events = "query($topics: [String!]) { viewer { account { clusters { nodes { events(topics: $topics) { totalCount } } } } } }";
    ada.query(events, json!({ "topics": "one" })).await;
    let answer =
        ada.ask("{\n  viewer { account {\n    ä: clusters(first: 0) { totalCount } } } }", json!({})).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "GRAPHQL_PARSE_FAILED", "{answer}");
    let answer = ada
        .ask("# ä\r\n{ viewer { account {\n    a: clusters(first: 0) { totalCount } } } }", json!({}))
        .await;
    assert_eq!(answer["errors"][0]["locations"], json!([{ "line": 3, "column": 24 }]), "{answer}");
    // These characters end no line in GraphQL, unlike elsewhere.
    let comment = "# \u{b}\u{c}\u{85}\u{2028}\u{2029}";
    for wrong in ["?", "nothing"] {
        let answer = ada.ask(&format!("{comment}\n{{\r  {wrong} }}"), json!({})).await;
        assert_eq!(answer["errors"][0]["locations"], json!([{ "line": 3, "column": 3 }]), "{answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_operation_is_chosen_by_its_name() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let two = "query A { viewer { ...S } } query B($id: ID!) { cluster(id: $id) { id } } mutation C { deleteCostRate(
        validFrom: \"2026-11-01\") { account { slug } } } fragment S on Viewer { scopes }";
    let ask = async |query: &str, name: Value| {
        let (_, text) = send(&ada, json!({ "query": query, "operationName": name }).to_string()).await;
        serde_json::from_str::<Value>(&text).unwrap()
    };
    // B's variable is not needed here, and C is not executed.
    assert_eq!(ask(two, json!("A")).await["data"]["viewer"]["scopes"], json!(["INGEST", "READ", "ADMIN"]));
    assert_eq!(ask(two, json!("B")).await["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    assert_eq!(ask(two, json!("C")).await["data"]["deleteCostRate"]["account"]["slug"], "ada");
    assert_eq!(ask("query A { __typename }", json!(null)).await["data"]["__typename"], "Query");
    for (query, name) in [(two, json!(null)), (two, json!("D")), ("{ __typename }", json!("A"))] {
        let body = json!({ "query": query, "operationName": name });
        assert_refused(&app, &ada, query, &body, "OPERATION_RESOLUTION_FAILURE").await;
    }
    let mixed = json!({ "query": "{ __typename } query A { __typename }" });
    assert_refused(&app, &ada, "one without a name", &mixed, "GRAPHQL_VALIDATION_FAILED").await;
    app.stop().await;
}

#[tokio::test]
async fn null_takes_the_next_parent_that_may_be_null_and_nothing_else() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1).with("/errors", json!([error(1, 1, 1)])).build();
    let id = ada.reported(&report).await.to_string();
    let query = "query($id: ID!) { first: cluster(id: $id) { number }
        wrong: cluster(id: $id) { number errors { nodes { key cluster { errors(first: 0) { totalCount } } } } }
        last: cluster(id: $id) { number } }";
    let (status, text) = send(&ada, json!({ "query": query, "variables": { "id": id } }).to_string()).await;
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&text).unwrap();
    // The error is in a non-null object, in a list of such, in a page that is non-null, too.
    let found = json!({ "number": id.parse::<i64>().unwrap() });
    let data = json!({ "first": found, "wrong": null, "last": found });
    assert_eq!(answer["data"], data, "{text}");
    assert!(
        text.find("\"first\"") < text.find("\"wrong\"") && text.find("\"wrong\"") < text.find("\"last\""),
        "{text}"
    );
    let path = json!(["wrong", "errors", "nodes", 0, "cluster", "errors"]);
    assert_eq!(answer["errors"][0]["path"], path, "{text}");
    assert_eq!(answer["errors"].as_array().unwrap().len(), 1, "{text}");
    app.stop().await;
}

#[tokio::test]
async fn a_query_costs_what_its_answer_may_hold() {
    let app = TestApp::start_with(|settings| settings.max_query_cost = 1_000).await;
    let ada = app.account("ada").await;
    let account = |fields: &str| format!("{{ viewer {{ account {{ {fields} }} }} }}");
    let cluster = |fields: &str| format!("{{ cluster(id: \"1\") {{ {fields} }} }}");
    for (query, cost) in [
        ("{ __typename }".to_owned(), 1),
        ("{ viewer { user { name } } }".to_owned(), 3),
        ("{ viewer @skip(if: true) { user { name } } }".to_owned(), 3),
        (
            account("clusters(first: 5) { totalCount nodes { id state } pageInfo { hasNextPage } }"),
            4 + 1 + 5 * 2 + 2,
        ),
        (account("clusters { nodes { id } }"), 4 + 20),
        (account("clusters(last: 3) { nodes { id } }"), 4 + 3),
        (account("clusters(first: 100) { nodes { id } }"), 4 + 100),
        (account("clusters(first: 500) { nodes { id } pageInfo { endCursor } }"), 4 + 500 + 2),
        (
            account("clusters(last: 300) { edges { cursor ...on ClusterEdge { node { name } } } }"),
            4 + 300 * 3,
        ),
        (account("clusters(first: 1) { nodes { id } }"), 4 + 1),
        (account("clusters(first: 4) { edges { cursor node { id } } }"), 4 + 4 * 3),
        (account("clusters(first: 2) { nodes { id errors(first: 3) { nodes { key } } } }"), 4 + 2 * (3 + 3)),
        (account("functions(first: 10) { prefix tasks }"), 3 + 10 * 2),
        (account("functions { prefix }"), 3 + 100),
        (account("costRates { currency }"), 3 + 10),
        (cluster("environment { packages { name } }"), 3 + 100),
        (cluster("series(metrics: [CPU, THREADS]) { unit points { value } }"), 2 + 2 * (2 + 100)),
        (cluster("series(metrics: CPU) { points { at value } }"), 2 + 1 + 100 * 2),
        (cluster("fineMetrics(first: 50) { total rows { value } }"), 4 + 50),
        (cluster("functionActivity { otherThreads functions { prefix threads } }"), 4 + 10 * 2),
        (cluster("functionActivity(first: 20) { computeSeconds functions { threads } }"), 4 + 20),
        ("{ __schema { types { name } } }".to_owned(), 100),
        (
            "{ a: viewer { ...V } b: viewer { ...V } } fragment V on Viewer { user { name } }".to_owned(),
            2 * 3,
        ),
        (account("clusters(first: 4) { ...P }") + " fragment P on ClusterConnection { nodes { id } }", 4 + 4),
    ] {
        let answer = ada.ask(&query, json!({})).await;
        assert_eq!(
            answer["extensions"]["cost"],
            json!({ "requested": cost, "limit": 1_000 }),
            "{query}: {answer}"
        );
    }
    // The page size is invalid, so no cost is computed.
    for (first, what) in [("1000000", "not 1000000"), ("-1", "not -1")] {
        let query = account(&format!("clusters(first: {first}) {{ nodes {{ id }} }}"));
        let answer = ada.ask(&query, json!({})).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert_eq!(message, format!("argument 'first': must be between 1 and 500, {what}"));
        assert_eq!(answer["data"], json!(null));
    }
    // Pages longer than 100 have few fields, whether or not a field above them may be null.
    for (selection, fragment) in [
        ("nodes { id closeReason }", ""),
        ("edges { node { environment { python } } }", ""),
        ("nodes { ...F }", "fragment F on Cluster { notes { text } }"),
    ] {
        for above in ["viewer { account {", "account(slug: \"ada\") {"] {
            let close = "} ".repeat(above.matches('{').count() + 1);
            let query = format!("{{ {above} clusters(first: 101) {{ {selection} }} {close} {fragment}");
            let answer = ada.ask(&query, json!({})).await;
            let message = "argument 'first': must be between 1 and 100, not 101";
            assert_eq!(answer["errors"][0]["message"], message, "{query}: {answer}");
        }
    }
    let paged = "query($n: Int = 6) { viewer { account { clusters(first: $n) { nodes { id } } } } }";
    for (variables, cost) in [(json!({}), 10), (json!({ "n": 7 }), 11), (json!({ "n": null }), 24)] {
        let answer = ada.ask(paged, variables).await;
        assert_eq!(answer["extensions"]["cost"]["requested"], cost, "{answer}");
    }
    // 996 and 4 make 1,000, which is allowed.
    let just = account(
        "clusters(first: 83) { nodes { a: id b: id c: id d: id e: id f: id g: id h: id i: id j: id k: id l: id } }",
    );
    assert_eq!(ada.ask(&just, json!({})).await["extensions"]["cost"]["requested"], 1_000);
    let more = json!({ "query": just.replace("viewer {", "viewer { scopes") });
    assert_refused(&app, &ada, "1,001", &more, "COST_LIMIT_EXCEEDED").await;
    let (_, answer) = send(&ada, more.to_string()).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let extensions = json!({ "code": "COST_LIMIT_EXCEEDED", "cost": 1_001, "limit": 1_000 });
    assert_eq!(answer["errors"][0]["extensions"], extensions);
    app.stop().await;
}

/// The introspection query of tools, which is deeper than other queries may be.
const INTROSPECTION: &str = "query IntrospectionQuery { __schema { queryType { name } mutationType { name }
    subscriptionType { name } types { ...FullType } directives { name description locations args { ...InputValue } } } }
    fragment FullType on __Type { kind name description fields(includeDeprecated: true) { name description
        args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason } inputFields { ...InputValue }
        interfaces { ...TypeRef } enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason }
        possibleTypes { ...TypeRef } }
    fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
    fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
        ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } } }";

#[tokio::test]
async fn the_schema_is_told_to_those_who_are_signed_in() {
    let app = TestApp::start_with(|settings| settings.max_query_cost = 1_000).await;
    let ada = app.account("ada").await;
    let answer = ada.query(INTROSPECTION, json!({})).await;
    let types = answer["__schema"]["types"].as_array().unwrap();
    assert!(types.iter().any(|kind| kind["name"] == "Cluster"), "{answer}");
    let request = app.anonymous(Method::POST, "/graphql").json(&json!({ "query": INTROSPECTION }));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(response.json::<Value>().await.unwrap()["errors"][0]["extensions"]["code"], "UNAUTHENTICATED");
    app.stop().await;
}

#[tokio::test]
async fn a_tokens_queries_may_cost_so_much_in_a_minute() {
    let app = TestApp::start_with(|settings| settings.query_cost_per_minute = 10_000).await;
    let ada = app.account("ada").await;
    let (again, bob) = (ada.with_token(ada.token(&[Scope::Read], None).await), app.account("bob").await);
    let limit = "rateLimit { limit cost remaining resetAt }";
    let first = ada.query(&format!("{{ {limit} }}"), json!({})).await;
    // The server's clock is fixed. A point is restored in 6 milliseconds.
    let full =
        json!({ "limit": 10_000, "cost": 5, "remaining": 9_995, "resetAt": "2026-11-20T12:00:00.030+00:00" });
    assert_eq!(first["rateLimit"], full);
    let query = format!(
        "{{ viewer {{ account {{ clusters(first: 100) {{ totalCount nodes {{ errors {{ nodes {{ id key }} }} }} }} }} }}
        a: viewer {{ user {{ name id }} account {{ slug }} }} {limit} }}"
    );
    let cost = 5 + 100 * (2 + 20 * 2) + 6 + 5;
    for _ in 0..2 {
        assert_eq!(ada.ask(&query, json!({})).await["extensions"]["cost"]["requested"], cost);
    }
    let before = app.statements();
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 429);
    let seconds: u64 = response.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["errors"][0]["extensions"]["code"], "RATE_LIMITED", "{answer}");
    assert_eq!(app.statements() - before, SIGN_IN);
    // A rate-limited request costs nothing, and other tokens and accounts are not affected.
    for member in [&again, &bob] {
        assert_eq!(member.query(&format!("{{ {limit} }}"), json!({})).await["rateLimit"], full);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_given_up_and_a_mutation_goes_on() {
    let keys = Keys::generate();
    let ring = || KeySource::Ring(keys.clone());
    let patient = TestApp::start_on(Database::migrated().await, ring(), |_| {}).await;
    let ada = patient.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await.to_string();
    let id = ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number })).await["cluster"]["id"].take();
    let app = TestApp::start_on(patient.database.again(), ring(), |settings| {
        settings.query_timeout = Duration::ZERO;
    });
    let app = app.await;
    let hurried = app.here(&ada);
    // Introspection needs no waiting.
    assert_eq!(hurried.query("{ __typename }", json!({})).await["__typename"], "Query");
    for (query, variables) in [
        // A short read on SQLite does not wait, so that no timeout ends it. A count waits for another thread.
        ("{ viewer { account { clusters { totalCount } } } }", json!({})),
        (
            "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }",
            json!({ "id": id }),
        ),
    ] {
        // The timer has a resolution of a millisecond, within which a fast database may have responded.
        let mut attempts = 1..=1_000;
        loop {
            let attempt = attempts.next().expect("one of very many takes longer");
            let body = json!({ "query": query, "variables": variables });
            let (status, text) = send(&hurried, body.to_string()).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            if status == 200 {
                assert_eq!(answer.get("errors"), None, "{attempt}: {text}");
                continue;
            }
            assert_eq!(answer["errors"][0]["extensions"]["code"], "DEADLINE_EXCEEDED", "{text}");
            assert_eq!((status, answer.get("data")), (504, None), "{text}");
            break;
        }
    }
    let state = "query($id: ID!) { cluster(id: $id) { desiredState } }";
    while ada.query(state, json!({ "id": number })).await["cluster"]["desiredState"] != "STOPPED" {
        tokio::task::yield_now().await;
    }
    app.stop().await;
    patient.stop().await;
}

#[tokio::test]
async fn documents_the_server_knows_are_named_by_their_hash() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("name.graphql"), "{ viewer { user { name } } }").unwrap();
    std::fs::write(directory.path().join("readme.txt"), "{ __typename }").unwrap();
    // The hash of the first file.
    let hash = "b34baa31867a43364a8ebfe58e37f421e1ed2c74916efbef8827f37ee3d881b2";
    let unknown = "0".repeat(64);
    let found = json!({ "viewer": { "user": { "name": "ada" } } });
    let by_id = |id: &str| json!({ "documentId": format!("sha256:{id}") });
    let by_hash =
        |hash: &str| json!({ "extensions": { "persistedQuery": { "version": 1, "sha256Hash": hash } } });
    for only in [false, true] {
        let path = directory.path().to_owned();
        let app = TestApp::start_with(|settings| {
            settings.persisted_documents = Some(path);
            settings.persisted_documents_only = only;
        });
        let app = app.await;
        let ada = app.account("ada").await;
        for body in [by_id(hash), by_hash(hash), json!({ "query": "{ viewer { user { name } } }" })] {
            let (status, text) = send(&ada, body.to_string()).await;
            assert_eq!(status, 200, "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["data"], found, "{text}");
        }
        let url = format!("/graphql?documentId=sha256:{hash}");
        assert_eq!(
            ada.request(Method::GET, &url).send().await.unwrap().json::<Value>().await.unwrap()["data"],
            found
        );
        for body in [by_id(&unknown), by_hash(&unknown), by_id("x"), json!({ "documentId": hash })] {
            assert_refused(&app, &ada, "unknown", &body, "PERSISTED_QUERY_NOT_FOUND").await;
        }
        let mut other = by_hash(hash);
        other["query"] = json!("{ __typename }");
        assert_refused(&app, &ada, "another", &other, "BAD_USER_INPUT").await;
        let free = json!({ "query": "{ __typename }" });
        if only {
            assert_refused(&app, &ada, "not in the list", &free, "PERSISTED_QUERY_NOT_IN_LIST").await;
        } else {
            assert_eq!(send(&ada, free.to_string()).await.0, 200);
        }
        app.stop().await;
    }
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for body in [by_id(hash), by_hash(hash)] {
        assert_refused(&app, &ada, "none are kept", &body, "PERSISTED_QUERY_NOT_SUPPORTED").await;
    }
    app.stop().await;
}
