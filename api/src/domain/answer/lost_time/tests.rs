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
    let outcome = |receiving: f64, idle_us: Option<i64>| {
        let usage = Usage { thread_us: 4 * HOUR, idle_us, ..Usage::default() };
        let times = MetricTimes { receiving, ..MetricTimes::default() };
        let missing = Missing::NotReported;
        let answer =
            answer_network(&Network { times: Some(&times), usage: &usage, threads_each: 4, missing });
        (answer.verdict, answer.confidence, answer.share, answer.benefit.map(|(_, benefit)| benefit))
    };
    assert_eq!(outcome(9_999.0, Some(HOUR)), (Good, Measured, Some(0.25), Some(3_600.0)));
    assert_eq!(outcome(300.0, Some(3 * HOUR)), (Good, Measured, Some(0.75), Some(1_200.0)));
    assert_eq!(outcome(1_080.0, Some(3 * HOUR)), (Notice, Measured, Some(0.75), Some(4_320.0)));
    assert_eq!(outcome(300.0, None), (Unknown, NotAttributable, None, None));
}

#[test]
fn spilling_beside_the_tasks_is_not_attributed() {
    let outcome = |spill_us: Option<i64>, times: Option<&MetricTimes>| {
        let usage = Usage { thread_us: 4 * HOUR, spill_us, ..Usage::default() };
        let answer = answer_spill(&Spill { usage: &usage, times });
        (answer.verdict, answer.confidence, answer.value.map(|(value, _)| value), answer.share)
    };
    let monitor = MetricTimes { monitor: 3.0, spilled_bytes: 5e6, ..MetricTimes::default() };
    let unattributed = (Verdict::Unknown, Confidence::NotAttributable, None, None);
    assert_eq!(outcome(Some(0), Some(&monitor)), unattributed);
    assert_eq!(outcome(None, Some(&monitor)), unattributed);
    assert_eq!(
        outcome(Some(HOUR), Some(&monitor)),
        (Verdict::Bad, Confidence::Measured, Some(3_600.0), Some(0.25))
    );
    assert_eq!(
        outcome(Some(HOUR / 5), None),
        (Verdict::Notice, Confidence::Measured, Some(720.0), Some(0.05))
    );
    assert_eq!(outcome(Some(0), None), (Verdict::Good, Confidence::Measured, Some(0.0), Some(0.0)));
    assert_eq!(outcome(None, None), (Verdict::Unknown, Confidence::NotCollected, None, None));
}

#[test]
fn memory_that_answers_most_reads_is_enough() {
    let usage = Usage { thread_us: HOUR, spill_us: Some(HOUR / 10), ..Usage::default() };
    let headline = |memory_reads: f64| {
        let times = MetricTimes { memory_reads, disk_reads: 1.0, ..MetricTimes::default() };
        answer_spill(&Spill { usage: &usage, times: Some(&times) }).headline()
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
    assert!(refused.headline().contains("refuses the data class TASKS"), "{}", refused.headline());
}
