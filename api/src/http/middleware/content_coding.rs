//! Negotiation of the content coding with the `Accept-Encoding` header (RFC 9110, 12.5.3).

use axum::http::{HeaderMap, HeaderValue, header};

use crate::http::extract::media_type::{FULL_WEIGHT, elements, parse_weight};

/// The weight of content as it is, for a client that does not mention it: accepted, but after every
/// coding that the client names.
const MIN_WEIGHT: u16 = 1;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCoding {
    Brotli,
    Gzip,
}

impl ContentCoding {
    /// Returns the registered name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the value of the header `Content-Encoding`.
    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    fn is_named(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name()) || (self == Self::Gzip && name.eq_ignore_ascii_case("x-gzip"))
    }
}

/// Returns the offered coding with the highest weight, and among equal ones the first. Returns None if
/// the client accepts none of them or prefers the content as it is. Without the header, a client may be
/// unable to decode anything.
pub(crate) fn best(headers: &HeaderMap, offers: &[ContentCoding]) -> Option<ContentCoding> {
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|field| field.to_str().ok());
    let accepted: Vec<(&str, u16)> =
        fields.flat_map(|field| elements(field, ',')).filter_map(parse_coding).collect();
    let weight_of = |is_named: &dyn Fn(&str) -> bool| {
        accepted.iter().filter(|(name, _)| is_named(name)).map(|(_, weight)| *weight).max()
    };
    let wildcard_weight = weight_of(&|name| name == "*");
    let identity_weight =
        weight_of(&|name| name.eq_ignore_ascii_case("identity")).or(wildcard_weight).unwrap_or(MIN_WEIGHT);
    let mut best: Option<(u16, ContentCoding)> = None;
    for offer in offers {
        let weight = weight_of(&|name| offer.is_named(name)).or(wildcard_weight).unwrap_or_default();
        if weight > 0 && weight >= identity_weight && best.is_none_or(|(best_weight, _)| weight > best_weight)
        {
            best = Some((weight, *offer));
        }
    }
    best.map(|(_, coding)| coding)
}

/// Parses a coding with its weight in thousandths. An invalid weight drops the coding.
fn parse_coding(text: &str) -> Option<(&str, u16)> {
    let mut parts = elements(text, ';');
    let name = parts.next()?;
    let mut weight = FULL_WEIGHT;
    for parameter in parts {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            weight = parse_weight(value.trim())?;
        }
    }
    Some((name, weight))
}

#[cfg(test)]
mod tests {
    use super::{ContentCoding::*, *};

    /// The first five fields are the examples of RFC 9110, 12.5.3.
    #[test]
    fn the_coding_with_the_highest_weight_is_the_best() {
        let best = |field: &str, offers: &[ContentCoding]| {
            let value = field.parse().expect("a header");
            super::best(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]), offers)
        };
        let all = [Brotli, Gzip];
        for (field, expected) in [
            ("compress, gzip", Some(Gzip)),
            ("", None),
            ("*", Some(Brotli)),
            ("compress;q=0.5, gzip;q=1.0", Some(Gzip)),
            ("gzip;q=1.0, identity; q=0.5, *;q=0", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("br;q=0.2, gzip;q=0.9", Some(Gzip)),
            ("br;q=0, *", Some(Gzip)),
            ("*;q=0, br;q=0.001", Some(Brotli)),
            ("*;q=0", None),
            ("identity", None),
            ("identity, gzip;q=0.9", None),
            ("identity;q=0.9, gzip;q=0.9", Some(Gzip)),
            ("identity;q=0, gzip;q=0.1", Some(Gzip)),
            ("X-GZIP", Some(Gzip)),
            ("BR ; Q=0.5", Some(Brotli)),
            ("br;q=2, gzip", Some(Gzip)),
            ("br;q=x", None),
            ("deflate", None),
        ] {
            assert_eq!(best(field, &all), expected, "{field}");
        }
        assert_eq!(best("gzip, br", &[Gzip]), Some(Gzip));
        assert_eq!(best("br, zstd", &[Gzip]), None);
        assert_eq!(super::best(&HeaderMap::new(), &all), None);
    }
}
