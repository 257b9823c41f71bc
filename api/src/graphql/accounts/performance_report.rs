//! Performance reports that members uploaded.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    api_token::Scope,
    performance_report::{self, Model},
};

use super::account::Account;
use crate::{
    auth::Viewer,
    domain::permission::Permission,
    graphql::{
        access::user::User,
        engine::{
            connection::{Connection, PageArguments, total_count_by},
            error::ApiError,
            id::GlobalId,
            json::write_enums_by_name,
            projection::inline_fields,
            scalar::BigInt,
            scope::AccountScope,
            user_error::UserError,
        },
        schema,
    },
    store::{PerformanceReportReader, PerformanceReportSort},
};

/// An uploaded performance report: an HTML page that Dask generated about the work of a cluster.
pub(crate) struct PerformanceReport {
    scope: AccountScope,
    row: Model,
}

impl PerformanceReport {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A performance report: an HTML page that Dask generated about the work of a cluster, uploaded with
/// `coiled.performance_report`.
#[Object]
impl PerformanceReport {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::PerformanceReport(self.scope.account.id, self.row.id).into()
    }

    /// The report's identifier, for the argument of mutations.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The name of the uploaded file.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// The visibility of the report.
    async fn visibility(&self) -> ReportVisibility {
        self.row.visibility.into()
    }

    /// The size of the file, in bytes.
    async fn size(&self) -> BigInt {
        BigInt(self.row.size_bytes)
    }

    /// The path and query of the page on this server that shows the report. It requires a signed-in
    /// browser or credentials. It begins with the path of `GALVO_PUBLIC_URL` if that has one.
    async fn path(&self) -> String {
        self.scope.base.address(&format!("/reports/{}?account={}", self.row.id, self.scope.account.slug))
    }

    /// The time of the upload, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The user who uploaded the report. Null if the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }

    /// True if the viewer may delete the report with `deletePerformanceReport`.
    async fn viewer_can_delete(&self) -> bool {
        self.scope.rights.permit(Permission::DeletePerformanceReport, Some(self.row.user_id))
    }
}

inline_fields! { PerformanceReport: id, identifier, name, visibility, size, path, created_at, viewer_can_delete }

/// The visibilities of a performance report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "performance_report::Visibility")]
pub(crate) enum ReportVisibility {
    /// Visible to all members of the account, and to nobody else.
    Public,
    /// Visible to the user who uploaded it, and to credentials with the scope `admin`.
    Private,
}

write_enums_by_name!(ReportVisibility);

/// The outcome of `deletePerformanceReport`.
#[derive(SimpleObject)]
pub(crate) struct DeletePerformanceReportPayload {
    /// The account after the deletion.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

impl PerformanceReportReader {
    /// Returns the reader for the viewer's credentials.
    pub(crate) fn from_viewer(viewer: &Viewer) -> Self {
        Self { user: viewer.user_id(), sees_private: viewer.may(Scope::Admin) }
    }
}

/// Returns a page of the reports that the viewer may see.
pub(crate) async fn load_performance_reports(
    context: &Context<'_>,
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<PerformanceReport>, ApiError> {
    let reader = PerformanceReportReader::from_viewer(&schema::request_context(context).viewer);
    let sort = PerformanceReportSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.performance_report_page(reader, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.performance_report_count(reader).await }
    });
    Ok(Connection::new(page, sort, |row| PerformanceReport { scope: scope.clone(), row }, total))
}

pub(crate) async fn delete_performance_report(
    scope: &AccountScope,
    identifier: &str,
) -> Result<DeletePerformanceReportPayload, ApiError> {
    let not_found = || ApiError::NotFound("performance report");
    let id = identifier.parse().map_err(|_| not_found())?;
    if !scope.store.delete_performance_report(id).await? {
        return Err(not_found());
    }
    Ok(DeletePerformanceReportPayload {
        account: Account(scope.with_empty_caches()),
        user_errors: Vec::new(),
    })
}
