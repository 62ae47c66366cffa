//! What clients say where HDF5 does not find the plugin: docs/guide.md has each message.

use plugin_tests::{Python, Sandbox, assert_says, succeed};

#[test]
fn every_message_of_a_missing_filter_is_in_the_guide() {
    let sandbox = Sandbox::new();
    let _ = succeed(sandbox.python(Python::Hdf5_2_0, "missing_filter.py").args(["make", "."]));
    for python in Python::ALL {
        assert_says(&succeed(sandbox.python(python, "missing_filter.py").args(["check", "."])), &["messages are in the guide"]);
    }
    assert_says(
        &succeed(sandbox.python(Python::Debian, "missing_filter.py").args(["tools", "."])),
        &["messages are in the guide"],
    );
}
