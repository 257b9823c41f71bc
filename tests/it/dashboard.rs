//! The web dashboard: its files, the addresses of its page, and the way it gets into the program.

use std::{fs, path::Path, process::Command};

use galvo::domain::base_path::is_reserved;
use harness::{
    Browser, DASHBOARD_DOCUMENT, DASHBOARD_DOCUMENT_HASH, DASHBOARD_PAGE, DASHBOARD_SCRIPT, DashboardBuild,
    Database, GRAPHIQL_PAGE, Program, ReportBuilder, TestApp,
};
use reqwest::{Method, Response, StatusCode};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

/// The policy of the page, word by word: nothing but files and data of the server itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'self'; \
                      frame-ancestors 'none'";

async fn start(build: &DashboardBuild) -> TestApp {
    TestApp::start_with(|serve| serve.dashboard = build.source()).await
}

fn text<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Requests a path as a browser opens it.
async fn open(app: &TestApp, path: &str) -> Response {
    let request = app.anonymous(Method::GET, path);
    request.header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8").send().await.unwrap()
}

#[tokio::test]
async fn a_file_is_sent_in_the_form_that_the_client_accepts_and_kept_for_good() {
    let build = DashboardBuild::default();
    let app = start(&build).await;
    let path = "/assets/app-1a2b.js";
    let get = async |method: Method, headers: &[(&str, &str)]| {
        let mut request = app.anonymous(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    };
    let (brotli, gzip) = ("the script by brotli", "the script by gzip");
    let mut tags = Vec::new();
    for (accepted, coding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), brotli),
        ("gzip", Some("gzip"), gzip),
        ("br;q=0.4, gzip;q=0.5", Some("gzip"), gzip),
        ("br;q=0, *", Some("gzip"), gzip),
        ("identity, *;q=0.5", None, DASHBOARD_SCRIPT),
        ("zstd, deflate", None, DASHBOARD_SCRIPT),
        ("", None, DASHBOARD_SCRIPT),
    ] {
        let headers = [("Accept-Encoding", accepted)];
        let answer = get(Method::GET, &headers).await;
        assert_eq!(
            (answer.status().as_u16(), text(&answer, "content-encoding")),
            (200, coding),
            "{accepted}"
        );
        assert_eq!(text(&answer, "cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(text(&answer, "content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(text(&answer, "vary"), Some("accept-encoding"));
        assert_eq!(text(&answer, "x-content-type-options"), Some("nosniff"));
        assert_eq!(
            text(&answer, "content-security-policy"),
            Some(POLICY),
            "that of a worker is its script's"
        );
        let tag = text(&answer, "etag").unwrap().to_owned();
        assert_eq!(answer.text().await.unwrap(), body, "{accepted}");

        let head = get(Method::HEAD, &headers).await;
        let length = body.len().to_string();
        assert_eq!((text(&head, "content-length"), text(&head, "etag")), (Some(&*length), Some(&*tag)));
        assert_eq!(head.text().await.unwrap(), "");
        for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            let same = get(Method::GET, &[headers[0], ("If-None-Match", &known)]).await;
            assert_eq!((same.status().as_u16(), text(&same, "etag")), (304, Some(&*tag)), "{known}");
            assert_eq!(text(&same, "cache-control"), Some("public, max-age=31536000, immutable"));
            assert_eq!(same.text().await.unwrap(), "");
        }
        tags.push((coding, tag));
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "one tag for each form: {tags:?}");
    let other = get(Method::GET, &[("Accept-Encoding", "gzip"), ("If-None-Match", &tags[0].1)]).await;
    assert_eq!(other.status(), 200, "the client has another form");

    let answer = app.anonymous(Method::GET, "/assets/fonts/text-7a8b.woff2").send().await.unwrap();
    assert_eq!(text(&answer, "content-type"), Some("font/woff2"));
    // A file without a hash in its name may change.
    let answer = app.anonymous(Method::GET, "/favicon.svg").send().await.unwrap();
    assert_eq!(
        (text(&answer, "content-type"), text(&answer, "cache-control")),
        (Some("image/svg+xml"), Some("no-cache"))
    );
    app.stop().await;
}

