//! What is said below the tables of any experiment: which trials are missing, which are not valid and why,
//! how well the looks at counters met the measured window, and what the server says of the rates.

use std::fmt::Write as _;

use crate::series::{Series, Taken};
use crate::statistics::Spread;
use crate::trial::Outcome;
use crate::turns::Given;

/// Of all series of an experiment, of which so many trials are missing.
pub(crate) fn markdown(series: &[&Series], missing: usize) -> String {
    let tries: Vec<&Outcome> =
        series.iter().flat_map(|series| series.taken().flat_map(Taken::tries)).collect();
    let mut text = match missing {
        0 => String::new(),
        missing => format!("{missing} trials are not measured yet.\n\n"),
    };
    text += &invalid(series, &tries);
    text += &looks(&tries);
    text += &turns(&tries);
    text += &served(&tries);
    text
}

/// How servers shared their CPU, where they did.
fn turns(tries: &[&Outcome]) -> String {
    let given: Vec<&Given> = tries.iter().filter_map(|of| of.turns.as_ref()).collect();
    let spread = |value: fn(&Given) -> f64| Spread::of(given.iter().map(|given| value(given)));
    let (Some(part), Some(turn), Some(late), Some(between), Some(longest)) = (
        spread(|given| given.part),
        spread(|given| given.turn_us_p50),
        spread(|given| given.turn_us_p99),
        spread(|given| given.between_us_p50),
        spread(|given| given.between_us_max),
    ) else {
        return String::new();
    };
    format!(
        "Turns on the server's CPU: of {:.0} us, 99% below {:.0}, with {:.0} us between them, at most {:.0} \
         (medians over the trials; of the longest, the maximum). All servers together had {:.1}% of it.\n\n",
        turn.median,
        late.median,
        between.median,
        longest.maximum,
        part.median * 100.0
    )
}

/// How the generator's rates compare with the server's own count.
fn served(tries: &[&Outcome]) -> String {
    let counted = tries.iter().filter(|of| of.is_valid() && of.served_per_s > 0.0);
    let Some(of) = Spread::of(counted.map(|of| of.replies_per_s / of.served_per_s)) else {
        return String::new();
    };
    format!(
        "Replies per second by the generator are {:.4} of what the server counted meanwhile (median of the \
         valid trials; half of them {:.4} to {:.4}, all {:.4} to {:.4}).\n\n",
        of.median, of.lower_quartile, of.upper_quartile, of.minimum, of.maximum
    )
}

fn invalid(series: &[&Series], tries: &[&Outcome]) -> String {
    let reasons: Vec<&String> = tries.iter().flat_map(|outcome| &outcome.invalid).collect();
    let invalid = tries.iter().filter(|outcome| !outcome.is_valid()).count();
    if invalid == 0 {
        return format!("All {} trials are valid.\n\n", tries.len());
    }
    let left =
        series.iter().flat_map(|series| series.taken()).filter(|taken| !taken.outcome.is_valid()).count();
    let mut text = format!(
        "{invalid} of {} trials are not valid. Each was repeated, up to two times; {left} count all the \
         same, for want of a valid one, and what rests on them is marked with an exclamation mark. The \
         reasons:\n\n",
        tries.len()
    );
    // Those that differ in numbers only are one.
    let mut kinds: Vec<(String, &str, usize)> = Vec::new();
    for reason in reasons {
        let kind = without_numbers(reason);
        match kinds.iter_mut().find(|known| known.0 == kind) {
            Some(known) => known.2 += 1,
            None => kinds.push((kind, reason, 1)),
        }
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.2));
    for (_, example, count) in kinds {
        let _ = writeln!(text, "- {count} times, such as: {example}");
    }
    text + "\n"
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

fn looks(tries: &[&Outcome]) -> String {
    let spread = |value: fn(&Outcome) -> f64| Spread::of(tries.iter().map(|outcome| value(outcome)));
    let (Some(began), Some(off)) = (spread(|of| of.looks.began_after_ms), spread(|of| of.looks.off_ms))
    else {
        return String::new();
    };
    format!(
        "The generator's runs began {:.0} ms after its process (at most {:.0}). Counters were read within \
         {:.1} ms of the edges of the measured window (median; at most {:.0}).\n\n",
        began.median, began.maximum, off.median, off.maximum
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::tests::{in_rounds, series};
    use crate::trial::tests::{outcome, outcome_but};

    #[test]
    fn reasons_are_counted_whatever_their_numbers() {
        let late = |ms: &str| outcome_but(1.0, &[&format!("late (99.9% within {ms} ms)")]);
        let rounds = vec![
            Taken::of(vec![late("6.4"), late("17"), outcome_but(1.0, &["stolen"])]),
            Taken::of(vec![late("5.1"), outcome(1.0)]),
            None,
        ];
        let said = markdown(&[&in_rounds("one", rounds)], 1);
        assert!(said.starts_with("1 trials are not measured yet.\n\n4 of 5 trials are not valid"), "{said}");
        assert!(said.contains("; 1 count all the same"), "{said}");
        assert!(
            said.contains("\n- 3 times, such as: late (99.9% within 6.4 ms)\n- 1 times, such as: stolen\n"),
            "{said}"
        );
        assert!(markdown(&[&series("one", &[1.0; 6])], 0).starts_with("All 6 trials are valid"));
    }

    #[test]
    fn rates_are_held_against_the_servers_count() {
        let one = Taken::of(vec![outcome(198.0), outcome_but(100.0, &["late"])]);
        let said = markdown(&[&in_rounds("one", vec![one])], 0);
        assert!(said.contains("are 0.9900 of what the server counted"), "{said}");
    }
}
