//! Order statistics of a few numbers.

/// The value below which this share (0 to 1) of the numbers lies, between neighbours in
/// proportion; not a number where there are none.
pub fn quantile(numbers: &[f64], share: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    match (sorted.get(below), sorted.get(above)) {
        // Infinite values (never happened) have no between.
        (Some(low), Some(high)) if low == high => *low,
        (Some(low), Some(high)) => low + (high - low) * position.fract(),
        _ => f64::NAN,
    }
}

/// The median.
pub fn median(numbers: &[f64]) -> f64 {
    quantile(numbers, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check the quantiles against a series that can be read off.
    #[test]
    fn quantiles() {
        let numbers = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert!((median(&numbers) - 3.0).abs() < 1e-9);
        assert!((quantile(&numbers, 0.9) - 4.6).abs() < 1e-9);
        assert!((quantile(&numbers, 1.0) - 5.0).abs() < 1e-9);
        assert!(median(&[]).is_nan());
        assert!(median(&[1.0, f64::INFINITY, f64::INFINITY]).is_infinite());
    }
}
