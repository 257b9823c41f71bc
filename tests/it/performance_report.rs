//! Performance reports: who may store and see them, what of them lies in the database, and what a page with them may do.

use entity::membership::Role;
use galvo::store::MAX_REPORTS_OF_USER;
use harness::{Member, TestApp};
use reqwest::{Method, Response, header};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

const HTML: &str = "<!doctype html><title>Dask</title><script>recipe()</script>";

const REPORTS: &str = "{ viewer { account { performanceReports { totalCount
    nodes { identifier name visibility size path createdAt user { name } } } } } }";

async fn show(member: &Member, id: &str) -> Response {
    member.request(Method::GET, &format!("/reports/{id}")).send().await.unwrap()
}

async fn listed(member: &Member) -> Value {
    let answer = member.request(Method::GET, "/api/v1/ada/performance_reports/all/").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

#[tokio::test]
async fn a_report_is_stored_listed_and_shown_as_it_was() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let stored = ada.performance_report("public", "/home/ada/dask report.html", HTML).send().await.unwrap();
    assert_eq!(stored.status(), 201);
    let url = stored.json::<Value>().await.unwrap()["url"].as_str().unwrap().to_owned();
    let id = url.split_once("/reports/").unwrap().1.split_once('?').unwrap().0.to_owned();
    let path = format!("/reports/{id}?account=ada");
    assert_eq!(url, app.url(&path));
    app.set_clock("2026-11-20T12:30:00Z");
    // Pieces meet in the middle of it: no byte is lost or doubled.
    let large = (0..40_000).map(|n| format!("<p>{n}</p>")).collect::<Vec<_>>().concat();
    let second = ada.stored_report("private", "", &large).await;
    let row = |id: &str, name: &str, private: bool, size: usize, created: &str| {
        json!({ "id": id, "filename": name, "url": app.url(&format!("/reports/{id}?account=ada")), "private": private,
            "user": "ada", "size": size, "created": created })
    };
    let rows = json!([
        row(&second, "report.html", true, large.len(), "2026-11-20T12:30:00.000+00:00"),
        row(&id, "dask report.html", false, HTML.len(), "2026-11-20T12:00:00.000+00:00"),
    ]);
    assert_eq!(listed(&ada).await, rows);
    let found = ada.query(REPORTS, json!({})).await["viewer"]["account"]["performanceReports"].take();
    assert_eq!(found["totalCount"], 2);
    let node = json!({ "identifier": id, "name": "dask report.html", "visibility": "PUBLIC", "size": HTML.len(),
        "path": path, "createdAt": "2026-11-20T12:00:00+00:00", "user": { "name": "ada" } });
    assert_eq!(found["nodes"][1], node);
    let shown = show(&ada, &format!("{id}?account=ada")).await;
    assert_eq!(shown.status(), 200);
    let headers = shown.headers().clone();
    assert_eq!(shown.text().await.unwrap(), HTML);
    assert_eq!(show(&ada, &second).await.text().await.unwrap(), large);
    // It runs scripts, for Bokeh draws with them, and is a stranger to this server.
    let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    let directives: Vec<&str> = policy.split("; ").collect();
    assert_eq!(directives[0], "sandbox allow-scripts");
    assert_eq!(directives[1], "default-src 'none'");
    for directive in ["form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(directives.contains(&directive), "{policy}");
    }
    assert!(!policy.contains("allow-same-origin") && !policy.contains("connect-src"), "{policy}");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    // Whoever stores or reads one is written down, as who reads profiles is.
    let log =
        "{ viewer { account { auditLog(first: 100) { nodes { action target { kind id } detail } } } } }";
    let log = ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"].take();
    let of = |action: &str| {
        let entries = log.as_array().unwrap().iter().filter(|entry| entry["action"] == action);
        entries.rev().cloned().collect::<Vec<_>>()
    };
    let target = json!({ "kind": "PERFORMANCE_REPORT", "id": id });
    let detail = json!({ "name": "dask report.html", "visibility": "public", "bytes": HTML.len() });
    let stored = of("STORE_PERFORMANCE_REPORT");
    assert_eq!((stored.len(), &stored[0]["target"], &stored[0]["detail"]), (2, &target, &detail));
    assert_eq!(of("READ_PROFILES").len(), 2, "one for each that was shown");
    app.stop().await;
}

