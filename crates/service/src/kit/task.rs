//! Work in the background. Tokio is compiled anew, some hundred functions, for each kind of future
//! that it is given, and for both of its schedulers: a tenth of all code of this crate. So it is
//! given one kind.

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

/// Begins work that goes on beside its caller's, whether or not somebody waits for its end.
pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let work: BoxFuture<'static, ()> = Box::pin(work);
    tokio::spawn(work)
}
