//! The interface of objects with a global identifier, and their lookup.

use async_graphql::{Context, ID, Interface};
use entity::ids::KeyTime;

use super::{
    access::{
        api_token::ApiToken, audit_entry::AuditEntry, invitation::Invitation, member::Member, user::User,
    },
    accounts::{account::Account, performance_report::PerformanceReport, saved_view::SavedView},
    alerts::{alert::Alert, alert_delivery::AlertDelivery, alert_rule::AlertRule, flag::Flag},
    clusters::{client::Client, cluster::Cluster, worker::Worker},
    computations::{computation::Computation, span::Span, task_group::TaskGroup},
    engine::{error::ApiError, id::GlobalId},
    errors::{error_group::ErrorGroup, error_occurrence::ErrorOccurrence},
    schema::{self, RequestContext},
    telemetry::{event::Event, log_line::LogLine},
};
use crate::{
    domain::permission::{Permission, Reach},
    store::PerformanceReportReader,
};

/// An object with a global identifier.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "The global identifier. It is opaque; `Query.node` returns the object."
))]
pub(super) enum Node {
    Account(Account),
    User(User),
    Cluster(Box<Cluster>),
    Computation(Computation),
    TaskGroup(Box<TaskGroup>),
    ErrorOccurrence(Box<ErrorOccurrence>),
    ErrorGroup(Box<ErrorGroup>),
    Worker(Box<Worker>),
    Span(Box<Span>),
    Alert(Box<Alert>),
    AlertDelivery(Box<AlertDelivery>),
    AlertRule(Box<AlertRule>),
    ApiToken(Box<ApiToken>),
    AuditEntry(Box<AuditEntry>),
    Client(Box<Client>),
    Event(Box<Event>),
    Flag(Box<Flag>),
    Invitation(Box<Invitation>),
    LogLine(Box<LogLine>),
    Member(Box<Member>),
    PerformanceReport(Box<PerformanceReport>),
    SavedView(Box<SavedView>),
}

impl Node {
    /// Returns the object with the identifier `id`. Returns `None` if it does not exist, if it belongs
    /// to another account or is in no list that the viewer may read, or if the text is no identifier; a
    /// client cannot distinguish these cases.
    pub(super) async fn find(context: &Context<'_>, id: &ID) -> Result<Option<Self>, ApiError> {
        let RequestContext { scope, viewer, .. } = schema::request_context(context);
        let Some(id) = GlobalId::parse(id).filter(|id| id.account() == scope.account.id) else {
            return Ok(None);
        };
        let may_read_all = |permission| scope.rights.reach(permission) == Reach::Everything;
        let store = &scope.store;
        Ok(match id {
            GlobalId::Account(_) => Some(Self::Account(Account(scope.clone()))),
            GlobalId::User(_, id) => User::find(scope, id).await?.map(Self::User),
            GlobalId::Cluster(_, id) => {
                Cluster::find(scope, id).await?.map(|node| Self::Cluster(Box::new(node)))
            }
            GlobalId::Computation(_, cluster, id) => {
                Computation::find(scope, (cluster, id)).await?.map(Self::Computation)
            }
            GlobalId::TaskGroup(_, cluster, id) => {
                TaskGroup::find(scope, (cluster, id)).await?.map(|node| Self::TaskGroup(Box::new(node)))
            }
            GlobalId::ErrorOccurrence(_, cluster, id) => ErrorOccurrence::find(scope, cluster, id)
                .await?
                .map(|node| Self::ErrorOccurrence(Box::new(node))),
            GlobalId::ErrorGroup(_, id) => {
                ErrorGroup::find(scope, id).await?.map(|node| Self::ErrorGroup(Box::new(node)))
            }
            GlobalId::Worker(_, cluster, id) => {
                Worker::find(scope, (cluster, id)).await?.map(|node| Self::Worker(Box::new(node)))
            }
            GlobalId::Span(_, cluster, id) => {
                Span::find(scope, (cluster, id)).await?.map(|node| Self::Span(Box::new(node)))
            }
            GlobalId::Client(_, cluster, id) => {
                store.client(cluster, id).await?.map(|row| Self::Client(Box::new(Client::new(scope, row))))
            }
            GlobalId::Event(_, cluster, at, id) => store
                .event(cluster, KeyTime(at), id)
                .await?
                .map(|row| Self::Event(Box::new(Event::new(scope, row)))),
            GlobalId::LogLine(_, cluster, at, id) => store
                .log_line(cluster, KeyTime(at), id)
                .await?
                .map(|row| Self::LogLine(Box::new(LogLine::new(scope, row)))),
            GlobalId::Flag(_, cluster, id) => {
                store.flag(cluster, id).await?.map(|row| Self::Flag(Box::new(Flag::new(scope, row))))
            }
            GlobalId::Alert(_, id) => {
                store.alert(id).await?.map(|row| Self::Alert(Box::new(Alert::new(scope, row))))
            }
            GlobalId::PerformanceReport(_, id) => store
                .performance_report(PerformanceReportReader::from_viewer(viewer), id)
                .await?
                .map(|row| Self::PerformanceReport(Box::new(PerformanceReport::new(scope, row)))),
            GlobalId::SavedView(_, id) => store
                .saved_view(scope.rights.user, id)
                .await?
                .map(|row| Self::SavedView(Box::new(SavedView::new(scope, row)))),
            GlobalId::ApiToken(_, id) => store
                .api_token_by_id(id)
                .await?
                .filter(|row| {
                    let is_own = row.user_id == scope.rights.user && !row.is_of_scheduler;
                    is_own || may_read_all(Permission::ManageMembers)
                })
                .map(|row| Self::ApiToken(Box::new(ApiToken::new(scope, row)))),
            GlobalId::AlertRule(_, id) if may_read_all(Permission::ChangeSettings) => store
                .alert_rules_by_id(&[id])
                .await?
                .pop()
                .map(|row| Self::AlertRule(Box::new(AlertRule::new(scope, row)))),
            GlobalId::AlertDelivery(_, id) if may_read_all(Permission::ChangeSettings) => store
                .alert_delivery(id)
                .await?
                .map(|row| Self::AlertDelivery(Box::new(AlertDelivery::new(scope, row)))),
            GlobalId::Invitation(_, id) if may_read_all(Permission::ManageMembers) => store
                .invitation_by_id(id)
                .await?
                .map(|row| Self::Invitation(Box::new(Invitation::new(scope, row)))),
            GlobalId::Member(_, user) if may_read_all(Permission::ManageMembers) => {
                store.membership(user).await?.map(|row| Self::Member(Box::new(Member::new(scope, row))))
            }
            GlobalId::AuditEntry(_, id) if may_read_all(Permission::ReadAuditLog) => store
                .audit_entry(id)
                .await?
                .map(|row| Self::AuditEntry(Box::new(AuditEntry::new(scope, row)))),
            GlobalId::AlertRule(..)
            | GlobalId::AlertDelivery(..)
            | GlobalId::Invitation(..)
            | GlobalId::Member(..)
            | GlobalId::AuditEntry(..) => None,
        })
    }
}
