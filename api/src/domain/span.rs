//! Totals of a span and its descendants, without counting anything twice.
//!
//! The rules are those of Dask (`Span.active_cpu_seconds`, `Span.merge`). A span is active from its
//! arrival until the last task of its subtree stops, including gaps between its children. Several spans
//! together are active whenever one of them is. The thread time in this period that is not spent on
//! executing their tasks is "idle or other spans".

use std::{
    collections::{BTreeMap, HashMap},
    iter::Sum,
};

use entity::ids::SpanId;

/// The times of a span, without its descendants, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanTimes {
    /// The id of the span.
    pub id: SpanId,
    /// The parent span.
    pub parent: Option<SpanId>,
    /// The arrival of its first tasks.
    pub enqueued: i64,
    /// The start of the first of its finished tasks.
    pub started: Option<i64>,
    /// The stop of its last task.
    pub stopped: Option<i64>,
    /// True if its own tasks are done.
    pub done: bool,
}

/// Sums over the task groups of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of tasks.
    pub tasks: i64,
    /// The number of times that a task produced a result in memory.
    pub tasks_succeeded: i64,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: i64,
    /// The number of failed attempts that were retried.
    pub tasks_retried: i64,
    /// The compute time of tasks that succeeded, in seconds.
    pub compute_seconds: f64,
    /// The time to fetch their inputs, in seconds.
    pub transfer_seconds: f64,
    /// The bytes of their results.
    pub bytes: i64,
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), |sum, item| Self {
            tasks: sum.tasks.saturating_add(item.tasks),
            tasks_succeeded: sum.tasks_succeeded.saturating_add(item.tasks_succeeded),
            tasks_erred: sum.tasks_erred.saturating_add(item.tasks_erred),
            tasks_retried: sum.tasks_retried.saturating_add(item.tasks_retried),
            compute_seconds: sum.compute_seconds + item.compute_seconds,
            transfer_seconds: sum.transfer_seconds + item.transfer_seconds,
            bytes: sum.bytes.saturating_add(item.bytes),
        })
    }
}

/// A set of spans of a cluster: one span with its descendants, or all spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Vec<SpanTimes>);

impl Spans {
    /// Creates a set without duplicates.
    #[must_use]
    pub fn new(spans: impl IntoIterator<Item = SpanTimes>) -> Self {
        let by_id: BTreeMap<SpanId, SpanTimes> = spans.into_iter().map(|span| (span.id, span)).collect();
        Self(by_id.into_values().collect())
    }

    /// Returns the number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no spans.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the spans whose first tasks arrived in a period. `None` leaves an end open.
    #[must_use]
    pub fn enqueued_in(&self, (from, to): (Option<i64>, Option<i64>)) -> Self {
        let is_in = |span: &&SpanTimes| {
            from.is_none_or(|from| span.enqueued >= from) && to.is_none_or(|to| span.enqueued < to)
        };
        Self(self.0.iter().filter(is_in).copied().collect())
    }

