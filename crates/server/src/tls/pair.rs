//! Certificates and their private keys: read from files, checked, and given to sites.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use rustls::crypto::{Credentials, Identity, SigningKey};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::provider;
use super::vault::{Texts, Vault};
use crate::config::{PairFiles, Settings};
use crate::dates::date;

/// A larger file is no certificate or key.
const LARGEST_FILE: u64 = 1 << 20;

/// A certificate with its private key.
pub struct Pair {
    /// What handshakes use.
    credentials: Arc<Credentials>,
    /// What the certificate says.
    pub validity: Validity,
    /// The files, if it comes from files.
    pub files: PairFiles,
    digest: [u8; 32],
}

/// What a certificate says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The hosts that it is for: DNS names, and addresses as text.
    pub names: Vec<String>,
    /// From when on it is valid, in seconds since the Unix epoch.
    pub from: i64,
    /// Until when it is valid, in seconds since the Unix epoch.
    pub until: i64,
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}{}", .path.display(), advice(.source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The content of a file is not what it should be.
    #[error("{}: {what}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The key belongs to another certificate.
    #[error("{} is not the key of the certificate {}", .key.display(), .certificate.display())]
    Strangers {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// It has not been read.
    #[error("the certificate {} has not been read", .0.certificate.clone().unwrap_or_default().display())]
    Missing(PairFiles),
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Made(String),
}

/// What the operator can do about it.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; at its start, a server can read it as root, or with CAP_DAC_READ_SEARCH"
        }
        _ => "",
    }
}

impl Pair {
    /// Takes a certificate and its key from the content of their files.
    ///
    /// # Errors
    ///
    /// The content of one cannot be used, or they do not belong together.
    pub fn parse(texts: &Texts) -> Result<Self, PairError> {
        let Texts { files, chain, key: key_text } = texts;
        let nameless = Path::new("");
        let [certificate, key] =
            [&files.certificate, &files.key].map(|file| file.as_deref().unwrap_or(nameless));
        let wrong = |path: &Path, what: &dyn fmt::Display| PairError::Content {
            path: path.to_owned(),
            what: what.to_string(),
        };
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let Some(first) = chain.first() else {
            return Err(wrong(certificate, &"there is no certificate in PEM (\"BEGIN CERTIFICATE\")"));
        };
        let validity = Validity::of(first).map_err(|what| wrong(certificate, &what))?;
        let signs = PrivateKeyDer::from_pem_slice(key_text).map_err(|error| match error {
            pem::Error::NoItemsFound if is_encrypted(key_text) => {
                wrong(key, &"the key is encrypted; `openssl pkey -in FILE -out OTHER` decrypts it")
            }
            pem::Error::NoItemsFound => wrong(key, &"there is no private key in PEM (\"BEGIN PRIVATE KEY\")"),
            error => wrong(key, &error),
        })?;
        let signs = provider().key_provider.load_private_key(signs);
        let signs = signs.map_err(|_| wrong(key, &"allowed: a key for RSA, ECDSA or Ed25519"))?;
        let credentials = of(chain, signs).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                PairError::Strangers { certificate: certificate.to_owned(), key: key.to_owned() }
            }
            error => wrong(certificate, &error),
        })?;
        Ok(Self { credentials, validity, files: files.clone(), digest: texts.digest() })
    }

    /// Which names it has, and until when it is valid. `now` is in seconds since the Unix epoch.
    pub fn description(&self, now: i64) -> String {
        let Validity { names, until, .. } = &self.validity;
        let mut listed = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
        if names.is_empty() {
            listed.push_str("no host: it has no subjectAltName");
        }
        let more = names.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (title, days) = (title(&self.files), days_left(*until, now));
        format!("{title}: valid for {days} more days, until {}, for {listed}{more}", date(*until))
    }

    /// What handshakes use.
    pub(super) fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&self.credentials)
    }
}

/// The whole days from `now` to `until`, both in seconds since the Unix epoch. Negative: it is over.
pub fn days_left(until: i64, now: i64) -> i64 {
    (until - now).div_euclid(24 * 60 * 60)
}

/// What operators call a certificate.
fn title(files: &PairFiles) -> String {
    let file = files.certificate.as_ref();
    file.map_or_else(
        || "the self-signed certificate".to_owned(),
        |file| format!("certificate {}", file.display()),
    )
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is nobody's business.
        f.debug_struct("Pair").field("validity", &self.validity).finish_non_exhaustive()
    }
}

