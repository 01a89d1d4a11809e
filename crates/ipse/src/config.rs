//! The configuration as a whole: read, checked and reported before anything is opened.

use crate::error::Error;
use crate::settings::{Flags, Given, SETTINGS, Source, gather};
use crate::table::Table;
use crate::update::{GeoUpdates, LicenceKey, MaxMind, Rhythm, Secret};
use http::HeaderName;
use ipnet::IpNet;
use ipse_edge::{
    AcmePlan, AddressHeader, CertificateError, CertificateFiles, Certificates, ConnectionLimits, Entrance,
    FactHeaders, ListenAddr, Trust,
};
use ipse_geodata::{Supply, Vendors, Wanted};
use ipse_model::{Colo, Links};
use ipse_site::{Contact, Document, MailPlan, MailTls, Operator, Sender};
use ipse_store::{CountersUrl, DatabaseUrl, Email, Outage, SharedClock, SharedPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tracing::Level;

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Vec<ListenAddr>,
    /// HTTPS.
    pub tls: TlsConfig,
    /// Where trusted proxies introduce callers.
    pub proxy_listen: Vec<ListenAddr>,
    /// Where the operator looks.
    pub admin: AdminConfig,
    /// Where data is kept.
    pub data_dir: PathBuf,
    /// The server that keeps the records; `None` for a file in the data folder.
    pub database: Option<DatabaseUrl>,
    /// The engine in which many nodes count together; `None` if this one counts alone.
    pub counters: Option<SharedPlan>,
    /// What this node is called; `None` for the name of its machine.
    pub node_name: Option<String>,
    /// The snapshot to serve; `None` for the data folder's own, or the one inside the program.
    pub geo_data: Option<PathBuf>,
    /// Who the caller is, and what this place is called.
    pub trust: Trust,
    /// The address under which callers reach this server; `None` if it is to be made from the first listener.
    pub base_url: Option<String>,
    /// A name, perhaps with a port, under which this server is reached over IPv4 alone.
    pub ipv4_host: Option<String>,
    /// The same for IPv6.
    pub ipv6_host: Option<String>,
    /// The documentation; `None` for our own.
    pub docs_url: Option<String>,
    /// Where to get a key; `None` for our own page.
    pub signup_url: Option<String>,
    /// Where to get a higher limit; `None` for our own page.
    pub enterprise_url: Option<String>,
    /// How the operator is reached, and their own texts.
    pub operator: Operator,
    /// Whether anybody may make an account.
    pub open_signup: bool,
    /// How mail leaves, if it does.
    pub mail: Option<MailPlan>,
    /// What geo data is updated from, and how often.
    pub geo_updates: GeoUpdates,
    /// How many connections may be open at once.
    pub limits: ConnectionLimits,
    /// Whether another process may have the same ports at the same time.
    pub reuse_port: bool,
    /// How long requests in progress may take at the end.
    pub drain: Duration,
    /// What is logged.
    pub log_level: Level,
    /// How it is logged.
    pub log_format: LogFormat,
}

/// How HTTPS is spoken.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// Where to listen for it.
    pub listen: Vec<ListenAddr>,
    /// The certificates; without any, and without an authority, one is made that nobody has signed.
    pub certificates: Vec<CertificateFiles>,
    /// The authority that is to issue one.
    pub acme: Option<AcmePlan>,
    /// Whether HTTP/3 is spoken at the same ports.
    pub http3: bool,
    /// Whether callers of clear HTTP are sent there.
    pub redirect: bool,
    /// How long browsers are told to come by HTTPS alone.
    pub hsts: Option<Duration>,
}

impl TlsConfig {
    /// Whether the one certificate is one that nobody has signed.
    pub(crate) fn is_self_signed(&self) -> bool {
        !self.listen.is_empty() && self.certificates.is_empty() && self.acme.is_none()
    }

    /// The certificates, if there is a door of HTTPS to show them at.
    pub(crate) fn read_certificates(&self) -> Result<Option<Certificates>, CertificateError> {
        if self.listen.is_empty() {
            Ok(None)
        } else if self.certificates.is_empty() && self.acme.is_none() {
            let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            Certificates::self_signed(names.to_vec()).map(Some)
        } else {
            Certificates::read(&self.certificates).map(Some)
        }
    }
}

/// The operator's own listener.
#[derive(Clone, Debug, Default)]
pub struct AdminConfig {
    /// Where it is.
    pub listen: Vec<ListenAddr>,
    /// Whether it is there only because nobody said otherwise: then it is done without where another program is.
    pub is_default: bool,
    /// Whether others than this machine may connect.
    pub is_open: bool,
    /// Names beside `localhost` under which it is asked.
    pub hosts: Vec<String>,
}

/// How long browsers are told to come by HTTPS alone, unless an operator says otherwise.
const A_YEAR_S: u64 = 365 * 86_400;

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines, one object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