#[tokio::test]
async fn only_the_files_of_the_build_can_be_requested() {
    let build = DashboardBuild::default();
    let app = start(&build).await;
    // The build was read at the start.
    fs::write(build.path().join("assets/later.js"), "later").unwrap();
    for path in [
        "/assets/none.js",
        "/assets/later.js",
        "/assets/",
        "/assets/app-1a2b.js.br",
        "/assets/app-1a2b.js/",
        "/assets/fonts",
        "/assets/%2e%2e/index.html",
        "/assets/..%2findex.html",
        "/assets/%2fetc%2fpasswd",
        "/index.html",
        "/index.html.br",
        "/graphiql.html",
        "/graphiql.html.gz",
        "/persisted-documents.json",
        "/assets",
    ] {
        let answer = open(&app, path).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.json::<Value>().await.unwrap()["code"], "NOT_FOUND", "{path}");
    }
    assert_eq!(app.anonymous(Method::POST, "/assets/app-1a2b.js").send().await.unwrap().status(), 405);
    app.stop().await;
}

#[tokio::test]
async fn the_page_has_an_address_for_each_view() {
    let build = DashboardBuild::default();
    let app = start(&build).await;
    for path in ["/", "/ada", "/ada/clusters", "/ada/clusters/7/profile?from=-24h", "/team-1/errors/%C3%A4"] {
        let answer = open(&app, path).await;
        assert_eq!(answer.status(), 200, "{path}");
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", POLICY),
            ("cache-control", "no-cache"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(text(&answer, name), Some(value), "{path} {name}");
        }
        assert!(text(&answer, "set-cookie").is_none());
        let tag = text(&answer, "etag").unwrap().to_owned();
        assert_eq!(answer.text().await.unwrap(), DASHBOARD_PAGE, "{path}");
        let again = app.anonymous(Method::GET, path).header("Accept", "text/html");
        let again = again.header("If-None-Match", tag).send().await.unwrap();
        assert_eq!(again.status(), 304, "{path}");
        let request = app.anonymous(Method::GET, path).header("Accept", "text/html");
        let answer = request.header("Accept-Encoding", "br").send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "the page by brotli", "{path}");
        let head = app.anonymous(Method::HEAD, path).header("Accept", "text/html").send().await.unwrap();
        assert_eq!(
            (head.status(), text(&head, "content-length")),
            (StatusCode::OK, Some(&*DASHBOARD_PAGE.len().to_string()))
        );
    }
    // Everybody else learns that there is nothing.
    for path in [
        "/api",
        "/api/v1/none",
        "/api/v3",
        "/graphql/none",
        "/clusters",
        "/reports/",
        "/sign-in/none",
        "/healthz/none",
        "/.env",
        "/wp-login.php",
        "//ada",
        "/Ada",
    ] {
        let answer = open(&app, path).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(text(&answer, "content-type"), Some("application/json"), "{path}");
    }
    let of_program = app.anonymous(Method::GET, "/ada/clusters").send().await.unwrap();
    assert_eq!(of_program.status(), 404, "a program that does not ask for a page gets none");
    let posted = app.anonymous(Method::POST, "/ada/clusters").header("Accept", "text/html");
    assert_eq!(posted.send().await.unwrap().status(), 404);
    for path in ["/", "/ada/clusters"] {
        let rebound = app.anonymous(Method::GET, path).header("Accept", "text/html");
        let rebound = rebound.header("Host", "evil.example").send().await.unwrap();
        assert_eq!(rebound.status(), 421, "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn below_a_path_the_page_names_the_path() {
    let build = DashboardBuild::default();
    let app = TestApp::start_with(|serve| {
        serve.dashboard = build.source();
        serve.public_url = Some("https://tools.example/galvo".parse().unwrap());
    })
    .await;
    let below = |page: &str| page.replace("<base href=\"/\" />", "<base href=\"/galvo/\" />");
    let expected = below(DASHBOARD_PAGE);
    // A proxy keeps the path or removes it.
    for path in ["/galvo/", "/galvo/ada/clusters", "/", "/ada/clusters"] {
        let page = open(&app, path).await;
        assert_eq!(page.text().await.unwrap(), expected, "{path}");
    }
    for path in ["/galvo/graphql", "/graphql"] {
        assert_eq!(open(&app, path).await.text().await.unwrap(), below(GRAPHIQL_PAGE), "{path}");
    }
    let request = app.anonymous(Method::GET, "/galvo/ada").header("Accept", "text/html");
    let answer = request.header("Accept-Encoding", "br, gzip").send().await.unwrap();
    assert_eq!(text(&answer, "content-encoding"), Some("gzip"), "the forms of the build are of another page");
    let mut page = String::new();
    let body = answer.bytes().await.unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&body[..]), &mut page).unwrap();
    assert_eq!(page, expected);
    for path in ["/galvo/assets/app-1a2b.js", "/assets/app-1a2b.js"] {
        let script = app.anonymous(Method::GET, path).send().await.unwrap();
        assert_eq!(script.text().await.unwrap(), DASHBOARD_SCRIPT, "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn graphiql_is_a_page_of_the_build_at_the_address_of_the_api() {
    let build = DashboardBuild::default();
    let app = start(&build).await;
    let page = open(&app, "/graphql").await;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        (
            "content-security-policy",
            "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
             frame-ancestors 'none'; base-uri 'self'",
        ),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(text(&page, name), Some(value), "{name}");
    }
    assert!(page.headers().get_all("vary").iter().any(|name| name == "accept"));
    assert_eq!(page.text().await.unwrap(), GRAPHIQL_PAGE);
    let request = app.anonymous(Method::GET, "/graphql").header("Accept", "text/html");
    let compressed = request.header("Accept-Encoding", "gzip, br").send().await.unwrap();
    assert_eq!(text(&compressed, "content-encoding"), Some("br"));
    assert_eq!(compressed.text().await.unwrap(), "GraphiQL by brotli");
    let of_program = app.anonymous(Method::GET, "/graphql").header("Accept", "application/json");
    assert_eq!(
        text(&of_program.send().await.unwrap(), "content-type"),
        Some("application/json; charset=utf-8")
    );
    app.stop().await;

    fs::remove_file(build.path().join("graphiql.html")).unwrap();
    let app = start(&build).await;
    let page = open(&app, "/graphql").await;
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("This build of the dashboard has no GraphiQL."));
    app.stop().await;
}

