//! A proxy between the roles and Cassandra that passes everything on, and lies when it is told to:
//! writes that were done are said to have timed out, other calls are refused as too many. It knows
//! of version 4 of the protocol what that takes: nine bytes of header before each frame.

use quipu_certify::Failure;
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

const HEADER: usize = 9;
const ERROR: u8 = 0x00;
const EXECUTE: u8 = 0x0a;
const BATCH: u8 = 0x0d;
/// The longest frame that Cassandra takes.
const LONGEST: usize = 256 << 20;
/// Of a hundred writes, so many are said to have timed out.
const TIMED_OUT: u8 = 20;
/// Of a hundred other calls, so many are refused.
const OVERLOADED: u8 = 10;

/// Whether it lies at the moment, and how often it did.
#[derive(Debug, Default)]
struct Mood {
    lies: AtomicBool,
    told: AtomicU64,
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Where it listens.
    pub(super) address: String,
    mood: Arc<Mood>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Listens on loopback, for a node.
    pub(super) async fn start(node: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let mood = Arc::new(Mood::default());
        let (node, shared) = (node.to_owned(), Arc::clone(&mood));
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, node.clone(), Arc::clone(&shared)));
            }
        });
        Ok(Self {
            address,
            mood,
            listening,
        })
    }

    /// Lies from now on, until what is returned is dropped.
    pub(super) fn lie(&self) -> Lying {
        self.mood.lies.store(true, Ordering::Relaxed);
        Lying(Arc::clone(&self.mood))
    }

    /// How many answers were forged.
    pub(super) fn told(&self) -> u64 {
        self.mood.told.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Ends the lies when it is dropped.
pub(super) struct Lying(Arc<Mood>);

impl Drop for Lying {
    fn drop(&mut self) {
        self.0.lies.store(false, Ordering::Relaxed);
    }
}

/// Answers that are to be forged, by the number of the call in its connection.
type Forged = Arc<Mutex<HashMap<[u8; 2], u8>>>;

async fn serve(client: TcpStream, node: String, mood: Arc<Mood>) {
    // A connection that breaks on one side is closed on the other: both see what there is to see.
    let Ok(node) = TcpStream::connect(node).await else {
        return;
    };
    let (client_reads, client_writes) = client.into_split();
    let (node_reads, node_writes) = node.into_split();
    let forged = Forged::default();
    tokio::select! {
        _ = requests(client_reads, node_writes, &forged, &mood) => {}
        _ = answers(node_reads, client_writes, &forged, &mood) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    forged: &Forged,
    mood: &Mood,
) -> io::Result<()> {
    loop {
        let frame = frame(&mut from).await?;
        let opcode = frame[4];
        let most = match opcode {
            BATCH => TIMED_OUT,
            EXECUTE => OVERLOADED,
            _ => 0,
        };
        if mood.lies.load(Ordering::Relaxed) && fastrand::u8(..100) < most {
            let mut forged = forged.lock().unwrap_or_else(PoisonError::into_inner);
            forged.insert([frame[2], frame[3]], opcode);
        }
        to.write_all(&frame).await?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    forged: &Forged,
    mood: &Mood,
) -> io::Result<()> {
    loop {
        let frame = frame(&mut from).await?;
        let stream = [frame[2], frame[3]];
        let opcode = forged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&stream);
        let Some(opcode) = opcode else {
            to.write_all(&frame).await?;
            continue;
        };
        mood.told.fetch_add(1, Ordering::Relaxed);
        to.write_all(&lie(frame[0], stream, opcode)).await?;
    }
}

/// One frame, header and body.
async fn frame(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    from.read_exact(&mut frame).await?;
    let length = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.resize(HEADER + length, 0);
    from.read_exact(&mut frame[HEADER..]).await?;
    Ok(frame)
}

/// An error instead of the answer to a call: a timeout of a batch, else "overloaded".
fn lie(version: u8, stream: [u8; 2], opcode: u8) -> Vec<u8> {
    let mut body = Vec::new();
    let code: u32 = if opcode == BATCH { 0x1100 } else { 0x1001 };
    body.extend(code.to_be_bytes());
    string(&mut body, "forged by the fault suite");
    if opcode == BATCH {
        // Consistency ONE; none of one replica answered.
        body.extend([0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        string(&mut body, "UNLOGGED_BATCH");
    }
    let mut frame = vec![version, 0, stream[0], stream[1], ERROR];
    let length = u32::try_from(body.len()).expect("a short body");
    frame.extend(length.to_be_bytes());
    frame.extend(body);
    frame
}

fn string(body: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("a short text");
    body.extend(length.to_be_bytes());
    body.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every frame with an empty result.
    async fn node() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut reads, mut writes) = listener.accept().await.unwrap().0.into_split();
            while let Ok(asked) = frame(&mut reads).await {
                let answer = [0x84, 0, asked[2], asked[3], 0x08, 0, 0, 0, 0];
                writes.write_all(&answer).await.unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn it_passes_all_on_until_it_is_told_to_lie() {
        let proxy = Proxy::start(&node().await).await.unwrap();
        let client = TcpStream::connect(&proxy.address).await.unwrap();
        let (mut reads, mut writes) = client.into_split();
        let mut ask = async |stream: u8, opcode: u8| {
            let body = [0x04, 0, 0, stream, opcode, 0, 0, 0, 2, 7, 7];
            writes.write_all(&body).await.unwrap();
            let answer = frame(&mut reads).await.unwrap();
            assert_eq!(answer[3], stream);
            answer
        };
        for stream in 0..50 {
            assert_eq!(ask(stream, BATCH).await[4], 0x08);
        }
        assert_eq!(proxy.told(), 0);
        let lying = proxy.lie();
        let mut forged = Vec::new();
        for stream in 0..250 {
            let opcode = if stream % 2 == 0 { BATCH } else { EXECUTE };
            let answer = ask(stream, opcode).await;
            if answer[4] == ERROR {
                forged.push((opcode, answer[HEADER..HEADER + 4].to_vec()));
            }
        }
        drop(lying);
        assert!(forged.contains(&(BATCH, vec![0, 0, 0x11, 0])), "{forged:?}");
        assert!(
            forged.contains(&(EXECUTE, vec![0, 0, 0x10, 1])),
            "{forged:?}"
        );
        assert_eq!(proxy.told(), forged.len() as u64);
        for stream in 0..50 {
            assert_eq!(ask(stream, BATCH).await[4], 0x08);
        }
    }
}
