//! The GraphQL type of an account, the tenant of the service.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};

use super::{
    account_list::AccountLists,
    account_series::{self, AccountSeries},
    account_watch::AccountMonitoring,
    data_policy::DataPolicy,
    performance_report::{self, PerformanceReport},
    quota::AccountQuota,
};
use crate::{
    domain::{fine_metric::SECONDS, permission::Permission},
    graphql::{
        access::{
            api_token::{self, ApiToken},
            audit_entry::{self, AuditEntry, AuditFilter},
            invitation::{self, Invitation},
            member::{self, Member},
            permission::{AccountPermissions, require},
            token_policy::TokenPolicy,
            user::User,
        },
        analysis::{
            analysis_scope::WorkScope,
            breakdown::{FineMetricDimension, FineMetricTable},
            comparison::{Comparison, ComparisonDimension},
            idle_backtest::IdleBacktest,
            idle_policy::IdlePolicy,
        },
        clusters::{
            cluster::Cluster,
            cluster_list::{self, ClusterConnection, ClusterFilter, ClusterOrder, TimeRange},
            cluster_tag::TagPattern,
        },
        computations::{
            function::{self, Function},
            profile::Profile,
        },
        costs::{
            cost::CostRate,
            statistics::Statistics,
            usage::{self, Usage, UsageScope},
            usage_table::{self, TableArguments, UsageDimension, UsageRow},
        },
        engine::{
            connection::{Connection, PageArguments},
            error::{ApiError, NullOnError},
            id::GlobalId,
            projection::InlineList,
            scalar::Date,
            scope::AccountScope,
        },
        errors::{
            error_group::{self, ErrorGroupArguments, ErrorGroupConnection, ErrorOrigin},
            error_status::ErrorGroupStatus,
        },
        subscription::current_cursor,
        telemetry::series::SampleMetric,
    },
    store::TokenKind,
};

/// An account. Its members, and nobody else, can read its data. Every member can read all of it, except
/// private saved views and private performance reports of others.
pub(crate) struct Account(pub(crate) AccountScope);

