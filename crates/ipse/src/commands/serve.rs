//! `ipse serve`: starts the server, says where it is, and stops it when it is asked to.

use super::{print, runtime};
use crate::config::{Config, LogFormat};
use crate::error::Error;
use crate::logs;
use crate::server::Server;
use ipse_edge::Clock;
use ipse_geo::Atlas;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};

pub(super) fn serve(config: Config) -> Result<(), Error> {
    logs::forbid_core_dumps();
    logs::raise_descriptor_limit();
    logs::start(config.log_level, config.log_format);
    runtime()?.block_on(async {
        // Before the doors open, so that no signal is missed.
        let system = |source| Error::System { what: "cannot listen for signals", source };
        let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
        let (data_dir, format) = (config.data_dir.clone(), config.log_format);
        let server = Server::start(config, Clock::system(), Atlas::empty()).await?;
        greet(&server, &data_dir, format);
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping: requests in progress are finished first");
        };
        server.run(stop).await?;
        tracing::info!("stopped; everything is written");
        Ok(())
    })
}

/// Says where the server is and what to type next.
fn greet(server: &Server, data_dir: &Path, format: LogFormat) {
    let version = env!("CARGO_PKG_VERSION");
    let urls: Vec<String> = server.addresses().iter().map(|address| format!("http://{address}")).collect();
    if format == LogFormat::Json {
        tracing::info!(version, listen = urls.join(" "), base_url = server.base_url(), "listening");
        return;
    }
    let base = server.base_url();
    let program = std::env::args().next().unwrap_or_else(|| "ipse".to_owned());
    let folder = if data_dir == Path::new("./ipse-data") {
        String::new()
    } else {
        format!(" --data-dir {}", shell_word(&data_dir.to_string_lossy()))
    };
    let keys = match server.key_count() {
        0 => "no API key yet".to_owned(),
        1 => "1 API key".to_owned(),
        keys => format!("{keys} API keys"),
    };
    print(&format!(
        "\
ipse {version} is listening on {urls}

  In a browser    {base}/
  Without a key   curl {base}/api/v1/ip/demo
  Your first key  {program} key create --account you@example.com{folder}
  With the key    curl -H 'Authorization: Bearer YOUR_KEY' {base}/api/v1/ip

Data is kept in {data_dir} ({keys}). No geo data is installed: places and networks are null.
Stop with Ctrl-C.
",
        urls = urls.join(" and "),
        data_dir = data_dir.display(),
    ));
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