    /// Iterates over the ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = SpanId> {
        self.0.iter().map(|span| span.id)
    }

    /// Returns true if all tasks of all spans are done.
    #[must_use]
    pub fn done(&self) -> bool {
        self.0.iter().all(|span| span.done)
    }

    /// Returns the start of the first of their finished tasks.
    #[must_use]
    pub fn started(&self) -> Option<i64> {
        // Workers' clocks may be off. No task starts before its span arrives.
        let started = self.0.iter().filter_map(|span| span.started).min()?;
        Some(self.0.iter().map(|span| span.enqueued).min().map_or(started, |enqueued| started.max(enqueued)))
    }

    /// Returns the stop of their last task. Returns `None` while a task is not done.
    #[must_use]
    pub fn stopped(&self) -> Option<i64> {
        self.done().then(|| self.0.iter().map(|span| end(span, 0)).max()).flatten()
    }

    /// Returns the periods in which at least one span was active, as ordered and disjoint ranges. Spans
    /// that are not done are active until `now`.
    #[must_use]
    pub fn active(&self, now: i64) -> Vec<(i64, i64)> {
        let ends = self.ends(now);
        union(self.0.iter().map(|span| (span.enqueued, ends[&span.id])))
    }

    /// Returns the end of each span's subtree.
    fn ends(&self, now: i64) -> HashMap<SpanId, i64> {
        let index_by_id: HashMap<SpanId, usize> =
            self.0.iter().enumerate().map(|(index, span)| (span.id, index)).collect();
        let parents: Vec<Option<usize>> = self
            .0
            .iter()
            .map(|span| span.parent.and_then(|parent| index_by_id.get(&parent).copied()))
            .collect();
        let mut ends: Vec<i64> = self.0.iter().map(|span| end(span, now)).collect();
        // Processes children before parents: a span is ready when all of its children are processed.
        let mut pending_children = vec![0_usize; parents.len()];
        parents.iter().flatten().for_each(|parent| pending_children[*parent] += 1);
        let mut ready: Vec<usize> =
            (0..parents.len()).filter(|index| pending_children[*index] == 0).collect();
        let mut is_processed = vec![false; parents.len()];
        while let Some(index) = ready.pop() {
            is_processed[index] = true;
            if let Some(parent) = parents[index] {
                ends[parent] = ends[parent].max(ends[index]);
                pending_children[parent] -= 1;
                if pending_children[parent] == 0 {
                    ready.push(parent);
                }
            }
        }
        // The remaining spans are their own ancestors, which Dask never reports. The spans of a cycle end
        // together.
        for start in 0..parents.len() {
            let mut cycle = Vec::new();
            let mut current = Some(start);
            while let Some(index) = current.filter(|index| !is_processed[*index]) {
                is_processed[index] = true;
                cycle.push(index);
                current = parents[index];
            }
            let latest = cycle.iter().map(|index| ends[*index]).max();
            cycle
                .into_iter()
                .zip(latest.into_iter().cycle())
                .for_each(|(index, latest)| ends[index] = latest);
        }
        self.ids().zip(ends).collect()
    }
}

fn end(span: &SpanTimes, now: i64) -> i64 {
    let end = if span.done { span.stopped.unwrap_or(span.enqueued) } else { now };
    end.max(span.enqueued)
}

/// Returns the union of ranges, as ordered and disjoint ranges.
fn union(ranges: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = ranges.filter(|(start, end)| start < end).collect();
    ranges.sort_unstable();
    let mut union: Vec<(i64, i64)> = Vec::new();
    for (start, end) in ranges {
        match union.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => union.push((start, end)),
        }
    }
    union
}

/// Returns the number of the cluster's threads integrated over the ranges `active`, in seconds. `history`
/// holds the changes of this number in order of time; the number is zero before the first. Returns `None`
/// if `history` is empty.
#[must_use]
pub fn thread_seconds(active: &[(i64, i64)], history: &[(i64, i64)]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "the result is needed to the millisecond only")]
    let seconds = |milliseconds: i128| milliseconds as f64 / 1000.0;
    thread_milliseconds(active, history).map(seconds)
}

/// Returns the same integral in milliseconds, for which sums are exact.
#[must_use]
pub fn thread_milliseconds(active: &[(i64, i64)], history: &[(i64, i64)]) -> Option<i128> {
    if history.is_empty() {
        return None;
    }
    let step_ends = history.iter().skip(1).map(|(step_start, _)| *step_start).chain([i64::MAX]);
    let steps: Vec<(i64, i64, i64)> = history
        .iter()
        .zip(step_ends)
        .map(|((step_start, threads), step_end)| (*step_start, step_end, *threads))
        .collect();
    let mut thread_milliseconds: i128 = 0;
    for (start, end) in active {
        // Skips the steps that end before the range.
        let first_step = steps.partition_point(|(_, step_end, _)| step_end <= start);
        for (step_start, step_end, threads) in
            steps[first_step..].iter().take_while(|(step_start, ..)| step_start < end)
        {
            let shared = (*end).min(*step_end) - (*start).max(*step_start);
            thread_milliseconds += i128::from(shared.max(0)) * i128::from(*threads);
        }
    }
    Some(thread_milliseconds)
}

