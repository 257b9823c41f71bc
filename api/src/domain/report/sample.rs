//! Measurements of a cluster or a worker.

use std::collections::BTreeMap;

use entity::ids::WorkerId;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use utoipa::ToSchema;

use super::super::{
    metric::Metric,
    validated::{Finite, UnixTime},
};

/// The measurements of a cluster or a worker at one time.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SampleReport {
    /// The worker. Absent for the cluster as a whole.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// The time of the measurements.
    pub at: UnixTime,
    /// The values by metric name. Metrics that were not measured are absent.
    #[schema(value_type = BTreeMap<String, f64>)]
    pub metrics: Metrics,
}

/// Values by metric. Unknown names are ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(pub BTreeMap<Metric, f64>);

/// The largest accepted number of metric names in one sample, known and unknown.
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
