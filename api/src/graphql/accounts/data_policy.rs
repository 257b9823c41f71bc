//! The account's policies for classes of data, and the privacy receipt of a cluster's data.

use async_graphql::{Enum, InputObject, SimpleObject};
use entity::{
    data_policy,
    json_columns::{self, Receipt},
};
use sea_orm::Iterable;

use crate::{
    domain::data_class::{self, PolicyError},
    graphql::engine::{error::ApiError, loaders::DataPoliciesKey, scalar::BigInt, scope::AccountScope},
};

/// A class of data that an account accepts or refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "data_policy::DataClass")]
pub(crate) enum DataClass {
    /// The cluster, its workers, clients, samples and usage.
    Basic,
    /// Task groups, computations, spans, fine performance metrics, and usage and activity by function.
    Tasks,
    /// Failures of Dask itself.
    DaskErrors,
    /// Exceptions raised by the computations' own code.
    UserErrors,
    /// Code that called Dask, and source lines in tracebacks, profiles, logs and events.
    Code,
    /// Statistical profiles.
    Profiles,
    /// Events that Dask or a user logged with `log_event`.
    Events,
    /// Log lines of schedulers, workers and nannies.
    Logs,
}

/// The account's policy for a class of data.
#[derive(SimpleObject)]
pub(crate) struct DataPolicy {
    /// The class of data.
    class: DataClass,
    /// True if the class cannot be refused, because nothing can be shown without it.
    required: bool,
    /// True if the class is stored. Refused data is dropped on arrival, and schedulers are instructed
    /// not to send it.
    accepted: bool,
    /// The retention in days. Null for the default retention of the class.
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

    /// Returns the account's policy for each class.
    pub(crate) async fn load_all(scope: &AccountScope) -> Result<Vec<Self>, ApiError> {
        let rows = scope.loader.load_one(DataPoliciesKey(scope.account.id)).await?.unwrap_or_default();
        let row = |class| rows.iter().find(|row| row.data_class == class);
        Ok(data_policy::DataClass::iter().map(|class| Self::new(class, row(class))).collect())
    }
}

/// The new policy for a class of data.
#[derive(InputObject)]
pub(crate) struct SetDataPolicyInput {
    /// The class of data.
    class: DataClass,
    /// True if the class is stored from now on. Data that is already stored is kept.
    accepted: bool,
    /// The retention in days, 1 to 36,500. Null for the default retention of the class.
    retention_days: Option<i32>,
}

/// The outcome of `setDataPolicy`.
#[derive(SimpleObject)]
pub(crate) struct SetDataPolicyPayload {
    /// The policy after the change. Null if nothing was changed.
    data_policy: Option<DataPolicy>,
    /// The reasons why nothing was changed. Empty if the policy was changed.
    user_errors: Vec<DataPolicyError>,
}

/// A reason why a policy is invalid.
#[derive(SimpleObject)]
pub(crate) struct DataPolicyError {
    /// The name of the invalid input field.
    field: &'static str,
    /// The code of the error, for programs.
    code: DataPolicyErrorCode,
    /// The description of the error, for users.
    message: String,
}

/// A code of an error in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum DataPolicyErrorCode {
    /// The class is required and cannot be refused.
    ClassRequired,
    /// The retention is out of range.
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

pub(crate) async fn set_data_policy(
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

/// The amount of a cluster's data that was sent, withheld and dropped.
#[derive(SimpleObject)]
pub(crate) struct PrivacyReceipt {
    /// The receipts of all classes of data.
    classes: Vec<ClassReceipt>,
}

/// The amount of a cluster's data of one class that was sent, withheld and dropped, as of its newest
/// report.
#[derive(SimpleObject)]
struct ClassReceipt {
    /// The class of data.
    class: DataClass,
    /// The number of items that the scheduler sent, each counted once. Null if it was not reported.
    sent: Option<BigInt>,
    /// The size of these items as JSON text, in characters. It is not a number of bytes: each character
    /// counts as one, however many bytes it takes in UTF-8. Null if it was not reported.
    bytes: Option<BigInt>,
    /// The number of items that the scheduler withheld, by its own settings or because the account
    /// refuses them. Null if it was not reported.
    withheld: Option<BigInt>,
    /// The number of items that the server received but did not store, because the account refused the
    /// class at that time. Null if the scheduler did not report the number of items that it sent.
    dropped: Option<BigInt>,
    /// True if the account accepts the class now.
    accepted: bool,
}

impl PrivacyReceipt {
    pub(crate) async fn load(scope: &AccountScope, receipt: &Receipt) -> Result<Self, ApiError> {
        let classes = DataPolicy::load_all(scope).await?.into_iter().map(|policy| {
            let counts = receipt.0.get(&policy.class.into());
            let read_count = |field: fn(&json_columns::ClassReceipt) -> i64| counts.map(field).map(BigInt);
            ClassReceipt {
                class: policy.class,
                sent: read_count(|row| row.sent),
                bytes: read_count(|row| row.bytes),
                withheld: read_count(|row| row.withheld),
                dropped: read_count(|row| row.dropped),
                accepted: policy.accepted,
            }
        });
        Ok(Self { classes: classes.collect() })
    }
}
