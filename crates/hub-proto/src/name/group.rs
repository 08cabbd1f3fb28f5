//! Names of consumer groups.

use std::sync::Arc;

use super::{is_segment_byte, name_traits};
use crate::error::shown;
use crate::{Error, Result, limits};

/// A group's name: 1 to 200 bytes of `[A-Za-z0-9_.-]`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(Arc<str>);

name_traits!(GroupName, GroupName::parse);

impl GroupName {
    /// Checks a name.
    ///
    /// ```
    /// use hub_proto::GroupName;
    /// assert_eq!(GroupName::parse("billing.v2")?.as_str(), "billing.v2");
    /// assert!(GroupName::parse("").is_err());
    /// # Ok::<(), hub_proto::Error>(())
    /// ```
    ///
    /// # Errors
    /// `bad_request` if the name is empty, too long or has other characters.
    pub fn parse(name: &str) -> Result<Self> {
        let fits = (1..=limits::GROUP_BYTES).contains(&name.len());
        if !fits || !name.bytes().all(|b| is_segment_byte(b) || b == b'.') {
            return Err(Error::bad_request(format!(
                "group name {} ({} bytes) is not 1 to {} bytes of [A-Za-z0-9_.-]",
                shown(name),
                name.len(),
                limits::GROUP_BYTES
            )));
        }
        Ok(Self(name.into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_group_name_is_one_to_two_hundred_bytes_of_its_alphabet() {
        for good in ["a", ".", "..", "a.b-c_D9", &"g".repeat(200)] {
            assert_eq!(GroupName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a/b", "é", "a\0", &"g".repeat(201)] {
            assert!(GroupName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn serde_reads_and_writes_it_as_a_string() {
        let name: GroupName = serde_json::from_str(r#""a\u002eb""#).unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), r#""a.b""#);
        assert!(serde_json::from_str::<GroupName>("\"\"").is_err());
        assert!(serde_json::from_str::<GroupName>("1").is_err());
    }
}
