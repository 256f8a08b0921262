//! The end of a socket.

use std::time::Duration;

use futures_util::SinkExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::Ending;
use crate::kit::takeover::Duplex;

pub(super) type Stream = WebSocketStream<Box<dyn Duplex>>;

/// How long a client has for its part of a farewell.
const FAREWELL: Duration = Duration::from_secs(1);

/// Says farewell, and waits a little for the client's.
pub(super) async fn close(ws: &mut Stream, ending: Option<Ending>) {
    let farewell = async {
        if let Some(ending) = ending {
            let code = CloseCode::from(ending.code());
            let frame = CloseFrame { code, reason: Utf8Bytes::from_static(ending.reason()) };
            if ws.close(Some(frame)).await.is_err() {
                return;
            }
        } else if ws.flush().await.is_err() {
            return;
        }
        // Closing with bytes unread would reset the connection, and the client might lose the word.
        let stream = ws.get_mut();
        if stream.shutdown().await.is_ok() {
            let mut sink = [0; 1024];
            while matches!(stream.read(&mut sink).await, Ok(count) if count > 0) {}
        }
    };
    // A client that does not read is not waited for.
    let _late = timeout(FAREWELL, farewell).await;
}
