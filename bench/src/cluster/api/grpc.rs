//! gRPC with nothing but its frames, for the load shares its cores with what it measures: a client
//! that retries, balances and traces would take more of them than the server.

use crate::http::Failure;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{
    RecvStream, SendStream,
    client::{Builder, SendRequest},
};
use http::{HeaderMap, Request};
use prost::Message;
use std::cell::Cell;
use tokio::net::TcpStream;

/// A flag for compression, and the length.
const PREFIX: usize = 5;
const WINDOW: u32 = 1 << 20;

/// Connections, which take turns.
pub(super) struct Connections {
    senders: Vec<SendRequest<Bytes>>,
    turn: Cell<usize>,
    address: String,
}

/// A method of the service: what every request to it begins with.
pub(super) struct Method(Request<()>);

impl Connections {
    /// Opens so many to `host:port`.
    pub(super) async fn open(address: &str, count: usize) -> Result<Self, Failure> {
        let mut senders = Vec::with_capacity(count);
        for _ in 0..count {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = Builder::new()
                .initial_window_size(WINDOW)
                .initial_connection_window_size(WINDOW)
                .handshake(stream)
                .await?;
            tokio::spawn(async move {
                // The next call on this connection reports what broke it.
                let _ = connection.await;
            });
            senders.push(sender);
        }
        Ok(Self {
            senders,
            turn: Cell::new(0),
            address: address.to_owned(),
        })
    }

    /// A method of `quipu.v1.Counter`.
    pub(super) fn method(&self, name: &str) -> Result<Method, Failure> {
        let uri = format!("http://{}/quipu.v1.Counter/{name}", self.address);
        let request = Request::post(uri)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        Ok(Method(request))
    }

    /// Makes a call of one message and one answer.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &Method,
        message: Bytes,
    ) -> Result<A, Failure> {
        let mut sender = self.sender().ready().await?;
        let (answer, mut request) = sender.send_request(method.0.clone(), false)?;
        request.send_data(message, true)?;
        let (head, mut body) = answer.await?.into_parts();
        let mut frames = Frames::default();
        while frames.read(&mut body).await? {}
        let trailers = body.trailers().await?;
        check(trailers.as_ref().unwrap_or(&head.headers))?;
        frames.take()?.ok_or_else(|| "no answer".into())
    }

    /// Opens a stream of messages and answers.
    pub(super) async fn stream(
        &self,
        method: &Method,
    ) -> Result<(SendStream<Bytes>, RecvStream), Failure> {
        let mut sender = self.sender().ready().await?;
        let (answer, messages) = sender.send_request(method.0.clone(), false)?;
        let answer = answer.await?;
        // It is there already when the call was refused.
        if answer.headers().contains_key("grpc-status") {
            check(answer.headers())?;
        }
        Ok((messages, answer.into_body()))
    }

    fn sender(&self) -> SendRequest<Bytes> {
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.senders.len());
        self.senders[turn].clone()
    }
}

/// A message as it is sent.
pub(super) fn framed(message: &impl Message) -> Result<Bytes, Failure> {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length)?);
    message.encode(&mut framed)?;
    Ok(framed.freeze())
}

/// What has come of a body.
#[derive(Default)]
pub(super) struct Frames(BytesMut);

impl Frames {
    /// Reads more. False at the end.
    pub(super) async fn read(&mut self, body: &mut RecvStream) -> Result<bool, Failure> {
        let Some(chunk) = body.data().await.transpose()? else {
            return Ok(false);
        };
        body.flow_control().release_capacity(chunk.len())?;
        self.0.extend_from_slice(&chunk);
        Ok(true)
    }

    /// The next message, once it is whole.
    pub(super) fn take<A: Message + Default>(&mut self) -> Result<Option<A>, Failure> {
        if self.0.len() < PREFIX {
            return Ok(None);
        }
        let length = usize::try_from((&self.0[1..PREFIX]).get_u32())?;
        if self.0.len() < PREFIX + length {
            return Ok(None);
        }
        let message = self.0.split_to(PREFIX + length);
        Ok(Some(A::decode(&message[PREFIX..])?))
    }
}

/// Whether a call ended well, by its trailers.
pub(super) fn check(trailers: &HeaderMap) -> Result<(), Failure> {
    let of = |name| trailers.get(name).map(http::HeaderValue::as_bytes);
    match of("grpc-status") {
        Some(b"0") => Ok(()),
        status => {
            let [status, message] = [status, of("grpc-message")]
                .map(|text| String::from_utf8_lossy(text.unwrap_or_default()));
            Err(format!("the call failed with status {status}: {message}").into())
        }
    }
}
