//! Connecting to PostgreSQL: the connection string, TLS, the pool.

use std::sync::Arc;

use deadpool_postgres::{Client, Manager, ManagerConfig, Pool, RecyclingMethod};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;

use crate::{Error, Result};

/// Connections of one attached store.
const POOL_SIZE: usize = 8;

/// A pool of connections and the address without its password.
pub(super) struct Server {
    pool: Pool,
    pub display: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.display).finish()
    }
}

/// What a connection string says beyond what tokio-postgres understands.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    /// The string for tokio-postgres.
    text: String,
    /// The string for messages.
    display: String,
    /// `sslrootcert`: a file of PEM certificates that replace the system's.
    root_file: Option<String>,
}

fn parse(address: &str) -> Result<Parsed> {
    let mut url = Url::parse(address).map_err(|e| {
        Error::InvalidInput(format!("the PostgreSQL address is not a URL (postgres://user@host/database): {e}"))
    })?;
    let mut root_file = None;
    let mut kept: Vec<(String, String)> = Vec::new();
    for (key, value) in url.query_pairs() {
        match (key.as_ref(), value.as_ref()) {
            ("sslrootcert", "system") => {}
            ("sslrootcert", file) => root_file = Some(file.to_owned()),
            // Certificates are always verified, so the three differ only in name.
            ("sslmode", "verify-ca" | "verify-full") => kept.push(("sslmode".into(), "require".into())),
            ("sslmode", "allow") => kept.push(("sslmode".into(), "prefer".into())),
            (key, value) => kept.push((key.to_owned(), value.to_owned())),
        }
    }
    if kept.is_empty() {
        url.set_query(None);
    } else {
        url.query_pairs_mut().clear().extend_pairs(&kept);
    }
    // tokio-postgres does not read `+` as a blank.
    let text = match url.query().map(|query| query.replace('+', "%20")) {
        Some(query) => {
            url.set_query(Some(&query));
            url.to_string()
        }
        None => url.to_string(),
    };
    let mut shown = url.clone();
    if shown.password().is_some() {
        // Only URLs without a host refuse passwords, and those have none.
        let _ = shown.set_password(Some("***"));
    }
    let secret = shown.query_pairs().any(|(key, _)| key == "password");
    if secret {
        shown.set_query(None);
    }
    Ok(Parsed { text, display: shown.to_string(), root_file })
}

/// TLS that verifies the server's certificate against the system's roots or those of a file.
fn tls(display: &str, root_file: Option<&str>) -> Result<MakeRustlsConnect> {
    let mut roots = rustls::RootCertStore::empty();
    match root_file {
        Some(file) => {
            let certificates = CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
                .map_err(|e| Error::io(file, "read the certificates of", e))?;
            roots.add_parsable_certificates(certificates);
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(crate::storage::tls::provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::io(display, "set up TLS for", e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

impl Server {
    /// Prepares connections; none is made yet.
    pub(super) fn new(address: &str) -> Result<Self> {
        let Parsed { text, display, root_file } = parse(address)?;
        let mut config: Config =
            text.parse().map_err(|e: tokio_postgres::Error| Error::InvalidInput(format!("{display}: {e}")))?;
        if config.get_application_name().is_none() {
            config.application_name("pensieve");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(std::time::Duration::from_secs(10));
        }
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Verified };
        let manager = if config.get_ssl_mode() == SslMode::Disable {
            Manager::from_config(config, NoTls, manager_config)
        } else {
            Manager::from_config(config, tls(&display, root_file.as_deref())?, manager_config)
        };
        let pool = Pool::builder(manager)
            .max_size(POOL_SIZE)
            .build()
            .map_err(|e| Error::io(&display, "prepare connections to", e))?;
        Ok(Self { pool, display })
    }

    /// A connection of the pool.
    pub(super) async fn client(&self) -> Result<Client> {
        self.pool.get().await.map_err(|e| {
            let cause = std::error::Error::source(&e).map(|c| format!(": {c}")).unwrap_or_default();
            Error::io(&self.display, "connect to", std::io::Error::other(format!("{e}{cause}")))
        })
    }

    /// The error of a statement, with what the server said.
    pub(super) fn failed(&self, operation: &str, error: tokio_postgres::Error) -> Error {
        match error.as_db_error() {
            Some(db) => {
                let detail = db.detail().map(|d| format!(" ({d})")).unwrap_or_default();
                let text = format!("{}: {}{detail}", db.code().code(), db.message());
                Error::io(&self.display, operation, std::io::Error::other(text))
            }
            None => Error::io(&self.display, operation, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_hide_passwords_and_translate_ssl_modes() {
        let parsed = parse("postgres://u:secret@db:5433/x?sslmode=verify-full&sslrootcert=/c.pem").unwrap();
        assert_eq!(parsed.text, "postgres://u:secret@db:5433/x?sslmode=require");
        assert_eq!(parsed.root_file.as_deref(), Some("/c.pem"));
        assert_eq!(parsed.display, "postgres://u:***@db:5433/x?sslmode=require");
        let parsed = parse("postgresql://db/x?password=secret&options=-c%20geqo%3Doff").unwrap();
        assert!(!parsed.display.contains("secret"), "{}", parsed.display);
        let config: Config = parsed.text.parse().unwrap();
        assert_eq!(config.get_options(), Some("-c geqo=off"));
        assert!(parse("postgres://[").is_err());
        assert!(Server::new("postgres://db/x?sslmode=nonsense").is_err());
    }
}
