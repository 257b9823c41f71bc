//! Checks of everything a server needs before it starts: settings, database, keys, Redis, machine,
//! certificate and identity providers. The checks change nothing and reveal no secrets.

mod issuer;
mod key;
mod machine;
mod public_url;
mod redis;
mod store;
mod tls;

use serde::Serialize;

use crate::config::{CommonConfig, ConfigError, ServeConfig};

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// No problem.
    Ok,
    /// The server works, but something should change.
    Warning,
    /// The server cannot work.
    Failed,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// The name of the check.
    pub(crate) check: &'static str,
    /// The observed state.
    pub(crate) message: String,
    /// The advice. `None` if nothing needs to be done.
    pub(crate) advice: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, check, message: message.into(), advice: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        let (verdict, message) = (Verdict::Warning, message.into());
        Self { verdict, check, message, advice: Some(advice.into()) }
    }

    fn failed(check: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Failed, ..Self::warning(check, message, advice) }
    }
}

/// Returns the findings for invalid settings. Nothing else is checked then.
pub(crate) fn settings_findings(error: &ConfigError) -> Vec<Finding> {
    let advice = "correct it as described in docs/running.md, or remove it";
    error.problems().iter().map(|problem| Finding::failed("settings", problem, advice)).collect()
}

/// Runs all checks for a server with these settings.
pub(crate) async fn examine(common: &CommonConfig, serve: &ServeConfig) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("settings", "all are valid")];
    let store = store::examine(common, &mut findings).await;
    findings.extend(key::examine(common, store.as_ref()).await);
    if let Some(url) = &serve.redis {
        findings.push(redis::examine(url).await);
    }
    findings.extend(machine::examine(common, serve));
    if let Some(tls) = &serve.tls {
        findings.extend(tls::examine(tls, serve.public_url.as_ref()).await);
    }
    findings.extend(issuer::examine(serve).await);
    findings.push(public_url::examine(serve).await);
    findings.extend(public_url::examine_proxies(serve).await);
    findings
}
