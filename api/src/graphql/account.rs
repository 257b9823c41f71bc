//! Accounts: the tenants.

use async_graphql::{Enum, ID, InputObject, Object};
use chrono::{DateTime, Utc};

use super::{
    cluster::Cluster,
    connection::{Connection, PageArguments},
    error::ApiError,
    id::GlobalId,
    scope::AccountScope,
};
use crate::store::ClusterSort;

/// An account: everything in it is seen by all of its members and by nobody else.
pub(super) struct Account(pub(super) AccountScope);

/// An account: everything in it is seen by all of its members and by nobody else.
#[Object]
impl Account {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Account(self.0.account.id).into()
    }

    /// The short name in URLs.
    async fn slug(&self) -> &str {
        &self.0.account.slug
    }

    /// The name for people.
    async fn name(&self) -> &str {
        &self.0.account.name
    }

    /// When the account was made.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.account.created_at.0
    }

    /// The clusters that ever reported to this account.
    async fn clusters(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(desc = "The order of the list.", default)] order_by: ClusterOrder,
    ) -> Result<Connection<Cluster>, ApiError> {
        let sort = order_by.into();
        let request = PageArguments { first, after, last, before }.request(sort)?;
        let page = self.0.store.cluster_page(sort, &request).await?;
        let store = self.0.store.clone();
        let total = Box::new(move || {
            let store = store.clone();
            let count = async move { Ok(i64::try_from(store.cluster_count().await?).unwrap_or(i64::MAX)) };
            Box::pin(count) as _
        });
        Ok(Connection::new(page, sort, |row| Cluster::new(&self.0, row), total))
    }
}

/// How clusters are ordered.
#[derive(Clone, Copy, Debug, Default, InputObject)]
pub(super) struct ClusterOrder {
    /// By what.
    #[graphql(default)]
    field: ClusterOrderField,
    /// In which direction.
    #[graphql(default)]
    direction: OrderDirection,
}

/// By what clusters can be ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum ClusterOrderField {
    /// When the scheduler started.
    #[default]
    StartedAt,
}

/// The direction of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum OrderDirection {
    /// Small and early first.
    Asc,
    /// Large and late first.
    #[default]
    Desc,
}

impl From<ClusterOrder> for ClusterSort {
    fn from(order: ClusterOrder) -> Self {
        match (order.field, order.direction) {
            (ClusterOrderField::StartedAt, OrderDirection::Desc) => Self::NewestFirst,
            (ClusterOrderField::StartedAt, OrderDirection::Asc) => Self::OldestFirst,
        }
    }
}
