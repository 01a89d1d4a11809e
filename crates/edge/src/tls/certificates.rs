//! Certificates with their keys: read from files, read again when those change, chosen by the name that is asked for.

use arc_swap::ArcSwap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

/// A certificate with its chain, and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and behind it those that lead to one that callers know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What keeps a pair of files from being used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} holds no {what} in PEM form: {source}", path.display())]
    NotPem {
        /// Which.
        path: PathBuf,
        /// What is missed in it.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// Both are something, but not the one for the other.
    #[error("{} and {} cannot be used together: {source}", certificate.display(), key.display())]
    Pair {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A certificate that was made cannot be used.
    #[error("cannot use the certificate that was made: {0}")]
    Made(#[source] rustls::Error),
}

/// All certificates of a server.
pub struct Certificates {
    shelf: ArcSwap<Vec<Named>>,
    files: Mutex<Vec<Watched>>,
}

/// A certificate and the names it is for.
#[derive(Clone)]
struct Named {
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

/// A pair of files, and what was in them when they were last looked at.
struct Watched {
    files: CertificateFiles,
    seen: Option<[Vec<u8>; 2]>,
}

impl Certificates {
    /// Reads all pairs; each of them must be right.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, CertificateError> {
        let mut watched: Vec<Watched> =
            files.iter().map(|files| Watched { files: files.clone(), seen: None }).collect();
        let mut shelf = Vec::new();
        for watched in &mut watched {
            shelf.extend(watched.read_if_changed()?);
        }
        Ok(Self { shelf: ArcSwap::from_pointee(shelf), files: Mutex::new(watched) })
    }

    /// A certificate that nobody has signed, for trying things. It is made anew at each start.
    pub fn self_signed(names: Vec<String>) -> Result<Self, CertificateError> {
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let named = Named::of(vec![made.cert.der().clone()], key).map_err(CertificateError::Made)?;
        Ok(Self { shelf: ArcSwap::from_pointee(vec![named]), files: Mutex::default() })
    }

    /// Reads those files again that have changed. What cannot be used is told, and the old certificate stays.
    pub fn refresh(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, watched) in files.iter_mut().enumerate() {
            let path = watched.files.certificate.display().to_string();
            match watched.read_if_changed() {
                Ok(None) => {}
                Ok(Some(named)) => {
                    tracing::info!(file = path, names = named.names.join(" "), "a new certificate is used");
                    let mut shelf = Vec::clone(&self.shelf.load());
                    if let Some(place) = shelf.get_mut(index) {
                        *place = named;
                    }
                    self.shelf.store(Arc::new(shelf));
                }
                Err(error) => {
                    tracing::error!(%error, "a new certificate cannot be used; the old one is used on");
                }
            }
        }
    }

    /// The certificate for a name: one that is for exactly it, or for all names beside it, or else the first.
    fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let shelf = self.shelf.load();
        let name = name.map(str::to_ascii_lowercase);
        let beside =
            name.as_deref().and_then(|name| name.split_once('.')).map(|(_, rest)| format!("*.{rest}"));
        let is_for = |wanted: &Option<String>| {
            let wanted = wanted.as_ref()?;
            shelf.iter().find(|named| named.names.contains(wanted))
        };
        is_for(&name).or_else(|| is_for(&beside)).or(shelf.first()).map(|named| Arc::clone(&named.key))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shelf.load().iter().map(|named| &named.names)).finish()
    }
}

impl Named {
    fn of(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, rustls::Error> {
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?;
        let names = key.end_entity_cert().map(dns_names)?;
        Ok(Self { names, key: Arc::new(key) })
    }
}

/// The names that a certificate is for, in lower case.
fn dns_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    webpki::EndEntityCert::try_from(certificate)
        .map(|certificate| certificate.valid_dns_names().map(str::to_ascii_lowercase).collect())
        .unwrap_or_default()
}

