//! Answers about the use of thread time and its losses.

use std::collections::BTreeMap;

use super::{
    Answer, Confidence, Evidence, Missing, Verdict, bytes, format_duration, percent, remedy, seconds,
    share_of, to_f64,
};
use crate::domain::{
    fine_metric::{Label, Table},
    series::Bucket,
    usage::Usage,
};

/// The share of idle thread time from which idleness is the first problem to solve: more than half.
const HIGH_IDLE_SHARE: f64 = 0.5;

/// The shares of time with a busy GIL from which a second thread is delayed noticeably, and from which
/// two threads of Python code are no faster than one.
const GIL_BUSY: (f64, f64) = (0.2, 0.5);

/// The interval between two ticks of an event loop, in seconds, as configured by Dask.
const TICK_SECONDS: f64 = 0.02;

/// The shares of blocked time of an event loop from which heartbeats and transfers are noticeably late,
/// and from which this is so most of the time.
const LOOP_BLOCKED: (f64, f64) = (0.2, 0.5);

/// The ratio of receiving time to idle time from which the network is a likely reason for idleness.
const LIKELY_NETWORK_RATIO: f64 = 0.1;

/// The shares of thread time for spilling from which more memory would be of use, and from which the
/// waste is large.
const SPILLING: (f64, f64) = (0.05, 0.2);

/// The share of reads served from memory from which more memory would help little.
const HIT_RATIO: f64 = 0.9;

/// The shares of task time without use of the CPU that exceed the normal amount for reading and writing,
/// and from which tasks compute hardly anything.
const NON_CPU: (f64, f64) = (0.3, 0.7);

pub(super) fn rate_share(share: f64, (notice, bad): (f64, f64)) -> Verdict {
    if share >= bad {
        Verdict::Bad
    } else if share >= notice {
        Verdict::Notice
    } else {
        Verdict::Good
    }
}

pub(super) fn join_clauses(said: &[String]) -> String {
    said.concat() + "."
}

/// The compute time of the tasks of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTime {
    /// The function or operation.
    pub prefix: String,
    /// The thread time, in microseconds.
    pub compute_us: i64,
}

/// The facts for the question about the functions that take the most time.
#[derive(Clone, Debug)]
pub struct TopTime<'a> {
    /// The functions by descending compute time.
    pub functions: &'a [FunctionTime],
    /// The usage of the cluster.
    pub usage: &'a Usage,
    /// The compute time of the cluster's tasks according to its totals, in thread-seconds.
    pub compute_seconds: f64,
    /// The reason for the absence of functions, if there are none.
    pub missing: Missing,
}

/// Answers which function takes the most time.
#[must_use]
pub fn answer_top_time(facts: &TopTime<'_>) -> Answer {
    let Some(top) = facts.functions.first() else {
        if facts.compute_seconds <= 0.0 {
            let headline = "Nothing has been computed yet, 0 s.".to_owned();
            return Answer::measured(Verdict::Unknown, headline).value(0.0, "thread-seconds");
        }
        let computed = format_duration(facts.compute_seconds);
        let why = remedy(facts.missing, "TASKS");
        let headline =
            format!("{computed} of thread time was computed, but by which functions is not stored, {why}.");
        return Answer::not_collected(headline);
    };
    // Only a limited number of functions is stored for an hour, so the hourly usage can exceed the sum of
    // the functions.
    let all = facts.functions.iter().map(|function| function.compute_us).fold(0, i64::saturating_add);
    let computed = facts.usage.compute_us.max(all);
    let share = share_of(seconds(top.compute_us), seconds(computed));
    let mut said =
        vec![format!("{} takes {} of thread time", top.prefix, format_duration(seconds(top.compute_us)))];
    if let Some(share) = share {
        said.push(format!(", {} of what was computed", percent(share)));
    }
    let busy = share_of(seconds(facts.usage.compute_us), seconds(facts.usage.observed_us()));
    let verdict = match busy {
        Some(busy) if busy < 1.0 - HIGH_IDLE_SHARE => {
            said.push(format!("; but threads computed only {} of the time", percent(busy)));
            Verdict::Notice
        }
        _ => Verdict::Good,
    };
    let functions = facts.functions.iter().map(|function| {
        Evidence::of(function.prefix.clone(), seconds(function.compute_us), "thread-seconds")
    });
    Answer::measured(verdict, join_clauses(&said))
        .value(seconds(top.compute_us), "thread-seconds")
        .share(share)
        .with_evidence(functions)
}

