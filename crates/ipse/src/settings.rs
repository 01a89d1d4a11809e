//! Every setting, once: its name, its default, what it is for and what it may be.
//!
//! A setting `data_dir` is the flag `--data-dir`, the variable `IPSE_DATA_DIR` and the key `data_dir` of the file.
//! Flags win over the environment, and that over the file. This file knows texts only; `config.rs` gives them types.

use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// One setting.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) default: &'static [&'static str],
    pub(crate) shape: Shape,
    /// What stands for the value in the help.
    pub(crate) value: &'static str,
    pub(crate) help: &'static str,
}

/// How many values a setting has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One.
    One,
    /// Any number: its flag may be given several times.
    Many,
    /// `yes` or `no`: its flag alone says `yes`.
    Switch,
}

/// All settings, in the order in which they are shown.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        default: &["localhost:8080"],
        shape: Shape::Many,
        value: "ADDR",
        help: "Where to listen: IP:PORT, [IPv6]:PORT, localhost:PORT, unix:PATH or systemd:NAME; repeatable; `none` for HTTPS alone",
    },
    Setting {
        name: "tls_listen",
        default: &[],
        shape: Shape::Many,
        value: "ADDR",
        help: "Where to listen for HTTPS: IP:PORT, [IPv6]:PORT, localhost:PORT or systemd:NAME; repeatable",
    },
    Setting {
        name: "proxy_listen",
        default: &[],
        shape: Shape::Many,
        value: "ADDR",
        help: "Where trusted proxies introduce callers with the PROXY protocol, and nobody else is served; repeatable",
    },
    Setting {
        name: "admin_listen",
        default: &["localhost:9464"],
        shape: Shape::Many,
        value: "ADDR",
        help: "Where you, the operator, look: /healthz, /readyz, /metrics and an overview, see docs/metrics.md; repeatable; \
               `none` for nowhere. Without a password, so other addresses than this machine's own want --admin-open",
    },
    Setting {
        name: "admin_open",
        default: &["no"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Let others than this machine connect to the operator's listener: say so when a firewall stands before it",
    },
    Setting {
        name: "admin_host",
        default: &[],
        shape: Shape::Many,
        value: "NAME",
        help: "A name under which the operator's listener is asked beside addresses and localhost; repeatable",
    },
    Setting {
        name: "tls_cert",
        default: &[],
        shape: Shape::Many,
        value: "FILE",
        help: "A certificate with its chain, PEM; read again when it changes; repeatable, each with its --tls-key",
    },
    Setting {
        name: "tls_key",
        default: &[],
        shape: Shape::Many,
        value: "FILE",
        help: "The private key of the certificate in the same place, PEM; repeatable",
    },
    Setting {
        name: "tls_self_signed",
        default: &["no"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Make a certificate that nobody has signed, for trying HTTPS",
    },
    Setting {
        name: "acme_domain",
        default: &[],
        shape: Shape::Many,
        value: "NAME",
        help: "Obtain and renew a certificate for this name from an authority, by ACME, and accept the authority's terms \
               of service; repeatable, all names in one certificate",
    },
    Setting {
        name: "acme_email",
        default: &[],
        shape: Shape::One,
        value: "EMAIL",
        help: "Where the authority may write to",
    },
    Setting {
        name: "acme_directory",
        default: &["https://acme-v02.api.letsencrypt.org/directory"],
        shape: Shape::One,
        value: "URL",
        help: "The authority, by the address of its ACME directory",
    },
    Setting {
        name: "acme_ca",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "Who may vouch for the directory's own certificate beside those whom the system trusts, PEM",
    },
    Setting {
        name: "http3",
        default: &["yes"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Serve HTTP/3 at the ports of HTTPS, by UDP",
    },
    Setting {
        name: "https_redirect",
        default: &["no"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Send callers of clear HTTP at --listen ports to HTTPS, at the port of --base-url if that is set",
    },
    Setting {
        name: "hsts_seconds",
        default: &[],
        shape: Shape::One,
        value: "N",
        help: "How long browsers are to come by HTTPS alone; by default a year where --base-url begins with https:// and \
               the certificate is not --tls-self-signed, and else not at all",
    },
    Setting {
        name: "data_dir",
        default: &["./ipse-data"],
        shape: Shape::One,
        value: "DIR",
        help: "Where accounts, keys and counts are kept",
    },
    Setting {
        name: "database",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "A PostgreSQL database that keeps accounts and keys, such as postgres://ipse@db.example.com/ipse; by \
               default a file in the data folder",
    },
    Setting {
        name: "database_password_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "A file that holds the password for it; others on this machine can see what stands in the URL of a flag",
    },
    Setting {
        name: "counters",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "A Redis or Valkey server in which any number of nodes count together: redis://HOST, rediss:// (encrypted), \
               redis-sentinel://HOST,HOST/NAME or redis-cluster://HOST,HOST; by default this node counts alone",
    },
    Setting {
        name: "counters_password_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "A file that holds the password for it; others on this machine can see what stands in the URL of a flag",
    },
    Setting {
        name: "counters_ca",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "Who vouches for its certificate instead of those whom the system trusts, PEM",
    },
    Setting {
        name: "outage",
        default: &["closed"],
        shape: Shape::One,
        value: "POLICY",
        help: "What to do while --counters are away: closed (answer 500), lease (reserve answers in the database, exact by the \
               day) or open (answer everything, inexact)",
    },
    Setting {
        name: "outage_after_ms",
        default: &["45"],
        shape: Shape::One,
        value: "N",
        help: "How long --counters may take to decide before they count as away, in milliseconds",
    },
    Setting {
        name: "node_name",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "What this node is called among others; by default the name of its machine",
    },
    Setting {
        name: "geo_data",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "The snapshot to serve; by default geo.ipse in the data folder, and without one the data inside the program",
    },
    Setting {
        name: "trusted_proxy",
        default: &["127.0.0.0/8", "::1/128"],
        shape: Shape::Many,
        value: "CIDR",
        help: "Whose forwarding headers are believed; repeatable; `none` for nobody's",
    },
    Setting {
        name: "client_address_header",
        default: &["auto"],
        shape: Shape::One,
        value: "NAME",
        help: "Where trusted proxies report the caller: auto, x-forwarded-for, forwarded, or a header with one address",
    },
    Setting {
        name: "tls_version_header",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The header in which trusted proxies report the caller's version of TLS",
    },
    Setting {
        name: "tls_cipher_header",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The header in which they report the cipher suite, by its registered name or OpenSSL's",
    },
    Setting {
        name: "http_version_header",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The header in which they report the caller's version of HTTP",
    },
    Setting {
        name: "rtt_header",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The header in which they report the round-trip time, in milliseconds or with a unit: 12400us",
    },
    Setting {
        name: "colo_header",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The header in which they report their own place, such as CF-Ray",
    },
    Setting {
        name: "pretend_ip",
        default: &[],
        shape: Shape::One,
        value: "IP",
        help: "Stands in for a caller's address that is not global, for trying things on a laptop",
    },
    Setting {
        name: "colo",
        default: &[],
        shape: Shape::One,
        value: "CODE",
        help: "The IATA code of the place this server runs in, such as AMS",
    },
    Setting {
        name: "base_url",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "The address under which callers reach this server; by default made from the first --listen",
    },
    Setting {
        name: "ipv4_host",
        default: &[],
        shape: Shape::One,
        value: "NAME[:PORT]",
        help: "A name of this server that only IPv4 leads to, so that the front page can show visitors both addresses",
    },
    Setting {
        name: "ipv6_host",
        default: &[],
        shape: Shape::One,
        value: "NAME[:PORT]",
        help: "A name of this server that only IPv6 leads to",
    },
    Setting {
        name: "docs_url",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "The documentation that errors point to; by default this server's own",
    },
    Setting {
        name: "signup_url",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "Where to get a key; by default a page of this server",
    },
    Setting {
        name: "enterprise_url",
        default: &[],
        shape: Shape::One,
        value: "URL",
        help: "Where to get a higher daily limit; by default a page of this server",
    },
    Setting {
        name: "contact",
        default: &[],
        shape: Shape::One,
        value: "EMAIL|URL",
        help: "How callers reach you, for the pages: an e-mail address, or a page that begins with https://",
    },
    Setting {
        name: "privacy_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "Your own text for /privacy: headings, paragraphs, lists, links and **strong** words of Markdown; read at start",
    },
    Setting {
        name: "terms_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "Your own text for /terms, in the same form",
    },
    Setting {
        name: "open_signup",
        default: &["yes"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Let anybody make an account; `no` leaves that to `ipse account create`",
    },
    Setting {
        name: "mail_server",
        default: &[],
        shape: Shape::One,
        value: "HOST[:PORT]",
        help: "The SMTP server that takes mail to the owners of accounts; without it, none is sent",
    },
    Setting {
        name: "mail_from",
        default: &[],
        shape: Shape::One,
        value: "SENDER",
        help: "Who that mail is from, such as `ipse <ipse@example.com>`",
    },
    Setting {
        name: "mail_tls",
        default: &[],
        shape: Shape::One,
        value: "starttls|implicit|none",
        help: "How the connection to the mail server is kept secret; by default implicit at port 465, none on this \
               machine, and else starttls",
    },
    Setting {
        name: "mail_user",
        default: &[],
        shape: Shape::One,
        value: "NAME",
        help: "The name to sign in to the mail server with",
    },
    Setting {
        name: "mail_password_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "A file that holds the password for it",
    },
    Setting {
        name: "mail_password",
        default: &[],
        shape: Shape::One,
        value: "TEXT",
        help: "The password itself; others on this machine can see a flag, so prefer the file or the variable",
    },
    Setting {
        name: "mail_ca",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "Who may vouch for the mail server's certificate beside those whom the system trusts, PEM",
    },
    Setting {
        name: "geo_source",
        default: &["city:dbip-city-lite", "asn:dbip-asn-lite"],
        shape: Shape::Many,
        value: "KIND:SOURCE",
        help: "What geo data is updated from: city, country, asn or anonymous, then dbip-city-lite, dbip-asn-lite, \
               maxmind:EDITION, a URL (with #sha256=… to verify it) or a path; repeatable, the first that knows wins",
    },
    Setting {
        name: "geo_flags",
        default: &[],
        shape: Shape::Many,
        value: "FILE",
        help: "Networks to flag or to spare: lines `deny ASN hosting|proxy|both` and `allow ASN`; repeatable",
    },
    Setting {
        name: "geo_update_hours",
        default: &["0"],
        shape: Shape::One,
        value: "N",
        help: "How often a server updates its geo data by itself; 0 for never",
    },
    Setting {
        name: "maxmind_account",
        default: &[],
        shape: Shape::One,
        value: "ID",
        help: "The number of your account with MaxMind, for sources named maxmind:EDITION",
    },
    Setting {
        name: "maxmind_key_file",
        default: &[],
        shape: Shape::One,
        value: "FILE",
        help: "A file that holds your licence key of MaxMind",
    },
    Setting {
        name: "maxmind_key",
        default: &[],
        shape: Shape::One,
        value: "KEY",
        help: "The licence key itself; better in a file, because others can see flags and variables",
    },
    Setting {
        name: "max_connections",
        default: &["10000"],
        shape: Shape::One,
        value: "N",
        help: "How many connections may be open at once",
    },
    Setting {
        name: "max_connections_per_address",
        default: &["256"],
        shape: Shape::One,
        value: "N",
        help: "How many of them from one address, or one /64 of IPv6; trusted proxies are not counted",
    },
    Setting {
        name: "reuse_port",
        default: &["no"],
        shape: Shape::Switch,
        value: "yes|no",
        help: "Open the ports of another ipse that has this set too, ask it to stop and take over: see docs/operating.md",
    },
    Setting {
        name: "drain_seconds",
        default: &["10"],
        shape: Shape::One,
        value: "N",
        help: "How long requests in progress may take to finish when the server stops",
    },
    Setting {
        name: "log_level",
        default: &["info"],
        shape: Shape::One,
        value: "LEVEL",
        help: "error, warn, info, debug or trace",
    },
    Setting {
        name: "log_format",
        default: &["text"],
        shape: Shape::One,
        value: "FORMAT",
        help: "text or json",
    },
];

const PREFIX: &str = "IPSE_";
const FILE: &str = "config";

impl Setting {
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase())
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    Flag(String),
    Variable(String),
    File(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {path}"),
        }
    }
}

/// The texts of one setting, and where they came from. Without `Debug`, because they may be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) values: Vec<String>,
    pub(crate) source: Source,
}

/// The flags as they were typed. Without `Debug`, because one of them may be a secret.
#[derive(Clone, Default)]
pub(crate) struct Flags {
    values: BTreeMap<&'static str, Vec<String>>,
    file: Option<String>,
}

impl Flags {
    fn arguments(command: Command, settings: impl Iterator<Item = &'static Setting>) -> Command {
        let file =
            Arg::new(FILE).long(FILE).value_name("FILE").help("A TOML file with settings [env: IPSE_CONFIG]");
        settings.fold(command.arg(file), |command, setting| {
            let mut help = format!("{} [env: {}]", setting.help, setting.variable());
            if !setting.default.is_empty() {
                help += &format!(" [default: {}]", setting.default.join(", "));
            }
            let arg = Arg::new(setting.name)
                .long(setting.flag())
                .value_name(setting.value)
                .allow_negative_numbers(true)
                .help(help);
            command.arg(match setting.shape {
                Shape::One => arg.action(ArgAction::Set),
                Shape::Many => arg.action(ArgAction::Append),
                Shape::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("yes"),
            })
        })
    }

    fn read(matches: &ArgMatches) -> Self {
        let texts = |name: &str| {
            matches
                .try_get_many::<String>(name)
                .ok()
                .flatten()
                .map(|values| values.cloned().collect::<Vec<_>>())
        };
        let values =
            SETTINGS.iter().filter_map(|setting| Some((setting.name, texts(setting.name)?))).collect();
        Self { values, file: texts(FILE).and_then(|mut files| files.pop()) }
    }
}

/// All settings as flags.
#[derive(Clone, Default)]
pub(crate) struct ServeFlags(pub(crate) Flags);

/// The flags of commands that only look for the data.
#[derive(Clone, Default)]
pub(crate) struct DataFlags(pub(crate) Flags);

/// The flags of commands that look at the geo data that a server would serve.
#[derive(Clone, Default)]
pub(crate) struct GeoFlags(pub(crate) Flags);

/// The flags of commands that update geo data.
#[derive(Clone, Default)]
pub(crate) struct UpdateFlags(pub(crate) Flags);

/// What an update of geo data depends on.
const OF_UPDATES: &[&str] = &[
    "data_dir",
    "geo_data",
    "geo_source",
    "geo_flags",
    "maxmind_account",
    "maxmind_key_file",
    "maxmind_key",
];

macro_rules! flags {
    ($name:ident, $chosen:expr) => {
        impl clap::Args for $name {
            fn augment_args(command: Command) -> Command {
                Flags::arguments(command, SETTINGS.iter().filter($chosen))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl clap::FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(Flags::read(matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}
flags!(ServeFlags, |_| true);
flags!(DataFlags, |setting| ["data_dir", "database", "database_password_file"].contains(&setting.name));
flags!(GeoFlags, |setting| ["data_dir", "geo_data"].contains(&setting.name));
flags!(UpdateFlags, |setting| OF_UPDATES.contains(&setting.name));

/// Puts flags, environment and file together. What is unknown is added to `problems`, by name.
pub(crate) fn gather(
    flags: &Flags,
    environment: impl Iterator<Item = (OsString, OsString)>,
    problems: &mut Vec<String>,
) -> BTreeMap<&'static str, Given> {
    let mut given: BTreeMap<&'static str, Given> = SETTINGS
        .iter()
        .map(|setting| {
            let values = setting.default.iter().map(|text| (*text).to_owned()).collect();
            (setting.name, Given { values, source: Source::Default })
        })
        .collect();
    let mut variables = Vec::new();
    let mut file = None;
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        // Kubernetes tells every container of a service named "ipse" where that service is.
        if ["IPSE_SERVICE_", "IPSE_PORT_"].iter().any(|theirs| name.starts_with(theirs))
            || name == "IPSE_PORT"
        {
            continue;
        }
        let setting = SETTINGS.iter().find(|setting| setting.variable() == name);
        match (setting, value.into_string()) {
            (Some(setting), Ok(value)) => variables.push((setting, value)),
            (None, Ok(value)) if name == "IPSE_CONFIG" => file = Some(value),
            (None, _) => problems.push(format!(
                "  environment {name}: no such setting; there are {}",
                list(SETTINGS.iter().map(Setting::variable).chain(["IPSE_CONFIG".to_owned()]))
            )),
            (Some(_), Err(_)) => problems.push(format!("  environment {name}: the value is no text")),
        }
    }
    if let Some(file) = flags.file.clone().or(file) {
        read_file(&file, &mut given, problems);
    }
    for (setting, value) in variables {
        let values = if setting.shape == Shape::Many {
            value.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
        } else {
            vec![value]
        };
        given.insert(setting.name, Given { values, source: Source::Variable(setting.variable()) });
    }
    for setting in SETTINGS {
        if let Some(values) = flags.values.get(setting.name) {
            let source = Source::Flag(setting.flag());
            given.insert(setting.name, Given { values: values.clone(), source });
        }
    }
    given
}

fn read_file(path: &str, given: &mut BTreeMap<&'static str, Given>, problems: &mut Vec<String>) {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return problems.push(format!("  file {path}: cannot be read: {error}")),
    };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            return problems.push(format!("  file {path}, line {line}: not TOML: {}", error.message()));
        }
    };
    for (key, value) in table.into_iter().flat_map(flat) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
            let known = list(SETTINGS.iter().map(|setting| setting.name.to_owned()));
            problems.push(format!("  file {path}, {key}: no such setting; there are {known}"));
            continue;
        };
        let values = match value {
            toml::Value::Array(values) if setting.shape == Shape::Many => {
                values.into_iter().map(scalar).collect()
            }
            value => scalar(value).map(|text| vec![text]),
        };
        match values {
            Some(values) => {
                given.insert(setting.name, Given { values, source: Source::File(path.to_owned()) });
            }
            None => {
                let shape = match setting.shape {
                    Shape::One => "one text or number",
                    Shape::Many => "a list of texts",
                    Shape::Switch => "true or false",
                };
                problems.push(format!("  file {path}, {key}: must be {shape}"));
            }
        }
    }
}

/// A table of a file is a beginning that the names of its settings share: `server` of `[mail]` is `mail_server`.
fn flat((key, value): (String, toml::Value)) -> Vec<(String, toml::Value)> {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().map(|(name, value)| (format!("{key}_{name}"), value)).collect()
        }
        value => vec![(key, value)],
    }
}

fn scalar(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(switch) => Some(if switch { "yes" } else { "no" }.to_owned()),
        _ => None,
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
