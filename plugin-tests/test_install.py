"""The plugin as `cmake --install` leaves it, used with nothing of the source tree around it."""

from __future__ import annotations

from pathlib import Path

from conftest import REPOSITORY, Ended, Runner, target_folder


def test_cmake_installs_a_plugin_that_a_bare_environment_finds(run: Runner, tmp_path: Path) -> None:
    # A build of its own, without kernels and not optimized, which the next run finds again. What a release is compiled to is in the other tests.
    build, prefix = target_folder() / "installed", tmp_path / "prefix"
    settings = {"NVCC": None, "CARGO_TARGET_DIR": None, "HDF5_PLUGIN_PATH": None, "RUST_MIN_STACK": None}
    settings |= {"CARGO_PROFILE_RELEASE_OPT_LEVEL": "0", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}

    def cmake(*arguments: object) -> Ended:
        return run("cmake", *arguments, env=settings)

    # CMake refuses what it has noted for a source tree that has been moved or copied since.
    (build / "CMakeCache.txt").unlink(missing_ok=True)
    cmake("-S", REPOSITORY, "-B", build, "-DNVCC=none", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    cmake("--build", build)
    cmake("--install", build).must_say("lib/plugin/libh5zquire.so", "include/h5z_quire.h")

    run("h5cc", "-shlib", "-o", "example", REPOSITORY / "docs/example.c", "-lm")
    moved = (prefix / "lib/plugin").rename(tmp_path / "elsewhere")
    run("env", "-i", f"HDF5_PLUGIN_PATH={moved}", tmp_path / "example", "example.h5").must_say("within the bound of 0.001")
