//! Spans as reported by the `coiled` client: the duration of a block, and the code that the caller
//! passed.
//!
//! A refusal would raise an exception in the user's program, so content that is not understood is
//! ignored.

use entity::json_columns::{CodeFrame, CodeStacks};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;
use utoipa::ToSchema;

use super::validated::{Digest, Text, UnixTime};

/// The largest number of frames. Further ones are ignored.
const MAX_FRAMES: usize = 20;

/// A span as observed by a client. Additional keys are ignored.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClientSpanReport {
    /// The start of the block, by the client's clock.
    pub start: UnixTime,
    /// The end of the block, by the client's clock.
    pub stop: UnixTime,
    /// The code that the caller passed, the outermost frame first. At most 20 frames. Further frames and
    /// invalid ones are ignored.
    #[serde(default, deserialize_with = "frames")]
    #[schema(value_type = Option<Vec<ClientFrame>>)]
    pub callstack: Vec<ClientFrame>,
}

/// A frame of the caller's code. Fields of the wrong type and fields that are too long are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
pub struct ClientFrame {
    /// The text of the code.
    #[serde(default, deserialize_with = "if_it_fits")]
    pub code: Option<Text<200_000>>,
    /// The file that contains it.
    #[serde(default, deserialize_with = "if_it_fits")]
    pub filename: Option<Text<2_048>>,
    /// The line within the code, starting from 0.
    #[serde(default, deserialize_with = "if_it_fits")]
    #[schema(value_type = Option<i64>)]
    pub relative_line: Option<u32>,
}

fn if_it_fits<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(deserializer)?).ok())
}

fn frames<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ClientFrame>, D::Error> {
    let Value::Array(frames) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    Ok(frames.into_iter().filter_map(|frame| ClientFrame::deserialize(frame).ok()).take(MAX_FRAMES).collect())
}

impl ClientSpanReport {
    /// Iterates over the code texts with their hashes.
    pub fn texts(&self) -> impl Iterator<Item = (Digest, &str)> {
        let texts = self.callstack.iter().filter_map(|frame| frame.code.as_ref());
        texts.map(|code| (Digest::of(code.as_str()), code.as_str()))
    }

    /// Returns the code as one stack, with hashes in place of the texts.
    #[must_use]
    pub fn stacks(&self) -> CodeStacks {
        let frames = self.callstack.iter().map(|frame| CodeFrame {
            hash: frame.code.as_ref().map(|code| Digest::of(code.as_str()).as_str().to_owned()),
            file: frame.filename.clone().map(Text::into_string),
            line: None,
            relative_line: frame.relative_line.map(i64::from),
        });
        let stack: Vec<CodeFrame> = frames.collect();
        CodeStacks(if stack.is_empty() { Vec::new() } else { vec![stack] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_left_out() {
        let report: ClientSpanReport = serde_json::from_str(
            r#"{"start": 1.5, "stop": 2, "owner": {"any": [1]}, "callstack": [
                {"frame_index": 0, "code": "x = 1", "filename": "a.py", "relative_line": 3},
                {"frame_index": 1, "code": 7, "filename": null, "relative_line": -1},
                "no frame"]}"#,
        )
        .expect("a client span");
        let frames: Vec<_> = report.stacks().0.concat();
        assert_eq!(frames[0].hash.as_deref(), Some(Digest::of("x = 1").as_str()));
        assert_eq!((frames[0].file.as_deref(), frames[0].relative_line), (Some("a.py"), Some(3)));
        assert_eq!(frames[1], CodeFrame::default());
        assert_eq!(frames.len(), 2);
        for callstack in ["null", "7", "[]"] {
            let json = format!(r#"{{"start": 1, "stop": 2, "callstack": {callstack}}}"#);
            let report: ClientSpanReport = serde_json::from_str(&json).expect("a client span");
            assert_eq!(report.stacks(), CodeStacks::default(), "{callstack}");
        }
        assert!(serde_json::from_str::<ClientSpanReport>(r#"{"stop": 2}"#).is_err());
    }
}
