//! Functions and operations: the usage of their tasks and its cost.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Object, SimpleObject, dataloader::Loader};
use entity::ids::ClusterId;
use tokio::sync::OnceCell;

use crate::{
    domain::{cost, usage::Usage},
    graphql::{
        costs::{
            cost::CostBasis,
            usage::{UsageScope, to_seconds},
        },
        engine::{
            error::ApiError,
            loaders::StoreReader,
            projection::{FieldWriter, SelectedField, WriteInline, inline_members},
            scalar::BigInt,
            scope::AccountScope,
        },
    },
    store::{FunctionUsage, HourRange, PaidResources, StoreError},
};

/// The maximum number of functions in one list.
const MAX_FUNCTIONS: i32 = 1_000;

/// Sums over the tasks of one function.
#[derive(SimpleObject)]
pub(crate) struct FunctionTotals {
    /// The function or operation: the prefix of its task groups.
    prefix: String,
    /// The thread time spent computing tasks that succeeded, in seconds.
    compute_seconds: f64,
    /// The time spent fetching the tasks' inputs from other workers, in seconds.
    transfer_seconds: f64,
    /// The number of times one of its tasks reached the state `memory`.
    tasks: BigInt,
    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    tasks_erred: BigInt,
    /// The size of the tasks' results, in bytes.
    bytes: BigInt,
}

inline_members! { FunctionTotals: prefix, compute_seconds, transfer_seconds, tasks, tasks_erred, bytes }

impl From<FunctionUsage> for FunctionTotals {
    fn from(row: FunctionUsage) -> Self {
        Self {
            prefix: row.prefix,
            compute_seconds: to_seconds(row.compute_us),
            transfer_seconds: to_seconds(row.transfer_us),
            tasks: BigInt(row.tasks),
            tasks_erred: BigInt(row.tasks_erred),
            bytes: BigInt(row.bytes),
        }
    }
}

/// The clusters and the time that a list of functions covers.
enum FunctionScope {
    /// One cluster in some hours.
    Cluster(ClusterId, HourRange),
    /// Selected clusters of the account on some days.
    Account(Box<UsageScope>),
}

/// The usage of the tasks of one function, and its cost.
pub(crate) struct Function {
    list: Arc<FunctionList>,
    totals: FunctionTotals,
}

/// The data that the functions of one list share.
struct FunctionList {
    scope: AccountScope,
    selection: FunctionScope,
    prefixes: Vec<String>,
    /// The usage that the functions are charged for, by prefix. Read once for all functions of the list.
    charged_usage: OnceCell<HashMap<String, Vec<PaidResources>>>,
}

impl FunctionList {
    async fn load_charged_usage(&self) -> Result<&HashMap<String, Vec<PaidResources>>, ApiError> {
        let load = async || {
            let paid_resources = match &self.selection {
                FunctionScope::Cluster(cluster, hours) => {
                    let key = ChargedUsageKey { cluster: *cluster, hours: *hours };
                    self.scope.loader.load_one(key).await?.unwrap_or_default()
                }
                FunctionScope::Account(usage) => {
                    let UsageScope { days, clusters, .. } = &**usage;
                    self.scope.store.load_paid_resources(*days, clusters, &self.prefixes).await?
                }
            };
            let mut resources_by_prefix: HashMap<String, Vec<PaidResources>> = HashMap::new();
            for resources in paid_resources {
                resources_by_prefix.entry(resources.prefix.clone()).or_default().push(resources);
            }
            Ok(resources_by_prefix)
        };
        self.charged_usage.get_or_try_init(load).await
    }
}

/// The usage of the tasks of one function, and its cost.
#[Object]
impl Function {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the generated resolver awaits it")]
    async fn totals(&self) -> &FunctionTotals {
        &self.totals
    }

    /// The cost of the function's computation, one amount for each currency and basis. It is the cost of the
    /// thread time in `computeSeconds`, and the same proportion of the cost of memory and workers: a function
    /// that used a tenth of the threads bears a tenth of them. Idle threads and failed attempts belong to no
    /// function, so the costs of all functions add up to less than the whole cost.
    async fn costs(&self) -> Result<Vec<FunctionCost>, ApiError> {
        let paid_resources = self
            .list
            .load_charged_usage()
            .await?
            .get(&self.totals.prefix)
            .map(Vec::as_slice)
            .unwrap_or_default();
        // Days before the first rate have no rate of their own.
        let usage: Vec<(i64, Usage)> = paid_resources
            .iter()
            .map(|resources| (resources.rate_from.unwrap_or(i64::MIN), resources.into()))
            .collect();
        let costs = self.list.scope.rates().await?.cost(usage.iter().map(|(day, usage)| (*day, usage)));
        Ok(costs.into_iter().map(FunctionCost::from).collect())
    }
}

impl WriteInline for Function {
    fn field_writer(selected: &SelectedField<'_, '_>) -> Option<FieldWriter<Self>> {
        let write_totals = FunctionTotals::field_writer(selected)?;
        Some(Box::new(move |function, context, json| write_totals(&function.totals, context, json)))
    }
}