fn of(
    chain: Vec<CertificateDer<'static>>,
    key: Box<dyn SigningKey>,
) -> Result<Arc<Credentials>, rustls::Error> {
    let identity = Arc::new(Identity::from_cert_chain(chain)?);
    Credentials::new(identity, key).map(Arc::new)
}

fn is_encrypted(key: &[u8]) -> bool {
    memchr::memmem::find(key, b"ENCRYPTED").is_some()
}

/// Reads all certificates and keys that the settings name, and makes the one that is signed by itself. Each
/// is one that can be used.
///
/// # Errors
///
/// One of them cannot be read or used.
pub fn read_all(settings: &Settings) -> Result<Vec<Texts>, PairError> {
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    if settings.tls.listen.is_empty() {
        return Ok(all);
    }
    for files in Wanted::of(settings).0.into_iter().flatten() {
        if !known.insert(files.clone()) {
            continue;
        }
        let texts = if files.both().is_some() { Texts::read(&files)? } else { self_signed(settings)? };
        Pair::parse(&texts)?;
        all.push(texts);
    }
    Ok(all)
}

impl Texts {
    /// Reads a certificate and its key. They may not belong together.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn read(files: &PairFiles) -> Result<Self, PairError> {
        let text = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(Vec::new()), read);
        Ok(Self { chain: text(&files.certificate)?, key: text(&files.key)?, files: files.clone() })
    }

    /// Tells texts from others.
    fn digest(&self) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&(self.chain.len() as u64).to_le_bytes());
        context.update(&self.chain);
        context.update(&self.key);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }
}

/// Makes a certificate that no browser trusts, and its key.
fn self_signed(settings: &Settings) -> Result<Texts, PairError> {
    let made = rcgen::generate_simple_self_signed(names_for_tests(settings));
    let rcgen::CertifiedKey { cert, signing_key } =
        made.map_err(|error| PairError::Made(error.to_string()))?;
    let (chain, key) = (pem("CERTIFICATE", cert.der()), pem("PRIVATE KEY", &signing_key.serialize_der()));
    Ok(Texts { files: PairFiles::default(), chain, key })
}

/// RFC 7468 section 2.
fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).flat_map(|line| [line, b"\n"].concat());
    let (begin, end) = (format!("-----BEGIN {label}-----\n"), format!("-----END {label}-----\n"));
    begin.bytes().chain(lines).chain(end.bytes()).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, PairError> {
    let failed = |source| PairError::Read { path: path.to_owned(), source };
    let wrong = |what: String| PairError::Content { path: path.to_owned(), what };
    // A pipe would otherwise wait for a writer.
    let file = sys::file::open_at_once(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(wrong("a certificate or a key must be a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(wrong(format!("more than {LARGEST_FILE} bytes are too many for a certificate or a key")));
    }
    Ok(bytes)
}

impl Validity {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|error| format!("the first certificate can't be read: {error}"))?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|extension| &extension.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        let validity = parsed.validity();
        Ok(Self {
            names: names.collect(),
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
        })
    }

    /// Whether the certificate is for a host.
    pub fn is_for(&self, host: &str) -> bool {
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            // The star stands for one label (RFC 9525 section 6.3).
            Some(domain) => host
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain)),
            None => name.eq_ignore_ascii_case(host),
        })
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from).ok();
    let address = v4.or_else(|| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from).ok());
    address.map(|address| address.to_string())
}

/// Which certificates the sites have: by the number of the site, the default site first. `None`: the site has
/// the default one's. No file is set: it is signed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted(Vec<Option<PairFiles>>);

impl Wanted {
    pub(super) fn of(settings: &Settings) -> Self {
        let tls = &settings.tls;
        let pairs = std::iter::once(&tls.pair).chain(settings.sites.iter().map(|site| &site.pair));
        let mut wanted: Vec<_> = pairs.map(|files| files.both().is_some().then(|| files.clone())).collect();
        if tls.self_signed {
            wanted[0] = Some(PairFiles::default());
        }
        Self(wanted)
    }

    /// The files of each certificate.
    pub(super) fn files(&self) -> HashSet<&PairFiles> {
        self.0.iter().flatten().collect()
    }
}

/// The certificates of all sites.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// As [`Wanted`] has them.
    of_sites: Vec<Option<Arc<Pair>>>,
}

