//! Forms from the server's pages, and from clients that send the same format.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, header},
};

use super::{body, problem::Problem};

/// The size limit of a form, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// The fields of a form. It has no `Debug`, because it may contain passwords.
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a form. Returns an error if it does not arrive in time.
    pub(crate) async fn receive(
        headers: &HeaderMap,
        body: Body,
        time_limit: Duration,
    ) -> Result<Self, Problem> {
        let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Problem::unsupported_media_type(
                "the Content-Type must be application/x-www-form-urlencoded",
            ));
        }
        let bytes = tokio::time::timeout(time_limit, body::collect_body(body, MAX_BYTES)).await;
        let bytes = bytes.map_err(|_| Problem::timeout())??;
        let fields = form_urlencoded::parse(&bytes);
        Ok(Self(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }

    /// Returns the value of a field. Returns an empty string without the field.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Takes the value of a field out of the form. Returns an empty string without the field.
    pub(crate) fn take(&mut self, name: &str) -> String {
        let field = self.0.iter_mut().find(|(key, _)| key == name);
        field.map(|(_, value)| std::mem::take(value)).unwrap_or_default()
    }
}

/// Returns the value of a parameter in a query string. Returns an empty string without the parameter.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> String {
    let mut parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    parameters.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}
