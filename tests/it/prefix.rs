//! A server below a path prefix of a shared host, behind a proxy that removes or keeps the prefix: no
//! response leads out of the prefix.

use std::collections::{BTreeSet, VecDeque};

use galvo::config::OidcConfig;
use harness::{Browser, Incoming, Member, Page, Prefix, PrefixProxy, ReportBuilder, Socket, TestApp};
use reqwest::{Method, StatusCode, Url, header};
use serde_json::{Value, json};

const PATH: &str = "/tools/galvo";

/// A server below a path, and ada as a client of the proxy.
struct Site {
    app: TestApp,
    proxy: PrefixProxy,
    ada: Member,
}

impl Site {
    async fn start(prefix: Prefix) -> Self {
        Self::start_as(prefix, PrefixProxy::url).await
    }

    /// Starts a server that is configured with another public URL.
    async fn start_as(prefix: Prefix, called: impl FnOnce(&PrefixProxy) -> String) -> Self {
        let mut proxy = PrefixProxy::bind(PATH).await;
        let public = called(&proxy).parse().unwrap();
        let app = TestApp::start_with(|serve| {
            serve.public_url = Some(public);
            // The proxy's name for the server.
            serve.network.hosts = vec!["upstream.internal".to_owned()];
            // Nothing listens there, but the sign-in page links to it.
            serve.oidc = Some(OidcConfig {
                issuer: "http://127.0.0.1:1".to_owned(),
                client_id: "galvo".to_owned(),
                client_secret: None,
                name: "Nobody".to_owned(),
                scopes: Vec::new(),
                account_claim: None,
                role_claim: None,
                provision: None,
            });
        })
        .await;
        proxy.serve(app.address(), prefix);
        let ada = app.account("ada").await.at(proxy.url());
        app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
        Self { app, proxy, ada }
    }

    fn browser(&self) -> Browser {
        Browser::at(&self.proxy.origin(), [127, 0, 0, 1].into())
    }

    /// A browser that signed in by the form, redirected from a protected page.
    async fn signed_in(&self) -> Browser {
        let browser = self.browser();
        let page = browser.open(&format!("{PATH}/password")).await;
        let page = browser.open(page.location.as_deref().unwrap()).await;
        let form = [
            ("return_to", page.field("return_to").unwrap()),
            ("username", "ada"),
            ("password", "password of ada"),
        ];
        let page = browser.submit(attributes(&page.html, "action")[0], &form).await;
        assert_eq!(
            (page.status, page.location.as_deref()),
            (StatusCode::SEE_OTHER, Some("/tools/galvo/password")),
            "{}",
            page.html
        );
        browser
    }

    async fn stop(self) {
        assert_eq!(self.proxy.outside(), Vec::<String>::new(), "requested outside of the path");
        self.app.stop().await;
    }
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    html.split(&format!(" {name}=\"")).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// The return address in a URL, if there is one.
fn return_to(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "return_to").map(|(_, value)| value.into_owned())
}

/// Follows all links, and records those that lead out of the prefix.
struct Crawl<'a> {
    browser: &'a Browser,
    origin: Url,
    waiting: VecDeque<String>,
    known: BTreeSet<String>,
    opened: BTreeSet<String>,
    outside: BTreeSet<String>,
}

impl<'a> Crawl<'a> {
    fn new(site: &Site, browser: &'a Browser) -> Self {
        let origin = site.proxy.origin().parse().unwrap();
        let (known, opened, outside) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { browser, origin, waiting: VecDeque::new(), known, opened, outside }
    }

    /// Checks the target of a link.
    fn follow(&mut self, from: &Url, target: &str) {
        if target.starts_with("data:") {
            return;
        }
        let url = from.join(&target.replace("&amp;", "&")).unwrap();
        let path = url.path();
        let is_within = path == PATH || path.starts_with(&format!("{PATH}/"));
        if url.origin() != self.origin.origin() || !is_within {
            self.outside.insert(format!("{from} -> {target}"));
            return;
        }
        if let Some(back) = return_to(&url) {
            self.follow(&url, &back);
        }
        self.visit(url.as_str()[self.origin.as_str().len() - 1..].to_owned());
    }

    /// Queues an address once.
    fn visit(&mut self, address: String) {
        if self.known.insert(address.clone()) {
            self.waiting.push_back(address);
        }
    }

