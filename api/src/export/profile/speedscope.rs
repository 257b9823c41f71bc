//! Files for speedscope: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>.
//!
//! A profile is a list of events, at which a frame is opened or closed. Each node of the call tree adds two
//! events, however deep the tree is. The unit of time is one sample.

use serde::Serialize;

use super::ProfileFile;

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
    profiles: [EventedProfile<'a>; 1],
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
struct EventedProfile<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    events: Vec<Event>,
}

/// The opening (`O`) or closing (`C`) of a frame.
#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: &'static str,
    frame: usize,
    at: i64,
}

/// Encodes a profile as the content of a speedscope file.
pub(super) fn encode(profile: &ProfileFile) -> Vec<u8> {
    let frames = profile.frames.iter().map(|frame| Frame {
        name: &frame.function,
        file: &frame.file,
        line: (frame.line > 0).then_some(frame.line),
    });
    let file = File {
        schema: SCHEMA,
        name: &profile.title,
        exporter: concat!("galvo@", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Shared { frames: frames.collect() },
        profiles: [EventedProfile {
            kind: "evented",
            name: &profile.title,
            unit: "none",
            start_value: 0,
            end_value: profile.samples,
            events: build_events(profile),
        }],
    };
    serde_json::to_vec(&file).expect("texts and numbers are always JSON")
}

/// Returns the events of all nodes: of each, first its children, and then its own samples.
fn build_events(profile: &ProfileFile) -> Vec<Event> {
    let nodes = &profile.nodes;
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut roots = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        node.parent.map_or(&mut roots, |parent| &mut children[parent]).push(index);
    }
    let mut events = Vec::with_capacity(2 * nodes.len());
    let mut next_root = 0;
    for root in roots {
        // An explicit stack instead of recursion, because the tree can be deep: the open nodes, each with the
        // number of its visited children, and the start of the next child.
        let mut open_nodes = vec![(root, 0, next_root)];
        events.push(Event { kind: "O", frame: nodes[root].frame, at: next_root });
        next_root = next_root.saturating_add(nodes[root].total);
        while let Some((index, visited_children, at)) = open_nodes.last_mut() {
            if let Some(child) = children[*index].get(*visited_children).copied() {
                let start = *at;
                (*visited_children, *at) = (*visited_children + 1, at.saturating_add(nodes[child].total));
                events.push(Event { kind: "O", frame: nodes[child].frame, at: start });
                open_nodes.push((child, 0, start));
            } else {
                let node = &nodes[*index];
                events.push(Event { kind: "C", frame: node.frame, at: at.saturating_add(node.own) });
                open_nodes.pop();
            }
        }
    }
    events
}
