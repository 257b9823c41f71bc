//! What accounts wanted to be told of: when it was so, and for which subjects it is so now.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    alert::{Column, Entity, Model},
    alert_rule::{self, Condition, Whose},
    cluster,
    cluster_flag::{self, Kind, LASTS},
    error_occurrence,
    ids::{AlertId, AlertRuleId, ClusterId, UserId},
    usage_hour,
};
use sea_orm::{
    ColumnTrait, FromQueryResult, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait},
};

use super::{
    cluster_filter::ClusterFilter,
    cluster_tag::TagFilter,
    error::StoreError,
    flag_mute,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::replace,
    usage_hour::{DAY, DAY_HOURS, sum_of},
};
use crate::domain::{
    alert::{Decision, Episode, Subject},
    cost::{RateCard, amount},
    usage::Usage,
};

/// Subjects of one rule that are looked at, at the most. Those that come first stay the same, so that none seems to end.
const MAX_SUBJECTS: u64 = 500;

/// What did not report for so long is not idle but gone, in milliseconds: three of the longest intervals.
const GONE_MS: i64 = 30 * 60 * 1_000;

const DAY_MS: i64 = 86_400_000;

/// The orders alerts can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertSort {
    /// Those that last come first, and of the others those that ended last.
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
    /// A page of the account's alerts.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert.page", skip_all)]
    pub async fn alert_page(
        &self,
        lasting: Option<bool>,
        sort: AlertSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.alerts(lasting), sort, request).await
    }

    /// How many of the account's alerts there are.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert.count", skip_all)]
    pub async fn alert_count(&self, lasting: Option<bool>) -> Result<u64, StoreError> {
        Ok(self.alerts(lasting).count(&self.reads()).await?)
    }

    fn alerts(&self, lasting: Option<bool>) -> Select<Entity> {
        let select = self.select::<Entity>();
        match lasting {
            Some(true) => select.filter(Column::EndedKey.eq(LASTS)),
            Some(false) => select.filter(Column::EndedKey.lt(LASTS)),
            None => select,
        }
    }

    /// The alerts of a rule that last, or ended after `since`.
    pub(crate) async fn episodes(&self, rule: AlertRuleId, since: i64) -> Result<Vec<Episode>, StoreError> {
        let select = self.select::<Entity>().filter(Column::RuleId.eq(rule));
        let rows = select.filter(Column::EndedKey.gt(since)).all(&self.writes()).await?;
        // A subject that nobody understands any more is that of nothing that holds.
        let episode = |row: Model| {
            Some(Episode {
                id: Some(row.id),
                subject: row.subject.parse().ok()?,
                since: row.since.timestamp_millis(),
                ended_key: row.ended_key,
                value: row.value,
                told_at: row.told_at.map(|at| at.timestamp_millis()),
                told: row.told,
            })
        };
        Ok(rows.into_iter().filter_map(episode).collect())
    }

    /// Writes what became of the alerts of a rule, and gives identifiers to those that are new.
    pub(crate) async fn record_alerts(
        &self,
        rule: AlertRuleId,
        decision: &mut Decision,
        new_id: impl Fn() -> AlertId,
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
            told_at: episode.told_at.map(time),
            told: episode.told,
        });
        self.insert::<Entity>(rows.collect(), &replace::<Entity>()).await?;
        Ok(())
    }

    /// Ends what lasts of a rule, without a word: what it was about is not looked at any more.
    pub(crate) async fn end_alerts_of(&self, rule: AlertRuleId, now: Timestamp) -> Result<(), StoreError> {
        let lasting =
            self.update::<Entity>().filter(Column::RuleId.eq(rule)).filter(Column::EndedKey.eq(LASTS));
        let ended = lasting
            .col_expr(Column::EndedKey, Expr::val(now.timestamp_millis()))
            .col_expr(Column::Told, Expr::val(false))
            .col_expr(Column::ToldAt, Expr::val(Option::<Timestamp>::None));
        ended.exec(&self.writes()).await?;
        Ok(())
    }

    /// For which subjects a rule holds now, with their values.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.alert.holding", skip_all)]
    pub(crate) async fn holding(
        &self,
        rule: &alert_rule::Model,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        let clusters = ClusterFilter {
            users: rule.scope.users.clone(),
            tags: rule.scope.tags.clone().map(|any| TagFilter { any: Some(any), ..TagFilter::default() }),
            ..ClusterFilter::default()
        };
        match &rule.condition {
            Condition::Flags(kinds) => self.holding_flags(kinds, &clusters, now).await,
            Condition::Failures { count, within_seconds, of } => {
                let since = now.timestamp_millis() - within_seconds * 1_000;
                self.holding_failures(*count, since, *of, &clusters).await
            }
            Condition::Cost { nanos, currency, days, of } => {
                let today = now.timestamp_millis().div_euclid(DAY_MS);
                let days = (today - days + 1, today + 1);
                self.holding_cost((*nanos, currency), days, *of, &clusters).await
            }
            Condition::Idle { for_seconds } => self.holding_idle(*for_seconds, clusters, now).await,
        }
    }

    async fn holding_flags(
        &self,
        kinds: &[Kind],
        clusters: &ClusterFilter,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use cluster_flag::Column;
        let mut select = self
            .select::<cluster_flag::Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::Kind, Column::Value])
            .filter(Column::EndedKey.eq(LASTS))
            .filter(Column::Kind.is_in(kinds.iter().copied()))
            .filter(flag_mute::muted(now).not());
        if let Some(of_clusters) = self.of_clusters(clusters, Column::ClusterId) {
            select = select.filter(of_clusters);
        }
        let select = select.order_by_asc(Column::Since).order_by_asc(Column::Id).limit(MAX_SUBJECTS);
        let rows: Vec<(ClusterId, Kind, f64)> = select.into_tuple().all(&self.reads()).await?;
        Ok(rows.into_iter().map(|(cluster, kind, value)| (Subject::Flag(cluster, kind), value)).collect())
    }

    async fn holding_failures(
        &self,
        count: i64,
        since: i64,
        of: Whose,
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
        if let Some(of_clusters) = self.of_clusters(clusters, Column::ClusterId) {
            select = select.filter(of_clusters);
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many errors")]
        let number = |errors: i64| errors as f64;
        match of {
            Whose::Account => {
                let rows: Vec<i64> = select.into_tuple().all(&self.reads()).await?;
                Ok(rows.into_iter().map(|errors| (Subject::Account, number(errors))).collect())
            }
            Whose::Cluster => {
                let select = select.column(Column::ClusterId).group_by(Column::ClusterId);
                let select = select.order_by_asc(Column::ClusterId);
                let rows: Vec<(i64, ClusterId)> = select.into_tuple().all(&self.reads()).await?;
                Ok(rows.into_iter().map(|(errors, id)| (Subject::Cluster(id), number(errors))).collect())
            }
            Whose::User => {
                let user = || Expr::col((cluster::Entity, cluster::Column::UserId));
                let of_cluster = Expr::col((cluster::Entity, cluster::Column::AccountId))
                    .equals((error_occurrence::Entity, Column::AccountId))
                    .and(
                        Expr::col((cluster::Entity, cluster::Column::Id))
                            .equals((error_occurrence::Entity, Column::ClusterId)),
                    );
                let mut select = select.expr_as(user(), "user_id").filter(user().is_not_null());
                QuerySelect::query(&mut select)
                    .inner_join(cluster::Entity, of_cluster)
                    .add_group_by([user()])
                    .order_by_expr(user(), sea_orm::Order::Asc);
                let rows: Vec<(i64, UserId)> = select.into_tuple().all(&self.reads()).await?;
                Ok(rows.into_iter().map(|(errors, id)| (Subject::User(id), number(errors))).collect())
            }
        }
    }

    /// What was used in the hours of some days, by cluster and day, at the prices of the days.
    async fn holding_cost(
        &self,
        (nanos, currency): (i64, &str),
        (from, to): (i64, i64),
        of: Whose,
        clusters: &ClusterFilter,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use usage_hour::Column;
        let rates = RateCard::new(self.cost_rates().await?);
        let user = || Expr::col((cluster::Entity, cluster::Column::UserId));
        let hours = |column: Column| Expr::col((usage_hour::Entity, column));
        let of_cluster = Expr::col((cluster::Entity, cluster::Column::AccountId))
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
            select = select.expr_as(sum_of(("usage_hours", column)), column);
        }
        if let Some(of_clusters) = self.of_clusters(clusters, Column::ClusterId) {
            select = select.filter(of_clusters);
        }
        QuerySelect::query(&mut select).inner_join(cluster::Entity, of_cluster).add_group_by([
            hours(Column::ClusterId),
            user(),
            Expr::cust(DAY),
        ]);
        let rows: Vec<DayUse> = select.into_model().all(&self.reads()).await?;
        let mut spent: BTreeMap<Subject, Vec<(i64, Usage)>> = BTreeMap::new();
        for row in rows {
            let subject = match (of, row.user_id) {
                (Whose::Account, _) => Subject::Account,
                (Whose::Cluster, _) => Subject::Cluster(row.cluster_id),
                (Whose::User, Some(user)) => Subject::User(user),
                (Whose::User, None) => continue,
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
        let dear = costs.filter(|(_, cost)| *cost >= i128::from(nanos));
        Ok(dear.map(|(subject, cost)| (subject, amount(cost))).collect())
    }

    async fn holding_idle(
        &self,
        for_seconds: i64,
        clusters: ClusterFilter,
        now: Timestamp,
    ) -> Result<BTreeMap<Subject, f64>, StoreError> {
        use cluster::Column;
        let filter = ClusterFilter { idle_for_ms: Some(for_seconds * 1_000), ..clusters };
        let idle = Expr::col((cluster::Entity, Column::ReportedAt))
            .sub(Expr::col((cluster::Entity, Column::IdleSince)));
        let select = self
            .filtered_clusters(&filter)
            .select_only()
            .column(Column::Id)
            .expr_as(idle, "idle")
            // What is open has an index, and of what is open only what reports is idle.
            .filter(Column::EndedKey.eq(i64::MAX))
            .filter(Column::LastSeenAt.gte(now.timestamp_millis() - GONE_MS));
        let select = select.order_by_asc(Column::Id).limit(MAX_SUBJECTS);
        let rows: Vec<(ClusterId, i64)> = select.into_tuple().all(&self.reads()).await?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
        let seconds = |ms: i64| ms as f64 / 1e3;
        Ok(rows.into_iter().map(|(id, idle)| (Subject::Cluster(id), seconds(idle))).collect())
    }
}
