//! GraphQL over HTTP: methods, media types and status codes.

use entity::api_token::Scope;
use harness::{ReportBuilder, TestApp};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

const NAME: &str = "{ viewer { user { name } } }";

#[tokio::test]
async fn the_media_type_is_the_one_that_is_accepted() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (graphql, json) =
        ("application/graphql-response+json; charset=utf-8", "application/json; charset=utf-8");
    for (accept, content_type, wrong_query) in [
        ("application/graphql-response+json", graphql, 400),
        ("application/json", json, 200),
        ("*/*", json, 200),
        ("application/graphql-response+json, application/json;q=0.9", graphql, 400),
        ("text/html, application/json", json, 200),
        ("application/json;q=0, */*", graphql, 400),
        ("*/*, application/json;q=0", graphql, 400),
        ("application/graphql-response+json;q=0, application/json", json, 200),
        ("application/graphql-response+json;q=0, */*;q=0.1", json, 200),
        ("application/json;q=0.1, application/graphql-response+json", graphql, 400),
        ("application/graphql-response+json;q=0.1, application/json;q=0.2", json, 200),
        ("application/*;q=0.5, application/json;q=0", graphql, 400),
    ] {
        for (query, status) in [(NAME, 200), ("{ nonsense }", wrong_query), ("{", wrong_query)] {
            let request = ada.request(Method::POST, "/graphql").header(header::ACCEPT, accept);
            let response = request.json(&json!({ "query": query })).send().await.unwrap();
            assert_eq!(response.status(), status, "{accept}: {query}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], content_type, "{accept}: {query}");
            let body: Value = response.json().await.unwrap();
            assert_eq!(body.get("data").is_some(), query == NAME, "{accept}: {query}: {body}");
            assert_eq!(
                body["errors"][0]["extensions"]["code"].is_string(),
                query != NAME,
                "{accept}: {query}: {body}"
            );
        }
    }
    for accept in [
        "text/plain",
        "*/*;q=0",
        "application/json;q=0",
        "application/json;q=0.000, application/graphql-response+json;q=0, text/event-stream; q=0, */*",
        "application/*;q=0, text/*;q=0, */*",
    ] {
        let request = ada.request(Method::POST, "/graphql").header(header::ACCEPT, accept);
        let refused = request.json(&json!({ "query": NAME })).send().await.unwrap();
        assert_eq!(refused.status(), 406, "{accept}");
    }
    // The page for browsers is also a response.
    for (accept, is_page) in [
        ("text/html", true),
        ("text/html;q=0.1, application/xhtml+xml", true),
        ("text/html;q=0, */*", false),
        ("text/html;q=0, application/json", false),
    ] {
        let answer = app.anonymous(Method::GET, "/graphql").header(header::ACCEPT, accept).send().await;
        let content_type = answer.unwrap().headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        assert_eq!(content_type.starts_with("text/html"), is_page, "{accept}: {content_type}");
    }
    app.stop().await;
}

#[tokio::test]
async fn get_takes_queries_only() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let get = |parameters: &[(&str, &str)]| {
        let accept = "application/graphql-response+json";
        ada.request(Method::GET, "/graphql").query(parameters).header(header::ACCEPT, accept).send()
    };
    let query =
        "query One($id: ID!) { cluster(id: $id) { schedulerId } } query Two { viewer { user { name } } }";
    let variables = json!({ "id": number.to_string() }).to_string();
    let one = get(&[("query", query), ("operationName", "One"), ("variables", &variables)]).await.unwrap();
    assert_eq!(
        one.json::<Value>().await.unwrap(),
        json!({
            "data": { "cluster": { "schedulerId": "Scheduler-1" } },
            "extensions": { "cost": { "requested": 2, "limit": 500_000 } },
        })
    );
    let two = get(&[("query", query), ("operationName", "Two")]).await.unwrap();
    assert_eq!(
        two.json::<Value>().await.unwrap(),
        json!({
            "data": { "viewer": { "user": { "name": "ada" } } },
            "extensions": { "cost": { "requested": 3, "limit": 500_000 } },
        })
    );

    // Parameters of clients that always send these names.
    for names in [vec!["operationName"], vec!["variables"], vec!["extensions", "documentId"]] {
        let mut parameters = vec![("query", NAME)];
        parameters.extend(names.iter().map(|name| (*name, "")));
        let answer = get(&parameters).await.unwrap();
        assert_eq!(answer.status(), 200, "{names:?}");
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["data"]["viewer"]["user"]["name"], "ada", "{names:?}: {answer}");
    }
    // With two operations, an empty name selects none.
    let several = get(&[("query", query), ("operationName", "")]).await.unwrap();
    assert_eq!(several.status(), 400);
    assert_eq!(
        several.json::<Value>().await.unwrap()["errors"][0]["extensions"]["code"],
        "OPERATION_RESOLUTION_FAILURE"
    );

    let mutation = "mutation { setDesiredState(cluster: \"x\", state: STOPPED) { cluster { id } } }";
    let refused = get(&[("query", mutation)]).await.unwrap();
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()[header::ALLOW], "POST");
    assert_eq!(get(&[("query", query), ("variables", "[1")]).await.unwrap().status(), 400);
    assert_eq!(get(&[("operationName", "One")]).await.unwrap().status(), 400);
    app.stop().await;
}

