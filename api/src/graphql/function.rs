//! Functions and operations: what their tasks used, and what that cost.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Object, SimpleObject, dataloader::Loader};
use entity::ids::{ClusterId, UserId};
use tokio::sync::OnceCell;

use super::{
    cost::CostBasis,
    error::ApiError,
    in_place::{Asked, InPlace, Step, in_place_members},
    loaders::Reader,
    scalar::BigInt,
    scope::AccountScope,
    usage::seconds,
};
use crate::{
    domain::{cost, usage::Usage},
    store::{FunctionUsage, PaidFor, StoreError},
};

/// Functions of one list at the most.
const MAX_FUNCTIONS: i32 = 1_000;

/// What the tasks of one function used.
#[derive(SimpleObject)]
pub(super) struct FunctionTotals {
    /// The function or operation: the prefix of its task groups.
    prefix: String,
    /// Thread-seconds spent computing tasks that succeeded.
    compute_seconds: f64,
    /// Seconds spent fetching their inputs from other workers.
    transfer_seconds: f64,
    /// Times one of its tasks came to be in memory.
    tasks: BigInt,
    /// Tasks that erred themselves.
    tasks_erred: BigInt,
    /// Bytes of results.
    bytes: BigInt,
}

in_place_members! { FunctionTotals: prefix, compute_seconds, transfer_seconds, tasks, tasks_erred, bytes }

impl From<FunctionUsage> for FunctionTotals {
    fn from(row: FunctionUsage) -> Self {
        Self {
            prefix: row.prefix,
            compute_seconds: seconds(row.compute_us),
            transfer_seconds: seconds(row.transfer_us),
            tasks: BigInt(row.tasks),
            tasks_erred: BigInt(row.tasks_erred),
            bytes: BigInt(row.bytes),
        }
    }
}

/// Whose functions are meant, and when.
#[derive(Clone, Copy)]
enum FunctionsOf {
    /// A cluster's.
    Cluster(ClusterId),
    /// The account's, or those that a user's clusters ran, in the days from the first to before the second.
    Days((i64, i64), Option<UserId>),
}

/// What the tasks of one function used, and what that cost.
pub(super) struct Function {
    list: Arc<FunctionList>,
    totals: FunctionTotals,
}

/// What the functions of one list have in common.
struct FunctionList {
    scope: AccountScope,
    of: FunctionsOf,
    prefixes: Vec<String>,
    /// What was paid for while they computed, by their prefixes: read once for all of them.
    paid: OnceCell<HashMap<String, Vec<PaidFor>>>,
}

impl FunctionList {
    async fn paid(&self) -> Result<&HashMap<String, Vec<PaidFor>>, ApiError> {
        let read = async || {
            let paid = match self.of {
                FunctionsOf::Cluster(cluster) => {
                    self.scope.loader.load_one(PaidForFunctions(cluster)).await?.unwrap_or_default()
                }
                FunctionsOf::Days(days, user) => {
                    self.scope.store.paid_for_functions(days, user, &self.prefixes).await?
                }
            };
            let mut by_prefix: HashMap<String, Vec<PaidFor>> = HashMap::new();
            for part in paid {
                by_prefix.entry(part.prefix.clone()).or_default().push(part);
            }
            Ok(by_prefix)
        };
        self.paid.get_or_try_init(read).await
    }
}

/// What the tasks of one function used, and what that cost.
#[Object]
impl Function {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn totals(&self) -> &FunctionTotals {
        &self.totals
    }

    /// What its computing cost, one amount for each currency and basis: its `computeSeconds` at the rates of their
    /// days, with as large a share of the memory and workers of the time as it had of the threads. The costs of all
    /// functions come to the whole cost less that of threads that computed nothing that succeeded.
    async fn costs(&self) -> Result<Vec<FunctionCost>, ApiError> {
        let paid = self.list.paid().await?.get(&self.totals.prefix).map(Vec::as_slice).unwrap_or_default();
        // Days before the first rate have none.
        let usage: Vec<(i64, Usage)> =
            paid.iter().map(|part| (part.rate_from.unwrap_or(i64::MIN), part.into())).collect();
        let costs = self.list.scope.rates().await?.cost(usage.iter().map(|(day, usage)| (*day, usage)));
        Ok(costs.into_iter().map(FunctionCost::from).collect())
    }
}

