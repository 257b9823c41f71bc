//! Threads wait for Python's lock.

use super::{
    Kind, Rule,
    level::{judge, of_cluster},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: Kind::GilContention,
    title: "GIL contention",
    text: "On the median worker the GIL is busy half of the time or more, from where on two threads of Python code get no \
           further than one. Use more workers with fewer threads, or code that releases it.",
    needs: "gilknocker on the workers, and Dask 2023.4.1 or newer",
    threshold: 0.5,
    clears: 0.3,
    unit: "share",
    lasting_seconds: 60,
    say: |value, _| format!("The GIL was busy {} of the time on the median worker.", percent(value)),
    verdict: |rule, facts, _| judge(rule, &of_cluster(facts.cluster.of(Metric::GilContention)), facts.at),
};
