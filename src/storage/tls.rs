//! The one provider of cryptography for TLS in this library.

use std::sync::{Arc, Once};

use rustls::crypto::CryptoProvider;

/// The provider that every TLS connection of this crate uses: `ring`, chosen over aws-lc for the time it takes to compile.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Makes [`provider`] the default of this library's `rustls`, which the HTTP client of `object_store` asks for. Later calls do nothing.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        if CryptoProvider::get_default().is_none() {
            // Another thread can only have installed the same one.
            let _: Result<(), Arc<CryptoProvider>> = provider().install_default();
        }
    });
}