/// The facts for the question about the GIL.
#[derive(Clone, Copy, Debug)]
pub struct Gil {
    /// The busy share of the GIL on the median worker.
    pub median: Option<Bucket>,
    /// The busy share of the GIL on the worker with the highest share.
    pub busiest: Option<Bucket>,
    /// The length of the observed period, in seconds.
    pub observed_seconds: f64,
    /// True if no worker ever had more than one thread.
    pub one_thread_each: bool,
    /// The time for which tasks held threads without using the CPU, in microseconds.
    pub noncpu_us: Option<i64>,
}

/// Answers how much time contention for the GIL costs.
#[must_use]
pub fn answer_gil(facts: &Gil) -> Answer {
    let Some(median) = facts.median else {
        return Answer::not_collected(
            "GIL contention was not measured: install gilknocker on the workers, and Dask 2023.4.1 or newer measures it.",
        );
    };
    let share = median.mean().clamp(0.0, 1.0);
    let (verdict, addition) = if facts.one_thread_each {
        (Verdict::Good, ", but with 1 thread a worker no task waits for another")
    } else {
        (rate_share(share, GIL_BUSY), "")
    };
    let headline = format!(
        "The GIL was busy {} of the last {}{addition}.",
        percent(share),
        format_duration(facts.observed_seconds)
    );
    let busiest = facts.busiest.map(|busiest| Evidence::of("Busiest on any worker", busiest.max, "share"));
    let noncpu = facts.noncpu_us.map(|time| {
        Evidence::of(
            "Threads held without using the CPU, for this or other reasons",
            seconds(time),
            "thread-seconds",
        )
    });
    Answer::measured(verdict, headline)
        .value(share * facts.observed_seconds, "seconds")
        .share(Some(share))
        .with_evidence(busiest.into_iter().chain(noncpu))
}

/// The facts for the question about event loops. Values are times between two ticks, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct EventLoop {
    /// The ticks of the median worker.
    pub workers: Option<Bucket>,
    /// The ticks of the slowest worker.
    pub slowest: Option<Bucket>,
    /// The ticks of the scheduler.
    pub scheduler: Option<Bucket>,
    /// The length of the observed period, in seconds.
    pub looked_at: f64,
}

/// Answers how much time blocked event loops cost.
#[must_use]
pub fn answer_event_loop(facts: &EventLoop) -> Answer {
    let both = [
        ("the workers' event loops were", facts.workers),
        ("the scheduler's event loop was", facts.scheduler),
    ];
    let worst = both
        .into_iter()
        .filter_map(|(whose, ticks)| Some((whose, ticks?.mean())))
        .reduce(|a, b| if b.1 > a.1 { b } else { a });
    let Some((whose, tick)) = worst else {
        return Answer::not_collected(
            "How long event loops were blocked was not measured in the time that was looked at: no sample tells of it.",
        );
    };
    let share = if tick > TICK_SECONDS { (tick - TICK_SECONDS) / tick } else { 0.0 };
    let milliseconds = |seconds: f64| format!("{:.0} ms", seconds * 1_000.0);
    let (took, takes) = (milliseconds(tick), milliseconds(TICK_SECONDS));
    let compared = if took == takes { ", as it should".to_owned() } else { format!(" and not {takes}") };
    let headline = format!(
        "In the last {} {whose} blocked {} of the time: a tick took {took}{compared}.",
        format_duration(facts.looked_at),
        percent(share),
    );
    let evidence = [
        ("A tick of the median worker", facts.workers.map(|ticks| ticks.mean())),
        ("The slowest tick of any worker", facts.slowest.map(|ticks| ticks.max)),
        ("A tick of the scheduler", facts.scheduler.map(|ticks| ticks.mean())),
        ("The slowest tick of the scheduler", facts.scheduler.map(|ticks| ticks.max)),
    ];
    let evidence =
        evidence.into_iter().filter_map(|(label, tick)| Some(Evidence::of(label, tick?, "seconds")));
    Answer::measured(rate_share(share, LOOP_BLOCKED), headline)
        .value(share * facts.looked_at, "seconds")
        .share(Some(share))
        .with_evidence(evidence)
}

