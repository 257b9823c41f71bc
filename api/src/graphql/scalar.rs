//! Scalars the specification does not have.

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};

use crate::domain::bounded::MAX_EXACT_INTEGER;

/// A whole number that may need more than 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BigInt(pub(super) i64);

/// A whole number that may need more than 32 bits: a count, or bytes. Written as a JSON number below 2^53, which
/// every client keeps exact.
#[Scalar]
impl ScalarType for BigInt {
    fn parse(value: Value) -> InputValueResult<Self> {
        match &value {
            Value::Number(number) => match number.as_i64() {
                Some(number) if (-MAX_EXACT_INTEGER..=MAX_EXACT_INTEGER).contains(&number) => {
                    Ok(Self(number))
                }
                _ => Err(InputValueError::custom("not a whole number below 2^53")),
            },
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}
