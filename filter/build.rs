//! Link options of `libh5zquire.so`. Elsewhere than on Linux, the library keeps itself loaded: `platform::ThreadKey`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // HDF5 unloads its plugins when it shuts down, while threads of the process may still hold our thread-local buffers, whose
    // destructors are code of this library.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
