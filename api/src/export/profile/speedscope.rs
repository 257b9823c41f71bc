//! Files for speedscope: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>.

use serde::Serialize;

use super::{ProfileFile, Stack};

/// The identifier of the format, which files have to contain.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    active_profile_index: usize,
    shared: Shared<'a>,
    profiles: [Sampled<'a>; 1],
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    samples: Vec<&'a [usize]>,
    weights: Vec<i64>,
}

/// Returns the file.
pub(super) fn encode(profile: &ProfileFile, stacks: &[Stack]) -> Vec<u8> {
    let title = profile.title();
    let frames = profile.tree.frames.iter().map(|frame| Frame {
        name: &frame.function,
        file: &frame.file,
        line: (frame.line > 0).then_some(frame.line),
    });
    let file = File {
        schema: SCHEMA,
        name: &title,
        exporter: concat!("galvo@", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Shared { frames: frames.collect() },
        profiles: [Sampled {
            kind: "sampled",
            name: &title,
            unit: "none",
            start_value: 0,
            end_value: stacks.iter().map(|stack| stack.samples).sum(),
            samples: stacks.iter().map(|stack| stack.frames.as_slice()).collect(),
            weights: stacks.iter().map(|stack| stack.samples).collect(),
        }],
    };
    serde_json::to_vec(&file).expect("texts and numbers are always JSON")
}
