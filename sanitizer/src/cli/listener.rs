//! An address at which requests of HTTP are answered. What comes from a network is bounded: connections, headers, and the time that each takes.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    select,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::debug;

use crate::delivery::Peer;

/// Connections at a time; others wait to be accepted.
const CONNECTIONS: usize = 128;
/// Somebody who connects must have agreed on keys in this time.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The headers of a request must have come in this time, be it the first or one more on a connection.
const HEADERS: Duration = Duration::from_secs(30);
/// Bytes of the headers, and how many they may be.
const HEADER_BYTES: usize = 16 << 10;
const HEADER_COUNT: usize = 64;
/// A connection is closed after this time, when what it was asked is answered.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long requests have to be answered when it comes to the end.
const GRACE: Duration = Duration::from_secs(3);
/// How long it is before somebody is accepted again after that has failed: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
}

impl Listener {
    /// Listens from now on; connections wait until [`Self::serve`].
    pub async fn bind(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        router: Router,
    ) -> anyhow::Result<Self> {
        let socket = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen at {address}; name another port, or end who has it (`ss -ltnp` tells)")
        })?;
        Ok(Self {
            socket,
            tls,
            router,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> anyhow::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.socket.local_addr()?))
    }

    /// Answers until it is to stop, and then what it was asked before, for some seconds.
    pub async fn serve(self, mut stop: watch::Receiver<bool>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = async {
                let place = Arc::clone(&room).acquire_owned().await;
                (place, self.socket.accept().await)
            };
            let (place, accepted) = select! {
                accepted = accepted => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let talk = talk(
                        stream,
                        peer,
                        self.tls.clone(),
                        self.router.clone(),
                        stop.clone(),
                    );
                    connections.spawn(async move {
                        talk.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    debug!("nobody can be accepted: {error}");
                    sleep(PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        drop(self.socket);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(GRACE, all).await.is_err() {
            debug!("connections are closed that have not come to their end");
        }
    }
}

/// Talks with somebody who has connected.
async fn talk(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return answer(stream, peer, router, stop).await;
    };
    match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer(stream, peer, router, stop).await,
        Ok(Err(error)) => debug!("{peer} does not talk TLS as is wanted here: {error}"),
        Err(_) => debug!("{peer} has not agreed on keys in time"),
    }
}

/// Answers the requests of a connection.
async fn answer<S>(stream: S, peer: SocketAddr, router: Router, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_COUNT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    select! {
        done = connection.as_mut() => {
            if let Err(error) = done {
                debug!("the connection of {peer} has come to its end: {error}");
            }
            return;
        }
        _ = stop.wait_for(|stop| *stop) => {}
        () = sleep(LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}
