//! The page of figures for Prometheus: `GET /metrics`. It has numbers only, and no names of programs or machines, so whoever reaches the address may read it.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{
    cli::listener::Listener,
    metrics::{TEXT, prometheus},
    outbox::Shared,
};

/// Listens from now on, where that is wanted.
pub(super) async fn bind(
    address: Option<SocketAddr>,
    shared: &Arc<Shared>,
) -> anyhow::Result<Option<Listener>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = Listener::bind(address, None, router(shared)).await;
    let listener = listener.map_err(|error| error.context("metrics of [agent]"))?;
    Ok(Some(listener))
}

/// All that is answered.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(Arc::clone(shared))
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    match shared.figures() {
        Ok(figures) => {
            let form = [(header::CONTENT_TYPE, TEXT)];
            (form, prometheus(&figures.metrics())).into_response()
        }
        Err(error) => {
            let why = format!("{error}\n");
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}
