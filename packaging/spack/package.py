# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class H5zQuire(CMakePackage, CudaPackage):
    """HDF5 filter that makes chunks of floating-point and integer data smaller and
    keeps every value within an error bound, on the CPU or on an NVIDIA GPU, with the
    same bytes."""

    license("BSD-3-Clause")

    # Spack's own repository wants the address of releases and a checksum. Until then:
    # spack dev-build h5z-quire@1.0.0-rc.2
    version("1.0.0-rc.2")

    depends_on("c", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("rust@1.89:", type="build")
    # Types and constants alone: the filter works with every HDF5 from 1.10 on.
    depends_on("hdf5@1.10:", type="build")
    depends_on("cuda@12.4:", when="+cuda")

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        env.set("HDF5_DIR", self.spec["hdf5"].prefix)
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            env.set("CUDAARCHS", ";".join(self.spec.variants["cuda_arch"].value))

    def cmake_args(self):
        nvcc = join_path(self.spec["cuda"].prefix.bin, "nvcc") if "+cuda" in self.spec else "none"
        return [self.define("NVCC", nvcc)]

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.append_path("HDF5_PLUGIN_PATH", self.prefix.lib.plugin)
