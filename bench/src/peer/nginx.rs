//! nginx as an operator sets it up for the same: keys in a map, Debian's module of geo data, a limit for each key, and an answer
//! out of variables.
//!
//! It counts no days and keeps nothing. The answer is given by `return`, which comes before limits are looked at: so limits are
//! looked at where a file is tried that is never there, and the answer is given after that.

use super::{Peer, Process, Running};
use crate::stage::Stage;
use anyhow::{Context, Result, bail, ensure};
use ipse_testkit::Stopwatch;
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where Debian and others put modules.
const MODULES: [&str; 3] = ["/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules"];
const MODULE: &str = "ngx_http_geoip2_module.so";
/// Fields of places, and whether they are texts.
const PLACE: [(&str, bool); 11] = [
    ("city", true),
    ("region", true),
    ("region_code", true),
    ("country", true),
    ("country_name", true),
    ("continent", true),
    ("latitude", false),
    ("longitude", false),
    ("timezone", true),
    ("postal_code", true),
    ("currency", true),
];

pub(super) fn start(stage: &Stage) -> Result<Running> {
    let folder = stage.fresh_folder()?;
    let [clear, tls] = free_ports()?;
    let configuration = folder.join("nginx.conf");
    std::fs::write(folder.join("keys.map"), key_map(stage)?)?;
    std::fs::write(folder.join("zones.map"), zone_map(stage)?)?;
    std::fs::write(&configuration, text(stage, &folder, clear, tls)?)?;
    let begun = Stopwatch::start();
    let process = Command::new("nginx")
        .arg("-c")
        .arg(&configuration)
        .arg("-p")
        .arg(&folder)
        .args(["-e", "stderr"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("nginx is needed: cargo xtask test installs it")?;
    let mut master = Master(process);
    for _ in 0..5_000 {
        let workers = children(master.0.id())?;
        if !workers.is_empty() && TcpStream::connect(clear).is_ok() {
            let running = Running {
                peer: Peer::Nginx,
                clear,
                tls: Some(tls),
                begun,
                processes: workers,
                _process: Process::Nginx(master),
            };
            return Ok(running);
        }
        if let Some(status) = master.0.try_wait()? {
            bail!("nginx ended with {status}");
        }
        // waits for: its workers, of which nothing is announced.
        std::thread::sleep(Duration::from_millis(2));
    }
    bail!("nginx does not listen after ten seconds")
}

/// The process that others belong to: it ends them when it is asked to end, and not when it is killed.
pub(super) struct Master(Child);

impl Drop for Master {
    fn drop(&mut self) {
        let asked = Pid::from_child(&self.0);
        if kill_process(asked, Signal::TERM).is_err() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

fn free_ports() -> Result<[SocketAddr; 2]> {
    let doors = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
    Ok([doors[0].local_addr()?, doors[1].local_addr()?])
}

fn children(process: u32) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(text.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// By the whole header, the number of the key.
fn key_map(stage: &Stage) -> Result<String> {
    let mut lines = String::new();
    for (number, key) in stage.keys.iter().enumerate() {
        writeln!(lines, "\"Bearer {}\" {};", key.reveal(), number + 1)?;
    }
    Ok(lines)
}

/// What zones are from UTC today.
fn zone_map(stage: &Stage) -> Result<String> {
    let mut lines = String::new();
    for (zone, offset) in stage.zones() {
        writeln!(lines, "\"{zone}\" {offset};")?;
    }
    Ok(lines)
}

fn text(stage: &Stage, folder: &Path, clear: SocketAddr, tls: SocketAddr) -> Result<String> {
    let module = MODULES.iter().map(|place| PathBuf::from(place).join(MODULE)).find(|path| path.is_file());
    let module = module.context("nginx has no geoip2 module: Debian's libnginx-mod-http-geoip2 is one")?;
    ensure!(
        !folder.to_string_lossy().contains(['"', '$', ' ']),
        "nginx cannot be told of {}",
        folder.display()
    );
    let mut variables = String::new();
    let mut fields = String::new();
    for (name, is_text) in PLACE {
        let (default, quote) = if is_text { ("", "\"") } else { ("default=null ", "") };
        writeln!(variables, "    $p_{name} {default}{name};")?;
        write!(fields, ",\"{name}\":{quote}$p_{name}{quote}")?;
        if name == "timezone" {
            fields.push_str(",\"timezone_offset\":$offset");
        }
        if name == "postal_code" {
            fields.push_str(",\"asn\":$n_asn,\"org\":\"$n_org\",\"as\":$as,\"is_eu\":$is_eu");
        }
    }
    let (places, networks) = (stage.files.places.display(), stage.files.networks.display());
    let (certificate, key) = (stage.certificate.certificate.display(), stage.certificate.key.display());
    let hash = (stage.keys.len() * 4).next_power_of_two().max(4096);
    let flag = |from: &str, to: &str| format!("  map ${from} ${to} {{ 1 true; 0 false; default null; }}\n");
    let flags = [flag("p_eu", "is_eu"), flag("n_proxy", "proxy"), flag("n_hosting", "hosting")].concat();
    let folder = folder.display();
    Ok(format!(
        r#"load_module {module};
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr crit;
worker_processes 1;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  server_tokens off;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  default_type application/json;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  # What is tried in vain is remembered, so that nobody asks the disk again.
  open_file_cache max=16; open_file_cache_errors on; open_file_cache_valid 1h;
  set_real_ip_from 127.0.0.1;
  real_ip_header X-Forwarded-For;
  map_hash_max_size {hash}; map_hash_bucket_size 512;
  map $http_authorization $key {{ default ""; include {folder}/keys.map; }}
  map $p_timezone $offset {{ default null; include {folder}/zones.map; }}
{flags}  map $n_asn $as {{ null null; default "\"AS$n_asn $n_org\""; }}
  geoip2 {places} {{
{variables}    $p_eu is_eu;
  }}
  geoip2 {networks} {{
    $n_asn default=null asn;
    $n_org org;
    $n_proxy proxy;
    $n_hosting hosting;
  }}
  limit_req_zone $key zone=keys:64m rate=300r/m;
  limit_req_status 429;
  server {{
    listen {clear} backlog=4096;
    listen {tls} ssl http2 backlog=4096;
    root {folder};
    http2_max_concurrent_streams 1024;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.3;
    ssl_ecdh_curve X25519;
    ssl_session_cache shared:tls:16m;
    ssl_session_tickets on;
    location = /api/v1/ip {{
      if ($key = "") {{ return 401; }}
      limit_req zone=keys burst=299 nodelay;
      try_files /none @answer;
    }}
    location @answer {{
      add_header Access-Control-Allow-Origin *;
      add_header Access-Control-Expose-Headers "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset";
      add_header Cache-Control no-store;
      add_header X-Content-Type-Options nosniff;
      add_header X-RateLimit-Limit 10000;
      return 200 '{{"status":"success","ip":"$remote_addr","ipv6":null{fields},"http_protocol":null,"tls_version":null,"tls_cipher":null,"rtt":null,"colo":null,"proxy":$proxy,"hosting":$hosting}}';
    }}
  }}
}}
"#,
        module = module.display(),
    ))
}