#[tokio::test]
async fn a_server_without_the_dashboard_says_how_to_get_it() {
    let app = TestApp::start().await;
    let advice = "run <code>npm ci</code> and <code>npm run build</code> in the directory <code>web</code>";
    for (path, status) in [("/", 200), ("/graphql", 200), ("/ada", 404), ("/ada/clusters/7", 404)] {
        let answer = open(&app, path).await;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(text(&answer, "content-type"), Some("text/html; charset=utf-8"), "{path}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(advice) && page.contains("GALVO_DASHBOARD_DIR"), "{path}: {page}");
    }
    for path in ["/assets/app-1a2b.js", "/favicon.ico", "/api/v1/none"] {
        let answer = open(&app, path).await;
        assert_eq!(
            (answer.status().as_u16(), text(&answer, "content-type")),
            (404, Some("application/json"))
        );
    }
    app.stop().await;
}

#[tokio::test]
async fn the_link_of_the_client_leads_to_the_cluster_in_the_dashboard() {
    let build = DashboardBuild::default();
    let app = start(&build).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let path = format!("/clusters/{number}");
    let browser = app.browser(&ada).await;
    let view = format!("/ada/clusters/{number}");
    let (_, acknowledgement) = ada.report(&ReportBuilder::new("Scheduler-1", 2).build()).await;
    assert_eq!(acknowledgement["path"], view);
    for path in [path.clone(), format!("{path}?account=ada")] {
        let page = browser.open(&path).await;
        assert_eq!((page.status.as_u16(), page.location.as_deref()), (303, Some(&*view)), "{path}");
    }
    let nobody = Browser::new(&app).open(&path).await;
    assert_eq!(nobody.location, Some(format!("/sign-in?return_to=%2Fclusters%2F{number}")));
    // Nobody learns of the clusters of others.
    let of_bob = app.browser(&bob).await;
    let theirs = of_bob.open(&path).await;
    let nobodys = of_bob.open(&format!("/clusters/{}", number + 1)).await;
    assert_eq!((theirs.status.as_u16(), theirs.location, theirs.html), (404, None, nobodys.html));

    // An account of an earlier release can have a name that is now the server's own. It has no address in
    // the dashboard.
    let connection = app.database.connection().await;
    connection.execute_unprepared("UPDATE accounts SET slug = 'reports' WHERE slug = 'ada'").await.unwrap();
    let page = browser.open(&path).await;
    assert_eq!(page.status, 200);
    assert!(page.html.contains("<dd>Scheduler-1</dd>"), "{}", page.html);
    app.stop().await;
}

#[tokio::test]
async fn no_account_has_the_name_of_a_path_of_the_server() {
    // All routes are described, or stand in the router's source.
    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let described = openapi["paths"].as_object().unwrap().keys().map(String::as_str);
    let routes = include_str!("../../api/src/http/server/router.rs").split(".route(\"").skip(1);
    let routes = routes.map(|rest| rest.split('"').next().unwrap());
    let mut segments: Vec<&str> = described
        .chain(routes)
        .map(|path| path.split('/').nth(1).unwrap())
        .filter(|name| !name.is_empty())
        .collect();
    segments.sort_unstable();
    segments.dedup();
    assert!(segments.len() > 10, "{segments:?}");
    let open: Vec<&&str> = segments.iter().filter(|segment| !is_reserved(segment)).collect();
    assert_eq!(open, Vec::<&&str>::new(), "an account could have this name");

    let database = Database::migrated().await;
    for name in segments {
        let (status, _, error) =
            Program::run(&["account", "create", name, "--database-url", database.url(), "--log", "off"])
                .await;
        let expected =
            format!("galvo: '{name}' is part of the server's own addresses: choose another name\n");
        assert_eq!((status, error), (Some(1), expected));
    }
}

#[tokio::test]
async fn the_documents_of_the_page_are_known() {
    let build = DashboardBuild::default();
    // The digits alone, or the whole identifier.
    let other = "query Other { __typename }";
    let other_hash = "a391b59a63a796249cd07c3ef3efab38e31de7d66caab8007501932eee4a6a0b";
    let known = json!({ DASHBOARD_DOCUMENT_HASH: DASHBOARD_DOCUMENT, format!("sha256:{other_hash}"): other });
    build.write("persisted-documents.json", &known.to_string());
    build.write("persisted-documents.json.br", "not read");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("own.graphql"), "{ __typename }").unwrap();
    for persisted in [None, Some(directory.path().to_owned())] {
        let has_directory = persisted.is_some();
        let app = TestApp::start_with(|serve| {
            serve.dashboard = build.source();
            serve.persisted_documents = persisted;
            serve.persisted_documents_only = has_directory;
        })
        .await;
        let ada = app.account("ada").await;
        let ask = async |body: Value| {
            let answer = ada.request(Method::POST, "/graphql").json(&body).send().await.unwrap();
            answer.json::<Value>().await.unwrap()
        };
        for body in [
            json!({ "documentId": format!("sha256:{DASHBOARD_DOCUMENT_HASH}") }),
            json!({ "query": DASHBOARD_DOCUMENT }),
        ] {
            assert_eq!(ask(body).await["data"], json!({ "viewer": { "user": { "name": "ada" } } }));
        }
        let answer = ask(json!({ "documentId": format!("sha256:{other_hash}") })).await;
        assert_eq!(answer["data"], json!({ "__typename": "Query" }));
        let code = |answer: Value| answer["errors"][0]["extensions"]["code"].clone();
        let unknown = ask(json!({ "documentId": format!("sha256:{}", "0".repeat(64)) })).await;
        let free = ask(json!({ "query": "{ viewer { scopes } }" })).await;
        if has_directory {
            assert_eq!(ask(json!({ "query": "{ __typename }" })).await["data"]["__typename"], "Query");
            assert_eq!(code(unknown), "PERSISTED_QUERY_NOT_FOUND");
            assert_eq!(code(free), "PERSISTED_QUERY_NOT_IN_LIST");
        } else {
            assert_eq!(code(unknown), "PERSISTED_QUERY_NOT_SUPPORTED");
            assert_eq!(free["data"], json!({ "viewer": { "scopes": ["INGEST", "READ", "ADMIN"] } }));
        }
        app.stop().await;
    }
}

