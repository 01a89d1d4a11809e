//! How long a certificate is good, when it is time for the next one, and how long to wait after a failure. It reads no
//! clock: every moment is an argument.

use ipse_model::Now;
use std::time::Duration;
use tokio_rustls::rustls::pki_types::CertificateDer;

const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;
const FIRST_PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// From when until when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    begins_ms: i64,
    ends_ms: i64,
}

impl Lifetime {
    /// What a certificate says of itself; `None` if it cannot be read.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        let validity = certificate.validity();
        let ms = |seconds: i64| seconds.checked_mul(1000);
        Some(Self {
            begins_ms: ms(validity.not_before.timestamp())?,
            ends_ms: ms(validity.not_after.timestamp())?,
        })
    }

    /// Whether a third of its time is left, or less: of ninety days the last thirty.
    pub(super) fn is_to_be_renewed(self, now: Now) -> bool {
        self.left_ms(now) <= self.whole_ms() / 3
    }

    /// Whether nobody accepts it any more.
    pub(super) fn has_ended(self, now: Now) -> bool {
        self.left_ms(now) < 0
    }

    /// Whether somebody should look after it: a week is left, or the last tenth of one that is short-lived.
    pub(super) fn is_ending(self, now: Now) -> bool {
        self.left_ms(now) <= (self.whole_ms() / 10).min(7 * MS_PER_DAY)
    }

    /// How many whole days are left.
    pub(super) fn days_left(self, now: Now) -> i64 {
        self.left_ms(now).div_euclid(MS_PER_DAY).max(0)
    }

    fn left_ms(self, now: Now) -> i64 {
        self.ends_ms.saturating_sub(now.unix_ms)
    }

    fn whole_ms(self) -> i64 {
        self.ends_ms.saturating_sub(self.begins_ms)
    }
}

/// How long to wait after so many failures in a row: a minute at first, an hour at last, and up to a quarter less by
/// chance, so that servers that failed together do not come back together.
pub(super) fn pause(failures: u32, chance: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(6);
    let whole = (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
    let thousandths = 1000 - u32::try_from(chance % 250).unwrap_or(0);
    whole * thousandths / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = MS_PER_DAY;

    fn at(unix_ms: i64) -> Now {
        Now { unix_ms, boot_ms: 0 }
    }

    /// One that begins at 0 and ends after so many days.
    fn days(days: i64) -> Lifetime {
        Lifetime { begins_ms: 0, ends_ms: days * DAY }
    }

    #[test]
    fn the_last_third_is_the_time_to_renew() {
        #[track_caller]
        fn check(lifetime: Lifetime, first_ms: i64) {
            assert!(!lifetime.is_to_be_renewed(at(first_ms - 1)), "{lifetime:?}");
            assert!(lifetime.is_to_be_renewed(at(first_ms)), "{lifetime:?}");
            assert!(lifetime.is_to_be_renewed(at(lifetime.ends_ms + 1)), "{lifetime:?}");
        }
        check(days(90), 60 * DAY);
        check(days(6), 4 * DAY);
        check(Lifetime { begins_ms: 10 * DAY, ends_ms: 13 * DAY }, 12 * DAY);
        // One that is good from tomorrow on needs no other.
        assert!(!Lifetime { begins_ms: DAY, ends_ms: 4 * DAY }.is_to_be_renewed(at(0)));
    }

    #[test]
    fn somebody_is_called_when_a_week_or_the_last_tenth_is_left() {
        #[track_caller]
        fn check(lifetime: Lifetime, first_ms: i64) {
            assert!(!lifetime.is_ending(at(first_ms - 1)), "{lifetime:?}");
            assert!(lifetime.is_ending(at(first_ms)), "{lifetime:?}");
        }
        check(days(90), 83 * DAY);
        check(days(20), 18 * DAY);
        check(days(5), 4 * DAY + DAY / 2);
    }

    #[test]
    fn a_certificate_is_good_until_its_last_moment() {
        assert!(!days(1).has_ended(at(DAY)));
        assert!(days(1).has_ended(at(DAY + 1)));
        assert_eq!([0, 1, DAY, 3 * DAY].map(|ms| days(2).days_left(at(ms))), [2, 1, 1, 0]);
    }

    #[test]
    fn a_certificate_tells_its_time() {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let expected = Lifetime { begins_ms: 1_767_225_600_000, ends_ms: 1_775_001_600_000 };
        assert_eq!(Lifetime::of(made.der()), Some(expected));
        assert_eq!(Lifetime::of(&CertificateDer::from_slice(b"nothing")), None);
    }

    #[test]
    fn pauses_grow_from_a_minute_to_an_hour_and_differ() {
        let longest: Vec<u64> = (1..10).map(|failures| pause(failures, 0).as_secs()).collect();
        assert_eq!(longest, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
        assert_eq!(pause(u32::MAX, 0), LONGEST_PAUSE);
        for chance in 0..1000 {
            let paused = pause(1, chance);
            assert!(paused > Duration::from_secs(44) && paused <= FIRST_PAUSE, "{paused:?}");
        }
        assert_ne!(pause(1, 1), pause(1, 2));
    }
}
