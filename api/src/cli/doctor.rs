//! The output of `galvo doctor`: one line per check.

use std::process::ExitCode;

use serde_json::json;

use crate::doctor::{Finding, Verdict};

/// Prints the findings. Returns the exit status, which is a failure if any check failed.
pub(super) fn print_findings(findings: &[Finding], as_json: bool) -> ExitCode {
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