#[tokio::test]
async fn a_directory_that_is_no_build_stops_the_start() {
    let database = Database::migrated().await;
    let fails = async |directory: &Path| {
        let directory = directory.to_str().unwrap();
        let arguments =
            ["serve", "--database-url", database.url(), "--listen", "127.0.0.1:0", "--log", "off"];
        let mut command = Program::command(&[&arguments[..], &["--dashboard-dir", directory]].concat());
        command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let build = DashboardBuild::default();
    let missing = build.path().join("missing");
    let (status, error) = fails(&missing).await;
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains(&format!("cannot read {}", missing.display())), "{error}");
    for (name, text, reason) in [
        ("persisted-documents.json", "{\"00\": \"{ __typename }\"}", "SHA-256"),
        ("persisted-documents.json", "[]", "SHA-256"),
        ("index.html", "<!doctype html>", "<base href=\"/\" />"),
        ("graphiql.html", "<!doctype html>", "<base href=\"/\" />"),
    ] {
        let build = DashboardBuild::default();
        build.write(name, text);
        let (status, error) = fails(build.path()).await;
        assert_eq!(status, Some(2), "{name}: {error}");
        assert!(error.contains(name) && error.contains(reason), "{name}: {error}");
    }
    fs::remove_file(build.path().join("index.html")).unwrap();
    let (status, error) = fails(build.path()).await;
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("there is no index.html"), "{error}");
}