/// The fine performance metrics that answers need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricTimes {
    /// The time that workers spent on receiving data from each other, in seconds.
    pub receiving: f64,
    /// The number of bytes received.
    pub received_bytes: f64,
    /// The time that workers spent on sending data to each other, in seconds.
    pub sending: f64,
    /// The time that tasks spent on moving results between memory and disk, in thread-seconds.
    pub spilling: f64,
    /// The time that memory monitors spent on it outside of tasks, in seconds.
    pub monitor: f64,
    /// The number of bytes written to disk because memory was full.
    pub spilled_bytes: f64,
    /// The number of reads of results that were in memory.
    pub memory_reads: f64,
    /// The number of reads of results that were on disk.
    pub disk_reads: f64,
    /// The functions by descending time without use of the CPU.
    pub functions: Vec<NonCpu>,
}

/// The thread time of a function's tasks, in thread-seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct NonCpu {
    /// The function or operation.
    pub function: String,
    /// The time with use of the CPU.
    pub cpu: f64,
    /// The time without use of the CPU.
    pub noncpu: f64,
}

impl MetricTimes {
    /// Extracts the times from all metrics of a cluster. The classification is the same as for hourly
    /// usage.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let mut times = Self::default();
        let mut functions = BTreeMap::<&str, (f64, f64)>::new();
        for (label, value) in table.sums() {
            let Label { context, function, activity, unit } = label;
            match (context.as_str(), activity.as_str(), unit.as_str()) {
                ("gather-dep", "network", "seconds") => times.receiving += value,
                ("gather-dep", "network", "bytes") => times.received_bytes += value,
                ("get-data", "network", "seconds") => times.sending += value,
                ("memory-monitor", _, "seconds") => times.monitor += value,
                ("execute" | "get-data", "memory-read", "count") => times.memory_reads += value,
                ("execute" | "get-data", "disk-read", "count") => times.disk_reads += value,
                (
                    "execute",
                    "disk-read" | "disk-write" | "compress" | "decompress" | "memory-read",
                    "seconds",
                ) => {
                    times.spilling += value;
                }
                ("execute", activity, "seconds") => {
                    let of = functions.entry(function.as_deref().unwrap_or("no function")).or_default();
                    if activity == "thread-noncpu" || is_p2p(activity, "-noncpu") {
                        of.1 += value;
                    } else if uses_cpu(activity) {
                        of.0 += value;
                    }
                }
                _ => {}
            }
            if context != "p2p" && activity == "disk-write" && unit == "bytes" {
                times.spilled_bytes += value;
            }
        }
        times.functions = functions
            .into_iter()
            .map(|(function, (cpu, noncpu))| NonCpu { function: function.to_owned(), cpu, noncpu })
            .collect();
        // The sort is stable, so equal times keep the order of their names.
        times.functions.sort_by(|a, b| b.noncpu.total_cmp(&a.noncpu));
        times
    }
}

/// Returns true if this activity of a task uses the CPU.
pub(super) fn uses_cpu(activity: &str) -> bool {
    activity == "thread-cpu" || is_p2p(activity, "-cpu")
}

fn is_p2p(activity: &str, end: &str) -> bool {
    activity.starts_with("p2p-") && activity.ends_with(end)
}

/// Returns the answer for absent fine performance metrics.
fn without_metrics(what: &str, missing: Missing) -> Answer {
    let why = match missing {
        Missing::NotReported => "Dask tells of it since 2023.7, once tasks ran".to_owned(),
        refused => remedy(refused, "TASKS"),
    };
    Answer::not_collected(format!("{what} is not stored, {why}."))
}

/// The facts for the question about transfers between workers.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    /// The workers' measurements, if there are any.
    pub times: Option<&'a MetricTimes>,
    /// The usage of the cluster.
    pub usage: &'a Usage,
    /// The largest number of threads of a worker.
    pub threads_each: i64,
    /// The reason for the absence of measurements, if there are none.
    pub missing: Missing,
}

