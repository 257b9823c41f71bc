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
    let request = ada.request(Method::POST, "/graphql").header(header::ACCEPT, "text/plain");
    assert_eq!(request.json(&json!({ "query": NAME })).send().await.unwrap().status(), 406);
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

#[tokio::test]
async fn a_list_keeps_the_order_of_its_fields_and_an_error_its_path() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let query = "{ viewer { b: account { slug } account { bad: clusters(first: 0) { totalCount } } user { name } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    // `clusters` is non-null all the way up, so its error takes the whole answer with it.
    assert_eq!(body["data"], json!(null), "{text}");
    assert_eq!(body["errors"][0]["path"], json!(["viewer", "account", "bad"]), "{text}");
    // Fields come in the order of the query, also where an earlier one takes longer.
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let query = "{ viewer { account { clusters { nodes { errors { totalCount } user { name } schedulerId
        taskGroups { totalCount } state } totalCount } slug } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let expected = r#"{"data":{"viewer":{"account":{"clusters":{"nodes":[{"errors":{"totalCount":0},"user":{"name":"ada"},"schedulerId":"Scheduler-1","taskGroups":{"totalCount":0},"state":"STARTING"}],"totalCount":1},"slug":"ada"}},"a":{"scopes":["INGEST","READ","ADMIN"]}},"extensions":{"cost":{"requested":168,"limit":500000}}}"#;
    assert_eq!(request.send().await.unwrap().text().await.unwrap(), expected);
    let query = "{ viewer { user { name } b: account { slug } account { slug } } a: viewer { scopes } }";
    let request = ada.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    let text = request.send().await.unwrap().text().await.unwrap();
    let expected = r#"{"data":{"viewer":{"user":{"name":"ada"},"b":{"slug":"ada"},"account":{"slug":"ada"}},"a":{"scopes":["INGEST","READ","ADMIN"]}},"extensions":{"cost":{"requested":9,"limit":500000}}}"#;
    assert_eq!(text, expected);
    app.stop().await;
}

#[tokio::test]
async fn a_browser_gets_graphiql_from_this_server_alone() {
    let app = TestApp::start().await;
    let get = async |path: &str| {
        app.anonymous(Method::GET, path).header(header::ACCEPT, "text/html").send().await.unwrap()
    };
    let page = get("/graphql").await;
    assert_eq!(page.status(), 200);
    assert!(page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("default-src 'self'"));
    let page = page.text().await.unwrap();
    let assets: Vec<&str> = page.split('"').filter(|text| text.starts_with("/graphql/assets/")).collect();
    assert!(assets.len() >= 4, "{page}");
    for asset in assets {
        let response = get(asset).await;
        assert_eq!(response.status(), 200, "{asset}");
        assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{asset}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    assert_eq!(get("/graphql/assets/..%2Findex.html").await.status(), 404);
    let landing = get("/").await.text().await.unwrap();
    assert!(landing.contains("/graphql"), "{landing}");
    app.stop().await;
}
