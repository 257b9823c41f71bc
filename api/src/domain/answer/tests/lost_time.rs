//! The use of thread time and its losses.

use super::{Case, HOUR};
use crate::domain::{answer::*, series::Bucket, usage::Usage};

pub(super) fn contention() -> Vec<Case> {
    let gil = |median: Option<f64>, one_thread_each, headline| {
        let facts = Gil {
            median: median.map(Bucket::of),
            busiest: median.map(Bucket::of),
            observed_seconds: 600.0,
            one_thread_each,
            noncpu_us: Some(HOUR),
        };
        (Question::Gil, answer_gil(&facts), headline)
    };
    let ticks = |workers: Option<f64>, scheduler: Option<f64>, headline| {
        let [workers, scheduler] = [workers, scheduler].map(|tick| tick.map(Bucket::of));
        let facts = EventLoop { workers, slowest: workers, scheduler, observed_seconds: 600.0 };
        (Question::EventLoop, answer_event_loop(&facts), headline)
    };
    vec![
        gil(
            None,
            false,
            "GIL contention was not measured: install gilknocker on the workers, and Dask 2023.4.1 or newer measures it.",
        ),
        gil(Some(0.375), false, "The GIL was busy 38 % of the last 10 min."),
        gil(
            Some(1.0),
            true,
            "The GIL was busy 100 % of the last 10 min, but with 1 thread a worker no task waits for another.",
        ),
        ticks(
            None,
            None,
            "How long event loops were blocked is not known: no sample of this period measures it.",
        ),
        ticks(
            Some(0.08),
            Some(0.02),
            "In the last 10 min the workers' event loops were blocked 75 % of the time: a tick took 80 ms instead of 20 ms.",
        ),
        ticks(
            None,
            Some(0.02),
            "In the last 10 min the scheduler's event loop was blocked 0 % of the time: a tick took 20 ms, the usual time.",
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
pub(super) fn lost_times() -> Vec<Case> {
    let compute = FunctionTime { prefix: "f7".to_owned(), compute_us: 3 * HOUR };
    let top = |functions: &[FunctionTime], thread_us, compute_seconds, headline| {
        let usage = Usage { thread_us, compute_us: 4 * HOUR, ..Usage::default() };
        let facts = TopTime { functions, usage: &usage, compute_seconds, missing: Missing::Refused };
        (Question::TopTime, answer_top_time(&facts), headline)
    };
    let times = |receiving: f64, noncpu: f64| MetricTimes {
        receiving,
        received_bytes: 5_000.0,
        sending: 6.0,
        spilling: 0.0,
        monitor: 3.0,
        spilled_bytes: 2_000_000.0,
        memory_reads: 9.0,
        disk_reads: 1.0,
        functions: vec![NonCpu { function: "f7".to_owned(), cpu: 100.0, noncpu }],
    };
    let network = |times: Option<&MetricTimes>, idle_us, headline| {
        let usage = Usage { thread_us: 4 * HOUR, idle_us, ..Usage::default() };
        let facts = Network { times, usage: &usage, threads_each: 4, missing: Missing::NotReported };
        (Question::Network, answer_network(&facts), headline)
    };
    let spill = |spill_us, times: Option<&MetricTimes>, headline| {
        let usage = Usage { thread_us: 4 * HOUR, spill_us, ..Usage::default() };
        (Question::Spill, answer_spill(&Spill { usage: &usage, times }), headline)
    };
    let cpu = |times: Option<&MetricTimes>, headline| {
        (Question::Cpu, answer_cpu(times, Missing::NotReported), headline)
    };
    let (short, long) = (times(60.0, 10.0), times(1_800.0, 60.0));
    vec![
        top(&[], HOUR, 0.0, "No task computed so far: 0 s of thread time."),
        top(
            &[],
            HOUR,
            90.0,
            "1.5 min of thread time was computed, but the times of the functions are not stored, because the account refuses the \
             data class TASKS: setDataPolicy accepts it.",
        ),
        top(
            std::slice::from_ref(&compute),
            4 * HOUR,
            1.0,
            "f7 takes 3 h 0 min of thread time, 75 % of what was computed.",
        ),
        top(
            &[compute],
            16 * HOUR,
            1.0,
            "f7 takes 3 h 0 min of thread time, 75 % of what was computed; but threads computed only 25 % of the time.",
        ),
        network(
            None,
            None,
            "How long workers received data is not stored, Dask 2023.7 and newer report it once tasks ran.",
        ),
        network(
            Some(&short),
            None,
            "Workers received data for 1 min beside their tasks, and its cost is not known without the threads' idle time.",
        ),
        network(
            Some(&short),
            Some(HOUR),
            "Workers received data for 1 min, beside their tasks: threads were idle 25 % of the time, and it cost no more \
             than that.",
        ),
        network(
            Some(&short),
            Some(3 * HOUR),
            "Workers received data for 1 min, and threads were idle 75 % of the time, most of which must have other \
             reasons.",
        ),
        network(
            Some(&long),
            Some(3 * HOUR),
            "Workers received data for 30 min, and threads were idle 75 % of the time, which they may have spent waiting \
             for it.",
        ),
        spill(
            None,
            None,
            "How long results were moved to disk and back is not stored, Dask 2023.7 and newer report it once tasks ran.",
        ),
        spill(Some(0), None, "No time was lost to spilling: 0 s."),
        spill(
            Some(0),
            Some(&short),
            "1.9 MiB were written to disk beside the tasks, and the time that tasks lost is not known.",
        ),
        spill(
            Some(HOUR / 5),
            None,
            "Tasks spent 12 min of thread time on moving results to disk and back, 5 % of it all.",
        ),
        spill(
            Some(HOUR / 5),
            Some(&short),
            "Tasks spent 12 min of thread time on moving results to disk and back, 5 % of it all; 90 % of reads were \
             answered from memory, so more of it would help little.",
        ),
        cpu(
            None,
            "How long tasks held threads without using the CPU is not stored, Dask 2023.7 and newer report it once tasks ran.",
        ),
        cpu(Some(&MetricTimes::default()), "No task ran so far: 0 s of thread time."),
        cpu(Some(&times(0.0, 0.0)), "Tasks held threads for 0 s without using the CPU, 0 % of their time."),
        cpu(
            Some(&long),
            "Tasks held threads for 1 min without using the CPU, 38 % of their time, most of it in f7: look for GIL \
             contention first, then for what they wait for.",
        ),
    ]
}
