//! Reduction of a report to the data classes that its account accepts.

use std::sync::Arc;

use entity::data_policy::DataClass;

use crate::{
    blocking_work::run_blocking,
    domain::{
        code_redaction::{may_contain_source, redact_source, redact_source_in_json},
        data_class::Accepted,
        report::{ErrorOrigin, EventReport, Report},
    },
};

/// Returns the part of a report that its account accepts. Runs on a blocking thread.
pub(super) async fn accepted_part(report: &Arc<Report>, accepted: &Accepted) -> Arc<Report> {
    if accepted.accepts_all() && report.events.is_empty() {
        return Arc::clone(report);
    }
    let (report, accepted) = (Arc::clone(report), accepted.clone());
    run_blocking(move || reduce_report(&report, &accepted)).await
}

fn reduce_report(report: &Arc<Report>, accepted: &Accepted) -> Arc<Report> {
    let refuses = |class| !accepted.accepts(class);
    if accepted.accepts_all() && !report.events.iter().any(event_may_hold_source) {
        return Arc::clone(report);
    }
    let mut reduced = Report::clone(report);
    if refuses(DataClass::Tasks) {
        reduced.task_groups.clear();
        reduced.computations.clear();
        reduced.spans.clear();
        reduced.fine_metrics.clear();
        reduced.function_activity.clear();
        reduced.usage.items_mut().iter_mut().for_each(|hour| hour.functions.clear());
        for worker in reduced.workers.items_mut() {
            worker.processing_keys.clear();
            worker.processing_functions = None;
        }
        reduced.profiles.items_mut().iter_mut().for_each(|profile| profile.functions.clear());
    }
    if refuses(DataClass::UserErrors) {
        reduced.errors.retain(|error| error.origin() == ErrorOrigin::Dask);
    }
    if refuses(DataClass::Profiles) {
        reduced.profiles.clear();
    }
    if refuses(DataClass::Events) {
        reduced.events.clear();
    }
    if refuses(DataClass::Logs) {
        reduced.logs.clear();
    }
    if refuses(DataClass::Code) {
        without_code(&mut reduced);
    }
    // Independent of the account's data policy: events are not encrypted, so they must never contain
    // code.
    reduced
        .events
        .items_mut()
        .iter_mut()
        .filter(|event| event_may_hold_source(event))
        .for_each(without_source);
    Arc::new(reduced)
}

fn without_code(report: &mut Report) {
    report.code.clear();
    report.computations.items_mut().iter_mut().for_each(|computation| computation.code.clear());
    report.spans.items_mut().iter_mut().for_each(|span| span.code.clear());
    for profile in report.profiles.items_mut() {
        profile.frames.items_mut().iter_mut().for_each(|frame| frame.text = None);
    }
    for error in report.errors.items_mut() {
        error.message.replace_with_part(redact_source);
        error.traceback.replace_with_part(redact_source);
        error.source = None;
    }
    report.logs.items_mut().iter_mut().for_each(|line| line.message.replace_with_part(redact_source));
}

fn event_may_hold_source(event: &EventReport) -> bool {
    may_contain_source(event.data.as_str()) || may_contain_source(event.topic.as_str())
}

fn without_source(event: &mut EventReport) {
    event.topic.replace_with_part(redact_source);
    let mut data = event.data.value();
    redact_source_in_json(&mut data);
    event.data.replace(&data);
}
