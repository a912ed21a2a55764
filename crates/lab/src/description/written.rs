//! Values as experiment files write them: times and sizes with units, and a single value where a list is
//! allowed.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A list of strings, or a single string.
#[derive(Debug)]
pub(super) struct OneOrMany<T>(pub(super) Vec<T>);

/// A time with its unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

/// A number of bytes with its unit, or of bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

/// Parses a value from a string.
fn from_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, units::parse_time).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer, |text| units::parse_size(text.trim_end_matches("/s"))).map(Self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Texts(PhantomData))
    }
}

struct Texts<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Texts<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or several")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(|one| OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(texts)).map(OneOrMany)
    }
}

pub(super) fn within(key: &str, value: u32, least: u32, most: u32) -> Result<u32, String> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(format!("{key}: {value} is not allowed; allowed: {least} to {most}"))
}