/// Answers how much time the network costs. Transfers run in parallel to the tasks, so they cost at most
/// the time in which threads were idle.
#[must_use]
pub fn answer_network(facts: &Network<'_>) -> Answer {
    let Some(times) = facts.times else {
        return without_metrics("How long workers received data", facts.missing);
    };
    let received = format!("Workers received data for {}", format_duration(times.receiving));
    let evidence = [
        ("Receiving data from other workers", times.receiving, "seconds"),
        ("Received", times.received_bytes, "bytes"),
        ("Sending data to other workers", times.sending, "seconds"),
    ];
    let evidence = evidence.into_iter().filter(|(_, value, _)| *value > 0.0);
    let evidence = evidence.map(|(label, value, unit)| Evidence::of(label, value, unit));
    let idle_us = facts.usage.idle_thread_us().filter(|_| facts.usage.observed_us() > 0);
    let Some(idle_us) = idle_us else {
        let headline = format!(
            "{received} beside their tasks, and what that cost cannot be told without the threads' idle time."
        );
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, headline).with_evidence(evidence);
    };
    let share = share_of(seconds(idle_us), seconds(facts.usage.observed_us())).unwrap_or(0.0);
    let idle = percent(share);
    let (verdict, conclusion) = if share < HIGH_IDLE_SHARE {
        (
            Verdict::Good,
            format!(
                "beside their tasks: threads were idle {idle} of the time, and it cost no more than that"
            ),
        )
    } else if times.receiving < LIKELY_NETWORK_RATIO * seconds(idle_us) {
        (
            Verdict::Good,
            format!("and threads were idle {idle} of the time, most of which must have other reasons"),
        )
    } else {
        (
            Verdict::Notice,
            format!("and threads were idle {idle} of the time, which they may have spent waiting for it"),
        )
    };
    let idle =
        Evidence::of("Threads without a task, for this or other reasons", seconds(idle_us), "thread-seconds");
    // While a worker receives data, at most all of its threads wait for it, and threads with a task do
    // not wait. It is unknown if an idle thread would have had a task.
    let most = seconds(idle_us).min(times.receiving * to_f64(facts.threads_each.max(1)));
    Answer::measured(verdict, format!("{received}, {conclusion}."))
        .value(times.receiving, "seconds")
        .share(Some(share))
        .benefit(0.0, most)
        .with_evidence(evidence.chain([idle]))
}

/// The facts for the question about spilling.
#[derive(Clone, Debug)]
pub struct Spill<'a> {
    /// The usage of the cluster.
    pub usage: &'a Usage,
    /// The workers' measurements, if they are stored.
    pub times: Option<&'a MetricTimes>,
}

/// Answers how much time is lost by moving results between memory and disk.
#[must_use]
pub fn answer_spill(facts: &Spill<'_>) -> Answer {
    let (usage, times) = (facts.usage, facts.times);
    let Some(lost) = usage.spill_us.map(seconds).or(times.map(|times| times.spilling)) else {
        // Usage reports this time under every data policy, so the policy is not the reason.
        return without_metrics("How long results were moved to disk and back", Missing::NotReported);
    };
    let monitor = times.map_or(0.0, |times| times.monitor);
    let written = times.map_or(0.0, |times| times.spilled_bytes).max(to_f64(usage.spilled_bytes));
    let hits = times.and_then(|times| share_of(times.memory_reads, times.memory_reads + times.disk_reads));
    let evidence = [
        (written > 0.0).then(|| Evidence::of("Written to disk", written, "bytes")),
        (monitor > 0.0)
            .then(|| Evidence::of("Spilling of memory monitors beside the tasks", monitor, "seconds")),
        hits.map(|hits| Evidence::of("Reads of results that were in memory", hits, "share")),
    ];
    let evidence = evidence.into_iter().flatten();
    if lost <= 0.0 && written <= 0.0 && monitor <= 0.0 {
        let headline = "No time was lost to spilling, 0 s.".to_owned();
        let share = (usage.observed_us() > 0).then_some(0.0);
        return Answer::measured(Verdict::Good, headline)
            .value(0.0, "thread-seconds")
            .share(share)
            .with_evidence(evidence);
    }
    if lost <= 0.0 {
        let headline = format!(
            "{} were written to disk beside the tasks, and what that cost them cannot be told.",
            bytes(written)
        );
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, headline).with_evidence(evidence);
    }
    let share = share_of(lost, seconds(usage.observed_us()));
    let mut said = vec![format!(
        "Tasks spent {} of thread time on moving results to disk and back",
        format_duration(lost)
    )];
    if let Some(share) = share {
        said.push(format!(", {} of it all", percent(share)));
    }
    if let Some(hits) = hits.filter(|hits| *hits >= HIT_RATIO) {
        said.push(format!(
            "; {} of reads were answered from memory, so more of it would help little",
            percent(hits)
        ));
    }
    let verdict = share.map_or(Verdict::Unknown, |share| rate_share(share, SPILLING));
    Answer::measured(verdict, join_clauses(&said))
        .value(lost, "thread-seconds")
        .share(share)
        .with_evidence(evidence)
}

