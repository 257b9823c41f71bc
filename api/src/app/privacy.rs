//! What of a report may be stored: what the account accepts, whoever sent it.

use std::sync::Arc;

use entity::data_policy::DataClass;

use crate::{
    blocking::blocking,
    domain::{
        data_class::Accepted,
        report::{ErrorOrigin, EventReport, Report},
        source::{may_hold_source, strip_source, strip_source_of_json},
    },
};

/// The part of a report that its account accepts, made where it may take its time.
pub(super) async fn accepted_part(report: &Arc<Report>, accepted: &Accepted) -> Arc<Report> {
    if accepted.accepts_all() && report.events.is_empty() {
        return Arc::clone(report);
    }
    let (report, accepted) = (Arc::clone(report), accepted.clone());
    blocking(move || part(&report, &accepted)).await
}

fn part(report: &Arc<Report>, accepted: &Accepted) -> Arc<Report> {
    let refuses = |class| !accepted.accepts(class);
    if accepted.accepts_all() && !report.events.iter().any(event_may_hold_source) {
        return Arc::clone(report);
    }
    let mut part = Report::clone(report);
    if refuses(DataClass::Tasks) {
        part.task_groups.clear();
        part.computations.clear();
        part.spans.clear();
        part.fine_metrics.clear();
        part.usage.items_mut().iter_mut().for_each(|hour| hour.functions.clear());
        part.workers.items_mut().iter_mut().for_each(|worker| worker.processing_keys.clear());
    }
    if refuses(DataClass::UserErrors) {
        part.errors.retain(|error| error.origin != ErrorOrigin::User);
    }
    if refuses(DataClass::Profiles) {
        part.profiles.clear();
    }
    if refuses(DataClass::Events) {
        part.events.clear();
    }
    if refuses(DataClass::Logs) {
        part.logs.clear();
    }
    if refuses(DataClass::Code) {
        without_code(&mut part);
    }
    // Whatever the account accepts: events are not encrypted, so code must not get there.
    part.events.items_mut().iter_mut().filter(|event| event_may_hold_source(event)).for_each(without_source);
    Arc::new(part)
}

fn without_code(report: &mut Report) {
    report.code.clear();
    report.computations.items_mut().iter_mut().for_each(|computation| computation.code.clear());
    report.spans.items_mut().iter_mut().for_each(|span| span.code.clear());
    for profile in report.profiles.items_mut() {
        profile.frames.items_mut().iter_mut().for_each(|frame| frame.text = None);
    }
    for error in report.errors.items_mut() {
        error.message.shorten(strip_source);
        error.traceback.shorten(strip_source);
    }
    report.logs.items_mut().iter_mut().for_each(|line| line.message.shorten(strip_source));
}

fn event_may_hold_source(event: &EventReport) -> bool {
    may_hold_source(event.data.as_str()) || may_hold_source(event.topic.as_str())
}

fn without_source(event: &mut EventReport) {
    event.topic.shorten(strip_source);
    let mut data = event.data.value();
    strip_source_of_json(&mut data);
    event.data.replace(&data);
}
