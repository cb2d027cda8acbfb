//! The bytes of a file or of standard input, unpacked.

use flate2::bufread::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

const BUFFER: usize = 256 << 10;

/// Unpacked bytes.
pub(crate) struct Input(Box<dyn BufRead + Send>);

/// An input, with how far it was read: raw bytes, before unpacking.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The unpacked bytes.
    pub(crate) input: Input,
    /// Raw bytes read so far.
    pub(crate) position: Arc<AtomicU64>,
}

impl Input {
    /// Opens a file, or standard input for `-`. Gzip is recognised by its first bytes, which no
    /// text has.
    pub(crate) fn open(path: &Path) -> io::Result<Opened> {
        if path == Path::new("-") {
            Self::unpack(io::stdin())
        } else {
            Self::unpack(File::open(path)?)
        }
    }

    fn unpack(raw: impl Read + Send + 'static) -> io::Result<Opened> {
        let position = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            raw,
            position: Arc::clone(&position),
        };
        let mut raw = BufReader::with_capacity(BUFFER, counted);
        let packed = raw.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let input: Box<dyn BufRead + Send> = if packed {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        Ok(Opened {
            input: Self(input),
            position,
        })
    }

    /// Bytes in memory, for tests.
    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::unpack(io::Cursor::new(bytes.to_vec()))
            .expect("memory can be read")
            .input
    }
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Input")
    }
}

impl Read for Input {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

struct Counted<R> {
    raw: R,
    position: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(to)?;
        self.position.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
