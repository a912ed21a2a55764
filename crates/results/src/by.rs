//! Numbers that a label tells apart, such as replies by the class of their status.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// What tells the numbers of one figure apart. Values that are looked up by name only, such as status codes,
/// are no variants of the type.
pub trait Label: Copy + 'static {
    /// The names of its values, as JSON has them.
    const NAMES: &'static [&'static str];

    /// Where the value stands among the names.
    fn place(self) -> usize;
}

/// A number for each value of a label. In JSON it is an object; a value that is missing there is zero.
pub struct By<L: Label> {
    values: Vec<u64>,
    label: PhantomData<fn() -> L>,
}

impl<L: Label> By<L> {
    /// All numbers, in the order of the label's names.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> &mut [u64] {
        &mut self.values
    }

    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.values.iter().sum()
    }

    /// The number of the label's value of that name; `None` if there is no such value.
    pub fn named(&self, name: &str) -> Option<u64> {
        let place = L::NAMES.iter().position(|known| *known == name)?;
        Some(self.values[place])
    }
}

impl<L: Label> Index<L> for By<L> {
    type Output = u64;

    fn index(&self, which: L) -> &u64 {
        &self.values[which.place()]
    }
}

impl<L: Label> Default for By<L> {
    fn default() -> Self {
        Self { values: vec![0; L::NAMES.len()], label: PhantomData }
    }
}

impl<L: Label> Clone for By<L> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), label: PhantomData }
    }
}

impl<L: Label> PartialEq for By<L> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<L: Label> Eq for By<L> {}

impl<L: Label> fmt::Debug for By<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(L::NAMES.iter().zip(&self.values)).finish()
    }
}

impl<L: Label> Serialize for By<L> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(L::NAMES.iter().zip(&self.values))
    }
}

impl<'de, L: Label> Deserialize<'de> for By<L> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members<L>(PhantomData<fn() -> L>);

        impl<'de, L: Label> Visitor<'de> for Members<L> {
            type Value = By<L>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object with numbers for {}", L::NAMES.join(", "))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<By<L>, A::Error> {
                let mut by = By::default();
                while let Some(name) = members.next_key::<String>()? {
                    match L::NAMES.iter().position(|known| *known == name) {
                        Some(place) => by.values[place] = members.next_value()?,
                        None => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(by)
            }
        }

        from.deserialize_map(Members(PhantomData))
    }
}

/// The class of a status code: its first digit. Codes of 600 and more count as the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// 1xx.
    Informational,
    /// 2xx.
    Successful,
    /// 3xx.
    Redirection,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
}

impl Label for StatusClass {
    const NAMES: &'static [&'static str] = &["1xx", "2xx", "3xx", "4xx", "5xx"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Replies by the class of their status.
impl From<[u64; 5]> for By<StatusClass> {
    fn from(values: [u64; 5]) -> Self {
        Self { values: values.into(), label: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_members_of_an_object() {
        let by = By::<StatusClass>::from([0, 7, 0, 2, 0]);
        let json = serde_json::to_string(&by).unwrap();
        assert_eq!(json, r#"{"1xx":0,"2xx":7,"3xx":0,"4xx":2,"5xx":0}"#);
        assert_eq!(serde_json::from_str::<By<StatusClass>>(&json).unwrap(), by);
        assert_eq!((by[StatusClass::Successful], by.sum()), (7, 9));
        assert_eq!((by.named("4xx"), by.named("6xx")), (Some(2), None));
    }

    #[test]
    fn what_is_missing_is_zero_and_what_is_not_known_is_ignored() {
        let by: By<StatusClass> = serde_json::from_str(r#"{"5xx":3,"6xx":[1,{}]}"#).unwrap();
        assert_eq!(by, By::from([0, 0, 0, 0, 3]));
        assert!(serde_json::from_str::<By<StatusClass>>(r#"{"5xx":"3"}"#).is_err());
        assert!(serde_json::from_str::<By<StatusClass>>("7").is_err());
    }
}