/// An account. Its members, and nobody else, can read its data. Every member can read all of it, except
/// private saved views and private performance reports of others.
#[Object]
impl Account {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Account(self.0.account.id).into()
    }

    /// The short name of the account in URLs.
    async fn slug(&self) -> &str {
        &self.0.account.slug
    }

    /// A cursor of the current position of the account's subscriptions, for their argument `after`. A
    /// client that reads this cursor before its first query, and then subscribes after it, misses no
    /// change.
    async fn live_cursor(&self) -> Result<String, ApiError> {
        current_cursor(&self.0).await
    }

    /// The display name of the account.
    async fn name(&self) -> &str {
        &self.0.account.name
    }

    /// The time at which the account was created, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.account.created_at.0
    }

    /// The resources that the clusters of the account used, and their cost. Up to one minute old; up to
    /// ten minutes if the account has very many clusters.
    async fn usage(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first day. Null for all days since the account was created.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last day. Null for all days up to now.")] to: Option<Date>,
        #[graphql(
            desc = "Only clusters that pass this filter. Null for all clusters. A filter with a condition \
                    other than `users` may select at most 10,000 clusters of these days; more is an error \
                    with the code `BAD_USER_INPUT`. One query may request at most five sums over such \
                    filters."
        )]
        clusters: Option<ClusterFilter>,
    ) -> Result<Usage, ApiError> {
        let days = usage::day_range(from, to)?;
        UsageScope::resolve(&self.0, days, clusters, None).await?.load(&self.0, context).await
    }

    /// The account in figures: its clusters, its users, and the resources used.
    async fn statistics(
        &self,
        #[graphql(desc = "The first day. Null for all days since the account was created.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last day. Null for all days up to now.")] to: Option<Date>,
        #[graphql(
            desc = "Only clusters that pass this filter. Null for all clusters. A filter with a condition \
                    other than `users` may select at most 10,000 clusters of these days; more is an error \
                    with the code `BAD_USER_INPUT`. One query may request at most five sums over such \
                    filters."
        )]
        clusters: Option<ClusterFilter>,
    ) -> Result<Statistics, ApiError> {
        let usage_scope = UsageScope::resolve(&self.0, usage::day_range(from, to)?, clusters, None).await?;
        Ok(Statistics { scope: self.0.clone(), usage_scope })
    }

    /// The resources used, as a table with one row for each combination of the dimensions in `by`.
    /// Combinations without usage have no row. As old as `usage` of the account. At most 10,000 rows, summed
    /// from at most 100,000 values, each for one day or hour of one user or function. Null, with the error
    /// code `BAD_USER_INPUT`, if a limit is exceeded.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn usage_table(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first day.")] from: Date,
        #[graphql(desc = "The day after the last day.")] to: Date,
        #[graphql(
            desc = "The dimensions of the rows, at most one of them a unit of time. One row for everything \
                    if empty.",
            default_with = "vec![UsageDimension::Day]"
        )]
        by: Vec<UsageDimension>,
        #[graphql(
            desc = "For rows by `TAG`, the key of the tags to include. Null for all keys. A cluster has at \
                    most one tag of a key, so with this argument the rows add up to the total."
        )]
        tag_key: Option<String>,
        #[graphql(
            desc = "For rows by `VERSION`, the package; `python` for Python itself.",
            default = "dask"
        )]
        package: String,
        #[graphql(
            desc = "Only clusters that pass this filter. Null for all clusters. A filter with a condition \
                    other than `users` may select at most 10,000 clusters of these days; more is an error \
                    with the code `BAD_USER_INPUT`. One query may request at most five sums over such \
                    filters."
        )]
        clusters: Option<ClusterFilter>,
    ) -> NullOnError<InlineList<UsageRow>> {
        let table = async {
            let days = usage::day_range(Some(from), Some(to))?;
            let usage_columns = Usage::selected_columns(&context.look_ahead().field("usage"));
            let arguments = TableArguments { days, clusters, by, tag_key, package, usage_columns };
            usage_table::load_usage_table(&self.0, arguments).await.map(InlineList)
        };
        Some(table.await)
    }

    /// The resources used by each function, the longest compute time first. As old as `usage`. Null, with the
    /// error code `BAD_USER_INPUT`, if an argument is invalid.
    async fn functions(
        &self,
        #[graphql(desc = "The first day. Null for all days since the account was created.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last day. Null for all days up to now.")] to: Option<Date>,
        #[graphql(desc = "Only usage on this user's clusters. Null for all users.")] user: Option<ID>,
        #[graphql(desc = "The number of functions, 1 to 1,000.", default = 100)] first: i32,
        #[graphql(
            desc = "Only clusters that pass this filter. Null for all clusters. A filter with a condition \
                    other than `users` may select at most 10,000 clusters of these days; more is an error \
                    with the code `BAD_USER_INPUT`. One query may request at most five sums over such \
                    filters."
        )]
        clusters: Option<ClusterFilter>,
    ) -> NullOnError<InlineList<Function>> {
        let functions = async {
            let user = user.map(|user| User::parse_id(&self.0, "user", &user)).transpose()?;
            let usage_scope =
                UsageScope::resolve(&self.0, usage::day_range(from, to)?, clusters, user).await?;
            function::load_account_functions(&self.0, usage_scope, first).await.map(InlineList)
        };
        Some(functions.await)
    }

    /// The stored performance reports that the viewer may see, the most recently stored first.
    async fn performance_reports(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<PerformanceReport>, ApiError> {
        let page = PageArguments { first, after, last, before };
        performance_report::load_performance_reports(context, &self.0, page).await
    }

    /// The cost rates of the account, in the order of their first days. The server's estimate applies to days
    /// before the first rate, and to all days if there are no rates.
    async fn cost_rates(&self) -> Result<Vec<CostRate>, ApiError> {
        Ok(self.0.store.cost_rates().await?.into_iter().map(CostRate::from).collect())
    }

    /// The clusters that ever reported to this account, or those that pass `filter`.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn clusters(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only clusters that pass this filter. Null for all clusters.")] filter: Option<
            ClusterFilter,
        >,
        #[graphql(
            desc = "The number of items from the start, 1 to 100; 20 unless `last` is given. Up to 500 if only \
                    these fields of the clusters are selected: `id`, `number`, `schedulerId`, `name`, `user`, \
                    `state`, `desiredState`, `startedAt`, `endedAt`, `durationSeconds`, `lastSeenAt`, \
                    `idleSince`, `idleSeconds` and `totals`."
        )]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100, or to 500 as for `first`.")]
        last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
        #[graphql(desc = "The order of the list.", default)] order_by: ClusterOrder,
    ) -> Result<ClusterConnection, ApiError> {
        let page = PageArguments { first, after, last, before }
            .with_summary_columns::<Cluster>(context)
            .allow_long_page(context);
        cluster_list::load_cluster_page(&self.0, filter.unwrap_or_default(), order_by, page).await
    }

    /// The groups of similar errors on all clusters of the account, the group with the newest error
    /// first. A group moves to the front of the list when one of its errors occurs again. With any
    /// filter but `lastSeenIn`, one page examines at most 10,000 groups. Null, with the error code
    /// `BAD_USER_INPUT`, if more than 500 clusters pass `clusters`.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn error_groups(
        &self,
        #[graphql(
            desc = "Only groups with an error on a cluster that passes this filter. At most 500 clusters \
                    may pass it. All fields of a group still cover all clusters. Null for all groups."
        )]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
        #[graphql(desc = "Only errors of this origin. Null for all.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "Only exceptions of one of these classes, at most 100. Null for all.")]
        types: Option<Vec<String>>,
        #[graphql(
            desc = "Only groups whose newest error occurred in this period, by its scheduler's clock."
        )]
        last_seen_in: Option<TimeRange>,
        #[graphql(desc = "Only groups with one of these statuses. Null for all.")] status: Option<
            Vec<ErrorGroupStatus>,
        >,
    ) -> NullOnError<ErrorGroupConnection> {
        let arguments = ErrorGroupArguments { clusters, origin, types, last_seen_in, status };
        Some(
            error_group::load_group_page(&self.0, arguments, PageArguments { first, after, last, before })
                .await,
        )
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn lists(&self) -> AccountLists {
        AccountLists(self.0.clone())
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn permissions(&self) -> AccountPermissions {
        AccountPermissions(self.0.clone())
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn monitoring(&self) -> AccountMonitoring {
        AccountMonitoring(self.0.clone())
    }

    /// The fine performance metrics of selected work, summed over its clusters and grouped by any
    /// dimensions. Null, with the error code `BAD_USER_INPUT`, if the result is too large for one
    /// response.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "The selected work. All work of the account by default.", default)] scope: WorkScope,
        #[graphql(
            desc = "The dimensions of the rows. If empty, there is one row for each `FineMetricPart`, and a \
                    second one of `OUTSIDE_TASKS` for values that belong to no span.",
            default_with = "vec![FineMetricDimension::Function, FineMetricDimension::Activity]"
        )]
        by: Vec<FineMetricDimension>,
        #[graphql(
            desc = "The unit of the values. The field `units` of the result lists the available units.",
            default_with = "SECONDS.to_owned()"
        )]
        unit: String,
        #[graphql(desc = "The maximum number of rows, 1 to 5,000. Null for 1,000.")] first: Option<i32>,
    ) -> NullOnError<FineMetricTable> {
        Some(FineMetricTable::find(&self.0, scope, &by, unit, first).await)
    }

    /// The statistical profile of selected work, merged over its clusters and users from the newest
    /// windows of each cluster, at most 500 windows in total. Profiles cannot be selected by spans. The
    /// profiles of one query merge at most 1,000 windows. Null if there are no windows.
    /// Null, with the error code `KEY_MISSING` or `DAMAGED`, if none of them can be decrypted.
    async fn profile(
        &self,
        #[graphql(desc = "The selected work. All work of the account by default.", default)] scope: WorkScope,
        #[graphql(
            desc = "The minimum share of the samples that a node needs to be included, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
    ) -> NullOnError<Profile> {
        let profile = async {
            let work = scope.find(&self.0, "scope").await?;
            Profile::find_for_work(&self.0, &work, min_share).await
        };
        profile.await.transpose()
    }

    /// The measurements of selected work over time, combined over its clusters. The period is the last
    /// 24 hours by default, and at most 31 days. Measurements cannot be selected by spans or functions.
    /// Null, with the error code `BAD_USER_INPUT`, if the result is too large for one response.
    async fn series(
        &self,
        #[graphql(desc = "The metrics. The result has one series for each of them, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(desc = "The selected work. All work of the account by default.", default)] scope: WorkScope,
        #[graphql(
            desc = "The width of a bucket, in seconds, at least 60. Null for the smallest width that gives \
                    at most 2,000 points."
        )]
        bucket_seconds: Option<i32>,
    ) -> NullOnError<Vec<AccountSeries>> {
        Some(account_series::load_series(&self.0, scope, metrics, bucket_seconds).await)
    }

    /// The comparison of two selections of work: how much more or less the second one used than the first,
    /// and the other differences. Null, with the error code `BAD_USER_INPUT`, if the result is too large for
    /// one response.
    async fn compare(
        &self,
        #[graphql(desc = "The first work, the baseline of the comparison.")] base: WorkScope,
        #[graphql(desc = "The second work, which is compared with the baseline.")] head: WorkScope,
        #[graphql(
            desc = "The dimensions of the rows. If empty, there is one row for each `FineMetricPart`, and a \
                    second one of `OUTSIDE_TASKS` for values that belong to no span.",
            default_with = "vec![ComparisonDimension::Span, ComparisonDimension::Function, ComparisonDimension::Activity]"
        )]
        by: Vec<ComparisonDimension>,
        #[graphql(desc = "The unit of the values.", default_with = "SECONDS.to_owned()")] unit: String,
        #[graphql(desc = "The maximum number of rows, 1 to 5,000. Null for 100.")] first: Option<i32>,
    ) -> NullOnError<Comparison> {
        Some(Comparison::find(&self.0, base, head, &by, unit, first).await)
    }

    /// The account's policy for each class of data: its acceptance and its retention.
    async fn data_policies(&self) -> Result<Vec<DataPolicy>, ApiError> {
        DataPolicy::load_all(&self.0).await
    }

    /// The quotas of the account, and how much of them is used.
    async fn quota(&self) -> Result<AccountQuota, ApiError> {
        AccountQuota::load(&self.0).await
    }

    /// The account's policy for idle clusters.
    async fn idle_policy(&self) -> Result<IdlePolicy, ApiError> {
        IdlePolicy::load(&self.0).await
    }

    /// The estimated effect of stopping clusters after a time without work: the savings, and the computations
    /// it would have affected. Covers the clusters that started in `startedIn`, at most the 1,000 newest.
    /// Null, with the error code `BAD_USER_INPUT`, if an argument is invalid.
    async fn idle_backtest(
        &self,
        #[graphql(
            desc = "The time without work after which a cluster is stopped, in seconds, 60 to 31,536,000."
        )]
        timeout_seconds: i32,
        #[graphql(desc = "The tags of clusters that are never stopped, at most 20.", default)]
        exempt_tags: Vec<TagPattern>,
        #[graphql(
            desc = "Only clusters whose scheduler started in this period, by its own clock. Null for the \
                    last 30 days."
        )]
        started_in: Option<TimeRange>,
    ) -> NullOnError<IdleBacktest> {
        Some(IdleBacktest::find(&self.0, timeout_seconds, &exempt_tags, started_in).await)
    }

    /// The members of the account, in the order in which they joined. Null, with the error code
    /// `FORBIDDEN`, for a token without the scope `admin`.
    async fn members(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<Member>> {
        if let Err(error) = require(context, Permission::ManageMembers) {
            return Some(Err(error));
        }
        Some(member::load_members(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// The tokens of the members, the newest first, including revoked and expired ones. The tokens of
    /// schedulers are in `schedulerTokens`. Null, with the error code `FORBIDDEN`, for a token without
    /// the scope `admin`.
    async fn tokens(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<ApiToken>> {
        if let Err(error) = require(context, Permission::ManageMembers) {
            return Some(Err(error));
        }
        let page = PageArguments { first, after, last, before };
        Some(api_token::load_tokens(&self.0, TokenKind::Personal, None, page).await)
    }

    /// The tokens of the members' schedulers, the newest first. Each is valid only for the reports of
    /// one scheduler, and is deleted one day after it ended. Null, with the error code `FORBIDDEN`, for
    /// a token without the scope `admin`.
    async fn scheduler_tokens(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<ApiToken>> {
        if let Err(error) = require(context, Permission::ManageMembers) {
            return Some(Err(error));
        }
        let page = PageArguments { first, after, last, before };
        Some(api_token::load_tokens(&self.0, TokenKind::OfSchedulers, None, page).await)
    }

    /// The account's policy for the tokens of schedulers. Null, with the error code `FORBIDDEN`, for a
    /// token without the scope `admin`.
    async fn token_policy(&self, context: &Context<'_>) -> NullOnError<TokenPolicy> {
        if let Err(error) = require(context, Permission::ChangeSettings) {
            return Some(Err(error));
        }
        Some(TokenPolicy::find(&self.0).await)
    }

    /// The invitations of the account, the newest first, including accepted and expired ones. Null, with
    /// the error code `FORBIDDEN`, for a token without the scope `admin`.
    async fn invitations(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<Invitation>> {
        if let Err(error) = require(context, Permission::ManageMembers) {
            return Some(Err(error));
        }
        Some(invitation::invitations(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// The audit log of the account, the newest entry first: all changes by members and operators,
    /// refused attempts, and accesses to code. Entries are never changed or removed. Null, with the
    /// error code `FORBIDDEN`, for a token without the scope `admin`.
    async fn audit_log(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only entries that meet all conditions of this filter. Null for all entries.")]
        filter: Option<AuditFilter>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<AuditEntry>> {
        if let Err(error) = require(context, Permission::ReadAuditLog) {
            return Some(Err(error));
        }
        let page = PageArguments { first, after, last, before };
        Some(audit_entry::audit_log(&self.0, filter.unwrap_or_default(), page).await)
    }
}