/// Answers which functions hold threads without using the CPU.
#[must_use]
pub fn answer_cpu(times: Option<&MetricTimes>, missing: Missing) -> Answer {
    let Some(times) = times else {
        return without_metrics("How long tasks held threads without using the CPU", missing);
    };
    let (cpu, noncpu) =
        times.functions.iter().fold((0.0, 0.0), |(cpu, noncpu), row| (cpu + row.cpu, noncpu + row.noncpu));
    let (Some(top), Some(share)) = (times.functions.first(), share_of(noncpu, cpu + noncpu)) else {
        let headline = "No task has held a thread yet, 0 s.".to_owned();
        return Answer::measured(Verdict::Unknown, headline).value(0.0, "thread-seconds");
    };
    let verdict = rate_share(share, NON_CPU);
    let held = format_duration(noncpu);
    let mut said = vec![format!(
        "Tasks held threads for {held} without using the CPU, {} of their time",
        percent(share)
    )];
    if noncpu > 0.0 {
        said.push(format!(", most of it in {}", top.function));
    }
    if verdict != Verdict::Good {
        said.push(": look for GIL contention first, then for what they wait for".to_owned());
    }
    let functions = times.functions.iter().filter(|row| row.noncpu > 0.0).map(|row| {
        let share = share_of(row.noncpu, row.cpu + row.noncpu).unwrap_or(0.0);
        Evidence::of(
            format!("{}, {} of its time", row.function, percent(share)),
            row.noncpu,
            "thread-seconds",
        )
    });
    Answer::measured(verdict, join_clauses(&said))
        .value(noncpu, "thread-seconds")
        .share(Some(share))
        .with_evidence(functions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{fine_metric, report::FineMetricCell};

    const HOUR: i64 = 3_600_000_000;

    fn times(cells: &str) -> MetricTimes {
        let cells: Vec<FineMetricCell> = serde_json::from_str(cells).expect("cells");
        let (mut labels, mut table) = (fine_metric::CellReader::default(), Table::default());
        table.add(&labels.read(&fine_metric::pack(&cells), true).expect("it was packed"));
        MetricTimes::of(&table)
    }

    #[test]
    fn metrics_count_where_usage_counts_them() {
        let times = times(
            r#"[["execute","load","thread-cpu","seconds",3],["execute","load","thread-noncpu","seconds",1],
            ["execute","shuffle","p2p-shard-partition-cpu","seconds",2],["execute","shuffle","p2p-get-output-noncpu","seconds",5],
            ["execute","load","disk-read","seconds",0.5],["execute","load","disk-read","count",1],
            ["get-data",null,"memory-read","count",3],["p2p","background-disk","disk-write","bytes",99],
            ["execute","load","disk-write","bytes",10],["memory-monitor",null,"disk-write","bytes",20],
            ["memory-monitor",null,"serialize","seconds",4],["gather-dep",null,"network","seconds",7],
            ["gather-dep",null,"other","seconds",8],["get-data",null,"network","seconds",6]]"#,
        );
        let expected = MetricTimes {
            receiving: 7.0,
            received_bytes: 0.0,
            sending: 6.0,
            spilling: 0.5,
            monitor: 4.0,
            spilled_bytes: 30.0,
            memory_reads: 3.0,
            disk_reads: 1.0,
            functions: vec![
                NonCpu { function: "shuffle".to_owned(), cpu: 2.0, noncpu: 5.0 },
                NonCpu { function: "load".to_owned(), cpu: 3.0, noncpu: 1.0 },
            ],
        };
        assert_eq!(times, expected);
    }

    #[test]
    fn the_network_matters_only_while_threads_are_idle() {
        use Confidence::{Measured, NotAttributable};
        use Verdict::{Good, Notice, Unknown};
        let said = |receiving: f64, idle_us: Option<i64>| {
            let usage = Usage { thread_us: 4 * HOUR, idle_us, ..Usage::default() };
            let times = MetricTimes { receiving, ..MetricTimes::default() };
            let missing = Missing::NotReported;
            let answer =
                answer_network(&Network { times: Some(&times), usage: &usage, threads_each: 4, missing });
            (answer.verdict, answer.confidence, answer.share, answer.benefit.map(|(_, most)| most))
        };
        assert_eq!(said(9_999.0, Some(HOUR)), (Good, Measured, Some(0.25), Some(3_600.0)));
        assert_eq!(said(300.0, Some(3 * HOUR)), (Good, Measured, Some(0.75), Some(1_200.0)));
        assert_eq!(said(1_080.0, Some(3 * HOUR)), (Notice, Measured, Some(0.75), Some(4_320.0)));
        assert_eq!(said(300.0, None), (Unknown, NotAttributable, None, None));
    }

    #[test]
    fn spilling_beside_the_tasks_is_not_attributed() {
        let of = |spill_us: Option<i64>, times: Option<&MetricTimes>| {
            let usage = Usage { thread_us: 4 * HOUR, spill_us, ..Usage::default() };
            let answer = answer_spill(&Spill { usage: &usage, times });
            (answer.verdict, answer.confidence, answer.value.map(|(value, _)| value), answer.share)
        };
        let monitor = MetricTimes { monitor: 3.0, spilled_bytes: 5e6, ..MetricTimes::default() };
        let unattributed = (Verdict::Unknown, Confidence::NotAttributable, None, None);
        assert_eq!(of(Some(0), Some(&monitor)), unattributed);
        assert_eq!(of(None, Some(&monitor)), unattributed);
        assert_eq!(
            of(Some(HOUR), Some(&monitor)),
            (Verdict::Bad, Confidence::Measured, Some(3_600.0), Some(0.25))
        );
        assert_eq!(
            of(Some(HOUR / 5), None),
            (Verdict::Notice, Confidence::Measured, Some(720.0), Some(0.05))
        );
        assert_eq!(of(Some(0), None), (Verdict::Good, Confidence::Measured, Some(0.0), Some(0.0)));
        assert_eq!(of(None, None), (Verdict::Unknown, Confidence::NotCollected, None, None));
    }

    #[test]
    fn memory_that_answers_most_reads_is_enough() {
        let usage = Usage { thread_us: HOUR, spill_us: Some(HOUR / 10), ..Usage::default() };
        let headline = |memory_reads: f64| {
            let times = MetricTimes { memory_reads, disk_reads: 1.0, ..MetricTimes::default() };
            answer_spill(&Spill { usage: &usage, times: Some(&times) }).headline
        };
        let spent = "Tasks spent 6 min of thread time on moving results to disk and back, 10 % of it all";
        assert_eq!(headline(1.0), format!("{spent}."));
        assert_eq!(
            headline(9.0),
            format!("{spent}; 90 % of reads were answered from memory, so more of it would help little.")
        );
    }

    #[test]
    fn verdicts_change_at_their_thresholds() {
        use Verdict::{Bad, Good, Notice};
        let at = |noncpu: f64| {
            let functions = vec![NonCpu { function: "f".to_owned(), cpu: 100.0 - noncpu, noncpu }];
            let times = MetricTimes { functions, ..MetricTimes::default() };
            answer_cpu(Some(&times), Missing::NotReported).verdict
        };
        let verdicts = [0.0, 29.0, 30.0, 69.0, 70.0, 100.0].map(at);
        assert_eq!(verdicts, [Good, Good, Notice, Notice, Bad, Bad]);
    }

    #[test]
    fn nothing_computed_is_not_nothing_stored() {
        let none = Usage::default();
        let facts = TopTime { functions: &[], usage: &none, compute_seconds: 0.0, missing: Missing::Refused };
        assert_eq!(answer_top_time(&facts).confidence, Confidence::Measured);
        let refused = answer_top_time(&TopTime { compute_seconds: 90.0, ..facts });
        assert_eq!(refused.confidence, Confidence::NotCollected);
        assert!(refused.headline.contains("refuses the data class TASKS"), "{}", refused.headline);
    }
}
