//! What an account accepts of each class of data, and what became of a cluster's.

use async_graphql::{Enum, InputObject, SimpleObject};
use entity::{
    data_policy,
    list::{self, Receipt},
};
use sea_orm::Iterable;

use super::{error::ApiError, loaders::PolicyOf, scalar::BigInt, scope::AccountScope};
use crate::domain::data_class::{self, PolicyError};

/// A class of data that an account may accept or refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "data_policy::DataClass")]
pub(super) enum DataClass {
    /// The cluster, its workers, clients, samples and usage.
    Basic,
    /// Task groups, computations, spans, fine performance metrics, and usage by function.
    Tasks,
    /// Failures of Dask itself.
    DaskErrors,
    /// Exceptions of the computations' own code.
    UserErrors,
    /// Code that called Dask, and lines of source in tracebacks, profiles, logs and events.
    Code,
    /// Statistical profiles.
    Profiles,
    /// Events.
    Events,
    /// Logs.
    Logs,
}

/// What an account wants of a class of data.
#[derive(SimpleObject)]
pub(super) struct DataPolicy {
    /// The class.
    class: DataClass,
    /// Whether it cannot be refused, because nothing could be shown without it.
    required: bool,
    /// Whether it is stored. What is refused is dropped on arrival, and schedulers are told not to send it.
    accepted: bool,
    /// For how many days it is kept; null means for as long as is usual for the class.
    retention_days: Option<i32>,
}

impl DataPolicy {
    fn new(class: data_policy::DataClass, row: Option<&data_policy::Model>) -> Self {
        let required = data_class::is_required(class);
        Self {
            class: class.into(),
            required,
            accepted: required || row.is_none_or(|row| row.accepted),
            retention_days: row.and_then(|row| row.retention_days).and_then(|days| days.try_into().ok()),
        }
    }

    /// What the account wants of every class.
    pub(super) async fn all(scope: &AccountScope) -> Result<Vec<Self>, ApiError> {
        let rows = scope.loader.load_one(PolicyOf(scope.account.id)).await?.unwrap_or_default();
        let row = |class| rows.iter().find(|row| row.data_class == class);
        Ok(data_policy::DataClass::iter().map(|class| Self::new(class, row(class))).collect())
    }
}

/// What an account is to want of a class of data.
#[derive(InputObject)]
pub(super) struct SetDataPolicyInput {
    /// The class.
    class: DataClass,
    /// Whether it is stored from now on. What is stored already stays.
    accepted: bool,
    /// For how many days it is kept, 1 to 36,500; null means for as long as is usual for the class.
    retention_days: Option<i32>,
}

/// The outcome of `setDataPolicy`.
#[derive(SimpleObject)]
pub(super) struct SetDataPolicyPayload {
    /// What the account wants of the class now; null when nothing was changed.
    data_policy: Option<DataPolicy>,
    /// Why nothing was changed; empty when it was.
    user_errors: Vec<DataPolicyError>,
}

/// Why a policy cannot be so.
#[derive(SimpleObject)]
pub(super) struct DataPolicyError {
    /// The field of the input that is wrong.
    field: &'static str,
    /// What is wrong, for programs.
    code: DataPolicyErrorCode,
    /// What is wrong, for people.
    message: String,
}

/// What can be wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum DataPolicyErrorCode {
    /// The class is required and cannot be refused.
    ClassRequired,
    /// Nothing is kept for so many days.
    RetentionOutOfRange,
}

impl From<PolicyError> for DataPolicyError {
    fn from(error: PolicyError) -> Self {
        let (field, code) = match error {
            PolicyError::Required => ("accepted", DataPolicyErrorCode::ClassRequired),
            PolicyError::Retention => ("retentionDays", DataPolicyErrorCode::RetentionOutOfRange),
        };
        Self { field, code, message: error.to_string() }
    }
}

pub(super) async fn set_data_policy(
    scope: &AccountScope,
    input: SetDataPolicyInput,
) -> Result<SetDataPolicyPayload, ApiError> {
    let (class, retention_days) = (input.class.into(), input.retention_days.map(i64::from));
    if let Err(errors) = data_class::check(class, input.accepted, retention_days) {
        let user_errors = errors.into_iter().map(DataPolicyError::from).collect();
        return Ok(SetDataPolicyPayload { data_policy: None, user_errors });
    }
    let row = scope.store.set_data_policy(class, input.accepted, retention_days).await?;
    let data_policy = Some(DataPolicy::new(class, Some(&row)));
    Ok(SetDataPolicyPayload { data_policy, user_errors: Vec::new() })
}

/// What became of a cluster's data on its way here.
#[derive(SimpleObject)]
pub(super) struct PrivacyReceipt {
    /// Each class of data.
    classes: Vec<ClassReceipt>,
}

/// What became of one class of a cluster's data on its way here, as of its newest report.
#[derive(SimpleObject)]
struct ClassReceipt {
    /// The class.
    class: DataClass,
    /// Items the scheduler sent, each counted once; null when it did not say.
    sent: Option<BigInt>,
    /// Their size as JSON, in characters; null when it did not say.
    bytes: Option<BigInt>,
    /// Items the scheduler kept back, by its own settings or because the account refuses them; null when it did
    /// not say.
    withheld: Option<BigInt>,
    /// Items that arrived and were not stored, because the account refused them then; null when the scheduler did
    /// not say what it sent.
    dropped: Option<BigInt>,
    /// Whether the account accepts the class now.
    accepted: bool,
}

impl PrivacyReceipt {
    pub(super) async fn of(scope: &AccountScope, receipt: &Receipt) -> Result<Self, ApiError> {
        let classes = DataPolicy::all(scope).await?.into_iter().map(|policy| {
            let counts = receipt.0.get(&policy.class.into());
            let count = |count: fn(&list::ClassReceipt) -> i64| counts.map(count).map(BigInt);
            ClassReceipt {
                class: policy.class,
                sent: count(|row| row.sent),
                bytes: count(|row| row.bytes),
                withheld: count(|row| row.withheld),
                dropped: count(|row| row.dropped),
                accepted: policy.accepted,
            }
        });
        Ok(Self { classes: classes.collect() })
    }
}
