//! Chooses code that is compiled for a type of values by the chunk's [`crate::Scalar`], known at run time.

/// Runs `$body` with `$type` as the floating-point type of a [`crate::Scalar`]'s values, and `$other` for integers.
macro_rules! with_float {
    ($scalar:expr, $type:ident => $body:expr, else $other:expr) => {
        match $scalar {
            $crate::Scalar::F32 | $crate::Scalar::C64 => {
                type $type = f32;
                $body
            }
            $crate::Scalar::F64 | $crate::Scalar::C128 => {
                type $type = f64;
                $body
            }
            $crate::Scalar::F16 => {
                type $type = $crate::number::small_float::Binary16;
                $body
            }
            $crate::Scalar::BF16 => {
                type $type = $crate::number::small_float::BFloat16;
                $body
            }
            _ => $other,
        }
    };
}

/// Runs `$body` with `$type` as the integer type of a [`crate::Scalar`], and `$other` for floating-point types.
macro_rules! with_integer {
    ($scalar:expr, $type:ident => $body:expr, else $other:expr) => {
        match $scalar {
            $crate::Scalar::I8 => {
                type $type = i8;
                $body
            }
            $crate::Scalar::U8 => {
                type $type = u8;
                $body
            }
            $crate::Scalar::I16 => {
                type $type = i16;
                $body
            }
            $crate::Scalar::U16 => {
                type $type = u16;
                $body
            }
            $crate::Scalar::I32 => {
                type $type = i32;
                $body
            }
            $crate::Scalar::U32 => {
                type $type = u32;
                $body
            }
            $crate::Scalar::I64 => {
                type $type = i64;
                $body
            }
            $crate::Scalar::U64 => {
                type $type = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// Runs `$body` with `$type` as the type of a [`crate::Scalar`].
macro_rules! with_element {
    ($scalar:expr, $type:ident => $body:expr) => {
        $crate::number::dispatch::with_float!(
            $scalar, $type => $body,
            else $crate::number::dispatch::with_integer!($scalar, $type => $body, else unreachable!("a type is one or the other"))
        )
    };
}

pub(crate) use {with_element, with_float, with_integer};

#[cfg(test)]
mod tests {
    use crate::layout::Scalar;
    use crate::number::element::Element;

    #[test]
    fn every_type_gets_its_own_code() {
        for scalar in Scalar::ALL {
            assert_eq!(with_element!(scalar, V => V::SIZE), scalar.size(), "{scalar:?}");
            assert_eq!(with_float!(scalar, V => V::SIZE > 0, else false), scalar.is_float(), "{scalar:?}");
            assert_eq!(with_integer!(scalar, V => V::SIZE > 0, else false), !scalar.is_float(), "{scalar:?}");
        }
    }
}
