//! Reads traces in Perfetto's format, as far as rowlock's traces use it. It shares no code with the
//! writer, so that each shows errors of the other.

use std::collections::BTreeMap;

/// The reason why bytes are not a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid trace: {what}")]
pub struct Error {
    what: &'static str,
}

const fn bad(what: &'static str) -> Error {
    Error { what }
}

/// The content of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The names of processes by their ids.
    pub processes: BTreeMap<i64, String>,
    /// Process and name of threads by their ids.
    pub threads: BTreeMap<i64, (i64, String)>,
    /// The switches of each CPU in the order of the file.
    pub switches: BTreeMap<u64, Vec<Switch>>,
    /// The wakings of each CPU in the order of the file.
    pub wakings: BTreeMap<u64, Vec<Waking>>,
    /// The tracks by their ids.
    pub tracks: BTreeMap<u64, Track>,
    /// The track events in the order of the file.
    pub marks: Vec<Mark>,
}

/// A CPU switches from one thread to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The time in nanoseconds.
    pub at: u64,
    /// The kernel's state of the thread that leaves.
    pub state: i64,
    /// The id of the thread that arrives. Zero if the CPU becomes idle.
    pub to: i64,
    /// Its name.
    pub name: String,
}

/// A thread is woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waking {
    /// The time in nanoseconds.
    pub at: u64,
    /// The id of the thread.
    pub thread: i64,
    /// Its name.
    pub name: String,
}

/// A track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Its name, or the name of its process or thread.
    pub name: String,
    /// The parent track.
    pub parent: Option<u64>,
    /// The process of the track, if it belongs to one.
    pub process: Option<i64>,
    /// The process and thread of the track, if it belongs to one.
    pub thread: Option<(i64, i64)>,
}

/// A track event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The time in nanoseconds.
    pub at: u64,
    /// The id of its track.
    pub track: u64,
    /// Its kind: 1 begins a slice, 2 ends one, 3 is an instant.
    pub kind: u64,
    /// Its name. Empty for the end of a slice.
    pub name: String,
    /// The arrows that begin or continue here.
    pub flows: Vec<u64>,
    /// The arrows that end here.
    pub ended_flows: Vec<u64>,
}

/// Reads a whole trace.
///
/// # Errors
///
/// If the bytes are truncated or inconsistent.
pub fn read(bytes: &[u8]) -> Result<Trace, Error> {
    let mut trace = Trace::default();
    let mut names = BTreeMap::new();
    for field in fields(bytes) {
        match field? {
            (1, Value::Bytes(packet)) => trace.packet(packet, &mut names)?,
            _ => return Err(bad("there is a field that is not a packet")),
        }
    }
    Ok(trace)
}

impl Trace {
    fn packet(&mut self, packet: &[u8], names: &mut BTreeMap<u64, String>) -> Result<(), Error> {
        let (mut at, mut sequence, mut flags) = (0, None, 0);
        let mut event = None;
        for field in fields(packet) {
            match field? {
                (1, Value::Bytes(bundle)) => self.bundle(bundle)?,
                (2, Value::Bytes(tree)) => self.process_tree(tree)?,
                (8, Value::Number(number)) => at = number,
                (10, Value::Number(number)) => sequence = Some(number),
                (11, Value::Bytes(bytes)) => event = Some(bytes),
                (12, Value::Bytes(interned)) => intern(interned, names)?,
                (13, Value::Number(number)) => flags = number,
                (60, Value::Bytes(track)) => self.track(track)?,
                _ => return Err(bad("a packet has an unknown field")),
            }
        }
        let Some(event) = event else { return Ok(()) };
        if sequence.is_none() {
            return Err(bad("a track event belongs to no sequence"));
        }
        // Only packets with this flag may use the names.
        let mark = mark(event, at, (flags & 2 == 2).then_some(&*names))?;
        if !self.tracks.contains_key(&mark.track) {
            return Err(bad("a track event is on a track that was not described"));
        }
        self.marks.push(mark);
        Ok(())
    }

    fn process_tree(&mut self, tree: &[u8]) -> Result<(), Error> {
        for field in fields(tree) {
            match field? {
                (1, Value::Bytes(process)) => {
                    self.processes.insert(number_of(process, 1)?, text_of(process, 3)?);
                }
                (2, Value::Bytes(thread)) => {
                    self.threads.insert(number_of(thread, 1)?, (number_of(thread, 3)?, text_of(thread, 2)?));
                }
                _ => return Err(bad("a process tree has an unknown field")),
            }
        }
        Ok(())
    }

    fn track(&mut self, descriptor: &[u8]) -> Result<(), Error> {
        let (mut id, mut track) = (0, Track::default());
        for field in fields(descriptor) {
            match field? {
                (1, Value::Number(number)) => id = number,
                (2, Value::Bytes(name)) => track.name = text(name)?,
                (3, Value::Bytes(process)) => {
                    track.process = Some(number_of(process, 1)?);
                    track.name = text_of(process, 6)?;
                }
                (4, Value::Bytes(thread)) => {
                    track.thread = Some((number_of(thread, 1)?, number_of(thread, 2)?));
                    track.name = text_of(thread, 5)?;
                }
                (5, Value::Number(number)) => track.parent = Some(number),
                _ => return Err(bad("a track has an unknown field")),
            }
        }
        match self.tracks.insert(id, track) {
            None if id > 0 => Ok(()),
            _ => Err(bad("two tracks have one id, or one has none")),
        }
    }

