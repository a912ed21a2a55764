//! Axes of drawings: the position of a value between the ends, and the values with ticks.

/// One axis. Positions are fractions of its length.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    pub(super) label: String,
    is_log: bool,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Values, and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

/// The approximate number of ticks.
const TICKS: f64 = 5.0;
/// The most ticks of a logarithmic axis.
const LOG_TICKS: usize = 7;

impl Axis {
    /// An axis from zero to the largest value.
    pub(in crate::report) fn linear(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::around(label, values.into_iter().chain([0.0]))
    }

    /// An axis from the smallest to the largest value.
    pub(in crate::report) fn around(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = ends(values, f64::is_finite).unwrap_or((0.0, 1.0));
        let step = nice_step((high - low).max(high.abs() * 1e-6).max(1e-9) / TICKS);
        let (first, last) = ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil());
        let last = last.max(first + 1.0);
        let count = (last - first).round() as usize;
        let values: Vec<f64> = (0..=count).map(|number| (first + number as f64) * step).collect();
        let ticks = values.iter().map(|value| (*value, written(*value, step, last * step))).collect();
        Self { label: label.to_owned(), is_log: false, low: first * step, high: last * step, ticks }
    }

    /// A logarithmic axis for positive values.
    pub(in crate::report) fn log(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let is_possible = |value: f64| value.is_finite() && value > 0.0;
        let (low, high) = ends(values, is_possible).unwrap_or((1.0, 10.0));
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let ticks = |mantissas: &[f64]| {
            let all: Vec<f64> = decades
                .clone()
                .flat_map(|power| mantissas.iter().map(move |m| m * 10f64.powi(power)))
                .collect();
            // One tick beyond either end.
            let first = all.iter().rposition(|value| *value <= low * 1.0001).unwrap_or(0);
            let last = all.iter().position(|value| *value >= high * 0.9999).unwrap_or(all.len() - 1);
            all[first..=last.max(first + 1).min(all.len() - 1)].to_vec()
        };
        let fine = ticks(&[1.0, 2.0, 5.0]);
        let ticks = if fine.len() <= LOG_TICKS { fine } else { ticks(&[1.0]) };
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        let ticks = ticks.into_iter().map(|value| (value, written(value, value, value))).collect();
        Self { label: label.to_owned(), is_log: true, low, high, ticks }
    }

    /// An axis for fractions, on which each additional nine has the same length: 90%, 99%, 99.9%. Its
    /// values come from [`Axis::nines_of`].
    pub(in crate::report) fn nines(label: &str, most: f64) -> Self {
        let all = [(0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
        let ticks = all.iter().filter(|(part, _)| *part <= most + 1e-9);
        let ticks = ticks.map(|(part, text)| (Self::nines_of(*part), format!("{text}%"))).collect();
        Self { label: label.to_owned(), is_log: true, low: 1.0, high: Self::nines_of(most.max(0.9)), ticks }
    }

    /// The position value of a fraction on [`Axis::nines`].
    pub(in crate::report) fn nines_of(part: f64) -> f64 {
        1.0 / (1.0 - part.clamp(0.0, 0.999_999))
    }

    /// An axis with one position for each name.
    pub(in crate::report) fn names(label: &str, names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(number, name)| (number as f64, name.clone())).collect();
        let high = names.len() as f64 - 0.5;
        Self { label: label.to_owned(), is_log: false, low: -0.5, high, ticks }
    }

    /// The fraction of the axis before a value: 0 to 1, even if the value is outside.
    pub(super) fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let part = (of(value) - of(self.low)) / (of(self.high) - of(self.low));
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn ends(values: impl IntoIterator<Item = f64>, is_possible: impl Fn(f64) -> bool) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| is_possible(*value)).fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

/// The smallest of 1, 2, 5, 10, 20 and so on that is at least this.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let mantissa = [1.0, 2.0, 5.0].into_iter().find(|mantissa| mantissa * power >= least * 0.9999);
    mantissa.unwrap_or(10.0) * power
}

/// A value with enough digits to differ from that of the next tick.
fn written(value: f64, step: f64, largest: f64) -> String {
    if value.abs() < step.abs() * 1e-6 {
        return "0".to_owned();
    }
    if largest.abs() >= 1e4 && (step % 100.0).abs() < 1e-9 {
        return format!("{}k", (value / 100.0).round() / 10.0);
    }
    let digits = (-step.abs().log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis) -> String {
        axis.ticks.iter().map(|tick| tick.1.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers_that_hold_all_values() {
        for (values, told) in [
            (vec![4.2], "0 1 2 3 4 5"),
            (vec![0.31, 0.07], "0 0.1 0.2 0.3 0.4"),
            (vec![43_000.0], "0 10k 20k 30k 40k 50k"),
            (vec![10_100.0], "0 5k 10k 15k"),
            (vec![950.0, f64::NAN], "0 200 400 600 800 1000"),
            (vec![], "0"),
            (vec![0.0], "0"),
        ] {
            let axis = Axis::linear("", values.clone());
            assert!(ticks(&axis).starts_with(told), "{values:?}: {}", ticks(&axis));
            assert!(
                axis.low < axis.high && values.iter().all(|value| value.is_nan() || *value <= axis.high),
                "{axis:?}"
            );
        }
        assert_eq!(ticks(&Axis::around("", [0.93, 1.02])), "0.92 0.94 0.96 0.98 1.00 1.02");
        let alone = Axis::around("", [5.0]);
        assert!(alone.low <= 5.0 && alone.high >= 5.0 && alone.low < alone.high, "{alone:?}");
    }

    #[test]
    fn a_logarithmic_axis_has_equal_factors_at_equal_distances() {
        let axis = Axis::log("", [0.3, 70.0, 0.0, -1.0]);
        assert_eq!(ticks(&axis), "0.1 1 10 100");
        let part = |value| (axis.place(value) * 1e6).round() as u32;
        assert_eq!([0.1, 1.0, 10.0, 100.0].map(part), [0, 333_333, 666_667, 1_000_000]);
        assert_eq!([0.0, 1e9, f64::NAN].map(part), [0, 1_000_000, 0]);
        assert_eq!(ticks(&Axis::log("", [3.0, 18.0])), "2 5 10 20");
        assert!(Axis::log("", []).low > 0.0);
        let one = Axis::log("", [5.0]);
        assert!(one.low <= 5.0 && one.high >= 5.0 && one.low < one.high, "{one:?}");
    }

    #[test]
    fn each_nine_is_as_far_from_the_one_before() {
        let axis = Axis::nines("", 0.999);
        assert_eq!(ticks(&axis), "0% 50% 90% 99% 99.9%");
        let part = |part| (axis.place(Axis::nines_of(part)) * 1e6).round() as u32;
        assert_eq!([0.0, 0.9, 0.99, 0.999].map(part), [0, 333_333, 666_667, 1_000_000]);
    }
}
