//! Rule: the GIL is busy.

use super::{
    ClusterFlagKind, Rule,
    level::{cluster_values, evaluate_threshold},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::GilContention,
    title: "GIL contention",
    text: "On the median worker the GIL is busy half of the time or more, from where on two threads of Python code get no \
           further than one. Use more workers with fewer threads, or code that releases it.",
    needs: "gilknocker on the workers, and Dask 2023.4.1 or newer",
    threshold: 0.5,
    clear_threshold: 0.3,
    unit: "share",
    lasting_seconds: 60,
    sentence: |value, _| format!("The GIL was busy {} of the time on the median worker.", percent(value)),
    verdict: |rule, facts, _| {
        evaluate_threshold(rule, &cluster_values(facts.cluster.values_of(Metric::GilContention)), facts.at)
    },
};
