//! Readers of scenarios.

use exchange::{Format, ImportError, Imported, rt_app};

use crate::texts::refused;

/// The scenario file.
pub(crate) fn scenario(bytes: &[u8]) {
    match scenario::read("fuzz.toml", bytes) {
        Ok(read) => {
            let written = read.to_toml();
            match scenario::read("again.toml", written.as_bytes()) {
                Ok(again) => assert_eq!(read, again, "it changes in a round trip:\n{written}"),
                Err(why) => panic!("what was written cannot be read: {why}\n{written}"),
            }
        }
        Err(why) => refused(&why),
    }
}

/// The JSON format of rt-app.
pub(crate) fn rt_app(bytes: &[u8]) {
    if let Some(imported) = imported(Format::RtApp, bytes)
        && let Ok((text, _)) = rt_app::write(&imported.scenario)
    {
        match rt_app::read("again.json", text.as_bytes()) {
            // A title may change to fit into a comment.
            Ok(again) => assert_eq!(imported.scenario.arms, again.scenario.arms, "a round trip changes it:\n{text}"),
            // Times are rounded to microseconds, so sums may exceed what they did not before.
            Err(ImportError::TooLarge(_)) => {}
            Err(why) => panic!("what was exported cannot be imported: {why}\n{text}"),
        }
    }
}

/// The kernel's scheduling events as text.
pub(crate) fn scheduling_events(bytes: &[u8]) {
    let _ = imported(Format::Sched, bytes);
}

/// Imports a file. The scenario file that results must be readable, and equal the scenario.
fn imported(format: Format, bytes: &[u8]) -> Option<Imported> {
    let _ = Format::guess(bytes);
    match exchange::import(format, "fuzz", bytes) {
        Ok(imported) => {
            let read = scenario::read("imported.toml", imported.toml.as_bytes());
            assert_eq!(read.as_ref().ok(), Some(&imported.scenario), "{}", imported.toml);
            Some(imported)
        }
        Err(why) => {
            refused(&why);
            None
        }
    }
}
