#!/usr/bin/env python3
"""In nvcc's place: compiles the kernels with NVRTC, the compiler that PyPI has for CUDA 12 (h5-samples/setup.sh, need_nvcc).

    nvrtc.py --cubin|--ptx --gpu-architecture=sm_80 [--std=...] [--fmad=false] -I FOLDER -o FILE SOURCE

Machine code from CUDA 12.9 runs with the drivers of CUDA 12 and newer. nvcc itself is on PyPI for CUDA 13 alone.
"""

import ctypes
import sys
from pathlib import Path

NAMES = "lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
# What the headers of nvcc's host compiler define.
HEADERS = [
    "--define-macro=INFINITY=__int_as_float(0x7f800000)",
    "--define-macro=__builtin_offsetof(type,member)=__INTADDR__(&((type*)0)->member)",
]
# nvcc takes functions of the device for granted where lambdas are concerned, and has integers of 128 bits.
OPTIONS = ["--device-as-default-execution-space", "--device-int128", *HEADERS]
# Of nvcc alone: its highest level is NVRTC's only one, and the log is looked at below.
OF_NVCC = ["-O3", "--Werror", "all-warnings"]


def main() -> None:
    (library,) = (Path(__file__).resolve().parents[1] / ".venv-nvcc").glob(NAMES)
    nvrtc = ctypes.CDLL(str(library))

    def call(name: str, *arguments: object) -> int:
        return getattr(nvrtc, f"nvrtc{name}")(*arguments)

    def bytes_of(name: str) -> bytes:
        size = ctypes.c_size_t()
        call(f"{name}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        call(name, program, text)
        return text.raw

    major, minor = ctypes.c_int(), ctypes.c_int()
    call("Version", ctypes.byref(major), ctypes.byref(minor))
    arguments = [argument for argument in sys.argv[1:] if argument not in OF_NVCC]
    if arguments == ["--version"]:
        print(f"release {major.value}.{minor.value}, NVRTC of {library}")
        return
    kind, *options, to, output, source = arguments
    if kind not in ("--cubin", "--ptx") or to != "-o":
        sys.exit(__doc__)
    options = [*OPTIONS, f"--include-path={Path(source).parent}", *options]
    program = ctypes.c_void_p()
    call("CreateProgram", ctypes.byref(program), Path(source).read_bytes(), source.encode(), 0, None, None)
    status = call("CompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*[option.encode() for option in options]))
    log = bytes_of("GetProgramLog").rstrip(b"\0").decode()
    if status != 0 or "warning" in log:
        sys.exit(log or f"NVRTC reports error {status}")
    code = bytes_of("GetCUBIN") if kind == "--cubin" else bytes_of("GetPTX").rstrip(b"\0")
    Path(output).write_bytes(code)


if __name__ == "__main__":
    main()
