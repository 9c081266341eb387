package bounded

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// endless counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += int64(len(p))
	return len(p), nil
}

func TestABudgetIsForAllReadersTogether(t *testing.T) {
	exceeded := errors.New("too much")
	b := NewBudget(100_000, exceeded)
	first, err := io.ReadAll(io.LimitReader(b.Reader(&endless{}), 60_000))
	if err != nil || len(first) != 60_000 {
		t.Fatalf("%d bytes, %v", len(first), err)
	}
	source := &endless{}
	second, err := io.ReadAll(b.Reader(source))
	if !errors.Is(err, exceeded) || len(second) != 40_000 || source.read != 40_001 {
		t.Errorf("%d bytes of %d that were read, %v", len(second), source.read, err)
	}
	if _, err := b.Reader(source).Read(make([]byte, 1)); !errors.Is(err, exceeded) || source.read != 40_001 {
		t.Errorf("%d bytes were read, %v", source.read, err)
	}
	b.Renew()
	if all, err := io.ReadAll(b.Reader(strings.NewReader("text"))); string(all) != "text" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
}

func TestValuesAreCountedWithoutParsing(t *testing.T) {
	for text, want := range map[string]int{
		`{"a": [1, 2], "b": {}}`:        7, // the colons before a space too
		`[[],[],[]]`:                    6,
		"a: 1\nb:\n- x\n- y\n":          4,
		"name: a-b-c\nat: 12:30:01\n":   2,
		"image: example.org:5000/a:1.0": 1,
		strings.Repeat("[", 100):        100,
		"? a\n: b\n":                    2,
		"plain text":                    0,
		"- - - -\n":                     4,
		"f:metadata:\n  f:name: {}\n":   3,
	} {
		if got := Values([]byte(text)); got != want {
			t.Errorf("%q has %d values, want %d", text, got, want)
		}
	}
}

// bombs are documents of which each is small, and stands for much.
func bombs() map[string]string {
	nested := "a0: &a0 " + strings.Repeat("x", 1000) + "\n"
	for i := 1; i <= 9; i++ {
		nested += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return map[string]string{
		"nested aliases":               nested,
		"many aliases of a large text": "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n",
		"merged maps":                  strings.NewReplacer("[", "{<<: [", "]", "]}").Replace(nested),
		"an alias of itself":           "a: &a [*a]\n",
		"aliases of each other":        "a: &a [&b [*a], *b]\n",
		"many values":                  "[" + strings.Repeat("0,", MaxValues+1) + "0]",
		"many items":                   strings.Repeat("- \n", MaxValues+1),
		"many keys":                    strings.Repeat("a:\n", MaxValues+1),
		"deep JSON":                    strings.Repeat("[", MaxValues) + strings.Repeat("]", MaxValues),
		"deep maps in JSON":            strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"deep items":                   strings.Repeat("- ", 100_000) + "1\n",
		"one large text":               "a: " + strings.Repeat("x", 2<<20) + "\n",
	}
}

func TestBombsAreRefusedInLittleMemory(t *testing.T) {
	for name, text := range bombs() {
		var err error
		if got := allocated(func() { err = Check([]byte(text), 1<<20) }); got > 64<<20 {
			t.Errorf("%s: Check allocated %d bytes for a document of %d", name, got, len(text))
		}
		parsed := allocated(func() { _, err = Parse([]byte(text), 1<<20) })
		if err == nil || parsed > 64<<20 {
			t.Errorf("%s: Parse allocated %d bytes for a document of %d: %v", name, parsed, len(text), err)
		}
	}
}

// allocated returns how many bytes a function allocates, whether they are kept or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestDocumentsWithFewAliasesAreParsed(t *testing.T) {
	for _, text := range []string{"", "a: &a {x: 1}\nb: {<<: *a}\nc: [*a, *a]\n", "a: 2 * 3\n", `{"a": null}`} {
		if _, err := Parse([]byte(text), 100); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if err := Check([]byte(text), 100); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