impl Config {
    /// Reads flags, environment and file, and reports everything that is wrong with them at once.
    pub(crate) fn read(
        flags: &Flags,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(Self, Settings), Error> {
        let mut problems = Vec::new();
        let given = gather(flags, environment, &mut problems);
        let mut reader = Reader { given: &given, problems };
        let config = reader.config();
        match (config, reader.problems) {
            (Some(config), problems) if problems.is_empty() => {
                let [clear, tls] = [&config.listen, &config.tls.listen]
                    .map(|doors| doors.first().and_then(ListenAddr::first));
                let links = config.links(config.base_url_at(clear, tls));
                Ok((config, Settings { given, links }))
            }
            (_, problems) => Err(Error::Config(problems)),
        }
    }

    /// The port at which callers find HTTPS, where the base URL says so: it may be another than that of a door.
    pub(crate) fn public_https_port(&self) -> Option<u16> {
        let authority = self.base_url.as_deref()?.strip_prefix("https://")?;
        let port = authority
            .rsplit_once(':')
            .filter(|(_, port)| !port.contains(']'))
            .map(|(_, port)| port.parse().ok());
        port.unwrap_or(Some(443))
    }

    /// The address under which callers reach a server whose first clear door and first door of HTTPS are these: what a
    /// person types into a browser.
    #[must_use]
    pub fn base_url_at(&self, clear: Option<SocketAddr>, tls: Option<SocketAddr>) -> String {
        let local =
            |ip: IpAddr| ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST;
        let scheme = if tls.is_some() { "https" } else { "http" };
        match (&self.base_url, tls.or(clear)) {
            (Some(set), _) => set.clone(),
            (None, Some(address)) if local(address.ip()) => {
                format!("{scheme}://localhost:{}", address.port())
            }
            (None, Some(address)) => format!("{scheme}://{address}"),
            (None, None) => "http://localhost".to_owned(),
        }
    }

    /// The links of a server that is reached at `base_url`: those that were set, and pages of its own.
    #[must_use]
    pub fn links(&self, base_url: String) -> Links {
        let link =
            |set: &Option<String>, page: &str| set.clone().unwrap_or_else(|| format!("{base_url}/{page}"));
        // A page of HTTPS may not ask over clear HTTP, so they are reached in the same way as everything else.
        let scheme = base_url.split_once("://").map_or("http", |(scheme, _)| scheme);
        let origin = |host: &Option<String>| host.as_ref().map(|host| format!("{scheme}://{host}"));
        Links {
            ipv4_origin: origin(&self.ipv4_host),
            ipv6_origin: origin(&self.ipv6_host),
            docs_url: link(&self.docs_url, "docs"),
            signup_url: link(&self.signup_url, "signup"),
            enterprise_url: link(&self.enterprise_url, "enterprise"),
            base_url,
        }
    }

    /// The doors as they are planned.
    pub(crate) fn entrances(&self) -> Vec<Entrance> {
        let ordinary = self.listen.iter().chain(&self.tls.listen).map(|at| (at, false));
        let introduced = self.proxy_listen.iter().map(|at| (at, true));
        ordinary.chain(introduced).map(|(at, introduces)| Entrance { at: at.clone(), introduces }).collect()
    }

    /// The configuration of a server that was given nothing but these settings. For tests and fault campaigns.
    pub fn from_settings(settings: &[(&str, &str)]) -> Result<Self, Error> {
        let environment = settings.iter().map(|(name, value)| {
            (OsString::from(format!("IPSE_{}", name.to_uppercase())), OsString::from(value))
        });
        Self::read(&Flags::default(), environment).map(|(config, _)| config)
    }
}

/// The settings as they were given, for showing.
pub(crate) struct Settings {
    given: BTreeMap<&'static str, Given>,
    /// What the settings that were left out are made to be.
    links: Links,
}

impl Settings {
    /// The address under which callers reach the server, and whether an operator said so.
    pub(crate) fn base_url(&self) -> (&str, bool) {
        (&self.links.base_url, !self.given["base_url"].values.is_empty())
    }

    /// A table of every setting with its value and where that came from.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
        for setting in SETTINGS {
            let given = &self.given[setting.name];
            let value = match (given.values.is_empty(), setting.name) {
                (false, "maxmind_key" | "mail_password") => "(hidden)".to_owned(),
                (false, "database") => shown::<DatabaseUrl>(&given.values),
                (false, "counters") => shown::<CountersUrl>(&given.values),
                (false, "geo_source") => sources(&given.values).join(", "),
                (false, _) => given.values.join(", "),
                (true, "base_url") => self.links.base_url.clone(),
                (true, "docs_url") => self.links.docs_url.clone(),
                (true, "signup_url") => self.links.signup_url.clone(),
                (true, "enterprise_url") => self.links.enterprise_url.clone(),
                (true, _) => "none".to_owned(),
            };
            table.row([setting.name.to_owned(), value, given.source.to_string()]);
        }
        table
    }
}

