//! Checks of the certificate: its files, validity period and host name.

use std::{fs, os::unix::fs::MetadataExt};

use chrono::{DateTime, TimeDelta, Utc};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

use super::Finding;
use crate::{
    clock::{Clock, SystemClock},
    config::TlsConfig,
    domain::public_url::PublicUrl,
    error::Chain,
    http::Certificate,
};

/// The remaining validity below which the finding is a warning, because the certificate should have been
/// replaced before.
const RENEWAL_MARGIN: TimeDelta = TimeDelta::days(14);

pub(super) async fn examine(tls: &TlsConfig, public_url: Option<&PublicUrl>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if fs::metadata(&tls.key).is_ok_and(|file| file.mode() & 0o077 != 0) {
        let message = format!("{} is readable by other users", tls.key.display());
        findings.push(Finding::warning("certificate", message, format!("chmod 600 {}", tls.key.display())));
    }
    let chain = match Certificate::chain(tls).await {
        Ok(chain) => chain,
        Err(error) => {
            let advice = "correct GALVO_TLS_CERTIFICATE and GALVO_TLS_KEY, or the files they name";
            findings.push(Finding::failed("certificate", Chain(&error).to_string(), advice));
            return findings;
        }
    };
    // The first certificate is the server's own. The others are intermediate certificates.
    let certificate = chain.first().and_then(|der| Some(X509Certificate::from_der(der).ok()?.1));
    let Some(certificate) = certificate else {
        let message = format!("{} contains no X.509 certificate", tls.certificate.display());
        findings.push(Finding::failed("certificate", message, "replace it with a valid certificate"));
        return findings;
    };
    let to_date_time = |time: x509_parser::time::ASN1Time| {
        DateTime::from_timestamp_secs(time.timestamp()).unwrap_or_default()
    };
    let validity = certificate.validity();
    let (from, until) = (to_date_time(validity.not_before), to_date_time(validity.not_after));
    findings.push(judge_time(from, until, SystemClock.now()));
    if let Some(host) = public_url.map(host_of)
        && !alternative_names(&certificate).iter().any(|name| covers_host(name, host))
    {
        findings.push(Finding::warning(
            "certificate",
            format!("it is not valid for {host}, the host name in GALVO_PUBLIC_URL"),
            "use a certificate for that name, unless a proxy in front presents its own",
        ));
    }
    findings
}

fn judge_time(from: DateTime<Utc>, until: DateTime<Utc>, now: DateTime<Utc>) -> Finding {
    let message = format!("it is valid from {} until {}", from.format("%F"), until.format("%F %R UTC"));
    if now < from {
        Finding::failed("certificate", format!("{message}, and not valid yet"), "set the clock, or wait")
    } else if now > until {
        Finding::failed(
            "certificate",
            format!("{message}, and has expired"),
            "replace it; the server reloads it without a restart",
        )
    } else if now + RENEWAL_MARGIN > until {
        Finding::warning("certificate", message, "renew it; the server reloads it without a restart")
    } else {
        Finding::ok("certificate", message)
    }
}

/// Returns the host name in a URL.
fn host_of(public_url: &PublicUrl) -> &str {
    let authority = public_url.origin().split_once("://").map_or("", |(_, authority)| authority);
    let port = authority.rfind(':').filter(|port| *port > authority.rfind(']').unwrap_or(0));
    authority[..port.unwrap_or(authority.len())].trim_matches(['[', ']'])
}

/// Returns the host names and addresses for which a certificate is valid.
fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let to_text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
        },
        _ => None,
    };
    names.value.general_names.iter().filter_map(to_text).collect()
}

/// Returns true if the certificate's name, which may begin with a wildcard label, covers the host.
fn covers_host(name: &str, host: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, parent)| parent == domain),
        None => name == host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_certificate_is_judged_by_its_days() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().expect(text);
        let (from, until) = (at("2026-01-01T00:00:00Z"), at("2026-04-01T00:00:00Z"));
        for (now, verdict) in [
            ("2025-12-31T23:59:59Z", Verdict::Failed),
            ("2026-02-01T00:00:00Z", Verdict::Ok),
            ("2026-03-20T00:00:00Z", Verdict::Warning),
            ("2026-04-01T00:00:01Z", Verdict::Failed),
        ] {
            assert_eq!(judge_time(from, until, at(now)).verdict, verdict, "{now}");
        }
    }

    #[test]
    fn a_name_stands_for_a_host() {
        for (url, name, fits) in [
            ("https://galvo.example.com", "galvo.example.com", true),
            ("https://galvo.example.com:8443", "galvo.example.com", true),
            ("https://galvo.example.com", "*.example.com", true),
            ("https://a.galvo.example.com", "*.example.com", false),
            ("https://example.com", "*.example.com", false),
            ("https://[::1]:8000", "::1", true),
            ("https://galvo.example.com", "galvo.example.org", false),
        ] {
            let public_url: PublicUrl = url.parse().expect(url);
            assert_eq!(covers_host(name, host_of(&public_url)), fits, "{url} {name}");
        }
    }
}
