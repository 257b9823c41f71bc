//! The counted size of what clients send, by groups of sections.

use entity::data_policy::DataClass;

use super::data_class::Accepted;

/// The bytes of a report or a client's span, by groups of sections with the same retention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionBytes {
    /// Clusters, workers, clients, samples and usage.
    pub basic: i64,
    /// Task groups, computations, spans, fine metrics and the activity of functions.
    pub tasks: i64,
    /// Errors.
    pub errors: i64,
    /// Code.
    pub code: i64,
    /// Profiles.
    pub profiles: i64,
    /// Events.
    pub events: i64,
    /// Logs.
    pub logs: i64,
}

impl SectionBytes {
    /// Counts the bytes of a report. The JSON must be valid.
    #[must_use]
    pub fn count_sections(json: &[u8]) -> Self {
        let mut bytes = Self::default();
        let mut members = Members { json, at: 0 };
        while let Some((name, length)) = members.next_member() {
            let section = match name {
                b"computations" | b"task_groups" | b"spans" | b"fine_metrics" | b"function_activity" => {
                    &mut bytes.tasks
                }
                b"errors" => &mut bytes.errors,
                b"code" => &mut bytes.code,
                b"profiles" => &mut bytes.profiles,
                b"events" => &mut bytes.events,
                b"logs" => &mut bytes.logs,
                _ => &mut bytes.basic,
            };
            *section = section.saturating_add(i64::try_from(length).unwrap_or(i64::MAX));
        }
        bytes
    }

    /// Counts the bytes of a client's span: its code, and everything else that belongs to tasks. The JSON
    /// must be valid.
    #[must_use]
    pub fn count_client_span(json: &[u8]) -> Self {
        let mut bytes = Self::default();
        let mut members = Members { json, at: 0 };
        while let Some((name, length)) = members.next_member() {
            if name == b"callstack" {
                bytes.code = bytes.code.saturating_add(i64::try_from(length).unwrap_or(i64::MAX));
            }
        }
        bytes.tasks = i64::try_from(json.len()).unwrap_or(i64::MAX).saturating_sub(bytes.code);
        bytes
    }

    /// Returns the bytes of the sections that an account accepts.
    #[must_use]
    pub fn accepted(self, accepted: &Accepted) -> Self {
        let has = |class| accepted.accepts(class);
        let bytes_if = |bytes, is_accepted: bool| if is_accepted { bytes } else { 0 };
        Self {
            basic: bytes_if(self.basic, has(DataClass::Basic)),
            tasks: bytes_if(self.tasks, has(DataClass::Tasks)),
            errors: bytes_if(self.errors, has(DataClass::UserErrors) || has(DataClass::DaskErrors)),
            code: bytes_if(self.code, has(DataClass::Code)),
            profiles: bytes_if(self.profiles, has(DataClass::Profiles)),
            events: bytes_if(self.events, has(DataClass::Events)),
            logs: bytes_if(self.logs, has(DataClass::Logs)),
        }
    }

    /// Returns the sum of all groups.
    #[must_use]
    pub fn total(&self) -> i64 {
        let Self { basic, tasks, errors, code, profiles, events, logs } = *self;
        [basic, tasks, errors, code, profiles, events, logs].into_iter().fold(0, i64::saturating_add)
    }
}

/// An iterator over the members of a JSON object. It reads only the names and the sizes of the values.
struct Members<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Members<'a> {
    /// Returns the raw name of the next member and the size of its value, in bytes.
    fn next_member(&mut self) -> Option<(&'a [u8], usize)> {
        while *self.json.get(self.at)? != b'"' {
            self.at += 1;
        }
        let name_start = self.at + 1;
        self.skip_string();
        let name = self.json.get(name_start..self.at.saturating_sub(1))?;
        while *self.json.get(self.at)? != b':' {
            self.at += 1;
        }
        self.at += 1;
        let value_start = self.at;
        self.skip_value();
        Some((name, self.at.min(self.json.len()) - value_start))
    }

    /// Advances past the value at the current position, to the comma or brace after it.
    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.json.get(self.at) {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' if depth == 0 => return,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Advances past the string at the current position.
    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.json.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                b'"' => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_holds_is_counted_by_section() {
        let json = br#" { "version" : 1, "logs":[{"a":"x}]\"\\"}], "events": [], "co\u0064e": [1],
            "code": "\\", "errors":{"a":[{},"]"]}, "spans":[1,2] , "task_groups":[[3]],"final":true,
            "function_activity":[] } "#;
        let bytes = SectionBytes::count_sections(json);
        let size = |text: &str| i64::try_from(text.len()).expect("it is short");
        let expected = SectionBytes {
            // ` 1`, ` [1]` and `true`.
            basic: 2 + 4 + 4,
            // `[1,2] `, `[[3]]` and `[] `.
            tasks: 6 + 5 + 3,
            errors: size(r#"{"a":[{},"]"]}"#),
            code: size(r#" "\\""#),
            profiles: 0,
            events: 3,
            logs: size(r#"[{"a":"x}]\"\\"}]"#),
        };
        assert_eq!(bytes, expected);
        for cut in 0..json.len() {
            // Truncated input is counted in some way, but no byte of it twice.
            let total = SectionBytes::count_sections(&json[..cut]).total();
            assert!(usize::try_from(total).is_ok_and(|total| total <= cut), "{cut}");
        }
        let accepted = Accepted::all_but([DataClass::Logs, DataClass::UserErrors]);
        assert_eq!(
            bytes.accepted(&accepted),
            SectionBytes { logs: 0, ..bytes },
            "there may be errors of Dask"
        );
    }
}
