//! The network boundary: security headers, other origins, and rate limits.

use galvo::config::NetworkConfig;
use harness::{Browser, Database, Program, ReportBuilder, TestApp};
use reqwest::{Method, header::HeaderMap};
use serde_json::json;

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_answer_forbids_browsers_to_embed_or_run_it() {
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
            // Forms of the server's own pages need a referrer.
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
    app.stop().await;
}

#[tokio::test]
async fn pages_of_named_sites_may_send_requests_and_no_others() {
    let perimeter = NetworkConfig {
        cors_origins: vec!["https://dash.example.com".parse().unwrap()],
        ..NetworkConfig::default()
    };
    let app = TestApp::start_with(|serve| serve.network = perimeter).await;
    let ada = app.account("ada").await;
    for (origin, allowed) in
        [("https://dash.example.com", true), ("https://evil.example.com", false), ("null", false)]
    {
        // Without a token: browsers send none with a preflight.
        let preflight = app
            .anonymous(Method::OPTIONS, "/graphql")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization,content-type");
        let response = preflight.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let allowed_origin = header(response.headers(), "access-control-allow-origin");
        assert_eq!(allowed_origin, if allowed { origin } else { "" });
        assert!(header(response.headers(), "vary").to_lowercase().contains("origin"), "{origin}");
        assert!(header(response.headers(), "access-control-allow-headers").contains("authorization"));
        assert_eq!(header(response.headers(), "access-control-allow-credentials"), "");

        let request = ada.request(Method::POST, "/graphql").header("Origin", origin);
        let response = request.json(&json!({ "query": "{ __typename }" })).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let allowed_origin = header(response.headers(), "access-control-allow-origin");
        assert_eq!(allowed_origin, if allowed { origin } else { "" });
        let exposed = header(response.headers(), "access-control-expose-headers").to_lowercase();
        assert!(exposed.contains("ratelimit") && exposed.contains("retry-after"), "{exposed}");
    }
    app.stop().await;
}

#[tokio::test]
async fn what_is_left_of_a_minute_is_returned_with_every_answer() {
    let app = TestApp::start_with(|serve| {
        serve.query_cost_per_minute = 600_000;
        serve.network.query_cost_per_minute_of_address = 700_000;
        serve.network.report_bytes_per_minute = 1_000_000;
        serve.network.report_bytes_per_minute_of_address = 2_000_000;
    })
    .await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let send_query = async |member: &harness::Member, query: &str| {
        let request = member.request(Method::POST, "/graphql").json(&json!({ "query": query }));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.headers().clone())
    };
    let (status, headers) = send_query(&ada, "{ viewer { scopes } }").await;
    assert_eq!(status, 200);
    assert_eq!(
        header(&headers, "ratelimit-policy"),
        r#""credentials";q=600000;w=60;qu="points", "address";q=700000;w=60;qu="points""#
    );
    let left = |headers: &HeaderMap, which: usize| -> u64 {
        let item = header(headers, "ratelimit").split(", ").nth(which).unwrap().to_owned();
        item.split(';').find_map(|part| part.strip_prefix("r=")).unwrap().parse().unwrap()
    };
    // Ten points are restored per millisecond, up to the limit.
    assert!((599_000..=600_000).contains(&left(&headers, 0)), "{headers:?}");
    assert!((699_000..=700_000).contains(&left(&headers, 1)), "{headers:?}");
    // The largest possible cost per request, with several tokens from the same address.
    let much = "{ viewer { account { clusters(first: 100) { nodes { computations(first: 100) { nodes {
        id a: id b: id c: id d: id e: id f: id g: id h: id i: id j: id k: id l: id m: id n: id o: id p: id q: id
        r: id s: id t: id u: id v: id w: id x: id y: id z: id aa: id ab: id ac: id ad: id ae: id af: id } } } } } } }";
    assert_eq!(send_query(&ada, much).await.0, 200);
    let (status, headers) = send_query(&ada, much).await;
    assert_eq!(status, 429, "{headers:?}");
    assert!((1..=60).contains(&header(&headers, "retry-after").parse::<u64>().unwrap()), "{headers:?}");
    assert!(left(&headers, 0) < 400_000);
    assert_eq!(send_query(&bob, "{ viewer { scopes } }").await.0, 200, "the address has some left");
    assert_eq!(send_query(&bob, much).await.0, 200);
    let (status, headers) = send_query(&bob, much).await;
    assert_eq!(status, 429, "with a token that has more: {headers:?}");
    // Rate limit headers are only sent to authenticated clients.
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

