//! Answers about the use of thread time and its losses.

use std::collections::BTreeMap;

use super::{
    Answer, AnswerCode as Code, Confidence, Evidence, Missing, Phrase, Value, Verdict, remedy, seconds,
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

/// The release of Dask from which on workers measure the GIL, with gilknocker.
const RELEASE_WITH_GIL: &str = "2023.4.1";

/// The release of Dask from which on it has fine performance metrics.
pub(super) const RELEASE_WITH_METRICS: &str = "2023.7";

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
        let computed = Value::ThreadSeconds(facts.compute_seconds.max(0.0));
        if facts.compute_seconds <= 0.0 {
            let phrase = Code::NothingComputed.with("computed", computed);
            return Answer::measured(Verdict::Unknown, phrase).value(0.0, "thread-seconds");
        }
        return Answer::not_collected(Code::FunctionsNotStored.with("computed", computed))
            .qualified([remedy(facts.missing, "TASKS")]);
    };
    // Only a limited number of functions is stored for an hour, so the hourly usage can exceed the sum of
    // the functions.
    let functions_us =
        facts.functions.iter().map(|function| function.compute_us).fold(0, i64::saturating_add);
    let computed = facts.usage.compute_us.max(functions_us);
    let share = share_of(seconds(top.compute_us), seconds(computed));
    let busy = share_of(seconds(facts.usage.compute_us), seconds(facts.usage.observed_us()));
    let low = busy.filter(|busy| *busy < 1.0 - HIGH_IDLE_SHARE);
    let phrase = Code::TopFunction
        .with("function", top.prefix.as_str().into())
        .with("time", Value::ThreadSeconds(seconds(top.compute_us)))
        .with_any("share", share.map(Value::Share))
        .with_any("busy", low.map(Value::Share));
    let functions = facts.functions.iter().map(|function| {
        let phrase = Code::FunctionTime.with("function", function.prefix.as_str().into());
        Evidence::of(phrase, seconds(function.compute_us), "thread-seconds")
    });
    Answer::measured(if low.is_some() { Verdict::Notice } else { Verdict::Good }, phrase)
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
        return Answer::not_collected(Code::GilNotMeasured.with("release", RELEASE_WITH_GIL.into()));
    };
    let share = median.mean().clamp(0.0, 1.0);
    let verdict = if facts.one_thread_each { Verdict::Good } else { rate_share(share, GIL_BUSY) };
    let single_thread =
        facts.one_thread_each.then(|| Code::OneThreadEach.with("threads", Value::Count(1, "threads")));
    let phrase = Code::GilBusy
        .with("share", Value::Share(share))
        .with("period", Value::Seconds(facts.observed_seconds));
    let busiest = facts.busiest.map(|busiest| Evidence::of(Code::GilOfBusiestWorker, busiest.max, "share"));
    let noncpu = facts.noncpu_us.map(|time| Evidence::of(Code::ThreadsHeld, seconds(time), "thread-seconds"));
    Answer::measured(verdict, phrase)
        .qualified(single_thread)
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
    pub observed_seconds: f64,
}

