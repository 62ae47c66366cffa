//! The stream that FORMAT.md prints.

use plugin_tests::{Python, Sandbox, succeed};

#[test]
fn the_stream_of_the_format_is_what_the_plugin_writes_and_the_python_decoder_reads() {
    let sandbox = Sandbox::new();
    for python in Python::ALL {
        println!("{}", succeed(sandbox.python(python, "stream_example.py").arg(sandbox.path("example.h5"))).stdout);
    }
}