    /// Checks all addresses in a response.
    fn look(&mut self, from: &Url, page: &Page) {
        if let Some(location) = &page.location {
            self.follow(from, location);
        }
        for cookie in &page.set_cookies {
            if !cookie.split("; ").any(|attribute| attribute == format!("Path={PATH}")) {
                self.outside.insert(format!("{from} sets {cookie}"));
            }
        }
        let kind = page.headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap());
        if kind.is_some_and(|kind| kind.starts_with("text/html")) {
            for name in ["href", "src", "action", "formaction"] {
                for target in attributes(&page.html, name) {
                    self.follow(from, target);
                }
            }
            if let Some(back) = page.field("return_to") {
                self.follow(from, &back.replace("&amp;", "&"));
            }
        }
    }

    /// Sends a form.
    async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) {
        let address = format!("{PATH}{path}");
        let page = self.browser.submit(&address, fields).await;
        let from = self.origin.join(&address).unwrap();
        self.opened.insert(path.to_owned());
        self.look(&from, &page);
    }

    /// Opens all addresses, and those found there.
    async fn run(&mut self) {
        while let Some(address) = self.waiting.pop_front() {
            let url = self.origin.join(&address).unwrap();
            // Once as a document, and once as a frame.
            let request = self.browser.request(Method::GET, &address).header(header::ACCEPT, "text/html");
            let page = self.browser.take(request.header("Sec-Fetch-Dest", "iframe")).await;
            self.look(&url, &page);
            let request = self.browser.request(Method::GET, &address).header(header::ACCEPT, "text/html");
            let page = self.browser.take(request.header("Sec-Fetch-Dest", "document")).await;
            self.opened.insert(url.path()[PATH.len()..].to_owned());
            self.look(&url, &page);
        }
    }
}

/// The pages in the router.
fn pages() -> BTreeSet<&'static str> {
    let source = include_str!("../../api/src/http/server/router.rs");
    let pages = source.split("let pages =").nth(1).unwrap().split(".layer(").next().unwrap();
    let mut paths: BTreeSet<_> =
        pages.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    paths.extend([galvo::auth::CALLBACK, "/graphql", "/api/v1/openapi.json", "/api/v2/analytics/preload"]);
    paths
}

#[tokio::test]
async fn nothing_leads_out_of_the_path() {
    for prefix in [Prefix::Stripped, Prefix::Kept] {
        let site = Site::start(prefix).await;
        let number = site.ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
        let report = site.ada.stored_report("public", "report.html", "<title>Dask</title>").await;
        let request = site.app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
        let response = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body("label=laptop")
            .send()
            .await
            .unwrap();
        let identifier = response.json::<Value>().await.unwrap()["identifier"].as_str().unwrap().to_owned();
        // Pages that only programs link to, and invalid addresses.
        let unlinked = [
            String::new(),
            "/".to_owned(),
            format!("/clusters/{number}"),
            format!("/clusters/{number}?account=ada"),
            "/clusters/1".to_owned(),
            "/clusters/x".to_owned(),
            format!("/reports/{report}?account=ada"),
            format!("/reports/{report}/content?account=ada"),
            "/reports/x".to_owned(),
            format!("/activate-token?id={identifier}"),
            "/activate-token?id=x".to_owned(),
            "/sign-in?return_to=%2Ftools%2Fgalvo%2Fgraphql%3Fquery%3D%257B".to_owned(),
            "/sign-in?return_to=https%3A%2F%2Fevil.example".to_owned(),
            "/sign-in?return_to=%2Ftools%2Fgalvo%2F..%2Fother".to_owned(),
            "/sign-in?return_to=%2Fother".to_owned(),
            "/sign-in/link".to_owned(),
            "/sign-in/invitation".to_owned(),
            "/sign-in/oidc".to_owned(),
            "/sign-in/oidc/callback?code=x&state=y".to_owned(),
        ];
        let mut opened = BTreeSet::new();
        for browser in [site.browser(), site.signed_in().await] {
            let mut crawl = Crawl::new(&site, &browser);
            for address in &unlinked {
                crawl.visit(format!("{PATH}{address}"));
            }
            crawl.run().await;
            // Valid and invalid forms of a user who signs in and out.
            let back = ("return_to", "/tools/galvo/graphql");
            for password in ["wrong", "password of ada"] {
                let fields = [("username", "ada"), ("password", password), back];
                crawl.submit("/sign-in", &fields).await;
            }
            let csrf = browser_csrf(&browser).await;
            let shown = ("csrf", csrf.as_str());
            for (path, fields) in [
                ("/password", &[shown, ("old", "wrong"), ("new", "another password")][..]),
                ("/password", &[("csrf", "wrong")]),
                ("/password", &[shown, ("old", "password of ada"), ("new", "password of ada")]),
                ("/activate-token", &[shown, ("id", "x"), ("decision", "approve")]),
                ("/sign-in/invitation", &[shown, ("secret", "wrong")]),
                ("/sign-in/invitation", &[]),
                ("/sign-out", &[shown]),
                ("/password", &[]),
            ] {
                crawl.submit(path, fields).await;
            }
            crawl.run().await;
            assert_eq!(crawl.outside, BTreeSet::new());
            opened.extend(crawl.opened);
        }
        // Every page must be opened, even one without a link to it.
        let begins = |page: &str| {
            let begin = page.split('{').next().unwrap();
            opened.iter().any(|path| path == page || page.contains('{') && path.starts_with(begin))
        };
        let missing: Vec<_> = pages().into_iter().filter(|page| !begins(page)).collect();
        assert_eq!(missing, Vec::<&str>::new());
        // GraphiQL requests only relative addresses.
        let script = include_str!("../../web/src/graphiql/fetcher.ts");
        for absolute in ["\"/", "'/", "`/"] {
            assert!(!script.contains(absolute), "{absolute}");
        }
        site.stop().await;
    }
}

