//! Whoever started the server and wants to know how it is doing: systemd, and what speaks as it does (`sd_notify`).
//!
//! A message is one datagram to the socket that the environment names. Without such a socket nobody is told, and a
//! supervisor that cannot be reached changes nothing for callers.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where the environment says that a supervisor listens.
const VARIABLE: &str = "NOTIFY_SOCKET";
/// What a stop may take beside the requests in progress: writing everything down, on a disk that is busy.
const FOR_WRITING: Duration = Duration::from_secs(60);

/// Whom to tell, if there is somebody.
#[derive(Debug, Default)]
pub(crate) struct Supervisor(Option<OsString>);

impl Supervisor {
    /// The one that the environment names.
    pub(crate) fn of_environment() -> Self {
        Self(std::env::var_os(VARIABLE).filter(|name| !name.is_empty()))
    }

    /// The doors are open: whoever waits for this server may begin.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// The server stops, and lets requests in progress take so long.
    pub(crate) fn stopping(&self, drain: Duration) {
        // A supervisor that has less patience would kill what is still being answered.
        let longest = drain.saturating_add(FOR_WRITING).as_micros();
        self.tell(&format!("STOPPING=1\nSTATUS=finishing requests\nEXTEND_TIMEOUT_USEC={longest}"));
    }

    fn tell(&self, message: &str) {
        let Some(name) = &self.0 else { return };
        let sent = address(name).and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(message.as_bytes(), &address)
        });
        if let Err(error) = sent {
            tracing::warn!(%error, "whoever started the server cannot be told how it is doing");
        }
    }
}

/// A path, or a name without a file where it begins with `@`.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(OsStr::from_bytes(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut message = [0; 1000];
        let length = socket.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    }

    #[test]
    fn a_supervisor_hears_at_a_file_and_at_a_name_without_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let file = (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap());
        let name = format!("ipse-test-{}", std::process::id());
        let bare = OsString::from(format!("@{name}"));
        let socket = UnixDatagram::bind_addr(&address(&bare).unwrap()).unwrap();
        let bare = (bare, socket);
        for (name, socket) in [file, bare] {
            let supervisor = Supervisor(Some(name));
            supervisor.ready();
            assert_eq!(heard(&socket), "READY=1\nSTATUS=serving");
            supervisor.stopping(Duration::from_secs(10));
            assert!(heard(&socket).ends_with("EXTEND_TIMEOUT_USEC=70000000"));
        }
    }

    #[test]
    fn nobody_who_listens_is_no_failure() {
        Supervisor::default().ready();
        Supervisor(Some(OsString::from("/nowhere/notify"))).ready();
    }
}
