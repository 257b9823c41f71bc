//! Looks at all a server needs before it needs it: settings, the store, keys, Redis, the machine, certificates, and those whose word
//! is taken for who somebody is. It changes nothing, and tells no secret.

mod issuer;
mod key;
mod machine;
mod public_url;
mod redis;
mod store;
mod tls;

use serde::Serialize;

use crate::config::{CommonConfig, ConfigError, ServeConfig};

/// How something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and should be otherwise.
    Warning,
    /// A server does not work like this.
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

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// What was looked at.
    pub(crate) check: &'static str,
    /// How it is.
    pub(crate) message: String,
    /// What to do, if anything is to be done.
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

/// What is found where the settings themselves are wrong: all that is, and nothing else.
pub(crate) fn unreadable(error: &ConfigError) -> Vec<Finding> {
    let advice = "set it as docs/running.md has it, or take it away";
    error.problems().iter().map(|problem| Finding::failed("settings", problem, advice)).collect()
}

/// What is found of a server with these settings.
pub(crate) async fn examine(common: &CommonConfig, serve: &ServeConfig) -> Vec<Finding> {
    let mut findings = vec![Finding::ok("settings", "all of them can be read")];
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
    findings
}
