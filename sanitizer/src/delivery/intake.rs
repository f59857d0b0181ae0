//! What a collector answers to hosts: `POST /v1/messages` takes a message, `GET /healthz` says whether the store can be written to, `GET /metrics` has figures for Prometheus, `GET /v1/hints/NAME/BUILD` what all hosts have learned of a build.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{Path, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::{
    answer::Answer, attempts::Attempts, counters::Counters, hints::Hints, tokens::Tokens, told,
    writer::Writer,
};
use crate::{
    learned::Module,
    metrics::{TEXT, prometheus},
};

/// A body must have come in this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// A body that is too large is read to its end if it has not more than so many times what it may have: whoever is still sending hears no answer.
const READ_ON: usize = 4;

/// Who has sent a request: what listens puts it into the extensions of each.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// See the module.
pub struct Intake {
    /// Whoever has none of them is sent away; where there are none, nobody is.
    pub tokens: Option<Tokens>,
    /// Bytes that a message may have as it comes.
    pub most: usize,
    /// Who writes messages.
    pub writer: Writer,
    /// Who tells what was learned; without him nothing is told.
    pub hints: Option<Hints>,
    /// What has become of them.
    pub counters: Arc<Counters>,
    /// Who has come with a token that is none.
    pub attempts: Attempts,
}

/// All that is answered.
pub fn router(intake: Intake) -> Router {
    Router::new()
        .route("/v1/messages", post(take))
        .route("/v1/hints/{name}/{build}", get(hints))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(intake))
}

async fn take(State(intake): State<Arc<Intake>>, request: Request) -> Answer {
    let answer = intake.take(request).await;
    intake.counters.note(&answer);
    answer
}

/// Anybody may ask: it tells nothing else.
async fn health(State(intake): State<Arc<Intake>>) -> (StatusCode, &'static str) {
    if intake.counters.is_away() {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store cannot be written to\n",
        )
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn metrics(State(intake): State<Arc<Intake>>, request: Request) -> Response {
    if !intake.lets_in(&request) {
        return Answer::Unknown.into_response();
    }
    let form = [(header::CONTENT_TYPE, TEXT)];
    (form, prometheus(&intake.counters.metrics())).into_response()
}

/// What others have learned, for whoever may send as well.
async fn hints(
    State(intake): State<Arc<Intake>>,
    Path((name, build)): Path<(String, String)>,
    request: Request,
) -> Response {
    if !intake.lets_in(&request) {
        return Answer::Unknown.into_response();
    }
    let module = Module { name, build };
    told::answer(intake.hints.as_ref(), module, request.headers()).await
}

/// Why a body was not had.
enum NoBody {
    TooLarge,
    BrokenOff,
}

impl Intake {
    fn lets_in(&self, request: &Request) -> bool {
        let headers = request.headers();
        let is_let_in = (self.tokens.as_ref()).is_none_or(|tokens| tokens.are_in(headers));
        if !is_let_in && headers.contains_key(header::AUTHORIZATION) {
            let peer = request.extensions().get::<Peer>();
            let from = peer.map(|peer| peer.0.ip());
            self.attempts.tell(from, None, "a token");
        }
        is_let_in
    }

    async fn take(&self, request: Request) -> Answer {
        if !self.lets_in(&request) {
            return Answer::Unknown;
        }
        let refused = |status, why: String| Answer::Refused { status, why };
        // A page in somebody's browser cannot send these without asking first.
        for (name, wanted) in [
            (header::CONTENT_TYPE, "application/json"),
            (header::CONTENT_ENCODING, "zstd"),
        ] {
            let is_wanted = |value: &header::HeaderValue| value.as_bytes() == wanted.as_bytes();
            if !request.headers().get(&name).is_some_and(is_wanted) {
                return refused(400, format!("a message has the header `{name}: {wanted}`"));
            }
        }
        let peer = request.extensions().get::<Peer>();
        let from = peer.map_or_else(String::new, |peer| peer.0.to_string());
        let body = timeout(PATIENCE, self.body_of(request.into_body())).await;
        match body {
            Ok(Ok(body)) => self.writer.write(body, from).await,
            Ok(Err(NoBody::TooLarge)) => {
                let most = self.most;
                let why = format!(
                    "the message has more than {most} bytes; send less at once, or let the collector take more (--max-message)"
                );
                refused(413, why)
            }
            // Nobody hears it but who has sent half of it on purpose.
            Ok(Err(NoBody::BrokenOff)) => Answer::Later {
                status: 408,
                seconds: 1,
                why: "the message was not whole",
            },
            Err(_) => Answer::Later {
                status: 408,
                seconds: 1,
                why: "the message has not come in time",
            },
        }
    }

    async fn body_of(&self, mut body: Body) -> Result<Vec<u8>, NoBody> {
        let limit = self.most.saturating_mul(READ_ON);
        if body.size_hint().lower() > limit as u64 {
            return Err(NoBody::TooLarge);
        }
        let mut bytes = Vec::new();
        let mut len: usize = 0;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| NoBody::BrokenOff)?.into_data() else {
                continue;
            };
            len = len.saturating_add(data.len());
            if len > limit {
                return Err(NoBody::TooLarge);
            }
            if len <= self.most {
                bytes.extend_from_slice(&data);
            }
        }
        if len > self.most {
            return Err(NoBody::TooLarge);
        }
        Ok(bytes)
    }
}
