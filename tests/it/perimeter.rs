//! What lies between the server and everybody: headers for browsers, other sites, and what may be taken in a minute.

use galvo::config::PerimeterConfig;
use harness::{ReportBuilder, TestApp};
use reqwest::{Method, header::HeaderMap};
use serde_json::json;

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_answer_tells_browsers_to_do_nothing_with_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let described = openapi["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
    });
    let others =
        ["GET /", "GET /graphql?query={__typename}", "POST /graphql", "GET /nowhere", "PUT /graphql"];
    let others = others.iter().map(|route| {
        let (method, path) = route.split_once(' ').unwrap();
        (method.to_owned(), path.to_owned())
    });
    let mut seen = 0;
    for (method, path) in described.chain(others) {
        let path = path.replace("{workspace}", "ada").replace("{id}", "1").replace("{identifier}", "x");
        let method: Method = method.parse().unwrap();
        for request in [ada.request(method.clone(), &path), app.anonymous(method.clone(), &path)] {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status(), response.headers().clone());
            let place = format!("{method} {path}: {status}");
            assert_eq!(header(&headers, "x-content-type-options"), "nosniff", "{place}");
            // Forms of the server's own pages say where they come from.
            let referrer = if path == "/" { "same-origin" } else { "no-referrer" };
            assert_eq!(header(&headers, "referrer-policy"), referrer, "{place}");
            assert_eq!(header(&headers, "cross-origin-resource-policy"), "same-origin", "{place}");
            let policy = header(&headers, "content-security-policy");
            assert!(
                policy.contains("frame-ancestors 'none'") && policy.contains("default-src"),
                "{place}: {policy}"
            );
            let cached = ["/api/v2/analytics/preload"].contains(&path.as_str());
            assert_eq!(header(&headers, "cache-control") == "no-store", !cached, "{place}");
            assert_eq!(header(&headers, "x-request-id").len(), 36, "{place}");
            assert_eq!(header(&headers, "access-control-allow-origin"), "", "{place}");
            seen += 1;
        }
    }
    assert!(seen >= 24, "{seen}");
    let page = app.anonymous(Method::GET, "/graphql").header("Accept", "text/html").send().await.unwrap();
    let policy = header(page.headers(), "content-security-policy").to_owned();
    assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    app.stop().await;
}

#[tokio::test]
async fn pages_of_named_sites_may_ask_and_no_others() {
    let perimeter = PerimeterConfig {
        cors_origins: vec!["https://dash.example.com".parse().unwrap()],
        ..PerimeterConfig::default()
    };
    let app = TestApp::start_with(|serve| serve.perimeter = perimeter).await;
    let ada = app.account("ada").await;
    for (origin, allowed) in
        [("https://dash.example.com", true), ("https://evil.example.com", false), ("null", false)]
    {
        // Without a token: browsers send none with it.
        let preflight = app
            .anonymous(Method::OPTIONS, "/graphql")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization,content-type");
        let response = preflight.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let told = header(response.headers(), "access-control-allow-origin");
        assert_eq!(told, if allowed { origin } else { "" });
        assert!(header(response.headers(), "vary").to_lowercase().contains("origin"), "{origin}");
        assert!(header(response.headers(), "access-control-allow-headers").contains("authorization"));
        assert_eq!(header(response.headers(), "access-control-allow-credentials"), "");

        let ask = ada.request(Method::POST, "/graphql").header("Origin", origin);
        let response = ask.json(&json!({ "query": "{ __typename }" })).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let told = header(response.headers(), "access-control-allow-origin");
        assert_eq!(told, if allowed { origin } else { "" });
        let exposed = header(response.headers(), "access-control-expose-headers").to_lowercase();
        assert!(exposed.contains("ratelimit") && exposed.contains("retry-after"), "{exposed}");
    }
    app.stop().await;
}

