//! Accounts: the tenants.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};

use super::{
    account_list::AccountLists,
    account_series::{self, AccountSeries},
    account_watch::AccountWatch,
    api_token::{self, ApiToken},
    audit_entry::{self, AuditEntry, AuditFilter},
    breakdown::{FineMetricDimension, FineMetricTable},
    cluster::Cluster,
    cluster_list::{self, ClusterConnection, ClusterFilter, ClusterOrder, TimeRange},
    cluster_tag::TagPattern,
    comparison::{Comparison, ComparisonDimension},
    connection::{Connection, PageArguments},
    cost::CostRate,
    data_policy::DataPolicy,
    error::{Alone, ApiError},
    error_group::{self, ErrorGroup, ErrorGroupArguments, ErrorOrigin},
    error_status::ErrorGroupStatus,
    function::{self, Function},
    id::GlobalId,
    idle_backtest::IdleBacktest,
    idle_policy::IdlePolicy,
    in_place::Items,
    invitation::{self, Invitation},
    member::{self, Member},
    mutation::admin,
    performance_report::{self, PerformanceReport},
    profile::Profile,
    scalar::Date,
    scope::AccountScope,
    series::SampleMetric,
    statistics::Statistics,
    subscription::position_now,
    usage::{self, Usage},
    usage_table::{self, TableArguments, UsageDimension, UsageRow},
    user::User,
    work_scope::WorkScope,
};
use crate::domain::fine_metric::SECONDS;

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

    /// Where its subscriptions are now: a cursor to begin any of them `after`. Whoever asks for it before they ask for what
    /// there is, and then subscribes, misses nothing in between.
    async fn live_cursor(&self) -> Result<String, ApiError> {
        position_now(&self.0).await
    }

    /// The name for people.
    async fn name(&self) -> &str {
        &self.0.account.name
    }

    /// When the account was made.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.account.created_at.0
    }

    /// What all of its clusters used, and what that cost. Up to a minute old.
    async fn usage(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
    ) -> Result<Usage, ApiError> {
        usage::of_account(&self.0, usage::days(from, to)).await
    }

    /// What it comes to: clusters, users, and what was used.
    async fn statistics(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
    ) -> Statistics {
        Statistics { scope: self.0.clone(), days: usage::days(from, to) }
    }

    /// What was used as a table, by time and user; what was not used has no row. At most 10,000 rows, made of at most
    /// 100,000 days or hours of users and functions; null, with an error, where it would have more. Up to a minute old.
    async fn usage_table(
        &self,
        #[graphql(desc = "The first day.")] from: Date,
        #[graphql(desc = "The day after the last one.")] to: Date,
        #[graphql(
            desc = "What has a row of its own, at most one of times; one row for everything if empty.",
            default_with = "vec![UsageDimension::Day]"
        )]
        by: Vec<UsageDimension>,
        #[graphql(
            desc = "For rows by TAG, only tags with this key; a cluster has one at the most, so rows add up."
        )]
        tag_key: Option<String>,
        #[graphql(desc = "For rows by VERSION, the package; `python` for Python itself.", default = "dask")]
        package: String,
    ) -> Alone<Items<UsageRow>> {
        let days = usage::days(Some(from), Some(to));
        Some(usage_table::table(&self.0, TableArguments { days, by, tag_key, package }).await.map(Items))
    }

    /// What its functions used, those that computed longest first; null, with an error, where it cannot be told. Up to a
    /// minute old.
    async fn functions(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
        #[graphql(desc = "Only what this user's clusters ran.")] user: Option<ID>,
        #[graphql(desc = "The first so many, 1 to 1,000.", default = 100)] first: i32,
    ) -> Alone<Items<Function>> {
        let functions = async {
            let user = user.map(|user| User::identified(&self.0, "user", &user)).transpose()?;
            function::of_days(&self.0, usage::days(from, to), user, first).await.map(Items)
        };
        Some(functions.await)
    }

    /// The performance reports that were stored and that the viewer may see, those stored last first.
    async fn performance_reports(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<PerformanceReport>, ApiError> {
        let page = PageArguments { first, after, last, before };
        performance_report::performance_reports(context, &self.0, page).await
    }

    /// What things cost, the first rate first. Days before it, and all days if there is none, are estimated.
    async fn cost_rates(&self) -> Result<Vec<CostRate>, ApiError> {
        Ok(self.0.store.cost_rates().await?.into_iter().map(CostRate::from).collect())
    }

    /// The clusters that ever reported to this account, or those of them that pass a filter.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn clusters(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only clusters that pass all of its conditions; all if absent.")] filter: Option<
            ClusterFilter,
        >,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(desc = "The order of the list.", default)] order_by: ClusterOrder,
    ) -> Result<ClusterConnection, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<Cluster>(context);
        cluster_list::clusters(&self.0, filter.unwrap_or_default(), order_by, page).await
    }

    /// The errors of all of its clusters, those that look alike as one; the group with the newest error first. Groups may
    /// come to the front meanwhile, by an error that happens again. With any filter but `lastSeenIn` one page looks at no more
    /// than 10,000 groups: it may hold fewer than asked for, or none, while `hasNextPage` (with `last`, `hasPreviousPage`) says
    /// that there is more to look at and the cursor where to go on. Null, with an error, where `clusters` passes too many.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn error_groups(
        &self,
        #[graphql(
            desc = "Only groups with an error on a cluster that passes all of its conditions, of 500 such clusters at the most; \
                    what else is told of them is of all clusters."
        )]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(desc = "Only failures of one kind of code; all if absent.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "Only exceptions of one of these classes, at most 100; of all if absent.")]
        types: Option<Vec<String>>,
        #[graphql(desc = "Only groups whose newest error happened in this time, by its scheduler's clock.")]
        last_seen_in: Option<TimeRange>,
        #[graphql(desc = "Only those of which one of these is to be thought; all if absent.")] status: Option<
            Vec<ErrorGroupStatus>,
        >,
    ) -> Alone<Connection<ErrorGroup>> {
        let arguments = ErrorGroupArguments { clusters, origin, types, last_seen_in, status };
        Some(error_group::groups(&self.0, arguments, PageArguments { first, after, last, before }).await)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn lists(&self) -> AccountLists {
        AccountLists(self.0.clone())
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn watch(&self) -> AccountWatch {
        AccountWatch(self.0.clone())
    }

    /// What some work spent, told apart by any dimensions: fine performance metrics summed over all clusters, or those of
    /// a scope. Null, with an error, where that would be too much for one answer.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "Which work; all of the account if absent.", default)] scope: WorkScope,
        #[graphql(
            desc = "What has a row of its own. If empty, each part has one row for everything, BESIDE one more for what \
                    belongs to no span.",
            default_with = "vec![FineMetricDimension::Function, FineMetricDimension::Activity]"
        )]
        by: Vec<FineMetricDimension>,
        #[graphql(
            desc = "The unit of the values; `units` of the answer tells which there are.",
            default_with = "SECONDS.to_owned()"
        )]
        unit: String,
        #[graphql(desc = "At most so many rows, 1 to 5000; 1000 unless given.")] first: Option<i32>,
    ) -> Alone<FineMetricTable> {
        Some(FineMetricTable::find(&self.0, scope, &by, unit, first).await)
    }

    /// The statistical profile of all clusters, or those of a scope, over all of their users: of each cluster its newest
    /// windows, at most 500 in all. Null when there is none, and null, with an error, when none of them can be decrypted.
    /// Profiles are not told by spans or functions. The profiles of one query merge 1,000 windows at the most.
    async fn profile(
        &self,
        #[graphql(desc = "Which work; all of the account if absent.", default)] scope: WorkScope,
        #[graphql(
            desc = "Leave out what was part of a smaller share of the samples than this, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
    ) -> Alone<Profile> {
        let profile = async {
            let work = scope.find(&self.0, "scope").await?;
            Profile::of_work(&self.0, &work, min_share).await
        };
        profile.await.transpose()
    }

    /// What was measured of all clusters, or those of a scope, over time, put together: of the last 24 hours unless the
    /// scope says, and of 31 days at the most. Measurements are not told by spans or functions. Null, with an error, where it
    /// would be too much for one answer.
    async fn series(
        &self,
        #[graphql(desc = "What was measured; the answer has one series for each, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(desc = "Which work; all of the account if absent.", default)] scope: WorkScope,
        #[graphql(
            desc = "Seconds summed up in one point, at least 60; as few as make at most 2,000 points if not given."
        )]
        bucket_seconds: Option<i32>,
    ) -> Alone<Vec<AccountSeries>> {
        Some(account_series::series(&self.0, scope, metrics, bucket_seconds).await)
    }

    /// Two pieces of work beside each other: what the second spent more or less than the first, and what else differs. Null,
    /// with an error, where that would be too much for one answer.
    async fn compare(
        &self,
        #[graphql(desc = "The first work, which the other is measured by.")] base: WorkScope,
        #[graphql(desc = "The second work.")] head: WorkScope,
        #[graphql(
            desc = "What has a row of its own. If empty, each part has one row for everything, BESIDE one more for what \
                    belongs to no span.",
            default_with = "vec![ComparisonDimension::Span, ComparisonDimension::Function, ComparisonDimension::Activity]"
        )]
        by: Vec<ComparisonDimension>,
        #[graphql(desc = "The unit of the values.", default_with = "SECONDS.to_owned()")] unit: String,
        #[graphql(desc = "At most so many rows, 1 to 5000; 100 unless given.")] first: Option<i32>,
    ) -> Alone<Comparison> {
        Some(Comparison::find(&self.0, base, head, &by, unit, first).await)
    }

    /// What it accepts of each class of data, and for how long it keeps it.
    async fn data_policies(&self) -> Result<Vec<DataPolicy>, ApiError> {
        DataPolicy::all(&self.0).await
    }

    /// What it wants of clusters that have nothing to do.
    async fn idle_policy(&self) -> Result<IdlePolicy, ApiError> {
        IdlePolicy::of(&self.0).await
    }

    /// What it would have saved, and whom it would have disturbed, to stop clusters that had nothing to do for so long: of
    /// the clusters that started in a time, at most the 1,000 newest. Null, with an error, where it cannot be told.
    async fn idle_backtest(
        &self,
        #[graphql(desc = "How long without work is too long, 60 to 31,536,000 seconds.")]
        timeout_seconds: i32,
        #[graphql(desc = "Clusters with one of these tags are left alone, at most 20.", default)]
        exempt_tags: Vec<TagPattern>,
        #[graphql(
            desc = "Only clusters whose scheduler started in this time, by its own clock; in the last 30 days if absent."
        )]
        started_in: Option<TimeRange>,
    ) -> Alone<IdleBacktest> {
        Some(IdleBacktest::find(&self.0, timeout_seconds, &exempt_tags, started_in).await)
    }

    /// Who belongs to it, in the order in which they came. Null, with an error, for a token without the scope `admin`.
    async fn members(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<Member>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(member::members(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// The tokens of its members, the newest first, with those that were revoked or have expired. Null, with an error, for a
    /// token without the scope `admin`.
    async fn tokens(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<ApiToken>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(api_token::tokens(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// Whom its members invited, the newest first, with those who accepted and those who did not in time. Null, with an error,
    /// for a token without the scope `admin`.
    async fn invitations(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<Invitation>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(invitation::invitations(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// What was done in it and by whom, the newest first: every change, by members or operators, what was tried without the
    /// right to it, and who read code. Nothing of it is ever changed or removed. Null, with an error, for a token without the
    /// scope `admin`.
    async fn audit_log(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Which entries are meant; all if not given.")] filter: Option<AuditFilter>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<AuditEntry>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        let page = PageArguments { first, after, last, before };
        Some(audit_entry::audit_log(&self.0, filter.unwrap_or_default(), page).await)
    }
}
