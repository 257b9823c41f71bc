//! Performance reports that people stored.

use async_graphql::{Context, Enum, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    api_token::Scope,
    performance_report::{self, Model},
};

use super::{
    account::Account,
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    in_place::in_place,
    json::names,
    scalar::BigInt,
    schema,
    scope::AccountScope,
    user::User,
    user_error::UserError,
};
use crate::{
    auth::Viewer,
    store::{PerformanceReportSort, ReportReader},
};

/// A page that Dask drew of what a cluster did, as somebody stored it.
pub(super) struct PerformanceReport {
    scope: AccountScope,
    row: Model,
}

/// A page that Dask drew of what a cluster did, as somebody stored it with `coiled.performance_report`.
#[Object]
impl PerformanceReport {
    /// The report as mutations name it.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The name of the file it was.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// Who may see it.
    async fn visibility(&self) -> ReportVisibility {
        self.row.visibility.into()
    }

    /// How large the file is, in bytes.
    async fn size(&self) -> BigInt {
        BigInt(self.row.size_bytes)
    }

    /// Where this server shows it: a path and a query, for a browser that is signed in or with credentials.
    async fn path(&self) -> String {
        format!("/reports/{}?account={}", self.row.id, self.scope.account.slug)
    }

    /// When it was stored, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// Who stored it; null when the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }
}

in_place! { PerformanceReport: identifier, name, visibility, size, path, created_at }

/// Who may see a performance report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "performance_report::Visibility")]
pub(super) enum ReportVisibility {
    /// All members of the account.
    Public,
    /// Whoever stored it, and those whose credentials have the scope `admin`.
    Private,
}

names!(ReportVisibility);

/// The outcome of `deletePerformanceReport`.
#[derive(SimpleObject)]
pub(super) struct DeletePerformanceReportPayload {
    /// The account, which no longer has it.
    account: Account,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

impl ReportReader {
    /// Whoever shows these credentials.
    pub(crate) fn of(viewer: &Viewer) -> Self {
        Self { user: viewer.user_id(), sees_private: viewer.may(Scope::Admin) }
    }
}

/// A page of the reports that the viewer may see.
pub(super) async fn performance_reports(
    context: &Context<'_>,
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<PerformanceReport>, ApiError> {
    let reader = ReportReader::of(&schema::request(context).viewer);
    let sort = PerformanceReportSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.performance_report_page(reader, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.performance_report_count(reader).await }
    });
    Ok(Connection::new(page, sort, |row| PerformanceReport { scope: scope.clone(), row }, total))
}

pub(super) async fn delete_performance_report(
    scope: &AccountScope,
    identifier: &str,
) -> Result<DeletePerformanceReportPayload, ApiError> {
    let missing = || ApiError::NotFound("performance report");
    let id = identifier.parse().map_err(|_| missing())?;
    if !scope.store.delete_performance_report(id).await? {
        return Err(missing());
    }
    Ok(DeletePerformanceReportPayload { account: Account(scope.after_change()), user_errors: Vec::new() })
}
