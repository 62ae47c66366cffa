//! The plugin's C functions, as a C program without HDF5 sees them through the header.

use plugin_tests::{LIBRARY_NAME, Sandbox, assert_says, crate_folder, repository, succeed};

#[test]
fn a_c_program_compresses_arrays_without_hdf5() {
    let sandbox = Sandbox::new();
    let (program, folder) = (sandbox.path("arrays"), sandbox.plugin_folder());
    let mut compiler = sandbox.command("gcc");
    compiler.args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    compiler.arg("-I").arg(repository().join("filter/include")).arg(crate_folder().join("c/arrays.c"));
    compiler.arg("-L").arg(&folder).arg(format!("-l:{LIBRARY_NAME}")).arg(format!("-Wl,-rpath,{}", folder.display())).arg("-lm");
    let _ = succeed(&mut compiler);
    assert_says(&succeed(&mut sandbox.command(program)), &["arrays come back"]);
}

#[test]
fn the_header_is_for_cpp_too() {
    let sandbox = Sandbox::new();
    let mut compiler = sandbox.command("g++");
    compiler.args(["-x", "c++", "-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    let _ = succeed(compiler.arg(repository().join("filter/include/h5z_quire.h")));
}
