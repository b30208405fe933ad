//! The asynchronous runtime behind the blocking methods of the catalogs that talk to object stores and servers.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::{Error, Result};

static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();

/// The runtime all catalogs of the process share; started on first use.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    let started = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8))
            .thread_name("pensieve-catalog")
            .enable_all()
            .build()
            .map_err(|e| e.to_string())
    });
    started.as_ref().map_err(|e| Error::io("catalog runtime", "start", std::io::Error::other(e.clone())))
}

/// Runs `future` to its end and blocks meanwhile. Works on any thread, also on one that belongs to another runtime.
pub(crate) fn block_on<F>(future: F) -> Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let runtime = runtime()?;
    if Handle::try_current().is_err() {
        return Ok(runtime.block_on(future));
    }
    // A thread of a runtime must not block on another one; a helper thread may.
    std::thread::scope(|scope| scope.spawn(|| runtime.block_on(future)).join())
        .map_err(|_| Error::io("catalog runtime", "wait for", std::io::Error::other("the helper thread panicked")))
}
