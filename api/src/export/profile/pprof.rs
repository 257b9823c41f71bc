//! Files for pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use std::{collections::HashMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use super::{ProfileFile, Stack};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

/// Indexes of texts.
#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A call stack, the innermost location first.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Texts with their indexes. The first one has to be empty.
struct Texts<'a> {
    list: Vec<String>,
    indexes: HashMap<&'a str, i64>,
}

impl<'a> Texts<'a> {
    fn new() -> Self {
        Self { list: vec![String::new()], indexes: HashMap::from([("", 0)]) }
    }

    fn index(&mut self, text: &'a str) -> i64 {
        *self.indexes.entry(text).or_insert_with(|| {
            self.list.push(text.to_owned());
            i64::try_from(self.list.len() - 1).expect("there are few texts")
        })
    }
}

/// Returns the identifier for an index. 0 is none.
fn id(index: usize) -> u64 {
    u64::try_from(index + 1).expect("an index is no larger")
}

/// Returns the file.
pub(super) fn encode(profile: &ProfileFile, stacks: &[Stack]) -> Vec<u8> {
    let title = profile.title();
    let mut texts = Texts::new();
    let sample_type = vec![ValueType { kind: texts.index("samples"), unit: texts.index("count") }];
    let (mut function, mut location) = (Vec::new(), Vec::new());
    let mut functions: HashMap<(&str, &str), u64> = HashMap::new();
    for (index, frame) in profile.tree.frames.iter().enumerate() {
        let function_id = *functions.entry((&frame.function, &frame.file)).or_insert_with(|| {
            let (name, filename) = (texts.index(&frame.function), texts.index(&frame.file));
            let id = id(function.len());
            function.push(Function { id, name, system_name: name, filename });
            id
        });
        location.push(Location { id: id(index), line: vec![Line { function_id, line: frame.line }] });
    }
    let sample = stacks.iter().map(|stack| Sample {
        location_id: stack.frames.iter().rev().map(|frame| id(*frame)).collect(),
        value: vec![stack.samples],
    });
    let (from, to) = (profile.tree.from, profile.tree.to);
    let comment = vec![texts.index(&title)];
    let file = Profile {
        sample_type,
        sample: sample.collect(),
        location,
        function,
        string_table: texts.list,
        time_nanos: from.timestamp_nanos_opt().unwrap_or_default(),
        duration_nanos: (to - from).num_nanoseconds().unwrap_or_default(),
        comment,
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&file.encode_to_vec()).and_then(|()| encoder.finish()).expect("memory takes all")
}
