//! `ipse doctor`: who is believed, who could lie, and what became of one request.

use super::{moment, print, print_json};
use crate::config::{Config, Settings};
use crate::error::Error;
use crate::settings::ServeFlags;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use ipse_edge::{
    AddressHeader, Clock, Connection, Diagnosis, FactHeaders, FactName, Hop, KnownFact, ListenAddr, Peer,
    Reading, Remark,
};
use ipse_model::Address;
use ipse_site::{Examination, examination_as_text, lie, remarks_as_text};
use ipse_store::{DataFolder, DoctorLinks, Error as StoreError};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::IpAddr;

#[derive(Args)]
pub(super) struct Doctor {
    /// Judge a request of this peer, without a server
    #[arg(long, value_name = "IP")]
    peer: Option<IpAddr>,
    /// A header of that request; repeatable
    #[arg(long, value_name = "'NAME: VALUE'", value_parser = header, requires = "peer")]
    header: Vec<(HeaderName, HeaderValue)>,
    /// Print an object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: ServeFlags,
}

pub(super) fn run(command: &Doctor) -> Result<(), Error> {
    let (config, settings) = Config::read(&command.flags.0, std::env::vars_os())?;
    match command.peer {
        Some(peer) => judge(&config, peer, &command.header, command.json),
        None => review(&config, &settings, command.json),
    }
}

/// What would become of a request that nobody made.
fn judge(
    config: &Config,
    peer: IpAddr,
    lines: &[(HeaderName, HeaderValue)],
    json: bool,
) -> Result<(), Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value.clone());
    }
    let trust = &config.trust;
    let diagnosis = &trust.explain(&Connection::imagined(peer), &headers);
    let setup = &trust.review(&config.entrances());
    if json {
        return print_json(&diagnosis_json(diagnosis, setup));
    }
    print(&examination_as_text(&Examination { diagnosis, setup, forged: &[] }))
}

/// What is to be said before anybody calls, and a link to see what becomes of a request.
fn review(config: &Config, settings: &Settings, as_json: bool) -> Result<(), Error> {
    let remarks = config.trust.review(&config.entrances());
    let (base_url, is_set) = settings.base_url();
    let link = make_link(config, base_url)?;
    if as_json {
        let doors = |speaks: &str, doors: &[ListenAddr]| -> Vec<Value> {
            doors.iter().map(|at| json!({ "at": at.to_string(), "speaks": speaks })).collect()
        };
        let doors = [
            doors("http", &config.listen),
            doors("https", &config.tls.listen),
            doors("proxy", &config.proxy_listen),
        ];
        let trusted: Vec<String> = config.trust.proxies.iter().map(ToString::to_string).collect();
        return print_json(&json!({
            "doors": doors.concat(),
            "trusted_proxy": trusted,
            "headers": { "address": address_header(config), "facts": fact_headers(&config.trust.facts) },
            "remarks": remarks_json(&remarks),
            "link": link.as_ref().map(|link| &link.url),
            "link_ends": link.as_ref().map(|link| &link.ends),
        }));
    }
    let mut text = String::new();
    for (heading, doors) in [
        ("Clear HTTP at", &config.listen),
        ("HTTPS at", &config.tls.listen),
        ("PROXY protocol at", &config.proxy_listen),
    ] {
        if !doors.is_empty() {
            row(&mut text, heading, &list(doors, "none"));
        }
    }
    row(&mut text, "Trusted proxies", &list(&config.trust.proxies, "none"));
    row(&mut text, "Caller's address", &address_header(config));
    for (setting, header) in fact_headers(&config.trust.facts) {
        row(&mut text, &setting, header.as_str().unwrap_or("not set"));
    }
    remarks_as_text(&mut text, "About the configuration", &remarks);
    match link {
        Some(link) => {
            let forged = lie(&config.trust.forged_headers(), &link.url).replace('\n', "\n  ");
            let _ = write!(
                text,
                "
To see what the running server makes of one request, open this from outside, through your proxy, in a
browser or with curl. It shows that very request, to whoever has the link, until {ends}:

  {url}

To try whether a caller could lie about its address, send what a liar would send:

  {forged}
",
                ends = link.ends,
                url = link.url,
            );
            if !is_set {
                let _ = write!(
                    text,
                    "\nbase_url is not set: write the address by which callers reach your proxy in the place of\n{base_url}.\n"
                );
            }
        }
        None => {
            let _ = write!(
                text,
                "\nThere is no link, because there is no data at {} yet: start the server first, or name its folder with\n--data-dir.\n",
                config.data_dir.display(),
            );
        }
    }
    print(&text)
}

