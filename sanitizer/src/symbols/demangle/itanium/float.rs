//! Floating-point values, which mangled names have by their bytes.

/// A value in the words of printf's `%a`, from the hexadecimal digits of its bytes, the highest first; and how many of them there are.
pub(super) fn float(is_single: bool, digits: &str) -> Option<(String, usize)> {
    let len = if is_single { 8 } else { 16 };
    let digits = digits.get(..len)?;
    let bits = u64::from_str_radix(digits, 16).ok()?;
    let (value, suffix) = if is_single {
        let bits = u32::try_from(bits).ok()?;
        (f64::from(f32::from_bits(bits)), "f")
    } else {
        (f64::from_bits(bits), "")
    };
    Some((hexadecimal(value) + suffix, len))
}

fn hexadecimal(value: f64) -> String {
    const MANTISSA_BITS: u32 = 52;
    const BIAS: i64 = 1023;
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if !value.is_finite() {
        let name = if value.is_nan() { "nan" } else { "inf" };
        return format!("{sign}{name}");
    }
    let bits = value.to_bits();
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    let exponent = bits >> MANTISSA_BITS & 0x7ff;
    let fraction = format!("{mantissa:013x}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let (lead, power) = match (exponent, mantissa) {
        (0, 0) => (0, 0),
        (0, _) => (0, 1 - BIAS),
        _ => (1, exponent.cast_signed() - BIAS),
    };
    format!("{sign}0x{lead}{point}{fraction}p{power:+}")
}
