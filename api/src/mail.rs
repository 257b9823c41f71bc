//! E-mails that the server sends, over the operator's SMTP server.

use std::time::Duration;

use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
};

use crate::config::SmtpConfig;

/// How long the other server may take in all.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Why an e-mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// The operator named no server.
    #[error("this server sends no e-mails")]
    NoServer,
    /// It cannot be written.
    #[error("it cannot be written")]
    Message(#[from] lettre::error::Error),
    /// The address is none.
    #[error("the address is none")]
    Address(#[from] lettre::address::AddressError),
    /// The other server did not take it.
    #[error("the mail server did not take it")]
    Refused(#[from] lettre::transport::smtp::Error),
    /// It takes too long.
    #[error("the mail server does not answer within {} s", TIMEOUT.as_secs())]
    Late,
}

/// Sends e-mails.
#[derive(Clone)]
pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// One that sends over a server.
    pub(crate) fn new(config: &SmtpConfig) -> Self {
        Self { transport: config.transport().timeout(Some(TIMEOUT)).build(), from: config.from.clone() }
    }

    /// Sends a text. What has the same identifier is the same message, however often it is sent.
    ///
    /// # Errors
    /// [`MailError`]
    pub(crate) async fn send(&self, id: &str, to: &str, title: &str, text: String) -> Result<(), MailError> {
        let domain = self.from.email.domain();
        let message = Message::builder()
            .message_id(Some(format!("<{id}@{domain}>")))
            .from(self.from.clone())
            .to(Mailbox::new(None, to.parse()?))
            .subject(title)
            .header(ContentType::TEXT_PLAIN)
            .body(text)?;
        let sent = tokio::time::timeout(TIMEOUT, self.transport.send(message)).await;
        sent.map_err(|_| MailError::Late)??;
        Ok(())
    }
}
