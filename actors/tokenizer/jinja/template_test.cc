// SPDX-License-Identifier: Apache-2.0
// The template language: values, tags, filters and limits. Expected texts are those of Jinja2 3.1 with Transformers'
// settings.
#include "actors/tokenizer/jinja/template.h"

#include <string>

#include "catch2/catch.hpp"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace troupe::jinja {
namespace {

using Catch::Matchers::Contains;

// The text, or the error's.
std::string Render(const std::string& source, const std::string& variables = "{}") {
  auto parsed = Template::Parse(source);
  if (!parsed.ok()) return StatusText(parsed.status());
  auto text =
      (*parsed)->Render(nlohmann::ordered_json::parse(variables), {.now = absl::FromUnixSeconds(0), .limits = {}});
  return text.ok() ? *text : StatusText(text.status());
}

}  // namespace

TEST_CASE("Template: text and values as Python writes them", "[jinja]") {
  CHECK(Render("a{{ 1 }}b") == "a1b");
  CHECK(Render("{{ true }} {{ none }} {{ 1.0 }} {{ 0.1 }} {{ 1e20 }} {{ 100.5 }} {{ 1e-7 }} {{ 123456789.0 }}") ==
        "True None 1.0 0.1 1e+20 100.5 1e-07 123456789.0");
  CHECK(Render("{{ ['a', 1, {'k': none}] }}") == "['a', 1, {'k': None}]");
  CHECK(Render("{{ 'a' 'b' }}{{ \"it's\" }}{{ '\\u00e9\\n' }}") == "abit's\u00e9\n");
  CHECK(Render("{{ missing }}|{{ x.y }}", R"({"x": {}})") == "|");
}

TEST_CASE("Template: operators have Python's meaning and order", "[jinja]") {
  CHECK(Render("{{ 1 + 2 * 3 - 4 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }}") == "3 -4 2 3.5 1024");
  CHECK(Render("{{ 'a' ~ 1 ~ none }} {{ 'ab' * 2 }} {{ [1] + [2] }}") == "a1None abab [1, 2]");
  CHECK(Render("{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ 'k' in {'k': 1} }}") ==
        "True False True True True");
  CHECK(Render("{{ not a or b and c }} {{ a or 'x' }} {{ 1 and 0 }}", R"({"a": false, "b": true, "c": false})") ==
        "True x 0");
  CHECK(Render("{{ 'yes' if x else 'no' }} {{ 'only' if x }}", R"({"x": 0})") == "no ");
  CHECK(Render("{{ -x|abs }} {{ x is defined and x is not none }}", R"({"x": 3})") == "3 True");
}

TEST_CASE("Template: items, slices and methods", "[jinja]") {
  CHECK(Render("{{ x[0] }}{{ x[-1] }}{{ x[1:] }}{{ x[::-1] }}{{ x[:-1] }}{{ x[5] }}", R"({"x": [1, 2, 3]})") ==
        "13[2, 3][3, 2, 1][1, 2]");
  CHECK(Render("{{ 'h\u00e9llo'[1] }}{{ 'h\u00e9llo'[1:3] }}{{ 'h\u00e9llo'|length }}") == "\u00e9\u00e9l5");
  CHECK(Render("{{ d.a }}{{ d['b'] }}{{ d.get('c', 'no') }}{{ d.get('c') }}{% for k, v in d.items() %}{{ k }}={{ v "
               "}};{% endfor %}",
               R"({"d": {"a": 1, "b": 2}})") == "12noNonea=1;b=2;");
  CHECK(Render("{{ ' a b '.strip() }}|{{ 'a,b,c'.split(',') }}|{{ 'a b  c'.split() }}|{{ 'a-b-c'.rsplit('-', 1) }}") ==
        "a b|['a', 'b', 'c']|['a', 'b', 'c']|['a-b', 'c']");
  CHECK(Render("{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aXbX'.replace('X', '-', 1) }}{{ "
               "'abc'.find('c') }}") == "TrueTruea-bX2");
  CHECK(
      Render("{{ 'hello world'.title() }} {{ 'ABC'.lower() }} {{ 'x'.join(['a', 'b']) }} {{ 'a\nb'.splitlines() }}") ==
      "Hello World abc axb ['a', 'b']");
  CHECK(Render("{{ '</think>a</think>b'.split('</think>')[-1].lstrip('\\n') }}") == "b");
}

