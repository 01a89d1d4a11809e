//! Certificates with their keys: read from files and read again when those change, or issued by an authority while the
//! server runs; chosen by the name that is asked for.

use arc_swap::{ArcSwap, ArcSwapOption};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use std::collections::HashMap;
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

/// What an authority speaks, and nobody else, while it looks for the proof that a name is ours (RFC 8737).
pub(super) const PROOF_PROTOCOL: &[u8] = b"acme-tls/1";

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
    /// What an authority issued is not what it should be.
    #[error("there is no {what} in PEM form: {source}")]
    Issued {
        /// What is missed.
        what: &'static str,
        /// Why.
        source: pem::Error,
    },
    /// What an authority issued does not belong together.
    #[error("certificate and key cannot be used together: {0}")]
    IssuedPair(#[source] rustls::Error),
}

/// All certificates of a server.
#[derive(Default)]
pub struct Certificates {
    /// Those from files.
    shelf: ArcSwap<Vec<Named>>,
    files: Mutex<Vec<Watched>>,
    /// The one that an authority issued.
    issued: ArcSwapOption<Named>,
    /// Nobody has signed it: it is for names that no other one is for, until the authority has issued one.
    temporary: ArcSwapOption<Named>,
    /// What proves to the authority that names are ours, by name; `None` where no authority is asked.
    proofs: Option<ArcSwap<HashMap<String, Arc<CertifiedKey>>>>,
}

/// A certificate and the names it is for.
#[derive(Clone)]
pub(crate) struct Named {
    names: Vec<String>,
    key: Arc<CertifiedKey>,
}

/// Proofs that names are ours. They are shown as long as this lives.
pub(crate) struct Proofs<'a>(&'a Certificates);

/// A pair of files, and what was in them when they were last looked at.
struct Watched {
    files: CertificateFiles,
    seen: Option<[Vec<u8>; 2]>,
    /// What was last wrong with them: it is told once.
    trouble: String,
}

impl Certificates {
    /// Reads all pairs; each of them must be right.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, CertificateError> {
        let mut watched: Vec<Watched> = files
            .iter()
            .map(|files| Watched { files: files.clone(), seen: None, trouble: String::new() })
            .collect();
        let mut shelf = Vec::new();
        for watched in &mut watched {
            shelf.extend(watched.read_if_changed()?);
        }
        Ok(Self { shelf: ArcSwap::from_pointee(shelf), files: Mutex::new(watched), ..Self::default() })
    }

    /// A certificate that nobody has signed, for trying things. It is made anew at each start.
    pub fn self_signed(names: Vec<String>) -> Result<Self, CertificateError> {
        Ok(Self { shelf: ArcSwap::from_pointee(vec![Named::self_signed(names)?]), ..Self::default() })
    }

    /// The same certificates, beside which an authority is to issue another one.
    pub(crate) fn beside_an_authority(self) -> Self {
        Self { proofs: Some(ArcSwap::default()), ..self }
    }

    /// Whether an authority may ask for proofs.
    pub(crate) fn has_an_authority(&self) -> bool {
        self.proofs.is_some()
    }

    /// From now on shows what an authority issued, in the place of what it issued before.
    pub(crate) fn show_issued(&self, issued: Named) {
        self.issued.store(Some(Arc::new(issued)));
    }

    /// Shows a certificate that nobody has signed to whoever asks for these names, where there is no better one.
    pub(crate) fn show_temporary(&self, names: Vec<String>) -> Result<(), CertificateError> {
        self.temporary.store(Some(Arc::new(Named::self_signed(names)?)));
        Ok(())
    }

    /// Shows it no more.
    pub(crate) fn end_temporary(&self) {
        self.temporary.store(None);
    }

    /// A place for proofs.
    pub(crate) fn proofs(&self) -> Proofs<'_> {
        Proofs(self)
    }

    /// Reads those files again that have changed. What cannot be used is told, and the old certificate stays.
    pub fn refresh(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, watched) in files.iter_mut().enumerate() {
            let path = watched.files.certificate.display().to_string();
            match watched.read_if_changed() {
                Ok(None) => watched.trouble.clear(),
                Ok(Some(named)) => {
                    watched.trouble.clear();
                    tracing::info!(file = path, names = named.names.join(" "), "a new certificate is used");
                    let mut shelf = Vec::clone(&self.shelf.load());
                    if let Some(place) = shelf.get_mut(index) {
                        *place = named;
                    }
                    self.shelf.store(Arc::new(shelf));
                }
                Err(error) => {
                    let trouble = error.to_string();
                    if watched.trouble != trouble {
                        tracing::error!(
                            error = trouble,
                            "a new certificate cannot be used; the old one is used on"
                        );
                        watched.trouble = trouble;
                    }
                }
            }
        }
    }

    /// For which name each certificate is, and when it ends, in Unix seconds. The one that is only for the meantime is not
    /// among them.
    #[must_use]
    pub fn endings(&self) -> Vec<(String, i64)> {
        let (shelf, issued) = (self.shelf.load(), self.issued.load());
        shelf.iter().chain(issued.as_deref()).filter_map(Named::ending).collect()
    }

    /// The certificate for a name: one that is for exactly it, or for all names beside it, or else the first.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let (shelf, issued, temporary) = (self.shelf.load(), self.issued.load(), self.temporary.load());
        let (issued, temporary) = (issued.as_deref(), temporary.as_deref());
        let name = name.map(str::to_ascii_lowercase);
        let beside =
            name.as_deref().and_then(|name| name.split_once('.')).map(|(_, rest)| format!("*.{rest}"));
        let signed = || shelf.iter().chain(issued);
        let is_for = |wanted: &Option<String>| {
            let wanted = wanted.as_ref()?;
            signed().find(|named| named.names.contains(wanted))
        };
        let stopgap =
            || temporary.filter(|named| name.as_ref().is_some_and(|name| named.names.contains(name)));
        let found = is_for(&name).or_else(|| is_for(&beside)).or_else(stopgap);
        found.or_else(|| signed().chain(temporary).next()).map(|named| Arc::clone(&named.key))
    }

    /// What proves to an authority that a name is ours. Outside of a proof there is nothing to show.
    fn find_proof(&self, name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        self.proofs.as_ref()?.load().get(&name?.to_ascii_lowercase()).cloned()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asks_for_a_proof = hello.alpn().is_some_and(|mut protocols| {
            protocols.next() == Some(PROOF_PROTOCOL) && protocols.next().is_none()
        });
        if asks_for_a_proof && self.has_an_authority() {
            self.find_proof(hello.server_name())
        } else {
            self.find(hello.server_name())
        }
    }
}