impl Watched {
    /// What is in the files now, unless it is what was there before.
    fn read_if_changed(&mut self) -> Result<Option<Named>, CertificateError> {
        let CertificateFiles { certificate, key } = &self.files;
        let now = [read(certificate)?, read(key)?];
        if self.seen.as_ref() == Some(&now) {
            return Ok(None);
        }
        // What is wrong is told once, and not each time that somebody looks.
        let [chain, secret] = &*self.seen.insert(now);
        let not_pem = |path: &Path, what| {
            let path = path.to_owned();
            move |source| CertificateError::NotPem { path, what, source }
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(not_pem(certificate, "certificate"))?;
        if chain.is_empty() {
            return Err(not_pem(certificate, "certificate")(pem::Error::NoItemsFound));
        }
        let secret = PrivateKeyDer::from_pem_slice(secret).map_err(not_pem(key, "private key"))?;
        let pair =
            |source| CertificateError::Pair { certificate: certificate.clone(), key: key.clone(), source };
        Named::of(chain, secret).map(Some).map_err(pair)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a fresh certificate for these names and says where.
    fn pair(folder: &Path, file: &str, names: &[&str]) -> CertificateFiles {
        let made = rcgen::generate_simple_self_signed(
            names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(),
        );
        let made = made.unwrap();
        let files = CertificateFiles {
            certificate: folder.join(format!("{file}.pem")),
            key: folder.join(format!("{file}.key")),
        };
        fs::write(&files.certificate, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }

    fn names(certificates: &Certificates, asked: Option<&str>) -> Vec<String> {
        let key = certificates.find(asked).unwrap();
        dns_names(key.end_entity_cert().unwrap())
    }

    #[test]
    fn a_certificate_is_chosen_by_the_name_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            pair(folder.path(), "one", &["one.example"]),
            pair(folder.path(), "all", &["*.example.org", "example.org"]),
            pair(folder.path(), "api", &["api.example.org"]),
        ];
        let certificates = Certificates::read(&files).unwrap();
        for (asked, expected) in [
            (Some("one.example"), "one.example"),
            (Some("API.example.org"), "api.example.org"),
            (Some("www.example.org"), "*.example.org"),
            (Some("example.org"), "*.example.org"),
            (Some("a.b.example.org"), "one.example"),
            (Some("other.example"), "one.example"),
            (None, "one.example"),
        ] {
            assert_eq!(names(&certificates, asked)[0], expected, "{asked:?}");
        }
    }

    #[test]
    fn a_changed_pair_is_taken_and_a_bad_one_keeps_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let files = pair(folder.path(), "it", &["old.example"]);
        let certificates = Certificates::read(std::slice::from_ref(&files)).unwrap();
        pair(folder.path(), "it", &["new.example"]);
        certificates.refresh();
        assert_eq!(names(&certificates, None), ["new.example"]);
        let other = pair(folder.path(), "other", &["other.example"]);
        // The certificate is replaced before its key is.
        fs::copy(&other.certificate, &files.certificate).unwrap();
        certificates.refresh();
        assert_eq!(names(&certificates, None), ["new.example"]);
        fs::copy(&other.key, &files.key).unwrap();
        certificates.refresh();
        assert_eq!(names(&certificates, None), ["other.example"]);
        fs::remove_file(&files.key).unwrap();
        certificates.refresh();
        assert_eq!(names(&certificates, None), ["other.example"]);
    }

    #[track_caller]
    fn check(files: &CertificateFiles, expected: &str) {
        let error = Certificates::read(std::slice::from_ref(files)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_pair_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (good, other) =
            (pair(folder.path(), "good", &["a.example"]), pair(folder.path(), "b", &["b.example"]));
        let missing = folder.path().join("missing");
        check(&CertificateFiles { certificate: missing, ..good.clone() }, "cannot read");
        check(
            &CertificateFiles { certificate: good.key.clone(), ..good.clone() },
            "no certificate in PEM form",
        );
        check(
            &CertificateFiles { key: good.certificate.clone(), ..good.clone() },
            "no private key in PEM form",
        );
        check(&CertificateFiles { key: other.key, ..good }, "cannot be used together");
    }
}
