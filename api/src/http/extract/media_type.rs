//! Content negotiation with the `Accept` header (RFC 9110, 12.5.1).

use std::cmp::Reverse;

use axum::http::{HeaderMap, header};

/// The weight of a range without a weight parameter, in thousandths.
pub(crate) const FULL_WEIGHT: u16 = 1_000;

/// A placeholder for a header that is not text: it matches none of the offered media types.
const UNREADABLE: &str = "-/-";

/// The media ranges of a request with their weights.
pub(crate) struct Accepted(Vec<Range>);

struct Range {
    media_type: String,
    subtype: String,
    /// True if the range names UTF-8, the encoding of all texts here.
    is_utf_8: bool,
    /// The weight in thousandths. 0 excludes the range.
    weight: u16,
}

/// The precision with which a range matches a media type. The most precise match decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    Anything,
    Type,
    Subtype,
    Encoding,
}

impl Accepted {
    /// Parses the `Accept` header. Without the header, or with an empty one, everything is accepted.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let fields = headers.get_all(header::ACCEPT).iter();
        let mut texts =
            fields.flat_map(|field| elements(field.to_str().unwrap_or(UNREADABLE), ',')).peekable();
        let default_range = texts.peek().is_none().then_some("*/*");
        Self(texts.chain(default_range).filter_map(parse_range).collect())
    }

    /// Returns the offer with the highest weight. Among equal weights, the range that comes first wins,
    /// and within one range the first offer. Returns None if no offer is acceptable.
    pub(crate) fn best<T: Copy>(&self, offers: &[(&str, T)]) -> Option<T> {
        let mut best = None;
        for (media_type, offer) in offers {
            let Some((weight, position)) = self.weight(media_type) else { continue };
            if best.is_none_or(|(best_weight, best_position, _)| {
                (best_weight, best_position) < (weight, Reverse(position))
            }) {
                best = Some((weight, Reverse(position), *offer));
            }
        }
        best.map(|(.., offer)| offer)
    }

    /// Returns true if a range names this exact media type and accepts it.
    pub(crate) fn names(&self, media_type: &str) -> bool {
        let is_named = self.0.iter().any(|range| range.precision(media_type) >= Some(Precision::Subtype));
        is_named && self.weight(media_type).is_some()
    }

    /// Returns the weight of a media type and the position of its range. Returns None if it is not
    /// acceptable.
    fn weight(&self, media_type: &str) -> Option<(u16, usize)> {
        let matches = self.0.iter().enumerate().filter_map(|(position, range)| {
            Some((range.precision(media_type)?, range.weight, Reverse(position)))
        });
        let (_, weight, Reverse(position)) = matches.max()?;
        (weight > 0).then_some((weight, position))
    }
}

impl Range {
    fn precision(&self, media_type: &str) -> Option<Precision> {
        let (ty, subtype) = media_type.split_once('/')?;
        match (self.media_type.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(Precision::Anything),
            (range_type, "*") if range_type == ty => Some(Precision::Type),
            (range_type, range_subtype) if range_type == ty && range_subtype == subtype => {
                Some(if self.is_utf_8 { Precision::Encoding } else { Precision::Subtype })
            }
            _ => None,
        }
    }
}

/// Parses a range. Parameters other than `charset` and `q` are ignored, because no offer has such
/// variants.
fn parse_range(text: &str) -> Option<Range> {
    let mut parts = elements(text, ';');
    let (media_type, subtype) = parts.next()?.split_once('/')?;
    let mut range = Range {
        media_type: media_type.trim().to_ascii_lowercase(),
        subtype: subtype.trim().to_ascii_lowercase(),
        is_utf_8: false,
        weight: FULL_WEIGHT,
    };
    for parameter in parts {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        if name.eq_ignore_ascii_case("q") {
            range.weight = parse_weight(value)?;
        } else if name.eq_ignore_ascii_case("charset") {
            range.is_utf_8 = value.eq_ignore_ascii_case("utf-8");
        }
    }
    Some(range)
}