impl Proofs<'_> {
    /// Shows a proof for a name: a certificate with what the authority asked for in it.
    pub(crate) fn show(&self, name: &str, digest: &[u8; 32]) -> Result<(), CertificateError> {
        let Some(proofs) = &self.0.proofs else { return Ok(()) };
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let (certificate, key) = signed_by_itself(&params)?;
        // Not compared with its key as others are: a reader of certificates refuses an extension that only authorities
        // understand.
        let key = aws_lc_rs::default_provider().key_provider.load_private_key(key);
        let proof = Arc::new(CertifiedKey::new(vec![certificate], key.map_err(CertificateError::Made)?));
        proofs.rcu(|shown| {
            let mut shown = HashMap::clone(shown);
            shown.insert(name.to_ascii_lowercase(), Arc::clone(&proof));
            shown
        });
        Ok(())
    }
}

impl Drop for Proofs<'_> {
    fn drop(&mut self) {
        if let Some(proofs) = &self.0.proofs {
            proofs.store(Arc::default());
        }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shelf, issued) = (self.shelf.load(), self.issued.load());
        f.debug_list().entries(shelf.iter().chain(issued.as_deref()).map(|named| &named.names)).finish()
    }
}

impl Named {
    fn of(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, rustls::Error> {
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?;
        let names = key.end_entity_cert().map(dns_names)?;
        Ok(Self { names, key: Arc::new(key) })
    }

    /// A private key and a certificate with its chain, one behind the other.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        let wrong = |what| move |source| CertificateError::Issued { what, source };
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(wrong("private key"))?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(wrong("certificate"))?;
        if chain.is_empty() {
            return Err(wrong("certificate")(pem::Error::NoItemsFound));
        }
        Self::of(chain, key).map_err(CertificateError::IssuedPair)
    }