#[tokio::test]
async fn what_is_left_of_a_minute_is_told_with_every_answer() {
    let app = TestApp::start_with(|serve| {
        serve.query_cost_per_minute = 600_000;
        serve.perimeter.query_cost_per_minute_of_address = 700_000;
        serve.perimeter.report_bytes_per_minute = 1_000_000;
        serve.perimeter.report_bytes_per_minute_of_address = 2_000_000;
    })
    .await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let ask = async |member: &harness::Member, query: &str| {
        let request = member.request(Method::POST, "/graphql").json(&json!({ "query": query }));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.headers().clone())
    };
    let (status, headers) = ask(&ada, "{ viewer { scopes } }").await;
    assert_eq!(status, 200);
    assert_eq!(
        header(&headers, "ratelimit-policy"),
        r#""credentials";q=600000;w=60;qu="points", "address";q=700000;w=60;qu="points""#
    );
    let left = |headers: &HeaderMap, which: usize| -> u64 {
        let item = header(headers, "ratelimit").split(", ").nth(which).unwrap().to_owned();
        item.split(';').find_map(|part| part.strip_prefix("r=")).unwrap().parse().unwrap()
    };
    // It fills by ten points a millisecond meanwhile, and is never more than full.
    assert!((599_000..=600_000).contains(&left(&headers, 0)), "{headers:?}");
    assert!((699_000..=700_000).contains(&left(&headers, 1)), "{headers:?}");
    // As much as one request may cost, with one token after the other from the same address.
    let much = "{ viewer { account { clusters(first: 100) { nodes { computations(first: 100) { nodes {
        id a: id b: id c: id d: id e: id f: id g: id h: id i: id j: id k: id l: id m: id n: id o: id p: id q: id
        r: id s: id t: id u: id v: id w: id x: id y: id z: id aa: id ab: id ac: id ad: id ae: id af: id } } } } } } }";
    assert_eq!(ask(&ada, much).await.0, 200);
    let (status, headers) = ask(&ada, much).await;
    assert_eq!(status, 429, "{headers:?}");
    assert!((1..=60).contains(&header(&headers, "retry-after").parse::<u64>().unwrap()), "{headers:?}");
    assert!(left(&headers, 0) < 400_000);
    assert_eq!(ask(&bob, "{ viewer { scopes } }").await.0, 200, "the address has some left");
    assert_eq!(ask(&bob, much).await.0, 200);
    let (status, headers) = ask(&bob, much).await;
    assert_eq!(status, 429, "with a token that has more: {headers:?}");
    // Nobody is told of limits who has not signed in.
    let stranger = app.anonymous(Method::POST, "/graphql").json(&json!({ "query": "{ __typename }" }));
    let response = stranger.send().await.unwrap();
    assert_eq!((response.status().as_u16(), header(response.headers(), "ratelimit")), (401, ""));

    let report = |sequence: i64| {
        ReportBuilder::new("Scheduler-1", sequence).with("/cluster/name", json!("x".repeat(100))).build()
    };
    let sent = async |member: &harness::Member, sequence: i64, padding: usize| {
        let body = format!("{}{}", report(sequence), " ".repeat(padding));
        let request =
            member.request(Method::POST, "/api/v1/reports").header("Content-Type", "application/json");
        let response = request.body(body).send().await.unwrap();
        (response.status().as_u16(), response.headers().clone())
    };
    let (status, headers) = sent(&ada, 1, 0).await;
    assert_eq!(status, 200);
    let size = u64::try_from(report(1).to_string().len()).unwrap();
    let (least, most) = (1_000_000 - size, 1_000_000);
    assert!((least..=most).contains(&left(&headers, 0)), "{headers:?}");
    assert!(
        header(&headers, "ratelimit-policy")
            .starts_with(r#""credentials";q=1000000;w=60;qu="content-bytes""#)
    );
    assert_eq!(sent(&ada, 2, 1_500_000).await.0, 200, "what is there is taken as a whole");
    let (status, headers) = sent(&ada, 3, 0).await;
    assert_eq!((status, left(&headers, 0)), (429, 0));
    assert!((1..=60).contains(&header(&headers, "retry-after").parse::<u64>().unwrap()), "{headers:?}");
    assert_eq!(sent(&bob, 1, 0).await.0, 200);
    app.stop().await;
}
