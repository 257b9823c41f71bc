//! Files for pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use std::{collections::HashMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use super::{Node, OMITTED, ProfileFile};

/// The largest number of locations in all call stacks of a file. The samples of further stacks are those of
/// one stack with [`OMITTED`] alone. A stack of an ordinary program has less than a hundred.
const MAX_LOCATIONS: usize = 2_000_000;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
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

/// The program, of which all names are known.
#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
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

/// A function. It has no system name, because viewers would take names such as `<lambda>` for mangled ones.
#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
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
fn id_of(index: usize) -> u64 {
    u64::try_from(index + 1).expect("an index is no larger")
}

/// Returns the file.
pub(super) fn encode(profile: &ProfileFile) -> Vec<u8> {
    let mut texts = Texts::new();
    let sample_type = vec![ValueType { kind: texts.index("samples"), unit: texts.index("count") }];
    let mapping = Mapping {
        id: 1,
        filename: texts.index(&profile.title),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
    };
    let (mut function, mut location) = (Vec::new(), Vec::new());
    let mut functions: HashMap<(&str, &str), u64> = HashMap::new();
    let mut add_location = |name, file, line| {
        let function_id = *functions.entry((name, file)).or_insert_with(|| {
            let (name, filename) = (texts.index(name), texts.index(file));
            let id = id_of(function.len());
            function.push(Function { id, name, filename });
            id
        });
        let id = id_of(location.len());
        location.push(Location { id, mapping_id: mapping.id, line: vec![Line { function_id, line }] });
        id
    };
    for frame in &profile.frames {
        add_location(frame.function.as_str(), frame.file.as_str(), frame.line);
    }
    let (mut sample, omitted) = stacks(&profile.nodes);
    if omitted > 0 {
        sample.push(Sample { location_id: vec![add_location(OMITTED, "", 0)], value: vec![omitted] });
    }
    let file = Profile {
        sample_type,
        sample,
        mapping: vec![mapping],
        location,
        function,
        string_table: texts.list,
        time_nanos: profile.from.timestamp_nanos_opt().unwrap_or_default(),
        duration_nanos: (profile.to - profile.from).num_nanoseconds().unwrap_or_default(),
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&file.encode_to_vec()).and_then(|()| encoder.finish()).expect("memory takes all")
}

/// Returns the call stacks of all nodes with samples of their own, and the number of samples in further
/// stacks than fit into a file.
fn stacks(nodes: &[Node]) -> (Vec<Sample>, i64) {
    let (mut stacks, mut omitted, mut left) = (Vec::new(), 0_i64, MAX_LOCATIONS);
    for node in nodes.iter().filter(|node| node.own > 0) {
        let mut stack = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next.filter(|_| stack.len() < left) {
            stack.push(id_of(node.frame));
            next = node.parent.map(|parent| &nodes[parent]);
        }
        if next.is_some() {
            omitted = omitted.saturating_add(node.own);
        } else {
            left -= stack.len();
            stacks.push(Sample { location_id: stack, value: vec![node.own] });
        }
    }
    (stacks, omitted)
}
