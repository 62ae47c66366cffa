//! The plugin as `cmake --install` leaves it, used with nothing of the source tree around it.

use std::process::Command;

use plugin_tests::{Sandbox, assert_says, repository, succeed, target_folder};

#[test]
fn cmake_installs_a_plugin_that_a_bare_environment_finds() {
    let sandbox = Sandbox::new();
    // A build of its own, without kernels and not optimized, which the next run finds again. What a release is compiled to is in the other tests.
    let (build, prefix) = (target_folder().join("installed"), sandbox.path("prefix"));
    // CMake refuses what it has noted for a source tree that has been moved or copied since.
    let _ = std::fs::remove_file(build.join("CMakeCache.txt"));
    let cmake = |arguments: &[&str]| {
        let mut command = sandbox.command("cmake");
        command.args(arguments).env_remove("NVCC").env_remove("CARGO_TARGET_DIR").env_remove("HDF5_PLUGIN_PATH");
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        succeed(&mut command)
    };
    let (build, source) = (build.to_string_lossy(), repository().to_string_lossy());
    let _ = cmake(&["-S", &source, "-B", &build, "-DNVCC=none", &format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display())]);
    let _ = cmake(&["--build", &build]);
    assert_says(&cmake(&["--install", &build]), &["lib/plugin/libh5zquire.so", "include/h5z_quire.h"]);

    let program = sandbox.path("example");
    let source = repository().join("docs/example.c");
    let _ = succeed(sandbox.command("h5cc").args(["-shlib", "-o"]).arg(&program).arg(source).arg("-lm"));
    let moved = sandbox.path("elsewhere");
    std::fs::rename(prefix.join("lib/plugin"), &moved).expect("the plugin's folder can be moved");
    let mut bare = Command::new(&program);
    bare.arg(sandbox.path("example.h5")).env_clear().env("HDF5_PLUGIN_PATH", &moved).current_dir(sandbox.path(""));
    assert_says(&succeed(&mut bare), &["within the bound of 0.001"]);
}