/// Gives the texts their types, and keeps going after a mistake.
struct Reader<'a> {
    given: &'a BTreeMap<&'static str, Given>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self) -> Option<Config> {
        let listen = self.listen();
        let tls = self.tls();
        let proxy_listen = self.each("proxy_listen", LISTEN, |text| text.parse().ok());
        if let (Some(listen), Some(tls), Some(proxy_listen)) = (&listen, &tls, &proxy_listen)
            && listen.is_empty()
            && tls.listen.is_empty()
            && proxy_listen.is_empty()
        {
            self.problem("listen", "is `none`, and there is no other door: set tls_listen or proxy_listen");
        }
        let admin = self.admin();
        let facts = self.facts();
        let data_dir =
            self.one("data_dir", "a folder", |text| (!text.is_empty()).then(|| PathBuf::from(text)));
        let database = self.database();
        let counters = self.counters();
        let node_name = self.optional("node_name", "a name of at most 100 characters", |text| {
            let fits = !text.is_empty() && text.chars().count() <= 100 && !text.chars().any(char::is_control);
            fits.then(|| text.to_owned())
        });
        let geo_data =
            self.optional("geo_data", "a file", |text| (!text.is_empty()).then(|| PathBuf::from(text)));
        let proxies = self.proxies();
        let header = self.one(
            "client_address_header",
            "auto, x-forwarded-for, forwarded, or the name of a header that holds one address",
            |text| AddressHeader::from_str(text).ok(),
        );
        if let (Some(doors), Some(proxies)) = (&proxy_listen, &proxies)
            && !doors.is_empty()
            && proxies.is_empty()
        {
            self.problem("proxy_listen", "would serve nobody: name the proxies in trusted_proxy");
        }
        let pretend =
            self.optional("pretend_ip", "an IPv4 or IPv6 address", |text| text.parse::<IpAddr>().ok());
        let colo = self.optional("colo", "an IATA code of three letters", |text| text.parse::<Colo>().ok());
        let base_url = self.optional(
            "base_url",
            "an address that begins with http:// or https:// and has no path",
            |text| url(text).filter(|url| !url.split_once("//").is_some_and(|(_, rest)| rest.contains('/'))),
        );
        let ipv4_host = self.optional("ipv4_host", HOST, host);
        let ipv6_host = self.optional("ipv6_host", HOST, host);
        let docs_url = self.url("docs_url");
        let signup_url = self.url("signup_url");
        let enterprise_url = self.url("enterprise_url");
        let operator = self.operator();
        let open_signup = self.switch("open_signup");
        let mail = self.mail();
        let geo_updates = self.geo_updates();
        let max_connections =
            self.one("max_connections", "a number from 1 to 1000000", |text| number(text, 1, 1_000_000));
        let max_each = self.one("max_connections_per_address", "a number from 1 to 1000000", |text| {
            number(text, 1, 1_000_000)
        });
        let reuse_port = self.switch("reuse_port");
        let drain = self.one("drain_seconds", "a number from 0 to 3600", |text| number(text, 0, 3600));
        let log_level = self.one("log_level", "error, warn, info, debug or trace", level);
        let log_format = self.one("log_format", "text or json", |text| text.parse().ok());
        Some(Config {
            listen: listen?,
            tls: tls?,
            proxy_listen: proxy_listen?,
            admin: admin?,
            data_dir: data_dir?,
            database: database?,
            counters: counters?,
            node_name: node_name?,
            geo_data: geo_data?,
            trust: Trust {
                proxies: proxies?,
                header: header?,
                pretend: pretend?,
                colo: colo?,
                facts: facts?,
            },
            base_url: base_url?,
            ipv4_host: ipv4_host?,
            ipv6_host: ipv6_host?,
            docs_url: docs_url?,
            signup_url: signup_url?,
            enterprise_url: enterprise_url?,
            operator: operator?,
            open_signup: open_signup?,
            mail: mail?,
            geo_updates: geo_updates?,
            limits: ConnectionLimits {
                all: usize::try_from(max_connections?).ok()?,
                each: usize::try_from(max_each?).ok()?,
            },
            reuse_port: reuse_port?,
            drain: Duration::from_secs(drain?),
            log_level: log_level?,
            log_format: log_format?,
        })
    }

    fn listen(&mut self) -> Option<Vec<ListenAddr>> {
        if self.given["listen"].values == ["none"] {
            return Some(Vec::new());
        }
        self.all("listen", &format!("{LISTEN}, or `none` alone"), |text| text.parse().ok())
    }

    fn admin(&mut self) -> Option<AdminConfig> {
        let given = &self.given["admin_listen"];
        let is_default = given.source == Source::Default;
        let listen = if given.values == ["none"] {
            Some(Vec::new())
        } else {
            self.all("admin_listen", &format!("{LISTEN}, or `none` alone"), |text| text.parse().ok())
        };
        let is_open = self.switch("admin_open");
        let hosts = self.each("admin_host", "a DNS name such as ipse-1.internal, without a port", dns_name);
        let (listen, is_open, hosts) = (listen?, is_open?, hosts?);
        let outside = listen.iter().find(|address| !is_of_this_machine(address));
        match outside {
            Some(address) if !is_open => {
                let what = format!("{address} {OPEN_TO_OTHERS}");
                self.problem("admin_listen", &what);
                None
            }
            _ => Some(AdminConfig { listen, is_default, is_open, hosts }),
        }
    }

    fn tls(&mut self) -> Option<TlsConfig> {
        let listen = self.each("tls_listen", TLS_LISTEN, |text| {
            text.parse().ok().filter(|address| !matches!(address, ListenAddr::Unix(_)))
        });
        let certificates = self.each("tls_cert", "the path of a file", file);
        let keys = self.each("tls_key", "the path of a file", file);
        let self_signed = self.switch("tls_self_signed");
        let acme = self.acme();
        let http3 = self.switch("http3");
        let redirect = self.switch("https_redirect");
        let hsts = self
            .optional("hsts_seconds", "a number from 0 to 100000000", |text| number(text, 0, 100_000_000));
        let (listen, certificates, keys) = (listen?, certificates?, keys?);
        let (self_signed, acme, http3, redirect, hsts) = (self_signed?, acme?, http3?, redirect?, hsts?);
        // Who names an address of HTTPS has accounts to protect there; who only tries it must be able to turn back.
        let is_named = self.given["base_url"].values.iter().any(|url| url.starts_with("https://"));
        let by_default = if is_named && !self_signed { A_YEAR_S } else { 0 };
        let hsts = hsts.unwrap_or(by_default);
        let given = !certificates.is_empty() || !keys.is_empty();
        let problem = if certificates.len() != keys.len() {
            Some(("tls_cert", "needs one tls_key for each certificate, in the same order"))
        } else if given && self_signed {
            Some(("tls_self_signed", "and tls_cert cannot both be set"))
        } else if acme.is_some() && self_signed {
            Some(("tls_self_signed", "and acme_domain cannot both be set"))
        } else if !listen.is_empty() && !given && !self_signed && acme.is_none() {
            Some((
                "tls_listen",
                "needs a certificate: set tls_cert and tls_key, or acme_domain, or try it with tls_self_signed",
            ))
        } else if listen.is_empty() && acme.is_some() {
            Some(("acme_domain", "is of no use without tls_listen"))
        } else if listen.is_empty() && (given || self_signed) {
            Some((if given { "tls_cert" } else { "tls_self_signed" }, "is of no use without tls_listen"))
        } else if listen.is_empty() && redirect {
            Some(("https_redirect", "has nowhere to send callers: set tls_listen"))
        } else {
            None
        };
        if let Some((name, what)) = problem {
            self.problem(name, what);
            return None;
        }
        let pair = |(certificate, key)| CertificateFiles { certificate, key };
        Some(TlsConfig {
            listen,
            certificates: certificates.into_iter().zip(keys).map(pair).collect(),
            acme,
            http3,
            redirect,
            hsts: (hsts > 0).then(|| Duration::from_secs(hsts)),
        })
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn acme(&mut self) -> Option<Option<AcmePlan>> {
        let domains = self.each(
            "acme_domain",
            "a DNS name such as ip.example.com, without a wildcard, in its xn-- form if it has other letters",
            dns_name,
        );
        let email = self.optional("acme_email", "an e-mail address such as you@example.com", |text| {
            text.parse::<Email>().ok().filter(|email| email.as_str().is_ascii())
        });
        let directory = self.one("acme_directory", "an address that begins with https://", directory);
        let ca = self.optional("acme_ca", "the path of a file", file);
        let (mut domains, email, directory, ca) = (domains?, email?, directory?, ca?);
        if domains.is_empty() {
            let unused = ["acme_email", "acme_directory", "acme_ca"]
                .into_iter()
                .find(|name| self.given[*name].source != Source::Default);
            return match unused {
                None => Some(None),
                Some(name) => {
                    self.problem(name, "is of no use without acme_domain");
                    None
                }
            };
        }
        let mut seen = BTreeSet::new();
        domains.retain(|domain| seen.insert(domain.clone()));
        let email = email.map(|email| email.to_string());
        Some(Some(AcmePlan { domains, email, directory, ca }))
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn mail(&mut self) -> Option<Option<MailPlan>> {
        let server =
            self.optional("mail_server", "a host, or a host and a port: mail.example.com:587", mail_server);
        let from = self.optional("mail_from", "a sender such as `ipse <ipse@example.com>`", |text| {
            text.parse::<Sender>().ok()
        });
        let tls = self.optional("mail_tls", "starttls, implicit or none", |text| match text {
            "starttls" => Some(MailTls::StartTls),
            "implicit" => Some(MailTls::Implicit),
            "none" => Some(MailTls::None),
            _ => None,
        });
        let user = self.optional("mail_user", "a name", |text| (!text.is_empty()).then(|| text.to_owned()));
        let password = self.optional("mail_password", "a text", |text| Some(text.to_owned()));
        let password_file = self.optional("mail_password_file", "a file that can be read", read_text);
        let authority = self.optional("mail_ca", "a file that can be read", read_text);
        let (server, from, tls, user) = (server?, from?, tls?, user?);
        let (password, password_file, authority) = (password?, password_file?, authority?);
        let Some((host, port)) = server else {
            let unused =
                ["mail_from", "mail_tls", "mail_user", "mail_password", "mail_password_file", "mail_ca"]
                    .into_iter()
                    .find(|name| !self.given[*name].values.is_empty());
            return match unused {
                None => Some(None),
                Some(name) => {
                    self.problem(name, "is of no use without mail_server");
                    None
                }
            };
        };
        if password.is_some() && password_file.is_some() {
            self.problem("mail_password", "and mail_password_file cannot both be set");
            return None;
        }
        let login = match (user, password.or_else(|| password_file.map(|text| text.trim_end().to_owned()))) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            (Some(_), None) => {
                self.problem("mail_user", "needs a password: set mail_password_file or mail_password");
                return None;
            }
            (None, Some(_)) => {
                self.problem("mail_password", "is of no use without mail_user");
                return None;
            }
        };
        let Some(from) = from else {
            self.problem("mail_server", "needs a sender: set mail_from");
            return None;
        };
        let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let tls = tls.unwrap_or(match port {
            465 => MailTls::Implicit,
            _ if is_here => MailTls::None,
            _ => MailTls::StartTls,
        });
        let authority = authority.map(String::into_bytes);
        Some(Some(MailPlan { host, port, tls, login, from, authority }))
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn database(&mut self) -> Option<Option<DatabaseUrl>> {
        self.with_password(
            "database",
            "database_password_file",
            DatabaseUrl::has_password,
            DatabaseUrl::with_password,
        )
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn counters(&mut self) -> Option<Option<SharedPlan>> {
        let url = self.with_password(
            "counters",
            "counters_password_file",
            CountersUrl::has_password,
            |url, password| url.with_password(password.to_owned()),
        );
        let authority =
            self.optional("counters_ca", "a file that holds certificates, PEM", read_certificates);
        let outage = self.one("outage", "closed, lease or open", |text| match text {
            "closed" => Some(Outage::Closed),
            "lease" => Some(Outage::Lease),
            "open" => Some(Outage::Open),
            _ => None,
        });
        let patience =
            self.one("outage_after_ms", "a number from 1 to 60000", |text| number(text, 1, 60_000));
        let (url, authority, outage, patience) =
            (url?, authority?, outage?, Duration::from_millis(patience?));
        let is_tls = url.as_ref().is_some_and(CountersUrl::is_tls);
        if authority.is_some() && !is_tls {
            self.problem("counters_ca", "is of no use without counters that are encrypted: rediss://");
            return None;
        }
        if url.is_none() && outage != Outage::Closed {
            self.problem("outage", "is of no use without counters");
            return None;
        }
        let authority = authority.map(String::into_bytes);
        Some(url.map(|url| SharedPlan { url, authority, outage, patience, clock: SharedClock::Engine }))
    }

    /// A URL that may hold a password, or have it in a file. What was written is not repeated for that.
    #[expect(clippy::option_option, reason = "see `optional`")]
    fn with_password<T: FromStr<Err: std::fmt::Display>>(
        &mut self,
        name: &str,
        file: &str,
        has_password: impl Fn(&T) -> bool,
        put: impl Fn(T, &str) -> T,
    ) -> Option<Option<T>> {
        let password = self.optional(file, "a file that can be read", read_text)?;
        let Some(text) = self.given[name].values.last() else {
            if password.is_some() {
                self.problem(file, &format!("is of no use without {name}"));
                return None;
            }
            return Some(None);
        };
        match (text.parse::<T>(), password) {
            (Err(why), _) => {
                self.problem(name, &why.to_string());
                None
            }
            (Ok(url), Some(_)) if has_password(&url) => {
                self.problem(name, &format!("holds a password, and {file} cannot be set beside it"));
                None
            }
            (Ok(url), Some(password)) => Some(Some(put(url, password.trim_end()))),
            (Ok(url), None) => Some(Some(url)),
        }
    }

    fn facts(&mut self) -> Option<FactHeaders> {
        let mut header =
            |name| self.optional(name, "the name of a header", |text| HeaderName::from_str(text).ok());
        let [tls_version, tls_cipher, http_version, rtt, colo] =
            ["tls_version_header", "tls_cipher_header", "http_version_header", "rtt_header", "colo_header"]
                .map(&mut header);
        let (tls_version, tls_cipher, http_version) = (tls_version?, tls_cipher?, http_version?);
        Some(FactHeaders { tls_version, tls_cipher, http_version, rtt: rtt?, colo: colo? })
    }

    fn switch(&mut self, name: &str) -> Option<bool> {
        self.one(name, "yes or no", |text| match text {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        })
    }

    fn operator(&mut self) -> Option<Operator> {
        let contact = self.optional(
            "contact",
            "an e-mail address such as you@example.com, or an address that begins with https://",
            |text| text.parse::<Contact>().ok(),
        );
        let [privacy, terms] = ["privacy_file", "terms_file"].map(|name| self.document(name));
        Some(Operator { contact: contact?, privacy: privacy?, terms: terms? })
    }

    /// A text that pages show, read now: a server that runs must not find out that it is missing.
    #[expect(clippy::option_option, reason = "see `optional`")]
    fn document(&mut self, name: &str) -> Option<Option<Document>> {
        let Some(path) = self.optional(name, "the path of a file", file)? else { return Some(None) };
        let mut text = String::new();
        // One byte more than allowed is enough to see that there is too much.
        let most = u64::try_from(Document::MOST_BYTES).ok()?.saturating_add(1);
        let read = File::open(&path).and_then(|file| file.take(most).read_to_string(&mut text));
        let read = read.map_err(|error| format!("cannot be read: {error}"));
        match read.and_then(|_| Document::read(&text).map_err(|fault| fault.to_string())) {
            Ok(document) => Some(Some(document)),
            Err(what) => {
                self.problem(name, &format!("{} {what}", path.display()));
                None
            }
        }
    }

    fn geo_updates(&mut self) -> Option<GeoUpdates> {
        let sources = self.sources();
        let flags = self.each("geo_flags", "the path of a file", file);
        let hours =
            self.one("geo_update_hours", "a number of hours from 1 to 8760, or 0 for never", |text| {
                number(text, 0, 8760)
            });
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let account = self.optional("maxmind_account", "the number of an account", |text| {
            is_number(text).then(|| text.to_owned())
        });
        let key_file = self.optional("maxmind_key_file", "the path of a file", file);
        let key = self.licence_key();
        let (sources, account, key_file, key) = (sources?, account?, key_file?, key?);
        let key = match (key_file, key) {
            (Some(_), Some(_)) => {
                self.problem("maxmind_key", "and maxmind_key_file cannot both be set; keep the file");
                return None;
            }
            (Some(file), None) => Some(LicenceKey::File(file)),
            (None, Some(key)) => Some(LicenceKey::Text(key)),
            (None, None) => None,
        };
        let maxmind = match (account, key) {
            (Some(account), Some(key)) => Some(MaxMind { account, key }),
            (Some(_), None) => {
                self.problem("maxmind_account", "needs the licence key as well: set maxmind_key_file");
                return None;
            }
            (None, key) => {
                let name = match key {
                    Some(LicenceKey::File(_)) => Some("maxmind_key_file"),
                    Some(LicenceKey::Text(_)) => Some("maxmind_key"),
                    None => None,
                };
                if let Some(name) = name {
                    self.problem(name, "needs the number of the account as well: set maxmind_account");
                    return None;
                }
                None
            }
        };
        let theirs = |wanted: &&Wanted| matches!(wanted.supply, Supply::MaxMind { .. });
        if let (None, Some(wanted)) = (&maxmind, sources.iter().find(theirs)) {
            let what = format!(
                "{:?} needs an account: set maxmind_account and maxmind_key_file",
                wanted.to_string()
            );
            self.problem("geo_source", &what);
            return None;
        }
        let every = hours?.checked_mul(3600).filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Some(GeoUpdates {
            sources,
            flags: flags?,
            maxmind,
            vendors: Vendors::default(),
            rhythm: every.map(Rhythm::of),
        })
    }

    /// Sources say themselves what is wrong with them, because they may hold secrets.
    fn sources(&mut self) -> Option<Vec<Wanted>> {
        let given = &self.given["geo_source"];
        if given.values.is_empty() {
            self.problem("geo_source", "is empty; allowed is KIND:SOURCE, such as city:dbip-city-lite");
            return None;
        }
        let parsed: Vec<_> = given.values.iter().map(|text| text.parse::<Wanted>()).collect();
        for error in parsed.iter().filter_map(|wanted| wanted.as_ref().err()) {
            self.problem("geo_source", &error.to_string());
        }
        parsed.into_iter().collect::<Result<_, _>>().ok()
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn licence_key(&mut self) -> Option<Option<Secret>> {
        let Some(text) = self.given["maxmind_key"].values.first() else { return Some(None) };
        let key = Secret::read(text);
        if key.is_none() {
            self.problem("maxmind_key", "is no licence key: it must be one word of letters, digits and _");
        }
        key.map(Some)
    }

    fn problem(&mut self, name: &str, what: &str) {
        let place = place(name, &self.given[name].source);
        self.problems.push(format!("  {place}: {what}"));
    }

    /// Any number of values, none included.
    fn each<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        if self.given[name].values.is_empty() { Some(Vec::new()) } else { self.all(name, allowed, parse) }
    }

    fn all<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        let given = &self.given[name];
        if given.values.is_empty() {
            self.problems.push(format!("  {}: is empty; allowed is {allowed}", place(name, &given.source)));
            return None;
        }
        let mut parsed = Vec::new();
        for text in &given.values {
            match parse(text) {
                Some(value) => parsed.push(value),
                None => self.problems.push(format!(
                    "  {}: {text:?} is not allowed; allowed is {allowed}",
                    place(name, &given.source)
                )),
            }
        }
        (parsed.len() == given.values.len()).then_some(parsed)
    }

    fn one<T>(&mut self, name: &str, allowed: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.all(name, allowed, parse).and_then(|mut values| values.pop())
    }

    #[expect(
        clippy::option_option,
        reason = "the outer one says whether it could be read, the inner one whether it is set"
    )]
    fn optional<T>(
        &mut self,
        name: &str,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.given[name].values.is_empty() { Some(None) } else { self.one(name, allowed, parse).map(Some) }
    }

    #[expect(clippy::option_option, reason = "see `optional`")]
    fn url(&mut self, name: &str) -> Option<Option<String>> {
        self.optional(name, "an address that begins with http:// or https://, without ? or #", url)
    }

    fn proxies(&mut self) -> Option<Vec<IpNet>> {
        if self.given["trusted_proxy"].values == ["none"] {
            return Some(Vec::new());
        }
        self.all("trusted_proxy", "a network such as 10.0.0.0/8, an address, or `none` alone", network)
    }
}