/// Shows that the test above can fail.
#[tokio::test]
async fn a_server_that_knows_nothing_of_the_path_is_noticed() {
    let site = Site::start_as(Prefix::Stripped, PrefixProxy::origin).await;
    let browser = site.browser();
    let mut crawl = Crawl::new(&site, &browser);
    for address in ["/", "/password", "/clusters/x", "/graphql", "/sign-in?return_to=%2Fx"] {
        crawl.visit(format!("{PATH}{address}"));
    }
    crawl.run().await;
    crawl.submit("/sign-in", &[("username", "ada"), ("password", "password of ada")]).await;
    let targets: BTreeSet<&str> =
        crawl.outside.iter().filter_map(|found| found.split(" -> ").nth(1)).collect();
    for target in [
        "/",
        "/api/v1/openapi.json",
        "/api/v2/analytics/preload",
        "/graphql",
        "/sign-in",
        "/sign-in/oidc?return_to=%2Fx",
        "/sign-in?return_to=%2Fpassword",
        "/x",
    ] {
        assert!(targets.contains(target), "{target} in {targets:?}");
    }
    assert!(crawl.outside.iter().any(|found| found.contains(" sets galvo_session=")), "{:?}", crawl.outside);
    site.stop().await;
}

async fn browser_csrf(browser: &Browser) -> String {
    let answer = browser.request(Method::GET, &format!("{PATH}/api/v1/session")).send().await.unwrap();
    answer.json::<Value>().await.unwrap()["csrf_token"].as_str().unwrap().to_owned()
}

