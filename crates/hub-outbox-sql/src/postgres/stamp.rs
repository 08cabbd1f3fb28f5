//! Times as PostgreSQL keeps them: to the microsecond, and with two that are beyond all others.

use hub_core::Millis;
use hub_core::outbox::Micros;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// 2000-01-01, from which PostgreSQL counts, in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`. Its infinities are the first and the last number there is, and sort as they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(i64);

impl Stamp {
    /// Microseconds since 1970; what was before is then.
    pub fn micros(self) -> Micros {
        self.0.saturating_add(EPOCH).try_into().unwrap_or(0)
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> Millis {
        self.micros() / 1000
    }
}

impl From<Micros> for Stamp {
    fn from(micros: Micros) -> Self {
        // What was infinite stays so.
        match i64::try_from(micros) {
            Ok(micros) if micros < i64::MAX => Self(micros - EPOCH),
            _ => Self(i64::MAX),
        }
    }
}

impl Type<Postgres> for Stamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Stamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for Stamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Stamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        // Whatever is bound is answered in binary.
        Ok(Self(i64::from_be_bytes(value.as_bytes()?.try_into()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_to_the_microsecond_and_infinite_ones_stay_so() {
        let micros = 1_700_000_000_123_456;
        assert_eq!(Stamp::from(micros).micros(), micros);
        assert_eq!(Stamp::from(micros).millis(), 1_700_000_000_123);
        assert_eq!(Stamp(0).micros(), EPOCH.cast_unsigned());
        assert_eq!(Stamp::from(Stamp(i64::MAX).micros()), Stamp(i64::MAX));
        assert_eq!(Stamp(i64::MIN).micros(), 0);
    }
}
