//! The compute time of functions over time. A chunk holds that of the functions of one cluster within ten
//! minutes of the clock, as one value for each interval of 15 s.
//!
//! Values are whole hundredths of a second. Merging keeps the larger value of each function and interval,
//! so it is commutative and idempotent, and the packed bytes depend on the content alone. A chunk has a
//! limited number of functions. Beyond it, those that come first by the bytes of their names are kept.
//! Functions with very long names count among the others.
//!
//! A chunk is a version byte, the length of its content as a varint, and the content compressed with
//! zstd. The content is the number of functions as a varint, and for each function the length of its name
//! as a varint, the name, and its values as varints. A zero is followed by the length of its run.

use std::collections::BTreeMap;

use super::{
    byte_reader::{ByteReader, Malformed, write_varint},
    report::FunctionActivityReport,
};
use crate::compression::{compress, decompress};

mod buckets;

pub use buckets::{ActivityBuckets, ActivityColumns, FunctionColumn, TooManyFunctions};

/// The length of an interval, in seconds. Intervals begin at multiples of it since 1970.
pub const INTERVAL_SECONDS: i64 = 15;

/// The number of intervals in a minute.
pub const INTERVALS_PER_MINUTE: usize = 4;

/// The largest number of functions in a chunk, where all others count as one. Reporters name at most 20.
pub const MAX_FUNCTIONS: usize = 100;

/// The name that stands for all functions without a name of their own.
pub const OTHERS: &str = "";

const VERSION: u8 = 1;
const MINUTES: i64 = 10;
const INTERVALS: usize = 40;
const INTERVAL_MILLISECONDS: i64 = 1_000 * INTERVAL_SECONDS;

/// The largest length of a name, in bytes.
const MAX_NAME_BYTES: usize = 1_024;

/// An upper bound of a chunk's content, in bytes: all functions in their longest encoding.
const MAX_CONTENT: usize = 1 + MAX_FUNCTIONS * (2 + MAX_NAME_BYTES + 5 * INTERVALS);

/// The error for packed activity that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed activity of functions is damaged, or of a newer version")]
pub struct Damaged;

impl From<Malformed> for Damaged {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// Returns the start of the chunk that contains a minute, in milliseconds, and the index of the minute's
/// first interval in the chunk. The minute is the number of whole minutes since 1970.
#[must_use]
pub fn locate(minute: i64) -> (i64, usize) {
    let minute_index = minute.rem_euclid(MINUTES);
    let first_interval = usize::try_from(minute_index).unwrap_or_default() * INTERVALS_PER_MINUTE;
    ((minute - minute_index).saturating_mul(60_000), first_interval)
}

/// Returns the stored form of a number of seconds: whole hundredths.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "floats out of range become the nearest integer"
)]
pub fn hundredths(seconds: f64) -> u32 {
    (100.0 * seconds).round() as u32
}

/// The functions of a chunk, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity(BTreeMap<String, [u32; INTERVALS]>);

impl Activity {
    /// Adds a reported minute. `first_interval` is the index of its first interval in the chunk.
    pub fn add_minute(&mut self, first_interval: usize, report: &FunctionActivityReport) {
        let mut unnamed = [0_u32; INTERVALS_PER_MINUTE];
        for function in report.functions.iter() {
            let (name, values) = (function.prefix.as_str(), function.compute_seconds.hundredths());
            if name.len() <= MAX_NAME_BYTES && name != OTHERS {
                self.raise(name, first_interval, &values);
            } else {
                add_each(&mut unnamed, values);
            }
        }
        if let Some(seconds) = &report.other_compute_seconds {
            add_each(&mut unnamed, seconds.hundredths());
        }
        self.raise(OTHERS, first_interval, &unnamed);
    }

    /// Adds everything in `other`. Returns true if this changed anything.
    pub fn merge(&mut self, other: &Self) -> bool {
        let previous = self.clone();
        for (function, values) in &other.0 {
            self.raise(function, 0, values);
        }
        *self != previous
    }

