//! Declares structures and constants once, for Rust and for CUDA.
//!
//! ```text
//! shared_structs! { pub struct Shape { pub rank: u32, .. } }     in src/job
//!    ├─> #[repr(C)] struct Shape                                  what the host fills in
//!    └─> struct Shape { u32 rank; .. }; static_assert(offsetof ..)   written by build.rs, what kernels read
//! ```
//!
//! The macros also keep each item's documentation, which the C++ text repeats. Only `build.rs` asks for that text.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// An address in device memory, or in pinned memory that the device reaches. The host never dereferences one.
pub type Address = u64;

/// A field that is `T*` in the kernels.
#[repr(transparent)]
pub struct Pointer<T>(Address, PhantomData<fn() -> T>);

/// A field that is `const T*` in the kernels.
#[repr(transparent)]
pub struct ConstPointer<T>(Address, PhantomData<fn() -> T>);

macro_rules! pointer {
    ($pointer:ident) => {
        impl<T> $pointer<T> {
            /// The null pointer.
            pub const NULL: Self = Self::new(0);

            /// A pointer to this address.
            pub const fn new(address: Address) -> Self {
                Self(address, PhantomData)
            }

            /// The address that is pointed to.
            pub const fn address(self) -> Address {
                self.0
            }

            /// Whether nothing is pointed to.
            pub const fn is_null(self) -> bool {
                self.0 == 0
            }
        }

        // Derived implementations would demand `Clone` and `Copy` of `T`, too.
        impl<T> Clone for $pointer<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $pointer<T> {}
        impl<T> Default for $pointer<T> {
            fn default() -> Self {
                Self::NULL
            }
        }
        impl<T> fmt::Debug for $pointer<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}
pointer!(Pointer);
pointer!(ConstPointer);

/// A type that C++ has as well.
pub trait CudaType {
    /// Its name in C++; for an array, the name of its elements' type.
    fn name() -> String;

    /// What C++ writes behind a field's name: `[4][256]` for an array.
    fn extents() -> String {
        String::new()
    }
}

macro_rules! named {
    ($($type:ty = $name:literal),+) => {$(
        impl CudaType for $type {
            fn name() -> String {
                $name.to_owned()
            }
        }
    )+};
}
named!(u8 = "u8", u16 = "u16", u32 = "u32", u64 = "u64", i32 = "i32", i64 = "i64", f64 = "double", c_void = "void");

impl<T: CudaType> CudaType for Pointer<T> {
    fn name() -> String {
        format!("{}*", T::name())
    }
}

impl<T: CudaType> CudaType for ConstPointer<T> {
    fn name() -> String {
        format!("const {}*", T::name())
    }
}

impl<T: CudaType, const N: usize> CudaType for [T; N] {
    fn name() -> String {
        T::name()
    }

    fn extents() -> String {
        format!("[{N}]{}", T::extents())
    }
}

/// A structure that [`shared_structs`] has declared.
pub trait SharedStruct: CudaType {
    /// Bytes of all fields; the structure has padding if it is longer.
    const FIELD_BYTES: usize;

    /// The structure in C++, and assertions that it is laid out as in Rust.
    fn declaration() -> String;
}

/// A constant that [`shared_constants`] has declared.
pub struct Constant {
    pub name: &'static str,
    pub documentation: &'static [&'static str],
    pub value: u64,
}

/// A field of a structure.
pub struct Field {
    name: &'static str,
    type_name: String,
    extents: String,
    offset: usize,
    documentation: &'static [&'static str],
}

impl Field {
    pub fn new<T: CudaType>(name: &'static str, offset: usize, documentation: &'static [&'static str]) -> Self {
        Self { name, type_name: T::name(), extents: T::extents(), offset, documentation }
    }
}

/// Lines of documentation as a C++ comment.
fn comment(indent: &str, lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{indent}///{line}\n")).collect()
}

/// A structure in C++.
pub fn struct_text<T: CudaType>(documentation: &[&str], fields: &[Field]) -> String {
    let name = T::name();
    let mut text = format!("\n{}struct {name} {{\n", comment("", documentation));
    for Field { name, type_name, extents, documentation, .. } in fields {
        text += &comment("  ", documentation);
        text += &format!("  {type_name} {name}{extents};\n");
    }
    text += "};\n";
    text += &format!("static_assert(sizeof({name}) == {}, \"longer or shorter than in Rust\");\n", size_of::<T>());
    for Field { name: field, offset, .. } in fields {
        text += &format!("static_assert(__builtin_offsetof({name}, {field}) == {offset}, \"at another offset than in Rust\");\n");
    }
    text
}

/// A constant in C++.
pub fn constant_text(constant: &Constant) -> String {
    format!("{}constexpr unsigned int {} = {};\n", comment("", constant.documentation), constant.name, constant.value)
}

/// Declares `repr(C)` structures, and a function `struct_declarations` that gives all of them in C++. Fields have [`CudaType`]s.
macro_rules! shared_structs {
    ($(
        $(#[doc = $text:literal])*
        $(#[derive($($derive:ident),+)])?
        pub struct $name:ident {
            $($(#[doc = $field_text:literal])* pub $field:ident: $type:ty,)+
        }
    )+) => {
        $(
            $(#[doc = $text])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy $($(, $derive)+)?)]
            pub struct $name {
                $($(#[doc = $field_text])* pub $field: $type,)+
            }

            impl $crate::declare::CudaType for $name {
                fn name() -> String {
                    stringify!($name).to_owned()
                }
            }

            impl $crate::declare::SharedStruct for $name {
                const FIELD_BYTES: usize = 0 $(+ size_of::<$type>())+;

                fn declaration() -> String {
                    use $crate::declare::{Field, struct_text};
                    let fields = [$(
                        Field::new::<$type>(stringify!($field), std::mem::offset_of!(Self, $field), &[$($field_text),*]),
                    )+];
                    struct_text::<Self>(&[$($text),*], &fields)
                }
            }
        )+

        /// All structures in C++.
        pub(super) fn struct_declarations() -> String {
            [$(<$name as $crate::declare::SharedStruct>::declaration()),+].concat()
        }
    };
}

/// Declares constants, and a list `CONSTANTS` of all of them. They are `unsigned int`s in C++.
macro_rules! shared_constants {
    ($($(#[doc = $text:literal])* pub const $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $text])* pub const $name: $type = $value;)+

        /// All constants.
        pub(super) const CONSTANTS: &[$crate::declare::Constant] = &[$(
            $crate::declare::Constant { name: stringify!($name), documentation: &[$($text),*], value: $name as u64 },
        )+];
    };
}

pub(crate) use {shared_constants, shared_structs};
