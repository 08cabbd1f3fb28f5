//! Names of topics and groups, checked once and cheap to copy.

mod group;
mod topic;

use std::sync::Arc;

pub use group::GroupName;
pub use topic::{Derivation, Derived, TopicName};

/// An entity key: what ordering and compaction go by. Any text.
pub type Key = Arc<str>;

/// The letters of a topic's segment.
pub(crate) const fn is_segment_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The traits that make a checked name usable wherever a `str` is. `$read` is how a name is read from serde.
macro_rules! name_traits {
    ($name:ident, $read:path) => {
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                Self::parse(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::Error;

            fn try_from(text: &str) -> $crate::Result<Self> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Error;

            fn try_from(text: String) -> $crate::Result<Self> {
                Self::parse(&text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(from)?;
                $read(&text).map_err(|err| serde::de::Error::custom(err.msg))
            }
        }
    };
}
use name_traits;
