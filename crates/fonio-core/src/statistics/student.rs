//! Computes Student's t for integer degrees of freedom, with the finite series in Abramowitz and Stegun,
//! *Handbook of Mathematical Functions* (1964), 26.7.3 and 26.7.4.

/// The number of degrees of freedom above which t changes by less than 1 % at any level used here.
const FREEDOM_MAX: u32 = 200;

/// Returns the probability that |t| is at most `t` with `freedom` degrees of freedom.
fn within(t: f64, freedom: u32) -> f64 {
    let nu = f64::from(freedom);
    let (sine, cosine) = (t / (nu + t * t).sqrt(), (nu / (nu + t * t)).sqrt());
    let cosine_squared = cosine * cosine;
    // For odd degrees of freedom, the terms are 2/3, 2*4/(3*5), … times odd powers of the cosine. For even
    // degrees, they are 1/2, 1*3/(2*4), … times even powers.
    let (mut term, first) = if freedom % 2 == 1 { (cosine, 3) } else { (1.0, 2) };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut below = first;
    while below + 2 <= freedom {
        term *= f64::from(below - 1) / f64::from(below) * cosine_squared;
        sum += term;
        below += 2;
    }
    match freedom % 2 {
        1 => std::f64::consts::FRAC_2_PI * (libm::atan(t / nu.sqrt()) + sine * sum),
        _ => sine * sum,
    }
}

/// Returns the value that |t| exceeds with probability `level`. Degrees of freedom are rounded down, so the
/// interval is never too narrow. Panics if `freedom` is less than one, or `level` is not between 0 and 1.
pub fn two_sided(level: f64, freedom: f64) -> f64 {
    assert!(freedom >= 1.0 && level > 0.0 && level < 1.0, "no t value for level {level}, {freedom} degrees");
    let freedom = (freedom as u32).min(FREEDOM_MAX);
    let (mut low, mut high) = (0.0f64, 1.0f64);
    while within(high, freedom) < 1.0 - level && high < 1e9 {
        high *= 2.0;
    }
    // After 60 halvings, no double lies between the ends of the interval.
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if within(middle, freedom) < 1.0 - level { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_points() {
        // The values are from a table of Student's t; the last two are from R's qt().
        for (level, freedom, t) in [
            (0.05, 1.0, 12.706),
            (0.05, 2.0, 4.303),
            (0.05, 3.9, 3.182),
            (0.05, 10.0, 2.228),
            (0.01, 5.0, 4.032),
            (0.05, 30.0, 2.042),
            (0.05, 1e9, 1.972),
            (0.001, 12.0, 4.318),
            (0.0002, 7.0, 7.063),
        ] {
            let found = two_sided(level, freedom);
            assert!((found - t).abs() < 0.002, "level {level}, {freedom} degrees: {found}, not {t}");
        }
    }

    #[test]
    fn a_stricter_level_and_fewer_degrees_widen() {
        for freedom in 1..40 {
            let points: Vec<f64> =
                [0.2, 0.05, 0.01, 1e-4, 1e-6].map(|level| two_sided(level, f64::from(freedom))).into();
            assert!(points.is_sorted(), "{freedom}: {points:?}");
            assert!(two_sided(0.01, f64::from(freedom)) > two_sided(0.01, f64::from(freedom + 1)));
        }
    }
}
