#include "tests/common/wire/bounds_model.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <vector>

namespace softmax::testing {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

std::uint64_t FieldsOf(const UnknownFieldSet& fields) {
  std::uint64_t count = 0;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    count += field.type() == UnknownField::TYPE_GROUP ? 2 + FieldsOf(field.group()) : 1;
  }
  return count;
}

}  // namespace

std::uint64_t FieldsOf(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::uint64_t count = FieldsOf(reflection.GetUnknownFields(message));
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    const auto times = static_cast<std::uint64_t>(field->is_repeated() ? reflection.FieldSize(message, field) : 1);
    count += field->is_packed() ? 1 : times;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    for (std::uint64_t i = 0; i < times; ++i) {
      count += FieldsOf(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, static_cast<int>(i))
                                             : reflection.GetMessage(message, field));
    }
  }
  return count;
}

}  // namespace softmax::testing
