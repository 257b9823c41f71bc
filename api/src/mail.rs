//! Sending e-mails through the operator's SMTP server.

use std::time::Duration;

use lettre::{
    AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
};

use crate::config::SmtpConfig;

/// The timeout for sending one e-mail.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why an e-mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MailError {
    /// No SMTP server is configured.
    #[error("no mail server is configured")]
    NoServer,
    /// The message cannot be built.
    #[error("the message cannot be built")]
    Message(#[from] lettre::error::Error),
    /// The recipient's address is malformed.
    #[error("the address is malformed")]
    Address(#[from] lettre::address::AddressError),
    /// The SMTP server rejected the message, or the connection failed.
    #[error("the mail server rejected the message")]
    Refused(#[from] lettre::transport::smtp::Error),
    /// The SMTP server did not answer within the timeout.
    #[error("the mail server did not respond within {} s", TIMEOUT.as_secs())]
    Late,
}

/// A client of the SMTP server.
#[derive(Clone)]
pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Returns a client of the configured SMTP server.
    pub(crate) fn new(config: &SmtpConfig) -> Self {
        Self { transport: config.transport().timeout(Some(TIMEOUT)).build(), from: config.from.clone() }
    }

    /// Sends a plain-text e-mail. `id` becomes the Message-ID, so that receivers recognize a repeated
    /// message.
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
