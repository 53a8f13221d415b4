// SPDX-License-Identifier: Apache-2.0
// Damaged chat templates never crash the interpreter.
#include <string>

#include "catch2/catch.hpp"
#include "tests/mutations/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace troupe::jinja {

TEST_CASE("Template: damaged templates never crash the interpreter", "[jinja]") {
  std::string source = R"({%- set ns = namespace(n=0, last=messages[-1]) %}
{%- macro show(m, sep='|') -%}{{ m.role ~ sep ~ m['content'][::-1]|trim|upper }}{%- endmacro -%}
{% for m in messages if m.role is in ['user', 'system'] %}{% set ns.n = ns.n + 1 -%}
{{ show(m) }}{{ m|tojson(indent=2) }}{% if not loop.last and loop.index0 % 2 == 0 %}{{ loop.nextitem.content }}{% else %}
{{ (range(3)|list)[1:]|map('string')|join(', ') }}{% continue %}{% endif %}{% endfor %}
{{ 'x' * 3 if tools is none else tools|length }}{# note #}{{ m.items() if m is defined else "a\u00e9'".split("'") }})";
  CHECK(RunMutations(LLVMFuzzerTestOneInput, source, 20'000, 1) == 20'000);
}

}  // namespace troupe::jinja
