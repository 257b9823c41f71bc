//! Alerts: the periods in which the condition of a rule held, and the subjects for which it holds now.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    alert::{Column, Entity, Model},
    alert_rule::{self, AggregationScope, Condition},
    cluster,
    cluster_flag::{self, ClusterFlagKind, NOT_ENDED_KEY},
    error_occurrence,
    ids::{AlertId, AlertRuleId, ClusterId, UserId},
    usage_hour,
};
use sea_orm::{
    ColumnTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, OnConflict},
};

use super::flag_mute;
use crate::{
    bus::ChangeKinds,
    domain::{
        alert::{Decision, Episode, Subject},
        cost::{RateCard, amount},
        quota::Quota,
        usage::Usage,
    },
    store::{
        clusters::{cluster_filter::ClusterFilter, cluster_tag::TagFilter},
        core::{
            change_feed::next_change,
            composite_in::IsOneOf,
            error::StoreError,
            page::{self, Key, KeyPart, Page, PageRequest, Sort},
            read_rows::ReadSelect,
            scoped::AccountStore,
        },
        costs::usage_hour::{DAY, DAY_HOURS, sum_of},
    },
};

/// The largest number of subjects that are evaluated per rule. They are read in a fixed order, so that an
/// alert does not seem to end because another subset is read.
const MAX_SUBJECTS: u64 = 500;

/// The time in milliseconds after which a cluster that does not report is not idle but gone: three of the
/// longest report intervals.
const GONE_MS: i64 = 30 * 60 * 1_000;

const DAY_MS: i64 = 86_400_000;

/// The orders alerts can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertSort {
    /// Lasting alerts come first, then ended alerts, the latest end first.
    LastingFirst,
}

impl Sort for AlertSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "alert_ended_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::EndedKey, Column::Since, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![KeyPart::Integer(row.ended_key), row.since.into(), row.id.into()])
    }
}

/// Returns the update of an existing alert. The other values never change.
fn replace_state(now: Timestamp) -> OnConflict {
    OnConflict::columns([Column::AccountId, Column::Id])
        .update_columns([Column::EndedKey, Column::Value, Column::ToldAt, Column::Told])
        .value(Column::ChangedAt, next_change(Column::ChangedAt, now))
        .to_owned()
}

#[derive(FromQueryResult)]
struct DayUse {
    cluster_id: ClusterId,
    user_id: Option<UserId>,
    day: i64,
    thread_us: i64,
    worker_us: i64,
    memory_gib_us: i64,
}

