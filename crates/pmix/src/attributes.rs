//! Attributes as the library takes them: an array of keys and values, with the memory of the
//! values.

use std::ffi::{CStr, CString};

use crate::interface::{Data, DataArray, Info, KEY_LENGTH, Value, kind};

/// A list of attributes. The library copies what it keeps.
#[derive(Default)]
pub(crate) struct Attributes {
    infos: Vec<Info>,
    /// Own the memory that the values refer to, which never moves.
    strings: Vec<CString>,
    #[expect(clippy::vec_box, reason = "values refer to them")]
    arrays: Vec<Box<DataArray>>,
    inner: Vec<Attributes>,
}

impl Attributes {
    pub(crate) fn boolean(self, key: &CStr, boolean: bool) -> Attributes {
        self.with(key, kind::BOOLEAN, Data { boolean })
    }

    pub(crate) fn uint16(self, key: &CStr, uint16: u16) -> Attributes {
        self.with(key, kind::UINT16, Data { uint16 })
    }

    pub(crate) fn uint32(self, key: &CStr, uint32: u32) -> Attributes {
        self.with(key, kind::UINT32, Data { uint32 })
    }

    pub(crate) fn rank(self, key: &CStr, uint32: u32) -> Attributes {
        self.with(key, kind::RANK, Data { uint32 })
    }

    pub(crate) fn string(mut self, key: &CStr, string: &CStr) -> Attributes {
        let string = string.to_owned();
        let data = Data { string: string.as_ptr().cast_mut() };
        self.strings.push(string);
        self.with(key, kind::STRING, data)
    }

    pub(crate) fn array(mut self, key: &CStr, mut inner: Attributes) -> Attributes {
        let (infos, size) = inner.as_mut();
        let mut array = Box::new(DataArray { kind: kind::INFO, size, array: infos.cast() });
        let data = Data { array: &raw mut *array };
        self.arrays.push(array);
        self.inner.push(inner);
        self.with(key, kind::DATA_ARRAY, data)
    }

    fn with(mut self, key: &CStr, kind: u16, data: Data) -> Attributes {
        let mut name = [0; KEY_LENGTH];
        for (to, &byte) in name.iter_mut().zip(key.to_bytes()) {
            *to = byte;
        }
        self.infos.push(Info { key: name, flags: 0, value: Value { kind, data } });
        self
    }

    /// The array and its length, as the library takes them. They are valid as long as this exists
    /// and does not change.
    pub(crate) fn as_mut(&mut self) -> (*mut Info, usize) {
        (self.infos.as_mut_ptr(), self.infos.len())
    }
}
