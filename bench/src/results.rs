//! Results: printed on the terminal, and written as rows for the table of `scripts/bench.sh`.

use std::{fs::OpenOptions, io::Write as _};

use serde_json::json;

/// A row of the table.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) benchmark: String,
    pub(crate) figure: String,
    pub(crate) reference: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) aim: String,
    /// True if the aim was met. `None` without an aim.
    pub(crate) is_met: Option<bool>,
}

impl Outcome {
    /// Prints the row, and appends it to the file that `BENCH_ROWS` names.
    pub(crate) fn publish(&self) {
        let reference = if self.reference.is_empty() { "" } else { "; reference " };
        let ratio = self.ratio.map_or(String::new(), |ratio| format!("; ratio {ratio:.3}"));
        let verdict = match self.is_met {
            None => String::new(),
            Some(true) => format!("; aim {}: held", self.aim),
            Some(false) => format!("; aim {}: MISSED", self.aim),
        };
        println!("{}: {}{reference}{}{ratio}{verdict}", self.benchmark, self.figure, self.reference);
        let Some(path) = std::env::var_os("BENCH_ROWS") else { return };
        let row = json!({
            "benchmark": self.benchmark, "figure": self.figure, "reference": self.reference,
            "ratio": self.ratio, "aim": self.aim, "held": self.is_met,
        });
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{row}"))
            .expect("BENCH_ROWS names a file that can be written");
    }
}

/// The median, the minimum and the maximum of some values.
pub(crate) type Spread = (f64, f64, f64);

/// Returns the median, the minimum and the maximum.
pub(crate) fn summarize(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    };
    (median, sorted[0], sorted[sorted.len() - 1])
}
