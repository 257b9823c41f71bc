//! The output of `galvo account list`, `galvo user list`, `galvo token list` and `galvo session list`:
//! one line per row, with at least two spaces between columns. The secrets of tokens are not stored, so
//! they cannot be printed.

use entity::{
    Timestamp,
    api_token::Model as Token,
    quota::{Model as Quota, UNLIMITED},
};

use super::moment::moment;
use crate::{
    app::{account::AccountLists, session::UserSession},
    domain::{
        access::scope_name,
        quota::{QuotaStatus, Size},
        visible_text::visible,
    },
    store::{RemovalCounts, TokenKind},
};

pub(super) fn accounts(lists: &AccountLists) {
    print(
        &["account", "members", "since"],
        lists.accounts.iter().map(|account| {
            let members = lists.memberships.iter().filter(|member| member.account_id == account.id).count();
            vec![account.slug.clone(), members.to_string(), moment(account.created_at)]
        }),
    );
}

/// Prints the quotas and the usage of an account. Quotas without a value of their own use the server's
/// settings.
pub(super) fn quota(said: Option<&Quota>, status: &QuotaStatus) {
    let limit = |of: fn(&Quota) -> Option<i64>, show: fn(i64) -> String| match said.and_then(of) {
        Some(UNLIMITED) => "none".to_owned(),
        Some(limit) => show(limit),
        None => "default".to_owned(),
    };
    let (size, number) = (|bytes| Size(bytes).to_string(), |number: i64| number.to_string());
    let used = status.used;
    let row = |name: &str, used: String, limit: String| vec![name.to_owned(), used, limit];
    print(
        &["quota", "used", "limit"],
        [
            row("stored", size(used.stored_bytes), limit(|row| row.stored_bytes, size)),
            row("daily", size(used.daily_bytes), limit(|row| row.daily_bytes, size)),
            row("clusters", number(used.daily_clusters), limit(|row| row.daily_clusters, number)),
            row("threads", "-".to_owned(), limit(|row| row.cluster_threads, number)),
            row("retention", "-".to_owned(), limit(|row| row.retention_days, |days| format!("{days}d"))),
        ]
        .into_iter(),
    );
}

pub(super) fn users(lists: &AccountLists) {
    print(
        &["user", "account", "role", "until"],
        lists.memberships.iter().map(|member| {
            vec![
                lists.user(member.user_id).to_owned(),
                lists.account(member.account_id).to_owned(),
                format!("{:?}", member.role).to_lowercase(),
                moment_or_dash(member.ends_at),
            ]
        }),
    );
}

pub(super) fn tokens(lists: &AccountLists, tokens: &[Token], kind: TokenKind, now: Timestamp) {
    let of_schedulers = kind == TokenKind::OfSchedulers;
    let mut heads = vec!["token", "state", "user", "account", "scopes", "expires", "last used"];
    heads.extend([if of_schedulers { "scheduler" } else { "on a scheduler" }, "label"]);
    print(
        &heads,
        tokens.iter().map(|token| {
            let scopes: Vec<&str> = token.scopes.0.iter().copied().map(scope_name).collect();
            vec![
                token.identifier.clone(),
                state(token, now).to_owned(),
                lists.user(token.user_id).to_owned(),
                lists.account(token.account_id).to_owned(),
                scopes.join(","),
                moment_or_dash(token.expires_at),
                moment_or_dash(token.last_used_at),
                if of_schedulers {
                    token.scheduler_id.clone().unwrap_or_else(|| "-".to_owned())
                } else {
                    moment_or_dash(token.broad_use_at)
                },
                token.label.clone(),
            ]
        }),
    );
}

/// Prints the number of rows of clusters under removal, by kind.
pub(super) fn removal(counts: &RemovalCounts) {
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
    print(&["kind", "count"], rows.into_iter().map(|(kind, count)| vec![kind.to_owned(), count.to_string()]));
}

pub(super) fn sessions(sessions: &[UserSession]) {
    print(
        &["session", "user", "since", "last used", "until"],
        sessions.iter().map(|session| {
            vec![
                session.identifier.clone(),
                session.user.clone(),
                moment(session.created_at),
                moment(session.used_at),
                moment(session.expires_at),
            ]
        }),
    );
}

fn state(token: &Token, now: Timestamp) -> &'static str {
    if token.revoked_at.is_some() {
        "revoked"
    } else if token.expires_at.is_some_and(|end| end.0 <= now.0) {
        "expired"
    } else {
        "valid"
    }
}

fn moment_or_dash(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), moment)
}

/// Prints rows below their headings, with each column as wide as its longest cell.
fn print(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    // Users choose labels: control characters must not fake another line or send escape sequences to a
    // terminal.
    let rows = rows.map(|row| row.iter().map(|cell| visible(cell).into_owned()).collect());
    let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", cells.join("  ").trim_end());
    }
}