/// What is said of an address at which others than this machine could connect.
pub(crate) const OPEN_TO_OTHERS: &str = "would show others than this machine how the server is doing, without a password: \
     keep it to loopback, or put a firewall before it and say so with admin_open";

/// Whether nobody but this machine can connect to an address, as far as that is known before it is opened.
fn is_of_this_machine(address: &ListenAddr) -> bool {
    match address {
        ListenAddr::Socket(address) => address.ip().to_canonical().is_loopback(),
        ListenAddr::Localhost(_) | ListenAddr::Unix(_) | ListenAddr::Handed(_) => true,
    }
}

const LISTEN: &str = "IP:PORT, [IPv6]:PORT, localhost:PORT, unix:PATH or systemd:NAME";
const HOST: &str = "a DNS name such as v4.ip.example.com, or NAME:PORT";
const TLS_LISTEN: &str = "IP:PORT, [IPv6]:PORT, localhost:PORT or systemd:NAME";

fn place(name: &str, source: &Source) -> String {
    match source {
        Source::Default => format!("{name} (default)"),
        Source::File(path) => format!("file {path}, {name}"),
        source => source.to_string(),
    }
}

fn number(text: &str, least: u64, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// A mail server as people write it; without a port, the one at which clients hand mail in.
fn mail_server(text: &str) -> Option<(String, u16)> {
    const SUBMISSION: u16 = 587;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (host, port) = match text.rsplit_once(':') {
        _ if bare.is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()) => (text, SUBMISSION),
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, SUBMISSION),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    let named = !host.is_empty() && (!host.contains(':') || host.parse::<Ipv6Addr>().is_ok());
    (plain && named && port > 0).then(|| (host.to_owned(), port))
}