/// Answers how much time blocked event loops cost.
#[must_use]
pub fn answer_event_loop(facts: &EventLoop) -> Answer {
    let event_loops =
        [(Code::WorkerEventLoopsBlocked, facts.workers), (Code::SchedulerEventLoopBlocked, facts.scheduler)];
    let worst = event_loops
        .into_iter()
        .filter_map(|(code, ticks)| Some((code, ticks?.mean())))
        .reduce(|a, b| if b.1 > a.1 { b } else { a });
    let Some((code, tick)) = worst else { return Answer::not_collected(Code::EventLoopsNotMeasured) };
    let share = if tick > TICK_SECONDS { (tick - TICK_SECONDS) / tick } else { 0.0 };
    let (tick_value, usual_tick) = (Value::Tick(tick), Value::Tick(TICK_SECONDS));
    let is_unusual = tick_value.in_words() != usual_tick.in_words();
    let phrase = code
        .with("period", Value::Seconds(facts.observed_seconds))
        .with("share", Value::Share(share))
        .with("tick", tick_value)
        .with_any("usual", is_unusual.then_some(usual_tick));
    let evidence = [
        (Code::TickOfMedianWorker, facts.workers.map(|ticks| ticks.mean())),
        (Code::SlowestTickOfWorkers, facts.slowest.map(|ticks| ticks.max)),
        (Code::TickOfScheduler, facts.scheduler.map(|ticks| ticks.mean())),
        (Code::SlowestTickOfScheduler, facts.scheduler.map(|ticks| ticks.max)),
    ];
    let evidence = evidence.into_iter().filter_map(|(code, tick)| Some(Evidence::of(code, tick?, "seconds")));
    Answer::measured(rate_share(share, LOOP_BLOCKED), phrase)
        .value(share * facts.observed_seconds, "seconds")
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
                    let sums = functions.entry(function.as_deref().unwrap_or("no function")).or_default();
                    if activity == "thread-noncpu" || is_p2p(activity, "-noncpu") {
                        sums.1 += value;
                    } else if uses_cpu(activity) {
                        sums.0 += value;
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
fn without_metrics(code: Code, missing: Missing) -> Answer {
    let reason = match missing {
        Missing::NotReported => Code::NeedsNewerDask.with("release", RELEASE_WITH_METRICS.into()),
        refused => remedy(refused, "TASKS"),
    };
    Answer::not_collected(code).qualified([reason])
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
    let Some(times) = facts.times else { return without_metrics(Code::TransfersNotStored, facts.missing) };
    let received = Value::Seconds(times.receiving);
    let evidence = [
        (Code::TimeReceiving, times.receiving, "seconds"),
        (Code::BytesReceived, times.received_bytes, "bytes"),
        (Code::TimeSending, times.sending, "seconds"),
    ];
    let evidence = evidence.into_iter().filter(|(_, value, _)| *value > 0.0);
    let evidence = evidence.map(|(code, value, unit)| Evidence::of(code, value, unit));
    let idle_us = facts.usage.idle_thread_us().filter(|_| facts.usage.observed_us() > 0);
    let Some(idle_us) = idle_us else {
        let phrase = Code::TransfersNotAttributable.with("time", received);
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, phrase).with_evidence(evidence);
    };
    let share = share_of(seconds(idle_us), seconds(facts.usage.observed_us())).unwrap_or(0.0);
    let (verdict, code) = if share < HIGH_IDLE_SHARE {
        (Verdict::Good, Code::TransfersBesideTasks)
    } else if times.receiving < LIKELY_NETWORK_RATIO * seconds(idle_us) {
        (Verdict::Good, Code::IdleForOtherReasons)
    } else {
        (Verdict::Notice, Code::IdlePerhapsForTransfers)
    };
    let phrase = code.with("time", received).with("idleShare", Value::Share(share));
    let idle = Evidence::of(Code::ThreadsIdle, seconds(idle_us), "thread-seconds");
    // While a worker receives data, at most all of its threads wait for it, and threads with a task do
    // not wait. It is unknown if an idle thread would have had a task.
    let max_benefit = seconds(idle_us).min(times.receiving * to_f64(facts.threads_each.max(1)));
    Answer::measured(verdict, phrase)
        .value(times.receiving, "seconds")
        .share(Some(share))
        .benefit(0.0, max_benefit)
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
    let Some(lost_seconds) = usage.spill_us.map(seconds).or(times.map(|times| times.spilling)) else {
        // Usage reports this time under every data policy, so the policy is not the reason.
        return without_metrics(Code::SpillingNotStored, Missing::NotReported);
    };
    let monitor = times.map_or(0.0, |times| times.monitor);
    let written_bytes = times.map_or(0.0, |times| times.spilled_bytes).max(to_f64(usage.spilled_bytes));
    let memory_read_share =
        times.and_then(|times| share_of(times.memory_reads, times.memory_reads + times.disk_reads));
    let evidence = [
        (written_bytes > 0.0).then(|| Evidence::of(Code::BytesWritten, written_bytes, "bytes")),
        (monitor > 0.0).then(|| Evidence::of(Code::TimeOfMemoryMonitors, monitor, "seconds")),
        memory_read_share
            .map(|memory_read_share| Evidence::of(Code::ReadsFromMemory, memory_read_share, "share")),
    ];
    let evidence = evidence.into_iter().flatten();
    if lost_seconds <= 0.0 && written_bytes <= 0.0 && monitor <= 0.0 {
        let share = (usage.observed_us() > 0).then_some(0.0);
        return Answer::measured(Verdict::Good, Code::NoSpilling.with("time", Value::ThreadSeconds(0.0)))
            .value(0.0, "thread-seconds")
            .share(share)
            .with_evidence(evidence);
    }
    if lost_seconds <= 0.0 {
        let phrase = Code::SpillingNotAttributable.with("written", Value::Bytes(written_bytes));
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, phrase).with_evidence(evidence);
    }
    let share = share_of(lost_seconds, seconds(usage.observed_us()));
    let high_memory_reads = memory_read_share.filter(|share| *share >= HIT_RATIO);
    let phrase = Code::TasksSpilled
        .with("time", Value::ThreadSeconds(lost_seconds))
        .with_any("share", share.map(Value::Share))
        .with_any("memoryReads", high_memory_reads.map(Value::Share));
    let verdict = share.map_or(Verdict::Unknown, |share| rate_share(share, SPILLING));
    Answer::measured(verdict, phrase)
        .value(lost_seconds, "thread-seconds")
        .share(share)
        .with_evidence(evidence)
}

/// Answers which functions hold threads without using the CPU.
#[must_use]
pub fn answer_cpu(times: Option<&MetricTimes>, missing: Missing) -> Answer {
    let Some(times) = times else { return without_metrics(Code::CpuTimeNotStored, missing) };
    let (cpu, noncpu) =
        times.functions.iter().fold((0.0, 0.0), |(cpu, noncpu), row| (cpu + row.cpu, noncpu + row.noncpu));
    let (Some(top), Some(share)) = (times.functions.first(), share_of(noncpu, cpu + noncpu)) else {
        let phrase = Code::NoTaskRan.with("time", Value::ThreadSeconds(0.0));
        return Answer::measured(Verdict::Unknown, phrase).value(0.0, "thread-seconds");
    };
    let verdict = rate_share(share, NON_CPU);
    let worst = (noncpu > 0.0).then(|| top.function.as_str().into());
    let phrase = Code::ThreadsHeldWithoutCpu
        .with("time", Value::ThreadSeconds(noncpu))
        .with("share", Value::Share(share))
        .with_any("function", worst);
    let advice = (verdict != Verdict::Good).then(|| Phrase::from(Code::LookForGilContention));
    let functions = times.functions.iter().filter(|row| row.noncpu > 0.0).map(|row| {
        let share = share_of(row.noncpu, row.cpu + row.noncpu).unwrap_or(0.0);
        let function = Code::FunctionWithoutCpu.with("function", row.function.as_str().into());
        Evidence::of(function.with("share", Value::Share(share)), row.noncpu, "thread-seconds")
    });
    Answer::measured(verdict, phrase)
        .qualified(advice)
        .value(noncpu, "thread-seconds")
        .share(Some(share))
        .with_evidence(functions)
}

#[cfg(test)]
mod tests;