#[tokio::test]
async fn wrong_requests_are_refused_before_anything_runs() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let ok = json!({ "query": NAME }).to_string();
    let cases = [
        ("a batch", "application/json", json!([{ "query": NAME }]).to_string(), 400),
        ("no query", "application/json", "{}".to_owned(), 400),
        ("a query that is a number", "application/json", json!({ "query": 1 }).to_string(), 400),
        (
            "variables that are a list",
            "application/json",
            json!({ "query": NAME, "variables": [] }).to_string(),
            400,
        ),
        ("text", "text/plain", ok.clone(), 415),
        ("a form", "application/x-www-form-urlencoded", "query=x".to_owned(), 415),
        ("a graphql body", "application/graphql", NAME.to_owned(), 415),
        ("2 MiB", "application/json", format!("{ok}{}", " ".repeat(2 << 20)), 413),
        ("well-formed", "application/json; charset=utf-8", ok, 200),
    ];
    for (case, content_type, body, status) in cases {
        let request = ada.request(Method::POST, "/graphql").header(header::CONTENT_TYPE, content_type);
        let response = request.body(body).send().await.unwrap();
        assert_eq!(response.status(), status, "{case}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["errors"].is_array(), status != 200, "{case}: {body}");
    }
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        let response =
            ada.request(method.clone(), "/graphql").json(&json!({ "query": NAME })).send().await.unwrap();
        assert_eq!(response.status(), 405, "{method}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_query_needs_the_scope_read_and_a_mutation_admin() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let ingest = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let refused =
        ingest.request(Method::POST, "/graphql").json(&json!({ "query": NAME })).send().await.unwrap();
    assert_eq!(refused.status(), 403);
    assert_eq!(refused.json::<Value>().await.unwrap()["errors"][0]["extensions"]["code"], "MISSING_SCOPE");

    let read = ada.with_token(ada.token(&[Scope::Read], None).await);
    let answer = read.query("{ viewer { scopes account { clusters { nodes { id } } } } }", json!({})).await;
    assert_eq!(answer["viewer"]["scopes"], json!(["READ"]));
    let id = &answer["viewer"]["account"]["clusters"]["nodes"][0]["id"];
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    let refused = read.ask(stop, json!({ "id": id })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
    assert_eq!(refused["data"], json!(null));
    let state = read.query("{ viewer { account { clusters { nodes { desiredState } } } } }", json!({})).await;
    assert_eq!(state["viewer"]["account"]["clusters"]["nodes"][0]["desiredState"], "RUNNING");
    app.stop().await;
}

/// The response without the points that were added for its time in the database, as on a busy machine.
fn without_time(text: &str) -> String {
    let Some((before, after)) = text.split_once(",\"added\":") else { return text.to_owned() };
    before.to_owned() + after.trim_start_matches(|c: char| c.is_ascii_digit())
}

#[tokio::test]
async fn a_list_keeps_the_order_of_its_fields_and_an_error_its_path() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let query = "{ viewer { b: account { slug } account { bad: clusters(after: \"x\") { totalCount } } user { name } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    // `clusters` is non-null up to the root, so its error makes the whole data null.
    assert_eq!(body["data"], json!(null), "{text}");
    assert_eq!(body["errors"][0]["path"], json!(["viewer", "account", "bad"]), "{text}");
    // Fields are in the order of the query, even if an earlier one takes longer.
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let query = "{ viewer { account { clusters { nodes { errors { totalCount } user { name } schedulerId
        taskGroups { totalCount } state } totalCount } slug } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let expected = r#"{"data":{"viewer":{"account":{"clusters":{"nodes":[{"errors":{"totalCount":0},"user":{"name":"ada"},"schedulerId":"Scheduler-1","taskGroups":{"totalCount":0},"state":"STARTING"}],"totalCount":1},"slug":"ada"}},"a":{"scopes":["INGEST","READ","ADMIN"]}},"extensions":{"cost":{"requested":168,"limit":500000}}}"#;
    assert_eq!(without_time(&request.send().await.unwrap().text().await.unwrap()), expected);
    let query = "{ viewer { user { name } b: account { slug } account { slug } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let expected = r#"{"data":{"viewer":{"user":{"name":"ada"},"b":{"slug":"ada"},"account":{"slug":"ada"}},"a":{"scopes":["INGEST","READ","ADMIN"]}},"extensions":{"cost":{"requested":9,"limit":500000}}}"#;
    assert_eq!(without_time(&text), expected);
    app.stop().await;
}

