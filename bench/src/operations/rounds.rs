//! The results of an operation on PostgreSQL in all rounds, as rows of the table.

use super::{Options, measurement::Series, queries::Aims};
use crate::results::Outcome;

const AIM_RATE: f64 = 0.5;
const AIM_GROWTH: f64 = 1.2;

/// The results of all rounds, by side.
#[derive(Default)]
pub(super) struct Rounds {
    /// The server on the shorter history. All others are on the longer one.
    pub(super) short: Series,
    pub(super) long: Series,
    pub(super) bare: Series,
    pub(super) by_hand: Series,
    pub(super) json: Series,
    /// Empty if PostGraphile is not installed.
    pub(super) postgraphile: Series,
}

impl Rounds {
    pub(super) fn publish(&self, name: &str, aims: Aims, postgraphile_version: &str, options: &Options) {
        self.publish_rate(name);
        self.publish_bare_server(name);
        publish_capacity(
            format!("operations, {name}: JSON by the database"),
            (&self.long, &self.json),
            "by one statement that returns the response as JSON",
            aims.json,
        );
        if self.postgraphile.rounds() > 0 {
            publish_capacity(
                format!("operations, {name}: PostGraphile"),
                (&self.long, &self.postgraphile),
                &format!("by PostGraphile {postgraphile_version}"),
                aims.postgraphile,
            );
        }
        self.publish_growth(name, options);
    }

    fn publish_rate(&self, name: &str) {
        let (ratio, min, max) = self.long.rate_ratios(&self.by_hand);
        Outcome {
            benchmark: format!("operations, {name}"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each (ratios {min:.3} to {max:.3}, {} rounds)",
                self.long.rate(),
                self.long.processor_milliseconds(),
                self.long.rounds()
            ),
            reference: format!(
                "{:.0} operations/s, {:.2} ms processor each by one hand-written statement",
                self.by_hand.rate(),
                self.by_hand.processor_milliseconds()
            ),
            ratio: Some(ratio),
            aim: format!(">= {AIM_RATE}"),
            is_met: Some(ratio >= AIM_RATE),
        }
        .publish();
    }

    fn publish_bare_server(&self, name: &str) {
        let (ratio, min, max) = self.bare.rate_ratios(&self.by_hand);
        let (server_ratio, ..) = self.long.rate_ratios(&self.bare);
        Outcome {
            benchmark: format!("operations, {name}: a bare server"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each, with HTTP and a token beside the statement (ratios \
                 {min:.3} to {max:.3}); the server does {server_ratio:.3} times as many",
                self.bare.rate(),
                self.bare.processor_milliseconds(),
            ),
            reference: format!("{:.0} operations/s by one hand-written statement", self.by_hand.rate()),
            ratio: Some(ratio),
            aim: String::new(),
            is_met: None,
        }
        .publish();
    }

    fn publish_growth(&self, name: &str, options: &Options) {
        let (growth, min, max) = self.short.rate_ratios(&self.long);
        Outcome {
            benchmark: format!("operations, {name}: growth"),
            figure: format!(
                "{:.2} ms an operation on {} times the history (ratios {min:.3} to {max:.3})",
                1e3 / self.long.rate(),
                options.scale
            ),
            reference: format!("{:.2} ms on the history", 1e3 / self.short.rate()),
            ratio: Some(growth),
            aim: format!("<= {AIM_GROWTH}"),
            is_met: Some(growth <= AIM_GROWTH),
        }
        .publish();
    }
}

/// Publishes a row with the capacity of the first side over that of the second.
pub(super) fn publish_capacity(
    benchmark: String,
    (ours, reference): (&Series, &Series),
    description: &str,
    aim: f64,
) {
    let (ratio, min, max) = ours.capacity_ratios(reference);
    let (figure, rounds) = (ours.describe(), ours.rounds());
    Outcome {
        benchmark,
        figure: format!("{figure} (ratios {min:.3} to {max:.3}, {rounds} rounds)"),
        reference: format!("{} {description}", reference.describe()),
        ratio: Some(ratio),
        aim: format!(">= {aim}"),
        is_met: Some(ratio >= aim),
    }
    .publish();
}
