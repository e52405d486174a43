//! Types of values, and operations that combine two of them. Pure.
//!
//! The numbers of types and of operations have nothing in common, and zero is none, so arguments in
//! a wrong order and forgotten ones are found.

use std::ffi::c_int;

use c_abi::Failure;
use message::Element;

/// The type of the values of a reduction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `int8_t`.
    Int8 = 1,
    /// `int16_t`.
    Int16,
    /// `int32_t`.
    Int32,
    /// `int64_t`.
    Int64,
    /// `uint8_t`.
    Uint8,
    /// `uint16_t`.
    Uint16,
    /// `uint32_t`.
    Uint32,
    /// `uint64_t`.
    Uint64,
    /// `float`.
    Float,
    /// `double`.
    Double,
}

/// How a reduction combines two values.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum. That of integers wraps around.
    Sum = 101,
    /// The product, likewise.
    Product,
    /// The smaller one. If one is not a number, the other one.
    Minimum,
    /// The larger one, likewise.
    Maximum,
    /// The bits that both have. For integers, as the following ones.
    BitAnd,
    /// The bits that one of them has, or both.
    BitOr,
    /// The bits that only one of them has.
    BitXor,
}

use Operation::{BitAnd, BitOr, BitXor, Maximum, Minimum, Product, Sum};
use Type::{Double, Float, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};

const TYPES: [Type; 10] = [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float, Double];
const OPERATIONS: [Operation; 7] = [Sum, Product, Minimum, Maximum, BitAnd, BitOr, BitXor];

/// The type of this number.
pub(crate) fn type_of(number: c_int) -> Result<Type, Failure> {
    let found = TYPES.into_iter().find(|&of| of as c_int == number);
    found.ok_or_else(|| Failure::invalid(format_args!("{number} is no type of values")))
}

/// The operation of this number.
pub(crate) fn operation_of(number: c_int) -> Result<Operation, Failure> {
    let found = OPERATIONS.into_iter().find(|&of| of as c_int == number);
    found.ok_or_else(|| Failure::invalid(format_args!("{number} is no operation of a reduction")))
}

/// Combines two values.
pub(crate) type Combine<T> = fn(T, T) -> T;

/// A type whose values can be combined.
pub(crate) trait Number: Element {
    /// `None` if the type has no such operation.
    fn combine(by: Operation) -> Option<Combine<Self>>;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn combine(by: Operation) -> Option<Combine<Self>> {
                Some(match by {
                    Sum => <$type>::wrapping_add,
                    Product => <$type>::wrapping_mul,
                    Minimum => <$type>::min,
                    Maximum => <$type>::max,
                    BitAnd => |one, other| one & other,
                    BitOr => |one, other| one | other,
                    BitXor => |one, other| one ^ other,
                })
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn combine(by: Operation) -> Option<Combine<Self>> {
                match by {
                    Sum => Some(|one, other| one + other),
                    Product => Some(|one, other| one * other),
                    Minimum => Some(<$type>::min),
                    Maximum => Some(<$type>::max),
                    BitAnd | BitOr | BitXor => None,
                }
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 u8 u16 u32 u64);
floats!(f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_type_or_an_operation_or_nothing() {
        for number in -1..=200 {
            let found = (type_of(number).is_ok(), operation_of(number).is_ok());
            assert_eq!(found, ((1..=10).contains(&number), (101..=107).contains(&number)), "{number}");
        }
    }

    fn all<T: Number>(one: T, other: T) -> [Option<T>; 7] {
        OPERATIONS.map(|operation| T::combine(operation).map(|combine| combine(one, other)))
    }

    #[test]
    fn integers_are_combined_without_overflow() {
        assert_eq!(all(250_u8, 7), [1, 214, 7, 250, 2, 255, 253].map(Some));
        assert_eq!(all(i64::MAX, -1), [i64::MAX - 1, -i64::MAX, -1, i64::MAX, i64::MAX, -1, i64::MIN].map(Some));
    }

    #[test]
    fn floats_have_no_bits_to_combine() {
        let expected = [Some(3.5), Some(3.0), Some(1.5), Some(2.0), None, None, None];
        assert_eq!(all(1.5_f32, 2.0), expected);
        assert_eq!(all(f64::NAN, 2.0)[2..4], [Some(2.0); 2]);
    }
}