#[tokio::test]
async fn one_wrong_argument_takes_nothing_with_it_that_it_has_nothing_to_do_with() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let send_query = async |query: &str, variables: Value| {
        let accept = (header::ACCEPT, "application/graphql-response+json");
        let request = ada.request(Method::POST, "/graphql").header(accept.0, accept.1);
        let answer = request.json(&json!({ "query": query, "variables": variables })).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (page, both) = (
        "argument 'first': must be between 1 and 100, not 500",
        "argument 'last': only one of 'first' and 'last' can be given",
    );
    let range = "argument 'filter': 'from' must not be later than 'to'";
    let from = "argument 'from': must not be later than 'to'";
    let backwards = "{ from: \"2026-11-20T08:00:00Z\", to: \"2026-11-20T08:00:00+01:00\" }";
    // If all ancestors are non-null, the data would be null: nothing is executed, as for a value of the
    // wrong type.
    for (selection, message) in [
        ("viewer { user { name } account { clusters(first: 500) { nodes { address } } } }", page),
        ("viewer { account { clusters(first: $many) { nodes { address } } } }", page),
        (
            "viewer { account { ...A } } fragment A on Account { clusters(first: 500) { nodes { address } } }",
            page,
        ),
        ("viewer { account { ... { clusters(first: 1, last: 1) { totalCount } } } }", both),
        ("viewer { account { clusters(first: 500) @include(if: $yes) { nodes { address } } } }", page),
        ("viewer { account { clusters { nodes { taskGroups(first: 500) { totalCount } } } } }", page),
        (
            format!(
                "viewer {{ account {{ clusters(filter: {{ startedIn: {backwards} }}) {{ totalCount }} }} }}"
            )
            .as_str(),
            range,
        ),
        ("viewer { account { clusters(filter: $filter) { totalCount } } }", range),
        ("viewer { account { usage(from: \"2026-11-20\", to: \"2026-11-19\") { threadSeconds } } }", from),
    ] {
        let (query, fragment) = selection.split_once(" fragment ").unwrap_or((selection, ""));
        let fragment = if fragment.is_empty() { String::new() } else { format!(" fragment {fragment}") };
        let query = format!(
            "query($many: Int, $yes: Boolean! = true, $filter: ClusterFilter) {{ {query}
               a: __typename @skip(if: $yes) b: account(slug: \"x\") {{ clusters(first: $many, filter: $filter) {{ totalCount }} }} }}{fragment}"
        );
        let times = json!({ "from": "2026-11-20T08:00:00Z", "to": "2026-11-20T07:59:59Z" });
        let variables = json!({ "many": 500, "filter": { "endedIn": times } });
        let (status, body) = send_query(&query, variables).await;
        assert_eq!((status, &body["errors"][0]["message"]), (400, &json!(message)), "{query}: {body}");
        let error = &body["errors"][0];
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{query}: {body}");
        assert!(error.get("path").is_none() && body.get("data").is_none(), "{query}: {body}");
        assert!(error["locations"][0]["line"].is_number(), "{query}: {body}");
    }
    // Otherwise the nearest nullable field becomes null.
    let query = "query($id: ID!) { viewer { user { name } account { slug members(first: 500) { totalCount }
         usageTable(from: \"2026-11-20\", to: \"2026-11-19\") { start }
         auditLog(filter: { since: \"2026-11-20T00:00:00Z\", until: \"2026-11-19T00:00:00Z\" }) { totalCount } } }
       bad: cluster(id: $id) { number taskGroups(first: 0) { totalCount } }
       good: cluster(id: $id) { schedulerId
         usageHours(from: \"2026-11-20T08:00:00Z\", to: \"2026-11-20T07:00:00Z\") { start } } }";
    let (status, mut body) = send_query(query, json!({ "id": number.to_string() })).await;
    assert_eq!(status, 200, "{body}");
    let expected = json!({
        "viewer": {
            "user": { "name": "ada" },
            "account": { "slug": "ada", "members": null, "usageTable": null, "auditLog": null },
        },
        "bad": null,
        "good": { "schedulerId": "Scheduler-1", "usageHours": null },
    });
    assert_eq!(body["data"], expected, "{body}");
    let mut errors: Vec<_> = body["errors"].as_array_mut().unwrap().iter().collect();
    errors.sort_by_key(|error| error["path"].to_string());
    let messages: Vec<_> =
        errors.iter().map(|error| (error["path"].to_string(), error["message"].as_str().unwrap())).collect();
    assert_eq!(
        messages,
        [
            (r#"["bad","taskGroups"]"#.to_owned(), "argument 'first': must be between 1 and 100, not 0"),
            (r#"["good","usageHours"]"#.to_owned(), from),
            (
                r#"["viewer","account","auditLog"]"#.to_owned(),
                "argument 'since': must not be later than 'until'"
            ),
            (
                r#"["viewer","account","members"]"#.to_owned(),
                "argument 'first': must be between 1 and 100, not 500"
            ),
            (r#"["viewer","account","usageTable"]"#.to_owned(), from),
        ]
    );
    // A skipped field is not checked, and a mutation with an invalid selection is not executed.
    let skipped = "{ viewer { scopes account { clusters(first: 500) @skip(if: true) { totalCount } } } }";
    assert_eq!(send_query(skipped, json!({})).await.0, 200);
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED)
       { cluster { taskGroups(first: 500) { totalCount } } } }";
    assert_eq!(send_query(stop, json!({ "id": number.to_string() })).await.0, 400);
    let state = ada
        .query("query($id: ID!) { cluster(id: $id) { desiredState } }", json!({ "id": number.to_string() }))
        .await;
    assert_eq!(state["cluster"]["desiredState"], "RUNNING");
    app.stop().await;
}

#[tokio::test]
async fn a_time_names_its_day_and_zone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let day = "the time of day and the zone are missing";
    let zone = "the zone is missing";
    let end = "is incomplete";
    for (text, missing) in [
        ("2026-12-24", day),
        ("2026-12-24T08:00:00", zone),
        ("2026-12-24 08:00", zone),
        ("2026-12-24T08", end),
        ("", end),
        ("24.12.2026", "DateTime"),
    ] {
        let literal = format!(
            "{{ viewer {{ account {{ clusters(filter: {{ startedIn: {{ from: \"{text}\" }} }}) {{ totalCount }} }} }} }}"
        );
        let answer = ada.ask(&literal, json!({})).await;
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with("argument 'filter': field 'startedIn': field 'from': "), "{message}");
        assert!(message.contains(missing), "{message}");
        let query =
            "query($id: ID!, $from: DateTime) { cluster(id: $id) { usageHours(from: $from) { start } } }";
        let answer = ada.ask(query, json!({ "id": number.to_string(), "from": text })).await;
        let message = answer["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with("variable 'from': ") && message.contains(missing), "{message}");
        let json = format!("{{\"startedIn\":{{\"from\":\"{text}\"}}}}");
        let export = ada.request(Method::GET, "/api/v1/export/clusters").query(&[("filter", json)]);
        let refused = export.send().await.unwrap();
        assert_eq!(refused.status(), 400, "{text}");
        let refused: Value = refused.json().await.unwrap();
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("'filter'") && message.contains(missing), "{refused}");
    }
    let day = ada
        .ask("{ viewer { account { usage(from: \"2026-12-24T00:00:00Z\") { threadSeconds } } } }", json!({}))
        .await;
    assert_eq!(
        day["errors"][0]["message"],
        "argument 'from': Failed to parse \"Date\": not a date as in 2026-11-20, from 1970 to 9999 (Date)"
    );
    let backwards = r#"{"startedIn":{"from":"2026-11-20T08:00:00Z","to":"2026-11-19T08:00:00Z"}}"#;
    let export = ada.request(Method::GET, "/api/v1/export/clusters").query(&[("filter", backwards)]);
    let refused: Value = export.send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["code"], "INVALID_PARAMETER", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("'from' must not be later than 'to'"), "{refused}");
    app.stop().await;
}
