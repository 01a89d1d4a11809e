//! Mail: what is written, and how it leaves.
//!
//! Letters wait in memory, because they hold links that open accounts. One that cannot be delivered is tried again for a
//! quarter of an hour, about as long as its link is good.

mod letters;
mod notices;

pub(crate) use letters::Letter;
pub(crate) use notices::tell_owners;

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How mail leaves this installation.
#[derive(Clone)]
pub struct MailPlan {
    /// The name of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection to it is kept secret.
    pub tls: MailTls,
    /// Who we are to that server, and the proof of it.
    pub login: Option<(String, String)>,
    /// Who letters are from.
    pub from: Sender,
    /// Who may vouch for the server's certificate beside those whom the system trusts, PEM.
    pub authority: Option<Vec<u8>>,
}

impl std::fmt::Debug for MailPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailPlan").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

/// Who letters are from: an address, perhaps with a name before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender(Mailbox);

/// A text that is no sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sender is an address such as ipse@example.com, or a name with one: ipse <ipse@example.com>")]
pub struct NotASender;

impl FromStr for Sender {
    type Err = NotASender;

    fn from_str(text: &str) -> Result<Self, NotASender> {
        text.parse().map(Self).map_err(|_| NotASender)
    }
}

/// How the connection to the mail server is kept secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// It begins in the clear and must turn to TLS.
    StartTls,
    /// It is TLS from the first byte.
    Implicit,
    /// It is clear, for a server on the same machine.
    None,
}

/// How many letters may be under way; more wait.
const AT_ONCE: usize = 4;
/// How many may wait. What comes beyond is dropped: a server that is down for long must not fill the memory.
const WAITING: usize = 10_000;
/// How long after each failure the next try is made.
const PAUSES_S: [u64; 5] = [5, 25, 60, 240, 570];
/// How long a server may take for one letter.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where letters are handed in.
#[derive(Clone)]
pub(crate) struct Post {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    under_way: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Post {
    /// Prepares to send as planned. Nothing is connected to yet.
    pub(crate) fn open(plan: &MailPlan) -> Result<Self, lettre::transport::smtp::Error> {
        let mut tls = TlsParameters::builder(plan.host.clone());
        if let Some(authority) = &plan.authority {
            tls = tls.add_root_certificate(Certificate::from_pem(authority)?);
        }
        let tls = match plan.tls {
            MailTls::StartTls => Tls::Required(tls.build()?),
            MailTls::Implicit => Tls::Wrapper(tls.build()?),
            MailTls::None => Tls::None,
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(plan.host.clone())
            .port(plan.port)
            .tls(tls)
            .timeout(Some(PATIENCE));
        if let Some((user, password)) = &plan.login {
            transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(Self {
            transport: transport.build(),
            from: plan.from.0.clone(),
            under_way: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Arc::new(Semaphore::new(WAITING)),
        })
    }

    /// Takes a letter, and sends it as soon as that is possible. Nobody waits for it.
    pub(crate) fn send(&self, letter: Letter) {
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            tracing::error!(
                mail.kind = letter.kind,
                "too many letters wait for the mail server: one was dropped"
            );
            return;
        };
        let post = self.clone();
        tokio::spawn(async move {
            post.deliver(&letter).await;
            drop(place);
        });
    }

    /// Tries until it is delivered, refused for good, or old.
    async fn deliver(&self, letter: &Letter) {
        // No log ever names whom a letter is for.
        let kind = letter.kind;
        let message = match self.message(letter) {
            Ok(message) => message,
            Err(error) => return tracing::error!(mail.kind = kind, %error, "a letter could not be written"),
        };
        for pause in PAUSES_S.into_iter().map(Some).chain([None]) {
            let sent = match self.under_way.acquire().await {
                Ok(_turn) => self.transport.send(message.clone()).await,
                Err(_) => return,
            };
            let Err(error) = sent else { return tracing::debug!(mail.kind = kind, "a letter was delivered") };
            let reason = reason(&error);
            match pause {
                Some(retry_seconds) if !error.is_permanent() => {
                    tracing::warn!(
                        mail.kind = kind,
                        reason,
                        retry_seconds,
                        "a letter was not taken, trying again"
                    );
                    tokio::time::sleep(Duration::from_secs(retry_seconds)).await;
                }
                _ => return tracing::error!(mail.kind = kind, reason, "a letter was not delivered"),
            }
        }
    }

    fn message(&self, letter: &Letter) -> Result<Message, Box<dyn std::error::Error + Send + Sync>> {
        let to: Mailbox = letter.to.parse()?;
        Ok(Message::builder()
            .from(self.from.clone())
            .to(to)
            .subject(letter.subject.clone())
            .message_id(Some(self.message_id()?))
            .header(lettre::message::header::MIME_VERSION_1_0)
            .header(lettre::message::header::ContentType::TEXT_PLAIN)
            .body(letter.body.clone())?)
    }
}

impl Post {
    /// A name for one letter, of our own domain and never of this machine.
    fn message_id(&self) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let name = u128::from_be_bytes(bytes);
        Ok(format!("<{name:032x}@{}>", self.from.email.domain()))
    }
}

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Post")
    }
}

/// Why the server did not take a letter. Its own words may repeat the address, so only their number is told.
fn reason(error: &lettre::transport::smtp::Error) -> String {
    match error.status() {
        Some(code) => format!("the mail server answered {code}"),
        None if error.is_timeout() => "the mail server did not answer in time".to_owned(),
        None if error.is_tls() => format!("no secure connection to the mail server: {error}"),
        None => format!("the mail server cannot be spoken to: {error}"),
    }
}
