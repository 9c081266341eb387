package patchandtransform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
)

// transformed reads a transform as an author writes it and applies it to a value.
func transformed(t *testing.T, text string, value any) (any, error) {
	t.Helper()
	var problems diag.List
	var one transform
	strict.Decode(functiontest.Object(t, text), &one, "", &problems)
	validator{problems: &problems}.transform("", &one)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return apply([]transform{one}, value)
}

// parsed reads YAML as Kubernetes does.
func TestTransforms(t *testing.T) {
	cases := map[string]struct {
		transform string
		in, want  any
		err       string
	}{
		"Multiplying an integer gives an integer":    {"{type: math, math: {type: Multiply, multiply: 3}}", int64(2), int64(6), ""},
		"Multiplying a float gives a float":          {"{type: math, math: {type: Multiply, multiply: 3}}", 1.5, 4.5, ""},
		"A product that no integer holds is a float": {"{type: math, math: {type: Multiply, multiply: 4}}", int64(4611686018427387904), 18446744073709551616.0, ""},
		"So is a negative one":                       {"{type: math, math: {type: Multiply, multiply: -6}}", int64(4611686018427387904), -27670116110564327424.0, ""},
		"So is the least integer's opposite":         {"{type: math, math: {type: Multiply, multiply: -1}}", int64(-9223372036854775808), 9223372036854775808.0, ""},
		"The largest integer is one":                 {"{type: math, math: {type: Multiply, multiply: 7}}", int64(1317624576693539401), int64(9223372036854775807), ""},
		"The least integer is one":                   {"{type: math, math: {type: Multiply, multiply: 2}}", int64(-4611686018427387904), int64(-9223372036854775808), ""},
		"Nothing of anything is nothing":             {"{type: math, math: {type: Multiply, multiply: 0}}", int64(9223372036854775807), int64(0), ""},
		"Text cannot be multiplied": {
			"{type: math, math: {type: Multiply, multiply: 3}}", "2", nil,
			"transform at index 0 returned error: math transform could not resolve: input is required to be a number for math transformer, got string",
		},
		"What is below the least becomes the least":      {"{type: math, math: {type: ClampMin, clampMin: 5}}", int64(2), int64(5), ""},
		"What is above the least stays":                  {"{type: math, math: {type: ClampMin, clampMin: 5}}", int64(7), int64(7), ""},
		"A float that is clamped becomes an integer":     {"{type: math, math: {type: ClampMax, clampMax: 5}}", 6.5, int64(5), ""},
		"A float is compared without its fraction":       {"{type: math, math: {type: ClampMax, clampMax: 5}}", 5.5, 5.5, ""},
		"A float beyond all integers is clamped":         {"{type: math, math: {type: ClampMax, clampMax: 5}}", 1e19, int64(5), ""},
		"A float below all integers is clamped":          {"{type: math, math: {type: ClampMin, clampMin: 5}}", -1e19, int64(5), ""},
		"A float beyond all integers is above the least": {"{type: math, math: {type: ClampMin, clampMin: 5}}", 1e19, 1e19, ""},
		"A map finds a text":                             {"{type: map, map: {small: db.t3.micro}}", "small", "db.t3.micro", ""},
		"A map's number is a float until it is written":  {"{type: map, map: {small: 20}}", "small", float64(20), ""},
		"A map's object is found":                        {"{type: map, map: {small: {size: [1]}}}", "small", map[string]any{"size": []any{1.0}}, ""},
		"A map without the key is an error":              {"{type: map, map: {small: 1}}", "large", nil, "transform at index 0 returned error: map transform could not resolve: key large is not found in map"},
		"A map takes no numbers":                         {"{type: map, map: {'1': a}}", int64(1), nil, "transform at index 0 returned error: map transform could not resolve: type int64 is not supported for map transform"},
		"The first pattern that matches counts":          {"{type: match, match: {patterns: [{literal: a, result: 1}, {type: regexp, regexp: '^a', result: 2}]}}", "a", 1.0, ""},
		"A pattern can be a regular expression":          {"{type: match, match: {patterns: [{type: literal, literal: a, result: 1}, {type: regexp, regexp: '^a', result: two}]}}", "ab", "two", ""},
		"Where none matches there is the fallback":       {"{type: match, match: {patterns: [{literal: a, result: 1}], fallbackValue: {x: z}}}", "b", map[string]any{"x": "z"}, ""},
		"Where none matches there can be the input":      {"{type: match, match: {patterns: [{literal: a, result: 1}], fallbackTo: Input}}", "b", "b", ""},
		"A pattern that matches needs neither fallback":  {"{type: match, match: {patterns: [{literal: a, result: 1}], fallbackTo: Input, fallbackValue: z}}", "a", 1.0, ""},
		"Where none matches there can't be two fallbacks": {
			"{type: match, match: {patterns: [{literal: a, result: 1}], fallbackTo: Input, fallbackValue: z}}", "b", nil,
			"transform at index 0 returned error: match transform could not resolve: cannot fall back to both: fallbackTo is Input, and there is a fallbackValue",
		},
		"A fallback of null is none":                       {"{type: match, match: {patterns: [{literal: a, result: 1}], fallbackTo: Input, fallbackValue: null}}", "b", "b", ""},
		"Without a fallback there is null":                 {"{type: match, match: {patterns: [{literal: a, result: 1}]}}", "b", nil, ""},
		"Only text can be matched":                         {"{type: match, match: {patterns: [{literal: a, result: 1}]}}", int64(1), nil, "transform at index 0 returned error: match transform could not resolve: cannot match pattern at index 0: unsupported input type 'int64'"},
		"A text is formatted":                              {"{type: string, string: {type: Format, fmt: 'bucket-%s'}}", "logs", "bucket-logs", ""},
		"An integer is formatted as one":                   {"{type: string, string: {type: Format, fmt: '%02d'}}", int64(7), "07", ""},
		"A format for another type says so in the text":    {"{type: string, string: {type: Format, fmt: '%d'}}", 7.5, "%!d(float64=7.5)", ""},
		"A format of integers is for whole numbers":        {"{type: string, string: {type: Format, fmt: 'db-%03d'}}", 7.0, "db-007", ""},
		"A format of fractions is for whole numbers":       {"{type: string, string: {type: Format, fmt: '%.1f'}}", int64(7), "7.0", ""},
		"A format of anything leaves a number as it is":    {"{type: string, string: {type: Format, fmt: '%v'}}", int64(123456789012), "123456789012", ""},
		"A percent sign can stand before a star":           {"{type: string, string: {type: Format, fmt: '100%% * %s'}}", "x", "100% * x", ""},
		"A percent sign can stand before a long number":    {"{type: string, string: {type: Format, fmt: '100%%123456 %s'}}", "x", "100%123456 x", ""},
		"A format can be longer than a page":               {"{type: string, string: {type: Format, fmt: '" + strings.Repeat("a", 5000) + "%s'}}", "x", strings.Repeat("a", 5000) + "x", ""},
		"A number without a verb is told as Go tells it":   {"{type: string, string: {type: Format, fmt: 'n'}}", int64(5), "n%!(EXTRA int64=5)", ""},
		"A float without a verb is told as Go tells it":    {"{type: string, string: {type: Format, fmt: 'n'}}", 7.0, "n%!(EXTRA float64=7)", ""},
		"A number's type is that of Go":                    {"{type: string, string: {type: Format, fmt: '%T'}}", int64(5), "int64", ""},
		"A verb that no number has is told as Go tells it": {"{type: string, string: {type: Format, fmt: '%p'}}", int64(5), "%!p(int64=5)", ""},
		"A width can't be an argument": {
			"{type: string, string: {type: Format, fmt: '%*d'}}", int64(1), nil,
			"string.fmt: must not take a width from an argument (*)",
		},
		"A width has an end": {
			"{type: string, string: {type: Format, fmt: '%[1]40000s%[1]40000s'}}", "x", nil,
			"string.fmt: pads to more than 65536 characters",
		},
		"A text is put in upper case":                                    {"{type: string, string: {type: Convert, convert: ToUpper}}", "aB", "AB", ""},
		"A text is put in lower case":                                    {"{type: string, string: {type: Convert, convert: ToLower}}", "aB", "ab", ""},
		"A text is encoded":                                              {"{type: string, string: {type: Convert, convert: ToBase64}}", "hi", "aGk=", ""},
		"A text is decoded":                                              {"{type: string, string: {type: Convert, convert: FromBase64}}", "aGk=", "hi", ""},
		"What is not encoded cannot be decoded":                          {"{type: string, string: {type: Convert, convert: FromBase64}}", "!", nil, "transform at index 0 returned error: string transform could not resolve: string is not valid base64: illegal base64 data at input byte 0"},
		"Anything becomes JSON":                                          {"{type: string, string: {type: Convert, convert: ToJson}}", map[string]any{"b": int64(1), "a": "x"}, `{"a":"x","b":1}`, ""},
		"A text becomes JSON with quotes":                                {"{type: string, string: {type: Convert, convert: ToJson}}", "x", `"x"`, ""},
		"A text is hashed without quotes by SHA-1":                       {"{type: string, string: {type: Convert, convert: ToSha1}}", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d", ""},
		"A text is hashed by SHA-256":                                    {"{type: string, string: {type: Convert, convert: ToSha256}}", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", ""},
		"A text has a checksum":                                          {"{type: string, string: {type: Convert, convert: ToAdler32}}", "abc", "38600999", ""},
		"A number is summed as JSON":                                     {"{type: string, string: {type: Convert, convert: ToAdler32}}", int64(42), "10223719", ""},
		"A prefix is trimmed":                                            {"{type: string, string: {type: TrimPrefix, trim: 'arn:'}}", "arn:aws", "aws", ""},
		"A suffix is trimmed":                                            {"{type: string, string: {type: TrimSuffix, trim: -a}}", "eu-a", "eu", ""},
		"A regular expression takes the whole match":                     {"{type: string, string: {type: Regexp, regexp: {match: '[0-9]+'}}}", "a12b", "12", ""},
		"A regular expression takes a group":                             {"{type: string, string: {type: Regexp, regexp: {match: '(a)([0-9]+)', group: 2}}}", "a12b", "12", ""},
		"A regular expression of too many steps is an error":             {"{type: string, string: {type: Regexp, regexp: {match: '(x+x+)+y'}}}", strings.Repeat("x", 1<<20), nil, tooManySteps("string transform could not resolve")},
		"A replacement of too many steps is an error":                    {"{type: string, string: {type: Regexp, regexp: {match: '(x+x+)+y', replace: ''}}}", strings.Repeat("x", 1<<20), nil, tooManySteps("string transform could not resolve")},
		"A match of too many steps is an error":                          {"{type: match, match: {patterns: [{type: regexp, regexp: '(x+x+)+y'}]}}", strings.Repeat("x", 1<<20), nil, tooManySteps("match transform could not resolve: cannot match pattern at index 0")},
		"A regular expression that misses is an error":                   {"{type: string, string: {type: Regexp, regexp: {match: x}}}", "a", nil, `transform at index 0 returned error: string transform could not resolve: regexp "x" had no matches for group 0`},
		"A list is joined":                                               {"{type: string, string: {type: Join, join: {separator: ','}}}", []any{"a", int64(1), true}, "a,1,true", ""},
		"Only a list is joined":                                          {"{type: string, string: {type: Join, join: {separator: ','}}}", "a", nil, "transform at index 0 returned error: string transform could not resolve: cannot join non-array values"},
		"All occurrences are replaced":                                   {"{type: string, string: {type: Replace, replace: {search: _, replace: '-'}}}", "a_b_c", "a-b-c", ""},
		"A text is converted to an integer":                              {"{type: convert, convert: {toType: int}}", "12", int64(12), ""},
		"A text is converted to a bool":                                  {"{type: convert, convert: {toType: bool}}", "true", true, ""},
		"A text is converted to a float":                                 {"{type: convert, convert: {toType: float64}}", "1.5", 1.5, ""},
		"A quantity is converted to a float":                             {"{type: convert, convert: {toType: float64, format: quantity}}", "500m", 0.5, ""},
		"A whole number is one already where a quantity becomes a float": {"{type: convert, convert: {toType: float64, format: quantity}}", int64(3), float64(3), ""},
		"A whole number is one already where JSON becomes a float":       {"{type: convert, convert: {toType: float64, format: json}}", int64(3), float64(3), ""},
		"A fraction is one already where a quantity becomes a float":     {"{type: convert, convert: {toType: float64, format: quantity}}", 1.5, 1.5, ""},
		"A quantity with a large exponent is refused": {
			"{type: convert, convert: {toType: float64, format: quantity}}", "1e-99999999", nil,
			"transform at index 0 returned error: convert transform could not resolve: the exponent of a quantity must be between -999 and 999",
		},
		"A whole number is no quantity that becomes an integer": {
			"{type: convert, convert: {toType: int64, format: quantity}}", int64(3), nil,
			"transform at index 0 returned error: convert transform could not resolve: conversion from number to int64 is not supported with format quantity",
		},
		"A whole number is no JSON that becomes an integer": {
			"{type: convert, convert: {toType: int, format: json}}", int64(3), nil,
			"transform at index 0 returned error: convert transform could not resolve: conversion from number to int is not supported with format json",
		},
		"A whole number that becomes an integer stays": {"{type: convert, convert: {toType: int64}}", int64(3), int64(3), ""},
		"A float beyond all integers is not converted to one": {
			"{type: convert, convert: {toType: int64}}", 1e19, nil,
			"transform at index 0 returned error: convert transform could not resolve: 1e+19 is beyond the range of int64",
		},
		"A float below all integers is not converted to one": {
			"{type: convert, convert: {toType: int64}}", -1e19, nil,
			"transform at index 0 returned error: convert transform could not resolve: -1e+19 is beyond the range of int64",
		},
		"JSON is converted to an object":                 {"{type: convert, convert: {toType: object, format: json}}", `{"a":1}`, map[string]any{"a": 1.0}, ""},
		"JSON is converted to a list":                    {"{type: convert, convert: {toType: array, format: json}}", `[1,"a"]`, []any{1.0, "a"}, ""},
		"An integer is converted to text":                {"{type: convert, convert: {toType: string}}", int64(5), "5", ""},
		"An integer is converted to a bool, true as 1":   {"{type: convert, convert: {toType: bool}}", int64(2), false, ""},
		"A float is converted to text as short as it is": {"{type: convert, convert: {toType: string}}", 1e21, "1000000000000000000000", ""},
		"A float is converted to an integer by cutting":  {"{type: convert, convert: {toType: int64}}", -1.9, int64(-1), ""},
		"A bool is converted to an integer":              {"{type: convert, convert: {toType: int64}}", true, int64(1), ""},
		"A bool is converted to text":                    {"{type: convert, convert: {toType: string}}", true, "true", ""},
		"What has the type already stays":                {"{type: convert, convert: {toType: string, format: quantity}}", "x", "x", ""},
		"A list is not converted":                        {"{type: convert, convert: {toType: string}}", []any{}, nil, "transform at index 0 returned error: convert transform could not resolve: invalid input type []interface {}"},
		"A format that does not fit is an error":         {"{type: convert, convert: {toType: object}}", "{}", nil, "transform at index 0 returned error: convert transform could not resolve: conversion from string to object is not supported with format none"},
		"A text of no number is an error":                {"{type: convert, convert: {toType: int64}}", "x", nil, `transform at index 0 returned error: convert transform could not resolve: strconv.ParseInt: parsing "x": invalid syntax`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := transformed(t, tc.transform, tc.in)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if diff := cmp.Diff(tc.err, said); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextsThatWouldGrowWithoutEnd(t *testing.T) {
	long := make([]byte, maxText/2)
	for i := range long {
		long[i] = 'a'
	}
	for name, text := range map[string]string{
		"Replacing each letter by many": "{type: string, string: {type: Replace, replace: {search: a, replace: bbbbbb}}}",
		"Repeating it in a format":      "{type: string, string: {type: Format, fmt: '%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s%[1]s'}}",
		"Encoding it until it is long":  "{type: string, string: {type: Format, fmt: '%x%[1]x'}}",
	} {
		if out, err := transformed(t, text, string(long)); err == nil {
			t.Errorf("%s: got a text of %d bytes", name, len(out.(string)))
		}
	}
}

func TestBadIndexesTellNoTypesOfOurs(t *testing.T) {
	for text, want := range map[string]string{
		"%[s%T": "%!s(BADINDEX)int64", "%[9]s%T": "%!s(BADINDEX)int64", "%[1]2d%T": "%!d(BADINDEX)int64", "%[x]s%T": "%!s(BADINDEX)int64", "%[1].2d%T": "%!d(BADINDEX)int64",
	} {
		if out, err := format(text, int64(5)); err != nil || out != want {
			t.Errorf("%q is %s, %v; want %s", text, out, err, want)
		}
	}
}

// TestFormatsTellNoTypesOfOurs makes formats of everything that means something in one: a
// value is written as it is, or with a type of Go's own.
func TestFormatsTellNoTypesOfOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"%", "%", "[", "]", "1", "2", "9", ".", "+", "-", "#", "0", " ", "s", "d", "v", "T", "w", "p", "x", "f", "q", "y",
		}), 0, 12).Draw(t, "format"), "")
		if parseFormat(text).padding > maxPadding {
			return
		}
		values := rapid.SliceOfN(rapid.SampledFrom([]any{int64(5), 0.5, 7.0, "x", true, nil}), 0, 3).Draw(t, "values")
		if out, err := format(text, values...); err != nil || strings.Contains(out, "patchandtransform") {
			t.Errorf("%q of %v: %s, %v", text, values, out, err)
		}
	})
}

// tooManySteps is the error of the first of some transforms.
func tooManySteps(context string) string {
	return "transform at index 0 returned error: " + context + ": a regular expression of 10 instructions needs too many steps for a text of 1048576 bytes: " +
		"shorten the text or the pattern; each counted repetition such as {1,100} counts as so many copies"
}
