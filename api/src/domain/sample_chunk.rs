//! Compression of samples. A chunk holds the samples of one series, a cluster or a worker, within ten
//! minutes of the clock.
//!
//! Whole numbers below 2^53 are stored exactly. Any other number is stored as the nearest 32-bit float,
//! which is accurate to seven digits. The packed bytes depend on the samples alone, not on their order:
//! adding samples is commutative and idempotent. If one time has several values of a metric, the largest
//! value is kept.
//!
//! A chunk is a version byte, the length of its content as a varint, and the content compressed with
//! zstd. The content is the number of samples, their times as differences of differences, and one column
//! per metric. A column is the metric's number, the encoding of its values, a bitmap of the samples that
//! have a value unless all have one, and the values. Whole numbers, and numbers of few decimals scaled to
//! whole ones, are stored as the first number and zigzag differences. Others are stored as floats, each
//! bit pattern combined with its predecessor by XOR. Both encodings store byte planes, all lowest bytes
//! first, so that noise is separate from the bytes that zstd compresses well.

use std::collections::BTreeMap;

use super::{
    byte_reader::{ByteReader, Malformed, write_varint},
    metric::Metric,
};
use crate::compression::{compress, decompress};

/// The period of one chunk, in milliseconds. Chunks begin at multiples of it.
pub const CHUNK_MILLISECONDS: i64 = 600_000;

/// The largest number of samples in a chunk, more than occur in practice. Beyond it, the earliest samples
/// are kept.
pub const MAX_SAMPLES: usize = 6_000;

const VERSION: u8 = 1;

/// An upper bound of a chunk's content, in bytes: all metrics of a full chunk in their longest encoding.
const MAX_CONTENT: usize = MAX_SAMPLES * (8 + Metric::ALL.len() * 10);

/// The bound below which whole numbers are exact as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The largest number of decimals for which a column is stored as whole numbers.
const MAX_DECIMALS: u8 = 4;

/// The encodings of a column, besides the number of decimals.
const SINGLES: u8 = 5;
const DOUBLES: u8 = 6;
const BITMAP: u8 = 0x80;

/// The error for packed samples that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed samples are damaged, or of a newer version")]
pub struct Damaged;

impl From<Malformed> for Damaged {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// Returns the start of the chunk that contains a time, in milliseconds, and the offset within it.
#[must_use]
pub fn locate(milliseconds: i64) -> (i64, u32) {
    let offset = milliseconds.rem_euclid(CHUNK_MILLISECONDS);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shorter than one chunk")]
    let short = offset as u32;
    (milliseconds - offset, short)
}

/// Returns the stored approximation of a value.
#[must_use]
pub fn stored_value(value: f64) -> f64 {
    if value.fract() == 0.0 && value.abs() < EXACT {
        // Removes the sign of zero.
        return value + 0.0;
    }
    f64::from(to_f32(value)) + 0.0
}

#[expect(clippy::cast_possible_truncation, reason = "intended rounding; large values are clamped")]
fn to_f32(value: f64) -> f32 {
    (value as f32).clamp(f32::MIN, f32::MAX)
}

/// The samples of a chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// The times of the samples, as ascending milliseconds since the start of the chunk.
    offsets: Vec<u32>,
    /// The values of each metric, one per sample. No column is empty.
    columns: BTreeMap<Metric, Vec<Option<f64>>>,
}

impl Samples {
    /// Adds the values of one time. Returns true if this changed anything.
    pub fn add(&mut self, offset: u32, values: impl IntoIterator<Item = (Metric, f64)>) -> bool {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return false;
        }
        let search_result = self.offsets.binary_search(&offset);
        let index = match search_result {
            Ok(index) => index,
            Err(MAX_SAMPLES..) => return false,
            Err(index) => {
                self.offsets.insert(index, offset);
                self.columns.values_mut().for_each(|column| column.insert(index, None));
                index
            }
        };
        let mut is_changed = search_result.is_err();
        for (metric, value) in values {
            let value = stored_value(value);
            let column = self.columns.entry(metric).or_insert_with(|| vec![None; self.offsets.len()]);
            let greater = column[index].map_or(value, |stored| stored.max(value));
            is_changed |= column[index].replace(greater) != Some(greater);
        }
        if self.offsets.len() > MAX_SAMPLES {
            self.offsets.pop();
            self.columns.retain(|_, column| {
                column.pop();
                column.iter().any(Option::is_some)
            });
        }
        is_changed
    }

    /// Adds all samples of `other`. Returns true if this changed anything.
    pub fn merge(&mut self, other: &Self) -> bool {
        let mut is_changed = false;
        for (index, offset) in other.offsets.iter().enumerate() {
            let values = other.columns.iter().filter_map(|(metric, column)| Some((*metric, column[index]?)));
            is_changed |= self.add(*offset, values);
        }
        is_changed
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns true if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Iterates over the values of a metric in order of time, with the milliseconds since the start of
    /// the chunk.
    pub fn values(&self, metric: Metric) -> impl Iterator<Item = (u32, f64)> {
        let column = self.columns.get(&metric).map_or(&[][..], Vec::as_slice);
        self.offsets.iter().zip(column).filter_map(|(offset, value)| Some((*offset, (*value)?)))
    }
}

