// SPDX-License-Identifier: Apache-2.0
// TROUPE_FOR_EACH_(Macro, a, b, c): Macro(a), Macro(b), Macro(c), with up to 64 names.
#pragma once

// A list with commas: one rescan handles four levels of recursion more than 64 elements need.
#define TROUPE_PARENS_ ()
#define TROUPE_EXPAND_(...) TROUPE_EXPAND3_(TROUPE_EXPAND3_(TROUPE_EXPAND3_(TROUPE_EXPAND3_(__VA_ARGS__))))
#define TROUPE_EXPAND3_(...) TROUPE_EXPAND2_(TROUPE_EXPAND2_(TROUPE_EXPAND2_(TROUPE_EXPAND2_(__VA_ARGS__))))
#define TROUPE_EXPAND2_(...) TROUPE_EXPAND1_(TROUPE_EXPAND1_(TROUPE_EXPAND1_(TROUPE_EXPAND1_(__VA_ARGS__))))
#define TROUPE_EXPAND1_(...) __VA_ARGS__
#define TROUPE_FOR_EACH_(Macro, ...) __VA_OPT__(TROUPE_EXPAND_(TROUPE_FOR_EACH_STEP_(Macro, __VA_ARGS__)))
#define TROUPE_FOR_EACH_STEP_(Macro, First, ...) \
  Macro(First) __VA_OPT__(, TROUPE_FOR_EACH_AGAIN_ TROUPE_PARENS_(Macro, __VA_ARGS__))
#define TROUPE_FOR_EACH_AGAIN_() TROUPE_FOR_EACH_STEP_
