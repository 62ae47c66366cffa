//! Link options of `libh5zquire.so`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // HDF5 unloads its plugins when it shuts down, while threads of the process may still hold our thread-local buffers, whose
    // destructors are code of this library.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