    /// The names it is for, in lower case.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The certificate itself.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.key.cert.first()
    }

    /// Its first name, and when it ends.
    fn ending(&self) -> Option<(String, i64)> {
        let (_, certificate) = x509_parser::parse_x509_certificate(self.certificate()?).ok()?;
        let name = self.names.first().cloned().unwrap_or_default();
        Some((name, certificate.validity().not_after.timestamp()))
    }

    fn self_signed(names: Vec<String>) -> Result<Self, CertificateError> {
        let (certificate, key) = signed_by_itself(&CertificateParams::new(names)?)?;
        Self::of(vec![certificate], key).map_err(CertificateError::Made)
    }
}

/// A certificate that nobody else has signed, and its key.
fn signed_by_itself(
    params: &CertificateParams,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CertificateError> {
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().clone();
    Ok((certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into())))
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

/// The certificates in a file.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let not_pem = |source| CertificateError::NotPem { path: path.to_owned(), what: "certificate", source };
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().map_err(not_pem)?;
    if found.is_empty() { Err(not_pem(pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::extensions::GeneralName;

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

    fn issued(names: &[&str]) -> Named {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let pem = made.signing_key.serialize_pem() + &made.cert.pem();
        Named::from_pem(pem.as_bytes()).unwrap()
    }

    #[test]
    fn an_issued_certificate_stands_beside_those_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = [pair(folder.path(), "file", &["file.example", "*.example.org"])];
        let certificates = Certificates::read(&files).unwrap().beside_an_authority();
        let domains = ["api.example.org", "issued.example"];
        certificates.show_temporary(domains.map(str::to_owned).to_vec()).unwrap();
        let first = |asked| names(&certificates, asked)[0].clone();
        // One that is signed, for all names beside it, is better than one that nobody signed.
        assert_eq!(first(Some("api.example.org")), "file.example");
        assert_eq!(names(&certificates, Some("Issued.Example")), domains);
        assert_eq!(first(None), "file.example");
        certificates.show_issued(issued(&domains));
        certificates.end_temporary();
        assert_eq!(first(Some("api.example.org")), "api.example.org");
        certificates.show_issued(issued(&["issued.example"]));
        assert_eq!(names(&certificates, Some("issued.example")), ["issued.example"]);
        assert_eq!(first(Some("api.example.org")), "file.example");
        // A file that changes takes its own place alone.
        pair(folder.path(), "file", &["new.example"]);
        certificates.refresh();
        assert_eq!(first(None), "new.example");
        assert_eq!(first(Some("issued.example")), "issued.example");
    }

    #[test]
    fn without_files_everybody_gets_what_there_is() {
        let certificates = Certificates::default().beside_an_authority();
        assert!(certificates.find(Some("a.example")).is_none());
        certificates.show_temporary(vec!["a.example".to_owned()]).unwrap();
        assert_eq!(names(&certificates, None), ["a.example"]);
        certificates.show_issued(issued(&["b.example"]));
        assert_eq!(names(&certificates, None), ["b.example"]);
        assert_eq!(names(&certificates, Some("a.example")), ["a.example"]);
    }

    #[test]
    fn a_proof_is_shown_for_its_name_until_it_is_over() {
        let certificates = Certificates::default().beside_an_authority();
        let proofs = certificates.proofs();
        proofs.show("a.example", &[1; 32]).unwrap();
        proofs.show("b.example", &[2; 32]).unwrap();
        for name in ["A.example", "b.example"] {
            let key = certificates.find_proof(Some(name)).unwrap();
            let certificate = key.end_entity_cert().unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(certificate).unwrap();
            let names = parsed.subject_alternative_name().unwrap().unwrap();
            assert_eq!(names.value.general_names, [GeneralName::DNSName(&name.to_lowercase())]);
            let extension =
                parsed.extensions().iter().find(|one| one.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
            assert!(extension.is_some_and(|extension| extension.critical), "{name}");
        }
        assert!(certificates.find_proof(Some("c.example")).is_none());
        assert!(certificates.find_proof(None).is_none());
        assert!(certificates.find(Some("a.example")).is_none(), "a proof is for authorities alone");
        drop(proofs);
        assert!(certificates.find_proof(Some("a.example")).is_none());
    }

    #[test]
    fn what_is_wrong_with_an_issued_one_is_said() {
        #[track_caller]
        fn check(pem: &str, expected: &str) {
            let error = Named::from_pem(pem.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let [one, other] = ["a.example", "b.example"]
            .map(|name| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap());
        check("", "no private key in PEM form");
        check(&one.signing_key.serialize_pem(), "no certificate in PEM form");
        check(&(one.signing_key.serialize_pem() + &other.cert.pem()), "cannot be used together");
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