/// An address without its password.
fn shown<T: FromStr + ToString>(values: &[String]) -> String {
    let shown = values.last().and_then(|text| text.parse::<T>().ok()).map(|url| url.to_string());
    shown.unwrap_or_else(|| "(hidden)".to_owned())
}

fn read_text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// A file in which there is a certificate at least.
fn read_certificates(path: &str) -> Option<String> {
    read_text(path).filter(|text| text.contains("-----BEGIN CERTIFICATE-----"))
}

/// A name that an authority can be shown to be ours: no address, and no wildcard, which TLS-ALPN-01 cannot prove.
fn dns_name(text: &str) -> Option<String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let named =
        text.len() <= 253 && text.split('.').all(is_label) && !text.rsplit('.').next().is_some_and(is_number);
    named.then(|| text.to_ascii_lowercase())
}

/// A name, perhaps with a port. It is no address, because pages tell browsers by name whom they may ask.
fn host(text: &str) -> Option<String> {
    match text.split_once(':') {
        Some((name, port)) => {
            let port = port.parse::<NonZeroU16>().ok()?;
            dns_name(name).map(|name| format!("{name}:{port}"))
        }
        None => dns_name(text),
    }
}

/// The directory of an authority, to the letter: another text is another authority.
fn directory(text: &str) -> Option<String> {
    let uri = text.parse::<http::Uri>().ok()?;
    let is_https = uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| !host.is_empty());
    let has_password = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    (is_https && !has_password && !text.contains('#')).then(|| text.to_owned())
}

