//! `ipse serve`: starts the server, says where it is, and stops it when it is asked to.

use super::{moment, print, runtime};
use crate::config::{Config, LogFormat};
use crate::error::Error;
use crate::geo::{Geo, Origin};
use crate::server::Server;
use crate::supervisor::Supervisor;
use crate::{logs, process};
use ipse_edge::{Clock, Handed};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Descriptors that are no connections: the database, the journal, the doors.
const OTHER_DESCRIPTORS: usize = 64;

pub(super) fn serve(mut config: Config) -> Result<(), Error> {
    // Before there are other threads.
    let handed = Handed::from_environment();
    process::forbid_core_dumps();
    logs::start(config.log_level, config.log_format);
    if let Some(limit) = process::raise_descriptor_limit() {
        let most = limit.saturating_sub(OTHER_DESCRIPTORS).max(1);
        if config.limits.all > most {
            tracing::warn!(
                limit,
                max_connections = most,
                "the system allows fewer open files than max_connections needs"
            );
            config.limits.all = most;
        }
    }
    runtime()?.block_on(async {
        // Before the doors open, so that no signal is missed.
        let system = |source| Error::System { what: "cannot listen for signals", source };
        let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
        let mut hang_up = signal(SignalKind::hangup()).map_err(system)?;
        let (place, format) = (Place::of(&config), config.log_format);
        let guessed = config.base_url.is_none();
        let self_signed = config.tls.is_self_signed();
        let (supervisor, drain) = (Supervisor::of_environment(), config.drain);
        // Beside opening the database, because both take their time.
        let geo = tokio::task::spawn_blocking({
            let config = config.clone();
            move || Geo::load(&config)
        });
        let geo = async {
            let ended = |_| Error::Refused("reading the geo data ended unexpectedly".to_owned());
            geo.await.map_err(ended)?
        };
        let server = Server::start(config, Clock::system(), handed, geo).await?;
        greet(&server, &place, format, self_signed);
        supervisor.ready();
        if guessed && server.addresses().iter().any(|address| !address.ip().is_loopback()) {
            tracing::warn!(
                base_url = server.base_url(),
                "errors link to this address: set --base-url to the one that callers use"
            );
        }
        let (first, second) = (Notify::new(), Notify::new());
        let signals = async {
            for (notify, told) in [
                (&first, "stopping: requests in progress are finished first; once more ends them"),
                (&second, "stopping at once"),
            ] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                tracing::info!("{told}");
                supervisor.stopping(drain);
                notify.notify_one();
            }
            std::future::pending::<()>().await;
        };
        let reload = server.reload();
        let reloads = async {
            while hang_up.recv().await.is_some() {
                tracing::info!("reading the geo data again");
                reload.notify_one();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = server.run(first.notified(), second.notified()) => ended?,
            () = signals => {}
            () = reloads => {}
        }
        tracing::info!("stopped; everything is written");
        Ok(())
    })
}

/// Where the data is, as it is told to whoever has started the server.
struct Place {
    shown: String,
    /// What a command has to be told to find it.
    flag: String,
}

impl Place {
    fn of(config: &Config) -> Self {
        let folder = config.data_dir.display().to_string();
        match &config.database {
            Some(url) => Self {
                shown: format!("{url} and {folder}"),
                flag: format!(" --database {}", shell_word(&url.to_string())),
            },
            None if config.data_dir == Path::new("./ipse-data") => {
                Self { shown: folder, flag: String::new() }
            }
            None => Self { flag: format!(" --data-dir {}", shell_word(&folder)), shown: folder },
        }
    }
}

/// Says where the server is and what to type next.
fn greet(server: &Server, place: &Place, format: LogFormat, self_signed: bool) {
    let version = env!("CARGO_PKG_VERSION");
    let urls = server.urls();
    if format == LogFormat::Json {
        let operator = server.operator_addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
        tracing::info!(
            version,
            listen = urls.join(" "),
            admin_listen = operator.join(" "),
            base_url = server.base_url(),
            "listening"
        );
        return;
    }
    let base = server.base_url();
    let program = std::env::args().next().unwrap_or_else(|| "ipse".to_owned());
    let folder = &place.flag;
    let keys = match server.key_count() {
        0 => "no API key yet".to_owned(),
        1 => "1 API key".to_owned(),
        keys => format!("{keys} API keys"),
    };
    // Nobody trusts a certificate that nobody has signed.
    let unsafely = if self_signed { " -k" } else { "" };
    // A server whose greeting nobody can read serves all the same.
    let _ = print(&format!(
        "\
ipse {version} is listening on {urls}

  In a browser    {base}/
  Without a key   curl{unsafely} {base}/api/v1/ip/demo
  Your first key  {program} key create --account you@example.com{folder}
  With the key    curl{unsafely} -H 'Authorization: Bearer YOUR_KEY' {base}/api/v1/ip
{overview}
Data is kept in {place} ({keys}). Geo data {geo}.
Stop with Ctrl-C.
",
        urls = urls.join(" and "),
        overview = overview_line(server),
        place = place.shown,
        geo = geo_line(server),
    ));
}

/// Where the operator looks, if they can.
fn overview_line(server: &Server) -> String {
    let first = server.operator_addresses().first();
    let local = |address: &SocketAddr| {
        if address.ip() == Ipv4Addr::LOCALHOST {
            format!("localhost:{}", address.port())
        } else {
            address.to_string()
        }
    };
    first.map(|address| format!("  How it is doing http://{}/\n", local(address))).unwrap_or_default()
}

/// Which geo data is served.
fn geo_line(server: &Server) -> String {
    let atlas = server.atlas();
    let day: String = moment(atlas.about().built * 1000).chars().take(10).collect();
    match server.geo_origin() {
        Origin::BuiltIn => format!("of {day}, inside the program"),
        Origin::File(path) => format!("of {day}, from {}", path.display()),
    }
}

/// A word that a shell takes as it is.
fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_blanks_is_quoted() {
        assert_eq!(shell_word("/var/lib/ipse"), "/var/lib/ipse");
        assert_eq!(shell_word("my data"), "'my data'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