    /// Returns the number of functions, where all without a name count as one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no function was active.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the names of functions in the order of their bytes, each with the hundredths of
    /// seconds in all intervals of the chunk.
    pub fn functions(&self) -> impl Iterator<Item = (&str, &[u32])> {
        self.0.iter().map(|(function, values)| (function.as_str(), &values[..]))
    }

    /// Raises the values of a function to at least these, from the interval with the index
    /// `first_interval` on.
    fn raise(&mut self, function: &str, first_interval: usize, values: &[u32]) {
        if values.iter().all(|value| *value == 0) {
            return;
        }
        let stored = self.0.entry(function.to_owned()).or_insert([0; INTERVALS]);
        for (stored, value) in stored.iter_mut().skip(first_interval).zip(values) {
            *stored = (*stored).max(*value);
        }
        // A function that is removed here would also be removed if it came first, so the order of
        // additions has no influence.
        if self.0.len() > MAX_FUNCTIONS {
            self.0.pop_last();
        }
    }
}

fn add_each(sums: &mut [u32; INTERVALS_PER_MINUTE], values: [u32; INTERVALS_PER_MINUTE]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = sum.saturating_add(value);
    }
}

/// Packs the activity of functions.
///
/// # Panics
/// Panics if memory is exhausted.
#[must_use]
pub fn pack(activity: &Activity) -> Vec<u8> {
    let content = write_functions(activity);
    let mut packed = vec![VERSION];
    write_varint(&mut packed, content.len() as u64);
    packed.extend(compress(&content));
    packed
}

/// Reads activity that [`pack`] packed.
///
/// # Errors
/// Returns [`Damaged`] for all other input.
pub fn unpack(packed: &[u8]) -> Result<Activity, Damaged> {
    let mut packed = ByteReader(packed);
    if packed.byte()? != VERSION {
        return Err(Damaged);
    }
    let length = read_length(&mut packed, MAX_CONTENT)?;
    let content = decompress(packed.0, length).ok_or(Damaged)?;
    if content.len() == length { read_functions(&mut ByteReader(&content)) } else { Err(Damaged) }
}

fn write_functions(activity: &Activity) -> Vec<u8> {
    let mut content = Vec::new();
    write_varint(&mut content, activity.0.len() as u64);
    for (function, values) in &activity.0 {
        write_varint(&mut content, function.len() as u64);
        content.extend(function.as_bytes());
        // Zeros that follow each other are one run, and any other value is one by itself.
        for run in values.chunk_by(|a, b| *a == 0 && *b == 0) {
            write_varint(&mut content, run[0].into());
            if run[0] == 0 {
                write_varint(&mut content, run.len() as u64);
            }
        }
    }
    content
}

fn read_functions(content: &mut ByteReader<'_>) -> Result<Activity, Damaged> {
    let count = read_length(content, MAX_FUNCTIONS)?;
    let mut functions = BTreeMap::new();
    for _ in 0..count {
        let length = read_length(content, MAX_NAME_BYTES)?;
        let function = str::from_utf8(content.bytes(length)?).map_err(|_| Damaged)?;
        let is_ascending =
            functions.last_key_value().is_none_or(|(previous, _): (&String, _)| previous.as_str() < function);
        if !is_ascending {
            return Err(Damaged);
        }
        functions.insert(function.to_owned(), read_values(content)?);
    }
    if content.0.is_empty() { Ok(Activity(functions)) } else { Err(Damaged) }
}

fn read_values(content: &mut ByteReader<'_>) -> Result<[u32; INTERVALS], Damaged> {
    let (mut values, mut index) = ([0; INTERVALS], 0);
    while index < INTERVALS {
        let value = u32::try_from(content.varint()?).map_err(|_| Damaged)?;
        if value > 0 {
            values[index] = value;
            index += 1;
            continue;
        }
        match read_length(content, INTERVALS - index)? {
            0 => return Err(Damaged),
            run => index += run,
        }
    }
    Ok(values)
}

fn read_length(content: &mut ByteReader<'_>, max: usize) -> Result<usize, Damaged> {
    usize::try_from(content.varint()?).ok().filter(|length| *length <= max).ok_or(Damaged)
}

#[cfg(test)]
mod tests;
