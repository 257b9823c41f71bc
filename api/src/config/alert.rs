//! How alerts are sent.

use std::fmt;

use clap::Args;
use lettre::{
    AsyncSmtpTransport, Tokio1Executor,
    message::Mailbox,
    transport::smtp::{
        AsyncSmtpTransportBuilder,
        client::{Certificate, CertificateStore, Tls, TlsParameters},
    },
};
use rustls::RootCertStore;
use url::{Host, Url};

use super::Problems;

/// What `serve` takes of it, as it came.
#[derive(Clone, Debug, Args)]
pub(super) struct AlertArgs {
    /// The server that e-mails are sent over: `smtps://USER:PASSWORD@HOST`, or `smtp://…?tls=required` for STARTTLS; without
    /// encryption only where there is no password. None are sent if not given.
    #[arg(long, env = "GALVO_SMTP_URL", hide_env_values = true, value_name = "URL")]
    smtp_url: Option<String>,
    /// Whom e-mails are from, as `Galvo <galvo@example.com>`.
    #[arg(long, env = "GALVO_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Let members have requests sent to private addresses too, such as those of your own network, and unencrypted. Whoever
    /// may make alert rules can then reach what this server reaches.
    #[arg(long, env = "GALVO_ALERT_PRIVATE_TARGETS")]
    alert_private_targets: bool,
}

/// How alerts are sent.
#[derive(Clone, Debug, Default)]
pub struct AlertConfig {
    /// Over which server e-mails are, if they are.
    pub smtp: Option<SmtpConfig>,
    /// Whether requests may go to private addresses.
    pub private_targets: bool,
}

/// The server that e-mails are sent over.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    url: SmtpUrl,
    /// Whom they are from.
    pub from: Mailbox,
}

/// Where it is. Its `Debug` is blank, since it may hold a password.
#[derive(Clone)]
struct SmtpUrl(String);

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SmtpUrl")
    }
}

impl SmtpConfig {
    /// The server at an address.
    ///
    /// # Errors
    /// What is wrong with the address, which is not repeated: it may hold a password.
    pub fn new(url: &str, from: Mailbox) -> Result<Self, &'static str> {
        let wrong = "must be smtps://…, or smtp://…?tls=required, or smtp://… without a password";
        let parsed: Url = url.parse().map_err(|_| wrong)?;
        let encrypted = parsed.scheme() == "smtps"
            || parsed.query_pairs().any(|(key, value)| key == "tls" && value == "required");
        let stays_here = match parsed.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => {
                name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
            None => false,
        };
        if parsed.password().is_some() && !encrypted && !stays_here {
            return Err("must be encrypted where there is a password: smtps://…, or smtp://…?tls=required");
        }
        builder(url).ok_or(wrong)?;
        Ok(Self { url: SmtpUrl(url.to_owned()), from })
    }

    /// What connects to it. It trusts whom the machine trusts, and besides them whom Mozilla does: small images bring no
    /// certificates.
    pub(crate) fn transport(&self) -> AsyncSmtpTransportBuilder {
        let builder = builder(&self.url.0).expect("it was looked at when it was read");
        let Ok(url) = self.url.0.parse::<Url>() else { return builder };
        let tls: Option<fn(TlsParameters) -> Tls> =
            match url.query_pairs().find(|(key, _)| key == "tls").as_ref().map(|(_, value)| &**value) {
                _ if url.scheme() == "smtps" => Some(Tls::Wrapper),
                Some("required") => Some(Tls::Required),
                Some("opportunistic") => Some(Tls::Opportunistic),
                _ => None,
            };
        let host = url.host_str().unwrap_or_default().to_owned();
        match tls.zip(trusting(host)) {
            Some((tls, parameters)) => builder.tls(tls(parameters)),
            None => builder,
        }
    }
}

fn trusting(host: String) -> Option<TlsParameters> {
    let mut parameters = TlsParameters::builder(host).certificate_store(CertificateStore::WebpkiRoots);
    for der in rustls_native_certs::load_native_certs().certs {
        // What cannot be read there is not trusted, and no reason to trust nobody.
        if RootCertStore::empty().add(der.clone()).is_ok()
            && let Ok(certificate) = Certificate::from_der(der.to_vec())
        {
            parameters = parameters.add_root_certificate(certificate);
        }
    }
    parameters.build().ok()
}

fn builder(url: &str) -> Option<AsyncSmtpTransportBuilder> {
    AsyncSmtpTransport::<Tokio1Executor>::from_url(url).ok()
}

impl AlertArgs {
    /// Adds what is wrong to `problems`.
    pub(super) fn read(&self, problems: &mut Problems) -> Option<AlertConfig> {
        let private_targets = self.alert_private_targets;
        let smtp = match (&self.smtp_url, &self.mail_from) {
            (None, None) => None,
            (Some(url), Some(from)) => {
                let from: Option<Mailbox> = problems.read("mail-from", from);
                let smtp = SmtpConfig::new(url, from?);
                Some(smtp.map_err(|problem| problems.add("smtp-url", &problem)).ok()?)
            }
            (Some(_), None) => {
                problems.add("mail-from", &"is needed to send e-mails");
                return None;
            }
            (None, Some(_)) => {
                problems.add("smtp-url", &"is needed to send e-mails");
                return None;
            }
        };
        Some(AlertConfig { smtp, private_targets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_sent_encrypted_and_never_shown() {
        let from: Mailbox = "Galvo <galvo@example.com>".parse().expect("an address");
        for (url, fits) in [
            ("smtps://ada:geheim@mail.example.com", true),
            ("smtp://ada:geheim@mail.example.com:587?tls=required", true),
            ("smtp://ada:geheim@mail.example.com?tls=opportunistic", false),
            ("smtp://ada:geheim@mail.example.com", false),
            ("smtp://ada:geheim@localhost", true),
            ("smtp://ada:geheim@127.0.0.1:2525", true),
            ("smtp://mail.example.com", true),
            ("http://mail.example.com", false),
            ("mail.example.com", false),
        ] {
            let config = SmtpConfig::new(url, from.clone());
            assert_eq!(config.is_ok(), fits, "{url}");
            assert!(!format!("{config:?}").contains("geheim"), "{url}");
        }
    }
}
