//! Answers to questions: outcomes, reasons, breakdowns, comparisons and idleness.

pub(super) mod analysis_scope;
pub(super) mod answer;
pub(super) mod answer_loaders;
pub(super) mod baseline;
pub(super) mod breakdown;
pub(super) mod comparison;
pub(super) mod evidence;
pub(super) mod idle_backtest;
pub(super) mod idle_policy;
pub(super) mod idleness;
