// H5Z-Quire's codec in libpressio. In a checkout this file is src/plugins/compressors/quire.cc; quire.cmake, beside it here, goes into CMakeLists.txt.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "h5z_quire.h"
#include "libpressio_ext/cpp/compressor.h"
#include "libpressio_ext/cpp/data.h"
#include "libpressio_ext/cpp/domain_manager.h"
#include "libpressio_ext/cpp/options.h"
#include "libpressio_ext/cpp/pressio.h"
#include "std_compat/memory.h"

namespace libpressio { namespace compressors { namespace quire_ns {

const std::map<pressio_dtype, uint32_t> value_types{
    {pressio_float_dtype, QUIRE_F32},  {pressio_double_dtype, QUIRE_F64}, {pressio_int8_dtype, QUIRE_I8},   {pressio_uint8_dtype, QUIRE_U8},
    {pressio_int16_dtype, QUIRE_I16},  {pressio_uint16_dtype, QUIRE_U16}, {pressio_int32_dtype, QUIRE_I32}, {pressio_uint32_dtype, QUIRE_U32},
    {pressio_int64_dtype, QUIRE_I64},  {pressio_uint64_dtype, QUIRE_U64},
};

// libpressio's names of bounds, and ours.
const std::vector<std::pair<std::string, std::string>> bounds{{"pressio:abs", "abs"}, {"pressio:rel", "rel"}, {"pressio:pw_rel", "pwrel"}};

class quire_plugin : public libpressio_compressor_plugin {
  pressio_options get_options_impl() const override {
    pressio_options options;
    for (auto const& bound : bounds) {
      set_type(options, bound.first, pressio_option_double_type);
    }
    set_type(options, "pressio:lossless", pressio_option_int32_type);
    set(options, "quire:options", text);
    return options;
  }

  pressio_options get_documentation_impl() const override {
    pressio_options options;
    set(options, "pressio:description", "keeps every value within an error bound, on the CPU or an NVIDIA GPU, with the same bytes");
    set(options, "quire:options", "what to keep, such as abs=1e-3, rel=1e-4, pwrel=1e-3, psnr=60, ratio=20 or lossless: README of H5Z-Quire, Options");
    return options;
  }

  pressio_options get_configuration_impl() const override {
    pressio_options options;
    std::vector<std::string> const names{"pressio:abs", "pressio:rel", "pressio:pw_rel", "pressio:lossless", "quire:options"};
    set(options, "pressio:thread_safe", pressio_thread_safety_multiple);
    set(options, "pressio:stability", "stable");
    set(options, "predictors:error_dependent", names);
    set(options, "predictors:error_agnostic", names);
    set(options, "predictors:runtime", names);
    set(options, "pressio:highlevel", get_accumulate_configuration("pressio:highlevel", {}, names));
    return options;
  }

  int set_options_impl(pressio_options const& options) override {
    std::string wanted = text;
    for (auto const& bound : bounds) {
      double value;
      if (get(options, bound.first, &value) == pressio_options_key_set) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "=%.17g", value);
        wanted = bound.second + digits;
      }
    }
    int32_t is_lossless;
    if (get(options, "pressio:lossless", &is_lossless) == pressio_options_key_set) {
      wanted = "lossless";
    }
    get(options, "quire:options", &wanted);
    quire_bytes reason;
    if (int const status = checked(quire_cd_values(wanted.c_str(), &reason), &reason)) {
      return status;
    }
    text = wanted;
    return 0;
  }

  int compress_impl(const pressio_data* values, pressio_data* stream) override {
    auto const type = value_types.find(values->dtype());
    if (type == value_types.end()) {
      return set_error(QUIRE_INVALID, "only numbers can be compressed");
    }
    auto const input = domain_manager().make_readable(domain_plugins().build("malloc"), *values);
    auto const extents = input.normalized_dims(); // fastest first, ours are slowest first
    std::vector<uint64_t> const slowest_first(extents.rbegin(), extents.rend());
    quire_bytes result;
    int const status = quire_compress(text.c_str(), type->second, slowest_first.size(), slowest_first.data(), nullptr, input.data(),
                                      input.size_in_bytes(), &result);
    if (status == QUIRE_OK) {
      *stream = pressio_data::copy(pressio_byte_dtype, result.address, {result.length});
    }
    return checked(status, &result);
  }

  int decompress_impl(const pressio_data* stream, pressio_data* values) override {
    auto const input = domain_manager().make_readable(domain_plugins().build("malloc"), *stream);
    auto output = values->has_data() ? domain_manager().make_writeable(domain_plugins().build("malloc"), std::move(*values))
                                     : pressio_data::owning(values->dtype(), values->dimensions());
    quire_bytes reason;
    int const status = quire_decompress(input.data(), input.size_in_bytes(), output.data(), output.size_in_bytes(), &reason);
    *values = std::move(output);
    return checked(status, &reason);
  }

  // Frees what a call has delivered, which is the reason if it has failed.
  int checked(int status, quire_bytes* delivered) {
    std::string const reason = status == QUIRE_OK ? "" : delivered->address ? reinterpret_cast<char*>(delivered->address) : "no memory";
    quire_free(delivered);
    return status == QUIRE_OK ? 0 : set_error(status, reason);
  }

  // Of the streams' format.
  int major_version() const override { return 1; }
  int minor_version() const override { return 0; }
  int patch_version() const override { return 0; }
  const char* version() const override { return "1.0"; }
  const char* prefix() const override { return "quire"; }

  std::shared_ptr<libpressio_compressor_plugin> clone() override { return compat::make_unique<quire_plugin>(*this); }

  std::string text = "lossless";
};

pressio_register registration(compressor_plugins(), "quire", [] { return compat::make_unique<quire_plugin>(); });

}}}
