//! Items that arrive in every list.

use harness::{
    Member, ReportBuilder, TestApp, computation, error, event, log_line, span, task_group, threads, uuid,
    worker,
};
use sea_orm::{ConnectionTrait, DatabaseBackend};
use serde_json::{Value, json};

/// A computation, a span and an error that others belong to.
pub(super) const PARENT: u128 = 1_000_000;

/// Adds an item to every list, at a time before or after that of others.
pub(super) async fn arrive(app: &TestApp, member: &Member, number: u32) {
    let seconds = f64::from(number * 37 % 1_009);
    let at = 1_795_172_400.0 + seconds;
    let id = u128::from(number * 53 % 1_009);
    let dated = |mut item: Value, field: &str| {
        item["id"] = json!(uuid(id));
        item[field] = json!(at);
        item
    };
    let letters: String = number.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
    let failed = |id: u128, message: &str| {
        let mut error = error(id, PARENT, PARENT);
        (error["key"], error["message"]) = (json!(format!("{message}-{number}")), json!(message));
        error
    };
    let own = dated(failed(id, &format!("no {letters}")), "at");
    let line = dated(log_line(0, &format!("line {number}")), "at");
    let of_cluster = |scheduler: &str, sequence: i64| {
        ReportBuilder::new(scheduler, sequence)
            .with("/computations", json!([dated(computation(0, &[]), "started_at")]))
            .with("/spans", json!([span(id, None, &["etl"], seconds, None)]))
            .with("/errors", json!([own]))
            .with("/events", json!([dated(event(0, "mine", number), "at")]))
            .with("/logs", json!([line]))
    };
    let started =
        of_cluster(&format!("Scheduler-{number}"), 1).with("/cluster/started_at", at).with("/sent_at", at);
    member.reported(&started.build()).await;
    let mut group = dated(task_group(id, "load", 1), "first_seen_at");
    group["span_id"] = json!(uuid(PARENT));
    let parent = computation(PARENT, &[id]);
    // Always at the same time, so that its group keeps its position.
    let same = failed(PARENT + id, "the same");
    let main = of_cluster("Main", i64::from(number) + 1)
        .with("/sent_at", 1_795_172_400 + 2_000)
        .with("/computations", json!([dated(computation(0, &[]), "started_at"), parent]))
        .with("/task_groups", json!([group]))
        .with("/errors", json!([own, same]))
        .with(
            "/spans",
            json!([
                span(PARENT, None, &["etl"], 0.0, None),
                span(id, Some(PARENT), &["etl", "load"], seconds, None)
            ]),
        )
        .with("/workers", json!([dated(worker(id), "started_at")]))
        .with("/clients", json!([{ "id": format!("Client-{number}"), "connected_at": at }]))
        .with("/thread_history", json!([threads(seconds, 1)]));
    member.reported(&main.build()).await;
    let access = "mutation($name: String!) {
        addMember(input: { name: $name, role: VIEWER }) { userErrors { message } }
        createToken(input: { label: $name, scopes: [READ] }) { userErrors { message } }
        inviteMember(input: { label: $name, role: VIEWER }) { userErrors { message } } }";
    let answer = member.query(access, json!({ "name": format!("user-{number}") })).await;
    let nothing = json!({ "userErrors": [] });
    assert_eq!(answer, json!({ "addMember": nothing, "createToken": nothing, "inviteMember": nothing }));
    let exchange = member.request(reqwest::Method::POST, "/api/v1/scheduler-tokens").json(&json!({})).send();
    assert_eq!(exchange.await.unwrap().status(), 201);
    notice(app, number).await;
}

/// Adds rows that jobs write, and rules, of which no account creates so many.
async fn notice(app: &TestApp, number: u32) {
    let connection = app.database.connection().await;
    let is_postgres = connection.get_database_backend() == DatabaseBackend::Postgres;
    let id = u128::from(number * 53 % 1_009);
    let at = 1_795_172_400_000 + i64::from(number * 37 % 1_009);
    let ended = if number.is_multiple_of(3) { i64::MAX } else { at + i64::from(number % 5) };
    let (id, blob, no, yes) = if is_postgres {
        (format!("'{}'", uuid(id)), "'\\x00'", "false", "true")
    } else {
        (format!("X'{id:032x}'"), "X'00'", "0", "1")
    };
    let of_main = "FROM clusters WHERE scheduler_id = 'Main'";
    for insert in [
        format!(
            "INSERT INTO cluster_flags (account_id, cluster_id, id, kind, since, ended_key, threshold, value)
             SELECT account_id, id, {id}, 'idle', {at}, {ended}, 1, 1 {of_main}"
        ),
        format!(
            "INSERT INTO alert_rules (account_id, id, name, enabled, condition, scope, cool_down_seconds, tells_end,
                 created_at, changed_at, changed_by, key_id, sealed)
             SELECT account_id, {id}, 'rule', {no}, '{{\"flags\":[\"idle\"]}}', '{{}}', 60, {yes}, {at}, {at}, {id}, 0, {blob}
             {of_main}"
        ),
        format!(
            "INSERT INTO alerts (account_id, id, rule_id, subject, since, ended_key, value, told)
             SELECT account_id, {id}, {id}, 'account', {at}, {ended}, 1, {yes} {of_main}"
        ),
        format!(
            "INSERT INTO alert_deliveries (account_id, id, rule_id, channel, event, target, state, created_at, due_key,
                 attempts, key_id, sealed)
             SELECT account_id, {id}, {id}, 'email', 'test', 'x', 'failed', {at}, {}, 1, 0, {blob} {of_main}",
            i64::MAX
        ),
        format!(
            "INSERT INTO saved_views SELECT account_id, {id}, NULL, user_id, 'view {number}', 'x', '', {at}, {at} {of_main}"
        ),
        format!(
            "INSERT INTO performance_reports (account_id, id, user_id, name, visibility, size_bytes, created_at)
             SELECT account_id, {id}, user_id, 'x', 'private', 1, {at} {of_main}"
        ),
    ] {
        connection.execute_unprepared(&insert).await.unwrap_or_else(|error| panic!("{insert}: {error}"));
    }
    connection.close().await.unwrap();
}
