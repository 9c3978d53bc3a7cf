// C++17 interface of compiled models; see tcopt.h for the meaning of each function.
//
//   #include "squeezenet.h"
//   #include "tcopt.hpp"
//   tcopt::Model model(tcopt_descriptor_squeezenet());
//   tcopt::Instance instance(model);
//   instance.set_input<float>("data", pixels);
//   instance.run();
//   for (float score : instance.output<float>("scores")) ...
//
// A function that fails throws tcopt::Error.
#ifndef TCOPT_HPP
#define TCOPT_HPP

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tcopt.h"

namespace tcopt {

class Error : public std::runtime_error {
public:
  Error(tcopt_status status, const std::string &message)
      : std::runtime_error(message), status_(status) {}
  tcopt_status status() const { return status_; }

private:
  tcopt_status status_;
};

inline void check(tcopt_status status) {
  if (status != TCOPT_OK)
    throw Error(status, std::string(tcopt_status_name(status)) + ": " + tcopt_last_error());
}

// Elements that belong to someone else; std::span for C++17.
template <typename T> class Span {
public:
  Span(T *data, std::size_t size) : data_(data), size_(size) {}
  // Of a vector, an array, a std::span ...
  template <typename Container, typename = decltype(std::declval<Container &>().data())>
  Span(Container &&container) : data_(container.data()), size_(container.size()) {}

  T *data() const { return data_; }
  std::size_t size() const { return size_; }
  T *begin() const { return data_; }
  T *end() const { return data_ + size_; }
  T &operator[](std::size_t index) const { return data_[index]; }

private:
  T *data_;
  std::size_t size_;
};

// The element type of a C++ type. Specialise it for own types, such as one of 16-bit floats.
template <typename T> struct DataType;
template <> struct DataType<float> { static constexpr tcopt_dtype value = TCOPT_FLOAT32; };
template <> struct DataType<double> { static constexpr tcopt_dtype value = TCOPT_FLOAT64; };
template <> struct DataType<bool> { static constexpr tcopt_dtype value = TCOPT_BOOL; };
template <> struct DataType<std::int8_t> { static constexpr tcopt_dtype value = TCOPT_INT8; };
template <> struct DataType<std::int16_t> { static constexpr tcopt_dtype value = TCOPT_INT16; };
template <> struct DataType<std::int32_t> { static constexpr tcopt_dtype value = TCOPT_INT32; };
template <> struct DataType<std::int64_t> { static constexpr tcopt_dtype value = TCOPT_INT64; };
template <> struct DataType<std::uint8_t> { static constexpr tcopt_dtype value = TCOPT_UINT8; };
template <> struct DataType<std::uint16_t> { static constexpr tcopt_dtype value = TCOPT_UINT16; };
template <> struct DataType<std::uint32_t> { static constexpr tcopt_dtype value = TCOPT_UINT32; };
template <> struct DataType<std::uint64_t> { static constexpr tcopt_dtype value = TCOPT_UINT64; };

using Shape = std::vector<std::int64_t>;

class Model {
public:
  explicit Model(const tcopt_descriptor *descriptor,
                 const tcopt_model_options &options = TCOPT_MODEL_OPTIONS) {
    check(tcopt_model_create(descriptor, &options, &model_));
  }
  // With weights that are mapped from a file.
  Model(const tcopt_descriptor *descriptor, const std::string &weights_path) {
    tcopt_model_options options = TCOPT_MODEL_OPTIONS;
    options.weights_path = weights_path.c_str();
    check(tcopt_model_create(descriptor, &options, &model_));
  }
  ~Model() { tcopt_model_destroy(model_); }
  Model(Model &&other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  Model &operator=(Model &&other) noexcept {
    std::swap(model_, other.model_);
    return *this;
  }

  const tcopt_info &info() const { return *tcopt_model_info(model_); }
  std::int32_t input_count() const { return tcopt_input_count(model_); }
  std::int32_t output_count() const { return tcopt_output_count(model_); }
  const tcopt_tensor &input(std::int32_t index) const { return found(tcopt_input(model_, index)); }
  const tcopt_tensor &output(std::int32_t index) const {
    return found(tcopt_output(model_, index));
  }
  std::int32_t input_index(const std::string &name) const {
    return found(tcopt_input_index(model_, name.c_str()), name);
  }
  std::int32_t output_index(const std::string &name) const {
    return found(tcopt_output_index(model_, name.c_str()), name);
  }
  std::int32_t size_index(const std::string &name) const {
    return found(tcopt_size_index(model_, name.c_str()), name);
  }
  void cancel(bool is_cancelled = true) const { tcopt_model_cancel(model_, is_cancelled); }
  const tcopt_model *get() const { return model_; }

private:
  static const tcopt_tensor &found(const tcopt_tensor *tensor) {
    if (tensor == nullptr)
      throw Error(TCOPT_INVALID_ARGUMENT, "the model has no tensor with this index");
    return *tensor;
  }
  static std::int32_t found(std::int32_t index, const std::string &name) {
    if (index < 0)
      throw Error(TCOPT_INVALID_ARGUMENT, "the model has nothing named \"" + name + "\"");
    return index;
  }

  tcopt_model *model_ = nullptr;
};

// The memory of one run at a time. The model must outlive it.
class Instance {
public:
  explicit Instance(const Model &model,
                    const tcopt_instance_options &options = TCOPT_INSTANCE_OPTIONS)
      : model_(&model) {
    check(tcopt_instance_create(model.get(), &options, &instance_));
  }
  ~Instance() { tcopt_instance_destroy(instance_); }
  Instance(Instance &&other) noexcept
      : model_(other.model_), instance_(std::exchange(other.instance_, nullptr)) {}
  Instance &operator=(Instance &&other) noexcept {
    std::swap(model_, other.model_);
    std::swap(instance_, other.instance_);
    return *this;
  }

