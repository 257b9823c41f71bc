//! Costs, and the rates they come from.

use async_graphql::{Enum, InputObject, Object, SimpleObject};

use super::{
    json::names,
    scalar::Date,
    user_error::{UserError, UserErrorCode},
};
use crate::domain::{
    cost::{self, Basis, Currency, MAX_RATE, Rate},
    usage,
};

/// What something cost, in one currency and on one basis. Amounts in several are never added.
pub(super) struct Cost(pub(super) cost::Cost);

/// What something cost, in one currency and on one basis. Amounts in several are never added.
#[Object]
impl Cost {
    /// The amount, in units of the currency.
    async fn amount(&self) -> f64 {
        self.0.amount()
    }

    /// The currency, by ISO 4217.
    async fn currency(&self) -> &str {
        &self.0.currency
    }

    /// Where the rates come from.
    async fn basis(&self) -> CostBasis {
        self.0.basis.into()
    }

    /// The same by what the threads were doing; adds up to the amount. Memory and workers are paid for by what the
    /// threads did meanwhile.
    async fn causes(&self) -> Vec<CauseCost> {
        let causes = self.0.causes.iter();
        causes
            .map(|(cause, nanos)| CauseCost { cause: (*cause).into(), amount: cost::amount(*nanos) })
            .collect()
    }
}

/// The part of a cost that went into one thing.
#[derive(SimpleObject)]
struct CauseCost {
    /// What the threads were doing.
    cause: UsageCause,
    /// The amount, in units of the cost's currency.
    amount: f64,
}

/// Where the rates of a cost come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Basis")]
pub(super) enum CostBasis {
    /// The account's own rates.
    RateCard,
    /// A guess of the server's, 0.05 USD per thread-hour, because the account has set no rate for that day.
    Estimated,
}

/// What threads were doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "usage::Cause")]
pub(super) enum UsageCause {
    /// A task used the CPU.
    Cpu,
    /// A task occupied the thread without using the CPU: it waited for a disk, a network or the GIL.
    Waiting,
    /// Data was turned into bytes or back.
    Serialization,
    /// Data was moved between memory and disk.
    Spill,
    /// Dask worked round the task.
    Overhead,
    /// An attempt failed or was cancelled.
    Failed,
    /// There was no task.
    Idle,
    /// Nothing is known: this Dask does not tell, or a worker died before it could.
    Unaccounted,
}

names!(UsageCause);

/// What things cost per hour, from a day on until the next rate begins.
#[derive(SimpleObject)]
pub(super) struct CostRate {
    /// The first day it holds for.
    valid_from: Date,
    /// The currency, by ISO 4217.
    currency: String,
    /// For one thread, in units of the currency per hour.
    per_thread_hour: f64,
    /// For one GiB of workers' memory limit, in units of the currency per hour.
    per_gib_hour: f64,
    /// For one worker, in units of the currency per hour.
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

/// A rate to be set.
#[derive(InputObject)]
pub(super) struct CostRateInput {
    /// The first day it holds for. A rate that begins on the same day is replaced.
    valid_from: Date,
    /// The currency: three capital letters, by ISO 4217.
    #[graphql(default = "USD")]
    currency: String,
    /// For one thread, in units of the currency per hour, from 0 to 1,000,000.
    #[graphql(default)]
    per_thread_hour: f64,
    /// For one GiB of workers' memory limit, in units of the currency per hour, from 0 to 1,000,000.
    #[graphql(default)]
    per_gib_hour: f64,
    /// For one worker, in units of the currency per hour, from 0 to 1,000,000.
    #[graphql(default)]
    per_worker_hour: f64,
}

impl CostRateInput {
    /// The rate, or everything that is wrong with it.
    pub(super) fn check(self) -> Result<Rate, Vec<UserError>> {
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
