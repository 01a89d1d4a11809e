//! The kernel's smoothed round-trip time of a TCP connection.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::net::TcpStream;

/// No kernel estimate reaches 71 minutes.
const UNKNOWN: u32 = u32::MAX;

/// The latest reading of one connection, shared between its wire, which takes it whenever bytes arrive, and its
/// requests, which may outlive the socket.
#[derive(Clone)]
pub(crate) struct RttGauge(Arc<AtomicU32>);

impl RttGauge {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU32::new(UNKNOWN)))
    }

    pub(crate) fn sample(&self, stream: &TcpStream) {
        self.0.store(smoothed_rtt_us(stream).unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    pub(crate) fn rtt_ms(&self) -> Option<u32> {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => None,
            microseconds => Some(rounded(microseconds)),
        }
    }
}

/// The round-trip time of a connection at this moment.
pub(crate) fn rtt_ms(stream: &impl AsRawFd) -> Option<u32> {
    smoothed_rtt_us(stream).map(rounded)
}

fn rounded(microseconds: u32) -> u32 {
    (microseconds + 500) / 1000
}

/// No safe wrapper of `TCP_INFO` exists in rustix, nix or socket2.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "getsockopt(TCP_INFO) has no safe wrapper")]
fn smoothed_rtt_us(stream: &impl AsRawFd) -> Option<u32> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the descriptor is open for as long as `stream` is borrowed; the kernel writes at most `length` bytes
    // into `info`, which is that large.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 || (length as usize) < std::mem::offset_of!(libc::tcp_info, tcpi_rtt) + size_of::<u32>() {
        return None;
    }
    // SAFETY: `tcp_info` is plain integers, all of which were zeroed before the kernel wrote its part.
    let info = unsafe { info.assume_init() };
    (info.tcpi_rtt > 0).then_some(info.tcpi_rtt)
}

#[cfg(not(target_os = "linux"))]
fn smoothed_rtt_us(_stream: &impl AsRawFd) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(microseconds: u32, rtt_ms: Option<u32>) {
        assert_eq!(RttGauge(Arc::new(AtomicU32::new(microseconds))).rtt_ms(), rtt_ms);
    }

    #[test]
    fn microseconds_are_rounded_to_milliseconds() {
        check(1, Some(0));
        check(499, Some(0));
        check(500, Some(1));
        check(12_499, Some(12));
        check(12_500, Some(13));
        check(UNKNOWN, None);
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_connection_on_this_machine_has_a_short_round_trip() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), async {
            listener.accept().await
        });
        let gauge = RttGauge::new();
        assert_eq!(gauge.rtt_ms(), None, "nothing is known before the first reading");
        gauge.sample(&accepted.unwrap().0);
        assert!(gauge.rtt_ms().unwrap() < 1000);
        drop(client);
    }
}
