//! Performance reports: access, storage in the database, and the restrictions of pages that show them.

use base64::{Engine, prelude::BASE64_STANDARD as STANDARD};
use entity::membership::Role;
use galvo::store::MAX_REPORTS_OF_USER;
use harness::{Browser, Member, Page, TestApp};
use reqwest::{Method, Response, header};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const HTML: &str = "<!doctype html><title>Dask</title><script>recipe()</script>";

const REPORTS: &str = "{ viewer { account { performanceReports { totalCount
    nodes { identifier name visibility size path createdAt user { name } } } } } }";

/// The content of a report, as a program requests it.
async fn show(member: &Member, id: &str) -> Response {
    let (id, query) = id.split_once('?').unwrap_or((id, ""));
    member.request(Method::GET, &format!("/reports/{id}/content?{query}")).send().await.unwrap()
}

/// The page of a report, as opened by a browser that sends fetch metadata.
async fn open(browser: &Browser, path: &str) -> Page {
    browser.take(browser.request(Method::GET, path).header("Sec-Fetch-Dest", "document")).await
}

/// An address, as requested by a frame.
async fn framed(browser: &Browser, path: &str) -> Page {
    browser.take(browser.request(Method::GET, path).header("Sec-Fetch-Dest", "iframe")).await
}

/// The source of a page's frame.
fn source(page: &Page) -> String {
    let (_, rest) = page.html.split_once(" src=\"").unwrap_or_else(|| panic!("{}", page.html));
    rest.split('"').next().unwrap().replace("&amp;", "&")
}

/// The report within a frame's content.
fn report_in(page: &Page) -> String {
    let (_, rest) = page.html.split_once("<textarea id=\"report\" hidden readonly>\n").unwrap();
    rest.split_once("</textarea>").unwrap().0.replace("&lt;", "<").replace("&amp;", "&")
}