/// Sources as they may be shown.
fn sources(texts: &[String]) -> Vec<String> {
    let shown =
        |text: &String| text.parse::<Wanted>().map_or_else(|_| "…".to_owned(), |wanted| wanted.to_string());
    texts.iter().map(shown).collect()
}

fn level(text: &str) -> Option<Level> {
    let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    levels.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(text))
}

/// A network or one address; IPv4 in the clothes of IPv6 is unwrapped, because that is how peers are compared.
fn network(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    match network {
        IpNet::V6(v6) => match v6.addr().to_ipv4_mapped() {
            Some(v4) => IpNet::new(v4.into(), v6.prefix_len().checked_sub(96)?).ok(),
            None => Some(network),
        },
        IpNet::V4(_) => Some(network),
    }
}

fn url(text: &str) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = rest.split('/').next().unwrap_or_default();
    let plain = !text.contains(|c: char| c.is_whitespace() || c.is_control() || "?#\"<>\\".contains(c));
    (!host.is_empty() && plain).then(|| text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<Config, String> {
        Config::from_settings(settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_database_is_a_url_whose_password_nobody_reads() {
        let url = "postgres://me:hush@db.example.com/ipse";
        let config = read(&[("database", url)]).unwrap();
        assert_eq!(config.database.unwrap().to_string(), "postgres://me@db.example.com:5432/ipse");
        for (text, expected) in [
            ("mysql://me:hush@db/ipse", "postgres://ipse@db.example.com/ipse"),
            ("postgres://me:hush@db/ipse?what=hush", "`what`"),
            ("postgres://me:hush@db", "does not end with"),
        ] {
            let error = read(&[("database", text)]).unwrap_err();
            assert!(error.contains("IPSE_DATABASE: ") && error.contains(expected), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "hush\n").unwrap();
        let file = file.to_str().unwrap();
        let config =
            read(&[("database", "postgres://me@db/ipse"), ("database_password_file", file)]).unwrap();
        assert!(config.database.unwrap().has_password());
        let error = read(&[("database", url), ("database_password_file", file)]).unwrap_err();
        assert!(error.contains("cannot be set beside it") && !error.contains("hush"), "{error}");
        let error = read(&[("database_password_file", file)]).unwrap_err();
        assert!(error.contains("is of no use without database"), "{error}");
        let error = read(&[("database", "postgres://me@db/ipse"), ("database_password_file", "/no/such")]);
        assert!(error.unwrap_err().contains("a file that can be read"));
    }

    #[test]
    fn shared_counters_are_a_url_whose_password_nobody_reads() {
        let config = read(&[("counters", "redis://me:hush@one.example.com/2"), ("outage", "lease")]).unwrap();
        let plan = config.counters.unwrap();
        assert_eq!(plan.url.to_string(), "redis://one.example.com:6379/2");
        assert_eq!((plan.outage, plan.patience), (Outage::Lease, Duration::from_millis(45)));
        let folder = tempfile::tempdir().unwrap();
        let pem = folder.path().join("ca.pem");
        std::fs::write(&pem, "-----BEGIN CERTIFICATE-----").unwrap();
        for (settings, expected) in [
            (&[("counters", "http://me:hush@one")][..], "must begin with redis://"),
            (&[("outage", "open")], "is of no use without counters"),
            (&[("counters", "redis://one"), ("outage", "hush")], "closed, lease or open"),
            (&[("counters_password_file", "/dev/null")], "is of no use without counters"),
            (&[("counters", "redis://one"), ("counters_ca", pem.to_str().unwrap())], "rediss://"),
            (
                &[("counters", "rediss://one"), ("counters_ca", "/dev/null")],
                "a file that holds certificates, PEM",
            ),
        ] {
            let error = read(settings).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(!read(&[("counters", "http://me:hush@one")]).unwrap_err().contains("hush"));
    }

    #[test]
    fn nothing_needs_to_be_set() {
        let config = read(&[]).unwrap();
        assert_eq!(config.listen, [ListenAddr::Localhost(8080)]);
        assert_eq!(config.data_dir, PathBuf::from("./ipse-data"));
        assert_eq!(config.trust.proxies.len(), 2);
        assert_eq!(config.trust.header, AddressHeader::Auto);
    }

    #[test]
    fn every_mistake_is_reported_at_once_by_name_with_what_is_allowed() {
        let error = read(&[
            ("listen", "somewhere"),
            ("colo", "AMST"),
            ("pretend_ip", "me"),
            ("max_connections", "0"),
            ("trusted_proxy", "10.0.0.0/8, 10.0.0.0/99"),
            ("log_level", "loud"),
            ("base_url", "https://x/with/path"),
            ("no_such", "x"),
        ])
        .unwrap_err();
        for part in [
            "IPSE_LISTEN: \"somewhere\"",
            "localhost:PORT",
            "IPSE_COLO: \"AMST\"",
            "IPSE_PRETEND_IP: \"me\"",
            "IPSE_MAX_CONNECTIONS: \"0\"",
            "from 1 to 1000000",
            "IPSE_TRUSTED_PROXY: \"10.0.0.0/99\"",
            "IPSE_LOG_LEVEL: \"loud\"",
            "IPSE_BASE_URL: \"https://x/with/path\"",
            "IPSE_NO_SUCH: no such setting",
        ] {
            assert!(error.contains(part), "{part} is missing in {error}");
        }
    }

    #[track_caller]
    fn wrong(settings: &[(&str, &str)], sentence: &str) {
        let error = read(settings).unwrap_err();
        assert_eq!(error, format!("the configuration is not valid:\n  {sentence}"));
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn sources_of_geo_data_are_checked_and_show_no_secret() {
        let account = ("maxmind_account", "42");
        let config = read(&[account, ("maxmind_key", "secret_1"), ("geo_update_hours", "24")]).unwrap();
        assert!(!format!("{config:?}").contains("secret"), "{config:?}");
        assert_eq!(config.geo_updates.sources.len(), 2);
        wrong(
            &[("geo_source", "city:geolite")],
            "environment IPSE_GEO_SOURCE: \"city:geolite\" is not allowed: the source after the colon must be \
             dbip-city-lite, dbip-asn-lite, maxmind:EDITION, an address that begins with https:// or http://, or the \
             path of a file with a / in it",
        );
        wrong(
            &[("geo_source", "city:https://a.example/x?key=secret#md5=1")],
            "environment IPSE_GEO_SOURCE: \"city:…\" is not allowed: behind a # only sha256=… may stand",
        );
        wrong(
            &[("geo_source", "")],
            "environment IPSE_GEO_SOURCE: is empty; allowed is KIND:SOURCE, such as city:dbip-city-lite",
        );
        wrong(
            &[("geo_source", "city:maxmind:GeoLite2-City")],
            "environment IPSE_GEO_SOURCE: \"city:maxmind:GeoLite2-City\" needs an account: set maxmind_account and \
             maxmind_key_file",
        );
        wrong(
            &[account],
            "environment IPSE_MAXMIND_ACCOUNT: needs the licence key as well: set maxmind_key_file",
        );
        wrong(
            &[("maxmind_key", "secret_1")],
            "environment IPSE_MAXMIND_KEY: needs the number of the account as well: set maxmind_account",
        );
        wrong(
            &[account, ("maxmind_key", "secret key")],
            "environment IPSE_MAXMIND_KEY: is no licence key: it must be one word of letters, digits and _",
        );
        wrong(
            &[account, ("maxmind_key", "secret_1"), ("maxmind_key_file", "/key")],
            "environment IPSE_MAXMIND_KEY: and maxmind_key_file cannot both be set; keep the file",
        );
        wrong(
            &[("maxmind_account", "me"), ("maxmind_key_file", "/key")],
            "environment IPSE_MAXMIND_ACCOUNT: \"me\" is not allowed; allowed is the number of an account",
        );
        wrong(
            &[("geo_update_hours", "-1")],
            "environment IPSE_GEO_UPDATE_HOURS: \"-1\" is not allowed; allowed is a number of hours from 1 to 8760, or \
             0 for never",
        );
    }

    #[test]
    fn an_operators_texts_are_read_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
        let write = |name: &str, content: &[u8]| {
            std::fs::write(path(name), content).unwrap();
            path(name)
        };
        assert!(read(&[]).unwrap().operator.contact.is_none());
        let good = write("good.md", b"# Rules\n\nBe kind.\n");
        let settings = [("contact", "ops@example.com"), ("privacy_file", &good), ("terms_file", &good)];
        let operator = read(&settings).unwrap().operator;
        assert!(
            operator.contact.is_some() && operator.privacy.is_some() && operator.terms == operator.privacy
        );
        let (missing, blank) = (path("missing.md"), write("blank.md", b" \n"));
        let missing_reason = "cannot be read: No such file or directory (os error 2)";
        wrong(
            &[("privacy_file", &missing)],
            &format!("environment IPSE_PRIVACY_FILE: {missing} {missing_reason}"),
        );
        wrong(&[("terms_file", &blank)], &format!("environment IPSE_TERMS_FILE: {blank} is empty"));
        let latin = write("latin.md", b"caf\xe9");
        wrong(
            &[("terms_file", &latin)],
            &format!(
                "environment IPSE_TERMS_FILE: {latin} cannot be read: stream did not contain valid UTF-8"
            ),
        );
        wrong(
            &[("terms_file", "/dev/zero")],
            "environment IPSE_TERMS_FILE: /dev/zero is longer than 256 KiB",
        );
        wrong(
            &[("contact", "http://example.com")],
            "environment IPSE_CONTACT: \"http://example.com\" is not allowed; allowed is an e-mail address such as \
             you@example.com, or an address that begins with https://",
        );
    }

    #[test]
    fn nobody_is_trusted_if_none_is_said() {
        assert_eq!(read(&[("trusted_proxy", "none")]).unwrap().trust.proxies, []);
        assert!(read(&[("trusted_proxy", "none,10.0.0.0/8")]).is_err());
        assert!(read(&[("trusted_proxy", "")]).is_err());
    }

    #[test]
    fn networks_are_unwrapped_and_addresses_are_networks() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(network(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
        check("10.0.0.0/8", Some("10.0.0.0/8"));
        check("10.0.0.1", Some("10.0.0.1/32"));
        check("2001:db8::1", Some("2001:db8::1/128"));
        check("::ffff:10.0.0.0/104", Some("10.0.0.0/8"));
        check("::ffff:10.0.0.0/90", None);
        check("10.0.0.0/33", None);
        check("x", None);
    }

    #[test]
    fn the_base_url_is_where_the_first_door_is() {
        #[track_caller]
        fn check(listen: &str, expected: &str) {
            let config = read(&[("listen", listen)]).unwrap();
            assert_eq!(config.base_url_at(config.listen.first().and_then(ListenAddr::first), None), expected);
        }
        check("localhost:8080", "http://localhost:8080");
        check("127.0.0.1:80", "http://localhost:80");
        check("[::]:8080", "http://localhost:8080");
        check("127.0.0.2:8080", "http://127.0.0.2:8080");
        check("[2001:db8::1]:8080", "http://[2001:db8::1]:8080");
        let both = ["127.0.0.1:80", "127.0.0.1:443"].map(|address| address.parse().ok());
        assert_eq!(read(&[]).unwrap().base_url_at(both[0], both[1]), "https://localhost:443");
    }

    #[test]
    fn https_needs_doors_and_certificates() {
        #[track_caller]
        fn check(settings: &[(&str, &str)], expected: &str) {
            let error = read(settings).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let listen = ("tls_listen", "127.0.0.1:8443");
        check(&[listen], "IPSE_TLS_LISTEN: needs a certificate");
        check(&[listen, ("tls_cert", "a.pem")], "needs one tls_key for each");
        check(
            &[listen, ("tls_cert", "a"), ("tls_key", "b"), ("tls_self_signed", "yes")],
            "cannot both be set",
        );
        check(&[("tls_self_signed", "yes")], "is of no use without tls_listen");
        check(&[("tls_cert", "a"), ("tls_key", "b")], "is of no use without tls_listen");
        check(&[("https_redirect", "yes")], "has nowhere to send callers");
        check(&[("https_redirect", "maybe")], "allowed is yes or no");
        let tls =
            read(&[listen, ("tls_cert", "a,c"), ("tls_key", "b,d"), ("hsts_seconds", "60")]).unwrap().tls;
        assert_eq!((tls.certificates.len(), tls.hsts), (2, Some(Duration::from_secs(60))));
        assert_eq!(tls.certificates[1].key, PathBuf::from("d"));
        let (files, named) =
            ([listen, ("tls_cert", "a"), ("tls_key", "b")], ("base_url", "https://ip.example.com"));
        let hsts = |more: &[(&str, &str)]| read(&[&files, more].concat()).unwrap().tls.hsts;
        assert_eq!(hsts(&[]), None);
        assert!(read(&[named]).unwrap().tls.hsts.is_some(), "a proxy may speak HTTPS for us");
        assert_eq!(hsts(&[named]), Some(Duration::from_secs(31_536_000)));
        assert_eq!(hsts(&[named, ("hsts_seconds", "0")]), None);
        assert_eq!(read(&[listen, ("tls_self_signed", "yes"), named]).unwrap().tls.hsts, None);
        check(&[("listen", "none")], "there is no other door");
        let alone = read(&[("listen", "none"), listen, ("tls_self_signed", "yes")]).unwrap();
        assert_eq!(alone.listen, []);
        check(&[("proxy_listen", "127.0.0.1:0"), ("trusted_proxy", "none")], "would serve nobody");
    }

    #[test]
    fn the_port_of_https_is_that_of_the_base_url() {
        #[track_caller]
        fn check(base_url: &str, expected: Option<u16>) {
            assert_eq!(read(&[("base_url", base_url)]).unwrap().public_https_port(), expected, "{base_url}");
        }
        check("https://ip.example.com", Some(443));
        check("https://ip.example.com:8443", Some(8443));
        check("https://[2001:db8::1]", Some(443));
        check("https://[2001:db8::1]:8443", Some(8443));
        check("http://ip.example.com", None);
        assert_eq!(read(&[]).unwrap().public_https_port(), None);
    }

    #[test]
    fn an_authority_needs_names_and_a_door() {
        let listen = ("tls_listen", "127.0.0.1:8443");
        let domain = ("acme_domain", "ip.example.com");
        wrong(&[domain], "environment IPSE_ACME_DOMAIN: is of no use without tls_listen");
        wrong(
            &[listen, domain, ("tls_self_signed", "yes")],
            "environment IPSE_TLS_SELF_SIGNED: and acme_domain cannot both be set",
        );
        for (name, value) in
            [("acme_email", "a@b.example"), ("acme_directory", "https://a.example"), ("acme_ca", "ca.pem")]
        {
            let variable = format!("IPSE_{}", name.to_uppercase());
            wrong(&[(name, value)], &format!("environment {variable}: is of no use without acme_domain"));
        }
        wrong(
            &[listen, domain, ("acme_email", "me")],
            "environment IPSE_ACME_EMAIL: \"me\" is not allowed; allowed is an e-mail address such as you@example.com",
        );
        for directory in
            ["http://a.example/dir", "a.example", "https://", "https://a:b@a.example/", "https://a b"]
        {
            let error = read(&[listen, domain, ("acme_directory", directory)]).unwrap_err();
            assert!(error.contains("allowed is an address that begins with https://"), "{error}");
        }
        let tls = read(&[listen, ("acme_domain", "IP.example.com, b.example,ip.example.com")]).unwrap().tls;
        let acme = tls.acme.unwrap();
        assert_eq!(acme.domains, ["ip.example.com", "b.example"]);
        assert_eq!(acme.directory, "https://acme-v02.api.letsencrypt.org/directory");
        assert_eq!((acme.email, acme.ca), (None, None));
        let all = [
            listen,
            domain,
            ("tls_cert", "a"),
            ("tls_key", "b"),
            ("acme_email", "You@example.com"),
            ("acme_directory", "https://ca.internal:9000/acme/acme/directory"),
            ("acme_ca", "root.pem"),
        ];
        let tls = read(&all).unwrap().tls;
        assert_eq!(
            (tls.certificates.len(), tls.acme.unwrap().email.as_deref()),
            (1, Some("you@example.com"))
        );
    }

    #[test]
    fn only_names_can_be_proven() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(dns_name(text).as_deref(), expected, "{text}");
        }
        check("ip.example.com", Some("ip.example.com"));
        check("IP.Example.com", Some("ip.example.com"));
        check("xn--bcher-kva.example", Some("xn--bcher-kva.example"));
        check("1.2.3.example", Some("1.2.3.example"));
        check("intranet", Some("intranet"));
        let long = [&"a".repeat(64), ".example"].concat();
        let longer = ["aaaaaaa."; 32].concat() + "example";
        for text in [
            "",
            "*.example.com",
            "127.0.0.1",
            "::1",
            "[::1]",
            "example.com.",
            ".example.com",
            "a..b",
            "-a.example",
            "a-.example",
            "a_b.example",
            "bücher.example",
            "a.example:443",
            "https://a.example",
            "a b",
            &long,
            &longer,
        ] {
            check(text, None);
        }
    }

    #[test]
    fn a_host_of_one_family_is_a_name() {
        #[track_caller]
        fn check(text: &str, expected: Option<[&str; 2]>) {
            let found = read(&[("ipv4_host", text)]).ok();
            let origins = found.map(|config| {
                ["https://ip.example.com", "http://localhost:8080"]
                    .map(|base_url| config.links(base_url.to_owned()).ipv4_origin.unwrap())
            });
            assert_eq!(origins, expected.map(|origins| origins.map(str::to_owned)), "{text}");
        }
        check("v4.example.com", Some(["https://v4.example.com", "http://v4.example.com"]));
        check("V4.example.com:8443", Some(["https://v4.example.com:8443", "http://v4.example.com:8443"]));
        for text in [
            "https://v4.example.com",
            "v4.example.com/",
            "v4.example.com:0",
            "v4.example.com:x",
            "v4.example.com:1:2",
            "a b",
            "192.0.2.1",
            "2001:db8::1",
            "[2001:db8::1]:8080",
        ] {
            check(text, None);
        }
        let links = read(&[("ipv6_host", "v6.example.com")]).unwrap().links("http://localhost".to_owned());
        assert_eq!((links.ipv4_origin, links.ipv6_origin.as_deref()), (None, Some("http://v6.example.com")));
        wrong(
            &[("ipv6_host", "https://v6.example")],
            "environment IPSE_IPV6_HOST: \"https://v6.example\" is not allowed; allowed is a DNS name such as \
             v4.ip.example.com, or NAME:PORT",
        );
    }

    #[test]
    fn urls_have_a_scheme_and_a_host_and_lose_their_last_slash() {
        assert_eq!(url("https://ip.example.com/").as_deref(), Some("https://ip.example.com"));
        assert_eq!(url("http://localhost:8080/x").as_deref(), Some("http://localhost:8080/x"));
        for text in ["", "example.com", "https://", "https:///x", "https://a b", "https://a?b", "https://a#b"]
        {
            assert_eq!(url(text), None, "{text:?}");
        }
    }
}
