//! The output of `galvo account list`, `galvo user list`, `galvo token list` and `galvo session list`:
//! one line per row, with at least two spaces between columns. The secrets of tokens are not stored, so
//! they cannot be printed.

use entity::{
    Timestamp,
    api_token::Model as Token,
    quota::{Model as Quota, UNLIMITED},
};

use super::moment::format_time;
use crate::{
    app::{account::AccountLists, session::UserSession},
    domain::{
        access::scope_name,
        quota::{QuotaStatus, Size},
        visible_text::visible,
    },
    store::{RemovalCounts, TokenKind},
};

pub(super) fn print_accounts(lists: &AccountLists) {
    print_table(
        &["account", "members", "since"],
        lists.accounts.iter().map(|account| {
            let members = lists.memberships.iter().filter(|member| member.account_id == account.id).count();
            vec![account.slug.clone(), members.to_string(), format_time(account.created_at)]
        }),
    );
}

/// Prints the quotas and the usage of an account. A quota without a value in the account has the value of
/// the server's settings.
pub(super) fn print_quota(quota: Option<&Quota>, status: &QuotaStatus) {
    let limit = |field: fn(&Quota) -> Option<i64>, format: fn(i64) -> String| match quota.and_then(field) {
        Some(UNLIMITED) => "none".to_owned(),
        Some(limit) => format(limit),
        None => "default".to_owned(),
    };
    let (format_size, format_number) = (|bytes| Size(bytes).to_string(), |number: i64| number.to_string());
    let used = status.used;
    let row = |name: &str, used: String, limit: String| vec![name.to_owned(), used, limit];
    print_table(
        &["quota", "used", "limit"],
        [
            row("stored", format_size(used.stored_bytes), limit(|row| row.stored_bytes, format_size)),
            row("daily", format_size(used.daily_bytes), limit(|row| row.daily_bytes, format_size)),
            row(
                "clusters",
                format_number(used.daily_clusters),
                limit(|row| row.daily_clusters, format_number),
            ),
            row("threads", "-".to_owned(), limit(|row| row.cluster_threads, format_number)),
            row("retention", "-".to_owned(), limit(|row| row.retention_days, |days| format!("{days}d"))),
        ]
        .into_iter(),
    );
}

pub(super) fn print_users(lists: &AccountLists) {
    print_table(
        &["user", "account", "role", "until"],
        lists.memberships.iter().map(|member| {
            vec![
                lists.user(member.user_id).to_owned(),
                lists.account(member.account_id).to_owned(),
                format!("{:?}", member.role).to_lowercase(),
                format_time_or_dash(member.ends_at),
            ]
        }),
    );
}

pub(super) fn print_tokens(lists: &AccountLists, tokens: &[Token], kind: TokenKind, now: Timestamp) {
    let is_scheduler_list = kind == TokenKind::OfSchedulers;
    let mut headings = vec!["token", "state", "user", "account", "scopes", "expires", "last used"];
    headings.extend([if is_scheduler_list { "scheduler" } else { "on a scheduler" }, "label"]);
    print_table(
        &headings,
        tokens.iter().map(|token| {
            let scopes: Vec<&str> = token.scopes.0.iter().copied().map(scope_name).collect();
            vec![
                token.identifier.clone(),
                token_state(token, now).to_owned(),
                lists.user(token.user_id).to_owned(),
                lists.account(token.account_id).to_owned(),
                scopes.join(","),
                format_time_or_dash(token.expires_at),
                format_time_or_dash(token.last_used_at),
                if is_scheduler_list {
                    token.scheduler_id.clone().unwrap_or_else(|| "-".to_owned())
                } else {
                    format_time_or_dash(token.broad_use_at)
                },
                token.label.clone(),
            ]
        }),
    );
}

/// Prints the number of rows of clusters under removal, by kind.
pub(super) fn print_removal_counts(counts: &RemovalCounts) {
    let rows = [
        ("clusters", counts.clusters),
        ("older clusters", counts.clusters_seen_before),
        ("workers", counts.workers),
        ("computations", counts.computations),
        ("task groups", counts.task_groups),
        ("spans", counts.spans),
        ("errors", counts.errors),
        ("events", counts.events),
        ("log lines", counts.log_lines),
        ("profiles", counts.profiles),
        ("usage hours", counts.usage_hours),
    ];
    print_table(
        &["kind", "count"],
        rows.into_iter().map(|(kind, count)| vec![kind.to_owned(), count.to_string()]),
    );
}

pub(super) fn print_sessions(sessions: &[UserSession]) {
    print_table(
        &["session", "user", "since", "last used", "until"],
        sessions.iter().map(|session| {
            vec![
                session.identifier.clone(),
                session.user.clone(),
                format_time(session.created_at),
                format_time(session.used_at),
                format_time(session.expires_at),
            ]
        }),
    );
}

fn token_state(token: &Token, now: Timestamp) -> &'static str {
    if token.revoked_at.is_some() {
        "revoked"
    } else if token.expires_at.is_some_and(|end| end.0 <= now.0) {
        "expired"
    } else {
        "valid"
    }
}

fn format_time_or_dash(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), format_time)
}

/// Prints rows below their headings, with each column as wide as its longest cell.
fn print_table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
    // Users choose labels: control characters must not fake another line or send escape sequences to a
    // terminal.
    let rows = rows.map(|row| row.iter().map(|cell| visible(cell).into_owned()).collect());
    let rows: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
}