/// The cost of a function's computation, in one currency and on one basis. Amounts in different
/// currencies or on different bases are never added.
#[derive(SimpleObject)]
struct FunctionCost {
    /// The amount, in units of `currency`.
    amount: f64,
    /// The currency, as an ISO 4217 code.
    currency: String,
    /// The source of the rates.
    basis: CostBasis,
}

impl From<cost::Cost> for FunctionCost {
    fn from(cost: cost::Cost) -> Self {
        Self { amount: cost.amount(), currency: cost.currency, basis: cost.basis.into() }
    }
}

impl From<&PaidResources> for Usage {
    fn from(paid: &PaidResources) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "microseconds of stored usage")]
        let round = |time: f64| time.round() as i64;
        Self {
            thread_us: round(paid.thread_us),
            memory_gib_us: round(paid.memory_gib_us),
            worker_us: round(paid.worker_us),
            ..Self::default()
        }
    }
}

/// Returns the functions of clusters of the account, ordered by compute time, the largest first.
pub(crate) async fn load_account_functions(
    scope: &AccountScope,
    usage_scope: UsageScope,
    first: i32,
) -> Result<Vec<Function>, ApiError> {
    let found =
        scope.store.function_usage(usage_scope.days, &usage_scope.clusters, parse_limit(first)?).await?;
    Ok(new_functions(scope, FunctionScope::Account(Box::new(usage_scope)), found))
}

/// Returns the functions of a cluster in some hours, ordered by compute time, the largest first.
pub(crate) async fn load_functions_of_cluster(
    scope: &AccountScope,
    cluster: ClusterId,
    hours: HourRange,
    first: i32,
) -> Result<Vec<Function>, ApiError> {
    let key = ClusterFunctionsKey { cluster, hours, limit: parse_limit(first)? };
    let found = scope.loader.load_one(key).await?.unwrap_or_default();
    Ok(new_functions(scope, FunctionScope::Cluster(cluster, hours), found))
}

fn new_functions(scope: &AccountScope, selection: FunctionScope, found: Vec<FunctionUsage>) -> Vec<Function> {
    let prefixes = found.iter().map(|row| row.prefix.clone()).collect();
    let list =
        Arc::new(FunctionList { scope: scope.clone(), selection, prefixes, charged_usage: OnceCell::new() });
    found.into_iter().map(|row| Function { list: Arc::clone(&list), totals: row.into() }).collect()
}

fn parse_limit(first: i32) -> Result<u64, ApiError> {
    if !(1..=MAX_FUNCTIONS).contains(&first) {
        let reason = format!("must be from 1 to {MAX_FUNCTIONS}");
        return Err(ApiError::InvalidArgument { argument: "first", reason });
    }
    Ok(u64::from(first.unsigned_abs()))
}

/// The loader key of a cluster's `limit` functions with the most compute time in some hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClusterFunctionsKey {
    cluster: ClusterId,
    hours: HourRange,
    limit: u64,
}

impl Loader<ClusterFunctionsKey> for StoreReader {
    type Value = Vec<FunctionUsage>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterFunctionsKey],
    ) -> Result<HashMap<ClusterFunctionsKey, Self::Value>, Self::Error> {
        let mut clusters_by_hours_and_limit: HashMap<(HourRange, u64), Vec<ClusterId>> = HashMap::new();
        for key in keys {
            clusters_by_hours_and_limit.entry((key.hours, key.limit)).or_default().push(key.cluster);
        }
        let mut found = HashMap::new();
        for ((hours, limit), clusters) in clusters_by_hours_and_limit {
            let functions = self.0.functions_of_clusters(&clusters, hours, limit.cast_signed()).await?;
            found.extend(
                functions
                    .into_iter()
                    .map(|(cluster, functions)| (ClusterFunctionsKey { cluster, hours, limit }, functions)),
            );
        }
        Ok(found)
    }
}

/// The loader key of the usage that a cluster's functions are charged for in some hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ChargedUsageKey {
    cluster: ClusterId,
    hours: HourRange,
}

impl Loader<ChargedUsageKey> for StoreReader {
    type Value = Vec<PaidResources>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ChargedUsageKey],
    ) -> Result<HashMap<ChargedUsageKey, Self::Value>, Self::Error> {
        let mut clusters_by_hours: HashMap<HourRange, Vec<ClusterId>> = HashMap::new();
        for key in keys {
            clusters_by_hours.entry(key.hours).or_default().push(key.cluster);
        }
        let mut found: HashMap<ChargedUsageKey, Self::Value> = HashMap::new();
        for (hours, clusters) in clusters_by_hours {
            for (cluster, paid) in self.0.load_cluster_paid_resources(&clusters, hours).await? {
                found.entry(ChargedUsageKey { cluster, hours }).or_default().push(paid);
            }
        }
        Ok(found)
    }
}