    fn bundle(&mut self, bundle: &[u8]) -> Result<(), Error> {
        let (mut cpu, mut sched) = (None, None);
        for field in fields(bundle) {
            match field? {
                (1, Value::Number(number)) => cpu = Some(number),
                (4, Value::Bytes(bytes)) => sched = Some(bytes),
                _ => return Err(bad("a bundle has an unknown field")),
            }
        }
        let (Some(cpu), Some(sched)) = (cpu, sched) else { return Err(bad("a bundle has no CPU")) };
        let mut names = Vec::new();
        let mut columns: [Vec<u64>; 13] = Default::default();
        for field in fields(sched) {
            match field? {
                (5, Value::Bytes(name)) => names.push(text(name)?),
                (column @ 1..=12, Value::Bytes(packed)) => columns[column as usize] = numbers(packed)?,
                _ => return Err(bad("a bundle has an unknown column")),
            }
        }
        let [
            _,
            times,
            states,
            threads,
            priorities,
            _,
            names_of,
            wakings,
            woken,
            targets,
            urgencies,
            names_of_woken,
            flags,
        ] = columns;
        let have_equal_lengths = |columns: &[&Vec<u64>]| columns.iter().all(|column| column.len() == columns[0].len());
        if !have_equal_lengths(&[&times, &states, &threads, &priorities, &names_of])
            || !have_equal_lengths(&[&wakings, &woken, &targets, &urgencies, &names_of_woken, &flags])
        {
            return Err(bad("a bundle's columns differ in length"));
        }
        let name = |place: u64| names.get(place as usize).cloned().ok_or(bad("a name is not in its table"));
        let to = self.switches.entry(cpu).or_default();
        for (((at, state), thread), place) in times_of(&times)?.into_iter().zip(states).zip(threads).zip(names_of) {
            to.push(Switch { at, state: state as i64, to: thread as i64, name: name(place)? });
        }
        let to = self.wakings.entry(cpu).or_default();
        for ((at, thread), place) in times_of(&wakings)?.into_iter().zip(woken).zip(names_of_woken) {
            to.push(Waking { at, thread: thread as i64, name: name(place)? });
        }
        Ok(())
    }
}

fn mark(event: &[u8], at: u64, names: Option<&BTreeMap<u64, String>>) -> Result<Mark, Error> {
    let mut mark = Mark { at, ..Mark::default() };
    for field in fields(event) {
        match field? {
            (9, Value::Number(kind @ 1..=3)) => mark.kind = kind,
            (10, Value::Number(id)) => {
                let name = names.and_then(|names| names.get(&id));
                mark.name = name.cloned().ok_or(bad("a track event's name was not declared"))?;
            }
            (11, Value::Number(track)) => mark.track = track,
            (23, Value::Bytes(name)) => mark.name = text(name)?,
            (47, Value::Fixed(flow)) => mark.flows.push(flow),
            (48, Value::Fixed(flow)) => mark.ended_flows.push(flow),
            _ => return Err(bad("a track event has an unknown field")),
        }
    }
    Ok(mark)
}

fn intern(interned: &[u8], names: &mut BTreeMap<u64, String>) -> Result<(), Error> {
    for field in fields(interned) {
        match field? {
            (2, Value::Bytes(entry)) => {
                let id = number_of(entry, 1)?;
                names.insert(id.unsigned_abs(), text_of(entry, 2)?);
            }
            _ => return Err(bad("interned data has an unknown field")),
        }
    }
    Ok(())
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers. The last item is an error if the message is
/// truncated.
fn fields(mut message: &[u8]) -> impl Iterator<Item = Result<(u64, Value<'_>), Error>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = field(&mut message);
        if field.is_none() {
            message = &[];
        }
        Some(field.ok_or(bad("it is truncated")))
    })
}

fn field<'a>(message: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = varint(message)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(message)?),
        1 => {
            let (number, rest) = message.split_first_chunk::<8>()?;
            *message = rest;
            Value::Fixed(u64::from_le_bytes(*number))
        }
        2 => {
            let length = usize::try_from(varint(message)?).ok()?;
            let (bytes, rest) = message.split_at_checked(length)?;
            *message = rest;
            Value::Bytes(bytes)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn numbers(mut packed: &[u8]) -> Result<Vec<u64>, Error> {
    let mut numbers = Vec::new();
    while !packed.is_empty() {
        numbers.push(varint(&mut packed).ok_or(bad("a column is truncated"))?);
    }
    Ok(numbers)
}

/// The times in a column that has the first time, followed by differences.
fn times_of(column: &[u64]) -> Result<Vec<u64>, Error> {
    let mut now = 0_u64;
    let mut time = |after: &u64| {
        now = now.checked_add(*after).ok_or(bad("a time overflows"))?;
        Ok(now)
    };
    column.iter().map(&mut time).collect()
}

fn text(bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| bad("a name is not valid UTF-8"))
}

/// The number in this field of a message.
fn number_of(message: &[u8], wanted: u64) -> Result<i64, Error> {
    for field in fields(message) {
        match field? {
            (number, Value::Number(value)) if number == wanted => return Ok(value as i64),
            _ => {}
        }
    }
    Err(bad("a number is missing"))
}

/// The text in this field of a message.
fn text_of(message: &[u8], wanted: u64) -> Result<String, Error> {
    for field in fields(message) {
        match field? {
            (number, Value::Bytes(value)) if number == wanted => return text(value),
            _ => {}
        }
    }
    Err(bad("a name is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(proptest::sample::select(&[0_u8, 1, 2, 3, 8, 10, 12, 34, 82, 90, 255][..]), 0..60),
        ) {
            let _ = read(&bytes);
        }
    }
}
