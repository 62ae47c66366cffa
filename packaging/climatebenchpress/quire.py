__all__ = ["Quire"]

from h5z_quire.numcodecs import QuireCodec

from climatebenchpress.compressor.compressors.abc import Compressor


class Quire(Compressor):
    """H5Z-Quire. Both kinds of bounds hold for every value, and NaN and infinities keep their bits."""

    name = "quire"
    description = "Quire"

    @staticmethod
    def abs_bound_codec(error_bound, **kwargs):
        return QuireCodec(abs=error_bound)

    @staticmethod
    def rel_bound_codec(error_bound, **kwargs):
        return QuireCodec(pwrel=error_bound)