#[tokio::test]
async fn what_stands_in_a_report_lies_encrypted_in_pieces() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let noise = (0..200_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let noise = noise.collect::<Vec<_>>().concat();
    let id = ada.stored_report("public", "report.html", &format!("recipe {noise}")).await;
    let connection = app.database.connection().await;
    let select = "SELECT position, key_id, sealed FROM performance_report_pieces ORDER BY position";
    let select = Statement::from_string(connection.get_database_backend(), select);
    let rows = connection.query_all_raw(select).await.unwrap();
    assert_eq!(rows.len(), (noise.len() + 7).div_ceil(256 << 10));
    for (place, row) in (0..).zip(&rows) {
        let (position, key_id, sealed): (i64, i64, Vec<u8>) = row.try_get_many_by_index().unwrap();
        assert_eq!(position, place);
        assert_ne!(key_id, 0);
        assert!(!String::from_utf8_lossy(&sealed).contains("recipe"));
    }
    // Without the key nobody reads it, and that is said.
    connection.execute_unprepared("UPDATE performance_report_pieces SET key_id = 12345").await.unwrap();
    let shown = show(&ada, &id).await;
    assert_eq!(shown.status(), 409);
    assert!(shown.text().await.unwrap().contains("key"));
    // Nor is half of it taken for the whole.
    connection.execute_unprepared("DELETE FROM performance_report_pieces WHERE position > 0").await.unwrap();
    let delete = "mutation($id: String!) { deletePerformanceReport(identifier: $id) { account { slug } } }";
    ada.query(delete, json!({ "id": id })).await;
    let count = Statement::from_string(
        connection.get_database_backend(),
        "SELECT count(*) FROM performance_report_pieces",
    );
    let count: i64 = connection.query_one_raw(count).await.unwrap().unwrap().try_get_by_index(0).unwrap();
    assert_eq!(count, 0, "pieces go with their report");
    assert_eq!(show(&ada, &id).await.status(), 404);
    app.stop().await;
}

#[tokio::test]
async fn private_reports_are_seen_by_who_stored_them_and_by_admins() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (grace, helper) = (
        app.member_with("grace", "ada", Role::Member).await,
        app.member_with("helper", "ada", Role::Member).await,
    );
    let viewer = app.member_with("viewer", "ada", Role::Viewer).await;
    let public = grace.stored_report("public", "public.html", HTML).await;
    let private = grace.stored_report("private", "private.html", HTML).await;
    for (member, sees_private) in [(&ada, true), (&grace, true), (&helper, false), (&viewer, false)] {
        let name = member.name();
        assert_eq!(show(member, &public).await.status(), 200, "{name}");
        assert_eq!(show(member, &private).await.status(), if sees_private { 200 } else { 404 }, "{name}");
        let count = if sees_private { 2 } else { 1 };
        assert_eq!(listed(member).await.as_array().unwrap().len(), count, "{name}");
        let found = member.query(REPORTS, json!({})).await["viewer"]["account"]["performanceReports"].take();
        assert_eq!(
            (found["totalCount"].as_u64(), found["nodes"].as_array().unwrap().len()),
            (Some(count as u64), count)
        );
    }
    // Nobody reads without signing in: a browser is sent to where it can, and comes back.
    let anonymous =
        app.anonymous(Method::GET, &format!("/reports/{public}?account=ada")).send().await.unwrap();
    assert_eq!(anonymous.url().path(), "/sign-in");
    assert!(anonymous.url().query().unwrap().contains(&public), "{}", anonymous.url());
    let wrong = grace.with_token("nobody-nothing".to_owned());
    assert_eq!(show(&wrong, &public).await.status(), 401);
    let browser = app.browser(&grace).await;
    let page = browser.open(&format!("/reports/{private}?account=ada")).await;
    assert_eq!((page.status.as_u16(), page.html.as_str()), (200, HTML));
    let strange = browser.open(&format!("/reports/{private}?account=other")).await;
    assert_eq!(strange.status.as_u16(), 403);
    app.stop().await;
}

