//! Packed bytes: a reader that never reads past its input, and varints, whole numbers in groups of seven
//! bits with the lowest group first.

/// The error for input that ends too early, or for a number that needs more than 64 bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The rest of the input.
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, remainder) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = remainder;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

/// Appends a number as a varint.
pub(super) fn write_varint(target: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        target.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    target.push(number.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut written = Vec::new();
            write_varint(&mut written, number);
            let mut reader = ByteReader(&written);
            assert_eq!((reader.varint(), reader.0), (Ok(number), &[][..]), "{number}");
            assert_eq!(ByteReader(&written[1..]).bytes(written.len()), Err(Malformed), "{number}");
        }
        assert_eq!(ByteReader(&[0xff; 11]).varint(), Err(Malformed));
        assert_eq!(ByteReader(&[0x80]).varint(), Err(Malformed));
    }
}
