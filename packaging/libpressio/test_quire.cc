// Every value of a field comes back within the bound through libpressio, under each of its names of bounds; a mistake is refused with its reason.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "libpressio.h"

static void must(bool held, const char* what, const char* reason = "") {
  if (!held) {
    std::fprintf(stderr, "failed: %s %s\n", what, reason);
    std::exit(1);
  }
}

template <class T>
static void round_trip(pressio_compressor* compressor, pressio_dtype type, const char* name, double bound) {
  std::vector<size_t> const dims{50, 40, 30}; // fastest first
  std::vector<T> values(50 * 40 * 30);
  for (size_t i = 0; i < values.size(); i++) {
    values[i] = static_cast<T>(1000 + 500 * std::sin(i % 50 / 9.0) * std::cos(i / 50 % 40 / 7.0) + i / 2000);
  }
  pressio_options* options = pressio_options_new();
  if (std::string(name) == "quire:options") {
    pressio_options_set_string(options, name, ("abs=" + std::to_string(bound)).c_str());
  } else {
    pressio_options_set_double(options, name, bound);
  }
  must(pressio_compressor_set_options(compressor, options) == 0, name, pressio_compressor_error_msg(compressor));
  pressio_data* input = pressio_data_new_copy(type, values.data(), dims.size(), dims.data());
  pressio_data* stream = pressio_data_new_empty(pressio_byte_dtype, 0, nullptr);
  pressio_data* output = pressio_data_new_owning(type, dims.size(), dims.data());
  must(pressio_compressor_compress(compressor, input, stream) == 0, "compress", pressio_compressor_error_msg(compressor));
  must(pressio_compressor_decompress(compressor, stream, output) == 0, "decompress", pressio_compressor_error_msg(compressor));
  auto const* found = static_cast<T const*>(pressio_data_ptr(output, nullptr));
  double worst = 0;
  for (size_t i = 0; i < values.size(); i++) {
    double const unit = std::string(name) == "pressio:pw_rel" ? std::fabs(double(values[i])) : std::string(name) == "pressio:rel" ? 1015 : 1;
    worst = std::fmax(worst, std::fabs(double(values[i]) - double(found[i])) / unit / bound);
  }
  size_t const length = pressio_data_get_bytes(stream);
  std::printf("%-15s %zu bytes a value: ratio %.1f, largest error %.4f bounds\n", name, sizeof(T), double(values.size() * sizeof(T)) / length, worst);
  must(worst > 0 && worst <= 1, "the bound");
  must(length < values.size() * sizeof(T) / 2, "the ratio");
  for (auto data : {input, stream, output}) {
    pressio_data_free(data);
  }
  pressio_options_free(options);
}

int main() {
  pressio* library = pressio_instance();
  pressio_compressor* compressor = pressio_get_compressor(library, "quire");
  must(compressor != nullptr, "libpressio does not know quire");
  for (auto name : {"pressio:abs", "quire:options"}) {
    round_trip<float>(compressor, pressio_float_dtype, name, 0.5);
    round_trip<int32_t>(compressor, pressio_int32_dtype, name, 2);
  }
  round_trip<double>(compressor, pressio_double_dtype, "pressio:rel", 1e-3);
  round_trip<float>(compressor, pressio_float_dtype, "pressio:pw_rel", 1e-3);
  pressio_options* options = pressio_options_new();
  pressio_options_set_string(options, "quire:options", "abs=-1");
  must(pressio_compressor_set_options(compressor, options) != 0, "abs=-1 is taken");
  std::printf("abs=-1 is refused: %s\n", pressio_compressor_error_msg(compressor));
  pressio_options_free(options);
  pressio_compressor_release(compressor);
  pressio_release(library);
}
