//! What accounts wanted to be told of, and when it was so.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{alert::Model, alert_rule, cluster_flag::LASTS, ids::AlertRuleId};

use super::{
    cluster::Cluster,
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    flag::FlagKind,
    in_place::in_place,
    loaders::Reader,
    scope::AccountScope,
    user::User,
};
use crate::{
    domain::alert::{Subject, unit},
    store::{AlertSort, StoreError},
};

/// Something the account wanted to be told of, once.
pub(super) struct Alert {
    scope: AccountScope,
    row: Model,
}

impl Alert {
    fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn subject(&self) -> Option<Subject> {
        self.row.subject.parse().ok()
    }

    fn kind(&self) -> Option<entity::cluster_flag::Kind> {
        match self.subject()? {
            Subject::Flag(_, kind) => Some(kind),
            Subject::Account | Subject::User(_) | Subject::Cluster(_) => None,
        }
    }
}

/// Something the account wanted to be told of, once: since when, until when, and of what or whom.
#[Object]
impl Alert {
    /// The alert as messages name it.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The rule as mutations name it.
    async fn rule_identifier(&self) -> String {
        self.row.rule_id.to_string()
    }

    /// What the rule is called.
    async fn rule_name(&self) -> Result<String, ApiError> {
        rule_name(&self.scope, self.row.rule_id).await
    }

    /// Since when it is so, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.since.0
    }

    /// Until when it was so, by the server's clock; null while it is.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.ended_key < LASTS).then(|| DateTime::from_timestamp_millis(self.row.ended_key)).flatten()
    }

    /// Whether it is so.
    async fn is_active(&self) -> bool {
        self.row.ended_key == LASTS
    }

    /// The value when it was last looked at, in the unit.
    async fn value(&self) -> f64 {
        self.row.value
    }

    /// What the value counts: a currency, `errors`, `seconds`, or the unit of the flag.
    async fn unit(&self) -> Result<String, ApiError> {
        let rule = self.scope.loader.load_one(self.row.rule_id).await?;
        Ok(rule.map(|rule| unit(&rule.condition, self.kind())).unwrap_or_default())
    }

    /// The cluster it is about; null if it is about several.
    async fn cluster(&self) -> Result<Option<Cluster>, ApiError> {
        match self.subject().and_then(Subject::cluster) {
            Some(cluster) => Cluster::find(&self.scope, cluster).await,
            None => Ok(None),
        }
    }

    /// The user whose clusters it is about; null if it is not about a user's, or the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.subject() {
            Some(Subject::User(user)) => User::find(&self.scope, user).await,
            _ => Ok(None),
        }
    }

    /// What was noticed of the cluster; null if it is not about a flag.
    async fn flag(&self) -> Option<FlagKind> {
        self.kind().map(FlagKind::from)
    }
}

in_place! { Alert: identifier, rule_identifier, since, until, is_active, value, flag }

/// What a rule is called; empty if it is gone.
pub(super) async fn rule_name(scope: &AccountScope, rule: AlertRuleId) -> Result<String, ApiError> {
    Ok(scope.loader.load_one(rule).await?.map(|rule| rule.name).unwrap_or_default())
}

/// A page of the account's alerts.
pub(super) async fn alerts(
    scope: &AccountScope,
    active: Option<bool>,
    page: PageArguments,
) -> Result<Connection<Alert>, ApiError> {
    let sort = AlertSort::LastingFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_page(active, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.alert_count(active).await }
    });
    Ok(Connection::new(page, sort, |row| Alert::new(scope, row), total))
}

impl Loader<AlertRuleId> for Reader {
    type Value = alert_rule::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[AlertRuleId]) -> Result<HashMap<AlertRuleId, Self::Value>, Self::Error> {
        Ok(self.0.alert_rules_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}