/// Packs samples.
///
/// # Panics
/// Panics if memory is exhausted.
#[must_use]
pub fn pack(samples: &Samples) -> Vec<u8> {
    let content = write_columns(samples);
    let mut packed = vec![VERSION];
    write_varint(&mut packed, content.len() as u64);
    packed.extend(compress(&content));
    packed
}

/// Reads samples that [`pack`] packed.
///
/// # Errors
/// Returns [`Damaged`] for all other input.
pub fn unpack(packed: &[u8]) -> Result<Samples, Damaged> {
    let mut packed = ByteReader(packed);
    if packed.byte()? != VERSION {
        return Err(Damaged);
    }
    let length = usize::try_from(packed.varint()?).map_err(|_| Damaged)?;
    if length > MAX_CONTENT {
        return Err(Damaged);
    }
    let content = decompress(packed.0, length).ok_or(Damaged)?;
    if content.len() == length { read_columns(&mut ByteReader(&content)) } else { Err(Damaged) }
}

fn write_columns(chunk: &Samples) -> Vec<u8> {
    let mut content = Vec::with_capacity(16 + chunk.offsets.len() * (2 + 4 * chunk.columns.len()));
    write_varint(&mut content, chunk.offsets.len() as u64);
    let (mut previous, mut step) = (0, 0);
    for offset in chunk.offsets.iter().map(|offset| i64::from(*offset)) {
        write_varint(&mut content, zigzag(offset - previous - step));
        (previous, step) = (offset, offset - previous);
    }
    for (metric, column) in &chunk.columns {
        let values: Vec<f64> = column.iter().copied().flatten().collect();
        let (kind, encoded) = write_values(&values);
        let has_gaps = values.len() < column.len();
        content.push(*metric as u8);
        content.push(if has_gaps { kind | BITMAP } else { kind });
        if has_gaps {
            content.extend(column.chunks(8).map(|group| {
                (0..).zip(group).fold(0_u8, |bits, (bit, value)| bits | u8::from(value.is_some()) << bit)
            }));
        }
        content.extend(encoded);
    }
    content
}

fn read_columns(content: &mut ByteReader<'_>) -> Result<Samples, Damaged> {
    let count = usize::try_from(content.varint()?).ok().filter(|count| *count <= MAX_SAMPLES);
    let count = count.ok_or(Damaged)?;
    let mut offsets = Vec::with_capacity(count);
    let (mut current, mut step) = (0_i64, 0_i64);
    for _ in 0..count {
        step = step.checked_add(read_signed(content)?).ok_or(Damaged)?;
        current = current.checked_add(step).ok_or(Damaged)?;
        let is_ascending = offsets.last().is_none_or(|previous| i64::from(*previous) < current);
        match u32::try_from(current) {
            Ok(offset) if is_ascending && current < CHUNK_MILLISECONDS => offsets.push(offset),
            _ => return Err(Damaged),
        }
    }
    let mut columns = BTreeMap::new();
    while !content.0.is_empty() {
        let metric = Metric::from_number(content.byte()?).ok_or(Damaged)?;
        let kind = content.byte()?;
        let presence: Vec<bool> = if kind & BITMAP == 0 {
            vec![true; count]
        } else {
            let bits = content.bytes(count.div_ceil(8))?;
            (0..count).map(|index| bits[index / 8] >> (index % 8) & 1 == 1).collect()
        };
        let values = presence.iter().filter(|is_present| **is_present).count();
        let mut values = read_values(content, kind & !BITMAP, values)?.into_iter();
        let column = presence.into_iter().map(|is_present| if is_present { values.next() } else { None });
        columns.insert(metric, column.collect());
    }
    Ok(Samples { offsets, columns })
}

/// Encodes the values of a column. The choice of the encoding depends on the values alone.
fn write_values(values: &[f64]) -> (u8, Vec<u8>) {
    let are_singles = values.iter().all(|value| same(f64::from(to_f32(*value)), *value));
    let decimals = (0..=MAX_DECIMALS).find_map(|decimals| {
        let scaled: Option<Vec<i64>> = values.iter().map(|value| scale(*value, decimals)).collect();
        Some((decimals, write_differences(&scaled?)))
    });
    match decimals {
        // Whole numbers always; decimals only if they are shorter than floats, which do not compress
        // well.
        Some((decimals, encoded))
            if decimals == 0 || !are_singles || encoded.len() <= 10 + 3 * values.len() =>
        {
            (decimals, encoded)
        }
        _ if are_singles => {
            let bits = values.iter().map(|value| to_f32(*value).to_bits());
            (SINGLES, write_floats::<4>(bits.map(|bits| bits.rotate_left(1).to_le_bytes())))
        }
        _ => (DOUBLES, write_floats::<8>(values.iter().map(|value| value.to_bits().to_le_bytes()))),
    }
}

