//! The GraphQL type of an alert: a period in which the condition of an alert rule was met.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{ID, Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{alert::Model, alert_rule, cluster_flag::NOT_ENDED_KEY, ids::AlertRuleId};

use super::flag::FlagKind;
use crate::{
    domain::alert::{Subject, condition_unit},
    graphql::{
        access::user::User,
        clusters::cluster::Cluster,
        engine::{
            connection::{Connection, PageArguments, total_count_by},
            error::ApiError,
            id::GlobalId,
            loaders::StoreReader,
            projection::inline_fields,
            scope::AccountScope,
        },
    },
    store::{AlertSort, StoreError},
};

/// A period in which the condition of an alert rule was met.
pub(crate) struct Alert {
    scope: AccountScope,
    row: Model,
}

impl Alert {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn subject(&self) -> Option<Subject> {
        self.row.subject.parse().ok()
    }

    fn flag_kind(&self) -> Option<entity::cluster_flag::ClusterFlagKind> {
        match self.subject()? {
            Subject::Flag(_, kind) => Some(kind),
            Subject::Account | Subject::User(_) | Subject::Cluster(_) => None,
        }
    }
}

/// A period in which the condition of an alert rule was met for an account, a user or a cluster.
#[Object]
impl Alert {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Alert(self.scope.account.id, self.row.id).into()
    }

    /// The identifier of the alert, as used in messages.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The identifier of the rule, as used in mutations.
    async fn rule_identifier(&self) -> String {
        self.row.rule_id.to_string()
    }

    /// The name of the rule. Empty if the rule was deleted.
    async fn rule_name(&self) -> Result<String, ApiError> {
        rule_name(&self.scope, self.row.rule_id).await
    }

    /// The time from which the condition was met, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.since.0
    }

    /// The time at which the condition was no longer met, by the server's clock. Null while the alert is
    /// active.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.ended_key < NOT_ENDED_KEY)
            .then(|| DateTime::from_timestamp_millis(self.row.ended_key))
            .flatten()
    }

    /// True if the condition is still met.
    async fn is_active(&self) -> bool {
        self.row.ended_key == NOT_ENDED_KEY
    }

    /// The value at the last evaluation, in `unit`.
    async fn value(&self) -> f64 {
        self.row.value
    }

    /// The unit of the value: a currency, `errors`, `seconds`, `percent`, or the unit of the flag. Empty
    /// if the rule was deleted.
    async fn unit(&self) -> Result<String, ApiError> {
        let rule = self.scope.loader.load_one(self.row.rule_id).await?;
        Ok(rule.map(|rule| condition_unit(&rule.condition, self.flag_kind())).unwrap_or_default())
    }

    /// The cluster of the alert. Null if the alert covers several clusters, or the cluster was deleted.
    async fn cluster(&self) -> Result<Option<Cluster>, ApiError> {
        match self.subject().and_then(Subject::cluster) {
            Some(cluster) => Cluster::find(&self.scope, cluster).await,
            None => Ok(None),
        }
    }

    /// The user whose clusters the alert covers. Null if it does not cover one user, or the user left
    /// the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.subject() {
            Some(Subject::User(user)) => User::find(&self.scope, user).await,
            _ => Ok(None),
        }
    }

    /// The kind of the flag. Null if the alert is not about a flag.
    async fn flag(&self) -> Option<FlagKind> {
        self.flag_kind().map(FlagKind::from)
    }
}

inline_fields! { Alert: id, identifier, rule_identifier, since, until, is_active, value, flag }

/// Returns the name of a rule, or an empty text if the rule was deleted.
pub(crate) async fn rule_name(scope: &AccountScope, rule: AlertRuleId) -> Result<String, ApiError> {
    Ok(scope.loader.load_one(rule).await?.map(|rule| rule.name).unwrap_or_default())
}

/// Returns a page of the account's alerts.
pub(crate) async fn load_alerts(
    scope: &AccountScope,
    active: Option<bool>,
    page: PageArguments,
) -> Result<Connection<Alert>, ApiError> {
    let sort = AlertSort::LastingFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_page(active, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.alert_count(active).await }
    });
    Ok(Connection::new(page, sort, |row| Alert::new(scope, row), total))
}

impl Loader<AlertRuleId> for StoreReader {
    type Value = alert_rule::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[AlertRuleId]) -> Result<HashMap<AlertRuleId, Self::Value>, Self::Error> {
        Ok(self.0.alert_rules_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}
