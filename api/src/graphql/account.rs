//! Accounts: the tenants.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};

use super::{
    account_list::AccountLists,
    api_token::{self, ApiToken},
    cluster_list::{self, ClusterConnection, ClusterFilter, ClusterOrder, TimeRange},
    connection::{Connection, PageArguments},
    cost::CostRate,
    data_policy::DataPolicy,
    error::{ApiError, Unsealed},
    error_group::{self, ErrorGroup, ErrorGroupArguments, ErrorOrigin},
    error_status::ErrorGroupStatus,
    function::{self, Function},
    id::GlobalId,
    idle_policy::IdlePolicy,
    list::Items,
    member::{self, Member},
    mutation::admin,
    scalar::Date,
    scope::AccountScope,
    statistics::Statistics,
    usage::{self, Usage},
    usage_table::{self, TableArguments, UsageDimension, UsageRow},
};

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
    /// 100,000 days or hours of users and functions. Up to a minute old.
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
    ) -> Result<Items<UsageRow>, ApiError> {
        let days = usage::days(Some(from), Some(to));
        usage_table::table(&self.0, TableArguments { days, by, tag_key, package }).await.map(Items)
    }

    /// What its functions used, those that computed longest first. Up to a minute old.
    async fn functions(
        &self,
        #[graphql(desc = "The first day; all days since the account was made if not given.")] from: Option<
            Date,
        >,
        #[graphql(desc = "The day after the last one; up to now if not given.")] to: Option<Date>,
        #[graphql(desc = "Only what this user's clusters ran.")] user: Option<ID>,
        #[graphql(desc = "The first so many, 1 to 1,000.", default = 100)] first: i32,
    ) -> Result<Items<Function>, ApiError> {
        let user = match user.as_ref().map(GlobalId::parse) {
            None => None,
            Some(Some(GlobalId::User(account, user))) if account == self.0.account.id => Some(user),
            Some(_) => return Err(ApiError::NotFound("user")),
        };
        function::of_days(&self.0, usage::days(from, to), user, first).await.map(Items)
    }

    /// What things cost, the first rate first. Days before it, and all days if there is none, are estimated.
    async fn cost_rates(&self) -> Result<Vec<CostRate>, ApiError> {
        Ok(self.0.store.cost_rates().await?.into_iter().map(CostRate::from).collect())
    }

    /// The clusters that ever reported to this account, or those of them that pass a filter.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn clusters(
        &self,
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
        let page = PageArguments { first, after, last, before };
        cluster_list::clusters(&self.0, filter.unwrap_or_default(), order_by, page).await
    }

    /// The errors of all of its clusters, those that look alike as one; the group with the newest error first. Groups may
    /// come to the front meanwhile, by an error that happens again.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn error_groups(
        &self,
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
    ) -> Result<Connection<ErrorGroup>, ApiError> {
        let arguments = ErrorGroupArguments { origin, types, last_seen_in, status };
        error_group::groups(&self.0, arguments, PageArguments { first, after, last, before }).await
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn lists(&self) -> AccountLists {
        AccountLists(self.0.clone())
    }

    /// What it accepts of each class of data, and for how long it keeps it.
    async fn data_policies(&self) -> Result<Vec<DataPolicy>, ApiError> {
        DataPolicy::all(&self.0).await
    }

    /// What it wants of clusters that have nothing to do.
    async fn idle_policy(&self) -> Result<IdlePolicy, ApiError> {
        IdlePolicy::of(&self.0).await
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
    ) -> Unsealed<Connection<Member>> {
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
    ) -> Unsealed<Connection<ApiToken>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(api_token::tokens(&self.0, PageArguments { first, after, last, before }).await)
    }
}