TEST_CASE("Template: loops, their variable, filters and controls", "[jinja]") {
  CHECK(
      Render(
          "{% for i in range(3) %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }} {% endfor %}") ==
      "1TrueFalse2 2FalseFalse1 3FalseTrue0 ");
  CHECK(Render("{% for i in [] %}x{% else %}none{% endfor %}") == "none");
  CHECK(Render("{% for i in range(6) if i is odd %}{{ loop.index0 }}:{{ i }} {% endfor %}") == "0:1 1:3 2:5 ");
  CHECK(Render("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ "
               "i }}{% endfor %}") == "0134");
  CHECK(Render("{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}") ==
        "3 7 a.b.");
  CHECK(Render("{% for i in [1, 2] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem is defined }}{{ loop.cycle('x', 'y') "
               "}}{% endfor %}") == "<1>Truex1<2>Falsey");
}

TEST_CASE("Template: assignments in a loop stay there, a namespace's do not", "[jinja]") {
  CHECK(Render("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}") == "21");
  CHECK(
      Render(
          "{% set ns = namespace(n=0, s='') %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}") ==
      "3");
  CHECK(Render("{% if true %}{% set x = 5 %}{% endif %}{{ x }}") == "5");
  CHECK(Render("{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]") == "[a1b]");
  CHECK(Render("{% set a, b = 1, 2 %}{{ a }}{{ b }}") == "12");
}

TEST_CASE("Template: macros", "[jinja]") {
  CHECK(Render("{% macro f(a, b='x') %}<{{ a }}{{ b }}>{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}") ==
        "<1x><12><43>");
  CHECK(Render("{% macro fact(n) %}{{ n * (fact(n - 1)|int) if n > 1 else 1 }}{% endmacro %}{{ fact(5) }}") == "120");
  CHECK_THAT(Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), Contains("too deeply"));
}

TEST_CASE("Template: white space is controlled as Transformers does", "[jinja]") {
  CHECK(Render("a\n{% if true %}\nb\n{% endif %}\nc\n") == "a\nb\nc");
  CHECK(Render("a  {%- if true -%}  b  {%- endif %}  c") == "ab  c");
  CHECK(Render("  {% if true %}x{% endif %}") == "x");
  CHECK(Render("  {%+ if true %}x{% endif %}") == "  x");
  CHECK(Render("x {% if true %}y{% endif %}") == "x y");
  CHECK(Render("{{ 1 }}\n{{ 2 }}\n") == "1\n2");
  CHECK(Render("a {#- c -#} b{# d #}\nc") == "abc");
  CHECK(Render("{{- ' x ' -}}  y") == " x y");
  CHECK(Render("{% raw %}{{ x }}{% endraw %}") == "{{ x }}");
  CHECK(Render("a\r\nb{{ {'a': {'b': 1}} }}") == "a\nb{'a': {'b': 1}}");
}

TEST_CASE("Template: filters", "[jinja]") {
  CHECK(Render("{{ x|tojson }}", R"({"x": {"b": [1, 2.5, "é\n"], "a": null}})") ==
        R"({"b": [1, 2.5, "é\n"], "a": null})");
  CHECK(Render("{{ x|tojson(indent=2) }}", R"({"x": {"b": [1], "c": {}}})") ==
        "{\n  \"b\": [\n    1\n  ],\n  \"c\": {}\n}");
  CHECK(
      Render(
          "{{ ' a '|trim }}|{{ 'abc'|upper }}|{{ [1, 2]|length }}|{{ missing|default('d') }}|{{ ''|d('e', true) }}") ==
      "a|ABC|2|d|e");
  CHECK(Render("{{ [3, 1, 2]|sort|join(', ') }}|{{ [1, 2]|first }}|{{ [1, 2]|last }}|{{ 'ab'|list }}|{{ [1, "
               "1]|unique|list }}") == "1, 2, 3|1|2|['a', 'b']|[1]");
  CHECK(Render("{{ x|map(attribute='n')|join }}|{{ x|selectattr('n', 'equalto', 2)|list|length }}|{{ "
               "x|rejectattr('m')|list|length }}",
               R"({"x": [{"n": 1}, {"n": 2, "m": 1}]})") == "12|1|1");
  CHECK(Render(
            "{{ ['a', 'b']|map('upper')|list }}|{{ [1, none]|select('none')|list }}|{{ {'b': 1, 'a': 2}|dictsort }}") ==
        "['A', 'B']|[None]|[['a', 2], ['b', 1]]");
  CHECK(Render("{{ 'a\nb'|indent(2) }}|{{ '7'|int + 1 }}|{{ 2.5|round }}|{{ '1.5'|float }}|{{ [1, 2]|sum }}|{{ [1, "
               "5]|max }}") == "a\n  b|8|2.0|1.5|3|5");
  CHECK(Render("{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}|{{ '<a>'|e }}|{{ 5|string + '!' }}") ==
        "a1|&lt;a&gt;|5!");
}

