//! Settings of alert delivery.

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

/// The alert options of `serve`, unparsed.
#[derive(Clone, Debug, Args)]
pub(super) struct AlertArgs {
    /// URL of the SMTP server for e-mails: `smtps://USER:PASSWORD@HOST`, or `smtp://…?tls=required` for
    /// STARTTLS. A URL with a password needs encryption, except for a server on this machine. Without
    /// this setting no e-mails are sent. Requires `GALVO_MAIL_FROM`.
    #[arg(long, env = "GALVO_SMTP_URL", hide_env_values = true, value_name = "URL")]
    smtp_url: Option<String>,
    /// Sender address of e-mails, such as `Galvo <galvo@example.com>`.
    #[arg(long, env = "GALVO_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Allow webhooks of alert rules to use private addresses, such as those of your own network, and
    /// unencrypted HTTP. Members who can create alert rules can then send requests to everything this
    /// server can reach.
    #[arg(long, env = "GALVO_ALERT_PRIVATE_TARGETS")]
    alert_private_targets: bool,
}

/// The settings of alert delivery.
#[derive(Clone, Debug, Default)]
pub struct AlertConfig {
    /// The SMTP server. `None` if no e-mails are sent.
    pub smtp: Option<SmtpConfig>,
    /// True if webhooks may use private addresses.
    pub private_targets: bool,
}

/// The SMTP server that sends e-mails.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    url: SmtpUrl,
    /// The sender address.
    pub from: Mailbox,
}

/// The server's URL. Its `Debug` output is blank, because it may hold a password.
#[derive(Clone)]
struct SmtpUrl(String);

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SmtpUrl")
    }
}

impl SmtpConfig {
    /// Returns the settings of the server at `url`.
    ///
    /// # Errors
    /// Returns an error if the URL is malformed, or holds a password but does not enforce encryption.
    /// The message does not repeat the URL, which may hold a password.
    pub fn new(url: &str, from: Mailbox) -> Result<Self, &'static str> {
        let message = "must be smtps://…, or smtp://…?tls=required, or smtp://… without a password";
        let parsed: Url = url.parse().map_err(|_| message)?;
        let encrypted = parsed.scheme() == "smtps"
            || parsed.query_pairs().any(|(key, value)| key == "tls" && value == "required");
        let is_loopback = match parsed.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => {
                name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
            None => false,
        };
        if parsed.password().is_some() && !encrypted && !is_loopback {
            return Err("must be encrypted where there is a password: smtps://…, or smtp://…?tls=required");
        }
        transport_builder(url).ok_or(message)?;
        Ok(Self { url: SmtpUrl(url.to_owned()), from })
    }

    /// Returns the builder of the SMTP client. It trusts the machine's root certificates and Mozilla's:
    /// small container images bring no certificates.
    pub(crate) fn transport(&self) -> AsyncSmtpTransportBuilder {
        let builder = transport_builder(&self.url.0).expect("`SmtpConfig::new` has validated the URL");
        let Ok(url) = self.url.0.parse::<Url>() else { return builder };
        let tls: Option<fn(TlsParameters) -> Tls> =
            match url.query_pairs().find(|(key, _)| key == "tls").as_ref().map(|(_, value)| &**value) {
                _ if url.scheme() == "smtps" => Some(Tls::Wrapper),
                Some("required") => Some(Tls::Required),
                Some("opportunistic") => Some(Tls::Opportunistic),
                _ => None,
            };
        let host = url.host_str().unwrap_or_default().to_owned();
        match tls.zip(tls_parameters(host)) {
            Some((tls, parameters)) => builder.tls(tls(parameters)),
            None => builder,
        }
    }
}

fn tls_parameters(host: String) -> Option<TlsParameters> {
    let mut parameters = TlsParameters::builder(host).certificate_store(CertificateStore::WebpkiRoots);
    for der in rustls_native_certs::load_native_certs().certs {
        // A root certificate that cannot be parsed is not trusted. It must not disable the others.
        if RootCertStore::empty().add(der.clone()).is_ok()
            && let Ok(certificate) = Certificate::from_der(der.to_vec())
        {
            parameters = parameters.add_root_certificate(certificate);
        }
    }
    parameters.build().ok()
}

fn transport_builder(url: &str) -> Option<AsyncSmtpTransportBuilder> {
    AsyncSmtpTransport::<Tokio1Executor>::from_url(url).ok()
}

impl AlertArgs {
    /// Parses the options and adds each problem to `problems`.
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
