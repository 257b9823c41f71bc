//! What a cluster or a worker measured at one moment.

use std::collections::BTreeMap;

use entity::ids::WorkerId;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use utoipa::ToSchema;

use super::super::{
    bounded::{Finite, UnixTime},
    metric::Metric,
};

/// What a cluster or a worker measured at one moment.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SampleReport {
    /// Whose measurements; absent for the cluster as a whole.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// When.
    pub at: UnixTime,
    /// Values by the metric's name. What was not measured is absent.
    #[schema(value_type = BTreeMap<String, f64>)]
    pub metrics: Metrics,
}

/// Values by metric; names this server does not know are passed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub BTreeMap<Metric, f64>);

/// More names than there will ever be metrics.
const MAX_NAMES: usize = 200;

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Metrics;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("numbers by metric")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut metrics, mut names) = (BTreeMap::new(), 0);
                while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
                    names += 1;
                    if names > MAX_NAMES {
                        return Err(A::Error::custom(format_args!("more than {MAX_NAMES} metrics")));
                    }
                    match Metric::from_name(&name) {
                        Some(metric) => {
                            metrics.insert(metric, map.next_value::<Finite>()?.get());
                        }
                        None => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Metrics(metrics))
            }
        }

        deserializer.deserialize_map(Names)
    }
}
