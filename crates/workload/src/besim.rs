//! The back-end simulator of the Support workload: what the pages in PHP would ask a database.
//!
//! `SPECweb2005` and 2009 have a program take the database's place, which answers over HTTP without storing
//! anything. So does this, with a protocol of its own (docs/besim.md): the path of a GET names what is asked
//! for, the query says of what; the answer is text, a line for each record, with tabs between its fields. It
//! follows from the request alone, so that the same pages come out on every machine and in every run.

use std::fmt::Write as _;

/// An answer, with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As HTTP has it: 200, 400 or 404.
    pub status: u16,
    /// Records, or in one line what was wrong and what is allowed.
    pub text: String,
}

/// What can be asked for, with the number of records and the parameter that it takes.
const QUERIES: [(&str, u32, &str); 6] = [
    ("categories", 12, ""),
    ("search", 20, "words"),
    ("products", 30, "category"),
    ("product", 16, "product"),
    ("files", 40, "product"),
    ("file", 24, "file"),
];

const WORDS: [&str; 16] = [
    "driver", "printer", "network", "adapter", "update", "storage", "monitor", "firmware", "wireless",
    "keyboard", "scanner", "graphics", "utility", "server", "battery", "camera",
];

/// Answers the target of a request.
pub fn answer(target: &str) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let name = path.strip_prefix('/').unwrap_or(path);
    let Some((_, records, parameter)) = QUERIES.iter().find(|known| known.0 == name) else {
        let allowed = QUERIES.map(|known| known.0).join(", ");
        return Answer { status: 404, text: format!("no {path:?}; allowed: {allowed}\n") };
    };
    let value = match (parameter.is_empty(), query.split_once('=')) {
        (true, None) if query.is_empty() => "",
        (false, Some((given, value))) if given == *parameter && is_value(value) => value,
        _ => {
            let allowed = if parameter.is_empty() {
                "nothing behind it".to_owned()
            } else {
                format!("{parameter}= with 1 to 64 letters, digits and +")
            };
            return Answer {
                status: 400,
                text: format!("{target:?} is not understood; allowed: {allowed}\n"),
            };
        }
    };
    let mut text = String::new();
    for record in 1..=*records {
        let mut state = hash(&format!("{name} {value} {record}"));
        // Writing to a String can't fail.
        let _ = write!(text, "{}\t{}", state % 1_000, phrase(&mut state, 3));
        let _ = writeln!(text, "\t{}.{}\t{}", state % 9 + 1, state / 16 % 10, phrase(&mut state, 12));
    }
    Answer { status: 200, text }
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
    (1..=64).contains(&value.len()) && value.bytes().all(is_allowed)
}

fn phrase(state: &mut u64, words: usize) -> String {
    let mut phrase = Vec::with_capacity(words);
    for _ in 0..words {
        *state = hash(&state.to_string());
        phrase.push(WORDS[(*state >> 32) as usize % WORDS.len()]);
    }
    phrase.join(" ")
}

/// FNV-1a, mixed once more: numbers that differ in one digit are to differ in all bits.
fn hash(text: &str) -> u64 {
    let fnv = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_question_has_its_records() {
        for (name, records, parameter) in QUERIES {
            let query = if parameter.is_empty() { String::new() } else { format!("?{parameter}=17") };
            let told = answer(&format!("/{name}{query}"));
            assert_eq!((told.status, told.text.lines().count()), (200, records as usize), "{name}");
            for line in told.text.lines() {
                let fields: Vec<_> = line.split('\t').collect();
                assert_eq!(fields.len(), 4, "{line}");
                assert!(fields[0].parse::<u32>().unwrap() < 1_000);
            }
        }
        assert_ne!(answer("/product?product=17"), answer("/product?product=18"));
    }

    #[test]
    fn what_is_not_asked_rightly_is_told() {
        for (target, status, told) in [
            ("/prices", 404, "allowed: categories, search, products"),
            ("", 404, "allowed: categories"),
            ("/categories?x=1", 400, "allowed: nothing behind it"),
            ("/product", 400, "allowed: product= with 1 to 64"),
            ("/product?file=1", 400, "allowed: product="),
            ("/product?product=", 400, "allowed: product="),
            ("/search?words=a%20b", 400, "allowed: words="),
        ] {
            let answer = answer(target);
            assert_eq!(answer.status, status, "{target}");
            assert!(answer.text.contains(told) && answer.text.lines().count() == 1, "{}", answer.text);
        }
    }

    proptest! {
        #[test]
        fn an_answer_follows_from_its_question(target in ".{0,100}") {
            let told = answer(&target);
            prop_assert_eq!(&told, &answer(&target));
            prop_assert!(matches!(told.status, 200 | 400 | 404));
            prop_assert!(told.text.ends_with('\n'));
        }

        #[test]
        fn all_products_are_known(product in 0_u32..100_000) {
            prop_assert_eq!(answer(&format!("/product?product={product}")).status, 200);
        }
    }
}
