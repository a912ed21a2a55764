//! A distribution as bars, for people: how many times lie between one round number and the next.

use std::fmt::Write as _;

use crate::measures::Times;

/// What bars are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bars {
    /// Blocks, to an eighth of a column.
    Blocks,
    /// `#`, where there are only ASCII characters.
    Ascii,
}

/// Columns of the longest bar.
const WIDTH: usize = 50;
/// More lines are too many to be seen at a glance, if there are larger steps.
const MOST_LINES: usize = 15;

/// Steps of a decade, finest first.
const STEPS: [&[f64]; 4] = [
    &[
        1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7, 5.1, 5.6, 6.2,
        6.8, 7.5, 8.2, 9.1,
    ],
    &[1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
];

/// A line for each step, from the least time to the most; nothing, if there is none.
pub(super) fn write_chart(text: &mut String, name: &str, times: &Times, bars: Bars) -> std::fmt::Result {
    let counts: Vec<(f64, u64)> = times.counts().collect();
    let (Some((least, _)), Some((most, _))) = (counts.first(), counts.last()) else { return Ok(()) };
    let bounds = bounds(*least, *most);
    let mut lines = vec![0; bounds.len() - 1];
    for (ms, count) in &counts {
        // The last bound that is not above it begins its line.
        lines[bounds.partition_point(|bound| bound <= ms).saturating_sub(1)] += count;
    }
    let longest = lines.iter().copied().max().unwrap_or(0).max(1);
    writeln!(text, "\n{name}, ms")?;
    for (count, bound) in lines.iter().zip(bounds.windows(2)) {
        let share = *count as f64 / times.count() as f64 * 100.0;
        let [from, to] = [bound[0], bound[1]].map(rounded);
        let bar = bar(*count as f64 / longest as f64, bars);
        writeln!(text, "{}", format!("{from:>9} to {to:<8}{count:>10}{share:>7.2}%  {bar}").trim_end())?;
    }
    Ok(())
}

/// Round numbers, of which the first is not above `least`, and the last is above `most`.
fn bounds(least: f64, most: f64) -> Vec<f64> {
    let of_steps = |steps: &[f64]| {
        // Times are to the microsecond, and none is 0 where it says so: that is less than one.
        let (least, most) = (least.max(1e-3), most.max(1e-3));
        let decades = (least.log10().floor() as i32 - 1)..=(most.log10().ceil() as i32 + 1);
        // Divided where it is below 1: that gives the number that is written.
        let bound = |decade: i32, step: f64| {
            if decade < 0 { step / 10_f64.powi(-decade) } else { step * 10_f64.powi(decade) }
        };
        let all: Vec<f64> =
            decades.flat_map(|decade| steps.iter().map(move |step| bound(decade, *step))).collect();
        let first = all.partition_point(|bound| *bound <= least) - 1;
        let end = all.partition_point(|bound| *bound <= most);
        all[first..=end].to_vec()
    };
    let mut finest_first = STEPS.iter().map(|steps| of_steps(steps));
    let few = finest_first.find(|bounds| bounds.len() <= MOST_LINES + 1);
    few.unwrap_or_else(|| of_steps(STEPS[STEPS.len() - 1]))
}

/// Without digits that say nothing.
fn rounded(ms: f64) -> String {
    let text = format!("{ms:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bar(part: f64, bars: Bars) -> String {
    const EIGHTHS: [&str; 8] =
        ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    match bars {
        // What there is shows, however little.
        Bars::Blocks => {
            let eighths = (part * (WIDTH * 8) as f64).ceil() as usize;
            "\u{2588}".repeat(eighths / 8) + EIGHTHS[eighths % 8]
        }
        Bars::Ascii => "#".repeat((part * WIDTH as f64).ceil() as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(times_us: &[(u64, u64)], bars: Bars) -> Vec<String> {
        let mut times = Times::new();
        for (us, count) in times_us {
            (0..*count).for_each(|_| times.record(us * 1000));
        }
        let mut text = String::new();
        write_chart(&mut text, "times", &times, bars).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_time_is_in_one_line() {
        let told = chart(&[(1_000, 100), (1_049, 100), (1_050, 50), (1_900, 1)], Bars::Ascii);
        assert_eq!(told[..2], ["", "times, ms"]);
        assert_eq!(told[2], format!("        1 to 1.1            250  99.60%  {}", "#".repeat(50)));
        assert_eq!(told[3], "      1.1 to 1.2              0   0.00%");
        assert_eq!(told.last().unwrap(), "      1.8 to 2                1   0.40%  #");
        assert_eq!(told.len(), 9);
        assert_eq!(chart(&[], Bars::Ascii), [""; 0]);
        assert_eq!(chart(&[(0, 1)], Bars::Ascii).len(), 3, "less than a microsecond");
    }

    #[test]
    fn bars_are_to_the_eighth() {
        let told = chart(&[(15, 400), (150, 81)], Bars::Blocks);
        assert!(told[2].ends_with(&format!("  {}", "\u{2588}".repeat(50))), "{told:?}");
        assert!(told.last().unwrap().ends_with(&format!("  {}\u{258f}", "\u{2588}".repeat(10))), "{told:?}");
    }

    #[test]
    fn steps_are_as_large_as_need_be() {
        for (least, most, lines) in [(1.0, 1.01, 1), (1.0, 3.0, 12), (1.0, 10.0, 13), (0.3, 30.0, 13)] {
            let bounds = bounds(least, most);
            assert_eq!(bounds.len() - 1, lines, "{bounds:?}");
            assert!(bounds[0] <= least && bounds[1] > least && bounds[lines] > most, "{bounds:?}");
        }
        let all = bounds(0.0, 3_600_000.0);
        assert!(all.len() < 32 && all.is_sorted_by(|a, b| a < b), "{all:?}");
    }
}
