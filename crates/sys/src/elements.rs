//! Integers and floats as bytes. They have no padding, and any bits are valid.

use std::fmt::Debug;

mod sealed {
    pub trait Sealed {}
}

/// An integer or a float. Only this module implements it.
pub trait Element: sealed::Sealed + Copy + Debug + Default + PartialEq + Send + Sync + 'static {}

macro_rules! elements {
    ($($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {}
    )*};
}

elements!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

/// The bytes of values.
pub fn bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: the memory of the values, borrowed as long as the result. Elements are integers and
    // floats, which have no padding, so all bytes are initialized.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of values, to be overwritten.
pub fn bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    let length = size_of_val(values);
    // SAFETY: as above, borrowed exclusively. Integers and floats are valid with any bits.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_their_bytes() {
        let mut values = [1_u32, 0x0403_0201];
        assert_eq!(bytes(&values)[..4], 1_u32.to_ne_bytes());
        bytes_mut(&mut values)[..4].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(values, [7, 0x0403_0201]);
        assert!(bytes::<f64>(&[]).is_empty() && bytes_mut::<u128>(&mut []).is_empty());
    }
}