#[tokio::test]
async fn pages_cookies_and_metrics_are_there_under_known_names_alone() {
    let app = TestApp::start_with(|serve| {
        serve.public_url = Some("http://galvo.example".parse().unwrap());
        serve.network.hosts = vec!["upstream.internal".to_owned()];
    })
    .await;
    let ada = app.account("ada").await;
    let browser = Browser::new(&app);
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let fields = [("username", "ada"), ("password", "password of ada")];
    browser.submit_from("http://galvo.example", "/sign-in", &fields).await;
    assert!(browser.cookie("galvo_session").is_some());
    let send = async |host: &str, method: &str, path: &str| {
        let request = browser.request(method.parse().unwrap(), path).header("Host", host);
        let answer = request.header("Accept", "text/html, */*;q=0.1").send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let pages = [
        "/",
        "/ada/clusters",
        "/sign-in",
        "/sign-in/link",
        "/sign-in/invitation",
        "/password",
        "/clusters/1",
        "/reports/x",
        "/reports/x/content",
        "/activate-token?id=x",
        "/sign-in/oidc",
        "/graphql",
        "/metrics",
        "/api/v1/session",
        "/graphql?query={__typename}",
        "/api/v2/user/me",
        "/api/v1/export/clusters",
    ];
    for path in pages {
        for host in ["evil.example", "galvo.example.evil.example", "galvo", "evil.example:8000"] {
            let (status, text) = send(host, "GET", path).await;
            assert_eq!(status, 421, "{host} {path}: {text}");
            assert!(
                text.contains("GALVO_PUBLIC_URL") && text.contains("GALVO_HOSTS"),
                "{host} {path}: {text}"
            );
        }
        for host in [
            "galvo.example",
            "Galvo.Example:8443",
            "upstream.internal",
            "localhost:1",
            "192.0.2.7",
            "[::1]:8000",
        ] {
            assert_ne!(send(host, "GET", path).await.0, 421, "{host} {path}");
        }
    }
    let (_, text) = send("evil.example", "GET", "/api/v1/session").await;
    let problem: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problem["code"], "UNKNOWN_HOST");
    for path in
        ["/sign-in", "/sign-in/link", "/sign-in/invitation", "/sign-out", "/password", "/activate-token"]
    {
        let request = browser.request(Method::POST, path).header("Host", "evil.example");
        let request = request.header("Content-Type", "application/x-www-form-urlencoded").body("");
        assert_eq!(request.send().await.unwrap().status(), 421, "{path}");
    }
    // The value of Host is not included in pages.
    let (_, text) = send("<b>evil", "GET", "/").await;
    assert!(!text.contains("<b>"), "{text}");
    // Probes, the plugin and clients with a token may use any host name, such as a Kubernetes service.
    let strange = async |request: reqwest::RequestBuilder| {
        request.header("Host", "galvo.namespace.svc").send().await.unwrap().status().as_u16()
    };
    for path in ["/healthz", "/readyz", "/api/v2/analytics/preload", "/api/v1/openapi.json"] {
        assert_eq!(strange(app.anonymous(Method::GET, path)).await, 200, "{path}");
    }
    let report = ReportBuilder::new("Scheduler-1", 1).build();
    assert_eq!(strange(ada.request(Method::POST, "/api/v1/reports").json(&report)).await, 200);
    let query = json!({ "query": "{ __typename }" });
    assert_eq!(strange(ada.request(Method::POST, "/graphql").json(&query)).await, 200);
    assert_eq!(strange(ada.request(Method::GET, "/api/v2/user/me")).await, 200);
    let request = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
    let request = request.header("Content-Type", "application/x-www-form-urlencoded").body("label=laptop");
    assert_eq!(strange(request).await, 201);
    app.stop().await;
}

#[tokio::test]
async fn a_laptop_without_settings_is_known_by_its_addresses() {
    let app = TestApp::start().await;
    let browser = app.browser(&app.account("ada").await).await;
    for (host, status) in
        [("localhost:8000", 200), ("127.0.0.1", 200), ("192.168.1.5:8000", 200), ("evil.example", 421)]
    {
        let answer = browser.request(Method::GET, "/").header("Host", host).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{host}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_proxy_that_is_not_named_is_noticed_once() {
    let database = Database::migrated().await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let serve = async |more: &[&str]| {
        let arguments =
            ["serve", "--database-url", database.url(), "--listen", "127.0.0.1:0", "--log", "warn"];
        let mut command = Program::command(&[&arguments[..], more].concat());
        command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
        Program::spawn(command.stderr(std::fs::File::create(&log).unwrap())).await
    };
    let examined = async |server: &Program, more: &[&str]| {
        let arguments = [
            "doctor",
            "--json",
            "--database-url",
            database.url(),
            "--log",
            "off",
            "--listen",
            server.listen(),
        ];
        let mut command = Program::command(&[&arguments[..], more].concat());
        command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
        let output = command.output().await.unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = report["checks"].as_array().unwrap().iter().find(|finding| finding["check"] == "proxies");
        found.map(|finding| format!("{}: {}", finding["message"], finding["advice"]))
    };
    let server = serve(&[]).await;
    let request_health = async |server: &Program| {
        let request = server.client().get(server.url("/healthz")).header("X-Forwarded-For", "203.0.113.9");
        assert_eq!(request.send().await.unwrap().status(), 200);
    };
    assert_eq!(examined(&server, &[]).await, None);
    for _ in 0..3 {
        request_health(&server).await;
    }
    let found = examined(&server, &[]).await.unwrap();
    assert!(found.contains("3 requests came through an untrusted proxy"), "{found}");
    assert!(found.contains("GALVO_TRUSTED_PROXIES"), "{found}");
    server.terminate().await;
    let logged = std::fs::read_to_string(&log).unwrap();
    assert_eq!(logged.matches("GALVO_TRUSTED_PROXIES=127.0.0.1").count(), 1, "{logged}");
    let trusting = ["--trusted-proxies", "127.0.0.1"];
    let server = serve(&trusting).await;
    request_health(&server).await;
    assert_eq!(examined(&server, &trusting).await, None);
    server.terminate().await;
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
}