#[tokio::test]
async fn what_is_no_report_or_too_much_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let path = "/api/v1/ada/performance_reports/public/";
    let send = async |path: &str, content_type: &str, body: &str| {
        let request = ada.request(Method::POST, path).header(header::CONTENT_TYPE, content_type);
        let answer = request.body(body.to_owned()).send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["message"], body["detail"]);
        status
    };
    let form = "multipart/form-data; boundary=x";
    let other = "--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--x--\r\n";
    let open = "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx";
    for (path, content_type, body, status) in [
        (path, "text/html", HTML, 415),
        (path, "multipart/form-data", HTML, 415),
        (path, form, HTML, 400),
        (path, form, other, 400),
        (path, form, open, 400),
        ("/api/v1/ada/performance_reports/secret/", form, other, 404),
    ] {
        assert_eq!(send(path, content_type, body).await, status, "{path} {content_type} {body}");
    }
    let large = "x".repeat((50 << 20) + 1);
    assert_eq!(ada.performance_report("public", "large.html", &large).send().await.unwrap().status(), 413);
    assert_eq!(listed(&ada).await, json!([]));
    let most = ada.performance_report("public", "large.html", &large[1..]).send().await.unwrap();
    assert_eq!(most.status(), 201);
    // A hundred are enough for anybody, and somebody else has a hundred of their own.
    for _ in 1..MAX_REPORTS_OF_USER {
        ada.stored_report("private", "report.html", "<p>").await;
    }
    let answer = ada.performance_report("public", "report.html", "<p>").send().await.unwrap();
    assert_eq!(answer.status(), 409);
    let grace = app.member("grace", "ada").await;
    grace.stored_report("public", "report.html", "<p>").await;
    // Where profiles are refused, what is drawn of them is, too.
    let refuse =
        "mutation { setDataPolicy(input: { class: PROFILES, accepted: false }) { userErrors { code } } }";
    ada.query(refuse, json!({})).await;
    assert_eq!(grace.performance_report("public", "report.html", "<p>").send().await.unwrap().status(), 403);
    app.stop().await;
}

#[tokio::test]
async fn a_report_of_another_account_is_shown_as_one_that_never_was() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let theirs = bob.stored_report("public", "theirs.html", HTML).await;
    assert_eq!(show(&bob, &theirs).await.status(), 200);
    let answered = async |id: &str| {
        let answer = show(&ada, id).await;
        (answer.status(), answer.text().await.unwrap().replace(id, "<ID>"))
    };
    let found = answered(&theirs).await;
    assert_eq!(found.0, 404);
    // With another character at its end it is nobody's.
    let mut nobodys = theirs.clone();
    let last = nobodys.pop().unwrap();
    nobodys.push(if last == '0' { '1' } else { '0' });
    assert_eq!(found, answered(&nobodys).await);
    app.stop().await;
}

#[tokio::test]
async fn reports_are_kept_as_long_as_profiles() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let keep = "mutation { setDataPolicy(input: { class: PROFILES, accepted: true, retentionDays: 90 }) { userErrors { code } } }";
    bob.query(keep, json!({})).await;
    ada.stored_report("public", "old.html", HTML).await;
    let kept = bob.stored_report("public", "kept.html", HTML).await;
    app.set_clock("2026-12-20T11:59:00Z");
    app.run_jobs().await;
    assert_eq!(listed(&ada).await.as_array().unwrap().len(), 1);
    app.set_clock("2026-12-20T12:01:00Z");
    let removed = app.run_jobs().await;
    assert_eq!(removed.get("retention.performance_reports"), Some(&1), "{removed:?}");
    assert_eq!(listed(&ada).await, json!([]));
    assert_eq!(show(&bob, &kept).await.text().await.unwrap(), HTML);
    app.stop().await;
}