/// Parses a weight. Returns None for an invalid one, which drops its range.
pub(crate) fn parse_weight(text: &str) -> Option<u16> {
    let (integer, thousandths) = text.split_once('.').unwrap_or((text, ""));
    if thousandths.len() > 3 || !thousandths.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u16 = format!("{thousandths:0<3}").parse().ok()?;
    match integer {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(FULL_WEIGHT),
        _ => None,
    }
}

/// Splits a list at a separator outside quotes. Returns the trimmed, non-empty parts.
pub(crate) fn elements(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(move |character: char| {
        if escaped {
            escaped = false;
        } else if quoted && character == '\\' {
            escaped = true;
        } else if character == '"' {
            quoted = !quoted;
        }
        character == separator && !quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(fields: &[&str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::ACCEPT, field.parse().expect("a header"));
        }
        Accepted::of(&headers)
    }

    /// The first case is the example of RFC 9110, 12.5.1, with the weights given there.
    #[test]
    fn the_most_exact_range_decides() {
        let example = accepted(&[
            "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5",
        ]);
        let weight = |accepted: &Accepted, of: &str| accepted.weight(of).map(|(weight, _)| weight);
        for (media_type, expected) in
            [("text/html", Some(300)), ("image/jpeg", Some(500)), ("text/csv", Some(300))]
        {
            assert_eq!(weight(&example, media_type), expected, "{media_type}");
        }
        for (field, media_type, expected) in [
            ("*/*, text/csv;q=0", "text/csv", None),
            ("text/csv;q=0, */*", "text/csv", None),
            ("text/*;q=0, */*", "text/csv", None),
            ("text/*;q=0, text/csv;q=0.001", "text/csv", Some(1)),
            ("*/*;q=0", "text/csv", None),
            ("text/csv; Q=0.000", "text/csv", None),
            ("TEXT/CSV ; q=0.25", "text/csv", Some(250)),
            ("text/csv;charset=utf-8;q=0, text/csv", "text/csv", None),
            ("text/csv;charset=latin1;q=0, text/csv", "text/csv", Some(1_000)),
            ("text/csv;header=\"a,b;q=0\"", "text/csv", Some(1_000)),
            ("text/csv;q=2, */*;q=0.1", "text/csv", Some(100)),
            ("text/csv;q=nan", "text/csv", None),
            ("text/csv;q=0.0001", "text/csv", None),
            ("", "text/csv", Some(1_000)),
            (" , ", "text/csv", Some(1_000)),
        ] {
            assert_eq!(weight(&accepted(&[field]), media_type), expected, "{field}");
        }
        assert_eq!(weight(&accepted(&["text/csv;q=0", "*/*"]), "text/csv"), None, "fields are one list");
        assert_eq!(weight(&accepted(&[]), "text/csv"), Some(1_000));
    }

    #[test]
    fn the_offer_that_is_wanted_most_is_the_best() {
        let offers = [("text/csv", 'c'), ("application/json", 'j'), ("text/html", 'h')];
        for (field, best) in [
            ("*/*", Some('c')),
            ("application/json, text/csv", Some('j')),
            ("text/csv;q=0.5, application/json;q=0.9", Some('j')),
            ("text/*;q=0.5, application/*;q=0.4", Some('c')),
            ("text/csv;q=0, */*", Some('j')),
            ("text/csv;q=0, application/json;q=0, */*", Some('h')),
            ("image/png", None),
            ("*/*;q=0", None),
        ] {
            assert_eq!(accepted(&[field]).best(&offers), best, "{field}");
        }
        assert!(accepted(&["text/html, */*;q=0.1"]).names("text/html"));
        assert!(!accepted(&["*/*, text/*"]).names("text/html"));
        assert!(!accepted(&["text/html;q=0, */*"]).names("text/html"));
    }
}