fn directives(page: &Page) -> Vec<&str> {
    page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().split("; ").collect()
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
    // Chunk boundaries are within it: no byte is lost or duplicated.
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
    // A program receives a download that no browser displays.
    let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert_eq!(policy, "sandbox; default-src 'none'; frame-ancestors 'none'");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-disposition", "attachment; filename*=UTF-8''dask%20report.html"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    // Storing or reading a report is recorded in the audit log, as for profiles.
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
    // Without the key the content is unreadable, which the response states.
    connection.execute_unprepared("UPDATE performance_report_pieces SET key_id = 12345").await.unwrap();
    let shown = show(&ada, &id).await;
    assert_eq!(shown.status(), 409);
    assert!(shown.text().await.unwrap().contains("key"));
    // An incomplete report is not returned as complete.
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
    // Reading requires signing in: a browser is redirected there and back.
    let anonymous =
        app.anonymous(Method::GET, &format!("/reports/{public}?account=ada")).send().await.unwrap();
    assert_eq!(anonymous.url().path(), "/sign-in");
    assert!(anonymous.url().query().unwrap().contains(&public), "{}", anonymous.url());
    let wrong = grace.with_token("nobody-nothing".to_owned());
    assert_eq!(show(&wrong, &public).await.status(), 401);
    let browser = app.browser(&grace).await;
    for path in [format!("/reports/{private}?account=ada"), format!("/reports/{private}/content?account=ada")]
    {
        let page = framed(&browser, &path).await;
        assert_eq!(page.status.as_u16(), 200, "{path}: {}", page.html);
        let strange = framed(&browser, &path.replace("account=ada", "account=other")).await;
        assert_eq!(strange.status.as_u16(), 403, "{path}");
    }
    assert_eq!(report_in(&framed(&browser, &format!("/reports/{private}/content?account=ada")).await), HTML);
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
    // A user may store a hundred reports, each user separately.
    for _ in 1..MAX_REPORTS_OF_USER {
        ada.stored_report("private", "report.html", "<p>").await;
    }
    let answer = ada.performance_report("public", "report.html", "<p>").send().await.unwrap();
    assert_eq!(answer.status(), 409);
    let grace = app.member("grace", "ada").await;
    grace.stored_report("public", "report.html", "<p>").await;
    // If the account refuses profiles, reports containing them are refused, too.
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
    // With another last character it matches no report.
    let mut nobodys = theirs.clone();
    let last = nobodys.pop().unwrap();
    nobodys.push(if last == '0' { '1' } else { '0' });
    assert_eq!(found, answered(&nobodys).await);
    let browser = app.browser(&ada).await;
    let in_browser = async |id: &str| {
        let (page, frame) = (
            open(&browser, &format!("/reports/{id}")).await,
            framed(&browser, &format!("/reports/{id}/content")).await,
        );
        [page, frame].map(|page| (page.status, page.html.replace(id, "<ID>")))
    };
    let found = in_browser(&theirs).await;
    assert_eq!(found.clone().map(|(status, _)| status.as_u16()), [404, 404]);
    assert_eq!(found, in_browser(&nobodys).await);
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

#[tokio::test]
async fn a_report_is_framed_by_a_page_that_names_its_owner() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let name = "<b>\u{202e}lmth.html";
    let html = "<!doctype html><p>a &amp; b</p></textarea><script>recipe()</script>";
    let id = ada.stored_report("public", name, html).await;
    let browser = app.browser(&ada).await;
    let page = open(&browser, &format!("/reports/{id}?account=ada")).await;
    assert_eq!(page.status, 200);
    for text in [
        "<h1>&lt;b&gt;\\u{202e}lmth.html</h1>",
        "Stored by: <strong>ada</strong>",
        "Stored at: <strong>2026-11-20 12:00:00 UTC</strong>",
        &format!("Size: <strong>{} bytes</strong>", html.len()),
        "Seen by: <strong>all members of the account</strong>",
        "do not enter a password there",
    ] {
        assert!(page.html.contains(text), "{text}: {}", page.html);
    }
    // The page contains neither the report nor a script. It frames the content and nothing else.
    assert!(!page.html.contains("recipe") && !page.html.contains("<script"), "{}", page.html);
    assert!(page.html.contains("sandbox=\"allow-scripts\""), "{}", page.html);
    let own = directives(&page);
    for directive in ["default-src 'none'", "frame-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(own.contains(&directive), "{own:?}");
    }
    assert!(!own.iter().any(|directive| directive.starts_with("script-src")), "{own:?}");
    let content = source(&page);
    assert_eq!(content, format!("/reports/{id}/content?account=ada"));
    let shown = framed(&browser, &content).await;
    assert_eq!((shown.status.as_u16(), report_in(&shown)), (200, html.to_owned()));
    // The content may run scripts, which Bokeh needs, in an opaque origin. Only our own script starts.
    let policy = directives(&shown);
    assert_eq!(policy[..2], ["sandbox allow-scripts", "default-src 'none'"]);
    for directive in [
        "connect-src 'none'",
        "frame-src 'none'",
        "worker-src 'none'",
        "object-src 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "webrtc 'block'",
        "require-trusted-types-for 'script'",
        "trusted-types default",
        "frame-ancestors 'self'",
    ] {
        assert!(policy.contains(&directive), "{policy:?}");
    }
    let scripts = policy.iter().find(|directive| directive.starts_with("script-src ")).unwrap();
    let (hash, rest) = scripts.strip_prefix("script-src 'sha256-").unwrap().split_once("' ").unwrap();
    assert_eq!(rest, "'unsafe-eval' https://cdn.bokeh.org");
    let script = shown.html.rsplit_once("<script>").unwrap().1.strip_suffix("</script>").unwrap();
    let digest = STANDARD.encode(Sha256::digest(script));
    assert_eq!(digest, hash, "the script that may begin is the one that is there");
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-dns-prefetch-control", "off"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(shown.headers[name], value, "{name}");
    }
    assert!(!shown.headers.contains_key("x-frame-options"), "it would be for no frame at all");
    app.stop().await;
}

#[tokio::test]
async fn the_content_of_a_report_is_for_a_frame_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.stored_report("public", "report.html", HTML).await;
    let browser = app.browser(&ada).await;
    let content = format!("/reports/{id}/content?account=ada");
    let page = open(&browser, &content).await;
    let place = format!("/reports/{id}?account=ada");
    assert_eq!((page.status.as_u16(), page.location.as_deref()), (303, Some(place.as_str())));
    for purpose in ["embed", "object", "frame", "empty", "script", "image", "IFRAME", ""] {
        let request = browser.request(Method::GET, &content).header("Sec-Fetch-Dest", purpose);
        let page = browser.take(request).await;
        assert_eq!(page.status.as_u16(), 403, "{purpose}");
        assert!(!page.html.contains("recipe") && page.html.contains("only in the frame of its page"));
    }
    // A report that loads itself again is of another origin.
    for (site, status) in [("same-origin", 200), ("cross-site", 403), ("same-site", 403), ("none", 403)] {
        let request = browser.request(Method::GET, &content).header("Sec-Fetch-Dest", "iframe");
        let page = browser.take(request.header("Sec-Fetch-Site", site)).await;
        assert_eq!(page.status.as_u16(), status, "{site}");
    }
    // A browser without fetch metadata would show the content by itself, and the page explains this.
    let page = browser.open(&content).await;
    assert_eq!(page.status.as_u16(), 403);
    let page = browser.open(&place).await;
    assert!(
        page.status == 200 && !page.html.contains("<iframe") && page.html.contains("over HTTPS"),
        "{}",
        page.html
    );
    // Without a session, the frame is not redirected.
    assert_eq!(framed(&Browser::new(&app), &content).await.status.as_u16(), 401);
    app.stop().await;
}

