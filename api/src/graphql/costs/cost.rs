//! The GraphQL types of costs and of the rates they are computed from.

use async_graphql::{Enum, InputObject, Object, SimpleObject};

use crate::{
    domain::{
        cost::{self, Basis, Currency, MAX_RATE, Rate},
        usage,
    },
    graphql::{
        accounts::account::Account,
        engine::{
            json::write_enums_by_name,
            scalar::Date,
            user_error::{UserError, UserErrorCode},
        },
    },
};

/// A cost in one currency and on one basis. Costs in different currencies or on different bases are
/// never added.
pub(crate) struct Cost(pub(crate) cost::Cost);

/// A cost in one currency and on one basis. Costs in different currencies or on different bases are
/// never added.
#[Object]
impl Cost {
    /// The amount, in units of the currency.
    async fn amount(&self) -> f64 {
        self.0.amount()
    }

    /// The currency, as an ISO 4217 code.
    async fn currency(&self) -> &str {
        &self.0.currency
    }

    /// The basis of the rates.
    async fn basis(&self) -> CostBasis {
        self.0.basis.into()
    }

    /// The parts of the amount by the use of the threads. They add up to the amount. The cost of memory and
    /// workers is distributed by the use of the threads at that time.
    async fn causes(&self) -> Vec<CauseCost> {
        let causes = self.0.causes.iter();
        causes
            .map(|(cause, nanos)| CauseCost { cause: (*cause).into(), amount: cost::amount(*nanos) })
            .collect()
    }
}

/// The part of a cost that is due to one use of the threads.
#[derive(SimpleObject)]
struct CauseCost {
    /// The use of the threads.
    cause: UsageCause,
    /// The amount, in units of the cost's currency.
    amount: f64,
}

/// A basis of the rates of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Basis")]
pub(crate) enum CostBasis {
    /// The account's own rates.
    RateCard,
    /// The server's estimate of 0.05 USD per thread-hour, because the account has no rate for that day.
    Estimated,
}

/// A use of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "usage::Cause")]
pub(crate) enum UsageCause {
    /// A task used the CPU.
    Cpu,
    /// A task occupied the thread without using the CPU, while it waited for a disk, the network or the
    /// GIL.
    Waiting,
    /// Data was serialized or deserialized.
    Serialization,
    /// Data was moved between memory and disk.
    Spill,
    /// Dask worked on a task, but did not run the task's own code.
    Overhead,
    /// An attempt that failed or was cancelled.
    Failed,
    /// The thread had no task.
    Idle,
    /// The time before the cluster was registered, in which nothing observed the threads.
    Unobserved,
    /// The use is unknown: this release of Dask does not report it, a worker died before it reported it, or
    /// the task is still running.
    Unaccounted,
}

write_enums_by_name!(UsageCause);

/// The prices per hour from one day on, until the next rate begins.
#[derive(SimpleObject)]
pub(crate) struct CostRate {
    /// The first day of the rate.
    valid_from: Date,
    /// The currency, as an ISO 4217 code.
    currency: String,
    /// The price of one thread, in units of the currency per hour.
    per_thread_hour: f64,
    /// The price of one GiB of the workers' memory limits, in units of the currency per hour.
    per_gib_hour: f64,
    /// The price of one worker, in units of the currency per hour.
    per_worker_hour: f64,
}

impl From<Rate> for CostRate {
    fn from(rate: Rate) -> Self {
        Self {
            valid_from: Date::from_number(rate.valid_from),
            currency: rate.currency,
            per_thread_hour: rate.per_thread_hour,
            per_gib_hour: rate.per_gib_hour,
            per_worker_hour: rate.per_worker_hour,
        }
    }
}

/// The properties of a cost rate.
#[derive(InputObject)]
pub(crate) struct CostRateInput {
    /// The first day of the rate. It replaces a rate with the same first day.
    valid_from: Date,
    /// The currency, as an ISO 4217 code: three capital letters.
    #[graphql(default = "USD")]
    currency: String,
    /// The price of one thread, in units of the currency per hour, from 0 to 1,000,000.
    #[graphql(default)]
    per_thread_hour: f64,
    /// The price of one GiB of the workers' memory limits, in units of the currency per hour, from 0 to
    /// 1,000,000.
    #[graphql(default)]
    per_gib_hour: f64,
    /// The price of one worker, in units of the currency per hour, from 0 to 1,000,000.
    #[graphql(default)]
    per_worker_hour: f64,
}

impl CostRateInput {
    /// Returns the rate, or all errors in it.
    pub(crate) fn check(self) -> Result<Rate, Vec<UserError>> {
        let mut errors = Vec::new();
        if Currency::parse(&self.currency).is_none() {
            errors.push(UserError::new(
                "currency",
                UserErrorCode::Invalid,
                "must be three capital letters, as in USD",
            ));
        }
        for (field, rate) in [
            ("perThreadHour", self.per_thread_hour),
            ("perGibHour", self.per_gib_hour),
            ("perWorkerHour", self.per_worker_hour),
        ] {
            if !(0.0..=MAX_RATE).contains(&rate) {
                errors.push(UserError::new(field, UserErrorCode::OutOfRange, "must be from 0 to 1,000,000"));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Rate {
            valid_from: self.valid_from.number(),
            currency: self.currency,
            per_thread_hour: self.per_thread_hour,
            per_gib_hour: self.per_gib_hour,
            per_worker_hour: self.per_worker_hour,
        })
    }
}

/// The outcome of `setCostRate` or `deleteCostRate`.
#[derive(SimpleObject)]
pub(crate) struct CostRatesPayload {
    /// The account with its current rates.
    pub(crate) account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    pub(crate) user_errors: Vec<UserError>,
}