impl InPlace for Function {
    fn step(asked: &Asked<'_, '_>) -> Option<Step<Self>> {
        let step = FunctionTotals::step(asked)?;
        Some(Box::new(move |function, context, json| step(&function.totals, context, json)))
    }
}

/// What computing a function cost, in one currency and on one basis. Amounts in several are never added.
#[derive(SimpleObject)]
struct FunctionCost {
    /// The amount, in units of the currency.
    amount: f64,
    /// The currency, by ISO 4217.
    currency: String,
    /// Where the rates come from.
    basis: CostBasis,
}

impl From<cost::Cost> for FunctionCost {
    fn from(cost: cost::Cost) -> Self {
        Self { amount: cost.amount(), currency: cost.currency, basis: cost.basis.into() }
    }
}

impl From<&PaidFor> for Usage {
    fn from(paid: &PaidFor) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "microseconds of what was stored")]
        let whole = |time: f64| time.round() as i64;
        Self {
            thread_us: whole(paid.thread_us),
            memory_gib_us: whole(paid.memory_gib_us),
            worker_us: whole(paid.worker_us),
            ..Self::default()
        }
    }
}

/// The functions of the account, those that computed longest first.
pub(super) async fn of_days(
    scope: &AccountScope,
    days: (i64, i64),
    user: Option<UserId>,
    first: i32,
) -> Result<Vec<Function>, ApiError> {
    let found = scope.store.function_usage(days, user, limit(first)?).await?;
    Ok(functions(scope, FunctionsOf::Days(days, user), found))
}

/// The functions of a cluster, those that computed longest first.
pub(super) async fn of_cluster(
    scope: &AccountScope,
    cluster: ClusterId,
    first: i32,
) -> Result<Vec<Function>, ApiError> {
    let key = ClusterFunctions { cluster, limit: limit(first)? };
    let found = scope.loader.load_one(key).await?.unwrap_or_default();
    Ok(functions(scope, FunctionsOf::Cluster(cluster), found))
}

fn functions(scope: &AccountScope, of: FunctionsOf, found: Vec<FunctionUsage>) -> Vec<Function> {
    let prefixes = found.iter().map(|row| row.prefix.clone()).collect();
    let list = Arc::new(FunctionList { scope: scope.clone(), of, prefixes, paid: OnceCell::new() });
    found.into_iter().map(|row| Function { list: Arc::clone(&list), totals: row.into() }).collect()
}

fn limit(first: i32) -> Result<u64, ApiError> {
    if !(1..=MAX_FUNCTIONS).contains(&first) {
        let reason = format!("must be from 1 to {MAX_FUNCTIONS}");
        return Err(ApiError::InvalidArgument { argument: "first", reason });
    }
    Ok(u64::from(first.unsigned_abs()))
}

/// The key of the functions of a cluster that computed longest, so many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClusterFunctions {
    cluster: ClusterId,
    limit: u64,
}

impl Loader<ClusterFunctions> for Reader {
    type Value = Vec<FunctionUsage>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterFunctions],
    ) -> Result<HashMap<ClusterFunctions, Self::Value>, Self::Error> {
        let mut alike: HashMap<u64, Vec<ClusterId>> = HashMap::new();
        for key in keys {
            alike.entry(key.limit).or_default().push(key.cluster);
        }
        let mut found = HashMap::new();
        for (limit, clusters) in alike {
            let functions = self.0.functions_of_clusters(&clusters, limit.cast_signed()).await?;
            found.extend(
                functions
                    .into_iter()
                    .map(|(cluster, functions)| (ClusterFunctions { cluster, limit }, functions)),
            );
        }
        Ok(found)
    }
}

/// The key of what was paid for while the functions of a cluster computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PaidForFunctions(ClusterId);

impl Loader<PaidForFunctions> for Reader {
    type Value = Vec<PaidFor>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[PaidForFunctions],
    ) -> Result<HashMap<PaidForFunctions, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let mut found: HashMap<PaidForFunctions, Self::Value> = HashMap::new();
        for (cluster, paid) in self.0.paid_for_functions_of_clusters(&clusters).await? {
            found.entry(PaidForFunctions(cluster)).or_default().push(paid);
        }
        Ok(found)
    }
}