fn read_values(content: &mut ByteReader<'_>, kind: u8, count: usize) -> Result<Vec<f64>, Damaged> {
    match kind {
        0..=MAX_DECIMALS => {
            let numbers = read_differences(content, count)?.into_iter();
            Ok(numbers.map(|number| unscale(number, kind)).collect())
        }
        SINGLES => Ok(read_floats::<4>(content, count)?
            .map(|bytes| f64::from(f32::from_bits(u32::from_le_bytes(bytes).rotate_right(1))))
            .collect()),
        DOUBLES => Ok(read_floats::<8>(content, count)?.map(f64::from_le_bytes).collect()),
        _ => Err(Damaged),
    }
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}

/// Returns `value` scaled by so many decimals, if the result is a whole number that restores it.
fn scale(value: f64, decimals: u8) -> Option<i64> {
    let scaled = (value * 10_f64.powi(decimals.into())).round();
    if scaled.abs() >= EXACT {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    let scaled = scaled as i64;
    same(unscale(scaled, decimals), value).then_some(scaled)
}

fn unscale(number: i64, decimals: u8) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "written numbers are small enough")]
    let number = number as f64;
    stored_value(number / 10_f64.powi(decimals.into()))
}

/// Encodes the first number, the byte length of the largest difference, and the differences in this
/// length.
fn write_differences(numbers: &[i64]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(10 + 4 * numbers.len());
    let Some(first) = numbers.first() else { return encoded };
    write_varint(&mut encoded, zigzag(*first));
    let differences: Vec<u64> = numbers.windows(2).map(|pair| zigzag(pair[1] - pair[0])).collect();
    let bits = 64 - differences.iter().copied().max().unwrap_or(0).leading_zeros();
    let bytes = bits.div_ceil(8);
    encoded.push(bytes.to_le_bytes()[0]);
    encoded.extend(byte_planes(
        bytes as usize,
        &differences.iter().map(|number| number.to_le_bytes()).collect::<Vec<_>>(),
    ));
    encoded
}

fn read_differences(content: &mut ByteReader<'_>, count: usize) -> Result<Vec<i64>, Damaged> {
    let Some(differences) = count.checked_sub(1) else { return Ok(Vec::new()) };
    let mut number = read_signed(content)?;
    let bytes = usize::from(content.byte()?);
    if bytes > 8 {
        return Err(Damaged);
    }
    let planes = content.bytes(bytes * differences)?;
    let mut numbers = vec![number];
    for index in 0..differences {
        let mut difference = [0; 8];
        (0..bytes).for_each(|byte| difference[byte] = planes[byte * differences + index]);
        number = number.checked_add(unzigzag(u64::from_le_bytes(difference))).ok_or(Damaged)?;
        numbers.push(number);
    }
    Ok(numbers)
}

/// Encodes each value combined by XOR with the previous one.
fn write_floats<const BYTES: usize>(values: impl Iterator<Item = [u8; BYTES]>) -> Vec<u8> {
    let mut previous = [0; BYTES];
    let combined: Vec<[u8; BYTES]> = values
        .map(|value| {
            let combined = std::array::from_fn(|byte| value[byte] ^ previous[byte]);
            previous = value;
            combined
        })
        .collect();
    byte_planes(BYTES, &combined).collect()
}

fn read_floats<'a, const BYTES: usize>(
    content: &mut ByteReader<'a>,
    count: usize,
) -> Result<impl Iterator<Item = [u8; BYTES]> + use<'a, BYTES>, Damaged> {
    let planes = content.bytes(BYTES * count)?;
    let mut previous = [0; BYTES];
    Ok((0..count).map(move |index| {
        previous = std::array::from_fn(|byte| planes[byte * count + index] ^ previous[byte]);
        previous
    }))
}

/// Iterates over byte planes: all lowest bytes, then all second ones, up to the given number of bytes.
fn byte_planes<const BYTES: usize>(bytes: usize, values: &[[u8; BYTES]]) -> impl Iterator<Item = u8> {
    (0..bytes).flat_map(move |byte| values.iter().map(move |value| value[byte]))
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Reads a number that is stored in zigzag form.
fn read_signed(content: &mut ByteReader<'_>) -> Result<i64, Damaged> {
    Ok(unzigzag(content.varint()?))
}

#[cfg(test)]
mod tests;
