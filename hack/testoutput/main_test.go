package main

import (
	"strings"
	"testing"
)

func TestOutputOfTests(t *testing.T) {
	const in = `{"Action":"build-output","ImportPath":"p [p.test]","Output":"p/a.go:1: undefined: x\n"}
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: a log of a test that passes\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: there is no browser: install one\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:5: got 1\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- FAIL: TestC (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
{"Action":"output","Package":"r","Test":"TestD","Output":"panic: no\n"}
{"Action":"output","Package":"r","Output":"FAIL\tr\t0.1s\n"}
{"Action":"fail","Package":"r"}
text that is not JSON
`
	var out strings.Builder
	skipped, err := convert(strings.NewReader(in), &out)
	if err != nil {
		t.Fatal(err)
	}
	const want = "p/a.go:1: undefined: x\n    c_test.go:5: got 1\n--- FAIL: TestC (0.00s)\nok  \tp\t0.1s\n?   \tq\t[no test files]\nFAIL\tr\t0.1s\npanic: no\ntext that is not JSON\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if len(skipped) != 1 || skipped[0] != "p TestB: there is no browser: install one" {
		t.Errorf("skipped are %q", skipped)
	}
}
