//! Suggests the name that a user may have meant by a misspelt one.

/// ` (is it X?)` with the nearest name, if one is near enough.
pub(crate) fn meant<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = names.into_iter().map(|name| (strsim::damerau_levenshtein(word, name), name)).min();
    // In a short word that distance would replace every letter, which makes it another word.
    let near = near.filter(|(distance, _)| *distance <= 2 && *distance < word.len());
    near.map_or_else(String::new, |(_, name)| format!(" (is it {name}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_named_if_it_is_near() {
        let names = ["rounds", "servers", "share"];
        assert_eq!(meant("round", names), " (is it rounds?)");
        assert_eq!(meant("sevrers", names), " (is it servers?)");
        assert_eq!(meant("turns", names), "");
        assert_eq!(meant("x", ["a", "ab"]), "");
    }
}