/// The texts that are addresses of this server: URLs with any of its names, and paths.
fn addresses<'a>(site: &Site, value: &'a Value) -> Vec<&'a str> {
    let names = [site.proxy.origin(), site.app.url(""), "upstream.internal".to_owned()];
    match value {
        Value::String(text) => {
            let is_one = text.starts_with('/') || names.iter().any(|name| text.contains(name));
            is_one.then_some(text.as_str()).into_iter().collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| addresses(site, value)).collect(),
        Value::Object(values) => values.values().flat_map(|value| addresses(site, value)).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn programs_receive_addresses_below_the_path() {
    for prefix in [Prefix::Stripped, Prefix::Kept] {
        let site = Site::start(prefix).await;
        let ada = &site.ada;
        let url = site.proxy.url();
        let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
        let stored = ada.performance_report("public", "report.html", "<p>").send().await.unwrap();
        let stored: Value = stored.json().await.unwrap();
        let report = stored["url"].as_str().unwrap();
        let id = report.split_once("/reports/").unwrap().1.split('?').next().unwrap();
        assert_eq!(report, format!("{url}/reports/{id}?account=ada"));
        assert_eq!(site.browser().open(report.strip_prefix(&site.proxy.origin()).unwrap()).await.status, 303);
        let found =
            ada.query("{ viewer { account { performanceReports { nodes { path } } } } }", json!({})).await;
        let path = format!("{PATH}/reports/{id}?account=ada");
        assert_eq!(addresses(&site, &found), [&path]);
        let described: Value =
            ada.request(Method::GET, "/api/v1/openapi.json").send().await.unwrap().json().await.unwrap();
        assert_eq!(described["servers"], json!([{ "url": url }]));
        // More tokens than fit on a page, of which each names the next.
        for _ in 0..101 {
            ada.token(&[entity::api_token::Scope::Read], None).await;
        }
        let tokens: Value =
            ada.request(Method::GET, "/api/v1/api-tokens/").send().await.unwrap().json().await.unwrap();
        assert_eq!(tokens["next"], format!("{PATH}/api/v1/api-tokens/?page=2"));
        // No other response to the published client contains an outside address.
        let mut answered = 0;
        for (path, methods) in described["paths"].as_object().unwrap() {
            let path = path.replace("{workspace}", "ada").replace("{id}", &number.to_string());
            let path = path.replace("{name}", "Scheduler-1");
            if path.contains('{') || methods.get("get").is_none() || path.ends_with("openapi.json") {
                continue;
            }
            let answer = ada.request(Method::GET, &path).send().await.unwrap();
            let is_json =
                answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
            if let Ok(answer) = answer.json::<Value>().await
                && is_json
            {
                for address in addresses(&site, &answer) {
                    assert!(
                        address.starts_with(PATH) || address.starts_with(&url),
                        "{path}: {address} in {answer}"
                    );
                }
                answered += 1;
            }
        }
        assert!(answered > 15, "only {answered} routes answered");
        // Beside the prefix nothing is served, whether the proxy removes it or not.
        let there = |path: &str| site.app.anonymous(Method::GET, path).send();
        assert_eq!(there("/tools/galvo/healthz").await.unwrap().status(), 200);
        assert_eq!(there("/healthz").await.unwrap().status(), 200);
        assert_eq!(there("/tools/galvox/healthz").await.unwrap().status(), 404);
        assert_eq!(there("/tools/healthz").await.unwrap().status(), 404);
        site.stop().await;
    }
}

#[tokio::test]
async fn live_data_comes_below_the_path() {
    for prefix in [Prefix::Stripped, Prefix::Kept] {
        let site = Site::start(prefix).await;
        let address = format!("{}/graphql", site.proxy.url());
        let subscription = "subscription { clusters(account: \"ada\") { cluster { schedulerId } } }";
        let protocol = [("Sec-WebSocket-Protocol", "graphql-transport-ws")];
        let mut socket = Socket::open(&address, &protocol).await.unwrap();
        let payload = json!({ "Authorization": format!("Bearer {}", site.ada.secret()) });
        socket.send_message(&json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(socket.receive().await, Incoming::Message(json!({ "type": "connection_ack" })));
        socket.subscribe("1", "{ viewer { user { name } } }", json!({})).await;
        let answer = socket.message().await;
        assert_eq!(answer["payload"]["data"], json!({ "viewer": { "user": { "name": "ada" } } }), "{answer}");
        // By its cookie, like the GraphiQL page.
        let browser = site.signed_in().await;
        let cookie = format!("galvo_session={}", browser.cookie("galvo_session").unwrap());
        let own = [protocol[0], ("Origin", &site.proxy.origin()), ("Cookie", &cookie)];
        assert!(Socket::open(&address, &own).await.is_ok());
        let foreign = [protocol[0], ("Origin", "http://127.0.0.1:9"), ("Cookie", &cookie)];
        assert_eq!(Socket::open(&address, &foreign).await.err(), Some(403));
        let request = site.ada.request(Method::POST, "/graphql").header(header::ACCEPT, "text/event-stream");
        let mut events = request.json(&json!({ "query": subscription })).send().await.unwrap();
        assert_eq!(events.chunk().await.unwrap().unwrap(), ":\n\n".as_bytes());
        drop((socket, events));
        site.stop().await;
    }
}

#[tokio::test]
async fn who_signs_in_elsewhere_is_shown_the_setting() {
    // A proxy that changes Host, and a server that does not know about it.
    let mut proxy = PrefixProxy::bind("").await;
    let app = TestApp::start().await;
    proxy.serve(app.address(), Prefix::Stripped);
    app.account("ada").await;
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let browser = Browser::at(&proxy.origin(), [127, 0, 0, 1].into());
    let fields = [("username", "ada"), ("password", "password of ada")];
    let page = browser.submit("/sign-in", &fields).await;
    let origin = proxy.origin();
    let message = format!(
        "the browser's origin is {origin}, this server's is upstream.internal: set \
         GALVO_PUBLIC_URL={origin} if that is its address"
    );
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    assert!(page.html.contains(&message.replace('\'', "&#39;")), "{}", page.html);
    // Header values of a third party are not included in the page.
    for origin in ["http://<script>alert(1)</script>", "null", &format!("http://{}", "a".repeat(4_000))] {
        let page = browser.submit_from(origin, "/sign-in", &fields).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        assert!(page.html.contains(">the request was sent by a page of another server</p>"), "{}", page.html);
    }
    app.stop().await;
}