impl AccountStore {
    /// Returns a page of the account's alerts.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert.page", skip_all)]
    pub async fn alert_page(
        &self,
        lasting: Option<bool>,
        sort: AlertSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.alerts(lasting), sort, request).await
    }

    /// Returns the alert with an identifier.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert.get", skip_all)]
    pub async fn alert(&self, id: AlertId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Returns the alerts that exist among `ids`, in the order of their last changes.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert.by_id", skip_all)]
    pub async fn alerts_by_id(&self, ids: &[AlertId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.is_one_of(ids.iter().copied()));
        Ok(select.order_by_asc(Column::ChangedAt).read_models(&self.read_executor()).await?)
    }

    /// Counts the account's alerts.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert.count", skip_all)]
    pub async fn alert_count(&self, lasting: Option<bool>) -> Result<u64, StoreError> {
        Ok(self.alerts(lasting).count(&self.read_executor()).await?)
    }

    fn alerts(&self, lasting: Option<bool>) -> Select<Entity> {
        let select = self.select::<Entity>();
        match lasting {
            Some(true) => select.filter(Column::EndedKey.eq(NOT_ENDED_KEY)),
            Some(false) => select.filter(Column::EndedKey.lt(NOT_ENDED_KEY)),
            None => select,
        }
    }

    /// Returns the alerts of a rule that last or that ended after `since`, in epoch milliseconds.
    pub(crate) async fn load_alert_episodes(
        &self,
        rule: AlertRuleId,
        since: i64,
    ) -> Result<Vec<Episode>, StoreError> {
        let select = self.select::<Entity>().filter(Column::RuleId.eq(rule));
        let rows = select.filter(Column::EndedKey.gt(since)).all(&self.write_executor()).await?;
        // A subject that cannot be parsed any more belongs to no condition that can hold.
        let episode = |row: Model| {
            Some(Episode {
                id: Some(row.id),
                subject: row.subject.parse().ok()?,
                since: row.since.timestamp_millis(),
                ended_key: row.ended_key,
                value: row.value,
                last_sent_at: row.told_at.map(|at| at.timestamp_millis()),
                start_sent: row.told,
            })
        };
        Ok(rows.into_iter().filter_map(episode).collect())
    }

    /// Writes the changed alerts of a rule, gives identifiers to the new ones, and notifies subscribers.
    pub(crate) async fn record_alerts(
        &self,
        rule: AlertRuleId,
        decision: &mut Decision,
        new_id: impl Fn() -> AlertId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let time = |ms| Timestamp::from(chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default());
        let rows = decision.changed.iter_mut().map(|episode| Model {
            account_id: self.account_id(),
            id: *episode.id.get_or_insert_with(&new_id),
            rule_id: rule,
            subject: episode.subject.to_string(),
            since: time(episode.since),
            ended_key: episode.ended_key,
            value: episode.value,
            told_at: episode.last_sent_at.map(time),
            told: episode.start_sent,
            changed_at: Some(now.timestamp_millis()),
        });
        if self.insert::<Entity>(rows.collect(), &replace_state(now)).await? > 0 {
            self.announce_account(ChangeKinds::ALERTS);
        }
        Ok(())
    }

    /// Ends the lasting alerts of a rule without a message, because their subjects are no longer evaluated.
    /// Subscribers are notified.
    pub(crate) async fn end_lasting_alerts(
        &self,
        rule: AlertRuleId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let lasting_alerts = self
            .update::<Entity>()
            .filter(Column::RuleId.eq(rule))
            .filter(Column::EndedKey.eq(NOT_ENDED_KEY));
        let update = lasting_alerts
            .col_expr(Column::EndedKey, Expr::val(now.timestamp_millis()))
            .col_expr(Column::Told, Expr::val(false))
            .col_expr(Column::ToldAt, Expr::val(Option::<Timestamp>::None))
            .col_expr(Column::ChangedAt, next_change(Column::ChangedAt, now));
        if update.exec(&self.write_executor()).await?.rows_affected > 0 {
            self.announce_account(ChangeKinds::ALERTS);
        }
        Ok(())
    }

    /// Returns the subjects for which a rule holds now, with their values.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.alert.holding", skip_all)]
    pub(crate) async fn evaluate_alert_rule(
        &self,
        rule: &alert_rule::Model,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        let clusters = ClusterFilter {
            users: rule.scope.users.clone(),
            tags: rule.scope.tags.clone().map(|tags| TagFilter { any: Some(tags), ..TagFilter::default() }),
            ..ClusterFilter::default()
        };
        match &rule.condition {
            Condition::Flags(kinds) => self.holding_flags(kinds, &clusters, now).await,
            Condition::Failures { count, within_seconds, of: scope } => {
                let since = now.timestamp_millis() - within_seconds * 1_000;
                self.holding_failures(*count, since, *scope, &clusters).await
            }
            Condition::Cost { nanos, currency, days, of: scope } => {
                let today = now.timestamp_millis().div_euclid(DAY_MS);
                let days = (today - days + 1, today + 1);
                self.holding_cost((*nanos, currency), days, *scope, &clusters).await
            }
            Condition::Idle { for_seconds } => self.holding_idle(*for_seconds, clusters, now).await,
            Condition::QuotaNears { percent } => {
                let status = self.quota_status(now).await?;
                let used = Quota::ALL.map(|quota| status.usage_of(quota).percent());
                let highest_percent = used.into_iter().fold(0.0, f64::max);
                #[expect(clippy::cast_precision_loss, reason = "a percentage is at most 100")]
                let holds = highest_percent >= *percent as f64;
                Ok(holds.then_some((Subject::Account, highest_percent)).into_iter().collect())
            }
        }
    }

    async fn holding_flags(
        &self,
        kinds: &[ClusterFlagKind],
        clusters: &ClusterFilter,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use cluster_flag::Column;
        let mut select = self
            .select::<cluster_flag::Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Kind, Column::Value])
            .filter(Column::EndedKey.eq(NOT_ENDED_KEY))
            .filter(Column::Kind.is_one_of(kinds.iter().copied()))
            .filter(flag_mute::is_muted_condition(self.account_id(), now).not());
        if let Some(cluster_condition) = self.cluster_condition(clusters, Column::ClusterId) {
            select = select.filter(cluster_condition);
        }
        let select = select.order_by_asc(Column::Since).order_by_asc(Column::Id).limit(MAX_SUBJECTS);
        let rows: Vec<(ClusterId, ClusterFlagKind, f64)> = select.read_tuples(&self.read_executor()).await?;
        Ok(rows.into_iter().map(|(cluster, kind, value)| (Subject::Flag(cluster, kind), value)).collect())
    }

    async fn holding_failures(
        &self,
        count: i64,
        since: i64,
        scope: AggregationScope,
        clusters: &ClusterFilter,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use error_occurrence::Column;
        let errors = || Expr::col((error_occurrence::Entity, Column::Id)).count();
        let mut select = self
            .select::<error_occurrence::Entity>()
            .select_only()
            .expr_as(errors(), "errors")
            .filter(Column::OccurredAt.gt(since))
            .having(errors().gte(count))
            .limit(MAX_SUBJECTS);
        if let Some(cluster_condition) = self.cluster_condition(clusters, Column::ClusterId) {
            select = select.filter(cluster_condition);
        }
        #[expect(clippy::cast_precision_loss, reason = "no account has 2^53 errors")]
        let number = |errors: i64| errors as f64;
        match scope {
            AggregationScope::Account => {
                let rows: Vec<i64> = select.read_column(&self.read_executor()).await?;
                Ok(rows.into_iter().map(|errors| (Subject::Account, number(errors))).collect())
            }
            AggregationScope::Cluster => {
                let select = select.column(Column::ClusterId).group_by(Column::ClusterId);
                let select = select.order_by_asc(Column::ClusterId);
                let rows: Vec<(i64, ClusterId)> = select.read_tuples(&self.read_executor()).await?;
                Ok(rows.into_iter().map(|(errors, id)| (Subject::Cluster(id), number(errors))).collect())
            }
            AggregationScope::User => {
                let user = || Expr::col((cluster::Entity, cluster::Column::UserId));
                let is_of_cluster = Expr::col((cluster::Entity, cluster::Column::AccountId))
                    .equals((error_occurrence::Entity, Column::AccountId))
                    .and(
                        Expr::col((cluster::Entity, cluster::Column::Id))
                            .equals((error_occurrence::Entity, Column::ClusterId)),
                    );
                let mut select = select.expr_as(user(), "user_id").filter(user().is_not_null());
                QuerySelect::query(&mut select)
                    .inner_join(cluster::Entity, is_of_cluster)
                    .add_group_by([user()])
                    .order_by_expr(user(), sea_orm::Order::Asc);
                let rows: Vec<(i64, UserId)> = select.read_tuples(&self.read_executor()).await?;
                Ok(rows.into_iter().map(|(errors, id)| (Subject::User(id), number(errors))).collect())
            }
        }
    }

    /// Returns the subjects whose cost over the days from `from` to before `to` reaches the limit. Usage is
    /// summed by cluster and day, and each day has its own price.
    async fn holding_cost(
        &self,
        (nanos, currency): (i64, &str),
        (from, to): (i64, i64),
        scope: AggregationScope,
        clusters: &ClusterFilter,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use usage_hour::Column;
        let rates = RateCard::new(self.cost_rates().await?);
        let user = || Expr::col((cluster::Entity, cluster::Column::UserId));
        let hours = |column: Column| Expr::col((usage_hour::Entity, column));
        let is_of_cluster = Expr::col((cluster::Entity, cluster::Column::AccountId))
            .equals((usage_hour::Entity, Column::AccountId))
            .and(
                Expr::col((cluster::Entity, cluster::Column::Id))
                    .equals((usage_hour::Entity, Column::ClusterId)),
            );
        let mut select = self
            .select::<usage_hour::Entity>()
            .select_only()
            .column(Column::ClusterId)
            .expr_as(user(), "user_id")
            .expr_as(Expr::cust(DAY), "day")
            .filter(hours(Column::Hour).gte(from * DAY_HOURS))
            .filter(hours(Column::Hour).lt(to * DAY_HOURS));
        for column in ["thread_us", "worker_us", "memory_gib_us"] {
            select = select.expr_as(sum_of(self.backend(), ("usage_hours", column)), column);
        }
        if let Some(cluster_condition) = self.cluster_condition(clusters, Column::ClusterId) {
            select = select.filter(cluster_condition);
        }
        QuerySelect::query(&mut select).inner_join(cluster::Entity, is_of_cluster).add_group_by([
            hours(Column::ClusterId),
            user(),
            Expr::cust(DAY),
        ]);
        let rows: Vec<DayUse> = select.into_model().all(&self.read_executor()).await?;
        let mut spent: BTreeMap<Subject, Vec<(i64, Usage)>> = BTreeMap::new();
        for row in rows {
            let subject = match (scope, row.user_id) {
                (AggregationScope::Account, _) => Subject::Account,
                (AggregationScope::Cluster, _) => Subject::Cluster(row.cluster_id),
                (AggregationScope::User, Some(user)) => Subject::User(user),
                (AggregationScope::User, None) => continue,
            };
            let DayUse { thread_us, worker_us, memory_gib_us, .. } = row;
            let usage = Usage { thread_us, worker_us, memory_gib_us, ..Usage::default() };
            spent.entry(subject).or_default().push((row.day, usage));
        }
        let cost = |days: &Vec<(i64, Usage)>| {
            let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
            costs.iter().filter(|cost| cost.currency == currency).map(|cost| cost.nanos).sum::<i128>()
        };
        let costs = spent.iter().map(|(subject, days)| (*subject, cost(days)));
        let expensive = costs.filter(|(_, cost)| *cost >= i128::from(nanos));
        Ok(expensive.map(|(subject, cost)| (subject, amount(cost))).collect())
    }

    async fn holding_idle(
        &self,
        min_idle_seconds: i64,
        clusters: ClusterFilter,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use cluster::Column;
        let filter = ClusterFilter { min_idle_ms: Some(min_idle_seconds * 1_000), ..clusters };
        let idle = Expr::col((cluster::Entity, Column::ReportedAt))
            .sub(Expr::col((cluster::Entity, Column::IdleSince)));
        let select = self
            .filtered_clusters(&filter)
            .select_only()
            .column(Column::Id)
            .expr_as(idle, "idle")
            // Clusters that have not ended are a range of an index. Of them, only clusters that still
            // report can be idle.
            .filter(Column::EndedKey.eq(i64::MAX))
            .filter(Column::LastSeenAt.gte(now.timestamp_millis() - GONE_MS));
        let select = select.order_by_asc(Column::Id).limit(MAX_SUBJECTS);
        let rows: Vec<(ClusterId, i64)> = select.read_tuples(&self.read_executor()).await?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact in a float")]
        let seconds = |ms: i64| ms as f64 / 1e3;
        Ok(rows.into_iter().map(|(id, idle)| (Subject::Cluster(id), seconds(idle))).collect())
    }
}
