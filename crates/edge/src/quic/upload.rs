//! What a caller of HTTP/3 sends behind the head of a request. Two may read it: whoever takes the body, and the
//! connection, which takes what is left.

use super::capped::Reading;
use crate::body::{BodyFault, NextPart as Next};
use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::RequestStream;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// The half of a request's stream on which the caller sends.
pub(super) type Receiving = RequestStream<Reading<h3_quinn::RecvStream>, Bytes>;

/// The body of a request, of which a part may have come.
pub(crate) struct Upload {
    /// How much it is, if the caller has said so.
    told_bytes: Option<u64>,
    state: Mutex<State>,
}

struct State {
    receiving: Receiving,
    /// What was there when the request was.
    begun: Poll<Next>,
    received_bytes: u64,
    /// Whether nothing more comes.
    ended: bool,
}

impl Upload {
    /// Looks once at what comes behind the head, and waits for nothing. Most requests end with their head, and nothing is
    /// made for them.
    pub(super) async fn begin(
        mut receiving: Receiving,
        told_bytes: Option<u64>,
    ) -> Result<Arc<Self>, Receiving> {
        match poll_fn(|cx| Poll::Ready(poll(&mut receiving, cx))).await {
            Poll::Ready(None) if told_bytes.unwrap_or_default() == 0 => Err(receiving),
            begun => {
                let state = State { receiving, begun, received_bytes: 0, ended: false };
                Ok(Arc::new(Self { told_bytes, state: Mutex::new(state) }))
            }
        }
    }

    /// How much it is, if the caller has said so.
    pub(crate) fn told_bytes(&self) -> Option<u64> {
        self.told_bytes
    }

    /// The next part, or none after the last.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.lock();
        if state.ended {
            return Poll::Ready(None);
        }
        let polled = match std::mem::replace(&mut state.begun, Poll::Pending) {
            Poll::Pending => poll(&mut state.receiving, cx),
            begun => begun,
        };
        polled.map(|next| {
            match &next {
                Some(Ok(part)) => state.received_bytes += part.len() as u64,
                Some(Err(_)) | None => state.ended = true,
            }
            // For HTTP/1 and HTTP/2 it is the library that compares.
            let is_short = next.is_none() && self.told_bytes.is_some_and(|told| told != state.received_bytes);
            if is_short { Some(Err(BodyFault::Broken)) } else { next }
        })
    }

    /// Tells the caller that nobody reads any more, and that nothing is wrong.
    pub(super) fn stop(&self) {
        self.lock().receiving.stop_sending(Code::H3_NO_ERROR);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn poll(receiving: &mut Receiving, cx: &mut Context<'_>) -> Poll<Next> {
    receiving.poll_recv_data(cx).map(|received| match received {
        Ok(Some(mut part)) => Some(Ok(part.copy_to_bytes(part.remaining()))),
        Ok(None) => None,
        Err(_) => Some(Err(BodyFault::Broken)),
    })
}