struct Link {
    url: String,
    ends: String,
}

/// A link to the running server; `None` if none has ever run in the data folder.
fn make_link(config: &Config, base_url: &str) -> Result<Option<Link>, Error> {
    let found = match &config.database {
        Some(_) if config.data_dir.is_dir() => Ok(DataFolder::named(&config.data_dir)),
        _ => DataFolder::existing(&config.data_dir),
    };
    let folder = match found {
        Ok(folder) => folder,
        Err(StoreError::NoData(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (token, ends) = DoctorLinks::of(&folder).make(Clock::system().now())?;
    Ok(Some(Link { url: format!("{base_url}/doctor/{}", token.reveal()), ends: moment(ends * 1000) }))
}

fn row(text: &mut String, heading: &str, value: &str) {
    let _ = writeln!(text, "{heading:21}{value}");
}

fn list<T: ToString>(items: &[T], none: &str) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    if items.is_empty() { none.to_owned() } else { items.join(", ") }
}

fn address_header(config: &Config) -> String {
    match &config.trust.header {
        AddressHeader::Auto => "x-forwarded-for or forwarded".to_owned(),
        AddressHeader::XForwardedFor => "x-forwarded-for".to_owned(),
        AddressHeader::Forwarded => "forwarded".to_owned(),
        AddressHeader::Single(name) => name.to_string(),
    }
}

/// The settings that name headers of facts, with their values.
fn fact_headers(headers: &FactHeaders) -> serde_json::Map<String, Value> {
    let named =
        |name: FactName| (name.setting().to_owned(), name.header(headers).map(HeaderName::as_str).into());
    FactName::ALL.into_iter().map(named).collect()
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is a name, a colon and a value")?;
    let name = name.trim().parse().map_err(|_| format!("{name:?} is no name of a header"))?;
    let value = value.trim().parse().map_err(|_| "the value holds what no header can hold".to_owned())?;
    Ok((name, value))
}

fn diagnosis_json(diagnosis: &Diagnosis, setup: &[Remark]) -> Value {
    let Diagnosis { client, why, pretended_for, socket, introduced, readings, facts, remarks, headers } =
        diagnosis;
    let peer = |peer: &Peer| {
        let network = peer.trusted_by.map(|network| network.to_string());
        json!({ "address": peer.address.ip(), "trusted_by": network })
    };
    let hop = |hop: &Hop| {
        let address = hop.address.map(Address::ip);
        json!({ "address": address, "fate": hop.fate.label(), "why": hop.why })
    };
    let reading = |reading: &Reading| {
        let hops: Vec<Value> = reading.hops.iter().map(hop).collect();
        json!({ "header": reading.header.as_str(), "lines": reading.lines, "hops": hops })
    };
    let fact = |fact: &KnownFact| {
        let told = json!({ "value": fact.value, "origin": fact.origin.to_string() });
        (fact.name.field().to_owned(), told)
    };
    let headers = headers.iter().map(|line| json!({ "name": line.name.as_str(), "value": line.value }));
    json!({
        "address": client.address.ip(),
        "why": why,
        "pretended_for": pretended_for.map(Address::ip),
        "peer": peer(socket),
        "introduced": introduced.as_ref().map(peer),
        "readings": readings.iter().map(reading).collect::<Vec<_>>(),
        "facts": facts.iter().map(fact).collect::<serde_json::Map<_, _>>(),
        "remarks": remarks_json(remarks),
        "configuration": remarks_json(setup),
        "headers": headers.collect::<Vec<_>>(),
    })
}

fn remarks_json(remarks: &[Remark]) -> Vec<Value> {
    let remark =
        |remark: &Remark| json!({ "weight": remark.weight.label().to_lowercase(), "text": remark.text });
    remarks.iter().map(remark).collect()
}
