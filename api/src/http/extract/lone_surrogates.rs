//! Lone surrogates in JSON: halves of UTF-16 pairs. Python's `str` can contain them, for example in file
//! names that are not UTF-8, and JSON encodes them as escapes that UTF-8 text cannot represent.

use std::borrow::Cow;

/// Replaces each escaped surrogate without its other half by U+FFFD.
pub(crate) fn replace_lone_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced: Option<Vec<u8>> = None;
    let mut offset = 0;
    while let Some(backslash) = json[offset..].iter().position(|byte| *byte == b'\\') {
        let start = offset + backslash;
        offset = match (code_unit(json, start), code_unit(json, start + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => start + 12,
            (Some(0xd800..=0xdfff), _) => {
                replaced.get_or_insert_with(|| json.to_vec())[start + 2..start + 6].copy_from_slice(b"fffd");
                start + 6
            }
            // The escaped character may be a backslash, which then starts no escape.
            _ => json.len().min(start + 2),
        };
    }
    replaced.map_or(Cow::Borrowed(json), Cow::Owned)
}

/// Returns the UTF-16 code unit of an escape such as `\ud83d` at an offset.
fn code_unit(json: &[u8], offset: usize) -> Option<u16> {
    let digits = json.get(offset..offset + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_pairs_are_not() {
        for (json, expected) in [
            (r#"["a", "\n\"", "\u00e4"]"#, r#"["a", "\n\"", "\u00e4"]"#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\uDCFFx""#, r#""\ufffdx""#),
            (r#""\ud800\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud800\n""#, r#""\ufffd\n""#),
            // An escaped backslash, followed by letters.
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\\\ud800""#, r#""\\\ufffd""#),
            (r#""\ud8"#, r#""\ud8"#),
            ("\"\\", "\"\\"),
        ] {
            let replaced = replace_lone_surrogates(json.as_bytes());
            assert_eq!(String::from_utf8_lossy(&replaced), expected, "{json}");
        }
    }
}