impl Pairs {
    /// The certificates that the settings name, from those in the vault.
    ///
    /// # Errors
    ///
    /// One of them is not there, or cannot be used.
    pub fn of(settings: &Settings, vault: &Vault) -> Result<Self, PairError> {
        Self::among(&Wanted::of(settings), &vault.contents().1, &Self::default())
    }

    /// The certificates that the settings name, from their files.
    ///
    /// # Errors
    ///
    /// One of them cannot be read or used.
    pub fn read(settings: &Settings) -> Result<Self, PairError> {
        let all = read_all(settings)?;
        if all.is_empty() {
            Ok(Self::default())
        } else {
            Self::among(&Wanted::of(settings), &all, &Self::default())
        }
    }

    /// The certificates wanted, from these texts. Those that have not changed since `before` are not read
    /// again.
    pub(super) fn among(wanted: &Wanted, all: &[Texts], before: &Self) -> Result<Self, PairError> {
        let all: HashMap<_, _> = all.iter().map(|texts| (&texts.files, texts)).collect();
        let before: HashMap<_, _> = before.all().map(|pair| (&pair.files, pair)).collect();
        let mut known: HashMap<&PairFiles, Arc<Pair>> = HashMap::new();
        let mut of_sites = Vec::new();
        for files in &wanted.0 {
            let Some(files) = files else {
                of_sites.push(None);
                continue;
            };
            let pair = if let Some(pair) = known.get(files) {
                Arc::clone(pair)
            } else {
                let texts = all.get(files).ok_or_else(|| PairError::Missing(files.clone()))?;
                let digest = texts.digest();
                let same = before.get(files).filter(|pair| pair.digest == digest);
                same.map_or_else(|| Pair::parse(texts).map(Arc::new), |pair| Ok(Arc::clone(pair)))?
            };
            known.insert(files, Arc::clone(&pair));
            of_sites.push(Some(pair));
        }
        Ok(Self { of_sites })
    }

    /// The certificate of a site, or the default site's.
    pub(super) fn of_site(&self, site: usize) -> Option<&Arc<Pair>> {
        let own = self.of_sites.get(site).and_then(Option::as_ref);
        own.or_else(|| self.of_sites.first()?.as_ref())
    }

    /// Each certificate once.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Pair>> {
        let mut known = HashSet::new();
        self.of_sites.iter().flatten().filter(move |pair| known.insert(Arc::as_ptr(pair)))
    }
}

/// From how few days on a certificate's end is worth a warning.
pub const FEW_DAYS: i64 = 14;
/// Most names that are listed.
const MOST_NAMES: usize = 10;

impl Pairs {
    /// Each certificate in a line: which names it has, and until when it is valid. `now` is in seconds since
    /// the Unix epoch.
    pub fn described(&self, now: i64) -> impl Iterator<Item = String> {
        self.all().map(move |pair| pair.description(now))
    }

    /// What clients will not accept, or soon will not.
    pub fn doubts(&self, settings: &Settings, now: i64) -> Vec<String> {
        let mut doubts = self.doubts_of_time(now);
        for (at, site) in settings.sites.iter().enumerate() {
            let Some(pair) = self.of_site(at + 1) else { continue };
            for host in site.hosts.iter().map(ToString::to_string) {
                if !pair.validity.is_for(host.trim_start_matches("*."))
                    && !pair.validity.names.contains(&host)
                {
                    doubts.push(format!("{} is not for {host}, which a site has", title(&pair.files)));
                }
            }
        }
        doubts
    }

    /// Which certificates are not valid, or soon will not be.
    pub fn doubts_of_time(&self, now: i64) -> Vec<String> {
        let mut doubts = Vec::new();
        for pair in self.all() {
            let (validity, title) = (&pair.validity, title(&pair.files));
            let (days, until) = (days_left(validity.until, now), date(validity.until));
            if validity.until <= now {
                doubts.push(format!("{title} has expired, on {until}: clients refuse it"));
            } else if days < FEW_DAYS {
                doubts.push(format!("{title} expires in {days} days, on {until}"));
            } else if validity.from > now {
                let from = date(validity.from);
                doubts.push(format!("{title} is not valid before {from}: clients refuse it until then"));
            }
        }
        doubts
    }
}

/// The names of a certificate for tests on one machine.
fn names_for_tests(settings: &Settings) -> Vec<String> {
    let mut names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    let hosts = settings.sites.iter().flat_map(|site| &site.hosts);
    names.extend(hosts.map(ToString::to_string).filter(|host| !host.starts_with('[')));
    names
}
