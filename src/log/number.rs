//! Numbers that an IEEE double holds exactly, which is what JSON readers elsewhere keep.

/// Whether a double holds the integer. 2^127 as a double saturates back to `i128::MAX`, which would compare equal.
pub(super) fn is_exact_signed(v: i128) -> bool {
    let double = v as f64;
    double < 2f64.powi(127) && double as i128 == v
}

/// Whether a double holds the integer.
pub(super) fn is_exact_unsigned(v: u128) -> bool {
    let double = v as f64;
    double < 2f64.powi(128) && double as u128 == v
}

/// The digits and the power of ten of a decimal number, so that two spellings of one number compare equal.
pub(super) fn decimal(text: &str) -> (bool, String, i64) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let mut power = exponent.parse::<i64>().unwrap_or(i64::MAX).saturating_sub(fraction.len() as i64);
    let trimmed = digits.trim_end_matches('0');
    power = power.saturating_add((digits.len() - trimmed.len()) as i64);
    (negative, trimmed.trim_start_matches('0').to_owned(), power)
}
