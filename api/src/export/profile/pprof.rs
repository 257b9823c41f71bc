//! Files for pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>.

use std::{collections::HashMap, io::Write};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

use super::{Node, OMITTED, ProfileFile};

/// The largest number of locations in all call stacks of a file. The samples of further stacks are added to
/// one stack with the only location [`OMITTED`]. A stack of an ordinary program has fewer than 100 locations.
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

/// The kind and the unit of the values, as indexes of the string table.
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

/// The program. The flags say that all functions, files and lines are known, so that viewers search for no
/// symbols.
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

/// The texts of a file with their indexes. pprof requires that the first text is empty.
struct StringTable<'a> {
    texts: Vec<String>,
    indexes: HashMap<&'a str, i64>,
}

impl<'a> StringTable<'a> {
    fn new() -> Self {
        Self { texts: vec![String::new()], indexes: HashMap::from([("", 0)]) }
    }

    fn index_of(&mut self, text: &'a str) -> i64 {
        *self.indexes.entry(text).or_insert_with(|| {
            self.texts.push(text.to_owned());
            i64::try_from(self.texts.len() - 1).expect("there are few texts")
        })
    }
}

/// Returns the identifier of the item at an index. pprof reserves 0 for no item.
fn one_based_id(index: usize) -> u64 {
    u64::try_from(index + 1).expect("an index fits into 64 bits")
}

/// Encodes a profile as the compressed content of a pprof file.
pub(super) fn encode(profile: &ProfileFile) -> Vec<u8> {
    let mut strings = StringTable::new();
    let sample_type = vec![ValueType { kind: strings.index_of("samples"), unit: strings.index_of("count") }];
    let mapping = Mapping {
        id: 1,
        filename: strings.index_of(&profile.title),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
    };
    let (mut function, mut location) = (Vec::new(), Vec::new());
    let mut functions: HashMap<(&str, &str), u64> = HashMap::new();
    let mut add_location = |name, file, line| {
        let function_id = *functions.entry((name, file)).or_insert_with(|| {
            let (name, filename) = (strings.index_of(name), strings.index_of(file));
            let id = one_based_id(function.len());
            function.push(Function { id, name, filename });
            id
        });
        let id = one_based_id(location.len());
        location.push(Location { id, mapping_id: mapping.id, line: vec![Line { function_id, line }] });
        id
    };
    for frame in &profile.frames {
        add_location(frame.function.as_str(), frame.file.as_str(), frame.line);
    }
    let (mut sample, omitted) = collect_stacks(&profile.nodes);
    if omitted > 0 {
        sample.push(Sample { location_id: vec![add_location(OMITTED, "", 0)], value: vec![omitted] });
    }
    let file = Profile {
        sample_type,
        sample,
        mapping: vec![mapping],
        location,
        function,
        string_table: strings.texts,
        time_nanos: profile.from.timestamp_nanos_opt().unwrap_or_default(),
        duration_nanos: (profile.to - profile.from).num_nanoseconds().unwrap_or_default(),
    };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(&file.encode_to_vec())
        .and_then(|()| encoder.finish())
        .expect("writing to memory succeeds")
}

/// Returns the call stacks of the nodes with samples of their own, and the number of samples in the stacks
/// that do not fit into a file.
fn collect_stacks(nodes: &[Node]) -> (Vec<Sample>, i64) {
    let (mut stacks, mut omitted, mut remaining_locations) = (Vec::new(), 0_i64, MAX_LOCATIONS);
    for node in nodes.iter().filter(|node| node.own > 0) {
        let mut stack = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next.filter(|_| stack.len() < remaining_locations) {
            stack.push(one_based_id(node.frame));
            next = node.parent.map(|parent| &nodes[parent]);
        }
        if next.is_some() {
            omitted = omitted.saturating_add(node.own);
        } else {
            remaining_locations -= stack.len();
            stacks.push(Sample { location_id: stack, value: vec![node.own] });
        }
    }
    (stacks, omitted)
}
