//! People with accounts, who sign up and in through the same forms as everybody.

use super::form::DEVICE;
use anyhow::{Context, Result, anyhow, ensure};
use ipse_edge::Clock;
use ipse_testkit::{Random, Response, Stopwatch, Visitor, hidden_fields};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use totp_rs::{Builder, Secret};

pub(crate) const PASSWORD: &str = "four words in a row";
/// Sign-ups at the same time.
const AT_ONCE: usize = 8;
/// Nobody is asked to wait for longer than this.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Who waited as long as they were told gets in with the next try; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// Where one of many comes from: an address of their own.
pub(crate) fn home(number: u32) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + number).into()
}

/// Anywhere, from so many places; half of them networks of IPv6, in which every address is another.
pub(crate) fn anywhere(random: &mut Random, places: u64) -> IpAddr {
    let place = random.below(places);
    if place.is_multiple_of(2) {
        let place = u32::try_from(place).unwrap_or_default();
        return Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + place).into();
    }
    let network = 0x2001_0db8_0000_0000 + place;
    Ipv6Addr::from(u128::from(network) << 64 | u128::from(random.next())).into()
}

/// Makes an account, and returns the browser in which its owner is signed in.
pub(crate) fn sign_up(address: SocketAddr, email: &str, from: IpAddr) -> Result<Visitor> {
    let mut visitor = Visitor::new(address).from(from);
    let reply = visitor.submit("/signup", "/signup", &[("email", email), ("password", PASSWORD)])?;
    leads_to(&reply, "/dashboard")?;
    Ok(visitor)
}

/// Makes an account for each of these addresses.
pub(crate) fn sign_up_all(address: SocketAddr, emails: &[String]) -> Result<()> {
    std::thread::scope(|scope| {
        let start = |first| {
            scope.spawn(move || {
                for (number, email) in emails.iter().enumerate().skip(first).step_by(AT_ONCE) {
                    sign_up(address, email, home(u32::try_from(number)?))?;
                }
                anyhow::Ok(())
            })
        };
        let threads: Vec<_> = (0..AT_ONCE).map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

pub(crate) fn sign_in(visitor: &mut Visitor, email: &str, password: &str) -> Result<Response> {
    visitor.submit("/signin", "/signin", &[("email", email), ("password", password)])
}

/// Whether somebody is in.
pub(crate) fn is_in(reply: &Response) -> bool {
    leads_to(reply, "/dashboard?signed-in").is_ok()
}

pub(crate) fn leads_to(reply: &Response, location: &str) -> Result<()> {
    ensure!(
        (reply.status, reply.header("location")) == (303, Some(location)),
        "{} instead of a way to {location}: {}",
        reply.status,
        reply.body
    );
    Ok(())
}

/// The same browser after its owner has signed out and closed it: what is left is the mark of the device.
pub(crate) fn closed(mut browser: Visitor) -> Visitor {
    browser.cookies.retain(|name, _| name == DEVICE);
    browser
}

/// Tries, and where told to wait waits so long and tries again, as people do. Says after how long somebody was in, and
/// the longest wait that was asked for; `None` if it was over before.
pub(crate) fn patiently(
    mut attempt: impl FnMut() -> Result<Response>,
    is_over: impl Fn() -> bool,
) -> Result<Option<(Duration, Duration)>> {
    let (watch, mut longest) = (Stopwatch::start(), Duration::ZERO);
    loop {
        let reply = attempt()?;
        if is_in(&reply) {
            return Ok(Some((watch.elapsed(), longest)));
        }
        ensure!(reply.status == 429, "the owner is answered {}: {}", reply.status, reply.body);
        let told = Duration::from_secs(u64::try_from(reply.number("retry-after")?)?);
        longest = longest.max(told);
        let asked = watch.elapsed();
        while watch.elapsed() < asked + told {
            if is_over() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        ensure!(watch.elapsed() < PATIENCE, "the owner waits as long as told and does not get in");
    }
}

/// A second factor, and the codes for when it is lost.
pub(crate) struct SecondFactor {
    secret: String,
    pub(crate) recovery_codes: Vec<String>,
}

impl SecondFactor {
    /// Switches it on for whoever is signed in.
    pub(crate) fn set_up(visitor: &mut Visitor) -> Result<Self> {
        let page = visitor.get("/account/totp")?.body;
        let mut fields = hidden_fields(&page, "/account/totp").context("no form for a second factor")?;
        let secret = fields.iter().find(|(name, _)| name == "secret").context("no secret")?.1.clone();
        let mut factor = Self { secret, recovery_codes: Vec::new() };
        let code = factor.shown()?.into_iter().nth(1).context("no code")?;
        fields.extend([("code".to_owned(), code), ("password".to_owned(), PASSWORD.to_owned())]);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let reply = visitor.post("/account/totp", &fields)?;
        let codes = reply.body.split("<code>").nth(1).and_then(|rest| rest.split("</code>").next());
        let codes = codes.with_context(|| format!("no recovery codes ({})", reply.status))?;
        factor.recovery_codes = codes.split_whitespace().map(str::to_owned).collect();
        Ok(factor)
    }

    /// What the app shows now, and has shown before and shows next: a guess that is none of them is wrong.
    pub(crate) fn shown(&self) -> Result<Vec<String>> {
        let secret = Secret::try_from_base32(&self.secret).map_err(|error| anyhow!("{error:?}"))?;
        let totp = Builder::new().with_secret(secret).build_noncompliant();
        let now = u64::try_from(Clock::system().now().unix_seconds())?;
        Ok([now - 30, now, now + 30, now + 60].map(|moment| totp.generate(moment).to_string()).to_vec())
    }
}
