//! Many measurements of one thing, and what is told of them: the median and how far they are apart.

/// The measurements of one thing, one for each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(pub(crate) Vec<f64>);

impl Figures {
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The lower and the upper quartile.
    pub(crate) fn quartiles(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }

    /// How far the quartiles are apart, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        let (lower, upper) = self.quartiles();
        (upper - lower) / self.median()
    }

    /// Round by round divided by another's: what disturbs a round disturbs both.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "there are a few rounds"
    )]
    fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let place = part * last as f64;
        let below = place.floor() as usize;
        let above = sorted[(below + 1).min(last)];
        sorted[below] + (above - sorted[below]) * (place - place.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles_lie_between_what_was_measured() {
        let figures = Figures(vec![4.0, 1.0, 3.0, 2.0]);
        assert!((figures.median() - 2.5).abs() < 1e-9);
        assert_eq!(figures.quartiles(), (1.75, 3.25));
        assert!((figures.spread() - 0.6).abs() < 1e-9);
        let alone = Figures(vec![7.0]);
        assert_eq!((alone.median(), alone.quartiles()), (7.0, (7.0, 7.0)));
        assert!(Figures::default().median().is_nan());
    }

    #[test]
    fn rounds_are_compared_with_the_same_round() {
        assert_eq!(Figures(vec![2.0, 9.0]).over(&Figures(vec![1.0, 3.0])).0, [2.0, 3.0]);
    }
}