  // Sets an input, which is read by the following runs.
  template <typename T>
  void set_input(std::int32_t index, Span<const T> data, const Shape &shape = {}) {
    const tcopt_tensor &tensor = model_->input(index);
    check_type<T>(tensor);
    if (!shape.empty() && shape.size() != static_cast<std::size_t>(tensor.rank))
      throw Error(TCOPT_INVALID_SHAPE, std::string("wrong rank of input ") + tensor.name);
    if (data.size() != elements(tensor, shape))
      throw Error(TCOPT_INVALID_SHAPE, std::string("wrong number of elements of ") + tensor.name);
    check(tcopt_set_input(instance_, index, data.data(), shape.empty() ? nullptr : shape.data()));
  }
  template <typename T>
  void set_input(const std::string &name, Span<const T> data, const Shape &shape = {}) {
    set_input<T>(model_->input_index(name), data, shape);
  }
  template <typename T> void set_output(std::int32_t index, Span<T> data) {
    check_type<T>(model_->output(index));
    check(tcopt_set_output(instance_, index, data.data(), data.size() * sizeof(T)));
  }
  template <typename T> void set_output(const std::string &name, Span<T> data) {
    set_output<T>(model_->output_index(name), data);
  }
  void set_size(const std::string &name, std::int64_t value) {
    check(tcopt_set_size(instance_, model_->size_index(name), value));
  }
  void set_seed(std::uint64_t seed) { tcopt_set_seed(instance_, seed); }

  void prepare() { check(tcopt_prepare(instance_)); }
  void run() { check(tcopt_run(instance_)); }

  // The result of the last run, valid until the next one.
  template <typename T> Span<const T> output(std::int32_t index) const {
    check_type<T>(model_->output(index));
    const void *data = tcopt_output_data(instance_, index);
    return {static_cast<const T *>(data), tcopt_output_bytes(instance_, index) / sizeof(T)};
  }
  template <typename T> Span<const T> output(const std::string &name) const {
    return output<T>(model_->output_index(name));
  }
  Shape output_shape(std::int32_t index) const {
    Shape shape(static_cast<std::size_t>(model_->output(index).rank));
    check(tcopt_output_shape(instance_, index, shape.data()));
    return shape;
  }
  Shape output_shape(const std::string &name) const {
    return output_shape(model_->output_index(name));
  }
  tcopt_instance *get() const { return instance_; }

private:
  template <typename T> static void check_type(const tcopt_tensor &tensor) {
    if (DataType<T>::value != tensor.dtype)
      throw Error(TCOPT_INVALID_ARGUMENT, std::string("wrong element type of ") + tensor.name);
  }
  // The number of elements of a shape; without one, that of the only shape of a tensor.
  static std::size_t elements(const tcopt_tensor &tensor, const Shape &shape) {
    std::size_t count = 1;
    for (std::int32_t axis = 0; axis < tensor.rank; axis++) {
      const tcopt_extent &extent = tensor.shape[axis];
      if (shape.empty() && extent.low != extent.high)
        throw Error(TCOPT_INVALID_SHAPE, std::string(tensor.name) + " needs a shape");
      count *= static_cast<std::size_t>(
          shape.empty() ? extent.low : shape[static_cast<std::size_t>(axis)]);
    }
    return count;
  }

  const Model *model_;
  tcopt_instance *instance_ = nullptr;
};

} // namespace tcopt

#endif