#[tokio::test]
async fn contents_have_an_origin_of_their_own_where_there_is_one() {
    let app = TestApp::start_with(|serve| {
        serve.public_url = Some("http://127.0.0.1:7".parse().unwrap());
        serve.reports_url = Some("http://reports.localhost:8".parse().unwrap());
    })
    .await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let id = ada.stored_report("public", "report.html", HTML).await;
    let other = ada.stored_report("public", "other.html", HTML).await;
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let browser = Browser::new(&app);
    let fields = [("username", "ada"), ("password", "password of ada")];
    browser.submit_from("http://127.0.0.1:7", "/sign-in", &fields).await;
    let page = open(&browser, &format!("/reports/{id}?account=ada")).await;
    let address = source(&page);
    let begin = format!("http://reports.localhost:8/reports/{id}/content");
    let (without_query, link) = address.split_once("?link=").unwrap();
    assert_eq!(without_query, begin);
    assert!(directives(&page).contains(&format!("frame-src {begin}").as_str()), "{:?}", directives(&page));
    assert!(link.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{link}");
    // There is no cookie on that origin.
    let stranger = Browser::new(&app);
    let frame_request = |browser: &Browser, path: &str, purpose: &str| {
        let request = browser.request(Method::GET, path).header(header::HOST, "reports.localhost:8");
        request.header("Sec-Fetch-Dest", purpose.to_owned())
    };
    let content = format!("/reports/{id}/content?link={link}");
    let shown = stranger.take(frame_request(&stranger, &content, "iframe")).await;
    assert_eq!((shown.status.as_u16(), report_in(&shown)), (200, HTML.to_owned()));
    assert!(directives(&shown).contains(&"frame-ancestors http://127.0.0.1:7"), "{:?}", directives(&shown));
    // The link is valid for this report, in a frame, at this origin, unmodified, and during the session.
    // Cookies, tokens and all other paths have no effect there.
    for (path, purpose, status) in [
        (format!("/reports/{other}/content?link={link}"), "iframe", 403),
        (content.clone(), "document", 403),
        (content.clone(), "empty", 403),
        (content[..content.len() - 1].to_owned(), "iframe", 403),
        (format!("/reports/{id}/content"), "iframe", 403),
        (format!("/reports/{id}/content?account=ada"), "iframe", 403),
        (format!("/reports/{id}?account=ada"), "document", 404),
        ("/sign-in".to_owned(), "document", 404),
        ("/healthz".to_owned(), "empty", 404),
        ("/graphql".to_owned(), "document", 404),
        ("/api/v2/analytics/preload".to_owned(), "empty", 404),
        ("/metrics".to_owned(), "empty", 404),
        ("/".to_owned(), "document", 404),
    ] {
        let answer = browser.take(frame_request(&browser, &path, purpose)).await;
        assert_eq!(answer.status.as_u16(), status, "{path} {purpose}: {}", answer.html);
        assert!(!answer.html.contains("recipe"), "{path}");
    }
    let with_token = ada.request(Method::GET, &format!("/reports/{id}/content"));
    let answer = with_token.header(header::HOST, "reports.localhost:8").send().await.unwrap();
    assert_eq!(answer.status(), 403);
    // On the server's own origin a cookie no longer opens it, and a link never did.
    assert_eq!(framed(&browser, &format!("/reports/{id}/content?account=ada")).await.status.as_u16(), 403);
    assert_eq!(framed(&stranger, &content).await.status.as_u16(), 403);
    assert_eq!(show(&ada, &id).await.text().await.unwrap(), HTML);
    assert_eq!(show(&bob, &id).await.status(), 404);
    app.set_clock("2026-11-20T12:01:01Z");
    assert_eq!(
        stranger.take(frame_request(&stranger, &content, "iframe")).await.status.as_u16(),
        403,
        "a minute is over"
    );
    let page = open(&browser, &format!("/reports/{id}?account=ada")).await;
    let link = source(&page).split_once("?link=").unwrap().1.to_owned();
    let content = format!("/reports/{id}/content?link={link}");
    assert_eq!(stranger.take(frame_request(&stranger, &content, "iframe")).await.status.as_u16(), 200);
    let csrf = browser.csrf().await;
    browser.submit_from("http://127.0.0.1:7", "/sign-out", &[("csrf", &csrf)]).await;
    assert_eq!(
        stranger.take(frame_request(&stranger, &content, "iframe")).await.status.as_u16(),
        401,
        "who had it is gone"
    );
    app.stop().await;
}
