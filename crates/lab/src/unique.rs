//! Lists in which everything is once.

/// Each once, in the order in which they first come. For few: each is compared with all before it.
pub(crate) fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
