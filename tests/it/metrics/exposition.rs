//! A strict parser of Prometheus' text format.

use std::collections::{BTreeMap, BTreeSet};

/// The parsed metrics.
pub(super) struct Exposition {
    /// The kinds of metrics, by name.
    pub(super) kinds: BTreeMap<String, String>,
    /// The values, by name and labels as written, with labels sorted by name.
    samples: BTreeMap<String, f64>,
    /// The names of all labels.
    pub(super) labels: BTreeSet<String>,
}

/// A line with a value.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Exposition {
    /// Parses a text.
    pub(super) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends");
        let (mut helps, mut kinds): (BTreeSet<String>, BTreeMap<String, String>) = Default::default();
        let (mut samples, mut labels) = (BTreeMap::new(), BTreeSet::new());
        let mut histograms: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').unwrap();
                assert!(!help.trim().is_empty(), "{name} is described");
                assert!(helps.insert(name.to_owned()), "{name} is described twice");
                continue;
            }
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                check_name(name, kind);
                assert!(helps.contains(name), "{name} is described first");
                assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} has two kinds");
                continue;
            }
            assert!(!line.starts_with('#'), "{line}");
            let Sample { name, labels: of_sample, value } = sample(line);
            let metric = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| name.strip_suffix(suffix))
                .find(|metric| kinds.get(*metric).is_some_and(|kind| kind == "histogram"))
                .unwrap_or(&name);
            let kind = kinds.get(metric).unwrap_or_else(|| panic!("{name} has no kind"));
            assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
            labels.extend(of_sample.keys().cloned());
            let written = |labels: &BTreeMap<String, String>| {
                let labels: Vec<String> =
                    labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
            };
            if kind == "histogram" {
                let mut others = of_sample.clone();
                let bound = others.remove("le");
                assert_eq!(bound.is_some(), name.ends_with("_bucket"), "{line}");
                if let Some(bound) = bound {
                    let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                    histograms
                        .entry(format!("{metric}{}", written(&others)))
                        .or_default()
                        .push((bound, value));
                }
            }
            let sample = format!("{name}{}", written(&of_sample));
            assert!(samples.insert(sample, value).is_none(), "twice: {line}");
        }
        for (histogram, buckets) in histograms {
            assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{histogram}: {buckets:?}");
            let (name, labels) = histogram
                .split_once('{')
                .map_or((histogram.as_str(), String::new()), |(name, rest)| (name, format!("{{{rest}")));
            let last = buckets.last().copied().unwrap();
            assert_eq!(last, (f64::INFINITY, samples[&format!("{name}_count{labels}")]), "{histogram}");
            assert!(samples.contains_key(&format!("{name}_sum{labels}")), "{histogram}");
        }
        Self { kinds, samples, labels }
    }

    /// The value of a sample.
    pub(super) fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("there is no {sample}"))
    }

    /// True if the sample exists.
    pub(super) fn has(&self, sample: &str) -> bool {
        self.samples.contains_key(sample)
    }

    /// The number of samples.
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// The names of all samples.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.samples.keys().map(|sample| sample.split('{').next().unwrap()).collect()
    }
}

/// Checks the rules for names and units.
fn check_name(name: &str, kind: &str) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    assert!(name.chars().all(fits) && name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
    assert!(name.starts_with("galvo_") || name.starts_with("process_"), "{name}");
    assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}: {kind}");
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    for reserved in ["_bucket", "_sum", "_count"] {
        assert!(!name.ends_with(reserved), "{name}");
    }
    let parts: Vec<&str> = name.split('_').collect();
    for unit in [
        "ms",
        "millis",
        "milliseconds",
        "microseconds",
        "minutes",
        "hours",
        "kb",
        "mb",
        "kilobytes",
        "percent",
    ] {
        assert!(!parts.contains(&unit), "{name} is not in base units");
    }
    if kind == "histogram" {
        assert!(name.ends_with("_seconds"), "{name} has no unit");
    }
}

fn sample(line: &str) -> Sample {
    let (name, mut rest) = line.split_at(line.find(['{', ' ']).unwrap());
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            let fits = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(!label.is_empty() && label.chars().all(fits) && !label.starts_with("__"), "{line}");
            // None of Galvo's label values needs escaping.
            let (value, after) = quoted.split_once('"').unwrap_or_else(|| panic!("{line}"));
            assert!(!value.contains('\\'), "{line}");
            assert!(labels.insert(label.to_owned(), value.to_owned()).is_none(), "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    Sample { name: name.to_owned(), labels, value }
}
