//! A mailbox at a real SMTP server that nobody here wrote, behind a small script of ours.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// How long a mail may be on its way.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a mailbox asks of whoever brings mail.
#[derive(Clone, Copy, Debug, Default)]
pub struct MailDoor<'a> {
    /// How TLS begins, if mail is taken over nothing else.
    pub tls: Option<MailTls>,
    /// The user and the password, if mail is taken from nobody else.
    pub login: Option<(&'a str, &'a str)>,
}

/// How TLS begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// With a command on a clear connection.
    StartTls,
    /// With the connection.
    Implicit,
}

/// What becomes of mail that is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailMode {
    /// It is taken, as at first.
    Take,
    /// It is refused for good: 550.
    Refuse,
    /// Whoever brings it is asked to come again: 451.
    Defer,
}

/// A mail as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Who brought it, by the envelope.
    pub from: String,
    /// Whom it is for, by the envelope.
    pub to: Vec<String>,
    /// Names as they were written, values decoded.
    pub headers: Vec<(String, String)>,
    /// The plain text, decoded.
    pub text: String,
    /// Whether it came over TLS.
    pub secure: bool,
    /// The user who was signed in.
    pub user: Option<String>,
}

impl Mail {
    /// A header by its name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The first link in the text.
    #[must_use]
    pub fn link(&self) -> Option<&str> {
        self.text.split_whitespace().find(|word| word.starts_with("http://") || word.starts_with("https://"))
    }
}

/// A running mailbox. It ends when this is dropped.
pub struct Mailbox {
    /// Where mail is brought to. The certificate, if there is one, is for `localhost` and for this address.
    pub address: SocketAddr,
    process: Child,
    input: ChildStdin,
    post: Arc<Post>,
    folder: TempDir,
}

/// What has come and was not yet looked at.
#[derive(Default)]
struct Post {
    state: Mutex<Arrived>,
    news: Condvar,
}

#[derive(Default)]
struct Arrived {
    mails: Vec<Mail>,
    turned_away: Vec<String>,
    modes_set: usize,
    is_over: bool,
}

impl Mailbox {
    /// A mailbox that takes everything from everybody.
    pub fn start() -> Result<Self> {
        Self::behind(MailDoor::default())
    }

