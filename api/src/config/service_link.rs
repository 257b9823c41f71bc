//! Recognition of the variables that Kubernetes sets in each container for the Services of its
//! namespace. Those of a Service called `galvo` or `galvo-…` begin with `GALVO_` but are not settings.

/// Returns true if Kubernetes sets this variable for a Service called `galvo` or `galvo-…`, or Docker
/// for a linked container of such a name.
///
/// `GALVO_PORT` is ambiguous, because an operator could mean it as a setting. It counts only with a
/// value that has a scheme, as Kubernetes sets it; no port setting has one.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    let Some(suffix) = name.strip_prefix("GALVO_") else { return false };
    if !suffix.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_') {
        return false;
    }
    // Dashes in the Service's name become underscores, so the name can end at any underscore.
    let shorter_suffixes =
        suffix.match_indices('_').filter(|(index, _)| *index > 0).map(|(index, _)| &suffix[index + 1..]);
    std::iter::once(suffix).chain(shorter_suffixes).any(|kind| is_kind(kind, value))
}

/// Returns true if `kind` is a suffix that Kubernetes appends to a Service's name.
fn is_kind(kind: &str, value: &str) -> bool {
    match kind {
        "SERVICE_HOST" | "SERVICE_PORT" => true,
        "PORT" => ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme)),
        _ => {
            kind.strip_prefix("SERVICE_PORT_").is_some_and(|port| !port.is_empty())
                || kind.strip_prefix("PORT_").is_some_and(is_port)
        }
    }
}

/// Returns true if `text` is `<number>_<protocol>`, optionally followed by a part such as `_ADDR`.
fn is_port(text: &str) -> bool {
    let Some((number, rest)) = text.split_once('_') else { return false };
    let (protocol, part) =
        rest.split_once('_').map_or((rest, None), |(protocol, part)| (protocol, Some(part)));
    number.parse::<u16>().is_ok()
        && matches!(protocol, "TCP" | "UDP" | "SCTP")
        && part.is_none_or(|part| matches!(part, "PROTO" | "PORT" | "ADDR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_services_are_told_from_misspelt_settings() {
        for (name, value) in [
            ("GALVO_SERVICE_HOST", "192.0.2.7"),
            ("GALVO_SERVICE_PORT", "8000"),
            ("GALVO_SERVICE_PORT_HTTP", "8000"),
            ("GALVO_SERVICE_PORT_HTTP_METRICS", "8001"),
            ("GALVO_PORT", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_8000_TCP", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_8000_TCP_PROTO", "tcp"),
            ("GALVO_PORT_8000_TCP_PORT", "8000"),
            ("GALVO_PORT_8000_TCP_ADDR", "192.0.2.7"),
            ("GALVO_PORT_53_UDP", "udp://192.0.2.7:53"),
            ("GALVO_PORT_9_SCTP_ADDR", "2001:db8::7"),
            ("GALVO_METRICS_SERVICE_HOST", "192.0.2.8"),
            ("GALVO_METRICS_PORT", "tcp://192.0.2.8:8001"),
            ("GALVO_METRICS_PORT_8001_TCP_ADDR", "192.0.2.8"),
            ("GALVO_REDIS_MASTER_SERVICE_PORT_TCP_REDIS", "6379"),
            ("GALVO_PORT_8000_TCP_SERVICE_HOST", "192.0.2.9"),
        ] {
            assert!(is_service_link(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("GALVO_PORT", "8000"),
            ("GALVO_PORT", "127.0.0.1:8000"),
            ("GALVO_PORT", ""),
            ("GALVO_METRICS_PORT", "8001"),
            ("GALVO_SERVICE", "galvo"),
            ("GALVO_HOST", "0.0.0.0"),
            ("GALVO_SERVICE_HOSTS", "192.0.2.7"),
            ("GALVO_SERVICE_PORT_", "8000"),
            ("GALVO_SERVICEHOST", "192.0.2.7"),
            ("GALVO_PORTS", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_HTTP", "8000"),
            ("GALVO_PORT_8000", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_8000_HTTP", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_80000_TCP", "tcp://192.0.2.7:8000"),
            ("GALVO_PORT_8000_TCP_HOST", "192.0.2.7"),
            ("GALVO_SMTP_PORT", "587"),
            ("GALVO_LISTEN_ADDRESS", "0.0.0.0:8000"),
            ("GALVO_DATABASE_URI", "postgres://db/galvo"),
            ("GALVO_listen_SERVICE_HOST", "192.0.2.7"),
            ("GALVOSERVICE_HOST", "192.0.2.7"),
            ("OTHER_SERVICE_HOST", "192.0.2.7"),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
