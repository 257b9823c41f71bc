//! Measurements: rates and processor times, and their medians over all rounds.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use sqlx::PgConnection;

use crate::{
    database::Result,
    results::{Spread, summarize},
    server::processor_seconds,
};

/// The result of one measurement in a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    /// The number of operations per second.
    pub(super) rate: f64,
    /// The CPU time per operation of client, server and database, in seconds.
    pub(super) processor: f64,
}

/// The measurements of one side, one per round.
#[derive(Default)]
pub(super) struct Series(Vec<Measurement>);

impl Series {
    pub(super) fn push(&mut self, measurement: Measurement) {
        self.0.push(measurement);
    }

    pub(super) fn rounds(&self) -> usize {
        self.0.len()
    }

    /// Returns the median number of operations per second.
    pub(super) fn rate(&self) -> f64 {
        self.median(|measurement| measurement.rate)
    }

    /// Returns the median CPU time per operation, in milliseconds.
    pub(super) fn processor_milliseconds(&self) -> f64 {
        self.median(|measurement| 1e3 * measurement.processor)
    }

    /// Returns the number of operations per second that all processors of this machine could do.
    pub(super) fn capacity(&self) -> f64 {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let processors = processors as f64;
        self.median(|measurement| processors / measurement.processor)
    }

    /// Describes the rate, the CPU time and the capacity.
    pub(super) fn describe(&self) -> String {
        format!(
            "{:.0} operations/s, {:.2} ms processor each, capacity {:.0} operations/s",
            self.rate(),
            self.processor_milliseconds(),
            self.capacity()
        )
    }

    /// Returns the ratio of the rates in each round.
    pub(super) fn rate_ratios(&self, reference: &Self) -> Spread {
        self.ratios(reference, |ours, theirs| ours.rate / theirs.rate)
    }

    /// Returns the ratio of the capacities in each round.
    pub(super) fn capacity_ratios(&self, reference: &Self) -> Spread {
        self.ratios(reference, |ours, theirs| theirs.processor / ours.processor)
    }

    fn ratios(&self, reference: &Self, ratio: impl Fn(&Measurement, &Measurement) -> f64) -> Spread {
        let ratios = self.0.iter().zip(&reference.0).map(|(ours, theirs)| ratio(ours, theirs));
        summarize(&ratios.collect::<Vec<_>>())
    }

    fn median(&self, value: impl Fn(&Measurement) -> f64) -> f64 {
        summarize(&self.0.iter().map(value).collect::<Vec<_>>()).0
    }
}

/// The CPU time of some processes and of this one, since a moment.
pub(super) struct ProcessorClock<'a> {
    processes: &'a [u32],
    started_at: Instant,
    initial_seconds: f64,
}

impl<'a> ProcessorClock<'a> {
    pub(super) fn start(processes: &'a [u32]) -> Self {
        Self { processes, started_at: Instant::now(), initial_seconds: sum_processor_seconds(processes) }
    }

    /// Returns the measurement of this many operations since the start.
    pub(super) fn stop(self, operations: usize) -> Measurement {
        let elapsed = self.started_at.elapsed().as_secs_f64();
        let used_seconds = sum_processor_seconds(self.processes) - self.initial_seconds;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let operations = operations as f64;
        Measurement { rate: operations / elapsed, processor: used_seconds / operations }
    }
}

fn sum_processor_seconds(processes: &[u32]) -> f64 {
    processes.iter().copied().chain([std::process::id()]).map(processor_seconds).sum()
}

/// Runs all workers, each in its own task. Returns their total rate, and the CPU time of `processes` and
/// of this process. A worker returns the number of its operations.
pub(super) async fn run_workers<Worker, Work>(
    seconds: f64,
    workers: impl Iterator<Item = Worker>,
    processes: &[u32],
) -> Result<Measurement>
where
    Worker: FnOnce(Instant) -> Work,
    Work: Future<Output = Result<(usize, Option<PgConnection>)>> + Send + 'static,
{
    let clock = ProcessorClock::start(processes);
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    let results = try_join_all(workers.map(|worker| tokio::spawn(worker(deadline)))).await?;
    // A connection stays open until the CPU time of its process has been read.
    let results: Vec<(usize, Option<PgConnection>)> = results.into_iter().collect::<Result<_>>()?;
    Ok(clock.stop(results.iter().map(|(operations, _)| operations).sum()))
}
