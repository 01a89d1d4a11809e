//! How long a download waits, how often it tries again, and how much it takes.

use super::error::DownloadError;
use std::time::Duration;

/// The bounds of a download.
#[derive(Clone, Debug)]
pub struct Patience {
    /// How many attempts in a row may fail. One that brought a mebibyte or more begins a new row, so that a large file
    /// arrives over a bad line, while a server that gives little is left soon.
    pub attempts: u32,
    /// The wait after the first failure. It doubles with each further one.
    pub first_delay: Duration,
    /// The longest wait. A server that asks for a longer one is not asked again.
    pub longest_delay: Duration,
    /// How long a connection may take to come about.
    pub connect: Duration,
    /// How long a server may send nothing.
    pub stall: Duration,
    /// How long a download may take with all its attempts, so that a server cannot hold us forever by the drop.
    pub whole: Duration,
    /// The largest file that is accepted, so that a server cannot fill the disk.
    pub largest_bytes: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 6,
            first_delay: Duration::from_secs(2),
            longest_delay: Duration::from_secs(120),
            connect: Duration::from_secs(20),
            stall: Duration::from_secs(45),
            whole: Duration::from_hours(6),
            largest_bytes: 2 * 1024 * 1024 * 1024,
        }
    }
}

impl Patience {
    /// How long to wait before the next attempt, after so many failures in a row; `None` when there shall be none.
    pub(super) fn delay(&self, error: &DownloadError, failures: u32) -> Option<Duration> {
        if !error.transient() || failures >= self.attempts {
            return None;
        }
        match error {
            DownloadError::Unavailable { retry_after: Some(asked), .. } => {
                (*asked <= self.longest_delay).then_some(*asked)
            }
            _ => {
                let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
                Some(self.first_delay.saturating_mul(doubled).min(self.longest_delay))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::StatusCode;

    fn patience() -> Patience {
        Patience { attempts: 9, longest_delay: Duration::from_secs(10), ..Patience::default() }
    }

    #[track_caller]
    fn cut(failures: u32, seconds: Option<u64>) {
        let error = DownloadError::Cut { url: String::new(), done_bytes: 0, cause: String::new() };
        assert_eq!(patience().delay(&error, failures), seconds.map(Duration::from_secs), "{failures}");
    }

    #[test]
    fn the_wait_doubles_up_to_a_bound_and_ends_with_the_attempts() {
        cut(1, Some(2));
        cut(2, Some(4));
        cut(3, Some(8));
        cut(4, Some(10));
        cut(8, Some(10));
        cut(9, None);
        cut(10, None);
    }

    #[track_caller]
    fn asked(seconds: u64, expected: Option<u64>) {
        let error = DownloadError::Unavailable {
            url: String::new(),
            status: StatusCode::TOO_MANY_REQUESTS,
            retry_after: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(patience().delay(&error, 3), expected.map(Duration::from_secs), "{seconds}");
    }

    #[test]
    fn a_server_is_left_alone_as_long_as_it_asks_or_for_good() {
        asked(0, Some(0));
        asked(10, Some(10));
        asked(11, None);
    }

    #[test]
    fn what_will_not_get_better_is_not_tried_again() {
        assert_eq!(patience().delay(&DownloadError::NotFound { url: String::new() }, 1), None);
    }
}
