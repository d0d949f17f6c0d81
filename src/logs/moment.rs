//! A moment as a log line writes it: UTC, to the microsecond (RFC 3339). By hand, since the library's way of writing it
//! costs more than all the rest of a line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// See the module.
pub(super) struct Moment([u8; 27]);

impl Moment {
    /// The present one. A clock from before 1970 shows 1970.
    pub(super) fn now() -> Self {
        Self::after_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn after_1970(since: Duration) -> Self {
        let (day, second) = (since.as_secs() / DAY, since.as_secs() % DAY);
        let (year, month, day) = date(day);
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        put(&mut text[..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day);
        put(&mut text[11..13], second / 3_600);
        put(&mut text[14..16], second / 60 % 60);
        put(&mut text[17..19], second % 60);
        put(&mut text[20..26], u64::from(since.subsec_micros()));
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The last digits of a number, as many as there is room for.
fn put(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a day after 1 January 1970. Years begin in March here, so that the leap day is a year's last
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
const fn date(day: u64) -> (u64, u64, u64) {
    const CYCLE: u64 = 400 * 365 + 97;
    const FROM_MARCH_OF_YEAR_0_TO_1970: u64 = 719_468;
    let day = day + FROM_MARCH_OF_YEAR_0_TO_1970;
    let (cycle, day) = (day / CYCLE, day % CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: u64, micros: u32) -> String {
        Moment::after_1970(Duration::new(seconds, micros * 1_000)).as_str().to_owned()
    }

    #[test]
    fn moments_are_written_as_other_programs_write_them() {
        // Right values are those of `date --utc --iso-8601=seconds --date=@SECONDS`.
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(951_782_399, 999_999), "2000-02-28T23:59:59.999999Z");
        assert_eq!(text(951_782_400, 1), "2000-02-29T00:00:00.000001Z");
        assert_eq!(text(951_868_800, 0), "2000-03-01T00:00:00.000000Z");
        assert_eq!(text(1_798_761_599, 10), "2026-12-31T23:59:59.000010Z");
        assert_eq!(text(1_798_761_600, 0), "2027-01-01T00:00:00.000000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }
}
