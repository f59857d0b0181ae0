//! What stands between agents and their collector, and does with what they send what a test wants. Its threads end with the tests.

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// It comes to the collector, and its answer to who has sent it.
    Passes,
    /// It comes to nobody, and is answered so.
    Says(u16),
    /// It is not answered, for so long.
    Hangs(Duration),
    /// It comes to the collector, and nobody hears the answer.
    Cuts,
}

/// See the module.
#[derive(Clone)]
pub struct Front {
    /// Where agents send to.
    pub url: String,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    /// Host and port of the collector.
    collector: String,
    /// What becomes of the next messages.
    next: VecDeque<Mood>,
    /// What becomes of those after these.
    usual: Mood,
    /// The collector's answers.
    statuses: Vec<u16>,
}

impl Front {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let front = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            inner: Arc::new(Mutex::new(Inner {
                collector: String::new(),
                next: VecDeque::new(),
                usual: Mood::Passes,
                statuses: Vec::new(),
            })),
        };
        let serving = front.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let front = serving.clone();
                thread::spawn(move || front.serve(stream));
            }
        });
        front
    }

    /// Where the collector is from now on.
    pub fn lead_to(&self, collector: &str) {
        collector.clone_into(&mut self.inner.lock().unwrap().collector);
    }

    /// What becomes of the next messages.
    pub fn next(&self, moods: &[Mood]) {
        self.inner.lock().unwrap().next.extend(moods);
    }

    /// What becomes of all others.
    pub fn always(&self, mood: Mood) {
        self.inner.lock().unwrap().usual = mood;
    }

    /// Messages that are still to come for [`Self::next`].
    pub fn left(&self) -> usize {
        self.inner.lock().unwrap().next.len()
    }

    /// How often the collector has answered so.
    pub fn said(&self, status: u16) -> usize {
        let inner = self.inner.lock().unwrap();
        inner.statuses.iter().filter(|one| **one == status).count()
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(request) = request(&mut stream) else {
            return;
        };
        let (mood, collector) = {
            let mut inner = self.inner.lock().unwrap();
            let mood = inner.next.pop_front().unwrap_or(inner.usual);
            (mood, inner.collector.clone())
        };
        let answer = match mood {
            Mood::Passes => self.pass(&collector, &request),
            Mood::Says(status) => Some(format!("HTTP/1.1 {status} No\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()),
            Mood::Hangs(time) => {
                thread::sleep(time);
                None
            }
            Mood::Cuts => {
                self.pass(&collector, &request);
                None
            }
        };
        if let Some(answer) = answer {
            let _ = stream.write_all(&answer);
        }
    }

    /// The collector's answer; nothing where it has none.
    fn pass(&self, collector: &str, request: &[u8]) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(collector).ok()?;
        stream.write_all(request).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let head = String::from_utf8_lossy(&answer);
        let status = head.split(' ').nth(1)?.parse().ok()?;
        self.inner.lock().unwrap().statuses.push(status);
        Some(answer)
    }
}

/// A request, after which the connection is to end.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length?];
    stream.read_exact(&mut body).ok()?;
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    Some([head.as_bytes(), &body].concat())
}
