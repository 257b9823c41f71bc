//! What `galvo doctor` prints: a line for each thing it looked at.

use std::process::ExitCode;

use serde_json::json;

use crate::doctor::{Finding, Verdict};

/// Prints findings, and tells by the exit status whether anything failed.
pub(super) fn report(findings: &[Finding], as_json: bool) -> ExitCode {
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok);
    if as_json {
        println!("{}", json!({ "verdict": worst, "checks": findings }));
    } else {
        for Finding { verdict, check, message, advice } in findings {
            let advice = advice.as_ref().map(|advice| format!(": {advice}")).unwrap_or_default();
            println!("{:<8} {check:<17} {message}{advice}", verdict.name());
        }
    }
    if worst == Verdict::Failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
