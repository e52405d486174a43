//! The turns of a job that alternate with those of another one, every 5 ms.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use policy::Span;
use sys::shared_memory::Mapping;
use sys::unnamed::UnnamedFile;
use wait::turn::{LENGTH, Turn, WrittenPage};

const SLICE: Span = Span::from_millis(5);

/// A turn page and the thread that writes it, until this is dropped.
pub(crate) struct Switcher {
    file: UnnamedFile,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Switcher {
    pub(crate) fn start() -> Switcher {
        let file = UnnamedFile::of_length(LENGTH.get() as u64).unwrap();
        let page = WrittenPage::new(&Mapping::new(file.file(), LENGTH).unwrap()).unwrap();
        page.set_slice(SLICE);
        let has_ended = Arc::new(AtomicBool::new(false));
        let is_over = has_ended.clone();
        let switch = move || {
            let turns = [Turn::OursUntil, Turn::OthersUntil].into_iter().cycle();
            for turn in turns.take_while(|_| !is_over.load(Relaxed)) {
                page.set(turn(wait::now() + SLICE));
                thread::sleep(Duration::from_nanos(SLICE.as_nanos()));
            }
        };
        Switcher { file, has_ended, thread: Some(thread::spawn(switch)) }
    }

    /// The path of the page.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Drop for Switcher {
    fn drop(&mut self) {
        self.has_ended.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}
