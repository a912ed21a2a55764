//! What the kernel dropped at queues, by cause.

use serde::{Deserialize, Serialize};

/// A number for each of [`machine::queue_drops::CAUSES`], which says what they mean; none where the kernel
/// does not count the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "said there")]
pub struct QueueDrops<T> {
    pub listen_overflows: Option<T>,
    pub req_queue_full_drops: Option<T>,
    pub req_queue_full_cookies: Option<T>,
    pub syn_cookies_sent: Option<T>,
    pub embryonic_resets: Option<T>,
    pub listen_drops: Option<T>,
    pub other_listen_drops: Option<T>,
}

impl<T: Copy> QueueDrops<T> {
    /// In the order of [`machine::queue_drops::CAUSES`].
    pub fn each(&self) -> [Option<T>; 7] {
        [
            self.listen_overflows,
            self.req_queue_full_drops,
            self.req_queue_full_cookies,
            self.syn_cookies_sent,
            self.embryonic_resets,
            self.listen_drops,
            self.other_listen_drops,
        ]
    }

    /// What a function makes of each.
    pub fn map<U>(self, of: impl Fn(T) -> U) -> QueueDrops<U> {
        self.each().map(|number| number.map(&of)).into()
    }

    /// What a function makes of each and of the same one of another; none where either is none.
    pub fn with<U>(self, other: Self, of: impl Fn(T, T) -> U) -> QueueDrops<U> {
        let mut others = other.each().into_iter();
        self.each().map(|number| number.zip(others.next()?).map(|(one, other)| of(one, other))).into()
    }
}

/// From numbers in the order of [`machine::queue_drops::CAUSES`].
impl<T> From<[Option<T>; 7]> for QueueDrops<T> {
    fn from(numbers: [Option<T>; 7]) -> Self {
        let [
            listen_overflows,
            req_queue_full_drops,
            req_queue_full_cookies,
            syn_cookies_sent,
            embryonic_resets,
            listen_drops,
            other_listen_drops,
        ] = numbers;
        Self {
            listen_overflows,
            req_queue_full_drops,
            req_queue_full_cookies,
            syn_cookies_sent,
            embryonic_resets,
            listen_drops,
            other_listen_drops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_the_names_and_the_order_of_the_kernels_counters() {
        let numbers = [0, 1, 2, 3, 4, 5, 6].map(Some);
        let drops = QueueDrops::from(numbers);
        assert_eq!(drops.each(), numbers);
        let json = serde_json::to_value(drops).unwrap();
        for (place, cause) in machine::queue_drops::CAUSES.iter().enumerate() {
            assert_eq!(json[cause.name], place, "{}", cause.name);
        }
    }
}
