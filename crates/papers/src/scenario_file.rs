//! Built-in scenarios, as files.

use measure::world::Failure;
use scenario::Scenario;

/// A scenario that was run, to be kept with the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// The name of the file.
    pub file: String,
    /// Its content.
    pub text: String,
}

impl ScenarioFile {
    /// Parses the file. An error would be a defect of rowlock.
    pub(crate) fn read(&self) -> Result<Scenario, Failure> {
        scenario::read(&self.file, self.text.as_bytes()).map_err(|why| Failure::Failed(why.to_string().into()))
    }
}