TEST_CASE("Template: tests", "[jinja]") {
  CHECK(Render("{{ 'a' is string }}{{ 1 is string }}{{ {} is mapping }}{{ [] is iterable }}{{ 1 is number }}{{ x is "
               "undefined }}") == "TrueFalseTrueTrueTrueTrue");
  CHECK(Render("{{ 4 is divisibleby 2 }}{{ 3 is even }}{{ true is true }}{{ 1 is true }}{{ 2 is in [2] }}{{ none is "
               "none }}") == "TrueFalseTrueFalseTrueTrue");
  CHECK(Render("{% if x is defined and x %}a{% elif y is not defined %}b{% else %}c{% endif %}") == "b");
}

TEST_CASE("Template: functions", "[jinja]") {
  CHECK(Render("{{ strftime_now('%Y')|length }}") == "4");
  CHECK(Render("{{ range(1, 7, 2)|list }}{{ range(3, 0, -1)|list }}{{ dict(a=1).a }}") == "[1, 3, 5][3, 2, 1]1");
  CHECK_THAT(Render("\n{{ raise_exception('roles must alternate') }}"),
             Contains("INVALID_ARGUMENT") && Contains("line 2") && Contains("roles must alternate"));
}

TEST_CASE("Template: errors name the line and the reason", "[jinja]") {
  CHECK_THAT(Render("a\nb {{ x.y.z }}", R"({"x": {}})"), Contains("line 2") && Contains("'y' is undefined"));
  CHECK_THAT(Render("{{ 1 + 'a' }}"), Contains("'+' does not work on 'int' and 'str'"));
  CHECK_THAT(Render("{{ x|nonsense }}"), Contains("filter 'nonsense' is not supported"));
  CHECK_THAT(Render("{% include 'x' %}"), Contains("tag 'include' is not supported"));
  CHECK_THAT(Render("{% if x %}"), Contains("endif"));
  CHECK_THAT(Render("{{ (1 }}"), Contains("expected ')'"));
  CHECK_THAT(Render("{{ 'abc }}"), Contains("not closed"));
  CHECK_THAT(Render("{{ [].append(1) }}"), Contains("cannot be changed"));
  CHECK_THAT(Render("{{ 1 // 0 }}"), Contains("division by zero"));
  CHECK_THAT(Render("{{ 9223372036854775807 + 1 }}"), Contains("too large"));
}

TEST_CASE("Template: hostile templates end with an error", "[jinja]") {
  CHECK_THAT(Render("{% for a in range(1000000) %}{% for b in range(1000000) %}{% endfor %}{% endfor %}"),
             Contains("steps"));
  CHECK_THAT(Render("{{ 'a' * 100000000000 }}"), Contains("too long"));
  CHECK_THAT(Render("{{ range(100000000000) }}"), Contains("too long"));
  CHECK_THAT(
      Render("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
      Contains("too long"));
  CHECK_THAT(Render("{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
             Contains("nested too deeply"));
  CHECK_THAT(Render("{% set ns = namespace() %}{% set ns.x = [ns].count %}{% for i in range(100000) %}{% set ns.x = "
                    "[ns.x].count %}{% endfor %}"),
             Contains("nested too deeply"));
  CHECK_THAT(Render("{{ " + std::string(100'000, '(') + "1 }}"), Contains("nested too deeply"));
  std::string sum = "1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  CHECK_THAT(Render("{{ " + sum + " }}"), Contains("too long"));
  std::string nots;
  for (int i = 0; i < 100'000; ++i) nots += "not ";
  CHECK_THAT(Render("{{ " + nots + "1 }}"), Contains("nested too deeply"));
  std::string ifs;
  for (int i = 0; i < 100'000; ++i) ifs += "{% if 1 %}";
  CHECK_THAT(Render(ifs), Contains("nested too deeply"));
  CHECK(Render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}") == "<Namespace>");
}

}  // namespace troupe::jinja