/// Returns the thread time that Dask calls "idle or other spans": the time not spent on executing these
/// tasks, in seconds. Custom metrics of users may make the difference negative; the result is zero then.
#[must_use]
pub fn idle_seconds(thread_seconds: f64, execute_seconds: f64) -> f64 {
    (thread_seconds - execute_seconds).max(0.0)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn span(id: u128, parent: Option<u128>, enqueued: i64, stopped: Option<i64>) -> SpanTimes {
        let id_of = |number| SpanId(Uuid::from_u128(number));
        let (id, parent, done) = (id_of(id), parent.map(id_of), stopped.is_some());
        SpanTimes { id, parent, enqueued, started: Some(enqueued + 1), stopped, done }
    }

    #[test]
    fn a_span_is_active_until_its_last_descendant_is_done() {
        // A parent without tasks of its own, and two children with a gap between them.
        let tree = Spans::new([
            span(1, None, 0, Some(0)),
            span(2, Some(1), 5, Some(10)),
            span(3, Some(1), 20, Some(30)),
        ]);
        assert_eq!(tree.active(99), [(0, 30)]);
        assert_eq!((tree.started(), tree.stopped(), tree.done()), (Some(1), Some(30), true));
        let running = Spans::new([span(1, None, 0, Some(0)), span(2, Some(1), 5, None)]);
        assert_eq!(running.active(99), [(0, 99)]);
        assert_eq!((running.stopped(), running.done()), (None, false));
    }

    #[test]
    fn spans_together_leave_out_only_what_none_was_active_in() {
        let spans =
            Spans::new([span(1, None, 0, Some(10)), span(2, None, 5, Some(12)), span(3, None, 20, Some(21))]);
        assert_eq!(spans.active(99), [(0, 12), (20, 21)]);
        assert_eq!(Spans::default().active(99), []);
    }

    #[test]
    fn parents_in_a_circle_come_to_an_end() {
        let circle = Spans::new([span(1, Some(2), 0, Some(1)), span(2, Some(1), 0, Some(7))]);
        assert_eq!(circle.active(9), [(0, 7)]);
        // Spans below a cycle count as well.
        let tail = Spans::new([
            span(1, Some(2), 0, Some(1)),
            span(2, Some(1), 0, Some(2)),
            span(3, Some(1), 1, Some(8)),
            span(4, Some(4), 20, Some(21)),
        ]);
        assert_eq!(tail.active(9), [(0, 8), (20, 21)]);
    }

    /// Walking up the ancestors of each span would take hours.
    #[test]
    fn a_chain_of_very_many_spans_takes_a_moment() {
        let length = 300_000_u128;
        let link = |n: u128| span(n, Some(n + 1).filter(|above| *above < length), 0, Some(i64::from(n == 0)));
        let chain = Spans::new((0..length).map(link));
        assert!(chain.ends(0).values().all(|end| *end == 1));
        assert_eq!(chain.active(0), [(0, 1)]);
    }

    #[test]
    fn threads_count_while_they_were_there() {
        let history = [(100, 2), (200, 4), (300, 0), (400, 1)];
        for (active, expected) in [
            (vec![(0, 100)], 0.0),
            (vec![(0, 150)], 0.1),
            (vec![(150, 250)], 0.3),
            (vec![(150, 250), (350, 450)], 0.35),
            (vec![(50, 1_000)], 1.2),
            (vec![], 0.0),
        ] {
            assert_eq!(thread_seconds(&active, &history), Some(expected), "{active:?}");
        }
        assert_eq!(thread_seconds(&[(0, 1)], &[]), None, "not known is not none");
    }

    /// Two clusters as Dask 2026.8.0 and 2023.7.0 described them, to the millisecond.
    #[test]
    fn dask_comes_to_the_same_numbers() {
        let close = |ours: Option<f64>, dasks: f64| (ours.expect("known") - dasks).abs() < 0.005;
        let workflow = Spans::new([
            span(1, None, 706_564, Some(706_564)),
            span(2, Some(1), 706_564, Some(706_745)),
            span(3, Some(1), 706_754, Some(706_754)),
            span(4, Some(3), 706_754, Some(706_870)),
            span(5, Some(1), 706_893, Some(707_613)),
        ]);
        assert!(close(thread_seconds(&workflow.active(0), &[(0, 2)]), 2.099_593));
        // Workers died and were replaced in this period.
        let failing = Spans::new([span(1, None, 800_525, Some(806_694))]);
        let threads =
            [(0, 0), (790_000, 2), (801_103, 1), (801_179, 0), (805_691, 1), (805_757, 2), (806_800, 0)];
        assert!(close(thread_seconds(&failing.active(0), &threads), 3.171_468));
    }

    #[test]
    fn idle_is_what_is_left_and_never_negative() {
        assert!((idle_seconds(10.0, 4.0) - 6.0).abs() < 1e-12);
        assert!(idle_seconds(1.0, 4.0).abs() < 1e-12);
    }
}