    /// A mailbox that asks for something first.
    pub fn behind(door: MailDoor<'_>) -> Result<Self> {
        let python = std::env::var_os("XTASK_PYTHON").context(
            "XTASK_PYTHON names a Python with aiosmtpd: run the tests with `cargo xtask test`, or see `cargo xtask tools`",
        )?;
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("mailbox.py"));
        if let Some(tls) = door.tls {
            let names = ["localhost", "127.0.0.1"].map(str::to_owned);
            let made = rcgen::generate_simple_self_signed(names)?;
            fs::write(certificate(&folder), made.cert.pem())?;
            let key = folder.path().join("key.pem");
            fs::write(&key, made.signing_key.serialize_pem())?;
            let tls = match tls {
                MailTls::StartTls => "starttls",
                MailTls::Implicit => "implicit",
            };
            command.args(["--tls", tls, "--certificate"]).arg(certificate(&folder)).arg("--key").arg(key);
        }
        if let Some((user, password)) = door.login {
            command.args(["--user", user, "--password", password]);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = process.stdin.take().context("no input")?;
        let mut output = BufReader::new(process.stdout.take().context("no output")?);
        let mut first = String::new();
        output.read_line(&mut first)?;
        let Some(port) = port(&first) else {
            let status = process.wait()?;
            bail!("the mailbox did not start ({status}): {first:?}")
        };
        let post = Arc::new(Post::default());
        let theirs = Arc::clone(&post);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                theirs.tell(|arrived| arrived.read(&line));
            }
            theirs.tell(|arrived| arrived.is_over = true);
        });
        Ok(Self { address: (Ipv4Addr::LOCALHOST, port).into(), process, input, post, folder })
    }

    /// The certificate to trust, if the mailbox has one. It has signed itself.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        certificate(&self.folder)
    }

    /// Waits for a mail to this address and takes it out.
    pub fn next(&self, to: &str) -> Result<Mail> {
        self.wait(&format!("no mail came for {to}"), |arrived| {
            let at = arrived.mails.iter().position(|mail| mail.to.iter().any(|found| found == to))?;
            Some(arrived.mails.remove(at))
        })
    }

    /// Waits until somebody was turned away with a mail to this address.
    pub fn turned_away(&self, to: &str) -> Result<()> {
        self.wait(&format!("nobody was turned away with a mail to {to}"), |arrived| {
            let at = arrived.turned_away.iter().position(|found| found == to)?;
            arrived.turned_away.remove(at);
            Some(())
        })
    }

    /// How many mails are there that were not taken out.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.post.state.lock().unwrap_or_else(PoisonError::into_inner).mails.len()
    }

    /// Changes what becomes of the mail that is brought from now on.
    pub fn set_mode(&mut self, mode: MailMode) -> Result<()> {
        let before = self.post.state.lock().unwrap_or_else(PoisonError::into_inner).modes_set;
        let word = match mode {
            MailMode::Take => "take",
            MailMode::Refuse => "refuse",
            MailMode::Defer => "defer",
        };
        writeln!(self.input, "{word}").context("the mailbox has ended")?;
        self.wait("the mailbox does not listen", |arrived| (arrived.modes_set > before).then_some(()))
    }

    fn wait<T>(&self, otherwise: &str, mut look: impl FnMut(&mut Arrived) -> Option<T>) -> Result<T> {
        let mut found = None;
        let state = self.post.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.post.news.wait_timeout_while(state, PATIENCE, |arrived| {
            found = look(arrived);
            found.is_none() && !arrived.is_over
        });
        let (arrived, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(found.is_some() || !arrived.is_over, "the mailbox has ended");
        found.with_context(|| otherwise.to_owned())
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Post {
    fn tell(&self, change: impl FnOnce(&mut Arrived)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_all();
    }
}

impl Arrived {
    /// Takes in a line of the script.
    fn read(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(address) = line["turned_away"].as_str() {
            self.turned_away.push(address.to_owned());
        } else if line["mode"].is_string() {
            self.modes_set += 1;
        } else if let Some(mail) = mail(&line["mail"]) {
            self.mails.push(mail);
        }
    }
}

fn mail(mail: &Value) -> Option<Mail> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(Mail {
        from: text(&mail["from"])?,
        to: mail["to"].as_array()?.iter().filter_map(text).collect(),
        headers: mail["headers"]
            .as_array()?
            .iter()
            .filter_map(|pair| text(&pair[0]).zip(text(&pair[1])))
            .collect(),
        text: text(&mail["text"])?,
        secure: mail["secure"].as_bool()?,
        user: text(&mail["user"]),
    })
}

fn port(line: &str) -> Option<u16> {
    let line: Value = serde_json::from_str(line).ok()?;
    line["port"].as_u64().and_then(|port| port.try_into().ok())
}

fn certificate(folder: &TempDir) -> PathBuf {
    folder.path().join("certificate.pem")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTER: &str = "From: ipse <ipse@example.com>\r\nTo: a@example.com\r\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\
                          MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
                          Content-Transfer-Encoding: quoted-printable\r\n\r\nSee\r\n\r\nhttps://ip.example.com/re=\r\n\
                          set/0f =E2=80=93 now\r\n";

    /// Has curl bring the letter, and returns its exit code.
    fn bring(mailbox: &Mailbox, scheme: &str, arguments: &[&str]) -> Option<i32> {
        let file = mailbox.folder.path().join("letter");
        fs::write(&file, LETTER).unwrap();
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--noproxy",
            "*",
            "--mail-from",
            "ipse@example.com",
            "--mail-rcpt",
            "a@example.com",
        ]);
        curl.args(arguments).arg("--cacert").arg(mailbox.certificate()).arg("--upload-file").arg(file);
        let url = format!("{scheme}://localhost:{}", mailbox.address.port());
        curl.arg(url).stderr(Stdio::null()).status().unwrap().code()
    }

    #[test]
    fn a_mail_is_taken_out_decoded_by_whom_it_is_for() {
        let mailbox = Mailbox::start().unwrap();
        assert_eq!(bring(&mailbox, "smtp", &[]), Some(0));
        assert_eq!(bring(&mailbox, "smtp", &["--mail-rcpt", "b@example.com"]), Some(0));
        let mail = mailbox.next("b@example.com").unwrap();
        assert_eq!((mail.from.as_str(), mail.to.len()), ("ipse@example.com", 2));
        assert_eq!(mail.header("subject"), Some("Grüße"));
        assert_eq!(mail.text.replace('\r', ""), "See\n\nhttps://ip.example.com/reset/0f – now\n");
        assert_eq!(mail.link(), Some("https://ip.example.com/reset/0f"));
        assert!(!mail.secure && mail.user.is_none());
        assert_eq!(mailbox.waiting(), 1);
        assert_eq!(mailbox.next("a@example.com").unwrap().to, ["a@example.com"]);
        assert_eq!(mailbox.waiting(), 0);
    }

    #[test]
    fn who_must_sign_in_over_tls_does() {
        let login = Some(("ipse", "secret"));
        for (tls, scheme, arguments) in
            [(MailTls::StartTls, "smtp", &["--ssl-reqd"][..]), (MailTls::Implicit, "smtps", &[][..])]
        {
            let mailbox = Mailbox::behind(MailDoor { tls: Some(tls), login }).unwrap();
            let with = |user| [arguments, &["--user", user]].concat();
            assert_eq!(bring(&mailbox, scheme, &with("ipse:secret")), Some(0), "{tls:?}");
            let mail = mailbox.next("a@example.com").unwrap();
            assert_eq!((mail.secure, mail.user.as_deref()), (true, Some("ipse")), "{tls:?}");
            assert_ne!(bring(&mailbox, scheme, &with("ipse:guess")), Some(0), "{tls:?}");
            assert_ne!(bring(&mailbox, scheme, arguments), Some(0), "{tls:?}");
            assert_eq!(mailbox.waiting(), 0);
            if tls == MailTls::StartTls {
                assert_ne!(bring(&mailbox, scheme, &["--user", "ipse:secret"]), Some(0), "in the clear");
            }
        }
    }

    #[test]
    fn a_mailbox_can_be_in_a_bad_mood_for_a_while() {
        let mut mailbox = Mailbox::start().unwrap();
        for mode in [MailMode::Refuse, MailMode::Defer] {
            mailbox.set_mode(mode).unwrap();
            assert_ne!(bring(&mailbox, "smtp", &[]), Some(0), "{mode:?}");
            mailbox.turned_away("a@example.com").unwrap();
            assert_eq!(mailbox.waiting(), 0);
        }
        mailbox.set_mode(MailMode::Take).unwrap();
        assert_eq!(bring(&mailbox, "smtp", &[]), Some(0));
        mailbox.next("a@example.com").unwrap();
    }
}