/// Runs the build script of the server, compiled on its own, and returns its status and both outputs.
fn run_build_script(directory: &Path, dist: &Path) -> (bool, String, String) {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let script = directory.join("build-script");
    if !script.exists() {
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let status = Command::new(compiler)
            .args(["--edition", "2024", "--crate-name", "build_script", "-o"])
            .args([&script, &api.join("build.rs")])
            .env("CARGO_MANIFEST_DIR", &api)
            .status();
        assert!(status.unwrap().success());
    }
    let run = Command::new(script).env("OUT_DIR", directory).env("DASHBOARD_DIST", dist).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (run.status.success(), text(run.stdout), text(run.stderr))
}

#[test]
fn the_build_script_embeds_each_file_of_the_build() {
    let build = DashboardBuild::default();
    build.write("assets/gone-9c0d.js.br", "left over from an earlier build");
    let directory = tempfile::tempdir().unwrap();
    let (success, output, error) = run_build_script(directory.path(), build.path());
    assert!(success, "{error}");
    let watched = format!("cargo::rerun-if-changed={}", build.path().canonicalize().unwrap().display());
    assert!(output.lines().any(|line| line == watched), "{output}");
    assert!(output.contains("cargo::rerun-if-env-changed=DASHBOARD_DIST"), "{output}");

    // The table as the server includes it, in a program that writes it out.
    let program = "fn main() { let files: &[(&str, &[u8])] = include!(\"dashboard_files.rs\");\
                   for (name, bytes) in files { println!(\"{name} {bytes:?}\"); } }";
    fs::write(directory.path().join("show.rs"), program).unwrap();
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(compiler);
    compile.current_dir(directory.path()).args(["--edition", "2024", "show.rs"]);
    assert!(compile.status().unwrap().success());
    let shown = Command::new(directory.path().join("show")).output().unwrap();
    let expected: String = [
        "assets/app-1a2b.js",
        "assets/app-1a2b.js.br",
        "assets/app-1a2b.js.gz",
        "assets/fonts/text-7a8b.woff2",
        "assets/style-5e6f.css",
        "favicon.svg",
        "graphiql.html",
        "graphiql.html.br",
        "graphiql.html.gz",
        "index.html",
        "index.html.br",
        "index.html.gz",
        "persisted-documents.json",
    ]
    .map(|name| format!("{name} {:?}\n", fs::read(build.path().join(name)).unwrap()))
    .concat();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), expected);

    fs::remove_file(build.path().join("index.html")).unwrap();
    let (success, _, error) = run_build_script(directory.path(), build.path());
    assert!(!success && error.contains("it has no index.html"), "{error}");
    let (success, _, error) = run_build_script(directory.path(), Path::new("/nothing/here"));
    assert!(!success && error.contains("DASHBOARD_DIST: there is no directory /nothing/here"), "{error}");
}
